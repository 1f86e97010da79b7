// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTING_DEVICE_DATA_PLANE_HPP
#define CAIRN_TESTING_DEVICE_DATA_PLANE_HPP

#include <cairn/comm/data_plane.hpp>
#include <cairn/memory/memory_span.hpp>
#include <cairn/testing/data_plane.hpp>
#include <cairn/testing/detail/ranks.hpp>
#include <cairn/testing/memory_space.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

/// Checks a DataPlane that serves a device. See `cairn/testing/communicator.hpp`: every rank calls
/// the same function concurrently.
namespace cairn::testing {

/// Checks that the root's bytes, and nothing beyond them, arrive on every rank, whichever ranks use
/// device memory.
/// @param t        This rank's device; its stream is not used.
/// @param largest  Bytes of the largest broadcast.
template <DataPlane Plane, MemorySpace M>
void check_device_broadcasts(Plane& p, const memory_under_test<M>& t,
                             std::size_t largest = std::size_t{9} << 20) {
    auto const must = [&](bool ok, const char* what) { detail::expect(ok, p.rank(), what); };
    must(std::as_const(p).serves(t.device), "serves() returns false for the device");
    constexpr std::size_t edge = 1;
    auto queue = t.space.open(t.device);
    auto const copied = [&](const pitched_copy& c, bool to_device) {
        to_device ? queue.to_device({&c, 1}) : queue.to_host({&c, 1});
        auto e = queue.record();
        while (!queue.reached(e)) {
        }
    };
    for (int mix = 0; mix < 3; ++mix) {  // all on devices; the odd ranks; the even ones
        for (int root = 0; root < p.size(); ++root) {
            for (std::size_t n : {std::size_t{1}, std::size_t{4096}, largest}) {
                bool const on_device = mix == 0 || (p.rank() + mix) % 2 == 0;
                detail::staging<M> host(t.space, t.device, n + 2 * edge, true);
                auto const bytes = host.bytes();
                std::fill(bytes.begin(), bytes.end(), host.untouched);
                auto const sent = detail::sample(root, mix, n);
                if (p.rank() == root) std::copy(sent.begin(), sent.end(), bytes.begin() + edge);
                if (on_device) {
                    auto* const there = t.allocate(n + 2 * edge);
                    copied({host.data(), there, n + 2 * edge}, true);
                    detail::broadcast_and_wait(p, {there + edge, n, t.device}, root);
                    copied({there, host.data(), n + 2 * edge}, false);
                    t.release(there);
                } else {
                    detail::broadcast_and_wait(p, bytes.subspan(edge, n), root);
                }
                must(bytes.front() == host.untouched && bytes.back() == host.untouched,
                     "bytes beyond the broadcast");
                must(std::equal(sent.begin(), sent.end(), bytes.begin() + edge),
                     "other bytes than root's");
            }
        }
    }
}

}  // namespace cairn::testing

#endif
