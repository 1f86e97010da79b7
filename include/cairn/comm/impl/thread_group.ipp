// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_IMPL_THREAD_GROUP_IPP
#define CAIRN_COMM_IMPL_THREAD_GROUP_IPP

#include <cairn/comm/thread_group.hpp>

#include <cairn/comm/detail/thread/engine.hpp>
#include <cairn/error.hpp>

#include <cstddef>
#include <exception>
#include <new>
#include <string>
#include <thread>

namespace cairn {

static_assert(BackgroundCommunicator<thread_group::member>);
namespace detail {

inline error no_thread_rank(std::string expected, int found) {
    return {errc::invalid_argument,
            {.expected = std::move(expected), .found = std::to_string(found)}};
}

}  // namespace detail

CAIRN_DECL thread_group::thread_group(int n) {
    if (n < 1) throw detail::no_thread_rank("1 rank or more", n);
    handed_out_ = std::vector<std::atomic<bool>>(static_cast<std::size_t>(n));
    first_ = std::make_shared<detail::thread_engine>(n);
}
CAIRN_DECL thread_group::~thread_group() {
    for (std::size_t r = 0; first_ && first_->is_here() && r < handed_out_.size(); ++r) {
        if (handed_out_[r].exchange(true)) continue;
        try {
            make(static_cast<int>(r)).leave();
        } catch (const std::bad_alloc&) {  // others then wait until their deadline
        }
    }
}

CAIRN_DECL thread_group::member thread_group::rank(int r) {
    auto const n = static_cast<int>(handed_out_.size());
    if (r < 0 || r >= n) throw detail::no_thread_rank("a rank below " + std::to_string(n), r);
    if (handed_out_[static_cast<std::size_t>(r)].exchange(true))
        throw detail::no_thread_rank("a rank that was not taken before", r);
    return make(r);
}

CAIRN_DECL thread_group::member thread_group::make(int r) {
    return member(
        {std::make_shared<detail::thread_engine>(*first_, r), detail::thread_ranks::first_lane});
}

namespace detail {

/// Whether a rank failed only because another one did.
inline bool is_echo(const std::exception_ptr& e) {
    try {
        std::rethrow_exception(e);
    } catch (const error& x) {
        for (auto const c : {errc::rank_failed, errc::poisoned, errc::cancelled})
            if (x.code() == make_error_code(c)) return true;
        return false;
    } catch (...) {
        return false;
    }
}

CAIRN_DECL void run_ranks(int n, const std::function<void(thread_group::member&)>& f) {
    thread_group group(n);
    std::vector<std::exception_ptr> failures(static_cast<std::size_t>(n));
    std::vector<thread_group::member> members;
    for (int r = 0; r < n; ++r) members.push_back(group.rank(r));
    std::vector<std::thread> threads;
    std::exception_ptr not_started;
    for (std::size_t r = 0; r < members.size() && !not_started; ++r) {
        try {
            threads.emplace_back(
                [&f, &failure = failures[r], me = std::move(members[r])]() mutable {
                    try {
                        f(me);
                    } catch (...) {
                        failure = std::current_exception();
                    }
                    me.leave();
                });
        } catch (...) {
            not_started = std::current_exception();
        }
    }
    members.clear();  // ranks without a thread leave, so that the others do not wait for them
    for (auto& t : threads) t.join();
    if (not_started) std::rethrow_exception(not_started);
    std::exception_ptr first;
    for (auto const& e : failures)
        if (e && (!first || (is_echo(first) && !is_echo(e)))) first = e;
    if (first) std::rethrow_exception(first);
}

}  // namespace detail
}  // namespace cairn

#endif
