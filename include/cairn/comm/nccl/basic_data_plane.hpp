// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_NCCL_BASIC_DATA_PLANE_HPP
#define CAIRN_COMM_NCCL_BASIC_DATA_PLANE_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/nccl/broadcaster.hpp>
#include <cairn/comm/tree/calls.hpp>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace cairn {

/// Ranks of an `ncclComm_t` that the caller has, for the blocking verbs: bytes travel through a
/// bounded staging area on a stream of the group's own.
///
/// **What is yours**: the communicator stays the caller's and outlives the group. Nothing else may
/// be launched on it while a verb of cairn runs, for NCCL wants one order of launches on all ranks;
/// that is why `async_save` and `async_load` refuse this group at compile time. What was launched
/// on it before, on all ranks, goes first.
///
/// **Threads**: one of the group's own launches and polls (`cudaEventQuery`,
/// `ncclCommGetAsyncError`) and calls the completions, which must not block. The caller's current
/// device does not change.
///
/// **When an exchange is cut short** (a deadline, `cancel`, an error of NCCL) the group is poisoned
/// and operations may be left in the communicator for ever: abort it (`ncclCommAbort`) on every
/// rank. With `nccl_options::abort_on_failure` the group has done so on this rank, `aborted()` says
/// so, and the handle must not be used again. Otherwise destroy the communicator after the group;
/// memory that a left operation still uses is not freed.
///
/// **Deadlines**: NCCL cannot say who is late, so the error of a deadline names nobody. Neither a
/// deadline nor `cancel` reaches into a launch that blocks: NCCL connects ranks in the first ones,
/// and a communicator made with `ncclConfig_t::blocking = 0` is then polled as well.
template <NcclApi Api>
class basic_nccl_group : public detail::tree_calls<basic_nccl_group<Api>> {
public:
    static constexpr bool blocking_only = true;
    static constexpr bool names_ranks = false;

    /// Makes the stream and the staging memory on the communicator's device; no exchange.
    /// @throws error errc::rank_failed with CUDA's or NCCL's words
    explicit basic_nccl_group(typename Api::comm comm, const nccl_options& o = {})
        : core_(std::make_shared<core>()) {
        try {
            (void)await_completion<done_t>([&](completion<done_t> ready) {
                core_->thread = std::thread(
                    [c = core_, comm, o, to = std::move(ready)]() mutable {
                        c->run(comm, o, std::move(to));
                    });
            });
        } catch (...) {
            end();
            throw;
        }
    }
    basic_nccl_group(basic_nccl_group&&) noexcept = default;
    basic_nccl_group& operator=(basic_nccl_group&& other) noexcept {
        if (this != std::addressof(other)) {
            end();
            core_ = std::move(other.core_);
        }
        return *this;
    }
    /// An exchange under way fails with @ref errc::cancelled.
    ~basic_nccl_group() { end(); }

    int rank() const noexcept { return core_->rank; }
    int size() const noexcept { return core_->size; }

    /// From any thread: the exchange under way, or the next one, fails with @ref errc::cancelled on
    /// this rank, and the group is of no more use. The others hear of it when all have come to that
    /// exchange, unless bytes travel already; else their deadlines end it.
    void cancel() noexcept {
        if (auto const c = core_) c->cancelled = true;
    }
    /// Whether the group has aborted the communicator, which `nccl_options` allowed.
    bool aborted() const noexcept { return core_->aborted; }

private:
    friend detail::tree_calls<basic_nccl_group>;
    using guard = std::unique_lock<std::mutex>;

    /// What the group and its thread share.
    struct core {
        std::atomic<bool> cancelled{false};
        std::atomic<bool> aborted{false};
        int rank = 0;  ///< These two: before `ready` is called.
        int size = 1;
        std::thread thread{};

        std::mutex m{};
        std::condition_variable changed{};
        std::optional<detail::nccl_call> call{};
        detail::tree_ended done{};  ///< Set while an exchange is asked for or under way.
        bool stop = false;

        void run(typename Api::comm comm, const nccl_options& how, completion<done_t> ready) {
            std::optional<detail::nccl_member<Api>> member;
            try {
                member.emplace(comm, how, cancelled);
            } catch (...) {
                return ready.fail(std::current_exception());
            }
            rank = member->rank();
            size = member->size();
            ready();
            guard lock(m);
            for (;;) {
                changed.wait(lock, [this] { return stop || call; });
                if (!call) return;
                auto now = std::move(*call);
                call.reset();
                lock.unlock();
                detail::tree_member::outcome o;
                try {
                    o.result = member->run(std::move(now));
                } catch (...) {
                    o.failure = std::current_exception();
                }
                aborted = member->aborted();
                lock.lock();
                auto const tell = std::exchange(done, nullptr);
                lock.unlock();
                tell(std::move(o));
                lock.lock();
            }
        }
    };

    void start(detail::exchange_kind kind, int root, std::vector<message> in, deadline d,
               detail::tree_ended done) {
        auto const c = core_;
        {
            guard const lock(c->m);
            if (!c->done) {
                c->call.emplace();
                *c->call = {kind, root, std::move(in), d};
                c->done = std::move(done);
                c->changed.notify_one();
                return;
            }
        }
        done(detail::two_at_a_time(c->rank));
    }

    void end() noexcept {
        auto const c = std::move(core_);
        if (!c) return;
        {
            guard const lock(c->m);
            c->stop = true;
            if (c->done) c->cancelled = true;
            c->changed.notify_one();
        }
        // A completion may hold the last of the group.
        if (c->thread.get_id() == std::this_thread::get_id())
            c->thread.detach();
        else if (c->thread.joinable())
            c->thread.join();
    }

    std::shared_ptr<core> core_;
};

}  // namespace cairn

#endif
