// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_GATHER_HPP
#define CAIRN_MODELS_GATHER_HPP

#include <cairn/detail/exchange.hpp>
#include <cairn/metadata/coverage.hpp>
#include <cairn/models/options.hpp>
#include <cairn/planner/plan_codec.hpp>
#include <cairn/state/make_leaf.hpp>
#include <cairn/tensor/flat_range.hpp>
#include <cairn/tensor/host_tensor.hpp>
#include <cairn/tensor/layout.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace cairn {
namespace detail {

/// A tensor of this rank's to be made whole with the other ranks' parts of the same name.
struct named_leaf {
    std::string fqn;
    const tensor_leaf* leaf;
};

/// Part of one shard, as a range of its elements in row-major order.
struct shard_range {
    std::uint32_t tensor;  ///< Position among the gathered tensors.
    std::uint32_t part;    ///< The owner's shard.
    box where;             ///< Of the whole.
    std::int64_t begin;
    std::int64_t end;
};

/// Calls `f(part of the shard, bytes before it)` for each box of the range.
template <class F>
void for_each_box(const shard_range& r, std::size_t element, F&& f) {
    std::size_t at = 0;
    for (auto const& b : boxes_of_flat_range(r.where.shape, r.begin, r.end)) {
        f(b, at);
        at += static_cast<std::size_t>(b.volume()) * element;
    }
}

/// Everybody's shards of everybody's tensors, and who sends what in which round. Each rank makes
/// the same one of the same messages.
class gather_schedule {
public:
    struct tensor {
        std::string fqn;
        dtype type;
        index_vector global_shape;
        std::vector<box> boxes;
        std::vector<std::size_t> owners;  ///< A rank for each box.
    };

    static std::vector<std::byte> describe(const std::vector<named_leaf>& mine) {
        wire_writer w;
        w.varint(mine.size());
        for (auto const& [fqn, leaf] : mine) {
            w.string(fqn);
            w.u8(static_cast<std::uint8_t>(leaf->type));
            put(w, leaf->global_shape);
            w.varint(leaf->shards.size());
            for (auto const& s : leaf->shards) {
                put(w, s.where.offsets);
                put(w, s.where.shape);
            }
        }
        return std::move(w.out);
    }

    /// @throws error errc::invalid_plan naming both ranks when they contradict each other, or
    /// when nobody holds some part of a tensor.
    gather_schedule(const std::vector<outcome>& everybody, std::size_t piece) {
        for (std::size_t r = 0; r < everybody.size(); ++r) add(r, everybody[r].payload);
        for (auto& t : tensors_)
            check_coverage(t.fqn, t.global_shape, t.boxes,
                           [&](std::size_t i) { return "rank " + std::to_string(t.owners[i]); });
        cut(everybody.size(), std::max<std::size_t>(piece, 16));
    }

    const std::vector<tensor>& tensors() const noexcept { return tensors_; }
    std::size_t rounds() const noexcept { return rounds_; }
    /// What a rank sends in a round.
    const std::vector<shard_range>& of(std::size_t rank, std::size_t round) const {
        auto const& mine = sends_[rank];
        return round < mine.size() ? mine[round] : nothing_;
    }

private:
    void add(std::size_t rank, const std::vector<std::byte>& message) {
        wire_reader r(message);
        for (auto n = r.count(); n-- > 0;) {
            auto fqn = r.string();
            auto const code = r.u8();
            if (code >= dtype_count) wire_reader::fail("an unknown dtype");
            auto const type = static_cast<dtype>(code);
            auto const global = get_sizes(r);
            auto const [it, fresh] = index_.try_emplace(fqn, tensors_.size());
            if (fresh) tensors_.push_back({fqn, type, global, {}, {}});
            auto& t = tensors_[it->second];
            if (fresh) firsts_.push_back(rank);
            auto const parts = r.count();
            // A rank that holds nothing may not know the dtype.
            if (t.boxes.empty()) t.type = type;
            if (t.global_shape != global || (t.type != type && parts != 0))
                throw error(errc::invalid_plan,
                            {.fqn = fqn,
                             .expected = describe(t.type, t.global_shape) + " as on rank " +
                                         std::to_string(firsts_[it->second]),
                             .found = describe(type, global) + " on rank " + std::to_string(rank)});
            for (std::uint32_t p = 0; p < parts; ++p) {
                auto offsets = get_sizes(r);
                box b(std::move(offsets), get_sizes(r));
                if (!seen_.emplace(it->second, b.offsets, b.shape).second) continue;
                parts_.emplace(std::pair(it->second, t.boxes.size()), p);
                t.boxes.push_back(std::move(b));
                t.owners.push_back(rank);
            }
        }
    }
    static std::string describe(dtype type, const index_vector& global) {
        return std::string(name_of(type)) + " " + to_string(global);
    }

