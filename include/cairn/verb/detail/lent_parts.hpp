// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_DETAIL_LENT_PARTS_HPP
#define CAIRN_VERB_DETAIL_LENT_PARTS_HPP

#include <cairn/detail/or_cancel.hpp>
#include <cairn/verb/detail/parts.hpp>

#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

namespace cairn::detail {

/// Runs a step before a verb's first exchange. The other ranks may be in it already: if the step
/// fails, the communicator that the caller has lent is cancelled, as by `or_cancel`. One that was
/// moved in may be moved on by the step, and ends with it.
/// @param parts  Of the verb, as they were passed.
template <class... Parts, class F>
std::invoke_result_t<F> or_cancel_lent([[maybe_unused]] const std::tuple<Parts...>& parts, F&& f) {
    constexpr std::size_t i = index_of<communicator_part, Parts...>();
    if constexpr (std::is_lvalue_reference_v<part_of<communicator_part, Parts...>>)
        return or_cancel(std::get<i>(parts), std::forward<F>(f));
    else
        return or_error(i < sizeof...(Parts) ? -1 : 0, std::forward<F>(f));
}

}  // namespace cairn::detail

#endif
