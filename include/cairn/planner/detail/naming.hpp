// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_DETAIL_NAMING_HPP
#define CAIRN_PLANNER_DETAIL_NAMING_HPP

#include <cairn/detail/failures.hpp>
#include <cairn/error.hpp>

#include <exception>
#include <new>
#include <string>
#include <utility>

namespace cairn::detail {

/// Returns `f()`, which reads a value of the user's; what it throws gets the value's name.
template <class F>
decltype(auto) naming(const std::string& fqn, F&& f) {
    try {
        return f();
    } catch (const std::bad_alloc&) {
        throw;
    } catch (const error& e) {
        auto where = e.context();
        if (where.fqn.empty()) where.fqn = fqn;
        throw error(e.code(), std::move(where));
    } catch (...) {  // from the user's value_traits
        throw error(errc::rank_failed, {.fqn = fqn, .found = text_of(std::current_exception())});
    }
}

}  // namespace cairn::detail

#endif
