// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_NCCL_BASIC_DATA_PLANE_HPP
#define CAIRN_COMM_NCCL_BASIC_DATA_PLANE_HPP

#include <cairn/comm/data_plane.hpp>
#include <cairn/comm/nccl/broadcaster.hpp>
#include <cairn/detail/own_thread.hpp>
#include <cairn/memory/memory_span.hpp>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace cairn {

/// A DataPlane over the trainer's own `ncclComm_t`: broadcasts host memory through pinned staging
/// memory, and device memory directly, on a stream of its own.
///
/// **Devices**: it serves the communicator's device if `nccl_plane_options::abort_on_failure` is
/// set. Ranks that pass device memory and ranks that pass host memory may be in one broadcast.
///
/// **Communicator**: it remains the caller's and must outlive the plane. Nothing else may be
/// launched on it while a verb of cairn runs, because NCCL requires the same order of launches on
/// all ranks; therefore `async_load` rejects this plane at compile time. Earlier launches, if made
/// on all ranks, are executed first.
///
/// **Several devices in one process**: NCCL's kernels wait for each other, so while a broadcast
/// runs, no thread may make a call of CUDA that waits for a device, such as `cudaFree`.
///
/// **Threads**: the plane has a thread that launches, polls (`cudaEventQuery`,
/// `ncclCommGetAsyncError`) and calls the completions, which must not block. The caller's current
/// device does not change.
///
/// **After an interrupted broadcast** (a deadline, `cancel`, an error of NCCL) the plane is
/// unusable and operations may remain in the communicator: abort it (`ncclCommAbort`) on every
/// rank. With `nccl_plane_options::abort_on_failure` the plane has done so on this rank,
/// `aborted()` returns true, and the handle must not be used again. Otherwise destroy the
/// communicator after the plane; memory that a remaining operation still uses is not freed.
///
/// **Deadlines**: NCCL does not identify late ranks, so a timeout error names none; a broadcast
/// does not time out while its pieces arrive. Neither a deadline nor `cancel` interrupts a launch
/// that blocks: NCCL connects ranks in the first launches; a communicator made with
/// `ncclConfig_t::blocking = 0` is polled there too.
template <NcclApi Api>
class basic_nccl_data_plane {
public:
    /// Allocates the stream and the staging memory on the communicator's device; does not
    /// communicate.
    /// @param plane_id  Which of the job's planes; the same on all ranks of `comm`.
    /// @throws error errc::rank_failed with CUDA's or NCCL's text
    explicit basic_nccl_data_plane(typename Api::comm comm, int plane_id = 0,
                                   const nccl_plane_options& o = {})
        : core_(std::make_shared<core>()), plane_id_(plane_id) {
        (void)await_completion<done_t>([&](completion<done_t> ready) {
            core_->thread.start([c = core_, comm, plane_id, o, to = std::move(ready)]() mutable {
                c->run(comm, plane_id, o, std::move(to));
            });
        });
    }
    basic_nccl_data_plane(basic_nccl_data_plane&&) noexcept = default;
    basic_nccl_data_plane& operator=(basic_nccl_data_plane&& other) noexcept {
        if (this != std::addressof(other)) {
            end();
            core_ = std::move(other.core_);
            plane_id_ = other.plane_id_;
        }
        return *this;
    }
    /// A broadcast under way fails with @ref errc::cancelled.
    ~basic_nccl_data_plane() { end(); }

    int rank() const noexcept { return core_->rank; }
    int size() const noexcept { return core_->size; }
    int plane_id() const noexcept { return plane_id_; }

    bool serves(device_id d) const noexcept { return is_host(d.kind) || core_->device == d; }
    void broadcast(memory_span bytes, int root, deadline d, completion<done_t> done) {
        auto const c = core_;
        {
            guard const lock(c->m);
            if (!c->done) {
                c->call = call{bytes, root, d};
                c->done.emplace(std::move(done));
                c->changed.notify_one();
                return;
            }
        }
        done.fail(std::make_exception_ptr(
            error(errc::invalid_argument,
                  {.rank = c->rank, .expected = "one broadcast at a time", .found = "two"})));
    }
    /// From any thread: the broadcast under way, or the next one, fails with @ref errc::cancelled
    /// on this rank, and the plane is unusable. The other ranks are notified once all have called
    /// that broadcast, unless bytes are already being sent; otherwise their deadlines end it.
    void cancel() noexcept {
        if (auto const c = core_) c->cancelled = true;
    }
    /// Whether the plane has aborted the communicator, as `nccl_plane_options` permits.
    bool aborted() const noexcept { return core_->aborted; }

private:
    using guard = std::unique_lock<std::mutex>;
    struct call {
        memory_span bytes;
        int root;
        deadline by;
    };

    /// State shared by the plane and its thread.
    struct core {
        std::atomic<bool> cancelled{false};
        std::atomic<bool> aborted{false};
        int rank = 0;  ///< These three are written before `ready` is called.
        int size = 1;
        std::optional<device_id> device{};
        detail::own_thread thread{};

        std::mutex m{};
        std::condition_variable changed{};
        std::optional<basic_nccl_data_plane::call> call{};
        std::optional<completion<done_t>> done{};  ///< Set while a broadcast is under way.
        bool stop = false;

        void run(typename Api::comm comm, int plane_id, const nccl_plane_options& o,
                 completion<done_t> ready) {
            std::optional<detail::nccl_broadcaster<Api>> member;
            try {
                member.emplace(comm, plane_id, o, cancelled);
            } catch (...) {
                return ready.fail(std::current_exception());
            }
            rank = member->rank();
            size = member->size();
            device = member->device();
            ready();
            guard lock(m);
            for (;;) {
                changed.wait(lock, [this] { return stop || call; });
                if (!call) return;
                auto const now = *std::exchange(call, std::nullopt);
                lock.unlock();
                std::exception_ptr failed;
                try {
                    member->run(now.bytes, now.root, now.by);
                } catch (...) {
                    failed = std::current_exception();
                }
                aborted = member->aborted();
                lock.lock();
                auto tell = std::move(*done);
                done.reset();
                lock.unlock();
                if (failed)
                    tell.fail(std::move(failed));
                else
                    tell();
                lock.lock();
            }
        }
    };

    void end() noexcept {
        auto const c = std::move(core_);
        core_ = nullptr;
        if (!c) return;
        {
            guard const lock(c->m);
            c->stop = true;
            if (c->done) c->cancelled = true;
            c->changed.notify_one();
        }
        c->thread.end();
    }

    std::shared_ptr<core> core_;
    int plane_id_;
};

}  // namespace cairn

#endif
