// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_RUN_HERE_HPP
#define CAIRN_DETAIL_RUN_HERE_HPP

#include <cairn/detail/owning_executor.hpp>
#include <cairn/detail/surroundings.hpp>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <exception>
#include <functional>
#include <memory>
#include <utility>

namespace cairn::detail {

/// Runs an operation on the calling thread until it has ended: parts are called on it, since they
/// may block and may belong to it.
/// @param make  Called with the surroundings and the handler of the end; returns the operation.
/// @throws what the operation has ended with
template <class Report, class Make>
Report run_here(Make make) {
    auto const here = std::make_shared<boost::asio::io_context>(1);
    auto work = boost::asio::make_work_guard(*here);
    std::exception_ptr failure;
    Report report;
    make(surroundings{owning_executor(here)}, std::function([&](std::exception_ptr e, Report r) {
             failure = std::move(e);
             report = std::move(r);
             work.reset();
         }))
        ->start();
    here->run();
    if (failure) std::rethrow_exception(failure);
    return report;
}

}  // namespace cairn::detail

#endif
