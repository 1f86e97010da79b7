// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_IMPL_BACKGROUND_SAVE_IPP
#define CAIRN_SAVE_IMPL_BACKGROUND_SAVE_IPP

#include <cairn/save/detail/background_save.hpp>

#include <cairn/save/detail/run_save.hpp>
#include <cairn/save/detail/save_op.hpp>
#include <cairn/verb/detail/post_to.hpp>

#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>

#include <utility>

namespace cairn::detail {

CAIRN_DECL background_save::background_save(boost::asio::any_io_executor on,
                                            const checkpoint_id& id, save_options options,
                                            bool borrows, staged_handler staged,
                                            bool notes_environment)
    : background_verb(std::move(on), "the save to", id, std::move(options)), borrows_(borrows),
      staged_(std::move(staged)) {
    if (notes_environment) variables_.emplace();
}

CAIRN_DECL background_save::~background_save() {
    if (!home_.is_this()) return;  // the parent gets the result
    try {
        if (staged_) {  // the executor has ended before the save began
            fail(std::move(staged_), executor_ended("save"));
        } else if (failure_ && !settled_) {
            report_unclaimed(options_.on_unclaimed_error, failure_);
        }
    } catch (...) {
        print_unclaimed(std::current_exception());
    }
}

CAIRN_DECL void background_save::fail(staged_handler handler,
                                      const std::exception_ptr& e) const noexcept {
    try {
        auto const in = handler.pass();
        if (in) return handler.complete(in, e, nullptr);
        if (e) report_unclaimed(options_.on_unclaimed_error, e);
    } catch (...) {  // e.g. no memory to call it; the thread must not end for that
        report_unclaimed(options_.on_unclaimed_error, e ? e : std::current_exception());
    }
}

CAIRN_DECL void background_save::heed_slot() {
    heed(staged_.slot(), &background_save::cancel_unstaged);
}
CAIRN_DECL void background_save::start(std::shared_ptr<const flattened_or_error> state,
                                       save_parts parts) {
    auto const owner = parts.owner;  // of the group, which may have to be cancelled
    rank_ = parts.ranks == nullptr ? 0 : rank_of(*parts.ranks);
    start_op(parts.ranks, [&] {
        add_default_parts(parts, options_);
        return std::make_shared<save_op>(
            surroundings{on_.executor}, std::move(state), id_, options_, std::move(parts),
            [self = shared_from_this()] { self->staged(); },
            [self = shared_from_this()](std::exception_ptr e, save_report r) {
                self->end(std::move(e), std::move(r));
            });
    });
}
CAIRN_DECL void background_save::cancel() noexcept {
    if (!home_.is_this()) return;
    auto const op = cancel_op();
    std::unique_lock lock(m_);
    if (!staged_ || borrows_ || !on_.executor) return;
    auto const on = on_.executor;
    lock.unlock();
    // The caller does not wait for a late rank; the other ranks learn of it at their next exchange.
    // Between two steps the state is not in use, and from now on no step uses it.
    try {
        post_to(on, posted_call::of<&background_save::give_up>(shared_from_this()));
    } catch (...) {  // no memory: the handler is called when the save ends
    }
}
CAIRN_DECL void background_save::cancel_unstaged() noexcept {
    if (!home_.is_this()) return;
    {
        std::lock_guard const lock(m_);
        if (!staged_) return;
    }
    cancel();
}
CAIRN_DECL void background_save::give_up() noexcept {
    try {
        // Takes memory, so before the handler is taken.
        auto why = std::make_exception_ptr(error(errc::cancelled, {.rank = rank_}));
        std::shared_ptr<save_op> op;  // as in `cancel`
        std::unique_lock lock(m_);
        if (!staged_) return;
        op = op_.lock();
        // A device continues to copy, and a writer to write, whatever happens.
        if (op && op->when_free([self = shared_from_this()] { self->give_up(); })) return;
        settled_ = true;
        auto handler = std::move(staged_);
        lock.unlock();
        fail(std::move(handler), std::move(why));
    } catch (...) {  // no memory: the handler is called when the save ends
    }
}

CAIRN_DECL void background_save::staged() {
    std::unique_lock lock(m_);
    if (!staged_) return;
    auto handler = std::move(staged_);
    lock.unlock();
    try {
        handler.complete(nullptr, shared_from_this());
    } catch (...) {  // no memory or no thread to call it: nothing can wait for the save
        report_unclaimed(options_.on_unclaimed_error, std::current_exception());
        lock.lock();
        settled_ = true;
        lock.unlock();
        (void)cancel_op();
    }
}
CAIRN_DECL void background_save::end(std::exception_ptr e, save_report r) {
    std::unique_lock lock(m_);
    if (ended_) return;
    on_ = {};  // the thread of the operation may end
    variables_.reset();
    ended_ = true;
    changed_.notify_all();
    auto const tell = std::exchange(on_end_, nullptr);
    auto const why = e;
    if (staged_) {
        settled_ = true;
        auto handler = std::move(staged_);
        lock.unlock();
        fail(std::move(handler), e);
    } else {
        failure_ = std::move(e);
        report_ = std::move(r);
        deliver(lock);
        if (lock) lock.unlock();
    }
    if (tell) tell(why, this);
}
CAIRN_DECL void background_save::deliver(std::unique_lock<std::mutex>& lock) {
    if (!ended_ || settled_ || !waiting_) return;
    auto const in = waiting_.pass();
    if (!in) return;  // a handler that has ended with its context gets nothing
    settled_ = true;
    auto handler = std::move(waiting_);
    auto failure = std::move(failure_);
    auto report = std::move(report_);
    lock.unlock();
    handler.complete(in, std::move(failure), std::move(report));
}

CAIRN_DECL bool background_save::ended() const {
    if (!home_.is_this()) return true;  // a wait returns at once
    std::lock_guard const lock(m_);
    return ended_;
}
CAIRN_DECL std::shared_ptr<const activity> background_save::working_on() const {
    std::shared_ptr<save_op> op;  // as in `cancel`
    std::lock_guard const lock(m_);
    op = op_.lock();
    return op ? op->activity() : nullptr;
}
CAIRN_DECL bool background_save::settled() const {
    if (!home_.is_this()) return true;
    std::lock_guard const lock(m_);
    return settled_;
}
CAIRN_DECL void background_save::check_unsettled() const {
    if (settled_ || (waiting_ && waiting_.pass()))
        throw error(errc::invalid_argument,
                    {.expected = "one wait for a save at a time, and its result taken once",
                     .found = "another wait",
                     .remedy = "wait for a save in one place"});
}
CAIRN_DECL std::unique_lock<std::mutex> background_save::locked() const {
    if (!home_.is_this())  // and its threads may have had the lock
        throw error(errc::invalid_argument, {.expected = "a save that this process has started",
                                             .found = "one that it started before fork()",
                                             .remedy = "wait for it in the parent process"});
    return std::unique_lock(m_);
}
CAIRN_DECL void background_save::async_wait(durable_handler handler) {
    std::unique_lock<std::mutex> lock;
    try {
        lock = locked();
        check_unsettled();
    } catch (...) {
        if (lock) lock.unlock();
        return handler.complete(std::current_exception(), {});
    }
    waiting_ = std::move(handler);
    auto const n = ++waits_;
    if (auto slot = waiting_.slot(); slot.is_connected())
        slot.assign([weak = weak_from_this(), n](boost::asio::cancellation_type) {
            auto const self = weak.lock();
            if (!self || !self->home_.is_this()) return;
            std::unique_lock held(self->m_);
            if (self->waits_ != n) return;  // of a wait that has ended with its context
            auto h = std::move(self->waiting_);
            held.unlock();
            auto const code =
                boost::asio::error::make_error_code(boost::asio::error::operation_aborted);
            if (h) h.complete(std::make_exception_ptr(boost::system::system_error(code)), {});
        });
    deliver(lock);
}
CAIRN_DECL save_report background_save::wait() {
    auto lock = locked();
    check_unsettled();
    changed_.wait(lock, [this] { return ended_; });
    check_unsettled();
    settled_ = true;
    if (failure_) std::rethrow_exception(std::move(failure_));
    return std::move(report_);
}
CAIRN_DECL void background_save::drop() noexcept {
    if (!home_.is_this()) return;
    std::unique_lock lock(m_);
    if (borrows_) changed_.wait(lock, [this] { return ended_; });
    if (!failure_ || settled_) return;
    settled_ = true;
    auto const why = std::move(failure_);
    lock.unlock();
    // Here, not where the last of the save ends: what the function uses may end after the handle.
    report_unclaimed(options_.on_unclaimed_error, why);
}

}  // namespace cairn::detail

#endif
