// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_DETAIL_BACKGROUND_LOAD_HPP
#define CAIRN_LOAD_DETAIL_BACKGROUND_LOAD_HPP

#include <cairn/detail/config.hpp>
#include <cairn/load/detail/load_parts.hpp>
#include <cairn/load/options.hpp>
#include <cairn/planner/report.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/verb/detail/background_verb.hpp>
#include <cairn/verb/detail/flattened_or_error.hpp>
#include <cairn/verb/detail/stored_handler.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <exception>
#include <memory>

namespace cairn::detail {

class load_op;

/// One load in the background. Threads: any.
class background_load : public background_verb<background_load, load_op, load_options> {
public:
    using handler = stored_handler<std::exception_ptr, load_report>;

    /// @param on  Null: a thread of its own.
    CAIRN_DECL background_load(boost::asio::any_io_executor on, const checkpoint_id& id,
                               load_options options, handler h);
    CAIRN_DECL ~background_load();

    /// Lets the slot of its handler cancel the load.
    CAIRN_DECL void heed_slot();
    /// @param refused  Not null: of a load that has a lane, but cannot run. It ends with this, and
    ///                 the other ranks do not wait for it.
    CAIRN_DECL void start(const std::exception_ptr& refused,
                          std::shared_ptr<flattened_or_error> state, load_parts parts);
    /// Completes the handler, once.
    CAIRN_DECL void end(std::exception_ptr e, load_report r);

private:
    handler handler_;
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/load/impl/background_load.ipp>
#endif

#endif
