// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_COMMUNICATOR_DATA_PLANE_HPP
#define CAIRN_COMM_COMMUNICATOR_DATA_PLANE_HPP

#include <cairn/comm/data_plane.hpp>
#include <cairn/comm/detail/erased_communicator.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/memory/memory_span.hpp>

#include <concepts>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

namespace cairn {
namespace detail {

/// Larger pieces use memory that the system maps anew each time: over TCP, 4 MiB at once took
/// nearly twice as long.
inline constexpr std::size_t broadcast_piece_bytes = std::size_t{1} << 20;

/// Broadcasts `m` piece by piece; keeps `comm` alive until it has called `done`.
CAIRN_DECL void broadcast_in_pieces(std::shared_ptr<erased_communicator> comm, memory_span bytes,
                                    int root, deadline d, completion<done_t> done);

}  // namespace detail

/// Broadcasts through the messages of a communicator, in pieces, with one more copy on each side.
/// May share the communicator that is passed to `load`: the two are never in use at once.
///
/// A broadcast does not time out while pieces arrive: each piece restarts the timeout.
/// @tparam Comm  Borrowed: must outlive this. A duplicate owns its own.
template <Communicator Comm>
class communicator_data_plane {
public:
    static constexpr std::size_t piece_bytes = detail::broadcast_piece_bytes;

    /// A template to prevent conversions: an `any_communicator` could be made from almost anything.
    /// @param plane_id  Which of the job's planes; the same on all ranks of `comm`.
    template <std::same_as<Comm> C>
    explicit communicator_data_plane(C& comm, int plane_id = 0)
        : communicator_data_plane({std::shared_ptr<void>(), std::addressof(comm)}, plane_id) {}

    int plane_id() const noexcept { return plane_id_; }
    int rank() const { return comm_->erased.rank(); }
    int size() const { return comm_->erased.size(); }
    void cancel() noexcept { comm_->erased.cancel(); }

    /// Host memory only.
    bool serves(device_id d) const noexcept { return is_host(d.kind); }
    /// A rank that passes a different size from root's fails with @ref errc::invalid_argument, and
    /// the group then fails on the other ranks too; likewise one that passes device memory.
    void broadcast(memory_span m, int root, deadline d, completion<done_t> done) {
        detail::broadcast_in_pieces({comm_, &comm_->erased}, m, root, d, std::move(done));
    }
    void duplicate(deadline d, completion<communicator_data_plane> done)
        requires BackgroundCommunicator<Comm>
    {
        auto const to = std::make_shared<completion<communicator_data_plane>>(std::move(done));
        comm_->comm->duplicate(
            d, completion<Comm>([to, id = plane_id_](std::exception_ptr e, std::optional<Comm> c) {
                if (e) return to->fail(std::move(e));
                try {
                    (*to)(communicator_data_plane(std::make_shared<Comm>(std::move(*c)), id));
                } catch (...) {  // no memory
                    to->fail(std::current_exception());
                }
            }));
    }

private:
    communicator_data_plane(std::shared_ptr<Comm> comm, int plane_id)
        : comm_(std::make_shared<held>(std::move(comm))), plane_id_(plane_id) {}

    /// `comm` owns nothing if the communicator is borrowed.
    struct held {
        explicit held(std::shared_ptr<Comm> c) : comm(std::move(c)), erased(*comm) {}
        std::shared_ptr<Comm> comm;
        detail::communicator_ref<Comm> erased;
    };
    std::shared_ptr<held> comm_;
    int plane_id_;
};
template <class Comm>
communicator_data_plane(Comm&, int = 0) -> communicator_data_plane<Comm>;

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/comm/impl/communicator_data_plane.ipp>
#endif

#endif
