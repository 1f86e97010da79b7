// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_IMPL_WHOLE_VALUES_IPP
#define CAIRN_PLANNER_IMPL_WHOLE_VALUES_IPP

#include <cairn/planner/detail/whole_values.hpp>

#include <cairn/state/unflatten.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The stored parts of one `value`, which it becomes when the last of them has arrived.
class value_in_parts {
public:
    explicit value_in_parts(whole_value of) : of_(std::move(of)) {}

    /// @param below  The path from the value on; empty: all of it.
    /// @return What sets the part.
    std::function<void(value)> expect(const key_path& below) {
        key_path path{path_element(top)};
        path.insert(path.end(), below.begin(), below.end());
        node const part{value()};
        set_element(tree_, path, part, holes_);
        ++missing_;
        return [this, part](const value& v) {
            part.assign(v);
            if (--missing_ == 0) *of_.content = grown(tree_[top]);
        };
    }

private:
    static value grown(const node& n) {
        if (n.is_dict()) {
            value::dict_t d;
            for (auto const& [key, inner] : n.as_dict())
                d.items.emplace_back(value(key), grown(inner));
            return value(std::move(d));
        }
        if (n.is_list()) {
            value::list_t l;
            for (auto const& inner : n.as_list()) l.push_back(grown(inner));
            return value(std::move(l));
        }
        // A position that no path leads to: it was an empty mapping.
        return n.is_value() ? n.as_value() : value(value::dict_t());
    }

    std::string const top = "value";
    whole_value of_;
    state_dict tree_;
    std::size_t missing_ = 0;
    std::size_t holes_ = 1'000'000;
};

using stored_part = std::pair<std::string, key_path>;

/// Returns a checkpoint's keys for a `value` of this name, in order, with their paths below it.
inline std::vector<stored_part> stored_parts(const metadata& m, const std::string& name) {
    std::vector<stored_part> parts;
    if (m.entries.count(name) != 0) parts.emplace_back(name, key_path());
    auto const prefix = name + ".";
    for (auto it = m.entries.lower_bound(prefix);
         it != m.entries.end() && it->first.starts_with(prefix); ++it) {
        auto const p = m.paths.find(it->first);
        if (p == m.paths.end()) continue;
        // Dots in keys look like further levels.
        auto const& path = p->second;
        for (std::size_t n = 1; n < path.size(); ++n) {
            if (joined(std::span(path).first(n)) != name) continue;
            parts.emplace_back(it->first, key_path(path.begin() + std::ptrdiff_t(n), path.end()));
            break;
        }
    }
    return parts;
}

CAIRN_DECL void take_whole_values(flat_state& state, const metadata& m) {
    std::vector<std::set<std::string>> held(state.whole.size());
    for (auto const& leaf : state)
        if (auto const* v = leaf.value(); v != nullptr && v->part_of)
            held[*v->part_of].insert(leaf.fqn);
    std::vector<flat_leaf> taken;
    std::set<std::size_t> others;
    for (std::size_t i = 0; i < state.whole.size(); ++i) {
        auto& whole = state.whole[i];
        auto const parts = stored_parts(m, whole.fqn);
        bool const same = std::ranges::equal(parts, held[i], {}, &stored_part::first);
        // By name: the content of the value may be stored under names without such a path.
        bool const elsewhere = std::ranges::any_of(held[i], [&](const std::string& key) {
            return m.entries.count(key) != 0 &&
                   !std::ranges::binary_search(parts, key, {}, &stored_part::first);
        });
        if (parts.empty() || elsewhere || (same && !whole.taken)) continue;
        auto const all = std::make_shared<value_in_parts>(whole);
        for (auto const& part : parts) {
            flat_leaf leaf;
            leaf.path = whole.path;
            leaf.path.insert(leaf.path.end(), part.second.begin(), part.second.end());
            leaf.fqn = joined(leaf.path);
            value_leaf v;
            v.get = [content = whole.content, keep = whole.keep] { return *content; };
            v.set = [all, set = all->expect(part.second)](value loaded) { set(std::move(loaded)); };
            v.optional = whole.optional;
            v.part_of = i;
            leaf.what = std::move(v);
            taken.push_back(std::move(leaf));
        }
        whole.taken = true;
        others.insert(i);
    }
    if (others.empty()) return;
    std::erase_if(state, [&](const flat_leaf& leaf) {
        auto const* v = leaf.value();
        return v != nullptr && v->part_of && others.count(*v->part_of) != 0;
    });
    state.insert(state.end(), std::make_move_iterator(taken.begin()),
                 std::make_move_iterator(taken.end()));
}

}  // namespace cairn::detail

#endif
