// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_LAUNCH_HPP
#define CAIRN_DETAIL_LAUNCH_HPP

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include <cstddef>
#include <exception>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>

namespace cairn::detail {

/// What runs after the work, on the executor of the handler: there the user's code may be called.
struct no_epilogue {
    void operator()() const {}
};

/// An asynchronous operation whose work blocks a thread of its own. Ranks of one process block on
/// each other, so that a shared pool could starve itself; one thread per outstanding operation
/// cannot.
///
/// @param prepare  Called inside the initiating call with the parts; returns the work, a callable
///                 that returns `std::pair<Report, Epilogue>`.
/// **Completion signature**: `void(std::exception_ptr, Report)`.
template <class Report, class Prepare, class Token, class... Parts>
auto launch(Prepare prepare, Token&& token, Parts&&... parts) {
    return boost::asio::async_initiate<Token, void(std::exception_ptr, Report)>(
        [](auto handler, Prepare prepare_now, std::tuple<Parts...> packed) {
            auto executor = boost::asio::get_associated_executor(handler);
            auto guard = boost::asio::make_work_guard(executor);
            auto work = prepare_now(std::move(packed));
            std::thread([work = std::move(work), handler = std::move(handler),
                         guard = std::move(guard)]() mutable {
                using result = decltype(work());
                auto const finish = [&](std::exception_ptr e, Report r, auto epilogue) {
                    boost::asio::post(guard.get_executor(),
                                      [handler = std::move(handler), e = std::move(e),
                                       r = std::move(r), epilogue = std::move(epilogue)]() mutable {
                                          if (!e) {
                                              try {
                                                  epilogue();
                                              } catch (...) {
                                                  e = std::current_exception();
                                              }
                                          }
                                          std::move(handler)(std::move(e), std::move(r));
                                      });
                };
                std::exception_ptr failure;
                try {
                    result r = work();
                    finish(nullptr, std::move(r.first), std::move(r.second));
                    return;
                } catch (...) {
                    failure = std::current_exception();
                }
                finish(failure, Report{}, no_epilogue{});
            }).detach();
        },
        token, std::move(prepare), std::tuple<Parts...>(std::forward<Parts>(parts)...));
}

/// Calls `f(token, parts...)` with the last argument in front.
template <class F, class... Args>
auto with_token_last(F&& f, Args&&... args) {
    auto all = std::forward_as_tuple(std::forward<Args>(args)...);
    return [&]<std::size_t... Index>(std::index_sequence<Index...>) {
        return std::forward<F>(f)(std::get<sizeof...(Args) - 1>(std::move(all)),
                                  std::get<Index>(std::move(all))...);
    }(std::make_index_sequence<sizeof...(Args) - 1>());
}

template <class Check, class Tuple, std::size_t... Index>
constexpr bool all_but_last(std::index_sequence<Index...>) {
    return (true && ... && Check::template is<std::tuple_element_t<Index, Tuple>>);
}

/// Parts as `Check` allows, then one completion token.
template <class Check, class... Args>
concept parts_then_token =
    sizeof...(Args) >= 1 &&
    all_but_last<Check, std::tuple<Args...>>(
        std::make_index_sequence<(sizeof...(Args) > 0 ? sizeof...(Args) - 1 : 0)>());

}  // namespace cairn::detail

#endif
