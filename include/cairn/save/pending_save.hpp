// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_PENDING_SAVE_HPP
#define CAIRN_SAVE_PENDING_SAVE_HPP

#include <cairn/save/detail/background_save.hpp>

#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_type.hpp>

#include <exception>
#include <memory>
#include <utility>

namespace cairn {
namespace detail {

template <class Handler>
auto giving_handle(Handler handler);
class checkpointer_core;

}  // namespace detail

/// A save whose tensors are copied and whose files are still being written: the result of
/// `async_save`. Move-only.
///
/// **Lifetimes**: the save continues without its handle and keeps all that it needs. If a part is
/// borrowed (see @ref async_save), the destructor waits for the end of the save. Do not call
/// `wait`, or destroy a handle whose save borrows, on the thread of an executor that was passed:
/// the save needs that thread.
///
/// **Errors** are delivered once: by `wait` or `async_wait`, or, if the handle is destroyed before,
/// to `save_options::on_unclaimed_error`.
///
/// **Threads**: not safe for concurrent use, except that `cancel` may be called from any thread
/// while another one is in `wait` or an `async_wait` is outstanding.
class pending_save {
public:
    /// Empty: for variables that hold the current save, if there is one.
    pending_save() = default;
    pending_save(pending_save&&) noexcept = default;
    pending_save& operator=(pending_save&& other) noexcept {
        if (this != &other) {
            drop();
            save_ = std::move(other.save_);
        }
        return *this;
    }
    ~pending_save() { drop(); }

    /// True if it refers to a save whose result has not been taken yet.
    explicit operator bool() const { return save_ != nullptr && !save_->settled(); }
    /// Whether the save has ended, so that `wait` returns at once. @pre not empty
    bool ready() const { return save_->ended(); }

    /// Blocks until the checkpoint exists.
    /// @throws error as @ref save does; errc::invalid_argument for a second wait
    /// @pre not empty
    save_report wait() { return save_->wait(); }

    /// Completes when the checkpoint exists.
    ///
    /// **Completion signature**: `void(std::exception_ptr, save_report)`.
    ///
    /// **Cancellation** ends the wait with `boost::asio::error::operation_aborted`, never the save:
    /// call `async_wait` or `wait` again. One wait at a time; one whose handler has ended with the
    /// context of its executor is none.
    /// @pre not empty
    template <class Token>
    auto async_wait(Token&& token) {
        return boost::asio::async_initiate<Token, void(std::exception_ptr, save_report)>(
            [](auto handler, const std::shared_ptr<detail::background_save>& s) {
                using stored = detail::background_save::durable_handler;
                s->async_wait(stored(std::move(handler)));
            },
            token, save_);
    }

    /// Ends the save, on all ranks, with @ref errc::cancelled: its files are removed, the previous
    /// checkpoint stays and the communicator remains usable. A write that is under way ends after
    /// its current piece, at most 64 MiB, unless it is a writer of your own that ignores
    /// `storage_setup::stop`. If this rank has already sent its results, it is too late, and the
    /// save ends as it would have. Any thread; returns at once.
    void cancel() noexcept {
        if (save_) save_->cancel();
    }

private:
    template <class Handler>
    friend auto detail::giving_handle(Handler handler);
    friend detail::checkpointer_core;  // shows what the save works on
    explicit pending_save(std::shared_ptr<detail::background_save> s) : save_(std::move(s)) {}
    void drop() noexcept {
        if (auto const s = std::move(save_)) s->drop();
    }

    std::shared_ptr<detail::background_save> save_{};
};

namespace detail {

/// Returns a handler that makes the handle of the save; if it is dropped, no handle is made.
template <class Handler>
auto giving_handle(Handler handler) {
    return adapted(std::move(handler),
                   [](Handler h, std::exception_ptr e, std::shared_ptr<background_save> s) {
                       std::move(h)(std::move(e), pending_save(std::move(s)));
                   });
}

}  // namespace detail
}  // namespace cairn

#endif