    /// Ranges of at most `piece` bytes, as many in one round as fit.
    void cut(std::size_t ranks, std::size_t piece) {
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

    std::vector<tensor> tensors_;
    std::vector<std::size_t> firsts_;  ///< The rank that named each tensor first.
    std::map<std::string, std::size_t, std::less<>> index_;
    std::set<std::tuple<std::size_t, index_vector, index_vector>> seen_;  ///< Tensor and box: once.
    std::map<std::pair<std::size_t, std::size_t>, std::uint32_t> parts_;
    std::vector<std::vector<std::vector<shard_range>>> sends_;  ///< By rank and round.
    std::size_t rounds_ = 0;
    std::vector<shard_range> nothing_;
};

/// The bytes of ranges, one after the other, each row-major.
/// @param shard  Gives the memory of a range's shard.
template <class Shard>
std::vector<std::byte> pack(const std::vector<shard_range>& ranges, Shard&& shard) {
    std::vector<std::byte> out;
    for (auto const& r : ranges) {
        const_tensor_view const from = shard(r);
        auto const element = size_of(from.type);
        auto const start = out.size();
        out.resize(start + static_cast<std::size_t>(r.end - r.begin) * element);
        for_each_box(r, element, [&](const box& b, std::size_t at) {
            copy_elements(subview(from, b), tensor_view(from.type, b.shape,
                                                        out.data() + start + at));
        });
    }
    return out;
}

/// The tensors of all ranks, whole: on every rank, or at the root and nothing elsewhere.
/// Memory beside the result: one piece of each rank.
/// @param look  Gives this rank's, which may differ from rank to rank. Whatever it throws fails all
///              ranks.
/// @throws error on all ranks, with every failed rank's own error.
inline std::vector<std::pair<std::string, host_tensor>> gather_whole(
    erased_communicator& comm, const std::function<std::vector<named_leaf>()>& look,
    const gather_options& options) {
    bool const all = options.root < 0;
    exchange ex(comm, all ? 0 : options.root, options.exchange_timeout);
    std::vector<named_leaf> mine;
    auto const everybody = ex.all_gather(ex.attempt([&] {
        mine = look();
        return gather_schedule::describe(mine);
    }));
    throw_failures(everybody);
    gather_schedule const schedule(everybody, options.piece_bytes);

    std::vector<std::pair<std::string, host_tensor>> out;
    outcome ready = ex.attempt([&] {
        if (all || ex.coordinator())
            for (auto const& t : schedule.tensors())
                out.emplace_back(t.fqn, host_tensor(t.type, t.global_shape));
        return std::vector<std::byte>();
    });
    throw_failures(ex.all_gather(ready));  // not enough memory somewhere

    std::map<std::string_view, const tensor_leaf*> leaves;
    for (auto const& m : mine) leaves.emplace(m.fqn, m.leaf);
    for (std::size_t round = 0; round < schedule.rounds(); ++round) {
        auto const o = ex.attempt([&] {
            return pack(schedule.of(static_cast<std::size_t>(ex.rank()), round),
                        [&](const shard_range& r) {
                            auto const& leaf = *leaves.at(schedule.tensors()[r.tensor].fqn);
                            return leaf.shards[r.part].view;
                        });
        });
        auto const got = all ? ex.all_gather(o) : ex.gather(o);
        throw_failures(got);
        for (std::size_t rank = 0; rank < got.size(); ++rank) {
            auto const* from = got[rank].payload.data();
            for (auto const& r : schedule.of(rank, round)) {
                auto const target = subview(out[r.tensor].second.view(), r.where);
                auto const element = size_of(target.type);
                for_each_box(r, element, [&](const box& b, std::size_t at) {
                    copy_elements(const_tensor_view(target.type, b.shape, from + at),
                                  subview(target, b));
                });
                from += static_cast<std::size_t>(r.end - r.begin) * element;
            }
        }
    }
    return out;
}

}  // namespace detail

/// A sharded tensor whole; DTensor's `full_tensor`. Every rank calls it with its own part.
///
/// @return The whole on every rank, or at `options.root` and an empty tensor elsewhere.
/// @throws error on all ranks when the parts contradict each other or do not make a whole.
template <class T, Communicator Comm>
    requires(Tensor<T> || Sharded<T>)
host_tensor full_tensor(T&& t, Comm& comm, const gather_options& options = {}) {
    std::shared_ptr<tensor_leaf> leaf;
    detail::communicator_ref ranks(comm);
    auto whole = detail::gather_whole(
        ranks,
        [&] {
            leaf = detail::make_leaf(std::forward<T>(t));
            if (leaf->number) detail::refresh(*leaf->number);
            return std::vector<detail::named_leaf>{{"the tensor", leaf.get()}};
        },
        options);
    return whole.empty() ? host_tensor() : std::move(whole.front().second);
}

}  // namespace cairn

#endif
