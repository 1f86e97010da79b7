// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTING_DETAIL_RUN_CHECK_HPP
#define CAIRN_TESTING_DETAIL_RUN_CHECK_HPP

#include <cairn/detail/cxx20.hpp>

#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace cairn::testing::detail {

/// Returns the text of what `f` throws; empty if it throws nothing.
template <class F>
std::string why_not(F&& f) {
    try {
        f();
        return {};
    } catch (const std::exception& e) {
        return *e.what() == '\0' ? "an exception without a text" : e.what();
    } catch (...) {
        return "an exception of an unknown type";
    }
}

/// Runs one check of a suite; adds what it throws to the suite's failures.
template <class F>
void run_check(std::vector<std::string>& failures, const std::string& name, F&& check) {
    if (auto const why = why_not(std::forward<F>(check)); !why.empty())
        failures.push_back(name + ": " + why);
}

}  // namespace cairn::testing::detail

#endif
