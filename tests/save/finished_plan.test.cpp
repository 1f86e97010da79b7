// SPDX-License-Identifier: Apache-2.0
// A planner may finish its plan otherwise than the coordinator has sent it: where its items are is
// told by what it has written, not by what was planned.
#include "planned_states.hpp"

#include <cairn/cairn.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(finished_plan)

namespace {

/// Writes its items in the opposite order.
class reversing_planner {
public:
    void set_up_save(const cairn::flat_state& s, int rank, bool coordinator) {
        inner_.set_up_save(s, rank, coordinator);
    }
    cairn::save_plan create_local_save_plan() { return inner_.create_local_save_plan(); }
    std::pair<std::vector<cairn::save_plan>, cairn::metadata> create_global_save_plan(
        std::vector<cairn::save_plan> all) {
        return inner_.create_global_save_plan(std::move(all));
    }
    cairn::save_plan finish_save_plan(cairn::save_plan plan) {
        std::reverse(plan.items.begin(), plan.items.end());
        return plan;
    }
    cairn::item_data resolve_data(const cairn::write_item& i) { return inner_.resolve_data(i); }
    std::optional<std::string> plan_key() const { return "reversed"; }

private:
    cairn::default_planner inner_{};
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_finished_plan_may_be_in_another_order) {
    constexpr int ranks = 3;
    auto l = planned_states::usual();
    l.tensors.at("net.sharded").held[2] = {planned_states::rows(4, 1), planned_states::rows(5, 1)};
    for (int n = 0; n < 5; ++n) l.tensors["net." + std::to_string(n)] = l.tensors.at("net.sharded");
    cairn::memory_store store;
    std::vector<cairn::plan_cache> caches(ranks);
    for (int step = 1; step < 4; ++step) {
        auto const all =
            support::on_ranks_that_stay(ranks, [&](cairn::thread_group::member& me, int rank) {
                planned_states::rank_memory const mine(l, rank, step);
                reversing_planner planner;
                auto const r = cairn::save(mine.state, "c", me, planner, store,
                                           caches[static_cast<std::size_t>(rank)]);
                BOOST_TEST(r.plan_reused == (step > 1));
            });
        BOOST_TEST(all[0].ok(), support::words(all));
        planned_states::check_stored(store, "c", l, step);
    }
}

BOOST_AUTO_TEST_SUITE_END()
