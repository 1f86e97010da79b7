// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_OPERATION_THREAD_HPP
#define CAIRN_VERB_OPERATION_THREAD_HPP

#include <cairn/detail/config.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <exception>
#include <memory>
#include <string>

namespace cairn {

/// Sets how long the process waits at exit for saves and loads in the background that have a thread
/// of their own: 60 seconds by default; `no_timeout` waits without a limit. Those still running
/// then are named on standard error, and their threads are not joined. Operations on a caller's
/// executor are not waited for, nor is the thread that calls `exit`, and a forked child waits for
/// none of its parent's.
CAIRN_DECL void set_exit_timeout(std::chrono::milliseconds t) noexcept;

namespace detail {

/// Where one background operation runs.
struct operation_context {
    boost::asio::any_io_executor executor{};
    std::shared_ptr<void> work{};  ///< While it lives, the executor runs what is posted.
};

/// Makes a thread for one background operation, which may therefore block. It ends once its work
/// does, and is joined by a later operation or at exit.
/// @param what  The name to print if it is still running at exit.
CAIRN_DECL operation_context new_operation_thread(std::string what);
/// Returns the caller's executor, whose context has work while the result lives.
CAIRN_DECL operation_context operation_on(boost::asio::any_io_executor on);
/// Destroys an object on a thread of the library's, because it may own the calling thread; here if
/// there is no memory for that.
CAIRN_DECL void destroy_elsewhere(std::shared_ptr<void> what) noexcept;
/// Returns the error of an operation whose executor has dropped it, @ref errc::abandoned; without
/// the memory for that, the `std::bad_alloc`.
/// @param verb  "save" or "load".
CAIRN_DECL std::exception_ptr executor_ended(const std::string& verb) noexcept;

}  // namespace detail
}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/verb/impl/operation_thread.ipp>
#endif

#endif
