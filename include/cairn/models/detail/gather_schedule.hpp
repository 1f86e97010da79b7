// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_DETAIL_GATHER_SCHEDULE_HPP
#define CAIRN_MODELS_DETAIL_GATHER_SCHEDULE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/models/detail/named_leaf.hpp>
#include <cairn/tensor/flat_range.hpp>
#include <cairn/tensor/layout.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace cairn::detail {

/// A range of one shard's elements in row-major order.
struct shard_range {
    std::uint32_t tensor;       ///< Position in the list of gathered tensors.
    std::uint32_t shard_index;  ///< The owner's shard.
    box region;                 ///< Of the whole.
    std::int64_t begin;
    std::int64_t end;
};

/// Calls `f(box of the shard, bytes before it)` for each box of the range.
template <class F>
void for_each_box(const shard_range& r, std::size_t element, F&& f) {
    std::size_t at = 0;
    for (auto const& b : boxes_of_flat_range(r.region.shape, r.begin, r.end)) {
        f(b, at);
        at += static_cast<std::size_t>(b.volume()) * element;
    }
}

/// All ranks' shards of all tensors, and which rank sends what in which round. Each rank computes
/// the same schedule from the same messages.
class gather_schedule {
public:
    struct tensor {
        std::string fqn;
        dtype type;
        index_vector global_shape;
        std::vector<box> boxes;
        std::vector<std::size_t> owners;  ///< A rank for each box.
    };

    static std::vector<std::byte> describe(const std::vector<named_leaf>& mine);

    /// @throws error errc::invalid_plan naming both ranks if they contradict each other, or if no
    /// rank holds some region of a tensor.
    gather_schedule(const std::vector<outcome>& everybody, std::size_t piece);

    const std::vector<tensor>& tensors() const noexcept { return tensors_; }
    std::size_t rounds() const noexcept { return rounds_; }
    /// Returns what a rank sends in a round.
    const std::vector<shard_range>& of(std::size_t rank, std::size_t round) const {
        auto const& mine = sends_[rank];
        return round < mine.size() ? mine[round] : nothing_;
    }
    /// Checks that these are as many bytes as a rank sends in a round.
    /// @throws error errc::invalid_plan
    void check_size(std::span<const std::byte> sent, std::size_t rank, std::size_t round) const;

private:
    void add(std::size_t rank, const std::vector<std::byte>& message);
    static std::string describe(dtype type, const index_vector& global);

    /// Splits the shards into ranges of at most `piece` bytes, as many in one round as fit.
    void cut(std::size_t ranks, std::size_t piece);

    std::vector<tensor> tensors_;
    std::vector<std::size_t> firsts_;  ///< The rank that named each tensor first.
    std::map<std::string, std::size_t, std::less<>> index_;
    std::set<std::tuple<std::size_t, index_vector, index_vector>> seen_;  ///< Tensor and box: once.
    std::map<std::pair<std::size_t, std::size_t>, std::uint32_t> parts_;
    std::vector<std::vector<std::vector<shard_range>>> sends_;  ///< By rank and round.
    std::size_t rounds_ = 0;
    std::vector<shard_range> nothing_;
};

/// Packs the bytes of ranges one after the other, each row-major.
/// @param shard  Returns the memory of a range's shard.
template <class Shard>
std::vector<std::byte> pack(const std::vector<shard_range>& ranges, Shard&& shard) {
    std::vector<std::byte> out;
    for (auto const& r : ranges) {
        const_tensor_view const from = shard(r);
        auto const element = size_of(from.type);
        auto const start = out.size();
        out.resize(start + static_cast<std::size_t>(r.end - r.begin) * element);
        for_each_box(r, element, [&](const box& b, std::size_t at) {
            copy_elements(subview(from, b),
                          tensor_view(from.type, b.shape, out.data() + start + at));
        });
    }
    return out;
}

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/models/impl/gather_schedule.ipp>
#endif

#endif
