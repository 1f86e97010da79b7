// SPDX-License-Identifier: Apache-2.0
// Who keeps plans: planners and writers that say that their plans may serve again, saves in the
// background, and checkpointers.
#include "archetype/keyed_planner.hpp"
#include "archetype/naming_writer.hpp"
#include "archetype/storage_reader.hpp"
#include "planned_states.hpp"
#include "support/wrapping_planner.hpp"

#include <cairn/async_save.hpp>
#include <cairn/checkpointer.hpp>

#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(plan_cache_parts)

namespace {

using planned_states::check_stored;
using planned_states::rank_memory;
using planned_states::usual;
constexpr std::chrono::seconds hang{30};  // no test waits for it, if all is well

/// Counts what a planner is asked for.
class counting_planner {
public:
    explicit counting_planner(int& global, std::vector<std::uint64_t>& hashes,
                              std::optional<std::string> key)
        : global_(&global), hashes_(&hashes), key_(std::move(key)) {}

    void set_up_save(const cairn::flat_state& s, int rank, bool coordinator) {
        inner_.set_up_save(s, rank, coordinator);
    }
    cairn::save_plan create_local_save_plan() { return inner_.create_local_save_plan(); }
    std::pair<std::vector<cairn::save_plan>, cairn::metadata> create_global_save_plan(
        std::vector<cairn::save_plan> all) {
        ++*global_;
        return inner_.create_global_save_plan(std::move(all));
    }
    cairn::save_plan finish_save_plan(cairn::save_plan plan) {
        hashes_->clear();
        for (auto const& i : plan.items)
            if (i.kind == cairn::item_kind::value) hashes_->push_back(i.value_hash);
        return plan;
    }
    cairn::item_data resolve_data(const cairn::write_item& i) { return inner_.resolve_data(i); }
    std::optional<std::string> plan_key() const { return key_; }

private:
    cairn::default_planner inner_{};
    int* global_;
    std::vector<std::uint64_t>* hashes_;
    std::optional<std::string> key_;
};
static_assert(cairn::KeyedSavePlanner<counting_planner>);

}  // namespace

BOOST_AUTO_TEST_CASE(a_planner_of_the_users_says_what_its_plans_depend_on) {
    cairn::memory_store store;
    cairn::plan_cache cache;
    int global = 0;
    std::vector<std::uint64_t> hashes, first;
    auto const save = [&](int step, std::optional<std::string> key) {
        rank_memory const mine(usual(1), 0, step);
        counting_planner planner(global, hashes, std::move(key));
        auto const r = cairn::save(mine.state, "c", planner, store, cache);
        check_stored(store, "c", usual(1), step);
        return r.plan_reused;
    };
    BOOST_TEST(!save(1, "one"));
    first = hashes;
    BOOST_TEST(save(2, "one"));
    BOOST_TEST(global == 1);
    BOOST_TEST(hashes.size() == first.size());
    BOOST_TEST((hashes != first));  // those of the second step
    BOOST_TEST(!save(3, "two"));
    BOOST_TEST(save(4, "two"));
    BOOST_TEST(!save(5, std::nullopt));
    BOOST_TEST(!save(6, std::nullopt));
    BOOST_TEST(global == 4);
    BOOST_TEST(save(7, "two"));  // as it was kept
}

BOOST_AUTO_TEST_CASE(a_planner_that_wraps_the_default_one_joins_tables_and_keeps_plans) {
    cairn::memory_store store;
    std::vector<cairn::plan_cache> caches(2);
    for (int step = 1; step < 4; ++step) {
        auto const all =
            support::on_ranks_that_stay(2, [&](cairn::thread_group::member& me, int rank) {
                rank_memory const mine(usual(2), rank, step);
                support::wrapping_planner planner;
                auto const r = cairn::save(mine.state, "c", me, planner, store,
                                           caches[static_cast<std::size_t>(rank)]);
                if (r.plan_reused != (step != 1)) throw std::runtime_error("another plan");
                if (planner.global != 0) throw std::runtime_error("a plan for all was asked for");
            });
        for (auto const& t : all) BOOST_TEST(t.ok(), support::words(all));
        check_stored(store, "c", usual(2), step);
    }
}

/// Of a planner and a writer, each must say that its plans may serve again.
BOOST_AUTO_TEST_CASE(parts_that_do_not_say_so_are_planned_anew) {
    namespace arch = cairn::archetype;
    auto const saves = [](auto make_planner, auto make_writer) {
        auto const at = std::make_shared<arch::shelf>();
        std::vector<cairn::plan_cache> caches(2);
        int reused = 0;
        for (int step = 1; step < 4; ++step) {
            std::mutex m;
            auto const all =
                support::on_ranks_that_stay(2, [&](cairn::thread_group::member& me, int rank) {
                    rank_memory const mine(usual(2), rank, step);
                    auto planner = make_planner();
                    auto writer = make_writer(at);
                    auto const r = cairn::save(mine.state, "c", me, planner, writer,
                                               caches[static_cast<std::size_t>(rank)]);
                    std::lock_guard const lock(m);
                    reused += r.plan_reused;
                });
            BOOST_TEST(all[0].ok(), support::words(all));
            std::vector<float> w(8);
            cairn::state_dict sd{
                {"net.sharded", cairn::tensor_view(cairn::dtype::f32, {4, 2}, w.data())}};
            arch::storage_reader reader(at);
            cairn::load(sd, "c", reader);
            for (std::int64_t i = 0; i < 8; ++i)
                BOOST_TEST(w[static_cast<std::size_t>(i)] ==
                           planned_states::element("net.sharded", usual(2), i, step));
        }
        return reused;
    };
    auto const keyed = [] { return arch::keyed_planner(); };
    auto const not_keyed = [] { return arch::save_planner(); };
    auto const naming = [](auto at) { return arch::naming_writer(at); };
    auto const not_naming = [](auto at) { return arch::storage_writer(at); };
    BOOST_TEST(saves(keyed, naming) == 4);
    BOOST_TEST(saves(not_keyed, naming) == 0);
    BOOST_TEST(saves(keyed, not_naming) == 0);
}

