// SPDX-License-Identifier: Apache-2.0
// Payloads in memory, as cairn and as PyTorch write them: every byte that is delivered is checked,
// whatever its strides, and has the order of this host.
#include "support/allocations.hpp"

#include <cairn/object_store/memory.hpp>
#include <cairn/storage/detail/read_payload.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(read_payload)

namespace {

using cairn::byte_vector;

constexpr std::uint64_t block = cairn::payload::block_bytes;

/// Reads all of it into a dense tensor of the same type.
byte_vector read(const byte_vector& stored, const cairn::payload& p) {
    cairn::memory_store store;
    store.publish("o", stored, std::nullopt);
    cairn::open_file file(store.open("o"), "file");
    byte_vector into(static_cast<std::size_t>(p.shape.product()) * cairn::size_of(p.type));
    std::vector<std::byte> scratch;
    cairn::detail::wanted_chunk const all{
        "w", p, {{cairn::box::whole(p.shape), cairn::tensor_view(p.type, p.shape, into.data())}}};
    cairn::detail::payload_reader(file, {all}, scratch).run();
    return into;
}
/// A payload that is a file.
cairn::payload payload(const byte_vector& stored, cairn::dtype type, cairn::index_vector shape) {
    cairn::payload p;
    p.type = type;
    p.strides = cairn::row_major_strides(shape);
    p.shape = std::move(shape);
    p.length = stored.size();
    p.crc = cairn::format::crc32(stored);
    return p;
}
byte_vector some_bytes(std::size_t n) {
    byte_vector b(n);
    for (std::size_t i = 0; i < n; ++i) b[i] = static_cast<std::byte>(i * 7 + i / 256 + 1);
    return b;
}
/// Notes where each byte is read to, relative to its place in the file, and how many are read.
struct noting_reader {
    cairn::memory_store::reader file;
    std::vector<std::uint64_t>* distances;
    std::uint64_t* bytes;

