// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_TREE_HPP
#define CAIRN_LOAD_TREE_HPP

#include <cairn/load.hpp>
#include <cairn/metadata/stored_bytes.hpp>
#include <cairn/state/flatten.hpp>
#include <cairn/state/unflatten.hpp>
#include <cairn/tensor/host_tensor.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

/// A tensor of a checkpoint for which this rank wants memory.
struct wanted_tensor {
    std::string fqn{};
    dtype type = dtype::float32;
    index_vector global_shape{};
    /// The boxes that this rank shall hold; nullopt: the whole.
    std::optional<std::vector<box>> boxes{};
};

/// Makes memory for a tensor: returns a tensor or sharded tensor of yours, moved into a node.
using tensor_allocator = std::function<node(const wanted_tensor&)>;

/// Host memory of the node's own.
inline node allocate_on_host(const wanted_tensor& w) {
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

/// How a load without a template lays tensors out.
struct load_tree_options {
    /// Only keys at or below this dotted name; empty: all.
    std::string prefix{};
    /// Which boxes of a tensor this rank holds; empty function or nullopt: the whole.
    std::function<std::optional<std::vector<box>>(const std::string& fqn, const tensor_metadata&)>
        layout{};
    tensor_allocator allocate = allocate_on_host;
};

/// A LoadPlanner that wants what the checkpoint holds; DCP's `_EmptyStateDictLoadPlanner`. It
/// replaces the state that the load was given; `take()` hands the filled tree out afterwards.
class empty_state_planner {
public:
    explicit empty_state_planner(load_tree_options options, planner_options planner = {})
        : options_(std::move(options)), inner_(std::move(planner)) {}

    void set_up_load(flat_state& state, const metadata& m, int rank, bool coordinator) {
        tree_ = {};
        state.clear();
        for (auto const& [fqn, entry] : m.entries)
            if (wanted(fqn)) refuse_transforms(fqn, entry);
        check_stored_bytes(m, [&](std::string_view fqn) { return wanted(fqn); });
        // With a prefix the lists of the rest are empty, up to where the wanted part stands.
        std::size_t holes = 4096 + 4 * m.paths.size();
        for (auto const& [fqn, entry] : m.entries) {
            if (!wanted(fqn)) continue;
            auto const path = m.paths.find(fqn);
            set_element(tree_, path == m.paths.end() ? key_path{fqn} : path->second,
                        make(fqn, entry, state), holes);
        }
        if (state.empty() && !options_.prefix.empty())
            throw error(errc::missing_key,
                        {.fqn = options_.prefix,
                         .found = "a prefix that matches none of " +
                                  std::to_string(m.entries.size()) + " keys",
                         .remedy = m.entries.empty() ? std::string()
                                                     : "keys look like '" +
                                                           m.entries.begin()->first + "'"});
        inner_.set_up_load(state, m, rank, coordinator);
    }
    load_plan create_local_load_plan() { return inner_.create_local_load_plan(); }
    std::vector<load_plan> create_global_load_plan(std::vector<load_plan> all) {
        return inner_.create_global_load_plan(std::move(all));
    }
    load_plan finish_load_plan(load_plan plan) { return inner_.finish_load_plan(std::move(plan)); }
    tensor_view resolve_tensor(const read_item& item) { return inner_.resolve_tensor(item); }
    void commit_tensor(const read_item& item, const tensor_view& v) {
        inner_.commit_tensor(item, v);
    }
    void load_value(const read_item& item, value v) { inner_.load_value(item, std::move(v)); }

    void finish_load() { inner_.finish_load(); }

    const load_report& report() const noexcept { return inner_.report(); }
    /// The tree, nested as it was saved.
    state_dict take() { return std::move(tree_); }

private:
    bool wanted(std::string_view fqn) const {
        auto const& p = options_.prefix;
        return p.empty() ||
               (fqn.starts_with(p) && (fqn.size() == p.size() || fqn[p.size()] == '.'));
    }
    /// An item that was compressed may stand for any number of bytes: no room is made for what the
    /// reader will not read.
    static void refuse_transforms(const std::string& fqn,
                                  const std::variant<tensor_metadata, value_metadata>& entry) {
        auto const* t = std::get_if<tensor_metadata>(&entry);
        if (t == nullptr) return;
        for (auto const& c : t->chunks)
            if (!c.at.transforms.empty())
                throw error(errc::unsupported, {.fqn = fqn,
                                                .file = c.at.file,
                                                .expected = "an item without stream transforms",
                                                .found = c.at.transforms.front()});
    }
    node make(const std::string& fqn, const std::variant<tensor_metadata, value_metadata>& entry,
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

    load_tree_options options_;
    default_planner inner_;
    state_dict tree_;
};
static_assert(LoadPlanner<empty_state_planner>);

/// Loads without being told what: a tree of tensors and plain values, nested as it was saved.
/// By default whole tensors in host memory, on every rank that calls.
///
/// @param id     As for @ref load.
/// @param what   Which keys, laid out how, in whose memory.
/// @param parts  As for @ref load, but no planner.
/// @throws error errc::missing_key on all ranks for a prefix that matches nothing
template <LoadPart... Parts>
state_dict load_tree(checkpoint_id id, load_tree_options what, const load_options& options,
                     Parts&&... parts) {
    empty_state_planner planner(std::move(what), options.planner);
    state_dict nothing;
    (void)load(nothing, std::move(id), options, planner, std::forward<Parts>(parts)...);
    return planner.take();
}
template <LoadPart... Parts>
state_dict load_tree(checkpoint_id id, load_tree_options what = {}, Parts&&... parts) {
    return load_tree(std::move(id), std::move(what), load_options{}, std::forward<Parts>(parts)...);
}

/// Loads an optimizer's state as the checkpoint has it, each tensor laid out as the parameter of
/// the same name lies on this rank, replicated when it has another shape or belongs to no
/// parameter; DCP's `load_sharded_optimizer_state_dict`.
///
/// @param model_state    The model's tensors by FQN, sharded as they are on this rank.
/// @param optimizer_key  Under which key the optimizer was saved: "optim".
/// @return `{optimizer_key: {"state": …, "param_groups": …}}`
template <LoadPart... Parts>
state_dict load_sharded_optimizer_state_dict(const state_dict& model_state,
                                             const std::string& optimizer_key, checkpoint_id id,
                                             const load_options& options, Parts&&... parts) {
    auto const model = flatten(model_state);
    std::map<std::string, const tensor_leaf*, std::less<>> by_name;
    for (auto const& l : model.leaves)
        if (l.tensor() != nullptr) by_name.emplace(l.fqn, l.tensor());
    load_tree_options what;
    what.prefix = optimizer_key;
    what.layout = [&](const std::string& fqn,
                      const tensor_metadata& t) -> std::optional<std::vector<box>> {
        auto const start = optimizer_key + ".state.";
        if (!fqn.starts_with(start)) return {};
        // The parameter's name is what stands before the last dots: "net1.weight" + ".exp_avg".
        auto const name = std::string_view(fqn).substr(start.size());
        for (auto at = name.rfind('.'); at != name.npos && at != 0; at = name.rfind('.', at - 1)) {
            auto const it = by_name.find(name.substr(0, at));
            if (it == by_name.end()) continue;
            if (!it->second->sharded || it->second->global_shape != t.shape) return {};
            std::vector<box> boxes;
            for (auto const& s : it->second->shards) boxes.push_back(s.where);
            return boxes;
        }
        return {};
    };
    return load_tree(std::move(id), std::move(what), options, std::forward<Parts>(parts)...);
}
template <LoadPart... Parts>
state_dict load_sharded_optimizer_state_dict(const state_dict& model_state,
                                             const std::string& optimizer_key, checkpoint_id id,
                                             Parts&&... parts) {
    return load_sharded_optimizer_state_dict(model_state, optimizer_key, std::move(id),
                                             load_options{}, std::forward<Parts>(parts)...);
}

}  // namespace cairn

#endif
