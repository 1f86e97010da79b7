// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTING_DETAIL_RUN_CHECK_HPP
#define CAIRN_TESTING_DETAIL_RUN_CHECK_HPP

#include <cairn/error.hpp>

#include <cstddef>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
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

inline void expect(bool ok, const std::string& what) {
    if (!ok) throw std::runtime_error(what);
}

/// Expects `f` to throw an @ref error with this code.
/// @param what  Describes the expectation, for the failure's text.
template <class F>
void expect_error(errc code, const std::string& what, F&& f) {
    auto const thrown = why_not([&] {
        try {
            f();
        } catch (const error& e) {
            if (e.code() != make_error_code(code)) throw;
            return;
        }
        throw std::runtime_error("it throws nothing");
    });
    expect(thrown.empty(), what + ": " + thrown);
}

/// Calls `f(i)` for each i below `n`, each on a thread of its own.
/// @throws what the first of them has thrown, or that one cannot start, once all have ended
template <class F>
void on_threads(std::size_t n, F&& f) {
    std::vector<std::exception_ptr> failures(n);
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < n; ++i)
        threads.emplace_back([&, i] {
            try {
                f(i);
            } catch (...) {
                failures[i] = std::current_exception();
            }
        });
    threads.clear();
    for (auto const& failure : failures)
        if (failure) std::rethrow_exception(failure);
}

}  // namespace cairn::testing::detail

#endif
