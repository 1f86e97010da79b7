// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_ARCHETYPE_DATA_PLANE_HPP
#define CAIRN_TESTS_ARCHETYPE_DATA_PLANE_HPP

#include "communicator.hpp"
#include "stingy.hpp"

#include <cairn/comm/any_communicator.hpp>
#include <cairn/comm/communicator_data_plane.hpp>
#include <cairn/comm/solo.hpp>
#include <cairn/comm/thread_group.hpp>

#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <utility>

/// The least that `DataPlane` asks for, and types that miss one requirement each.
namespace cairn::archetype {

/// One rank of a thread group, whole broadcasts as messages.
class data_plane : stingy_part {
public:
    explicit data_plane(thread_group::member m) : stingy_part(0), inner_(std::move(m)) {}

    int rank() const { return inner_.rank(); }
    int size() const { return inner_.size(); }
    bool serves(device_id d) const { return d == device_id(); }
    void broadcast(memory_span memory, int root, deadline d, completion<done_t>&& done) {
        auto const bytes = memory.on_host();
        auto const to = std::make_shared<completion<done_t>>(std::move(done));
        bool const mine = root == rank();
        inner_.broadcast(mine ? message(bytes.begin(), bytes.end()) : message(), root, d,
                         completion<message>([=](std::exception_ptr e, std::optional<message> m) {
                             if (e) return to->fail(e);
                             if (!mine && !bytes.empty())
                                 std::memcpy(bytes.data(), m->data(), bytes.size());
                             (*to)();
                         }));
    }
    int plane_id() const { return 0; }
    void cancel() noexcept { inner_.cancel(); }

private:
    thread_group::member inner_;
};
static_assert(DataPlane<data_plane> && !BackgroundDataPlane<data_plane>);

// Each hides one member: it is missing there, or of another type.
struct plane_immovable : data_plane {
    plane_immovable(plane_immovable&&) = delete;
};
struct plane_without_rank : data_plane {
    void rank() = delete;
};
struct plane_rank_not_const : data_plane {
    int rank();
};
struct plane_without_size : data_plane {
    void size() = delete;
};
struct plane_size_is_unsigned : data_plane {
    unsigned size() const;
};
struct plane_without_broadcast : data_plane {
    void broadcast() = delete;
};
struct plane_broadcast_returns : data_plane {
    int broadcast(memory_span, int, deadline, completion<done_t>);
};
struct plane_broadcast_blocks : data_plane {
    void broadcast(memory_span, int, deadline);
};
struct plane_broadcast_without_root : data_plane {
    void broadcast(memory_span, deadline, completion<done_t>);
};
struct plane_broadcast_completes_with_bytes : data_plane {
    void broadcast(memory_span, int, deadline, completion<message>);
};
/// It would take a device's memory for the host's.
struct plane_broadcast_of_host_memory : data_plane {
    void broadcast(std::span<std::byte>, int, deadline, completion<done_t>);
};
struct plane_without_serves : data_plane {
    void serves() = delete;
};
struct plane_serves_not_const : data_plane {
    bool serves(device_id);
};
struct plane_serves_is_a_number : data_plane {
    int serves(device_id) const;
};
struct plane_without_cancel : data_plane {
    void cancel() = delete;
};
struct plane_cancel_may_throw : data_plane {
    void cancel();
};
struct plane_without_id : data_plane {
    void plane_id() = delete;
};
struct plane_id_not_const : data_plane {
    int plane_id();
};
struct plane_id_is_unsigned : data_plane {
    unsigned plane_id() const;
};
struct plane_is_private : private data_plane {};

static_assert(!DataPlane<plane_immovable>);
static_assert(!DataPlane<plane_without_rank> && !DataPlane<plane_rank_not_const>);
static_assert(!DataPlane<plane_without_id> && !DataPlane<plane_id_not_const>);
static_assert(!DataPlane<plane_id_is_unsigned>);
static_assert(!DataPlane<plane_without_size> && !DataPlane<plane_size_is_unsigned>);
static_assert(!DataPlane<plane_without_broadcast> && !DataPlane<plane_broadcast_returns>);
static_assert(!DataPlane<plane_broadcast_blocks> && !DataPlane<plane_broadcast_without_root>);
static_assert(!DataPlane<plane_broadcast_completes_with_bytes>);
static_assert(!DataPlane<plane_broadcast_of_host_memory>);
static_assert(!DataPlane<plane_without_serves> && !DataPlane<plane_serves_not_const>);
static_assert(!DataPlane<plane_serves_is_a_number>);
static_assert(!DataPlane<plane_without_cancel> && !DataPlane<plane_cancel_may_throw>);
static_assert(!DataPlane<plane_is_private>);
// References are not parts; what is held is.
static_assert(!DataPlane<data_plane&> && !DataPlane<const data_plane>);
/// Forwards what it is given, and so could be both: it is a Communicator.
struct forwarding_ranks {
    solo inner{};
    int rank() const { return inner.rank(); }
    int size() const { return inner.size(); }
    template <class... A>
    void gather(A&&... a) {
        inner.gather(std::forward<A>(a)...);
    }
    template <class... A>
    void scatter(A&&... a) {
        inner.scatter(std::forward<A>(a)...);
    }
    template <class... A>
    void broadcast(A&&... a) {
        inner.broadcast(std::forward<A>(a)...);
    }
    template <class... A>
    void all_gather(A&&... a) {
        inner.all_gather(std::forward<A>(a)...);
    }
    template <class... A>
    void share(A&&... a) {
        inner.share(std::forward<A>(a)...);
    }
    int plane_id() const { return 0; }
    void cancel() noexcept { inner.cancel(); }
};
static_assert(Communicator<forwarding_ranks> && !DataPlane<forwarding_ranks>);
// Neither is taken for the other.
static_assert(!Communicator<data_plane> && !Communicator<communicator_data_plane<solo>>);
static_assert(!DataPlane<solo> && !DataPlane<thread_group::member>);
static_assert(!DataPlane<any_communicator>);
static_assert(BackgroundDataPlane<communicator_data_plane<solo>>);
static_assert(DataPlane<communicator_data_plane<communicator>> &&
              !BackgroundDataPlane<communicator_data_plane<communicator>>);

}  // namespace cairn::archetype

#endif
