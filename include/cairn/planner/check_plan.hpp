// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_CHECK_PLAN_HPP
#define CAIRN_PLANNER_CHECK_PLAN_HPP

#include <cairn/error.hpp>
#include <cairn/metadata/coverage.hpp>
#include <cairn/metadata/detail/codec.hpp>
#include <cairn/planner/check_text.hpp>
#include <cairn/planner/plan.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace cairn {

namespace detail {

/// @throws error errc::invalid_plan unless there is one for each rank.
inline void check_one_per_rank(std::size_t found, std::size_t ranks, const char* what,
                               const char* who) {
    if (found == ranks) return;
    throw error(errc::invalid_plan,
                {.expected = std::to_string(ranks) + " " + what + ", one per rank",
                 .found = std::to_string(found),
                 .remedy = std::string("the ") + who + " dropped some"});
}

inline std::string elements_of(dtype type, const index_vector& shape) {
    return std::string(name_of(type)) + " elements of shape " + to_string(shape);
}

/// @throws error errc::invalid_plan unless `data` matches `item` exactly, wherever it is.
inline void check_described(const write_item& item, const item_data& data) {
    auto const refuse = [&](std::string expected, std::string found) {
        throw error(errc::invalid_plan,
                    {.fqn = item.fqn,
                     .expected = std::move(expected) + ", as the item says",
                     .found = std::move(found),
                     .remedy = "the planner's resolve_data must return what the item describes"});
    };
    auto const* view = std::get_if<const_tensor_view>(&data);
    auto const* source = std::get_if<const tensor_source*>(&data);
    if (source != nullptr && *source == nullptr) refuse("a tensor_source", "a null pointer");
    if (item.kind == item_kind::value) {
        if (view != nullptr)
            refuse("a value", "a tensor of " + elements_of(view->type, view->shape));
        if (source != nullptr) refuse("a value", "a tensor_source");
        auto const* v = std::get<const value*>(data);
        if (v == nullptr) refuse("a value", "a null pointer");
        return check_text(item.fqn, *v);
    }
    auto const expected = elements_of(item.type, item.region.shape);
    if (source != nullptr) {
        auto const& s = **source;
        if (s.type != item.type || s.shape != item.region.shape)
            refuse(expected, elements_of(s.type, s.shape));
        if (!s.read && s.bytes() != 0) refuse(expected, "a tensor_source without a function");
        return;
    }
    if (view == nullptr) return refuse(expected, "a value");
    if (view->type != item.type || view->shape != item.region.shape)
        refuse(expected, elements_of(view->type, view->shape));
    if (view->strides.size() != view->shape.size())
        refuse(expected, "strides " + to_string(view->strides));
    if (view->data == nullptr && !view->empty()) refuse(expected, "a null pointer");
}
/// @throws error errc::invalid_plan also unless there is data for each item.
inline void check_described(const save_plan& plan, std::span<const item_data> data) {
    if (data.size() != plan.items.size())
        throw error(errc::invalid_plan,
                    {.expected = "data for each of " + std::to_string(plan.items.size()) + " items",
                     .found = "data for " + std::to_string(data.size())});
    for (std::size_t i = 0; i < data.size(); ++i) check_described(plan.items[i], data[i]);
}

}  // namespace detail

/// Checks the data that a SavePlanner returned for each item of its finished plan, before any byte
/// is written: a tensor of the item's dtype and shape in host memory, or a value if the item is
/// one.
/// @throws error errc::invalid_plan naming the item, its description, and what was returned;
/// errc::invalid_state for a str that is not UTF-8.
inline void check_item_data(const save_plan& plan, std::span<const item_data> data) {
    detail::check_described(plan, data);
    for (std::size_t i = 0; i < data.size(); ++i) {
        auto const* v = std::get_if<const_tensor_view>(&data[i]);
        if (v == nullptr || v->empty() || is_host(v->device.kind)) continue;
        throw error(errc::invalid_plan, {.fqn = plan.items[i].fqn,
                                         .expected = "memory that the host can read",
                                         .found = "memory of " + to_string(v->device)});
    }
}

/// Checks that a local plan can be sent to other ranks.
/// @throws error errc::invalid_plan naming the rank and the item that it made.
inline void check_sendable(const save_plan& plan, int rank) {
    auto const refuse = [&](const std::string& fqn, std::string expected, std::string found) {
        throw error(errc::invalid_plan, {.rank = rank,
                                         .fqn = fqn,
                                         .expected = std::move(expected),
                                         .found = std::move(found),
                                         .remedy = "correct what the planner plans for it"});
    };
    auto const at_most = [&](const std::string& fqn, std::size_t most, const char* of,
                             std::size_t found) {
        if (found > most)
            refuse(fqn, "at most " + std::to_string(most) + of, std::to_string(found));
    };
    for (auto const& i : plan.items) {
        if (i.kind < item_kind::tensor || i.kind > item_kind::value)
            refuse(i.fqn, "an item_kind", "number " + std::to_string(static_cast<int>(i.kind)));
        if (i.kind == item_kind::value) continue;
        if (static_cast<int>(i.type) >= dtype_count)
            refuse(i.fqn, "a dtype", "number " + std::to_string(static_cast<int>(i.type)));
        for (auto const* numbers : {&i.global_shape, &i.region.offsets, &i.region.shape})
            at_most(i.fqn, detail::most_dimensions, " dimensions", numbers->size());
    }
    for (auto const& [fqn, path] : plan.paths)
        at_most(fqn, most_path_steps, " steps of its path", path.size());
}

/// Checks the chunks that a user's planner plans, as @ref create_global_metadata checks its own, so
/// that no metadata is written that a reader would refuse.
/// @throws error errc::invalid_plan naming the tensor and the boxes; errc::invalid_state for a name
/// that is not UTF-8.
inline void check_planned_metadata(const metadata& m) {
    for (auto const& [fqn, path] : m.paths) detail::check_path(path);
    for (auto const& [fqn, entry] : m.entries) {
        detail::check_name(fqn);
        auto const* t = std::get_if<tensor_metadata>(&entry);
        if (t == nullptr) continue;
        std::vector<box> boxes;
        for (std::size_t i = 0; i < t->chunks.size(); ++i) boxes.push_back(t->chunks.region(i));
        check_coverage(fqn, t->shape, boxes);
        check_offsets(fqn, boxes);
    }
}

/// Checks that a rank has written what the metadata describes: a finished plan may differ from the
/// one that the metadata was made of.
/// @param entry  The metadata's entry for the item's name.
/// @throws error errc::invalid_plan naming the rank and the item.
inline void check_written_item(const write_item& item, int rank,
                               const std::variant<tensor_metadata, value_metadata>& entry) {
    auto const refuse = [&](std::string expected, std::string found) {
        throw error(errc::invalid_plan,
                    {.rank = rank,
                     .fqn = item.fqn,
                     .expected = std::move(expected) + ", as the metadata says",
                     .found = std::move(found),
                     .remedy = "the finished plan must be what the global plan promised"});
    };
    auto const* t = std::get_if<tensor_metadata>(&entry);
    if ((t == nullptr) != (item.kind == item_kind::value))
        refuse(t == nullptr ? "a value" : "a tensor", t == nullptr ? "a tensor" : "a value");
    if (t != nullptr && (item.type != t->type || item.global_shape != t->shape))
        refuse("a part of " + detail::elements_of(t->type, t->shape),
               "a part of " + detail::elements_of(item.type, item.global_shape));
}

}  // namespace cairn

#endif
