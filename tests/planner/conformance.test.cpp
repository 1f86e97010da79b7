// SPDX-License-Identifier: Apache-2.0
// The suites for planners, on the default one, the archetypes and ones that break a promise.
#include "archetype/load_planner.hpp"
#include "archetype/save_planner.hpp"
#include "archetype/telling_planner.hpp"
#include "support/no_failures.hpp"

#include <cairn/planner/default_planner.hpp>
#include <cairn/testing/planner.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

BOOST_AUTO_TEST_SUITE(planner_conformance)

namespace {

using cairn::testing::load_planner_suite;
using cairn::testing::save_planner_suite;
using support::no_failures;

template <class Items>
void drop(Items& items, std::string_view fqn) {
    std::erase_if(items, [&](auto const& i) { return i.fqn == fqn; });
}

/// What a planner says that may not know it yet.
bool knows_after(bool set_up, bool is_set_up) {
    if (set_up && !is_set_up) throw std::logic_error("it is not set up");
    return true;
}

struct broken_save_planner : cairn::default_planner {
    enum kind {
        fine,
        join_drops_an_item,
        join_forgets_an_entry,
        join_writes_replicas_twice,
        join_gives_too_few_plans,
        join_cuts_a_tensor,
        local_plan_forgets,
        data_of_another_shape,
        data_of_another_kind,
        finish_drops_an_item,
        joins_as_another,
        has_to_be_set_up,
        kinds
    };
    explicit broken_save_planner(kind k) : is(k) {}

    bool needs_memory_spaces() const { return knows_after(is == has_to_be_set_up, is_set_up); }
    void set_up_save(const cairn::flat_state& s, int rank, bool coordinator) {
        is_set_up = true;
        cairn::default_planner::set_up_save(s, rank, coordinator);
    }
    /// The others are not joined as the default one, and do not say so.
    std::optional<cairn::replica_writer> joins() const {
        if (is == joins_as_another) return cairn::replica_writer::lowest_rank;
        return is == fine ? cairn::default_planner::joins() : std::nullopt;
    }
    cairn::save_plan create_local_save_plan() {
        auto plan = cairn::default_planner::create_local_save_plan();
        if (is == local_plan_forgets) drop(plan.items, "scalar");
        return plan;
    }
    std::pair<std::vector<cairn::save_plan>, cairn::metadata> create_global_save_plan(
        std::vector<cairn::save_plan> all) {
        auto const local = all;
        auto out = cairn::default_planner::create_global_save_plan(std::move(all));
        auto& [plans, meta] = out;
        if (is == join_drops_an_item) plans.back().items.pop_back();
        if (is == join_forgets_an_entry) meta.entries.erase("odd");
        if (is == join_writes_replicas_twice)
            for (std::size_t r = 0; r < plans.size(); ++r)
                for (auto const& i : local[r].items)
                    if (i.fqn == "odd") plans[r].items.push_back(i);
        if (is == join_gives_too_few_plans) plans.pop_back();
        if (is == join_cuts_a_tensor)
            std::get<cairn::tensor_metadata>(meta.entries.at("rows")).shape[0] = 6;
        return out;
    }
    cairn::save_plan finish_save_plan(cairn::save_plan plan) {
        plan = cairn::default_planner::finish_save_plan(std::move(plan));
        if (is == finish_drops_an_item) drop(plan.items, "step");
        return plan;
    }
    cairn::item_data resolve_data(const cairn::write_item& i) {
        auto data = cairn::default_planner::resolve_data(i);
        if (auto* const v = std::get_if<cairn::const_tensor_view>(&data)) {
            if (is == data_of_another_kind) return static_cast<const cairn::value*>(nullptr);
            if (is == data_of_another_shape && v->shape == cairn::index_vector{3}) v->shape[0] = 2;
        }
        return data;
    }
    kind is;
    bool is_set_up = false;
};
static_assert(cairn::JoiningSavePlanner<broken_save_planner> &&
              cairn::StateMemoryPlanner<broken_save_planner>);

struct broken_load_planner : cairn::default_planner {
    enum kind {
        fine,
        plan_drops_an_item,
        plan_reads_beyond_a_chunk,
        plan_reads_one_row,
        join_gives_too_few_plans,
        state_changes_early,
        window_of_another_shape,
        window_of_other_memory,
        values_are_dropped,
        ties_are_not_told,
        ties_of_what_is_not_stored,
        ties_of_what_is_not_read,
        ties_of_other_boxes,
        join_looks_at_items,
        join_turns_items,
        join_adds_items,
        has_to_be_set_up,
        kinds
    };
    explicit broken_load_planner(kind k) : is(k) {}

