// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_BENCHMARKS_GPT2_FOREGROUND_HPP
#define CAIRN_BENCHMARKS_GPT2_FOREGROUND_HPP

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

namespace gpt2 {

/// Stands for training: steps of some milliseconds that use the CPU and its caches.
class foreground {
public:
    /// @return Seconds.
    double step() {
        auto const start = std::chrono::steady_clock::now();
        for (std::size_t i = 0; i < n; ++i)
            for (std::size_t k = 0; k < n; ++k)
                for (std::size_t j = 0; j < n; ++j) c_[i * n + j] += a_[i * n + k] * b_[k * n + j];
        std::swap(a_, c_);
        for (auto& x : a_) x = x > 1 ? 1 / x : x;  // stays finite
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }

private:
    static constexpr std::size_t n = 256;
    std::vector<float> a_ = std::vector<float>(n * n, 0.01f);
    std::vector<float> b_ = std::vector<float>(n * n, 0.02f);
    std::vector<float> c_ = std::vector<float>(n * n, 0.0f);
};

/// The value below which a share of the values lies; 0 if there are none.
inline double quantile(std::vector<double> v, double share) {
    if (v.empty()) return 0;
    auto const at = static_cast<std::ptrdiff_t>(share * static_cast<double>(v.size() - 1));
    std::nth_element(v.begin(), v.begin() + at, v.end());
    return v[static_cast<std::size_t>(at)];
}

}  // namespace gpt2

#endif
