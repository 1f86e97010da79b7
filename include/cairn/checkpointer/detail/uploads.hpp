// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CHECKPOINTER_DETAIL_UPLOADS_HPP
#define CAIRN_CHECKPOINTER_DETAIL_UPLOADS_HPP

#include <cairn/activity.hpp>
#include <cairn/catalog/detail/recording_writer.hpp>
#include <cairn/checkpointer/detail/schedule.hpp>
#include <cairn/comm/any_communicator.hpp>
#include <cairn/comm/deadline.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/detail/environment.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/observe/detail/erased_sink.hpp>
#include <cairn/save/detail/background_save.hpp>
#include <cairn/save/options.hpp>
#include <cairn/save/pending_save.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/written_part.hpp>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace cairn::detail {

/// Called once with how a save has ended; with errc::abandoned, and without a save, if it is
/// destroyed before.
using end_teller = background_save::end_handler;

/// The uploads of a checkpointer, one at a time: copies of checkpoints in another store, each made
/// by a save whose state is the checkpoint. Each rank copies what it has written. The saves hold
/// it, too. Thread-safe.
///
/// An upload begins when its own save has succeeded on this rank, without an exchange: it succeeds
/// on all of them, or the group breaks. The ranks add uploads in the same order.
class uploads : public std::enable_shared_from_this<uploads> {
public:
    struct places {
        any_store from, to;
        std::shared_ptr<run_catalog> from_catalog, to_catalog;
    };
    /// @param lane     Used by nothing else.
    /// @param alone    It is a `solo`.
    /// @param options  Of each upload.
    uploads(any_communicator lane, bool alone, places p, save_options options, erased_sinks sinks)
        : lane_(std::move(lane)), alone_(alone), places_(std::move(p)),
          options_(std::move(options)), sinks_(std::move(sinks)) {}
    uploads(uploads&&) = delete;

    /// What a save that is to be uploaded is given.
    struct added {
        std::shared_ptr<written_part> part{};
        end_teller ended{};  ///< To be told how the save has ended.
    };
    CAIRN_DECL added add(const checkpoint_id& id, std::int64_t step);

    struct result {
        checkpoint_id id{};
        std::int64_t step = 0;
        bool saved = false;  ///< Its save has succeeded here; otherwise that is why it has failed.
        std::exception_ptr failure{};
        std::optional<save_report> report{};
    };
    CAIRN_DECL std::size_t size() const;
    /// Returns the state of the oldest one, and why it has failed. One whose save has failed is
    /// none: that failure is the save's.
    CAIRN_DECL earlier_save oldest(std::exception_ptr& why) const;
    /// Takes the oldest one, which has ended.
    CAIRN_DECL result take_oldest();
    /// Forgets the newest one, whose save has failed on all ranks.
    CAIRN_DECL void drop_newest();

    /// What to call now and then while waiting.
    struct pulse {
        std::chrono::milliseconds period;
        std::function<void()> each;
    };
    /// Waits for the oldest one, or for all, or for those of one checkpoint and until at most
    /// `most` are left.
    CAIRN_DECL void finish_oldest(const pulse& now_and_then);
    /// @return Whether all have ended
    CAIRN_DECL bool finish(deadline by = no_deadline);
    CAIRN_DECL void finish(const checkpoint_id& id, std::size_t most, const pulse& now_and_then);
    /// Ends all of them, on all ranks, with errc::cancelled, as `pending_save::cancel`.
    CAIRN_DECL void cancel() noexcept;

private:
    enum class status { saving, ready, running, completed, failed };
    struct upload {
        checkpoint_id id{};
        std::int64_t step = 0;
        std::shared_ptr<written_part> part{};
        status is = status::saving;
        bool saved = false;
        std::shared_ptr<cairn::activity> saving{};  ///< Of its save, once that has begun.
        pending_save save{};                        ///< To cancel it; once it has begun.
        std::exception_ptr failure{};
        std::optional<save_report> report{};
        /// Threads of the library must not read the environment itself.
        std::optional<noted_environment> variables{std::in_place};

        bool ended() const { return is == status::completed || is == status::failed; }
    };
    using upload_ptr = std::shared_ptr<upload>;

    CAIRN_DECL static end_teller told_once(end_teller f);
    CAIRN_DECL void give_up(upload& u) noexcept;
    CAIRN_DECL void save_begun(upload& u, const std::shared_ptr<cairn::activity>& saving);
    CAIRN_DECL upload_ptr first_open() const;
    CAIRN_DECL void show_saving() noexcept;
    CAIRN_DECL void saved(const upload_ptr& u, const std::exception_ptr& failure) noexcept;
    CAIRN_DECL void uploaded(const upload_ptr& u, const std::exception_ptr& failure,
                             background_save* save) noexcept;
    CAIRN_DECL void end(const upload_ptr& u, const std::exception_ptr& failure) noexcept;
    CAIRN_DECL void begin_next() noexcept;
    CAIRN_DECL void begin(const upload_ptr& u);

    any_communicator lane_;
    bool alone_;
    places places_;
    save_options options_;
    erased_sinks sinks_;
    mutable std::mutex m_{};  ///< Protects the members below.
    std::condition_variable changed_{};
    std::deque<upload_ptr> all_{};
    bool cancelled_ = false;
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/checkpointer/impl/uploads.ipp>
#endif

#endif
