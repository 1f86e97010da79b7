// SPDX-License-Identifier: Apache-2.0
// A list of chunks, kept as a table, is the sequence of chunks that was put into it.
#include "support/allocations.hpp"

#include <cairn/metadata/chunk_list.hpp>
#include <cairn/metadata/detail/file_numbers.hpp>
#include <cairn/metadata/file_names.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(chunk_lists)

namespace {

using cairn::chunk;
using cairn::chunk_list;
using sequence = std::vector<chunk>;

void locate(chunk_list& list, std::size_t i, const cairn::storage_location& at,
            const chunk_list::names_ptr& names) {
    list.number_files_in(names);
    list.locate(i, at, at.file.empty() ? chunk_list::row::no_file : names->add(at.file));
}

class maker {
public:
    explicit maker(unsigned seed) : random_(seed) {}

    std::size_t below(std::size_t n) { return random_() % n; }
    /// Mostly what is usual; sometimes of another rank, with strides of its own, transforms, or
    /// numbers that no tensor has.
    chunk operator()() {
        chunk c;
        auto const rank = below(9) == 0 ? below(7) : std::size_t{2};
        for (std::size_t d = 0; d < rank; ++d) {
            c.region.offsets.push_back(static_cast<std::int64_t>(below(5)));
            c.region.shape.push_back(static_cast<std::int64_t>(below(4)));
        }
        if (below(20) == 0) c.region.offsets.push_back(-7);
        if (below(20) == 0) c.region.shape = cairn::index_vector(2, INT64_MAX);
        if (below(6) != 0) c.at.file = "file " + std::to_string(below(4));
        c.at.offset = random_();
        c.at.length = random_();
        if (below(20) == 0) c.at.transforms = {"zstd", "other"};
        if (below(3) != 0) {
            auto& l = c.at.layout.emplace();
            l.payload_offset = below(100);
            l.payload_length = below(100);
            l.payload_crc = static_cast<std::uint32_t>(random_());
            l.item_crc = static_cast<std::uint32_t>(random_());
            if (below(8) == 0)
                l.strides = {1, static_cast<std::int64_t>(below(3))};
            else if (is_possible(c.region.shape))
                l.strides = row_major_strides(c.region.shape);
        }
        return c;
    }

private:
    std::mt19937 random_;
};

chunk_list list_of(const sequence& all) {
    chunk_list list;
    for (auto const& c : all) list.push_back(c);
    return list;
}
bool same(const chunk_list& list, const sequence& all) {
    if (list.size() != all.size() || list.empty() != all.empty()) return false;
    for (std::size_t i = 0; i < all.size(); ++i) {
        auto const& c = all[i];
        if (list[i] != c || list.region(i) != c.region || list.location(i) != c.at ||
            list.file(i) != c.at.file || cairn::index_vector(list.offsets(i)) != c.region.offsets ||
            cairn::index_vector(list.lengths(i)) != c.region.shape ||
            list.row_of(i).offset != c.at.offset || list.row_of(i).length != c.at.length)
            return false;
    }
    return sequence(list.begin(), list.end()) == all && list == list_of(all);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_list_is_the_sequence_that_was_put_into_it) {
    for (unsigned seed = 0; seed < 300; ++seed) {
        maker make(seed);
        chunk_list list;
        sequence all;
        auto const names = std::make_shared<cairn::file_names>();
        std::vector<std::pair<chunk_list, sequence>> copies;
        for (int step = 0; step < 60; ++step) {
            auto const c = make();
            auto const i = all.empty() ? 0 : make.below(all.size());
            switch (make.below(all.empty() ? 1 : 7)) {
                case 1:
                    list.set(i, c);
                    all[i] = c;
                    break;
                case 2: {
                    auto const at = all[make.below(all.size())].at;
                    list.edit(i, [&](chunk& one) { one.at = at; });
                    all[i].at = at;
                    break;
                }
                case 3: copies.emplace_back(list, all); break;
                case 4:
                    locate(list, i, c.at, names);
                    all[i].at = c.at;
                    break;
                default: list.push_back(c); all.push_back(c);
            }
            BOOST_TEST_REQUIRE(same(list, all));
        }
        for (auto const& [copy, then] : copies) BOOST_TEST_REQUIRE(same(copy, then));
    }
}

BOOST_AUTO_TEST_CASE(lists_differ_where_one_member_differs) {
    chunk const one{{{0, 2}, {4, 6}}, {"a", 8, 100, {}, cairn::item_layout{64, 24, 1, 2, {6, 1}}}};
    chunk_list const whole{one, one};
    auto const differs = [&](auto change) {
        auto other = whole;
        other.edit(1, change);
        return other != whole && whole != other;
    };
    BOOST_TEST(differs([](chunk& c) { c.region.offsets[0] = 1; }));
    BOOST_TEST(differs([](chunk& c) { c.region.shape[0] = 1; }));
    BOOST_TEST(differs([](chunk& c) { c.at.file = "b"; }));
    BOOST_TEST(differs([](chunk& c) { c.at.offset = 9; }));
    BOOST_TEST(differs([](chunk& c) { c.at.length = 9; }));
    BOOST_TEST(differs([](chunk& c) { c.at.transforms = {"t"}; }));
    BOOST_TEST(differs([](chunk& c) { c.at.layout.reset(); }));
    BOOST_TEST(differs([](chunk& c) { c.at.layout->payload_offset = 9; }));
    BOOST_TEST(differs([](chunk& c) { c.at.layout->payload_length = 9; }));
    BOOST_TEST(differs([](chunk& c) { c.at.layout->payload_crc = 9; }));
    BOOST_TEST(differs([](chunk& c) { c.at.layout->item_crc = 9; }));
    BOOST_TEST(differs([](chunk& c) { c.at.layout->strides = {1, 4}; }));
    BOOST_TEST((chunk_list{one} != whole));
    // Names have other numbers, or are kept elsewhere.
    chunk_list late{{}, one};
    late.edit(0, [](chunk& c) { c.at.file = "z"; });
    late.set(0, one);
    BOOST_TEST((late == whole));
}

BOOST_AUTO_TEST_CASE(lists_with_the_same_boxes_are_known) {
    chunk const a{{{0}, {4}}, {}}, b{{{4}, {4}}, {}};
    chunk_list const ab{a, b};
    auto elsewhere = ab;
    elsewhere.edit_each([](chunk& c) { c.at.file = "f"; });
    BOOST_TEST(ab.same_boxes(elsewhere));
    BOOST_TEST((ab != elsewhere));
    for (auto const& other : {chunk_list{b, a}, chunk_list{a}, chunk_list{a, b, b}, chunk_list{}})
        BOOST_TEST(!ab.same_boxes(other));
    // Where a box is unusual, the table does not have it.
    auto odd = ab;
    odd.edit(0, [](chunk& c) { c.at.transforms = {"t"}; });
    BOOST_TEST(!ab.same_boxes(odd));
    BOOST_TEST(!odd.same_boxes(ab));
    // As many numbers, for other dimensions.
    BOOST_TEST(!chunk_list({{{{0, 4}, {4, 4}}, {}}}).same_boxes(chunk_list{a, b}));
}

/// A list that is filled with others sees their names, and keeps its own.
BOOST_AUTO_TEST_CASE(lists_that_are_filled_together_have_each_name_once) {
    auto const names = std::make_shared<cairn::file_names>();
    chunk const a{{{0}, {4}}, {"first", 1, 2, {}, {}}};
    std::vector<chunk_list> lists(3, chunk_list{a, a});
    for (int file = 0; file < 2; ++file)
        for (auto& list : lists)
            locate(list, 1, {"file " + std::to_string(file), 8, 9, {}, {}}, names);
    BOOST_TEST(names->size() == 3u);
    for (auto const& list : lists) {
        BOOST_TEST((list.names() == names));
        BOOST_TEST(list.file(0) == "first");
        BOOST_TEST(list.file(1) == "file 1");
    }
    lists[0].set(0, {{{0}, {4}}, {"another", 1, 2, {}, {}}});
    BOOST_TEST(names->size() == 3u);
    BOOST_TEST(lists[0].file(1) == "file 1");
    int looked_up = 0;
    cairn::detail::file_numbers numbers;
    for (auto const* list : {&lists[1], &lists[2], &lists[1]})
        for (std::size_t i = 0; i < list->size(); ++i)
            BOOST_TEST(numbers.of(*list, i, [&](const std::string& name) {
                ++looked_up;
                return name == "first" ? 70u : 80u;
            }) == (i == 0 ? 70u : 80u));
    BOOST_TEST(looked_up == 2);
}

BOOST_AUTO_TEST_CASE(a_list_is_as_before_where_there_is_no_memory_for_another_chunk) {
    maker make(1);
    sequence all;
    // @return whether an allocation of `f(list)` failed; the list is then as before, and works
    auto const survives = [&](std::uint64_t nth, auto f) {
        chunk_list list = list_of(all);  // which has its names alone
        bool failed = false;
        {
            support::failing_allocation const fails(support::failing_allocation::of::this_thread,
                                                    nth);
            try {
                f(list);
            } catch (const std::bad_alloc&) {
                failed = true;
            }
            if (!fails.hit()) return false;
        }
        if (!failed) return true;
        BOOST_TEST_REQUIRE(same(list, all));
        auto after = all;
        for (auto const* name : {"new", "newer"}) {
            after.push_back(make());
            after.back().at.file = name;
            list.push_back(after.back());
        }
        BOOST_TEST_REQUIRE(same(list, after));
        return true;
    };
    std::uint64_t all_pushes = 0;
    for (int i = 0; i < 30; ++i) {
        auto const c = make();
        chunk_list const other{make(), make(), make()};
        std::uint64_t pushes = 0, copies = 0;
        while (survives(pushes, [&](chunk_list& list) { list.push_back(c); })) ++pushes;
        while (survives(copies, [&](chunk_list& list) { list = other; })) ++copies;
        BOOST_TEST(copies > 0u);
        all_pushes += pushes;
        all.push_back(c);
    }
    BOOST_TEST(all_pushes > 20u);
}

/// The reason for the table.
BOOST_AUTO_TEST_CASE(a_list_takes_little_memory) {
    constexpr std::size_t n = 10'000;
    support::allocations const count(n * 90 + 10'000);
    chunk_list list(std::make_shared<cairn::file_names>(), 2);
    list.reserve(n);
    for (std::size_t i = 0; i < n; ++i)
        list.push_back({{{0, 1}, {2, 3}},
                        {"a file whose name is too long for a string's own memory",
                         i,
                         1,
                         {},
                         cairn::item_layout{64, 24, 1, 2, {3, 1}}}});
    BOOST_TEST(list.size() == n);
    BOOST_TEST(!count.exceeded());
}

BOOST_AUTO_TEST_SUITE_END()
