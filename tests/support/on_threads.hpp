// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_ON_THREADS_HPP
#define CAIRN_TEST_SUPPORT_ON_THREADS_HPP

#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace support {

/// What `f(rank)` threw on each of `n` threads; null where all went well.
template <class F>
std::vector<std::exception_ptr> try_on_threads(int n, F&& f) {
    std::vector<std::exception_ptr> failures(static_cast<std::size_t>(n));
    std::vector<std::thread> threads;
    for (int r = 0; r < n; ++r) {
        threads.emplace_back([&, r] {
            try {
                f(r);
            } catch (...) {
                failures[static_cast<std::size_t>(r)] = std::current_exception();
            }
        });
    }
    for (auto& t : threads) t.join();
    return failures;
}

/// @throws what the lowest rank threw
inline void rethrow_first(const std::vector<std::exception_ptr>& failures) {
    for (auto const& e : failures)
        if (e) std::rethrow_exception(e);
}

}  // namespace support

#endif
