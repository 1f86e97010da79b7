// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_LAUNCH_HPP
#define CAIRN_DETAIL_LAUNCH_HPP

#include <cairn/detail/parts.hpp>

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>

namespace cairn::detail {

/// Runs after the work, on the handler's executor, where user code may be called.
struct no_epilogue {
    void operator()() const {}
};

/// Work and the parts that it uses, which stay in place until it has ended.
template <class Work, class... Parts>
struct background_work {
    Work work;
    std::tuple<Parts...> parts;

    auto operator()() { return work(parts); }
    /// May be called from any thread.
    void cancel() noexcept {
        constexpr auto i = index_of<communicator_part, Parts...>();
        if constexpr (i < sizeof...(Parts)) std::get<i>(parts).cancel();
        constexpr auto k = index_of<data_plane_part, Parts...>();
        if constexpr (k < sizeof...(Parts)) std::get<k>(parts).cancel();
    }
};

/// Starts an asynchronous operation whose work blocks a thread of its own. Ranks of one process
/// block on each other, so a shared pool could deadlock; one thread per outstanding operation
/// cannot.
///
/// @param prepare  Called inside the initiating call; returns the work, a callable that takes the
///                 parts and returns `std::pair<Report, Epilogue>`.
/// **Completion signature**: `void(std::exception_ptr, Report)`.
template <class Report, class Prepare, class Token, class... Parts>
auto launch(Prepare prepare, Token&& token, Parts&&... parts) {
    return boost::asio::async_initiate<Token, void(std::exception_ptr, Report)>(
        [](auto handler, Prepare prepare_now, std::tuple<Parts...> packed) {
            auto guard =
                boost::asio::make_work_guard(boost::asio::get_associated_executor(handler));
            auto slot = boost::asio::get_associated_cancellation_slot(handler);
            using task = background_work<decltype(prepare_now()), Parts...>;
            auto work = std::make_shared<task>(task{prepare_now(), std::move(packed)});
            if (slot.is_connected())
                slot.assign([w = std::weak_ptr(work)](boost::asio::cancellation_type) {
                    if (auto const now = w.lock()) now->cancel();
                });
            std::thread([work, slot, handler = std::move(handler),
                         guard = std::move(guard)]() mutable {
                auto const finish = [&](std::exception_ptr e, Report r, auto epilogue) {
                    boost::asio::post(guard.get_executor(),
                                      [handler = std::move(handler), slot, e = std::move(e),
                                       r = std::move(r), epilogue = std::move(epilogue)]() mutable {
                                          if (slot.is_connected()) slot.clear();
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
                    auto r = (*work)();
                    work.reset();  // the parts are destroyed before the handler is called
                    finish(nullptr, std::move(r.first), std::move(r.second));
                    return;
                } catch (...) {
                    failure = std::current_exception();
                }
                work.reset();
                finish(failure, Report{}, no_epilogue{});
            }).detach();
        },
        token, std::move(prepare), std::tuple<Parts...>(std::forward<Parts>(parts)...));
}

/// Calls `f(token, parts...)`: the last argument is moved to the front.
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

/// Arguments are parts that satisfy `Check`, then one completion token.
template <class Check, class... Args>
concept parts_then_token =
    sizeof...(Args) >= 1 &&
    all_but_last<Check, std::tuple<Args...>>(
        std::make_index_sequence<(sizeof...(Args) > 0 ? sizeof...(Args) - 1 : 0)>());

}  // namespace cairn::detail

#endif
