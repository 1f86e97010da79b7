// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_NCCL_PAYLOAD_HPP
#define CAIRN_COMM_NCCL_PAYLOAD_HPP

#include <cairn/comm/nccl/staging.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

namespace cairn::detail {

/// Bytes of messages through the staging of a lane, piece by piece. All ranks of an exchange are in
/// the same function with the same sizes; results have room already, so that nothing here fails but
/// CUDA or NCCL.
template <NcclApi Api>
class nccl_payload {
public:
    explicit nccl_payload(nccl_lane<Api>& lane) : lane_(lane) {}

    /// Everybody's to `root`, by sends and receives in groups.
    /// @param sizes  Of each rank's message.
    /// @param out    At root one per rank, appended to; its own is left alone.
    void gather(const message& mine, int root, const std::vector<std::size_t>& sizes,
                std::vector<message>& out) {
        auto const slice = lane_.slice();
        if (lane_.rank() != root) {
            for (std::size_t at = 0; at < mine.size(); at += slice) {
                auto const n = std::min(slice, mine.size() - at);
                std::memcpy(lane_.host(), mine.data() + at, n);
                lane_.to_device(0, n);
                group("send to the root", [&](auto&& add) {
                    add(Api::send(lane_.device(), n, root, lane_.comm(), lane_.stream()));
                });
                lane_.wait("send to the root");
            }
            return;
        }
        each_round(sizes, root, [&](std::size_t, auto&& peers) {
            group("receive from all ranks", [&](auto&& add) {
                peers([&](std::size_t r, std::size_t n) {
                    add(Api::recv(lane_.device(r * slice), n, static_cast<int>(r), lane_.comm(),
                                  lane_.stream()));
                });
            });
            peers([&](std::size_t r, std::size_t n) { lane_.to_host(r * slice, n); });
            lane_.wait("receive from all ranks");
            peers([&](std::size_t r, std::size_t n) { append(out[r], r * slice, n); });
        });
    }

    /// One from `root` for each; the mirror image of `gather`.
    /// @param messages  One per rank, at root.
    /// @param sizes     Of each message, at root; elsewhere this rank's is enough.
    /// @param out       Appended to, but at root.
    void scatter(const std::vector<message>& messages, int root,
                 const std::vector<std::size_t>& sizes, message& out) {
        auto const slice = lane_.slice();
        if (lane_.rank() != root) {
            auto const all = sizes[static_cast<std::size_t>(lane_.rank())];
            for (std::size_t at = 0; at < all; at += slice) {
                auto const n = std::min(slice, all - at);
                group("receive from the root", [&](auto&& add) {
                    add(Api::recv(lane_.device(), n, root, lane_.comm(), lane_.stream()));
                });
                lane_.to_host(0, n);
                lane_.wait("receive from the root");
                append(out, 0, n);
            }
            return;
        }
        each_round(sizes, root, [&](std::size_t at, auto&& peers) {
            peers([&](std::size_t r, std::size_t n) {
                std::memcpy(lane_.host(r * slice), messages[r].data() + at, n);
                lane_.to_device(r * slice, n);
            });
            group("send to all ranks", [&](auto&& add) {
                peers([&](std::size_t r, std::size_t n) {
                    add(Api::send(lane_.device(r * slice), n, static_cast<int>(r), lane_.comm(),
                                  lane_.stream()));
                });
            });
            lane_.wait("send to all ranks");
        });
    }

    /// Root's to all.
    /// @param bytes  Of the message.
    /// @param out    Appended to, but at root.
    void broadcast(const message& mine, int root, std::size_t bytes, message& out) {
        bool const here = lane_.rank() == root;
        for (std::size_t at = 0; at < bytes; at += lane_.bytes()) {
            auto const n = std::min(lane_.bytes(), bytes - at);
            if (here) {
                std::memcpy(lane_.host(), mine.data() + at, n);
                lane_.to_device(0, n);
            }
            lane_.launched(Api::broadcast(lane_.device(), n, root, lane_.comm(), lane_.stream()),
                           "broadcast");
            if (!here) lane_.to_host(0, n);
            lane_.wait("broadcast");
            if (!here) append(out, 0, n);
        }
    }

    /// Everybody's to all. Pieces are as long as the longest that is left: NCCL gathers equal
    /// sizes.
    /// @param out  One per rank, appended to.
    void all_gather(const message& mine, const std::vector<std::size_t>& sizes,
                    std::vector<message>& out) {
        auto const longest = *std::max_element(sizes.begin(), sizes.end());
        for (std::size_t at = 0; at < longest; at += lane_.slice()) {
            auto const n = std::min(lane_.slice(), longest - at);
            auto const left = [&](std::size_t size) {
                return size > at ? std::min(n, size - at) : 0;
            };
            auto const k = left(mine.size());
            if (k != 0) std::memcpy(lane_.host(own(n)), mine.data() + at, k);
            all_gather_staged(k, n, "gather from all ranks");
            for (std::size_t r = 0; r < sizes.size(); ++r) append(out[r], r * n, left(sizes[r]));
        }
    }

    /// `n` bytes of each rank, of which the first `k` of this one's lie in its place in the
    /// staging; all of them lie there afterwards.
    void all_gather_staged(std::size_t k, std::size_t n, const char* what) {
        lane_.to_device(own(n), k);
        lane_.launched(Api::all_gather(lane_.device(own(n)), lane_.device(), n, lane_.comm(),
                                       lane_.stream()),
                       what);
        lane_.to_host(0, n * static_cast<std::size_t>(lane_.size()));
        lane_.wait(what);
    }
    /// Where this rank's part lies among parts of `n` bytes.
    std::size_t own(std::size_t n) const { return n * static_cast<std::size_t>(lane_.rank()); }

private:
    /// Sends and receives that NCCL starts together. `body` gets a function for their statuses.
    template <class Body>
    void group(const char* what, Body body) {
        auto worst = Api::group_start();
        auto const keep = [&worst](nccl_status s) {
            auto const running = nccl_status::state::running;
            if (worst.is == nccl_status::state::ok || (worst.is == running && s.is > running))
                worst = std::move(s);
        };
        if (worst.is == nccl_status::state::ok) {
            body(keep);
            keep(Api::group_end());
        }
        lane_.launched(std::move(worst), what);
    }
    /// Calls `f(offset, peers)` for each slice of the longest message; `peers(g)` calls
    /// `g(rank, bytes)` for all other ranks that have some of theirs left.
    template <class F>
    void each_round(const std::vector<std::size_t>& sizes, int root, F f) {
        auto const me = static_cast<std::size_t>(root);
        std::size_t longest = 0;
        for (std::size_t r = 0; r < sizes.size(); ++r)
            if (r != me) longest = std::max(longest, sizes[r]);
        for (std::size_t at = 0; at < longest; at += lane_.slice())
            f(at, [&](auto&& g) {
                for (std::size_t r = 0; r < sizes.size(); ++r)
                    if (r != me && sizes[r] > at) g(r, std::min(lane_.slice(), sizes[r] - at));
            });
    }
    void append(message& m, std::size_t at, std::size_t n) {
        m.insert(m.end(), lane_.host(at), lane_.host(at) + n);
    }

    nccl_lane<Api>& lane_;
};

}  // namespace cairn::detail

#endif
