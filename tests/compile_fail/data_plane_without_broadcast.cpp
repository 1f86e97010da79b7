// SPDX-License-Identifier: Apache-2.0
// expect: DataPlane
// expect: broadcast
#include <cairn/comm/data_plane.hpp>

struct half_a_plane {
    int rank() const { return 0; }
    int size() const { return 1; }
#ifdef BASELINE
    void broadcast(cairn::memory_span, int, cairn::deadline, cairn::completion<cairn::done_t>) {}
#endif
    bool serves(cairn::device_id d) const { return cairn::is_host(d.kind); }
    int plane_id() const { return 0; }
    void cancel() noexcept {}
};

void use(cairn::DataPlane auto&) {}
void f(half_a_plane& p) {
    use(p);
}
