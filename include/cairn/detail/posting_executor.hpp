// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_POSTING_EXECUTOR_HPP
#define CAIRN_DETAIL_POSTING_EXECUTOR_HPP

#include <cairn/detail/cxx20.hpp>

#include <boost/asio/execution.hpp>
#include <boost/asio/execution_context.hpp>

#include <memory>
#include <utility>

namespace cairn::detail {

/// An executor that keeps what it posts to. Copies do not count as work.
/// @tparam Target  Has `post(f)`, which calls `f` later, in the context, or destroys it.
template <class Target>
class posting_executor {
public:
    // Not from an executor: every executor converts to any_io_executor.
    posting_executor(boost::asio::execution_context& context, std::shared_ptr<Target> to)
        : context_(&context), to_(std::move(to)) {}

    boost::asio::execution_context& query(boost::asio::execution::context_t) const noexcept {
        return *context_;
    }
    static constexpr boost::asio::execution::blocking_t query(
        boost::asio::execution::blocking_t) noexcept {
        return boost::asio::execution::blocking.never;
    }
    posting_executor require(boost::asio::execution::blocking_t::never_t) const { return *this; }
    template <class F>
    void execute(F f) const {
        auto const kept = to_;
        kept->post(std::move(f));
    }
    friend bool operator==(const posting_executor& a, const posting_executor& b) noexcept {
        return a.to_ == b.to_;
    }

private:
    boost::asio::execution_context* context_;
    std::shared_ptr<Target> to_;
};

}  // namespace cairn::detail

#endif
