// SPDX-License-Identifier: Apache-2.0
// Names and items are numbered in the order in which they are first given, whatever comes between:
// compared with a plain map.
#include <cairn/detail/name_numbers.hpp>
#include <cairn/planner/detail/item_numbers.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(item_numbers)

namespace {

/// Numbers as they should be.
template <class Key>
class oracle {
public:
    std::pair<std::uint32_t, bool> add(const Key& k) {
        auto const [it, fresh] =
            numbers_.try_emplace(k, static_cast<std::uint32_t>(numbers_.size()));
        return {it->second, fresh};
    }
    const std::uint32_t* find(const Key& k) const {
        auto const it = numbers_.find(k);
        return it == numbers_.end() ? nullptr : &it->second;
    }

private:
    std::map<Key, std::uint32_t> numbers_{};
};

}  // namespace

BOOST_AUTO_TEST_CASE(names_get_the_numbers_that_a_map_gives_them) {
    // Of the same lengths, so that only their characters tell them apart; and the empty name.
    std::vector<std::string> names{"", "a", "b"};
    for (int i = 0; i < 50; ++i) names.push_back("layers." + std::to_string(10 + i) + ".weight");
    std::mt19937 random(1);
    for (int round = 0; round < 50; ++round) {
        cairn::detail::name_numbers numbers;
        oracle<std::string> expected;
        std::size_t at = 0;
        for (int i = 0; i < 500; ++i) {
            // Mostly the next one, as ranks list them; sometimes any.
            at = random() % 5 == 0 ? random() % names.size() : (at + 1) % names.size();
            auto const& name = names[at];
            if (random() % 3 == 0) {
                auto const found = numbers.find(name);
                auto const* const wanted = expected.find(name);
                BOOST_TEST_REQUIRE(found.has_value() == (wanted != nullptr));
                if (found) BOOST_TEST_REQUIRE(*found == *wanted);
            } else {
                BOOST_TEST_REQUIRE(numbers.add(name) == expected.add(name).first);
            }
        }
        for (std::size_t n = 0; n < numbers.size(); ++n)
            BOOST_TEST(*expected.find(std::string(numbers.names()[n])) == n);
    }
}

BOOST_AUTO_TEST_CASE(items_are_the_same_if_name_and_box_are) {
    std::mt19937 random(2);
    for (int round = 0; round < 50; ++round) {
        cairn::detail::item_numbers numbers;
        oracle<std::pair<std::uint32_t, std::pair<cairn::index_vector, cairn::index_vector>>>
            expected;
        std::deque<cairn::box> boxes;  // which stay where they are
        for (int i = 0; i < 500; ++i) {
            auto const number = [&] { return static_cast<std::int64_t>(random() % 4); };
            auto const name = static_cast<std::uint32_t>(random() % 4);
            cairn::box& b = boxes.emplace_back();
            for (auto rank = random() % 4; rank > 0; --rank) {
                b.offsets.push_back(number());
                b.shape.push_back(number());
            }
            auto const* const wanted = expected.find({name, {b.offsets, b.shape}});
            auto const found = numbers.find(name, b);
            BOOST_TEST_REQUIRE(found.has_value() == (wanted != nullptr));
            if (found) BOOST_TEST_REQUIRE(*found == *wanted);
            BOOST_TEST_REQUIRE(
                (numbers.add(name, b) == expected.add({name, {b.offsets, b.shape}})));
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
