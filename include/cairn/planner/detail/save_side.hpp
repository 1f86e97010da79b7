// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_DETAIL_SAVE_SIDE_HPP
#define CAIRN_PLANNER_DETAIL_SAVE_SIDE_HPP

#include <cairn/planner/check_plan.hpp>
#include <cairn/planner/check_text.hpp>
#include <cairn/planner/detail/value_hash.hpp>
#include <cairn/planner/options.hpp>
#include <cairn/state/detail/copy_leaf.hpp>
#include <cairn/state/detail/naming.hpp>
#include <cairn/tensor/layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Returns the name under which one rank's own value is stored: PyTorch sees an ordinary value.
inline std::string per_rank_name(const std::string& fqn, int rank) {
    return fqn + "." + std::to_string(rank);
}

/// The saving half of the default planner.
class save_side {
public:
    explicit save_side(const planner_options& o) : options_(std::addressof(o)) {}

    void set_up(const flat_state& state, int rank) {
        state_ = &state;
        rank_ = rank;
        values_.clear();
    }

    save_plan create_local() {
        save_plan plan;
        first_of_.clear();
        for (std::uint32_t i = 0; i < state_->size(); ++i) {
            auto const& leaf = (*state_)[i];
            auto name = leaf.fqn;
            auto steps = leaf.path;
            if (leaf.per_rank()) {
                name = per_rank_name(name, rank_);
                steps.emplace_back(std::to_string(rank_));
            }
            auto const* t = leaf.tensor();
            if (t != nullptr) check_shards(leaf.fqn, *t);
            // Each rank adds an item for a tensor, even if it holds none of its elements: if other
            // ranks hold them, the empty item is dropped; if none does, the elements are reported
            // as missing.
            bool const nothing = t != nullptr && t->global_shape.product() == 0;
            bool const shards = t != nullptr && !t->shards.empty();
            std::vector<write_item> items(shards && !nothing ? t->shards.size() : 1);
            for (std::uint32_t n = 0; n < items.size(); ++n) {
                auto& w = items[n];
                w.fqn = name;
                w.leaf = i;
                if (t == nullptr) {
                    add_value(w, leaf);
                    continue;
                }
                w.kind = t->sharded ? item_kind::shard : item_kind::tensor;
                w.type = t->type;
                w.requires_grad = t->requires_grad;
                w.global_shape = t->global_shape;
                w.region = nothing  ? box::whole(t->global_shape)
                           : shards ? t->shards[n].region
                                    : no_box(*t);
                w.shard_index = shards ? n : write_item::no_shard;
            }
            if (options_->create_items) {
                auto const usual = items;
                items = options_->create_items(leaf, std::move(items));
                for (auto& item : items) check_own_item(item, leaf, i, usual);
            }
            for (auto& item : items) {
                tie(item, plan);
                plan.items.push_back(std::move(item));
            }
            plan.paths.emplace_back(std::move(name), std::move(steps));
        }
        return plan;
    }

    /// Returns the elements of the item's box, which lies in one shard of its leaf; or its value.
    /// @throws error errc::invalid_plan for an item that is not made of this rank's state.
    item_data resolve(const write_item& item) const {
        auto const* leaf = item.leaf < state_->size() ? &(*state_)[item.leaf] : nullptr;
        if (item.kind == item_kind::value) {
            if (leaf == nullptr || leaf->value() == nullptr || item.shard_index >= values_.size())
                refuse(item, "a value of this rank's state", leaf);
            return &values_[item.shard_index];
        }
        auto const* t = leaf == nullptr ? nullptr : leaf->tensor();
        if (t == nullptr) refuse(item, "a tensor of this rank's state", leaf);
        if (item.region.empty()) return const_tensor_view(t->type, item.region.shape, nullptr);
        return subview(const_tensor_view(shard_of(item, *t).view),
                       relative_to(item.region, t->shards[item.shard_index].region));
    }

private:
    /// A box without elements; for a 0-d tensor, where no such box exists, one of rank 1.
    static box no_box(const tensor_leaf& t) {
        auto const rank = std::max<std::size_t>(1, t.global_shape.size());
        return {index_vector(rank, 0), index_vector(rank, 0)};
    }

