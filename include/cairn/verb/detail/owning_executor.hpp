// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_DETAIL_OWNING_EXECUTOR_HPP
#define CAIRN_VERB_DETAIL_OWNING_EXECUTOR_HPP

#include <cairn/detail/cxx20.hpp>

#include <boost/asio/execution.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <memory>
#include <utility>

namespace cairn::detail {

/// An executor that keeps its io_context alive. A backend's thread that posts may still be inside
/// the context when what it has posted has run: a context that ended with its operation would then
/// be used after its end. Copies do not count as work.
class owning_executor {
public:
    explicit owning_executor(std::shared_ptr<boost::asio::io_context> io) : io_(std::move(io)) {}

    boost::asio::execution_context& query(boost::asio::execution::context_t) const noexcept {
        return *io_;
    }
    static constexpr boost::asio::execution::blocking_t query(
        boost::asio::execution::blocking_t) noexcept {
        return boost::asio::execution::blocking.never;
    }
    owning_executor require(boost::asio::execution::blocking_t::never_t) const { return *this; }
    template <class F>
    void execute(F f) const {
        auto const kept = io_;
        boost::asio::post(*kept, std::move(f));
    }
    friend bool operator==(const owning_executor& a, const owning_executor& b) noexcept {
        return a.io_ == b.io_;
    }
    friend bool operator!=(const owning_executor& a, const owning_executor& b) noexcept {
        return !(a == b);
    }

private:
    std::shared_ptr<boost::asio::io_context> io_;
};

}  // namespace cairn::detail

#endif
