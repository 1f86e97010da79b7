// SPDX-License-Identifier: Apache-2.0
// Where memory of the host has the bytes, a load reads runs of them without the gaps between them.
#include <cairn/object_store/memory.hpp>
#include <cairn/storage/detail/read_payload.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(cached_reads)

namespace {

using cairn::byte_vector;

/// What was asked of a file.
struct asked {
    std::uint64_t cached = 0, usual = 0;  ///< Bytes that were read.
    std::size_t requests = 0;             ///< For cached bytes.
    /// Whether memory has what the n-th of them asks for.
    std::function<bool(std::size_t n)> has = [](std::size_t) { return true; };
};
struct handle {
    cairn::memory_store::reader h;
    asked* a;
    void read(std::uint64_t at, std::span<std::byte> into) {
        a->usual += into.size();
        h.read(at, into);
    }
    std::uint64_t size() { return h.size(); }
    bool read_cached(std::uint64_t at, std::span<std::byte> into) {
        if (!a->has(a->requests++)) {
            std::fill(into.begin(), into.end(), std::byte{0xee});  // as it may
            return false;
        }
        a->cached += into.size();
        h.read(at, into);
        return true;
    }
};

byte_vector some_bytes(std::size_t n) {
    byte_vector b(n);
    for (std::size_t i = 0; i < n; ++i) b[i] = static_cast<std::byte>(i * 7 + i / 256 + 1);
    return b;
}

/// A tensor of bytes in a file, behind others.
struct stored_tensor {
    static constexpr std::uint64_t offset = 24;

    explicit stored_tensor(cairn::index_vector shape) {
        p.type = cairn::dtype::uint8;
        p.strides = cairn::row_major_strides(shape);
        p.shape = std::move(shape);
        p.offset = offset;
        p.length = static_cast<std::uint64_t>(p.shape.product());
        bytes = some_bytes(static_cast<std::size_t>(offset + p.length));
    }
    /// Reads boxes, and compares each with what is stored.
    bool reads(const std::vector<cairn::box>& boxes, asked& a,
               std::optional<cairn::dtype> as = {}) const {
        cairn::memory_store store;
        store.publish("o", bytes, std::nullopt);
        cairn::open_file file(handle{store.open("o"), &a}, "file");
        auto const type = as.value_or(p.type);
        std::vector<byte_vector> into;
        cairn::detail::wanted_chunk wanted{"w", p, {}};
        for (auto const& b : boxes) {
            into.emplace_back(static_cast<std::size_t>(b.volume()) * cairn::size_of(type));
            wanted.parts.push_back({b, cairn::tensor_view(type, b.shape, into.back().data())});
        }
        std::vector<std::byte> scratch;
        cairn::detail::payload_reader(file, {wanted}, scratch).run();
        for (std::size_t i = 0; i < boxes.size(); ++i) {
            auto const& b = boxes[i];
            byte_vector right(into[i].size());
            cairn::const_tensor_view const whole(p.type, p.shape, bytes.data() + offset);
            cairn::convert_elements(subview(whole, b),
                                    cairn::tensor_view(type, b.shape, right.data()));
            if (into[i] != right) return false;
        }
        return true;
    }

    cairn::payload p{};
    byte_vector bytes{};
};

constexpr std::int64_t gap = cairn::detail::cached_runs::least_gap;

}  // namespace

BOOST_AUTO_TEST_CASE(runs_with_long_gaps_are_read_alone_and_others_with_their_gaps) {
    for (auto const width : {std::int64_t{1}, std::int64_t{700}, std::int64_t{5000}})
        for (auto const skipped : {gap, gap - 1}) {
            // More than one piece, whose boundaries are within runs and within gaps.
            std::int64_t const rows = 3 * (256 << 10) / (width + skipped) + 2;
            stored_tensor const t({rows, width + skipped});
            for (auto const first : {std::int64_t{0}, skipped / 2, skipped}) {
                asked a;
                BOOST_TEST(t.reads({{{1, first}, {rows - 1, width}}}, a));
                auto const wanted = static_cast<std::uint64_t>((rows - 1) * width);
                BOOST_TEST(a.cached == (skipped == gap ? wanted : 0u));
                BOOST_TEST((a.usual == 0) == (skipped == gap));
            }
        }
}

BOOST_AUTO_TEST_CASE(runs_of_boxes_of_several_dimensions_are_read_alone) {
    stored_tensor const t({3, 40, 30, 300});
    asked a;
    BOOST_TEST(t.reads({{{1, 3, 5, 0}, {2, 33, 11, 300}}}, a));
    BOOST_TEST(a.cached == 2u * 33 * 11 * 300);
    BOOST_TEST(a.usual == 0u);
    a = {};
    BOOST_TEST(t.reads({{{1, 3, 5, 1}, {2, 33, 11, 299}}}, a));  // gaps of a byte
    BOOST_TEST(a.cached == 0u);
}

BOOST_AUTO_TEST_CASE(what_memory_lacks_is_read_with_its_gaps) {
    stored_tensor const t({200, 5000});
    cairn::box const part({0, 10}, {200, 800});
    asked none;
    none.has = [](std::size_t) { return false; };
    BOOST_TEST(t.reads({part}, none));
    BOOST_TEST(none.requests == 4u);  // one for each piece
    BOOST_TEST(none.cached == 0u);
    BOOST_TEST(none.usual >= 199u * 5000 + 800);
    // One run is missing: its piece is read again, whatever was read of it before.
    for (std::size_t missing = 0; missing < 200; missing += 7) {
        asked a;
        a.has = [=](std::size_t n) { return n != missing; };
        BOOST_TEST(t.reads({part}, a));
        BOOST_TEST(a.usual > 0u);
        BOOST_TEST(a.usual <= (256u << 10));
    }
}

BOOST_AUTO_TEST_CASE(what_is_checked_or_converted_or_wanted_twice_is_read_as_usual) {
    cairn::box const part({0, 10}, {200, 800});
    stored_tensor const plain({200, 5000});
    auto const reads_nothing_cached = [&](const stored_tensor& t, std::vector<cairn::box> boxes,
                                          std::optional<cairn::dtype> as = {}) {
        asked a;
        BOOST_TEST(t.reads(boxes, a, as));
        BOOST_TEST(a.requests == 0u);
    };
    auto whole = plain;
    whole.p.crc = cairn::format::crc32(std::span(plain.bytes).subspan(stored_tensor::offset));
    reads_nothing_cached(whole, {part});
    auto blocks = plain;
    auto left = std::span(plain.bytes).subspan(stored_tensor::offset);
    while (!left.empty()) {
        auto const b = left.first(std::min<std::size_t>(left.size(), cairn::payload::block_bytes));
        blocks.p.block_crcs.push_back(cairn::format::crc32(b));
        left = left.subspan(b.size());
    }
    reads_nothing_cached(blocks, {part});
    reads_nothing_cached(plain, {part}, cairn::dtype::int32);
    reads_nothing_cached(plain, {part, cairn::box({5, 3000}, {100, 800})});
    // Of which only a part is wanted, and parts have no checksums.
    auto unchecked = whole;
    unchecked.p.parts_unchecked = true;
    asked a;
    BOOST_TEST(unchecked.reads({part}, a));
    BOOST_TEST(a.cached == 200u * 800);
}

BOOST_AUTO_TEST_SUITE_END()
