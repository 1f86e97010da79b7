// SPDX-License-Identifier: Apache-2.0
#include <cairn/storage/detail/items_by_file.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

BOOST_AUTO_TEST_SUITE(items_by_file)

using cairn::detail::items_by_file;

BOOST_AUTO_TEST_CASE(each_thread_begins_with_another_file) {
    std::vector<std::uint32_t> const files{0, 0, 1, 1, 2, 2, 3, 3};
    std::vector<std::uint64_t> const sizes(files.size(), 1);
    for (std::size_t const count : {1u, 2u, 4u, 8u}) {
        std::set<std::uint32_t> first;
        for (std::size_t i = 0; i < count; ++i) {
            items_by_file all(files, sizes, 4);
            first.insert(files[all.next({i, count}).value()]);
        }
        BOOST_TEST(first.size() == (count < 4 ? count : 4));
    }
}

BOOST_AUTO_TEST_CASE(every_item_is_handed_out_once_file_by_file) {
    std::vector<std::uint32_t> const files{2, 0, 1, 2, 0, 2};
    std::vector<std::uint64_t> const sizes(files.size(), 1);
    items_by_file all(files, sizes, 3);
    std::vector<std::size_t> got;
    while (auto const i = all.next({1, 2})) got.push_back(*i);
    BOOST_TEST((got == std::vector<std::size_t>{2, 0, 3, 5, 1, 4}));
    BOOST_TEST(!all.next({0, 2}).has_value());
    items_by_file none({}, {}, 0);
    BOOST_TEST(!none.next({0, 1}).has_value());
}

BOOST_AUTO_TEST_CASE(the_largest_item_of_a_file_is_handed_out_first) {
    std::vector<std::uint32_t> const files{1, 0, 0, 1, 0, 1};
    std::vector<std::uint64_t> const sizes{3, 0, 7, 9, 7, 5};
    items_by_file all(files, sizes, 2);
    std::vector<std::size_t> got;
    while (auto const i = all.next({0, 1})) got.push_back(*i);
    BOOST_TEST((got == std::vector<std::size_t>{2, 4, 1, 3, 5, 0}));
}

BOOST_AUTO_TEST_CASE(items_are_handed_out_in_the_order_of_their_places_to_any_thread) {
    std::vector<items_by_file::place> const at{{1, 0}, {0, 8}, {0, 0}, {1, 4}, {0, 8}};
    items_by_file all(at);
    std::vector<std::size_t> got;
    while (auto const i = all.next({got.size() % 4, 4})) got.push_back(*i);
    BOOST_TEST((got == std::vector<std::size_t>{2, 1, 4, 0, 3}));
}

BOOST_AUTO_TEST_SUITE_END()
