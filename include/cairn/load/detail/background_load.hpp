// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_DETAIL_BACKGROUND_LOAD_HPP
#define CAIRN_LOAD_DETAIL_BACKGROUND_LOAD_HPP

#include <cairn/detail/config.hpp>
#include <cairn/detail/environment.hpp>
#include <cairn/load/detail/load_parts.hpp>
#include <cairn/load/options.hpp>
#include <cairn/planner/report.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/verb/detail/flattened_or_error.hpp>
#include <cairn/verb/detail/stored_handler.hpp>
#include <cairn/verb/operation_thread.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace cairn::detail {

class load_op;

/// One load in the background. The operation keeps it alive. Threads: any.
class background_load : public std::enable_shared_from_this<background_load> {
public:
    using handler = stored_handler<std::exception_ptr, load_report>;

    /// @param on  Null: a thread of its own.
    CAIRN_DECL background_load(boost::asio::any_io_executor on, const checkpoint_id& id,
                               load_options options, handler h);
    background_load(background_load&&) = delete;
    CAIRN_DECL ~background_load();

    /// Where the load runs. @pre neither `start` nor `end` was called
    const boost::asio::any_io_executor& executor() const noexcept { return on_.executor; }
    /// Lets the slot of its handler cancel the load.
    CAIRN_DECL void heed_slot();
    CAIRN_DECL void start(std::shared_ptr<flattened_or_error> state, load_parts parts);
    /// Ends a load that has a lane, but could not be started: the other ranks must not wait for it.
    CAIRN_DECL void refuse(const std::exception_ptr& e, const load_parts& parts);
    /// Completes the handler, once.
    CAIRN_DECL void end(std::exception_ptr e, load_report r);

private:
    void cancel() noexcept;

    std::optional<noted_environment> variables_{std::in_place};  ///< Until the load has ended.
    operation_context on_;
    checkpoint_id id_;
    load_options options_;
    handler handler_;
    std::mutex m_{};  ///< Protects the next two members.
    std::weak_ptr<load_op> op_{};
    bool cancelled_ = false;
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/load/impl/background_load.ipp>
#endif

#endif
