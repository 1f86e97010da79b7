// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_IMPL_STATE_CHANGE_IPP
#define CAIRN_MODELS_IMPL_STATE_CHANGE_IPP

#include <cairn/models/detail/state_change.hpp>

#include <cairn/error.hpp>
#include <cairn/state/converted.hpp>
#include <cairn/state/detail/copy_leaf.hpp>
#include <cairn/tensor/layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

namespace cairn::detail {

CAIRN_DECL numbers_before_visit::numbers_before_visit(const leaves_by_name& given) {
    for (auto const& [name, leaf] : given.by_name) {
        auto const* t = leaf->tensor();
        if (t == nullptr || t->number || t->shards.size() != 1) continue;
        auto const& v = t->shards[0].view;
        if (v.elements() == 1 && is_host(v.device.kind) && v.data != nullptr)
            numbers_.push_back({&name, v.data, {v.data, v.data + v.bytes()}});
    }
}

CAIRN_DECL void numbers_before_visit::check(const char* of_what) const {
    for (auto const& n : numbers_) {
        if (std::equal(n.before.begin(), n.before.end(), n.data)) continue;
        throw error(errc::invalid_state,
                    {.fqn = *n.name,
                     .expected = std::string("visits of the ") + of_what + " to change nothing",
                     .found = "a visit that overwrites the given number",
                     .remedy = "pass a number that is kept in another type as "
                               "cairn::converted<float>(number)"});
    }
}

CAIRN_DECL void copy_overwritten(
    const std::vector<std::pair<leaves_by_name*, const leaves_by_name*>>& all) {
    std::vector<std::pair<std::uintptr_t, std::uintptr_t>> filled;
    auto const is_host_memory = [](const shard& s) {
        return is_host(s.view.device.kind) && s.view.strides.size() == s.view.shape.size();
    };
    auto const stays = [](const flat_leaf& a, const flat_leaf* b) {
        return b != nullptr && a.tensor() != nullptr && b->tensor() != nullptr &&
               same_memory(*a.tensor(), *b->tensor());
    };
    for (auto const& part : all)
        for (auto const& to : part.second->flat.leaves)
            if (auto const* t = to.tensor(); t != nullptr && !stays(to, part.first->find_for(to)))
                for (auto const& s : t->shards)
                    if (is_host_memory(s)) filled.push_back(address_range(s.view));
    std::sort(filled.begin(), filled.end());
    for (std::size_t i = 1; i < filled.size(); ++i)  // the end of all up to each
        filled[i].second = std::max(filled[i].second, filled[i - 1].second);
    auto const is_filled = [&](const shard& s) {
        if (!is_host_memory(s)) return false;
        auto const [begin, end] = address_range(s.view);
        auto const after = std::lower_bound(filled.begin(), filled.end(), std::pair(end, end));
        return begin != end && after != filled.begin() && std::prev(after)->second > begin;
    };
    for (auto const& [given, wanted] : all) {
        std::set<const flat_leaf*> moved;
        for (auto const& to : wanted->flat.leaves)
            if (auto const* from = given->find_for(to);
                from != nullptr && from->tensor() != nullptr && !stays(to, from))
                moved.insert(from);
        for (auto& from : given->flat.leaves) {
            if (!moved.contains(&from)) continue;
            auto const& t = *from.tensor();
            if (std::any_of(t.shards.begin(), t.shards.end(), is_filled))
                from.what = *clone_leaf(t);
        }
    }
}

template <class Get, class Set>
void state_change::set(const std::string& name, const Get& get, const Set& set_to, const value& v) {
    named(name, [&] {
        // Before setting: a call that fails half-way is undone too.
        undo_.push_back([&set_to, before = get()] { set_to(before); });
        set_to(v);
    });
}

template <class F>
void state_change::named(const std::string& name, F&& f) {
    try {
        f();
    } catch (const error& e) {
        auto where = e.context();
        where.fqn = name;
        throw error(e.code(), std::move(where));
    }
}

CAIRN_DECL state_change::state_change(std::shared_ptr<const leaves_by_name> given,
                                      const visited_state& target, const visit_function& visit,
                                      bool strict, const char* of_what, bool to_come)
    : given_(std::move(given)),
      pairs_(pair_up(target.wanted, *given_, strict, of_what, target.known)) {
    check_tied(pairs_);
    if (!target.groups.empty()) values_ = match_groups(target.groups, *given_, strict);
    find_transient(visit, to_come);
}

CAIRN_DECL state_change::~state_change() {
    for (; !undo_.empty(); undo_.pop_back()) {
        try {
            undo_.back()();
        } catch (...) {  // ignored: the first failure is already being thrown
        }
    }
}

CAIRN_DECL void state_change::set_values() {
    undo_.reserve(values_.size() + pairs_.size());  // noting a value must not fail after it was set
    for (auto const* a : transient_) {
        if (!same_content(*a->from->tensor(), *a->to->tensor())) refuse_transient(*a);
    }
    for (auto const& [h, v] : values_) set("hyperparameter '" + h->name + "'", h->get, h->set, v);
    std::vector<value> given;  // read before one is set: two may be exchanged
    for (auto const& a : pairs_)
        if (auto const* o = a.to->value(); o != nullptr && o->set)
            given.push_back(a.from->value()->get());
    auto next = given.begin();
    for (auto const& a : pairs_) {
        if (auto const* o = a.to->value()) {
            if (o->set) set(a.to->fqn, o->get, o->set, *next++);
        } else if (auto const& number = a.to->tensor()->number) {
            named(a.to->fqn, [&] {
                copy_leaf(a.to->fqn, *a.from->tensor(), *a.to->tensor());
                if (auto undo = give_back(number)) undo_.push_back(std::move(undo));
            });
        }
    }
}

CAIRN_DECL void state_change::copy_tensors() {
    keep_values();
    for (auto const& a : pairs_) {
        auto const* to = a.to->tensor();
        if (to != nullptr && !to->number) copy_leaf(a.to->fqn, *a.from->tensor(), *to);
    }
}

CAIRN_DECL void state_change::find_transient(const visit_function& visit, bool to_come) {
    auto const suspect = [&](const assignment& a) {
        auto const* to = a.to->tensor();
        return to != nullptr && to->keep != nullptr && !to->number &&
               to->global_shape.product() != 0 && (to_come || !same_memory(*a.from->tensor(), *to));
    };
    if (std::none_of(pairs_.begin(), pairs_.end(), suspect)) return;
    auto const again = visit();
    for (auto const& a : pairs_) {
        if (!suspect(a)) continue;
        auto const* leaf = again->wanted.find(a.to->fqn);
        if (leaf != nullptr && leaf->tensor() != nullptr &&
            same_memory(*leaf->tensor(), *a.to->tensor()))
            continue;
        if (to_come && same_memory(*a.from->tensor(), *a.to->tensor())) refuse_transient(a);
        transient_.push_back(&a);
    }
}

CAIRN_DECL void state_change::refuse_transient(const assignment& a) {
    throw error(errc::invalid_state,
                {.fqn = a.to->fqn,
                 .expected = "memory with a stable address to load into",
                 .found = "a tensor that each visit creates anew: loaded content would be lost",
                 .remedy = "pass a number that is kept in another type as "
                           "cairn::converted<float>(number)"});
}

}  // namespace cairn::detail

#endif
