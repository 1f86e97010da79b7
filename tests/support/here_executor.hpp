// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_HERE_EXECUTOR_HPP
#define CAIRN_TEST_SUPPORT_HERE_EXECUTOR_HPP

#include <boost/asio/execution.hpp>
#include <boost/asio/io_context.hpp>

#include <utility>

namespace support {

/// Runs what is posted inside the call: a `torch_reader` on it needs no thread. Only for what waits
/// for nothing else that is posted.
struct here_executor {
    boost::asio::execution_context* context;

    boost::asio::execution_context& query(boost::asio::execution::context_t) const noexcept {
        return *context;
    }
    static constexpr boost::asio::execution::blocking_t query(
        boost::asio::execution::blocking_t) noexcept {
        return boost::asio::execution::blocking.never;
    }
    here_executor require(boost::asio::execution::blocking_t::never_t) const { return *this; }
    template <class F>
    void execute(F f) const {
        std::move(f)();
    }
    friend bool operator==(const here_executor&, const here_executor&) noexcept = default;
};

}  // namespace support

#endif
