// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_NCCL_BASIC_GROUP_HPP
#define CAIRN_COMM_NCCL_BASIC_GROUP_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/nccl/member.hpp>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
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
class basic_nccl_group {
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

    void gather(message m, int root, deadline d, completion<std::vector<message>> done) {
        start({kind::gather, root, one(std::move(m)), d}, all_of(std::move(done)));
    }
    void scatter(std::vector<message> ms, int root, deadline d, completion<message> done) {
        start({kind::scatter, root, std::move(ms), d}, first_of(std::move(done)));
    }
    void broadcast(message m, int root, deadline d, completion<message> done) {
        start({kind::broadcast, root, one(std::move(m)), d}, first_of(std::move(done)));
    }
    void all_gather(message m, deadline d, completion<std::vector<message>> done) {
        start({kind::all_gather, 0, one(std::move(m)), d}, all_of(std::move(done)));
    }
    void barrier(deadline d, completion<done_t> done) {
        auto const to = std::make_shared<completion<done_t>>(std::move(done));
        start({kind::barrier, 0, {}, d}, [to](std::exception_ptr e, std::vector<message>&&) {
            if (e) return to->fail(std::move(e));
            (*to)();
        });
    }
    /// From any thread: the exchange under way, or the next one, fails with @ref errc::cancelled on
    /// this rank, and the group is of no more use. The others hear of it when all have come to that
    /// exchange, unless bytes travel already; else their deadlines end it.
    void cancel() noexcept {
        if (auto const c = core_) c->cancelled = true;
    }
    /// Whether the group has aborted the communicator, which `nccl_options` allowed.
    bool aborted() const noexcept { return core_->aborted; }

private:
    using kind = detail::exchange_kind;
    using ended = std::function<void(std::exception_ptr, std::vector<message>&&)>;
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
        ended done{};  ///< Set while an exchange is asked for or under way.
        bool stop = false;

        void run(typename Api::comm comm, const nccl_options& o, completion<done_t> ready) {
            std::optional<detail::nccl_member<Api>> member;
            try {
                member.emplace(comm, o, cancelled);
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
                std::exception_ptr failure;
                std::vector<message> result;
                try {
                    result = member->run(std::move(now));
                } catch (...) {
                    failure = std::current_exception();
                }
                aborted = member->aborted();
                lock.lock();
                auto const tell = std::exchange(done, nullptr);
                lock.unlock();
                tell(std::move(failure), std::move(result));
                lock.lock();
            }
        }
    };

    void start(detail::nccl_call call, ended done) {
        auto const c = core_;
        {
            guard const lock(c->m);
            if (!c->done) {
                c->call = std::move(call);
                c->done = std::move(done);
                c->changed.notify_one();
                return;
            }
        }
        done(std::make_exception_ptr(error(errc::invalid_argument,
                                           {.rank = c->rank, .expected = "one exchange at a time",
                                            .found = "two"})), {});
    }
    static std::vector<message> one(message m) {
        std::vector<message> v;
        v.push_back(std::move(m));
        return v;
    }
    static ended all_of(completion<std::vector<message>> done) {
        auto const to = std::make_shared<completion<std::vector<message>>>(std::move(done));
        return [to](std::exception_ptr e, std::vector<message>&& result) {
            if (e) return to->fail(std::move(e));
            (*to)(std::move(result));
        };
    }
    static ended first_of(completion<message> done) {
        auto const to = std::make_shared<completion<message>>(std::move(done));
        return [to](std::exception_ptr e, std::vector<message>&& result) {
            if (e) return to->fail(std::move(e));
            (*to)(std::move(result.front()));
        };
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
