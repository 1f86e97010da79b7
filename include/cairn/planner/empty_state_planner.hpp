// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_EMPTY_STATE_PLANNER_HPP
#define CAIRN_PLANNER_EMPTY_STATE_PLANNER_HPP

#include <cairn/detail/config.hpp>
#include <cairn/planner/concepts.hpp>
#include <cairn/planner/default_planner.hpp>
#include <cairn/state/state_dict.hpp>
#include <cairn/tensor/box.hpp>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cairn {

/// A tensor of a checkpoint for which this rank needs memory.
struct wanted_tensor {
    std::string fqn{};
    dtype type = dtype::float32;
    index_vector global_shape{};
    /// The boxes that this rank is to hold; nullopt: the whole.
    std::optional<std::vector<box>> boxes{};
};

/// Allocates memory for a tensor: returns a tensor or sharded tensor of yours, moved into a node.
using tensor_allocator = std::function<node(const wanted_tensor&)>;

/// Allocates host memory, owned by the node.
CAIRN_DECL node allocate_on_host(const wanted_tensor& w);

/// How a load without a state to fill lays out tensors.
struct load_tree_options {
    /// Only keys at or below this dotted name; empty: all.
    std::string prefix{};
    /// Which boxes of a tensor this rank holds; empty function or nullopt: the whole.
    std::function<std::optional<std::vector<box>>(const std::string& fqn, const tensor_metadata&)>
        layout{};
    tensor_allocator allocate = allocate_on_host;
    /// Filled by `load_tree`, unless null: tensors of dtypes that this version does not know are
    /// not in the tree, and are in `load_report::unverified`.
    load_report* report = nullptr;
};

/// A LoadPlanner that loads what the checkpoint holds; DCP's `_EmptyStateDictLoadPlanner`. It
/// replaces the state passed to the load; `take()` returns the filled tree afterwards.
class empty_state_planner : default_planner {
public:
    explicit empty_state_planner(load_tree_options options, planner_options planner = {})
        : default_planner(std::move(planner)), options_(std::move(options)) {}

    CAIRN_DECL void set_up_load(flat_state& state, const metadata& m, int rank, bool coordinator);
    using default_planner::commit_tensor, default_planner::create_global_load_plan,
        default_planner::create_local_load_plan, default_planner::finish_load,
        default_planner::finish_load_plan, default_planner::load_value,
        default_planner::resolve_tensor;
    bool items_stay_local() const noexcept { return default_planner::items_stay_local(); }

    /// Returns the tree, nested as it was saved.
    state_dict take() { return std::move(tree_); }

private:
    CAIRN_DECL bool wanted(std::string_view fqn) const;
    /// Of what a mapping makes only for who asks: whether nobody does.
    CAIRN_DECL bool is_spare(const metadata& m, std::string_view fqn) const;
    CAIRN_DECL node make(const std::string& fqn,
                         const std::variant<tensor_metadata, value_metadata>& entry,
                         flat_state& state) const;

    load_tree_options options_;
    state_dict tree_;
};

namespace detail {

/// Returns options that lay out an optimizer's tensors like the parameters of the same name.
CAIRN_DECL load_tree_options laid_out_as(const state_dict& model_state,
                                         const std::string& optimizer_key);

}  // namespace detail
}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/planner/impl/empty_state_planner.ipp>
#endif

#endif
