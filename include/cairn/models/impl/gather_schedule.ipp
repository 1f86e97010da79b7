// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_IMPL_GATHER_SCHEDULE_IPP
#define CAIRN_MODELS_IMPL_GATHER_SCHEDULE_IPP

#include <cairn/models/detail/gather_schedule.hpp>

#include <cairn/metadata/coverage.hpp>
#include <cairn/metadata/detail/codec.hpp>

#include <algorithm>

namespace cairn::detail {

CAIRN_DECL std::vector<std::byte> gather_schedule::describe(const std::vector<named_leaf>& mine) {
    wire_writer w;
    w.varint(mine.size());
    for (auto const& [fqn, leaf] : mine) {
        w.string(fqn);
        put(w, leaf->type);
        put(w, leaf->global_shape);
        w.varint(leaf->shards.size());
        for (auto const& s : leaf->shards) put(w, s.region);
    }
    return w.take();
}

CAIRN_DECL gather_schedule::gather_schedule(const std::vector<outcome>& everybody,
                                            std::size_t piece) {
    for (std::size_t r = 0; r < everybody.size(); ++r) add(r, everybody[r].payload);
    for (auto& t : tensors_)
        check_coverage(t.fqn, t.global_shape, t.boxes,
                       [&](std::size_t i) { return "rank " + std::to_string(t.owners[i]); });
    // Not less than the largest element; numbers of elements are signed.
    cut(everybody.size(), std::clamp<std::size_t>(piece, 16, std::size_t{1} << 62));
}

CAIRN_DECL void gather_schedule::add(std::size_t rank, const std::vector<std::byte>& message) {
    wire_reader r(message);
    for (auto n = r.count(); n-- > 0;) {
        auto fqn = r.string();
        auto const type = get_dtype(r);
        auto const global = get_numbers(r);
        auto const [it, fresh] = index_.try_emplace(fqn, tensors_.size());
        if (fresh) tensors_.push_back({fqn, type, global, {}, {}});
        auto& t = tensors_[it->second];
        if (fresh) firsts_.push_back(rank);
        auto const parts = r.count();
        // A rank without a shard may not know the dtype.
        if (t.boxes.empty()) t.type = type;
        if (t.global_shape != global || (t.type != type && parts != 0))
            throw error(errc::invalid_plan,
                        {.fqn = fqn,
                         .expected = describe(t.type, t.global_shape) + " as on rank " +
                                     std::to_string(firsts_[it->second]),
                         .found = describe(type, global) + " on rank " + std::to_string(rank)});
        for (std::uint32_t p = 0; p < parts; ++p) {
            auto b = get_box(r);
            if (!seen_.emplace(it->second, b.offsets, b.shape).second) continue;
            parts_.emplace(std::pair(it->second, t.boxes.size()), p);
            t.boxes.push_back(std::move(b));
            t.owners.push_back(rank);
        }
    }
}

CAIRN_DECL void gather_schedule::check_size(std::span<const std::byte> sent, std::size_t rank,
                                            std::size_t round) const {
    std::size_t wanted = 0;
    for (auto const& r : of(rank, round))
        wanted += static_cast<std::size_t>(r.end - r.begin) * size_of(tensors_[r.tensor].type);
    if (sent.size() == wanted) return;
    throw error(errc::invalid_plan,
                {.expected = std::to_string(wanted) + " bytes from rank " + std::to_string(rank),
                 .found = std::to_string(sent.size()),
                 .remedy = "use the same piece_bytes on all ranks"});
}

CAIRN_DECL std::string gather_schedule::describe(dtype type, const index_vector& global) {
    return std::string(name_of(type)) + " " + to_string(global);
}

CAIRN_DECL void gather_schedule::cut(std::size_t ranks, std::size_t piece) {
    sends_.resize(ranks);
    std::vector<std::size_t> left(ranks, 0);
    for (std::uint32_t i = 0; i < tensors_.size(); ++i) {
        auto const& t = tensors_[i];
        auto const element = size_of(t.type);
        for (std::size_t b = 0; b < t.boxes.size(); ++b) {
            auto const rank = t.owners[b];
            auto const volume = t.boxes[b].volume();
            for (std::int64_t at = 0; at < volume;) {
                if (left[rank] < element) {
                    sends_[rank].emplace_back();
                    left[rank] = piece;
                }
                auto const n = std::min<std::int64_t>(
                    volume - at, static_cast<std::int64_t>(left[rank] / element));
                sends_[rank].back().push_back({i, parts_.at({i, b}), t.boxes[b], at, at + n});
                left[rank] -= static_cast<std::size_t>(n) * element;
                at += n;
            }
        }
    }
    for (auto const& s : sends_) rounds_ = std::max(rounds_, s.size());
}

}  // namespace cairn::detail

#endif
