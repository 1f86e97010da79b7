// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_NCCL_BROADCASTER_HPP
#define CAIRN_COMM_NCCL_BROADCASTER_HPP

#include <cairn/comm/detail/nccl/header.hpp>
#include <cairn/comm/detail/nccl/staging.hpp>
#include <cairn/memory/memory_span.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cairn {

/// Options of a data plane over NCCL; the same on all ranks.
struct nccl_plane_options {
    /// Staging memory, both on the device and pinned on the host; at least 8 KiB.
    std::size_t staging_bytes = std::size_t{8} << 20;
    /// The plane calls `ncclCommAbort` when a broadcast is interrupted. Otherwise the caller must,
    /// and the plane does not serve the device: operations that remain in the communicator could
    /// write to tensors later.
    bool abort_on_failure = false;
};

namespace detail {

/// One rank of a data plane over an `ncclComm_t`, blocking: exchanges headers, checks them, then
/// sends bytes. Used by one thread, which makes all launches.
template <NcclApi Api>
class nccl_broadcaster {
public:
    /// @param cancelled  Set from any thread; must outlive this.
    nccl_broadcaster(typename Api::comm comm, int plane_id, const nccl_plane_options& o,
                     const std::atomic<bool>& cancelled)
        : plane_id_(plane_id), abort_(o.abort_on_failure), cancelled_(cancelled),
          staging_(comm, o.staging_bytes, sizeof(nccl_header), cancelled) {}

    int rank() const noexcept { return staging_.rank(); }
    int size() const noexcept { return staging_.size(); }
    bool aborted() const noexcept { return staging_.aborted(); }
    /// The device that is served, beside the host.
    std::optional<device_id> device() const {
        if (!abort_) return {};
        return device_id{memory_kind::cuda, staging_.device_number()};
    }

