// SPDX-License-Identifier: Apache-2.0
// Names are numbered in the order in which they are first given, whatever comes between: compared
// with a plain map.
#include <cairn/detail/name_numbers.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(name_numbers)

namespace {

/// Numbers as they should be.
class oracle {
public:
    std::uint32_t add(const std::string& k) {
        return numbers_.try_emplace(k, static_cast<std::uint32_t>(numbers_.size())).first->second;
    }
    const std::uint32_t* find(const std::string& k) const {
        auto const it = numbers_.find(k);
        return it == numbers_.end() ? nullptr : &it->second;
    }

private:
    std::map<std::string, std::uint32_t> numbers_{};
};

}  // namespace

BOOST_AUTO_TEST_CASE(names_get_the_numbers_that_a_map_gives_them) {
    // Of the same lengths, so that only their characters tell them apart; and the empty name.
    std::vector<std::string> names{"", "a", "b"};
    for (int i = 0; i < 50; ++i) names.push_back("layers." + std::to_string(10 + i) + ".weight");
    std::mt19937 random(1);
    for (int round = 0; round < 50; ++round) {
        cairn::detail::name_numbers numbers;
        oracle expected;
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
                BOOST_TEST_REQUIRE(numbers.add(name) == expected.add(name));
            }
        }
        for (std::size_t n = 0; n < numbers.size(); ++n)
            BOOST_TEST(*expected.find(std::string(numbers.names()[n])) == n);
    }
}

BOOST_AUTO_TEST_SUITE_END()
