// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_IMPL_BACKGROUND_LOAD_IPP
#define CAIRN_LOAD_IMPL_BACKGROUND_LOAD_IPP

#include <cairn/load/detail/background_load.hpp>

#include <cairn/detail/or_cancel.hpp>
#include <cairn/load/detail/load_op.hpp>
#include <cairn/load/detail/run_load.hpp>

#include <utility>

namespace cairn::detail {

CAIRN_DECL background_load::background_load(boost::asio::any_io_executor on,
                                            const checkpoint_id& id, load_options options,
                                            handler h)
    : on_(on ? operation_on(std::move(on)) : new_operation_thread("the load of '" + id + "'")),
      id_(id), options_(std::move(options)), handler_(std::move(h)) {}

CAIRN_DECL background_load::~background_load() {
    if (!handler_) return;
    try {  // the executor has ended before the load began
        handler_.complete(
            std::make_exception_ptr(error(
                errc::abandoned, {.found = "the executor of the load has ended before the load",
                                  .remedy = "run the executor until all loads are complete"})),
            {});
    } catch (...) {
        print_unclaimed(std::current_exception());
    }
}

CAIRN_DECL void background_load::heed_slot() {
    if (auto slot = handler_.slot(); slot.is_connected())
        slot.assign([weak = weak_from_this()](boost::asio::cancellation_type) {
            if (auto const self = weak.lock()) self->cancel();
        });
}
CAIRN_DECL void background_load::start(std::shared_ptr<flattened_or_error> state,
                                       load_parts parts) {
    auto* const ranks = parts.ranks;
    auto const owner = parts.owner;  // of the group, which may have to be cancelled
    try {
        or_cancel(ranks, [&] {
            add_default_parts(parts, options_);
            auto const op = std::make_shared<load_op>(
                surroundings{on_.executor}, std::move(state), id_, options_, std::move(parts),
                [self = shared_from_this()](std::exception_ptr e, load_report r) {
                    self->end(std::move(e), std::move(r));
                });
            {
                std::lock_guard const lock(m_);
                op_ = op;
                if (cancelled_) op->cancel();
            }
            op->start();
        });
    } catch (...) {
        end(std::current_exception(), {});
    }
}
CAIRN_DECL void background_load::refuse(const std::exception_ptr& e, const load_parts& parts) {
    try {
        or_cancel(parts.ranks, [&] { std::rethrow_exception(e); });
    } catch (...) {
        end(std::current_exception(), {});
    }
}
CAIRN_DECL void background_load::end(std::exception_ptr e, load_report r) {
    on_ = {};  // the thread of the operation may end
    variables_.reset();
    if (handler_) handler_.complete(std::move(e), std::move(r));
}
CAIRN_DECL void background_load::cancel() noexcept {
    std::shared_ptr<load_op> op;  // ends after the lock: it may be the last that holds the load
    std::lock_guard const lock(m_);
    cancelled_ = true;
    op = op_.lock();
    if (op) op->cancel();
}

}  // namespace cairn::detail

#endif
