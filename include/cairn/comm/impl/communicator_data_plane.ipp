// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_IMPL_COMMUNICATOR_DATA_PLANE_IPP
#define CAIRN_COMM_IMPL_COMMUNICATOR_DATA_PLANE_IPP

#include <cairn/comm/communicator_data_plane.hpp>

#include <cairn/comm/deadline.hpp>
#include <cairn/error.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace cairn::detail {

struct piecewise_broadcast {
    piecewise_broadcast(std::shared_ptr<erased_communicator> c, std::span<std::byte> b, int r,
                        deadline d, completion<done_t> to)
        : comm(std::move(c)), bytes(b), root(r), by(d),
          given(std::chrono::ceil<std::chrono::milliseconds>(
              d == no_deadline ? deadline::duration(0) : d - std::chrono::steady_clock::now())),
          done(std::move(to)) {}
    std::shared_ptr<erased_communicator> comm;
    std::span<std::byte> bytes;
    int root;
    deadline by;
    std::chrono::milliseconds given;
    completion<done_t> done;
    std::size_t at = 0;
    bool first = true;

    /// Bytes of the total size, which precedes the first piece.
    std::size_t head() const { return first ? sizeof(std::uint64_t) : 0; }
    std::size_t next() const { return std::min(broadcast_piece_bytes - head(), bytes.size() - at); }
    message piece() const {
        if (comm->rank() != root) return {};
        message m(head() + next());
        std::uint64_t const all = bytes.size();
        if (first) std::memcpy(m.data(), &all, sizeof all);
        if (next() != 0) std::memcpy(m.data() + head(), bytes.data() + at, next());
        return m;
    }
    /// @throws error errc::invalid_argument for a piece of a different broadcast
    void take(const message& m) {
        std::uint64_t all = bytes.size();
        if (first && m.size() >= sizeof all) std::memcpy(&all, m.data(), sizeof all);
        if (all != bytes.size() || m.size() != head() + next())
            throw error(errc::invalid_argument,
                        {.rank = comm->rank(),
                         .expected = "a broadcast of " + std::to_string(bytes.size()) +
                                     " bytes, as on this rank",
                         .found = all != bytes.size() ? std::to_string(all) + " bytes at root"
                                                      : "a message of another kind"});
        auto const n = next();
        if (n != 0 && comm->rank() != root) std::memcpy(bytes.data() + at, m.data() + head(), n);
        at += n;
        first = false;
        if (by != no_deadline) by = deadline_after(given);
    }
};

/// Sends piece after piece: in a loop if pieces complete inside the call, otherwise from their
/// completions.
inline void proceed(const std::shared_ptr<piecewise_broadcast>& j) {
    enum { calling, returned, ended };
    for (;;) {
        auto const where = std::make_shared<std::atomic<int>>(calling);
        message m;
        try {
            m = j->piece();
        } catch (...) {
            j->comm->cancel();
            return j->done.fail(std::current_exception());
        }
        completion<message> got([j, where](std::exception_ptr e, std::optional<message> in) {
            if (!e) {
                try {
                    j->take(*in);
                } catch (...) {
                    e = std::current_exception();
                    j->comm->cancel();
                }
            }
            if (e) return j->done.fail(std::move(e));
            if (j->at == j->bytes.size()) return j->done();
            if (where->exchange(ended) != returned) return;
            try {
                proceed(j);
            } catch (...) {  // what broadcast threw: its completion has told `done`
                j->comm->cancel();
            }
        });
        // If it throws before it has completed, the dropped completion reports that to `done`.
        j->comm->broadcast(std::move(m), j->root, j->by, std::move(got));
        if (where->exchange(returned) != ended) return;
    }
}

CAIRN_DECL void broadcast_in_pieces(std::shared_ptr<erased_communicator> comm, memory_span bytes,
                                    int root, deadline d, completion<done_t> done) {
    if (!is_host(bytes.device.kind)) {
        comm->cancel();
        return done.fail(std::make_exception_ptr(
            error(errc::invalid_argument, {.rank = comm->rank(),
                                           .expected = "host memory",
                                           .found = "memory of " + to_string(bytes.device),
                                           .remedy = "ask the plane's serves()"})));
    }
    proceed(std::make_shared<piecewise_broadcast>(std::move(comm), bytes.on_host(), root, d,
                                                  std::move(done)));
}

}  // namespace cairn::detail

#endif
