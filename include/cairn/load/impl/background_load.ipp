// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_IMPL_BACKGROUND_LOAD_IPP
#define CAIRN_LOAD_IMPL_BACKGROUND_LOAD_IPP

#include <cairn/load/detail/background_load.hpp>

#include <cairn/load/detail/load_op.hpp>
#include <cairn/load/detail/run_load.hpp>

#include <utility>

namespace cairn::detail {

CAIRN_DECL background_load::background_load(boost::asio::any_io_executor on,
                                            const checkpoint_id& id, load_options options,
                                            handler h)
    : background_verb(std::move(on), "the load of", id, std::move(options)),
      handler_(std::move(h)) {
    variables_.emplace();
}

CAIRN_DECL background_load::~background_load() {
    if (!handler_ || !home_.is_this()) return;
    try {  // the executor has ended before the load began
        handler_.complete(executor_ended("load"), {});
    } catch (...) {
        print_unclaimed(std::current_exception());
    }
}

CAIRN_DECL void background_load::heed_slot() {
    heed(handler_.slot(), &background_load::cancel);
}
CAIRN_DECL void background_load::start(const std::exception_ptr& refused,
                                       std::shared_ptr<flattened_or_error> state,
                                       load_parts parts) {
    auto const owner = parts.owner;  // of the group, which may have to be cancelled
    start_op(parts.ranks, [&] {
        if (refused) std::rethrow_exception(refused);
        add_default_parts(parts, options_);
        return std::make_shared<load_op>(
            surroundings{on_.executor}, std::move(state), id_, options_, std::move(parts),
            [self = shared_from_this()](std::exception_ptr e, load_report r) {
                self->end(std::move(e), std::move(r));
            });
    });
}
CAIRN_DECL void background_load::end(std::exception_ptr e, load_report r) {
    on_ = {};  // the thread of the operation may end
    variables_.reset();
    if (handler_) handler_.complete(std::move(e), std::move(r));
}

}  // namespace cairn::detail

#endif
