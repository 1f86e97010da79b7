// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_CONFORMANCE_DATA_PLANE_HPP
#define CAIRN_TEST_CONFORMANCE_DATA_PLANE_HPP

#include <cairn/comm/data_plane.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/// What a DataPlane promises beyond its syntax. Every function is called by every rank at once and
/// throws std::runtime_error on a rank that saw a promise broken.
namespace cairn::conformance {
namespace detail {

template <DataPlane Plane>
void broadcast_and_wait(Plane& p, std::span<std::byte> bytes, int root,
                        deadline by = no_deadline) {
    (void)await_completion<done_t>(
        [&](auto done) { p.broadcast(bytes, root, by, std::move(done)); });
}
inline std::byte of_root(int root, std::size_t i) {
    return static_cast<std::byte>(static_cast<std::size_t>(root) * 31 + i + i / 251);
}

}  // namespace detail

/// Root's bytes on every rank and nothing beyond them, every root in turn, from 0 bytes on, at
/// addresses that are not aligned.
/// @param largest  Bytes of the largest broadcast.
template <DataPlane Plane>
void check_data_plane(Plane& p, std::size_t largest = std::size_t{9} << 20) {
    auto const must = [&](bool ok, const char* what) {
        if (!ok) throw std::runtime_error("rank " + std::to_string(p.rank()) + ": " + what);
    };
    must(p.rank() >= 0 && p.rank() < p.size(), "a rank that is none");
    constexpr auto untouched = std::byte{0xa5};
    for (int root = 0; root < p.size(); ++root) {
        for (std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{4096}, largest}) {
            std::vector<std::byte> memory(n + 2, untouched);
            if (p.rank() == root)
                for (std::size_t i = 0; i < n; ++i) memory[i + 1] = detail::of_root(root, i);
            detail::broadcast_and_wait(p, std::span(memory).subspan(1, n), root);
            must(memory.front() == untouched && memory.back() == untouched,
                 "bytes beyond the broadcast");
            for (std::size_t i = 0; i < n; ++i)
                must(memory[i + 1] == detail::of_root(root, i), "other bytes than root's");
        }
    }
}

/// One rank cancels in place of its broadcast: it and all others fail. The plane is of no more use.
template <DataPlane Plane>
void check_cancelled_plane(Plane& p) {
    std::vector<std::byte> memory(100'000);
    bool failed = false;
    try {
        if (p.rank() == p.size() - 1) p.cancel();
        detail::broadcast_and_wait(p, memory, 0);
    } catch (const error&) {
        failed = true;
    }
    if (!failed) throw std::runtime_error("rank " + std::to_string(p.rank()) + ": no error");
}

}  // namespace cairn::conformance

#endif
