// SPDX-License-Identifier: Apache-2.0
// What one rank reads for all, and converts for itself, takes limited memory beside the state.
#include "replicas.hpp"

#include <cairn/load/detail/read_once/broadcast_parts.hpp>
#include <cairn/load/detail/read_once/shared_reads.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(read_again)

using namespace replicas;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::size_t kept = cairn::detail::shared_reads::most_kept_bytes;
constexpr std::size_t sent_at_once = cairn::detail::part_broadcaster::batch_bytes;

/// What was read a second time by the same rank.
struct reads {
    std::mutex m{};
    std::map<std::string, std::size_t> bytes{};  ///< Of each tensor.
    std::size_t most = 0;                        ///< In one call.
};

enum class fault { none, thrown, told, uncommitted };

/// Notes what it reads again, or fails then.
class watched_reader : public cairn::torch_reader {
public:
    watched_reader(const cairn::memory_store& from, reads& r, fault f = fault::none)
        : cairn::torch_reader(from), reads_(&r), fault_(f) {}

    void read_data(const cairn::load_plan& plan, const cairn::read_target& target,
                   cairn::completion<cairn::read_result> done) {
        bool again = false;
        std::size_t bytes = 0;
        for (auto const& i : plan.items) {
            auto const n = static_cast<std::size_t>(i.shape.product()) * sizeof(float);
            if (std::find(seen_.begin(), seen_.end(), i.fqn) != seen_.end()) {
                std::lock_guard const lock(reads_->m);
                reads_->bytes[i.fqn] += n;
                bytes += n;
                again = true;
            }
        }
        for (auto const& i : plan.items) seen_.push_back(i.fqn);
        {
            std::lock_guard const lock(reads_->m);
            reads_->most = std::max(reads_->most, bytes);
        }
        if (again && fault_ == fault::thrown) throw std::runtime_error("no second time");
        if (again && fault_ == fault::told)
            return done.fail(std::make_exception_ptr(std::runtime_error("no second time")));
        target_ = target;
        if (again && fault_ == fault::uncommitted)
            target_.commit_tensor = [](const cairn::read_item&, cairn::tensor_view) {};
        cairn::torch_reader::read_data(plan, target_, std::move(done));
    }

private:
    reads* reads_;
    fault fault_;
    std::vector<std::string> seen_{};
    cairn::read_target target_{};
};

/// Tensors of so many bytes each, called "t0", "t1" …; every element differs from its neighbours.
struct tensors {
    std::vector<std::vector<float>> all{};

    explicit tensors(const std::vector<std::size_t>& bytes) {
        for (auto const n : bytes) {
            std::vector<float> t(n / sizeof(float));
            for (std::size_t i = 0; i < t.size(); ++i)
                t[i] = static_cast<float>((i + all.size()) % 1'000'003);
            all.push_back(std::move(t));
        }
    }
    cairn::memory_store saved() {
        cairn::memory_store memory;
        cairn::state_dict sd;
        for (std::size_t i = 0; i < all.size(); ++i) sd["t" + std::to_string(i)] = all[i];
        cairn::save(sd, "c", memory);
        return memory;
    }
    std::vector<std::exception_ptr> load(const cairn::memory_store& from, reads& r,
                                         fault f = fault::none) const {
        return try_with_planes(2, [&](member& me, auto& plane) {
            std::vector<std::vector<double>> to;
            for (auto const& t : all) to.emplace_back(t.size());
            cairn::state_dict sd;
            for (std::size_t i = 0; i < to.size(); ++i) sd["t" + std::to_string(i)] = to[i];
            cairn::load(sd, "c", how(always), me, plane, watched_reader(from, r, f));
            for (std::size_t i = 0; i < to.size(); ++i)
                must(std::equal(to[i].begin(), to[i].end(), all[i].begin()), "other elements");
        });
    }
};

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_not_kept_is_sent_in_pieces) {
    // The first two for one rank, the third for the other one.
    tensors const t({kept - mib, mib * 3 / 2, kept + mib});
    auto const from = tensors(t).saved();
    reads r;
    for (auto const& e : t.load(from, r))
        if (e) std::rethrow_exception(e);
    BOOST_TEST(r.bytes["t0"] + r.bytes["t1"] != 0u, "both are kept");
    BOOST_TEST((r.bytes["t0"] == 0u || r.bytes["t1"] == 0u), "neither is kept");
    BOOST_TEST(r.bytes["t2"] == kept + mib, "each element once");
    BOOST_TEST(r.most <= sent_at_once);
}

BOOST_AUTO_TEST_CASE(small_parts_are_read_again_together) {
    tensors const t(std::vector<std::size_t>(48, mib * 3 / 2));
    auto const from = tensors(t).saved();
    reads r;
    for (auto const& e : t.load(from, r))
        if (e) std::rethrow_exception(e);
    // Of 24 parts for each rank there is room for 21.
    BOOST_TEST(r.bytes.size() == 6u);
    for (auto const& [fqn, bytes] : r.bytes) BOOST_TEST(bytes == mib * 3 / 2);
    BOOST_TEST(r.most > mib * 3 / 2);
    BOOST_TEST(r.most <= sent_at_once);
}

BOOST_AUTO_TEST_CASE(what_there_is_room_for_is_kept) {
    tensors const t({mib, mib, 4 * mib, 20 * mib, 6 * mib});
    auto const from = tensors(t).saved();
    reads r;
    for (auto const& e : t.load(from, r))
        if (e) std::rethrow_exception(e);
    BOOST_TEST(r.bytes.empty());
}

BOOST_AUTO_TEST_CASE(a_second_read_that_fails_is_the_error_of_all) {
    tensors const t({kept + mib});
    auto const from = tensors(t).saved();
    for (auto const f : {fault::thrown, fault::told, fault::uncommitted}) {
        reads r;
        auto const errors = t.load(from, r, f);
        BOOST_TEST(!r.bytes.empty());
        auto const* const words = f == fault::uncommitted ? "commits" : "no second time";
        for (auto const& e : errors) {
            BOOST_REQUIRE(e);
            BOOST_CHECK_EXCEPTION(std::rethrow_exception(e), cairn::error,
                                  [&](const cairn::error& x) {
                                      return std::string(x.what()).find(words) != std::string::npos;
                                  });
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
