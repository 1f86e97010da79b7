// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_DETAIL_RUN_HERE_HPP
#define CAIRN_VERB_DETAIL_RUN_HERE_HPP

#include <cairn/detail/environment.hpp>
#include <cairn/detail/or_cancel.hpp>
#include <cairn/detail/posting_executor.hpp>
#include <cairn/verb/detail/own_context.hpp>
#include <cairn/verb/detail/surroundings.hpp>

#include <boost/asio/executor_work_guard.hpp>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace cairn::detail {

/// Runs an operation on the calling thread until it has ended: parts are called on it, since they
/// may block and may belong to it.
/// @param ranks  Cancelled if the operation cannot be started. Null: there are no others.
/// @param make   Called with the surroundings and the handler of the end; returns the operation.
/// @throws what the operation has ended with
template <class Report, class Group, class Make>
Report run_here(Group* ranks, Make make) {
    noted_environment const variables;
    std::shared_ptr<own_context> here;
    std::optional<boost::asio::executor_work_guard<own_context::executor_type>> work;
    std::exception_ptr failure;
    Report report;
    or_cancel(ranks, [&] {
        here = std::make_shared<own_context>();
        work.emplace(here->get_executor());
        make(surroundings{posting_executor(*here, here)},
             std::function([&](std::exception_ptr e, Report r) {
                 failure = std::move(e);
                 report = std::move(r);
                 work.reset();
             }))
            ->start();
    });
    here->run();
    if (failure) std::rethrow_exception(failure);
    return report;
}

}  // namespace cairn::detail

#endif
