// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_IMPL_EMPTY_STATE_PLANNER_IPP
#define CAIRN_PLANNER_IMPL_EMPTY_STATE_PLANNER_IPP

#include <cairn/metadata/detail/transforms.hpp>
#include <cairn/metadata/stored_bytes.hpp>
#include <cairn/planner/empty_state_planner.hpp>
#include <cairn/state/flatten.hpp>
#include <cairn/state/unflatten.hpp>
#include <cairn/tensor/host_tensor.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cairn {

static_assert(LoadPlanner<empty_state_planner> && LocalLoadPlanner<empty_state_planner>);

CAIRN_DECL node allocate_on_host(const wanted_tensor& w) {
    if (!w.boxes) return host_tensor(w.type, w.global_shape);
    auto memory = std::make_shared<std::vector<host_tensor>>();
    memory->reserve(w.boxes->size());
    auto leaf = std::make_shared<tensor_leaf>();
    leaf->type = w.type;
    leaf->global_shape = w.global_shape;
    leaf->sharded = true;
    for (auto const& b : *w.boxes)
        leaf->shards.emplace_back(b, memory->emplace_back(w.type, b.shape).view());
    leaf->keep = std::move(memory);
    return leaf;
}

namespace detail {

/// Allocate nothing for what the reader will not read. A layout says how many bytes there are.
inline void refuse_transforms(const std::string& fqn,
                              const std::variant<tensor_metadata, value_metadata>& entry) {
    auto const* t = std::get_if<tensor_metadata>(&entry);
    if (t == nullptr) return;
    for (std::size_t i = 0; i < t->chunks.size(); ++i)
        if (auto const* c = t->chunks.unusual(i); c != nullptr && !c->at.layout) {
            try {
                (void)is_compressed(c->at.transforms);
            } catch (const error& e) {
                throw completed(e, {.fqn = fqn, .file = c->at.file});
            }
        }
}

/// List positions that no name leads to were mappings without entries, or are outside the prefix.
inline void fill_holes(node& n) {
    if (n.raw().index() == 0) {
        n = node(state_dict());
    } else if (n.is_list()) {
        for (auto& element : n.as_list()) fill_holes(element);
    } else if (n.is_dict()) {
        auto& d = n.as_dict();
        for (auto const& entry : d) fill_holes(d[entry.first]);
    }
}

}  // namespace detail

CAIRN_DECL void empty_state_planner::set_up_load(flat_state& state, const metadata& m, int rank,
                                                 bool coordinator) {
    tree_ = {};
    state.clear();
    for (auto const& [fqn, entry] : m.entries)
        if (wanted(fqn) && !is_spare(m, fqn)) detail::refuse_transforms(fqn, entry);
    check_stored_bytes(m, [&](std::string_view fqn) { return wanted(fqn); });
    for (auto const& unmade : m.unmade)
        if (wanted(unmade.first)) m.check_made(unmade.first);
    // With a prefix, list positions outside the wanted part are empty.
    std::size_t holes = 4096 + 4 * m.paths.size();
    for (auto const& [fqn, entry] : m.entries) {
        if (!wanted(fqn) || is_spare(m, fqn)) continue;
        auto const path = m.paths.find(fqn);
        set_element(tree_, path == m.paths.end() ? key_path{fqn} : path->second,
                    make(fqn, entry, state), holes);
    }
    if (state.empty())
        for (auto const& [fqn, t] : m.unsupported)
            if (wanted(fqn)) m.check_supported(fqn);
    for (auto const& entry : tree_) detail::fill_holes(tree_[entry.first]);
    if (state.empty() && !options_.prefix.empty())
        throw error(
            errc::missing_key,
            {.fqn = options_.prefix,
             .found = "a prefix that matches none of " + std::to_string(m.entries.size()) + " keys",
             .remedy = m.entries.empty() ? std::string()
                                         : "keys look like '" + m.entries.begin()->first + "'"});
    default_planner::set_up_load(state, m, rank, coordinator);
}
CAIRN_DECL bool empty_state_planner::wanted(std::string_view fqn) const {
    auto const& p = options_.prefix;
    return p.empty() || (fqn.starts_with(p) && (fqn.size() == p.size() || fqn[p.size()] == '.'));
}
CAIRN_DECL bool empty_state_planner::is_spare(const metadata& m, std::string_view fqn) const {
    return options_.prefix.empty() && m.if_asked.contains(fqn);
}
CAIRN_DECL node empty_state_planner::make(
    const std::string& fqn, const std::variant<tensor_metadata, value_metadata>& entry,
    flat_state& state) const {
    flat_leaf leaf;
    leaf.fqn = fqn;
    leaf.path = {fqn};
    node n;
    if (auto const* t = std::get_if<tensor_metadata>(&entry)) {
        wanted_tensor w{fqn, t->type, t->shape, {}};
        if (options_.layout) w.boxes = options_.layout(fqn, *t);
        n = options_.allocate(w);
        leaf.what = n.as_tensor();
    } else {
        n = node(value());
        value_leaf o;
        o.set = [n](const value& v) { n.assign(v); };
        leaf.what = std::move(o);
    }
    state.push_back(std::move(leaf));
    return n;
}

CAIRN_DECL load_tree_options detail::laid_out_as(const state_dict& model_state,
                                                 const std::string& optimizer_key) {
    // Captured by the function below, which refers to its leaves.
    auto const model = std::make_shared<flattened>(flatten(model_state));
    std::map<std::string, const tensor_leaf*, std::less<>> by_name;
    for (auto const& l : model->leaves)
        if (l.tensor() != nullptr) by_name.emplace(l.fqn, l.tensor());
    load_tree_options what;
    what.prefix = optimizer_key;
    what.layout = [model, by_name = std::move(by_name), optimizer_key](
                      const std::string& fqn,
                      const tensor_metadata& t) -> std::optional<std::vector<box>> {
        auto const start = optimizer_key + ".state.";
        if (!fqn.starts_with(start)) return {};
        // The parameter's name precedes the last dots: "net1.weight" + ".exp_avg".
        auto const name = std::string_view(fqn).substr(start.size());
        for (auto at = name.rfind('.'); at != name.npos && at != 0; at = name.rfind('.', at - 1)) {
            auto const it = by_name.find(name.substr(0, at));
            if (it == by_name.end()) continue;
            if (!it->second->sharded || it->second->global_shape != t.shape) return {};
            std::vector<box> boxes;
            for (auto const& s : it->second->shards) boxes.push_back(s.region);
            return boxes;
        }
        return {};
    };
    return what;
}

}  // namespace cairn

#endif