/// Plans of one planner, or for one writer, are of no use to another.
BOOST_AUTO_TEST_CASE(other_parts_are_planned_anew) {
    namespace arch = cairn::archetype;
    auto const at = std::make_shared<arch::shelf>();
    cairn::memory_store store;
    cairn::plan_cache cache;
    rank_memory const mine(usual(1), 0, 1);
    struct derived : cairn::torch_writer {
        using torch_writer::torch_writer;
    };
    static_assert(cairn::StorageWriter<derived> && !cairn::NamingWriter<derived>);
    struct other_planner : cairn::default_planner {};
    static_assert(cairn::SavePlanner<other_planner> && !cairn::KeyedSavePlanner<other_planner>);

    auto const reused = [&](auto planner, auto writer) {
        return cairn::save(mine.state, "c", planner, writer, cache).plan_reused;
    };
    int global = 0;
    std::vector<std::uint64_t> hashes;
    // Its key is that of the default planner.
    auto const counting = [&] { return counting_planner(global, hashes, "balanced"); };
    BOOST_TEST(!reused(cairn::default_planner(), cairn::torch_writer(store)));
    BOOST_TEST(reused(cairn::default_planner(), cairn::torch_writer(store)));
    BOOST_TEST(!reused(counting(), cairn::torch_writer(store)));
    BOOST_TEST(global == 1);
    BOOST_TEST(reused(counting(), arch::naming_writer(at)));
    BOOST_TEST(!reused(cairn::default_planner(), cairn::torch_writer(store)));
    BOOST_TEST(!reused(cairn::default_planner(), arch::storage_writer(at)));
    BOOST_TEST(!reused(cairn::default_planner(), derived(store)));
    BOOST_TEST(!reused(other_planner(), cairn::torch_writer(store)));
    check_stored(store, "c", usual(1), 1);
    BOOST_TEST(reused(cairn::default_planner(), cairn::torch_writer(store)));
}

/// What is forgotten while a save runs does not come back at its end.
BOOST_AUTO_TEST_CASE(what_is_forgotten_stays_forgotten) {
    cairn::memory_store store;
    cairn::plan_cache cache;
    rank_memory mine(usual(1), 0, 1);
    struct forgetting_planner {
        explicit forgetting_planner(cairn::plan_cache c) : cache(std::move(c)) {}
        cairn::default_planner inner{};
        cairn::plan_cache cache;
        void set_up_save(const cairn::flat_state& s, int rank, bool coordinator) {
            inner.set_up_save(s, rank, coordinator);
        }
        cairn::save_plan create_local_save_plan() { return inner.create_local_save_plan(); }
        std::pair<std::vector<cairn::save_plan>, cairn::metadata> create_global_save_plan(
            std::vector<cairn::save_plan> all) {
            return inner.create_global_save_plan(std::move(all));
        }
        cairn::save_plan finish_save_plan(cairn::save_plan plan) {
            cache.clear();
            return plan;
        }
        cairn::item_data resolve_data(const cairn::write_item& i) { return inner.resolve_data(i); }
        std::optional<std::string> plan_key() { return ""; }
    };
    for (int n = 0; n < 2; ++n) {
        auto const r = cairn::save(mine.state, "c", forgetting_planner(cache), store, cache);
        BOOST_TEST(!r.plan_reused);
        BOOST_TEST(cache.empty());
    }
}

BOOST_AUTO_TEST_CASE(saves_in_the_background_share_the_cache) {
    cairn::memory_store store;
    cairn::plan_cache cache;
    for (int step = 1; step < 4; ++step) {
        rank_memory mine(usual(1), 0, step);
        auto pending = cairn::async_save(mine.state, "c", store, cache, boost::asio::use_future);
        auto const r = pending.get().wait();
        BOOST_TEST(r.plan_reused == (step > 1));
        check_stored(store, "c", usual(1), step);
    }
}

BOOST_AUTO_TEST_CASE(a_checkpointer_has_a_cache_of_its_own) {
    constexpr int ranks = 3;
    cairn::memory_store store;
    auto const all =
        support::on_ranks_that_stay(ranks, [&](cairn::thread_group::member& me, int rank) {
            cairn::checkpointer_options o;
            o.save.exchange_timeout = hang;
            cairn::checkpointer ckpt(me, store, o);
            for (int step = 1; step < 5; ++step) {
                rank_memory const mine(usual(), rank, step);
                BOOST_TEST(ckpt.save_now(step, mine.state).saved);
                auto const report = ckpt.wait();
                BOOST_REQUIRE(report.has_value());
                BOOST_TEST(report->plan_reused == (step > 1));
            }
        });
    BOOST_TEST(all[0].ok(), support::words(all));
    for (int step = 1; step < 5; ++step)
        check_stored(store, "step_" + std::to_string(step), usual(), step);
}

BOOST_AUTO_TEST_SUITE_END()
