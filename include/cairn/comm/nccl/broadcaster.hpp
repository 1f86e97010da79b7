// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_NCCL_BROADCASTER_HPP
#define CAIRN_COMM_NCCL_BROADCASTER_HPP

#include <cairn/comm/exchange_kind.hpp>
#include <cairn/comm/nccl/header.hpp>
#include <cairn/comm/nccl/staging.hpp>
#include <cairn/comm/nccl/payload.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

/// How an NCCL group works; the same on all ranks.
struct nccl_options {
    /// Of staging memory, on the device and pinned on the host; at least 4 KiB for each rank.
    std::size_t staging_bytes = std::size_t{4} << 20;
    /// The group may call `ncclCommAbort` when an exchange is cut short. Without, the caller does.
    bool abort_on_failure = false;
    /// Tells groups over one communicator apart.
    std::uint64_t epoch = 0;
};

namespace detail {

/// One exchange, as it was asked for.
struct nccl_call {
    exchange_kind kind = exchange_kind::barrier;
    int root = 0;
    std::vector<message> in{};
    deadline by = no_deadline;
};

/// One rank of a group over an `ncclComm_t`, blocking: headers, agreement, payload. Used by one
/// thread, which is the only one to launch anything.
template <NcclApi Api>
class nccl_member {
public:
    /// @param cancelled  Set from any thread; outlives this.
    nccl_member(typename Api::comm comm, const nccl_options& o, const std::atomic<bool>& cancelled)
        : options_(o), cancelled_(cancelled), lane_(comm, o.staging_bytes, cancelled) {}

    int rank() const noexcept { return lane_.rank(); }
    int size() const noexcept { return lane_.size(); }
    bool aborted() const noexcept { return lane_.aborted(); }

    /// @return gather at root and all_gather: one per rank; scatter, broadcast: one.
    /// @throws error; the group is poisoned then
    std::vector<message> run(nccl_call call) {
        auto const refused = wrong_call(call.kind, call.root, call.in.size(), rank(), size());
        if (poison_) {
            if (refused) throw *refused;
            throw error(errc::poisoned, {.rank = rank(), .found = *poison_,
                                         .remedy = "make a new group"});
        }
        at_ = place::calling;
        try {
            // Others wait for a call that cannot come, so they are told.
            if (cancelled_.load(std::memory_order_relaxed))
                throw error(errc::cancelled, {.rank = rank(), .remedy = "make a new group"});
            return exchange(std::move(call), refused);
        } catch (const error& e) {
            poison_ = e.what();
            if (!agreed_) cut_short(e);
            throw;
        } catch (const std::exception& e) {
            poison_ = e.what();
            cut_short(error(errc::rank_failed, {.rank = rank(), .found = e.what()}));
            throw;
        }
    }

private:
    /// Which part of an exchange is in the stream.
    enum class place { calling, getting_ready, last_word, moving };

    std::vector<message> exchange(nccl_call call, const std::optional<error>& refused) {
        lane_.until(call.by);
        nccl_header mine;
        mine.kind = call.kind;
        mine.root = call.root;
        mine.epoch = options_.epoch;
        mine.round = round_++;
        mine.slice = lane_.slice();
        for (auto const& m : call.in) mine.size = std::max<std::uint64_t>(mine.size, m.size());
        if (refused) mine.gave_up = refused->code().value();
        std::vector<std::size_t> sizes;
        for (auto const& h : agree(mine, refused))
            sizes.push_back(static_cast<std::size_t>(h.size));

        std::vector<message> out;
        std::optional<error> no_room;
        try {
            out = room_for(call, sizes);
        } catch (const std::bad_alloc& e) {
            no_room = too_much(sizes, e);
        } catch (const std::length_error& e) {
            no_room = too_much(sizes, e);
        }
        at_ = call.kind == exchange_kind::barrier ? place::last_word : place::getting_ready;
        mine.stage = nccl_header::stage_type::ready;
        if (no_room) mine.gave_up = no_room->code().value();
        (void)agree(mine, no_room);

        at_ = place::moving;
        move(call, sizes, out);
        return out;
    }

    /// Everybody's header, when all agree.
    /// @param own  Why this rank gives up, if it does: thrown in place of what the others get.
    std::vector<nccl_header> agree(const nccl_header& mine, const std::optional<error>& own) {
        nccl_payload<Api> payload(lane_);
        std::memcpy(lane_.host(payload.own(sizeof mine)), &mine, sizeof mine);
        payload.all_gather_staged(sizeof mine, sizeof mine, "say what they were called for");
        std::vector<nccl_header> all(static_cast<std::size_t>(size()));
        std::memcpy(all.data(), lane_.host(), all.size() * sizeof mine);
        agreed_ = true;
        if (own) throw *own;
        nccl_agree(all);
        agreed_ = false;
        return all;
    }

