// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_DETAIL_BACKGROUND_SAVE_HPP
#define CAIRN_SAVE_DETAIL_BACKGROUND_SAVE_HPP

#include <cairn/activity.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/detail/forks.hpp>
#include <cairn/save/detail/save_parts.hpp>
#include <cairn/save/options.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/verb/detail/background_verb.hpp>
#include <cairn/verb/detail/flattened_or_error.hpp>
#include <cairn/verb/detail/stored_handler.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace cairn::detail {

class save_op;

/// One save in the background: what the operation, the handler that waits for the copy, and the
/// `pending_save` share. Ends with the last of them. Threads: any.
class background_save : public background_verb<background_save, save_op, save_options> {
public:
    using staged_handler = stored_handler<std::exception_ptr, std::shared_ptr<background_save>>;
    using durable_handler = stored_handler<std::exception_ptr, save_report>;

    /// @param on       Null: a thread of its own.
    /// @param borrows  Parts are the caller's: the handle waits for the end.
    /// @param notes_environment  False: another operation has noted it, which ends later.
    CAIRN_DECL background_save(boost::asio::any_io_executor on, const checkpoint_id& id,
                               save_options options, bool borrows, staged_handler staged,
                               bool notes_environment = true);
    /// Reports an error that no call has delivered.
    CAIRN_DECL ~background_save();

    /// Lets the slot of its handler cancel the save until it is staged.
    CAIRN_DECL void heed_slot();
    CAIRN_DECL void start(std::shared_ptr<const flattened_or_error> state, save_parts parts);
    /// Ends the save, once.
    CAIRN_DECL void end(std::exception_ptr e, save_report r);
    /// Called when a save has ended, on the thread where it ends: with its failure, and with the
    /// save, of which it may take the result by `wait`. Must not throw.
    using end_handler = std::function<void(const std::exception_ptr&, background_save*)>;
    /// To be called before `start`.
    void when_ended(end_handler f) { on_end_ = std::move(f); }
    /// Ends the save; see `pending_save::cancel`.
    CAIRN_DECL void cancel() noexcept;

    CAIRN_DECL bool ended() const;
    /// Returns what this rank works on; null before the save has begun and after its end.
    CAIRN_DECL std::shared_ptr<const activity> working_on() const;
    /// Whether the result was handed on.
    CAIRN_DECL bool settled() const;
    /// Calls the handler when the save has ended, or at once.
    CAIRN_DECL void async_wait(durable_handler handler);
    /// Blocks until the save has ended. @throws its error
    CAIRN_DECL save_report wait();
    /// Called by the destructor of the handle: waits if something is borrowed, and reports the
    /// error of a save that has ended.
    CAIRN_DECL void drop() noexcept;

private:
    void cancel_unstaged() noexcept;
    void staged();
    /// Completes the handler of a cancelled save before its operation has ended.
    void give_up() noexcept;
    /// Delivers the result to the handler that waits, if there is one.
    void deliver(std::unique_lock<std::mutex>& lock);
    /// @throws error in a forked child
    std::unique_lock<std::mutex> locked() const;
    void check_unsettled() const;
    /// Completes the handler of a save that has failed; if that fails too, or the handler has ended
    /// with its context, reports the error.
    void fail(staged_handler handler, const std::exception_ptr& e) const noexcept;

    bool borrows_;
    int rank_ = -1;  ///< Of this process, once it has started. Used on the executor.
    std::condition_variable changed_{};
    staged_handler staged_;
    durable_handler waiting_{};
    int waits_ = 0;  ///< How many there were.
    end_handler on_end_{};
    bool ended_ = false;
    bool settled_ = false;  ///< The result was delivered or discarded.
    std::exception_ptr failure_{};
    save_report report_{};
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/save/impl/background_save.ipp>
#endif

#endif
