// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_OPERATION_THREAD_HPP
#define CAIRN_DETAIL_OPERATION_THREAD_HPP

#include <cairn/detail/config.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <string>

namespace cairn {

/// Sets how long the process waits at exit for saves and loads that still run in the background: 60
/// seconds unless set. What is stuck by then is named on standard error, and given up.
CAIRN_DECL void set_exit_timeout(std::chrono::milliseconds t) noexcept;

namespace detail {

/// Makes a thread for one background operation, which may therefore block. It ends once nothing
/// holds the executor's work any more, and is joined by a later operation or at exit.
/// @param what  Named if it is stuck at exit.
/// @return Its executor, which tracks work: the thread lives as long as a copy of it.
CAIRN_DECL boost::asio::any_io_executor new_operation_thread(std::string what);

}  // namespace detail
}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/detail/impl/operation_thread.ipp>
#endif

#endif