    [[noreturn]] static void refuse(const write_item& item, std::string expected,
                                    const flat_leaf* leaf) {
        throw error(errc::invalid_plan,
                    {.fqn = item.fqn,
                     .expected = std::move(expected),
                     .found = leaf == nullptr
                                  ? "leaf " + std::to_string(item.leaf) + ", which it does not have"
                                  : std::string(leaf->tensor() != nullptr ? "the tensor '"
                                                                          : "the value '") +
                                        leaf->fqn + "'"});
    }
    /// Returns the shard that contains an item's box.
    static const shard& shard_of(const write_item& item, const tensor_leaf& t) {
        if (item.shard_index >= t.shards.size())
            throw error(errc::invalid_plan,
                        {.fqn = item.fqn,
                         .expected = "one of " + std::to_string(t.shards.size()) + " shards",
                         .found = "shard " + std::to_string(item.shard_index)});
        auto const& s = t.shards[item.shard_index];
        if (!lies_within(item.region, t.global_shape) || !contains(s.region, item.region))
            throw error(errc::invalid_plan,
                        {.fqn = item.fqn,
                         .expected = "a box within shard " + std::to_string(item.shard_index) +
                                     ", " + to_string(s.region),
                         .found = to_string(item.region),
                         .remedy = "an item holds a shard or a part of one shard"});
        return s;
    }

    /// Checks that an item that the user made from a leaf is one of its shards or a region of one.
    void check_own_item(write_item& item, const flat_leaf& leaf, std::uint32_t index,
                        const std::vector<write_item>& usual) const {
        item.leaf = index;
        auto const* t = leaf.tensor();
        if ((t == nullptr) != (item.kind == item_kind::value))
            refuse(item, t == nullptr ? "an item of kind value" : "an item of kind tensor or shard",
                   &leaf);
        if (t == nullptr) {
            item.shard_index = usual.front().shard_index;
            item.value_bytes = usual.front().value_bytes;
            item.value_hash = usual.front().value_hash;
            return;
        }
        if (item.type != t->type || item.global_shape != t->global_shape)
            throw error(errc::invalid_plan, {.fqn = item.fqn,
                                             .expected = elements_of(t->type, t->global_shape) +
                                                         " in all, as the state has",
                                             .found = elements_of(item.type, item.global_shape)});
        if (!item.region.empty()) (void)shard_of(item, *t);
    }

    /// Records that an item is memory that this rank already saves under another name.
    void tie(write_item& item, const save_plan& plan) {
        if (item.kind == item_kind::value || item.region.empty() || !item.tied_to.empty()) return;
        auto const view = std::get<const_tensor_view>(resolve(item));
        auto& all = first_of_[view.data];
        for (auto const& [at, strides, device] : all) {
            auto const& first = plan.items[at];
            if (first.type == item.type && first.global_shape == item.global_shape &&
                first.region == item.region && strides == view.strides && device == view.device) {
                item.tied_to = first.fqn;
                return;
            }
        }
        all.push_back({static_cast<std::uint32_t>(plan.items.size()), view.strides, view.device});
    }

    /// Reads the value of a leaf, for an item that has its name.
    void add_value(write_item& w, const flat_leaf& leaf) {
        auto const& get = leaf.value()->get;
        if (!get)
            throw error(errc::invalid_state, {.fqn = leaf.fqn, .expected = "a value to save"});
        w.shard_index = static_cast<std::uint32_t>(values_.size());
        values_.push_back(naming(leaf.fqn, get));
        auto const digest = naming(leaf.fqn, [&] { return value_digest(values_.back()); });
        check_text(w.fqn, values_.back());
        w.value_bytes = digest.bytes();
        w.value_hash = digest.hash();
    }

    const planner_options* options_;
    const flat_state* state_ = nullptr;
    int rank_ = 0;
    std::deque<value> values_;
    struct first_item {
        std::uint32_t at;
        index_vector strides;
        device_id device;
    };
    std::map<const void*, std::vector<first_item>>
        first_of_;  ///< Keyed by address of the elements.
};

}  // namespace cairn::detail

#endif
