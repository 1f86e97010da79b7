// SPDX-License-Identifier: Apache-2.0
#include <cairn/storage/detail/file_layout.hpp>

#include <boost/test/unit_test.hpp>

#if defined(__GLIBC__) && __has_include(<malloc.h>)
#include <malloc.h>
#endif

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(file_layout)

namespace {

/// Bytes that the program has allocated; 0 where nothing counts them.
std::size_t allocated() {
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
    auto const m = mallinfo2();
    return m.uordblks + m.hblkhd;
#else
    return 0;
#endif
}

}  // namespace

/// Payloads at page boundaries have a page of padding before them; a plan of many items keeps none
/// of it.
BOOST_AUTO_TEST_CASE(a_layout_of_many_items_takes_little_memory) {
    constexpr std::uint32_t n = 4000;
    std::vector<float> const memory(1024);
    cairn::save_plan plan;
    std::vector<cairn::item_data> data;
    std::vector<std::uint32_t> which;
    for (std::uint32_t i = 0; i < n; ++i) {
        data.push_back(cairn::const_tensor_view(cairn::dtype::float32, {32, 32}, memory.data()));
        which.push_back(i);
    }
    auto const before = allocated();
    auto const file = cairn::detail::place_items("f", which, data, {}, "id");
    auto const each = (allocated() - before) / n;
    if (before == 0 || allocated() == before)
        BOOST_TEST_MESSAGE("not measured: nothing counts this program's allocations");
    BOOST_TEST(each < 512u);

    // What is made when it is written is what was planned.
    BOOST_REQUIRE(file.items.size() == n);
    std::uint64_t at = 0;
    for (std::uint32_t i = 0; i < n; ++i) {
        cairn::format::torch::tensor_item const made(*file.items[i].tensor);
        auto const& p = file.footer.items.at(i);
        if (p.offset < at || p.length != made.length() ||
            p.payload_offset != made.payload_offset() ||
            p.payload_length != made.payload_length() || (p.offset + p.payload_offset) % 4096 != 0)
            BOOST_ERROR("item " << i);
        at = p.offset + p.length;
    }
    BOOST_TEST(file.size == at + cairn::format::native::encode_footer(file.footer).size());
}

/// Where nobody says how many: a file for each thread, unless the files would be small.
BOOST_AUTO_TEST_CASE(each_thread_has_a_file_if_it_is_worth_one) {
    auto const count = [](std::size_t items, std::uint64_t mib, int threads) {
        auto const each = items == 0 ? 0 : (mib << 20) / items;
        return cairn::detail::file_count({items, mib << 20, each}, {}, threads);
    };
    BOOST_TEST(count(0, 0, 16) == 1u);
    BOOST_TEST(count(1000, 255, 16) == 1u);
    BOOST_TEST(count(1000, 256, 16) == 2u);
    BOOST_TEST(count(1000, 100'000, 16) == 16u);
    BOOST_TEST(count(3, 100'000, 16) == 3u);
    BOOST_TEST(count(1000, 100'000, 1) == 1u);
    BOOST_TEST(count(1000, 100'000, 0) == 1u);
    // One large item among small ones.
    BOOST_TEST(cairn::detail::file_count({9, (1 << 30) + 8 * 1024, 1 << 30}, {}, 16) == 1u);

    cairn::torch_writer_options o;
    for (int const n : {1, 3}) {
        o.thread_count = n;
        BOOST_TEST(cairn::detail::file_count({}, o, 16) == static_cast<std::size_t>(n));
    }
    o.thread_count = 0;
    o.single_file_per_rank = false;
    BOOST_TEST(cairn::detail::file_count({5, 0, 0}, o, 16) == 5u);
}

BOOST_AUTO_TEST_SUITE_END()
