// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TCP_BOOTSTRAP_HPP
#define CAIRN_COMM_DETAIL_TCP_BOOTSTRAP_HPP

#include <cairn/comm/detail/tcp/listener.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <span>
#include <string>
#include <utility>

namespace cairn::detail {

/// Size of the bootstrap message: an id, or the reason why rank 0 has none. Fixed, so that one
/// broadcast is enough.
inline constexpr std::size_t bootstrap_bytes = 4096;
static_assert(longest_id + 16 <= bootstrap_bytes);

/// Returns, on every rank, the id that rank 0 has made.
/// @param made  On rank 0; must outlive the construction of the group.
/// @param make  Called on rank 0.
/// @throws error on every rank, with rank 0's failure
template <class Broadcast, class Make>
tcp_id broadcast_id(int rank, int size, Broadcast& broadcast, made_id& made, Make&& make) {
    if (size <= 1) return tcp_id{};
    std::array<std::byte, bootstrap_bytes> bytes{};
    std::exception_ptr failure;
    if (rank == 0) {
        wire_writer w;
        try {
            auto const& id = made.make(make);
            w.u8(1);
            w.string(id.text());
        } catch (...) {
            failure = std::current_exception();
            auto f = failure_from(failure, 0);
            for (auto* s : {&f.where.fqn, &f.where.file, &f.where.expected, &f.where.found,
                            &f.where.remedy, &f.text})
                *s = s->substr(0, 500);
            w.clear();
            w.u8(2);
            encode(w, f);
        }
        std::copy(w.written().begin(), w.written().end(), bytes.begin());
    }
    broadcast(std::span<std::byte>(bytes), 0);
    if (failure) std::rethrow_exception(failure);
    wire_reader r(bytes);
    auto const kind = r.u8();
    if (kind == 2) {
        auto const f = decode_failure(r);
        throw error(f.code, f.where);
    }
    if (kind != 1)
        throw error(
            errc::invalid_argument,
            {.rank = rank,
             .expected = "a broadcast of " + std::to_string(bytes.size()) + " bytes from rank 0",
             .found = "other bytes",
             .remedy = "call the constructor on all ranks, with the same ranks as the "
                       "broadcast has"});
    return tcp_id::parse(r.string());
}

}  // namespace cairn::detail

#endif
