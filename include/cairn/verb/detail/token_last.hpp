// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_DETAIL_TOKEN_LAST_HPP
#define CAIRN_VERB_DETAIL_TOKEN_LAST_HPP

#include <cairn/verb/detail/lent_parts.hpp>
#include <cairn/verb/detail/parts.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/execution/executor.hpp>

#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

namespace cairn::detail {

/// An executor among the parts of an asynchronous verb.
inline constexpr auto executor_part = []<class T>(of_type<T>) {
    return boost::asio::execution::is_executor<T>::value;
};

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

/// Begins an asynchronous verb, for the token that is the last argument; the others are its parts.
/// @param start  `start(state, id, options, parts, handler)`. As `or_cancel_lent` for what fails
///               before it; what a token throws later, if it waits in this call, is the verb's own.
template <class Signature, class State, class Id, class Options, class Start, class... Args>
auto initiate(State& state, Id id, Options options, Start start, Args&&... args) {
    auto all = std::forward_as_tuple(std::forward<Args>(args)...);
    return [&]<std::size_t... Index>(std::index_sequence<Index...>) {
        using token_type = std::tuple_element_t<sizeof...(Index), std::tuple<Args...>>;
        using parts_type = std::tuple<std::tuple_element_t<Index, std::tuple<Args...>>...>;
        auto& token = std::get<sizeof...(Index)>(all);
        auto parts = std::forward_as_tuple(std::get<Index>(std::move(all))...);
        // Making the token's handler, and moving the parts, may fail.
        auto const begun = or_cancel_lent(parts, [] { return std::make_shared<bool>(false); });
        try {
            return boost::asio::async_initiate<token_type, Signature>(
                [begun, start](auto handler, State* of, const Id& at, Options how,
                               parts_type given) {
                    *begun = true;
                    start(*of, at, std::move(how), std::move(given), std::move(handler));
                },
                token, std::addressof(state), std::move(id), std::move(options),
                parts_type(std::get<Index>(std::move(parts))...));
        } catch (...) {
            if (!*begun) or_cancel_lent(parts, []() -> void { throw; });
            throw;
        }
    }(std::make_index_sequence<sizeof...(Args) - 1>());
}

}  // namespace cairn::detail

#endif
