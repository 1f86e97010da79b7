// SPDX-License-Identifier: Apache-2.0
#include <cairn/memory/detail/range_allocator.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <new>
#include <optional>
#include <random>
#include <vector>

BOOST_AUTO_TEST_SUITE(range_allocator)

namespace {

using allocator = cairn::detail::range_allocator;

/// An allocator of bytes by the definition: slabs, and which bytes of them are taken.
struct oracle {
    struct slab {
        std::size_t begin, size;
    };
    std::vector<slab> slabs{};
    std::map<std::size_t, std::size_t> taken{};  // begin to size

    /// The free ranges of all slabs.
    std::vector<slab> free() const {
        std::vector<slab> out;
        for (auto const& s : slabs) {
            auto at = s.begin;
            for (auto t = taken.lower_bound(s.begin);
                 t != taken.end() && t->first < s.begin + s.size; ++t) {
                if (t->first > at) out.push_back({at, t->first - at});
                at = t->first + t->second;
            }
            if (at < s.begin + s.size) out.push_back({at, s.begin + s.size - at});
        }
        return out;
    }
    std::optional<std::size_t> best(std::size_t size) const {
        auto const all = free();
        std::optional<slab> found;
        for (auto const& f : all)
            if (f.size >= size && (!found || f.size < found->size)) found = f;
        if (!found) return std::nullopt;
        return found->begin;
    }
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_allocator_agrees_with_the_definition) {
    for (unsigned seed = 1; seed <= 300; ++seed) {
        std::mt19937 random(seed);
        auto const pick = [&](std::size_t least, std::size_t most) {
            return std::uniform_int_distribution<std::size_t>(least, most)(random);
        };
        allocator a;
        oracle o;
        std::size_t next = 1000;
        for (int step = 0; step < 200; ++step) {
            auto const what = pick(0, 9);
            if (what == 0 && o.slabs.size() < 5) {
                auto const size = pick(1, 200);
                a.add_slab(next, size);
                o.slabs.push_back({next, size});
                next += size + pick(0, 1) * 10;  // often right behind another
            } else if (what == 1 && !o.slabs.empty()) {
                auto const which = pick(0, o.slabs.size() - 1);
                auto const s = o.slabs[which];
                auto const t = o.taken.lower_bound(s.begin);
                bool const is_free = t == o.taken.end() || t->first >= s.begin + s.size;
                BOOST_TEST_REQUIRE(a.is_free(s.begin, s.size) == is_free);
                if (is_free) {
                    a.remove_slab(s.begin);
                    o.slabs.erase(o.slabs.begin() + static_cast<std::ptrdiff_t>(which));
                }
            } else if (what < 6) {
                auto const size = pick(1, step % 20 == 0 ? 200 : 30);
                auto const at = a.take(size);
                auto const expected = o.best(size);
                BOOST_TEST_REQUIRE((at == expected), "seed " << seed);
                if (at) o.taken[*at] = size;
            } else if (!o.taken.empty()) {
                auto const t = std::next(o.taken.begin(),
                                         static_cast<std::ptrdiff_t>(pick(0, o.taken.size() - 1)));
                a.give_back(t->first);
                o.taken.erase(t);
            }
        }
        // Whatever happened: all given back, each slab is one range again.
        for (auto const& [begin, size] : o.taken) a.give_back(begin);
        for (auto const& s : o.slabs) BOOST_TEST_REQUIRE(a.is_free(s.begin, s.size));
        std::vector<std::size_t> sizes;
        for (auto const& s : o.slabs) sizes.push_back(s.size);
        std::sort(sizes.rbegin(), sizes.rend());
        for (auto const size : sizes) BOOST_TEST_REQUIRE((a.take(size) != std::nullopt));
        BOOST_TEST_REQUIRE((a.take(1) == std::nullopt));
    }
}

BOOST_AUTO_TEST_CASE(neighbouring_slabs_stay_apart) {
    allocator a;
    a.add_slab(100, 50);
    a.add_slab(150, 50);
    BOOST_TEST((a.take(51) == std::nullopt));
    auto const first = a.take(50), second = a.take(50);
    BOOST_TEST((first == 100u && second == 150u));
    a.give_back(150);
    a.give_back(100);
    BOOST_TEST((a.is_free(100, 50) && a.is_free(150, 50)));
    BOOST_TEST((a.take(100) == std::nullopt));
    a.remove_slab(100);
    BOOST_TEST((a.take(50) == 150u));
}

BOOST_AUTO_TEST_SUITE_END()
