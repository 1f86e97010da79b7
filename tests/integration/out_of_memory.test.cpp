// SPDX-License-Identifier: Apache-2.0
// A verb that has no memory left to report a failure says nevertheless what it has done.
#include "support/allocations.hpp"
#include "support/forwarding_store.hpp"

#include <cairn/error.hpp>
#include <cairn/load.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(out_of_memory)

namespace {

constexpr std::size_t elements = 1000, content = elements * sizeof(float);

/// A store after which there is no memory: once a tensor was read, or the metadata published.
class exhausting_store : public support::forwarding_store<cairn::memory_store> {
public:
    using no_memory = std::optional<support::allocations>;
    template <class Handle>
    struct exhausting {
        Handle handle;
        no_memory* left;  ///< Null: not a data file.

        void read(std::uint64_t at, std::span<std::byte> into) {
            handle.read(at, into);
            if (left != nullptr && !*left && into.size() == content) left->emplace(0);
        }
        std::uint64_t size() { return handle.size(); }
    };

    exhausting_store(cairn::memory_store s, no_memory& left)
        : forwarding_store(std::move(s)), left_(&left) {}
    exhausting_store at(const std::string& id) const { return {store_.at(id), *left_}; }
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    auto open(std::string_view n) {
        auto h = store_.open(n);
        return exhausting<decltype(h)>{std::move(h), n.ends_with(".distcp") ? left_ : nullptr};
    }
    void publish(std::string_view n, cairn::byte_span b, std::optional<cairn::object_tag> m) {
        store_.publish(n, b, std::move(m));
        if (n == ".metadata") left_->emplace(0);
    }

private:
    no_memory* left_;
};

/// Runs a verb of which nothing can be told until there is memory again.
template <class F>
std::optional<cairn::error> error_of(exhausting_store::no_memory& left, F&& f) {
    try {
        f();
    } catch (const cairn::error& e) {
        left.reset();
        return e;
    } catch (...) {
        left.reset();
        BOOST_ERROR("not a cairn::error");
    }
    left.reset();
    return {};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_load_that_has_written_into_the_state_says_so) {
    cairn::memory_store base;
    std::vector<float> w(elements, 1);
    (void)cairn::save(cairn::state_dict{{"w", w}}, "c", base);
    w.assign(elements, 2);
    cairn::state_dict sd{{"w", w}};
    exhausting_store::no_memory left;
    exhausting_store store(base, left);
    auto const e = error_of(left, [&] { (void)cairn::load(sd, "c", store); });
    BOOST_REQUIRE(e);
    BOOST_TEST(w[0] == 1.0f);
    BOOST_TEST(e->state_modified());
    BOOST_TEST(e->code().message() ==
               make_error_code(boost::system::errc::not_enough_memory).message());
}

BOOST_AUTO_TEST_CASE(a_save_that_may_be_committed_says_so) {
    cairn::memory_store base;
    std::vector<float> w(elements, 1);
    cairn::state_dict sd{{"w", w}};
    exhausting_store::no_memory left;
    exhausting_store store(base, left);
    auto const e = error_of(left, [&] { (void)cairn::save(sd, "c", store); });
    BOOST_REQUIRE(e);
    BOOST_TEST(!base.at("c").tag(".metadata").text.empty());
    BOOST_TEST(e->code() == make_error_code(cairn::errc::outcome_unknown));
}

BOOST_AUTO_TEST_SUITE_END()
