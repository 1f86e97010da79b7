// SPDX-License-Identifier: Apache-2.0
// Memory that runs out while a file is written: the file is known, and does not stay.
#include "support/allocations.hpp"
#include "support/forwarding_store.hpp"
#include "support/sanitized.hpp"

#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(no_memory)

namespace {

using support::failing_allocation;

/// Which allocation fails, of those of the thread that writes a file.
struct shortage {
    std::uint64_t nth;
    std::optional<failing_allocation> now{};
    bool hit = false;
};

/// A store whose objects exist as soon as they are created, and stay if they are not finished, as a
/// file does whose process is killed. One allocation fails once the library has the handle.
class short_store : public support::forwarding_store<cairn::memory_store> {
public:
    class writer {
    public:
        writer(cairn::memory_store s, std::string_view name, std::uint64_t size, shortage& of)
            : store_(std::move(s)), name_(name), bytes_(static_cast<std::size_t>(size)), of_(&of) {}
        writer(writer&& other) noexcept
            : store_(std::move(other.store_)), name_(std::move(other.name_)),
              bytes_(std::move(other.bytes_)), of_(std::exchange(other.of_, nullptr)) {
            if (!of_->now) of_->now.emplace(failing_allocation::of::this_thread, of_->nth);
        }
        ~writer() {
            if (of_ == nullptr || !of_->now) return;
            of_->hit = of_->now->hit();
            of_->now.reset();
        }
        void write(std::uint64_t at, cairn::byte_span b) {
            std::copy(b.begin(), b.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(at));
        }
        void finish(bool) { store_.publish(name_, bytes_, std::nullopt); }

    private:
        cairn::memory_store store_;
        std::string name_;
        std::vector<std::byte> bytes_;
        shortage* of_;
    };

    short_store(cairn::memory_store s, shortage& of) : forwarding_store(std::move(s)), of_(&of) {}
    short_store at(const std::string& id) const { return {store_.at(id), *of_}; }
    writer create(std::string_view n, std::uint64_t size) {
        store_.create(n, size).finish(false);
        return {store_, n, size, *of_};
    }

private:
    shortage* of_;
};
static_assert(cairn::RelocatableStore<short_store>);

void save(cairn::memory_store base, float v) {
    std::vector<float> w(4, v);
    (void)cairn::save(cairn::state_dict{{"w", w}}, "c", base);
}

}  // namespace

/// Each allocation in turn, from the first after the file was created; sampled under sanitizers. A
/// later save finds nothing of it, or removes it.
BOOST_AUTO_TEST_CASE(a_lack_of_memory_leaves_no_file_that_nobody_knows) {
    support::failure_points allocations(2);
    for (bool const replaces : {false, true}) {
        auto nth = static_cast<std::uint64_t>(allocations.first());
        auto const stride = static_cast<std::uint64_t>(allocations.stride());
        for (bool hit = true; hit; nth += stride) {
            cairn::memory_store base;
            if (replaces) save(base, 1);
            shortage s{nth};
            std::vector<float> w(4, 2.0f);
            bool failed = false;
            try {
                (void)cairn::save(cairn::state_dict{{"w", w}}, "c", short_store(base, s));
            } catch (const cairn::error&) {
                failed = true;
            }
            hit = s.hit;
            if (nth == 0) BOOST_TEST(failed);
            if (!hit) BOOST_TEST(!failed);
            save(base, 3);
            auto place = base.at("c");
            std::string left;
            for (auto const& i : place.list()) left += " " + i.name;
            BOOST_TEST(place.list().size() == 2u, "allocation " << nth << ":" << left);
            BOOST_REQUIRE(nth < 10'000u);
        }
        BOOST_TEST(nth > 2u);
    }
}

BOOST_AUTO_TEST_SUITE_END()
