// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_IMPL_BACKGROUND_SAVE_IPP
#define CAIRN_SAVE_IMPL_BACKGROUND_SAVE_IPP

#include <cairn/save/background_save.hpp>

#include <cairn/detail/part_call.hpp>
#include <cairn/save/pending_save.hpp>
#include <cairn/save/run_save.hpp>
#include <cairn/save/save_op.hpp>

#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>

#include <utility>

namespace cairn::detail {

CAIRN_DECL background_save::background_save(boost::asio::any_io_executor on,
                                            const checkpoint_id& id, save_options options,
                                            bool borrows, staged_handler staged)
    : on_(on ? operation_on(std::move(on)) : new_operation_thread("the save to '" + id + "'")),
      id_(id), options_(std::move(options)), borrows_(borrows), staged_(std::move(staged)) {}

CAIRN_DECL void background_save::heed_slot() {
    if (auto slot = staged_.slot(); slot.is_connected())
        slot.assign([weak = weak_from_this()](boost::asio::cancellation_type) {
            if (auto const self = weak.lock()) self->cancel();
        });
}
CAIRN_DECL void background_save::start(std::shared_ptr<const flattened_or_error> state,
                                       save_parts parts) {
    try {
        complete(parts, options_);
        auto const op = std::make_shared<save_op>(
            surroundings{on_.executor}, std::move(state), id_, options_, std::move(parts),
            [self = shared_from_this()] { self->staged(); },
            [self = shared_from_this()](std::exception_ptr e, save_report r) {
                self->end(std::move(e), std::move(r));
            });
        {
            std::lock_guard const lock(m_);
            op_ = op;
            if (cancelled_) op->cancel();
        }
        op->start();
    } catch (...) {
        refuse(std::current_exception());
    }
}
CAIRN_DECL void background_save::refuse(std::exception_ptr e) {
    end(std::move(e), {});
}
CAIRN_DECL void background_save::cancel() noexcept {
    std::unique_lock lock(m_);
    cancelled_ = true;
    if (auto const op = op_.lock()) op->cancel();
    if (!staged_ || borrows_ || !on_.executor) return;
    auto const on = on_.executor;
    lock.unlock();
    // A rank that is late must not keep the caller: the others are told when it has come. Between
    // two steps the state is not in use, and from now on no step uses it.
    resume_on(on, [self = shared_from_this()] { self->give_up(); });
}
CAIRN_DECL void background_save::give_up() {
    std::unique_lock lock(m_);
    if (!staged_) return;
    claimed_ = true;
    auto handler = std::move(staged_);
    lock.unlock();
    handler.complete(std::make_exception_ptr(error(errc::cancelled, {})), pending_save());
}

CAIRN_DECL void background_save::staged() {
    std::unique_lock lock(m_);
    auto handler = std::move(staged_);
    lock.unlock();
    handler.complete(nullptr, pending_save(shared_from_this()));
}
CAIRN_DECL void background_save::end(std::exception_ptr e, save_report r) {
    std::unique_lock lock(m_);
    on_ = {};  // the thread of the operation may end
    ended_ = true;
    changed_.notify_all();
    if (staged_) {
        claimed_ = true;
        auto handler = std::move(staged_);
        lock.unlock();
        return handler.complete(std::move(e), pending_save());
    }
    failure_ = std::move(e);
    report_ = std::move(r);
    deliver(lock);
}
CAIRN_DECL void background_save::deliver(std::unique_lock<std::mutex>& lock) {
    if (!ended_ || claimed_ || (!waiting_ && !dropped_)) return;
    claimed_ = true;
    auto handler = std::move(waiting_);
    auto failure = std::move(failure_);
    auto report = std::move(report_);
    lock.unlock();
    if (handler) return handler.complete(std::move(failure), std::move(report));
    if (failure) unclaimed(failure);
}
CAIRN_DECL void background_save::unclaimed(const std::exception_ptr& e) noexcept {
    try {
        if (options_.on_unclaimed_error) return options_.on_unclaimed_error(e);
    } catch (...) {
        print_unclaimed(std::current_exception());
    }
    print_unclaimed(e);
}

CAIRN_DECL bool background_save::ended() const {
    std::lock_guard const lock(m_);
    return ended_;
}
CAIRN_DECL void background_save::async_wait(durable_handler handler) {
    auto const aborted = [](durable_handler h) {
        auto const code =
            boost::asio::error::make_error_code(boost::asio::error::operation_aborted);
        h.complete(std::make_exception_ptr(boost::system::system_error(code)), {});
    };
    if (auto slot = handler.slot(); slot.is_connected())
        slot.assign([weak = weak_from_this(), aborted](boost::asio::cancellation_type) {
            auto const self = weak.lock();
            if (!self) return;
            std::unique_lock lock(self->m_);
            auto h = std::move(self->waiting_);
            lock.unlock();
            if (h) aborted(std::move(h));
        });
    std::unique_lock lock(m_);
    if (waiting_ || claimed_) {
        lock.unlock();
        auto const e = error(errc::invalid_argument,
                             {.expected = "one wait for a save, and its result taken once",
                              .found = "another wait",
                              .remedy = "wait for a save in one place"});
        return handler.complete(std::make_exception_ptr(e), {});
    }
    waiting_ = std::move(handler);
    deliver(lock);
}
CAIRN_DECL save_report background_save::wait() {
    std::unique_lock lock(m_);
    changed_.wait(lock, [this] { return ended_; });
    claimed_ = true;
    if (failure_) std::rethrow_exception(std::move(failure_));
    return std::move(report_);
}
CAIRN_DECL void background_save::drop() noexcept {
    std::unique_lock lock(m_);
    if (borrows_) changed_.wait(lock, [this] { return ended_; });
    dropped_ = true;
    deliver(lock);
}

}  // namespace cairn::detail

#endif