    /// Empty messages that have room for what will come; for a scatter, for the largest share.
    /// @param sizes  Of each rank's message, or of its largest.
    std::vector<message> room_for(const nccl_call& call, const std::vector<std::size_t>& sizes) {
        auto const me = static_cast<std::size_t>(rank());
        std::vector<message> out;
        auto const add = [&out](std::size_t bytes) {
            out.emplace_back();
            out.back().reserve(bytes);
        };
        switch (call.kind) {
            case exchange_kind::gather:
                if (rank() == call.root)
                    for (std::size_t r = 0; r < sizes.size(); ++r) add(r == me ? 0 : sizes[r]);
                break;
            case exchange_kind::all_gather:
                for (auto const n : sizes) add(n);
                break;
            case exchange_kind::scatter:
            case exchange_kind::broadcast:
                add(rank() == call.root ? 0 : sizes[static_cast<std::size_t>(call.root)]);
                break;
            case exchange_kind::barrier: break;
        }
        return out;
    }

    void move(nccl_call& call, const std::vector<std::size_t>& sizes, std::vector<message>& out) {
        nccl_payload<Api> payload(lane_);
        auto const root = static_cast<std::size_t>(call.root);
        bool const here = rank() == call.root;
        switch (call.kind) {
            case exchange_kind::gather:
                payload.gather(call.in.front(), call.root, sizes, out);
                if (here) out[root] = std::move(call.in.front());
                break;
            case exchange_kind::all_gather:
                payload.all_gather(call.in.front(), sizes, out);
                break;
            case exchange_kind::scatter:
                payload.scatter(call.in, call.root, shares(call, payload), out.front());
                if (here) out.front() = std::move(call.in[root]);
                break;
            case exchange_kind::broadcast:
                payload.broadcast(call.in.front(), call.root, sizes[root], out.front());
                if (here) out.front() = std::move(call.in.front());
                break;
            case exchange_kind::barrier: break;
        }
    }

    /// Bytes of each rank's share at root, of this one's elsewhere: root's table, as a scatter of
    /// 8 bytes for each.
    std::vector<std::size_t> shares(const nccl_call& call, nccl_payload<Api>& payload) const {
        std::vector<std::size_t> sizes(static_cast<std::size_t>(size()), sizeof(std::uint64_t));
        std::vector<message> table;
        if (rank() == call.root) {
            for (auto const& m : call.in) {
                std::uint64_t const bytes = m.size();
                table.emplace_back(sizeof bytes);
                std::memcpy(table.back().data(), &bytes, sizeof bytes);
            }
        }
        message share;
        payload.scatter(table, call.root, sizes, share);
        if (rank() == call.root) {
            for (std::size_t r = 0; r < sizes.size(); ++r) sizes[r] = call.in[r].size();
        } else {
            std::uint64_t bytes = 0;
            std::memcpy(&bytes, share.data(), sizeof bytes);
            sizes[static_cast<std::size_t>(rank())] = static_cast<std::size_t>(bytes);
        }
        return sizes;
    }

    error too_much(const std::vector<std::size_t>& sizes, const std::exception& e) const {
        std::string all;
        for (auto const n : sizes) all += (all.empty() ? "" : " + ") + std::to_string(n);
        return {errc::rank_failed, {.rank = rank(), .expected = "memory for messages of " + all +
                                                                " bytes", .found = e.what()}};
    }

    /// This rank leaves an exchange that the others may still be in. A rank that comes to it later
    /// waits for this one's next header, as long as no bytes were to travel: it gets a last one.
    void cut_short(const error& e) noexcept {
        bool const by_choice = e.code() == make_error_code(errc::timed_out) ||
                               e.code() == make_error_code(errc::cancelled);
        bool const heard = at_ == place::calling || at_ == place::last_word;
        if (by_choice && heard && !options_.abort_on_failure) {
            nccl_header last;
            last.gave_up = e.code().value();
            std::memcpy(lane_.parting(), &last, sizeof last);
            auto const mine = lane_.device(sizeof last * static_cast<std::size_t>(rank()));
            auto const s = Api::to_device(mine, lane_.parting(), sizeof last, lane_.stream());
            if (s.is == nccl_status::state::ok)
                (void)Api::all_gather(mine, lane_.device(), sizeof last, lane_.comm(),
                                      lane_.stream());
        }
        lane_.give_up(options_.abort_on_failure);
    }

    nccl_options options_;
    const std::atomic<bool>& cancelled_;
    nccl_lane<Api> lane_;
    std::uint64_t round_ = 0;
    place at_ = place::calling;
    bool agreed_ = false;  ///< All ranks have the same headers, and fail alike.
    std::optional<std::string> poison_{};
};

}  // namespace detail
}  // namespace cairn

#endif
