// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_DETAIL_BACKGROUND_VERB_HPP
#define CAIRN_VERB_DETAIL_BACKGROUND_VERB_HPP

#include <cairn/detail/environment.hpp>
#include <cairn/detail/forks.hpp>
#include <cairn/detail/or_cancel.hpp>
#include <cairn/printable.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/verb/operation_thread.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/cancellation_type.hpp>

#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace cairn::detail {

/// What a save and a load in the background have in common: where it runs, and its operation. The
/// operation keeps it alive. Threads: any.
/// @tparam Verb  Derives from it, and has `end(std::exception_ptr, report)`.
template <class Verb, class Op, class Options>
class background_verb : public std::enable_shared_from_this<Verb> {
public:
    background_verb(background_verb&&) = delete;

    const Options& options() const noexcept { return options_; }
    /// Where the verb runs. @pre it has neither started nor ended
    const boost::asio::any_io_executor& executor() const noexcept { return on_.executor; }
    /// Cancels the operation, also one that starts later.
    void cancel() noexcept {
        if (home_.is_this()) (void)cancel_op();
    }

protected:
    /// @param on    Null: a thread of its own.
    /// @param what  The verb, for messages, before the id.
    background_verb(boost::asio::any_io_executor on, const char* what, const checkpoint_id& id,
                    Options options)
        : on_(on ? operation_on(std::move(on))
                 : new_operation_thread(what + (" '" + terminal_text(id) + "'"))),
          id_(id), options_(std::move(options)) {}
    ~background_verb() = default;

    /// Cancels as `cancel` does. Returns the operation: it may be the last that holds the verb.
    std::shared_ptr<Op> cancel_op() noexcept {
        std::lock_guard const lock(m_);
        cancelled_ = true;
        auto op = op_.lock();
        if (op) op->cancel();
        return op;
    }
    /// Lets the slot of a handler cancel the verb.
    /// @param f  Called on any thread, also when the handler has been called.
    template <class Slot>
    void heed(Slot slot, void (Verb::*f)() noexcept) {
        if (slot.is_connected())
            slot.assign([weak = this->weak_from_this(), f](boost::asio::cancellation_type) {
                if (auto const self = weak.lock()) (self.get()->*f)();
            });
    }
    /// Starts the operation that `make` returns. If that fails, the verb ends, and the other ranks
    /// do not wait for this one.
    /// @param ranks  Outlive this call.
    template <class Group, class Make>
    void start_op(Group* ranks, Make make) {
        try {
            or_cancel(ranks, [&] {
                std::shared_ptr<Op> const op = make();
                {
                    std::lock_guard const lock(m_);
                    op_ = op;
                    if (cancelled_) op->cancel();
                }
                op->start();
            });
        } catch (...) {
            static_cast<Verb&>(*this).end(std::current_exception(), {});
        }
    }

    std::optional<noted_environment> variables_{};  ///< Until the verb has ended.
    operation_context on_;
    checkpoint_id id_;
    Options options_;
    mutable std::mutex m_{};
    std::weak_ptr<Op> op_{};
    bool cancelled_ = false;
    home_process home_{};  ///< In a forked child it never ends.
};

}  // namespace cairn::detail

#endif
