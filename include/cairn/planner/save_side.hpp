// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_SAVE_SIDE_HPP
#define CAIRN_PLANNER_SAVE_SIDE_HPP

#include <cairn/planner/global_plan.hpp>
#include <cairn/planner/object_hash.hpp>
#include <cairn/planner/options.hpp>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The name under which one rank's own value is kept: PyTorch sees an ordinary object.
inline std::string per_rank_name(const std::string& fqn, int rank) {
    return fqn + "." + std::to_string(rank);
}

/// Checks that a tensor leaf is what a save or load can work with.
/// @throws error errc::invalid_state naming the tensor.
inline void check_leaf(const flat_leaf& leaf, const tensor_leaf& t) {
    auto const bad = [&](std::string expected, std::string found) {
        return error(errc::invalid_state, {.tensor = leaf.fqn, .expected = std::move(expected),
                                           .found = std::move(found)});
    };
    if (!is_possible(t.global))
        throw bad("extents of 0 or more, of at most " + std::to_string(most_elements) +
                      " elements",
                  to_string(t.global));
    for (auto const& s : t.shards) {
        auto const& v = s.view;
        if (!lies_within(s.where, t.global))
            throw error(errc::invalid_state,
                        {.tensor = leaf.fqn,
                         .expected = "a shard within " + to_string(t.global),
                         .found = to_string(s.where),
                         .remedy = "if that is padding beyond the tensor (a padded vocabulary), "
                                   "clip_shards leaves it out"});
        if (v.extents != s.where.lengths)
            throw bad("memory of " + to_string(s.where.lengths), to_string(v.extents));
        if (v.strides.size() != v.extents.size())
            throw bad("one stride per dimension", to_string(v.strides));
        if (v.type != t.type)
            throw bad(std::string(name_of(t.type)) + " in every shard",
                      std::string(name_of(v.type)));
        if (v.data == nullptr && !v.empty()) throw bad("memory", "a null pointer");
        if (v.where.kind == memory_kind::cuda)
            throw bad("memory that the host can read", "device memory without a stager");
    }
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
            auto name = options_->rename ? options_->rename(leaf.fqn) : leaf.fqn;
            auto steps = name == leaf.fqn ? leaf.path : key_path{path_element(name)};
            if (leaf.per_rank()) {
                name = per_rank_name(name, rank_);
                steps.emplace_back(std::to_string(rank_));
            }
            std::vector<write_item> items;
            if (auto const* t = leaf.tensor())
                items = tensor_items(leaf, *t, name, i);
            else
                items.push_back(object_item(leaf, *leaf.object(), name, i));
            for (auto& item : items) tie(item, leaf);
            if (options_->create_items) items = options_->create_items(leaf, std::move(items));
            for (auto& item : items) plan.items.push_back(std::move(item));
            plan.paths.emplace_back(std::move(name), std::move(steps));
        }
        return plan;
    }

    std::pair<std::vector<save_plan>, metadata> create_global(std::vector<save_plan> all) const {
        all = options_->dedup
                  ? options_->dedup(std::move(all))
                  : dedup_save_plans(std::move(all), options_->dedup_save_to_lowest_rank);
        auto m = create_global_metadata(all);
        return {std::move(all), std::move(m)};
    }

    item_data resolve(const write_item& item) const {
        auto const& leaf = state_->at(item.leaf);
        if (item.kind == item_kind::object) return &values_.at(item.part);
        auto const& t = *leaf.tensor();
        if (t.shards.empty()) return const_tensor_view(t.type, t.global, nullptr);
        return t.shards.at(item.part).view;
    }

private:
    std::vector<write_item> tensor_items(const flat_leaf& leaf, const tensor_leaf& t,
                                         const std::string& name, std::uint32_t index) const {
        check_leaf(leaf, t);
        std::vector<write_item> items;
        // A tensor without elements has an item too, whoever holds its no shards: it has a name.
        bool const nothing = t.shards.empty() && t.global.product() == 0;
        std::size_t const parts = nothing ? 1 : t.shards.size();
        for (std::uint32_t part = 0; part < parts; ++part) {
            write_item w;
            w.fqn = name;
            w.kind = t.sharded ? item_kind::shard : item_kind::tensor;
            w.type = t.type;
            w.requires_grad = t.requires_grad;
            w.global = t.global;
            w.where = nothing ? box::whole(t.global) : t.shards[part].where;
            w.leaf = index;
            w.part = part;
            items.push_back(std::move(w));
        }
        return items;
    }

    /// Notes when an item is memory that this rank saves under another name already.
    void tie(write_item& item, const flat_leaf& leaf) {
        auto const* t = leaf.tensor();
        if (t == nullptr || t->shards.empty() || item.where.volume() == 0) return;
        auto const& view = t->shards.at(item.part).view;
        auto& all = first_of_[view.data];
        for (auto const& [first, strides] : all) {
            if (first.type == item.type && first.global == item.global &&
                first.where == item.where && strides == view.strides) {
                item.tied_to = first.fqn;
                return;
            }
        }
        all.emplace_back(item, view.strides);
    }

    write_item object_item(const flat_leaf& leaf, const object_leaf& o, const std::string& name,
                           std::uint32_t index) {
        if (!o.get)
            throw error(errc::invalid_state, {.tensor = leaf.fqn, .expected = "a value to save"});
        write_item w;
        w.fqn = name;
        w.leaf = index;
        w.part = static_cast<std::uint32_t>(values_.size());
        values_.push_back(o.get());
        object_digest const digest(values_.back());
        w.object_bytes = digest.bytes();
        w.object_hash = digest.hash();
        return w;
    }

    const planner_options* options_;
    const flat_state* state_ = nullptr;
    int rank_ = 0;
    std::deque<value> values_;
    /// By where the elements lie: the first item made of them, and their strides.
    std::map<const void*, std::vector<std::pair<write_item, sizes>>> first_of_;
};

}  // namespace cairn::detail

#endif