    /// @throws error; the plane is unusable afterwards, and does not use the memory any more
    void run(const memory_span& bytes, int root, deadline by) {
        if (poison_)
            throw error(errc::poisoned,
                        {.rank = rank(), .found = *poison_, .remedy = "make a new data plane"});
        calling_ = true;
        agreed_ = false;
        try {
            // Other ranks would wait for this rank's call, so they are notified.
            if (cancelled_.load(std::memory_order_relaxed))
                throw error(errc::cancelled, {.rank = rank(), .remedy = "make a new data plane"});
            broadcast(bytes, root, by);
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
    void broadcast(const memory_span& bytes, int root, deadline by) {
        auto const given = by == no_deadline ? no_timeout
                                             : std::chrono::ceil<std::chrono::milliseconds>(
                                                   by - std::chrono::steady_clock::now());
        staging_.until(by);
        nccl_header mine;
        mine.root = root;
        mine.plane_id = plane_id_;
        mine.round = round_++;
        mine.staging = staging_.bytes();
        mine.size = bytes.size;
        std::optional<error> wrong;
        if (root < 0 || root >= size())
            wrong = error(errc::invalid_argument,
                          {.rank = rank(),
                           .expected = "a root from 0 to " + std::to_string(size() - 1),
                           .found = std::to_string(root)});
        else if (!is_host(bytes.device.kind) && bytes.device != device())
            wrong = error(errc::invalid_argument,
                          {.rank = rank(),
                           .expected = "host memory" +
                                       (device() ? ", or memory of " + to_string(*device()) : ""),
                           .found = "memory of " + to_string(bytes.device),
                           .remedy = "ask the plane's serves(); nccl_plane_options says what "
                                     "devices need"});
        if (wrong) mine.gave_up = wrong->code().value();
        agree(mine, wrong);
        mine.stage = nccl_header::stage_type::ready;
        // Once this header is sent, the others go on to the bytes: no header matches those.
        calling_ = bytes.empty();
        agree(mine, {});
        calling_ = false;
        in_place_ = !is_host(bytes.device.kind);
        if (in_place_)
            move_in_place(bytes, root, given);
        else
            move_staged(bytes.on_host(), root, given);
        in_place_ = false;
    }

    /// Returns if all ranks agree.
    /// @param own  This rank's failure, if any: thrown instead of the error that the others get.
    void agree(const nccl_header& mine, const std::optional<error>& own) {
        auto const at = sizeof mine * static_cast<std::size_t>(rank());
        auto const all_bytes = sizeof mine * static_cast<std::size_t>(size());
        std::memcpy(staging_.host_headers(at), &mine, sizeof mine);
        gather(staging_.host_headers(at));
        staging_.to_host(staging_.host_headers(), staging_.device_headers(), all_bytes);
        staging_.mark(0);
        staging_.wait(0, "tell each other what they were called for");
        std::vector<nccl_header> all(static_cast<std::size_t>(size()));
        std::memcpy(all.data(), staging_.host_headers(), all_bytes);
        agreed_ = true;
        if (own) throw *own;
        nccl_agree(all);
        agreed_ = false;
    }
    /// Sends this rank's header to all ranks.
    void gather(const std::byte* header) {
        auto const mine =
            staging_.device_headers(sizeof(nccl_header) * static_cast<std::size_t>(rank()));
        staging_.to_device(mine, header, sizeof(nccl_header));
        staging_.launched(Api::all_gather(mine, staging_.device_headers(), sizeof(nccl_header),
                                          staging_.comm(), staging_.stream()),
                          "tell each other what they were called for");
    }

    /// Broadcasts in pieces of the size of a slot: two are under way.
    /// @param begin  `begin(piece, slot)` launches it.
    /// @param end    `end(piece, slot)` is called when it is sent.
    template <class Begin, class End>
    void move(std::size_t bytes, std::chrono::milliseconds given, Begin begin, End end) {
        struct piece {
            std::size_t at, size;
        };
        auto const most = staging_.bytes();
        auto const pieces = (bytes + most - 1) / most;
        auto const part = [&](std::size_t i) {
            return piece{i * most, std::min(most, bytes - i * most)};
        };
        auto const finish = [&](std::size_t i) {
            staging_.wait(i % slots, "broadcast");
            if (given != no_timeout) staging_.until(deadline_after(given));  // restarts the timeout
            end(part(i), i % slots);
        };
        for (std::size_t i = 0; i < pieces; ++i) {
            if (i >= slots) finish(i - slots);
            begin(part(i), i % slots);
            staging_.mark(i % slots);
        }
        for (auto i = pieces - std::min(slots, pieces); i < pieces; ++i) finish(i);
    }
    /// While the piece of one slot is copied from or to the host, that of the other is sent.
    void move_staged(std::span<std::byte> bytes, int root, std::chrono::milliseconds given) {
        bool const here = rank() == root;
        move(
            bytes.size(), given,
            [&](auto p, std::size_t slot) {
                if (here) {
                    std::memcpy(staging_.host(slot), bytes.data() + p.at, p.size);
                    staging_.to_device(staging_.device(slot), staging_.host(slot), p.size);
                }
                launch(staging_.device(slot), p.size, root);
                if (!here) staging_.to_host(staging_.host(slot), staging_.device(slot), p.size);
            },
            [&](auto p, std::size_t slot) {
                if (!here) std::memcpy(bytes.data() + p.at, staging_.host(slot), p.size);
            });
    }
    /// Other ranks may be given host memory: the pieces are the same.
    void move_in_place(const memory_span& bytes, int root, std::chrono::milliseconds given) {
        auto const at = Api::address(bytes.data, bytes.device.index);
        move(
            bytes.size, given, [&](auto p, std::size_t) { launch(at + p.at, p.size, root); },
            [](auto, std::size_t) {});
    }
    void launch(typename Api::device_pointer at, std::size_t n, int root) {
        staging_.launched(Api::broadcast(at, n, root, staging_.comm(), staging_.stream()),
                          "broadcast");
    }

    /// Ends this rank's part in a broadcast that other ranks may still be in. A rank that calls it
    /// later waits for this rank's next header, if no bytes were to be sent: a last header is sent
    /// for it.
    void cut_short(const error& e) noexcept {
        bool const by_choice = e.code() == make_error_code(errc::timed_out) ||
                               e.code() == make_error_code(errc::cancelled);
        if (by_choice && calling_ && !abort_) {
            nccl_header last;
            last.gave_up = e.code().value();
            std::memcpy(staging_.last_header(), &last, sizeof last);
            auto const mine =
                staging_.device_headers(sizeof last * static_cast<std::size_t>(rank()));
            auto const s =
                Api::to_device(mine, staging_.last_header(), sizeof last, staging_.stream());
            if (s.is == nccl_status::state::ok)
                (void)Api::all_gather(mine, staging_.device_headers(), sizeof last, staging_.comm(),
                                      staging_.stream());
        }
        staging_.give_up(abort_);
        if (in_place_) (void)staging_.drain();
    }

    static constexpr std::size_t slots = nccl_staging<Api>::slots;

    int plane_id_;
    bool abort_;
    const std::atomic<bool>& cancelled_;
    nccl_staging<Api> staging_;
    std::uint64_t round_ = 0;
    bool calling_ = false;   ///< Headers are being exchanged; no bytes yet.
    bool in_place_ = false;  ///< A device's memory that is the caller's is sent or filled.
    bool agreed_ = false;    ///< All ranks have the same headers, and fail alike.
    std::optional<std::string> poison_{};
};

}  // namespace detail
}  // namespace cairn

#endif
