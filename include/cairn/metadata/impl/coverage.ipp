// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_IMPL_COVERAGE_IPP
#define CAIRN_METADATA_IMPL_COVERAGE_IPP

#include <cairn/metadata/coverage.hpp>

#include <cairn/detail/counted.hpp>
#include <cairn/metadata/detail/tiling.hpp>
#include <cairn/tensor/detail/meeting_boxes.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

namespace cairn {

namespace detail {

[[noreturn]] inline void refuse_gaps(const std::string& fqn, const index_vector& shape,
                                     std::uint64_t covered, std::size_t boxes) {
    throw error(errc::invalid_plan,
                {.fqn = fqn,
                 .expected = "chunks that cover all " +
                             counted(static_cast<std::uint64_t>(shape.product()), "element") +
                             " of " + to_string(shape),
                 .found = counted(covered, "element") + " in " + counted(boxes, "chunk"),
                 .remedy = "some rank's shard is missing from the state"});
}

/// @param whole  Whether they must cover the tensor.
inline std::uint64_t check_boxes(const std::string& fqn, const index_vector& shape,
                                 std::span<const box> boxes,
                                 const std::function<std::string(std::size_t)>& who, bool whole) {
    auto const name = [&](std::size_t i) {
        return to_string(boxes[i]) + (who ? " of " + who(i) : std::string());
    };
    if (!is_possible(shape)) {
        throw error(errc::invalid_plan,
                    {.fqn = fqn,
                     .expected = "at most " + std::to_string(most_elements) + " elements",
                     .found = to_string(shape)});
    }
    std::uint64_t covered = 0;
    for (std::size_t i = 0; i < boxes.size(); ++i) {
        if (!lies_within(boxes[i], shape)) {
            throw error(
                errc::invalid_plan,
                {.fqn = fqn, .expected = "chunks within " + to_string(shape), .found = name(i)});
        }
        covered += static_cast<std::uint64_t>(boxes[i].volume());
    }
    auto const dim =
        separating_dimension(shape.size(), boxes.size(),
                             [&](std::size_t i, std::size_t d) { return boxes[i].offsets[d]; });
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < boxes.size(); ++i)
        if (!boxes[i].empty()) order.push_back(i);
    if (shape.empty()) {
        if (order.size() > 1)
            throw error(errc::invalid_plan, {.fqn = fqn,
                                             .expected = "one chunk of a 0-d tensor",
                                             .found = std::to_string(order.size())});
    } else {
        std::vector<std::int64_t> starts;
        for (auto const& b : boxes) starts.push_back(b.offsets[dim]);
        std::sort(order.begin(), order.end(),
                  [&](auto a, auto b) { return starts[a] < starts[b]; });
        bool apart = true;  // in this dimension alone
        for (std::size_t k = 1; apart && k < order.size(); ++k)
            apart = boxes[order[k - 1]].end(dim) <= boxes[order[k]].offsets[dim];
        std::multimap<std::int64_t, std::size_t> active;  // by end
        std::uint64_t compared = 0;
        if (apart) order.clear();
        for (auto i : order) {
            active.erase(active.begin(), active.upper_bound(boxes[i].offsets[dim]));
            compared += active.size();
            if (compared > 4096 + 64 * order.size()) {
                if (covered != static_cast<std::uint64_t>(shape.product())) {
                    if (whole) refuse_gaps(fqn, shape, covered, boxes.size());
                    throw error(
                        errc::unsupported,
                        {.fqn = fqn,
                         .expected = "chunks that cover the tensor, because so many of them "
                                     "overlap in each dimension",
                         .found = counted(covered, "element") + " of " + to_string(shape) + " in " +
                                  counted(boxes.size(), "chunk")});
                }
                if (!tiling::is_exact(shape, boxes))
                    throw error(errc::invalid_plan, {.fqn = fqn,
                                                     .expected = "chunks that do not overlap",
                                                     .found = std::to_string(boxes.size()) +
                                                              " chunks, some of which do"});
                break;
            }
            for (auto const& [end, j] : active) {
                if (overlaps(boxes[i], boxes[j])) {
                    throw error(errc::invalid_plan, {.fqn = fqn,
                                                     .expected = "chunks that do not overlap",
                                                     .found = name(j) + " and " + name(i)});
                }
            }
            active.emplace(boxes[i].end(dim), i);
        }
    }
    return covered;
}

}  // namespace detail

CAIRN_DECL std::uint64_t check_apart(const std::string& fqn, const index_vector& shape,
                                     std::span<const box> boxes,
                                     const std::function<std::string(std::size_t)>& who) {
    return detail::check_boxes(fqn, shape, boxes, who, false);
}

CAIRN_DECL void check_coverage(const std::string& fqn, const index_vector& shape,
                               std::span<const box> boxes,
                               const std::function<std::string(std::size_t)>& who) {
    auto const covered = detail::check_boxes(fqn, shape, boxes, who, true);
    if (covered != static_cast<std::uint64_t>(shape.product()))
        detail::refuse_gaps(fqn, shape, covered, boxes.size());
}

CAIRN_DECL void check_offsets(const std::string& fqn, std::span<const box> boxes,
                              const std::function<std::string(std::size_t)>& who) {
    auto const is_empty = [](const box& b) { return b.empty(); };
    if (boxes.size() < 2 || std::none_of(boxes.begin(), boxes.end(), is_empty)) return;
    std::vector<std::size_t> order(boxes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](auto a, auto b) { return boxes[a].offsets < boxes[b].offsets; });
    auto const name = [&](std::size_t i) {
        return to_string(boxes[i]) + (who ? " of " + who(i) : std::string());
    };
    auto const clash = std::adjacent_find(order.begin(), order.end(), [&](auto a, auto b) {
        return boxes[a].offsets == boxes[b].offsets;
    });
    if (clash == order.end()) return;
    throw error(errc::invalid_plan,
                {.fqn = fqn,
                 .expected = "one chunk at each offset, by which PyTorch identifies it",
                 .found = name(clash[0]) + " and " + name(clash[1]),
                 .remedy = "remove boxes without elements from the plan"});
}

}  // namespace cairn

#endif
