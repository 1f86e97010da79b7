// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_DETAIL_TOKEN_LAST_HPP
#define CAIRN_VERB_DETAIL_TOKEN_LAST_HPP

#include <cairn/verb/detail/parts.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution/executor.hpp>

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace cairn::detail {

/// An executor among the parts of an asynchronous verb.
inline constexpr auto executor_part = []<class T>(of_type<T>) {
    return boost::asio::execution::is_executor<T>::value;
};

/// Calls `f(token, parts...)`: the last argument is moved to the front.
template <class F, class... Args>
auto with_token_last(F&& f, Args&&... args) {
    auto all = std::forward_as_tuple(std::forward<Args>(args)...);
    return [&]<std::size_t... Index>(std::index_sequence<Index...>) {
        return std::forward<F>(f)(std::get<sizeof...(Args) - 1>(std::move(all)),
                                  std::get<Index>(std::move(all))...);
    }(std::make_index_sequence<sizeof...(Args) - 1>());
}

template <const auto& Check, class Tuple, std::size_t... Index>
constexpr bool all_but_last(std::index_sequence<Index...>) {
    return (true && ... &&
            (Check(of_type<std::tuple_element_t<Index, Tuple>>()) ||
             executor_part(of_type<std::remove_cvref_t<std::tuple_element_t<Index, Tuple>>>())));
}

/// Arguments are parts that satisfy `Check` or an executor, then one completion token.
template <const auto& Check, class... Args>
concept parts_then_token =
    sizeof...(Args) >= 1 &&
    all_but_last<Check, std::tuple<Args...>>(
        std::make_index_sequence<(sizeof...(Args) > 0 ? sizeof...(Args) - 1 : 0)>());

/// Takes the executor out of the parts, which may outlive its context; null if there is none.
template <class... Parts>
boost::asio::any_io_executor executor_in(std::tuple<Parts...>& parts) {
    static_assert(count_of<executor_part, Parts...> <= 1, "two executors");
    constexpr auto i = index_of<executor_part, Parts...>();
    if constexpr (i < sizeof...(Parts))
        return std::get<i>(std::move(parts));
    else
        return {};
}

}  // namespace cairn::detail

#endif