    void read(std::uint64_t at, std::span<std::byte> into) {
        distances->push_back(reinterpret_cast<std::uintptr_t>(into.data()) - at);
        *bytes += into.size();
        file.read(at, into);
    }
    std::uint64_t size() { return file.size(); }
};
/// A change of any of these bytes is noticed.
void notices(const byte_vector& stored, const cairn::payload& p,
             const std::vector<std::size_t>& changed) {
    BOOST_CHECK_NO_THROW(read(stored, p));
    for (auto const at : changed) {
        auto damaged = stored;
        damaged[at] ^= std::byte{1};
        BOOST_TEST_CONTEXT("byte " << at << " of " << stored.size()) {
            BOOST_CHECK_EXCEPTION(read(damaged, p), cairn::error, [](const cairn::error& e) {
                return e.code() == make_error_code(cairn::errc::checksum_mismatch);
            });
        }
    }
}

/// What is read where a host of the other byte order has written these numbers.
template <class T, std::size_t N>
void swaps(const T (&numbers)[N], std::size_t word) {
    auto const bytes = std::as_bytes(std::span(numbers));
    byte_vector stored(bytes.begin(), bytes.end());
    for (auto at = stored.begin(); at != stored.end(); at += static_cast<std::ptrdiff_t>(word))
        std::reverse(at, at + static_cast<std::ptrdiff_t>(word));
    auto p = payload(stored, cairn::dtype_of<T>, {static_cast<std::int64_t>(N)});
    p.big_endian = true;
    auto const got = read(stored, p);
    BOOST_TEST(std::memcmp(got.data(), bytes.data(), bytes.size()) == 0, name_of(p.type));
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_block_of_cairns_payloads_is_checked) {
    for (auto const n : {block / 2, block, block + 4, 2 * block + 100, 3 * block}) {
        auto const stored = some_bytes(static_cast<std::size_t>(n));
        auto p = payload(stored, cairn::dtype::f32, {static_cast<std::int64_t>(n) / 4});
        std::vector<std::size_t> ends;
        for (std::uint64_t at = 0; at < n; at += block) {
            auto const size = static_cast<std::size_t>(std::min(block, n - at));
            auto const first = static_cast<std::size_t>(at);
            p.block_crcs.push_back(cairn::format::crc32(std::span(stored).subspan(first, size)));
            ends.insert(ends.end(), {first, first + size - 1});
        }
        p.crc.reset();  // the blocks' are what counts
        BOOST_TEST((read(stored, p) == stored));
        notices(stored, p, ends);
    }
}

BOOST_AUTO_TEST_CASE(the_whole_of_a_payload_of_pytorchs_is_checked_whatever_its_strides) {
    auto const stored = some_bytes(48);
    std::vector<std::size_t> all(stored.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    auto const dense = payload(stored, cairn::dtype::f32, {3, 4});
    BOOST_TEST((read(stored, dense) == stored));
    notices(stored, dense, all);
    // Every other row of a larger storage: what lies between is under the same checksum.
    auto strided = payload(stored, cairn::dtype::f32, {2, 3});
    strided.strides = {6, 1};
    strided.first = 2;
    auto const got = read(stored, strided);
    BOOST_TEST(std::memcmp(got.data(), stored.data() + 8, 12) == 0);
    BOOST_TEST(std::memcmp(got.data() + 12, stored.data() + 32, 12) == 0);
    notices(stored, strided, all);
    for (auto p : {dense, strided}) {  // written without
        p.crc.reset();
        BOOST_CHECK_NO_THROW(read(stored, p));
    }
}

/// The kernel copies fastest then: otherwise a load of columns takes a twentieth longer.
BOOST_AUTO_TEST_CASE(what_is_scattered_is_read_into_memory_that_lies_in_its_page_as_in_the_file) {
    constexpr std::int64_t rows = 600, columns = 256, taken = 100;
    for (std::uint64_t const offset : {std::uint64_t{0}, std::uint64_t{64}, std::uint64_t{4100}}) {
        auto const stored = some_bytes(static_cast<std::size_t>(offset) + rows * columns * 4);
        cairn::memory_store store;
        store.publish("o", stored, std::nullopt);
        std::vector<std::uint64_t> distances;
        std::uint64_t read = 0;
        cairn::open_file file(noting_reader{store.open("o"), &distances, &read}, "file");
        cairn::payload p;
        p.shape = {rows, columns};
        p.strides = cairn::row_major_strides(p.shape);
        p.offset = offset;
        p.length = rows * columns * 4;
        byte_vector into(rows * taken * 4);
        std::vector<std::byte> scratch;
        cairn::detail::wanted_chunk const some{
            "w",
            p,
            {{cairn::box({0, 7}, {rows, taken}),
              cairn::tensor_view(p.type, {rows, taken}, into.data())}}};
        cairn::detail::payload_reader(file, {some}, scratch).run();
        BOOST_TEST(distances.size() > 1u);
        for (auto const d : distances) BOOST_TEST(d % 4096 == 0u);
        bool same = true;
        for (std::int64_t r = 0; r < rows; ++r)
            same =
                same && std::memcmp(into.data() + r * taken * 4,
                                    stored.data() + offset + (r * columns + 7) * 4, taken * 4) == 0;
        BOOST_TEST(same);
    }
}

/// As of a tensor that is stored column by column, and of whose rows a mapping wants some of each
/// group: its chunk has gaps between the groups that are wanted, in every column.
BOOST_AUTO_TEST_CASE(of_columns_with_gaps_only_the_blocks_that_have_wanted_elements_are_read) {
    struct sample {
        std::int64_t rows, columns, first_row, group, groups;
        cairn::box wanted;  ///< Groups, rows of a group, columns.
        std::uint64_t first_block, last_block, blocks;
    };
    for (auto const& one : {sample{100, 3000, 20, 6, 10, {{0, 2, 1000}, {10, 2, 500}}, 6, 9, 4},
                            sample{100'000, 4, 0, 10, 10, {{0, 0, 0}, {10, 10, 4}}, 0, 18, 4}}) {
        auto const rows = one.rows, columns = one.columns, group = one.group;
        auto const& wanted = one.wanted;
        auto const stored = some_bytes(static_cast<std::size_t>(rows * columns) * 4);
        cairn::payload p;
        p.shape = {one.groups, group, columns};
        p.strides = {group, 1, rows};
        p.first = static_cast<std::uint64_t>(one.first_row);
        p.length = stored.size();
        for (std::size_t at = 0; at < stored.size(); at += block)
            p.block_crcs.push_back(cairn::format::crc32(std::span(stored).subspan(
                at, std::min(static_cast<std::size_t>(block), stored.size() - at))));
        std::uint64_t bytes = 0;
        byte_vector into(static_cast<std::size_t>(wanted.volume()) * 4);
        auto const read = [&](const byte_vector& content) {
            cairn::memory_store store;
            store.publish("o", content, std::nullopt);
            std::vector<std::uint64_t> distances;
            bytes = 0;
            cairn::open_file file(noting_reader{store.open("o"), &distances, &bytes}, "file");
            std::vector<std::byte> scratch;
            cairn::detail::wanted_chunk const some{
                "w", p, {{wanted, cairn::tensor_view(p.type, wanted.shape, into.data())}}};
            cairn::detail::payload_reader(file, {some}, scratch).run();
        };
        read(stored);
        BOOST_TEST(bytes == one.blocks * block);
        bool same = true;
        std::size_t k = 0;
        for (std::int64_t g = 0; g < wanted.shape[0]; ++g)
            for (std::int64_t r = 0; r < wanted.shape[1]; ++r)
                for (std::int64_t c = 0; c < wanted.shape[2]; ++c, ++k) {
                    auto const row =
                        one.first_row + (wanted.offsets[0] + g) * group + wanted.offsets[1] + r;
                    auto const at = (wanted.offsets[2] + c) * rows + row;
                    same = same && std::memcmp(&into[4 * k],
                                               &stored[4 * static_cast<std::size_t>(at)], 4) == 0;
                }
        BOOST_TEST(same);
        auto const damaged = [&](std::uint64_t which) {
            auto content = stored;
            content[static_cast<std::size_t>(which * block + 1)] ^= std::byte{1};
            return content;
        };
        BOOST_CHECK_NO_THROW(read(damaged(one.first_block == 0 ? 1 : one.first_block - 1)));
        for (auto const which : {one.first_block, one.last_block})
            BOOST_CHECK_THROW(read(damaged(which)), cairn::error);
    }
}

/// A complex number is two numbers.
BOOST_AUTO_TEST_CASE(numbers_of_a_big_endian_host_are_those_that_it_wrote) {
    swaps({1.5f, -2.0f, 3e10f}, 4);
    swaps({1.5, -2.0, 3e100}, 8);
    swaps({std::int16_t{1}, std::int16_t{-2}, std::int16_t{300}}, 2);
    swaps({std::int64_t{1}, std::int64_t{-2}, INT64_MAX - 5}, 8);
    swaps({std::uint8_t{1}, std::uint8_t{200}}, 1);
    swaps({std::complex<float>(1, 2), std::complex<float>(-3, 4e5f)}, 4);
    swaps({std::complex<double>(1, 2), std::complex<double>(-3, 4e50)}, 8);
}

/// Columns of a matrix, and the negatives of others.
BOOST_AUTO_TEST_CASE(memory_does_not_grow_with_the_gaps_between_elements) {
    constexpr std::int64_t rows = 6144, columns = 1024, width = 16;
    auto const stored = some_bytes(4 * rows * columns);
    cairn::memory_store store;
    store.publish("o", stored, std::nullopt);
    for (bool const checked : {true, false}) {
        std::vector<std::uint64_t> distances;
        std::uint64_t bytes = 0;
        cairn::open_file file(noting_reader{store.open("o"), &distances, &bytes}, "file");
        std::vector<std::byte> scratch;
        std::vector<byte_vector> into(3, byte_vector(4 * rows * width));
        std::vector<cairn::detail::wanted_chunk> chunks;
        for (std::size_t i = 0; i < into.size(); ++i) {
            auto p = payload(stored, cairn::dtype::f32, {rows, width});
            p.strides = {columns, 1};
            p.first = 100 * i;
            p.negative = i == 1;
            if (!checked) p.crc.reset();
            cairn::tensor_view const all(p.type, p.shape, into[i].data());
            chunks.push_back({"w", std::move(p), {{cairn::box::whole(all.shape), all}}});
        }
        {
            support::allocations const count;
            cairn::detail::payload_reader(file, std::move(chunks), scratch).run();
            BOOST_TEST(count.peak() < std::size_t{8} << 20);
        }
        BOOST_TEST(bytes < (checked ? 2 : 1) * stored.size() + 100'000);
        bool same = true;
        for (std::size_t i = 0; i < into.size(); ++i)
            for (std::size_t at = 0; at < into[i].size(); ++at) {
                auto const of_row = at % (4 * width);
                auto expected = stored[at / (4 * width) * 4 * columns + 400 * i + of_row];
                if (i == 1 && at % 4 == 3) expected ^= std::byte{0x80};
                same = same && into[i][at] == expected;
            }
        BOOST_TEST(same);
    }
}

BOOST_AUTO_TEST_SUITE_END()
