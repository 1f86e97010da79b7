// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_FUZZ_ENGINE_HPP
#define CAIRN_TEST_FUZZ_ENGINE_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

namespace fuzz {

using bytes = std::span<const std::byte>;
using input = std::vector<std::byte>;

/// SplitMix64: made anew for each execution, so that any execution can be repeated alone.
class engine {
public:
    using result_type = std::uint64_t;
    explicit engine(std::uint64_t seed) noexcept : state_(seed) {}
    static constexpr result_type min() noexcept { return 0; }
    static constexpr result_type max() noexcept { return ~result_type{0}; }
    result_type operator()() noexcept {
        auto x = state_ += 0x9e3779b97f4a7c15u;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
        return x ^ (x >> 31);
    }

    /// @pre n != 0
    std::size_t below(std::size_t n) noexcept { return static_cast<std::size_t>((*this)() % n); }
    bool one_in(std::size_t n) noexcept { return below(n) == 0; }
    template <class C>
    auto any(C& c) noexcept {
        return std::next(c.begin(), static_cast<std::ptrdiff_t>(below(c.size())));
    }
    /// Near what stands there, or where numbers wrap.
    std::uint64_t number(std::uint64_t old) noexcept {
        switch (below(12)) {
            case 0: return 0;
            case 1: return old + 1;
            case 2: return old - 1;
            case 3: return old * 2;
            case 4: return old / 2;
            case 5: return std::uint64_t{1} << below(64);
            case 6: return (std::uint64_t{1} << below(64)) - 1;
            case 7: return 0 - old;
            case 8: return old + below(4096);
            case 9: return 0 - below(4096);
            case 10: return (std::uint64_t{1} << below(64)) + below(16) - 8;
            default: return below(64);
        }
    }

private:
    std::uint64_t state_;
};

/// A few changes of bytes, whatever they mean. Pieces are taken from another input too.
inline void change_bytes(input& b, bytes other, engine& e) {
    for (auto n = 1 + e.below(6); n > 0 && !b.empty(); --n) {
        auto const at = e.below(b.size());
        auto const place = b.begin() + static_cast<std::ptrdiff_t>(at);
        auto const length = std::min(b.size() - at, 1 + e.below(16));
        auto const end = place + static_cast<std::ptrdiff_t>(length);
        switch (e.below(8)) {
            case 0: *place ^= static_cast<std::byte>(1u << e.below(8)); break;
            case 1: *place = static_cast<std::byte>(e()); break;
            case 2: std::fill(place, end, static_cast<std::byte>(e.one_in(2) ? 0xff : 0)); break;
            case 3: b.erase(place, end); break;
            case 4: b.insert(place, length, static_cast<std::byte>(e())); break;
            case 5: b.resize(at); break;
            case 6: {
                input const again(place, end);
                auto const to = static_cast<std::ptrdiff_t>(e.below(b.size()));
                b.insert(b.begin() + to, again.begin(), again.end());
                break;
            }
            default: {
                if (other.empty()) break;
                auto const from = e.below(other.size());
                auto const piece =
                    other.subspan(from, std::min<std::size_t>(other.size() - from, 64));
                b.insert(place, piece.begin(), piece.end());
            }
        }
    }
}

}  // namespace fuzz

#endif
