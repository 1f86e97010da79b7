// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_JOB_EXECUTOR_HPP
#define CAIRN_STORAGE_JOB_EXECUTOR_HPP

#include <cairn/detail/cxx20.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <concepts>
#include <utility>

namespace cairn {

/// Where a writer or reader runs its jobs, instead of threads of its own: any executor of
/// Boost.Asio, which is converted when it is passed. The writers and readers only declare this
/// class, so that they can be used without Boost.Asio.
class job_executor {
public:
    job_executor() = default;  ///< None: threads of its own.
    template <class Executor>
        requires(!std::same_as<Executor, job_executor> &&
                 std::constructible_from<boost::asio::any_io_executor, Executor>)
    job_executor(Executor on) : on_(std::move(on)) {}

    const boost::asio::any_io_executor& get() const noexcept { return on_; }

private:
    boost::asio::any_io_executor on_{};
};

}  // namespace cairn

#endif