    bool items_stay_local() const {
        return knows_after(is == has_to_be_set_up, is_set_up) &&
               (is == fine || is >= join_looks_at_items);
    }
    void set_up_load(cairn::flat_state& s, const cairn::metadata& m, int rank, bool coordinator) {
        is_set_up = true;
        cairn::default_planner::set_up_load(s, m, rank, coordinator);
    }
    const std::vector<cairn::stored_tie>& ties() {
        told = cairn::default_planner::ties();
        if (is == ties_are_not_told) told.clear();
        for (auto& tie : told) {
            if (is == ties_of_what_is_not_stored) tie.read = "nobody";
            if (is == ties_of_what_is_not_read) std::swap(tie.fqn, tie.read);
            for (auto& [tied, read] : tie.chunks)
                if (is == ties_of_other_boxes) read = (read + 1) % 3;
        }
        return told;
    }
    cairn::load_plan create_local_load_plan() {
        auto plan = cairn::default_planner::create_local_load_plan();
        if (is == plan_drops_an_item) drop(plan.items, "odd");
        for (auto& i : plan.items) {
            if (i.fqn == "odd" && is == plan_reads_beyond_a_chunk) i.source_offsets[0] = 1;
            if (i.fqn != "rows") continue;
            if (is == plan_reads_one_row) i.shape[0] = 1;
            if (is == state_changes_early) *cairn::default_planner::resolve_tensor(i).data = {};
        }
        return plan;
    }
    std::vector<cairn::load_plan> create_global_load_plan(std::vector<cairn::load_plan> all) {
        all = cairn::default_planner::create_global_load_plan(std::move(all));
        if (is == join_gives_too_few_plans) all.pop_back();
        for (auto& p : all) {
            if (is == join_looks_at_items) p.storage_data = std::to_string(p.items.size());
            if (is == join_turns_items) std::reverse(p.items.begin(), p.items.end());
            if (is == join_adds_items) p.no_items.push_back("odd");
        }
        return all;
    }
    cairn::tensor_view resolve_tensor(const cairn::read_item& i) {
        auto window = cairn::default_planner::resolve_tensor(i);
        if (i.fqn != "odd") return window;
        if (is == window_of_another_shape) window.shape[0] = 2;
        if (is == window_of_other_memory) window.data = elsewhere.data();
        return window;
    }
    void load_value(const cairn::read_item& i, cairn::value v) {
        if (is != values_are_dropped) cairn::default_planner::load_value(i, std::move(v));
    }
    kind is;
    bool is_set_up = false;
    std::vector<cairn::stored_tie> told{};
    std::vector<std::byte> elsewhere = std::vector<std::byte>(3);
};
static_assert(cairn::TyingLoadPlanner<broken_load_planner> &&
              cairn::LocalLoadPlanner<broken_load_planner>);

/// Nothing is left in its plans of what cairn's planner has noted.
struct noteless_planner : cairn::default_planner {
    cairn::load_plan create_local_load_plan() {
        auto plan = cairn::default_planner::create_local_load_plan();
        plan.planner_data.clear();
        return plan;
    }
    bool items_stay_local() const { return true; }
};
static_assert(cairn::LocalLoadPlanner<noteless_planner>);

}  // namespace

BOOST_AUTO_TEST_CASE(the_default_planner_keeps_its_word) {
    auto const make = [] { return cairn::default_planner(); };
    no_failures(save_planner_suite(make));
    no_failures(load_planner_suite(make));
}
BOOST_AUTO_TEST_CASE(the_default_planner_joins_plans_without_items_and_notes) {
    no_failures(load_planner_suite([] { return noteless_planner(); },
                                   [] { return cairn::default_planner(); }));
}

BOOST_AUTO_TEST_CASE(the_archetypes_keep_their_word) {
    namespace arch = cairn::archetype;
    no_failures(save_planner_suite([] { return arch::save_planner(); }));
    no_failures(save_planner_suite([] { return arch::joining_planner(); }));
    auto const make_save = [] { return arch::save_planner(); };
    no_failures(load_planner_suite([] { return arch::load_planner(); }, make_save));
    no_failures(load_planner_suite([] { return arch::local_planner(); }, make_save));
}

BOOST_AUTO_TEST_CASE(the_suite_finds_what_a_save_planner_breaks) {
    for (int k = 0; k < broken_save_planner::kinds; ++k) {
        auto const is = static_cast<broken_save_planner::kind>(k);
        auto const found = save_planner_suite([&] { return broken_save_planner(is); });
        BOOST_TEST(found.empty() == (is == broken_save_planner::fine), "kind " << k);
        for (auto const& failure : found) BOOST_TEST_MESSAGE(k << ": " << failure);
    }
}

BOOST_AUTO_TEST_CASE(the_suite_finds_what_a_load_planner_breaks) {
    for (int k = 0; k < broken_load_planner::kinds; ++k) {
        auto const is = static_cast<broken_load_planner::kind>(k);
        auto const found = load_planner_suite([&] { return broken_load_planner(is); },
                                              [] { return cairn::default_planner(); });
        BOOST_TEST(found.empty() == (is == broken_load_planner::fine), "kind " << k);
        for (auto const& failure : found) BOOST_TEST_MESSAGE(k << ": " << failure);
    }
}

BOOST_AUTO_TEST_SUITE_END()
