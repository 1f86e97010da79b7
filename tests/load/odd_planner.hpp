// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_LOAD_ODD_PLANNER_HPP
#define CAIRN_TESTS_LOAD_ODD_PLANNER_HPP

#include <cairn/planner/default_planner.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/// On one rank, another mind: drops an item in the end, turns the plan around, or fails with an
/// item that it is to receive.
struct odd_planner {
    cairn::default_planner inner;
    std::string drop{}, refuse{};
    bool turn = false;

    void set_up_load(cairn::flat_state& s, const cairn::metadata& m, int rank, bool c) {
        inner.set_up_load(s, m, rank, c);
    }
    cairn::load_plan create_local_load_plan() { return inner.create_local_load_plan(); }
    std::vector<cairn::load_plan> create_global_load_plan(std::vector<cairn::load_plan> all) {
        return inner.create_global_load_plan(std::move(all));
    }
    cairn::load_plan finish_load_plan(cairn::load_plan p) {
        std::erase_if(p.items, [&](auto const& i) { return i.fqn == drop; });
        if (turn) std::reverse(p.items.begin(), p.items.end());
        return inner.finish_load_plan(std::move(p));
    }
    cairn::tensor_view resolve_tensor(const cairn::read_item& i) {
        if (i.fqn == refuse) throw std::runtime_error("no room for " + i.fqn);
        return inner.resolve_tensor(i);
    }
    void commit_tensor(const cairn::read_item& i, const cairn::tensor_view& v) {
        inner.commit_tensor(i, v);
    }
    void load_value(const cairn::read_item& i, cairn::value v) {
        inner.load_value(i, std::move(v));
    }
    cairn::load_report finish_load() { return inner.finish_load(); }
};
static_assert(cairn::LoadPlanner<odd_planner>);

#endif
