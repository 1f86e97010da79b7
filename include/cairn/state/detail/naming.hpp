// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_DETAIL_NAMING_HPP
#define CAIRN_STATE_DETAIL_NAMING_HPP

#include <cairn/detail/failures.hpp>
#include <cairn/error.hpp>

#include <exception>
#include <new>
#include <string>
#include <utility>

namespace cairn::detail {

/// Returns `f()`, which reads or sets a value of the user's; what it throws gets the value's name.
template <class F>
decltype(auto) naming(const std::string& fqn, F&& f) {
    try {
        return f();
    } catch (const std::bad_alloc&) {
        throw;
    } catch (...) {  // of any type, from the user's value_traits
        auto failure = failure_from(std::current_exception(), -1);
        if (failure.where.fqn.empty()) failure.where.fqn = fqn;
        throw error(failure.code, std::move(failure.where));
    }
}

}  // namespace cairn::detail

#endif
