// SPDX-License-Identifier: Apache-2.0
// zstd frames, whole or in pieces, and what is none.
#include "support/allocations.hpp"

#include <cairn/format/zstd.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

BOOST_AUTO_TEST_SUITE(zstd_frames)

namespace {

using bytes = std::vector<std::byte>;
using cairn::errc;

bytes of(std::string_view s) {
    auto const b = std::as_bytes(std::span(s.data(), s.size()));
    return {b.begin(), b.end()};
}
/// As PyTorch compresses: the frame does not say how long its content is.
bytes compressed(const bytes& content, bool with_size = false) {
    ZSTD_CCtx* const c = ZSTD_createCCtx();
    bytes out(ZSTD_compressBound(content.size()) + 64);
    ZSTD_CCtx_setParameter(c, ZSTD_c_contentSizeFlag, with_size ? 1 : 0);
    out.resize(ZSTD_compress2(c, out.data(), out.size(), content.data(), content.size()));
    ZSTD_freeCCtx(c);
    return out;
}
/// @param room  Of the memory that is decoded into at a time.
bytes decoded(const bytes& frame, std::uint64_t most, std::size_t first = SIZE_MAX,
              std::size_t next = SIZE_MAX, std::size_t room = 1 << 20) {
    cairn::format::zstd::decoder d(most);
    bytes out, some(room);
    std::span<const std::byte> left(frame);
    for (auto n = first; !left.empty(); n = next) {
        auto piece = left.first(std::min(n, left.size()));
        left = left.subspan(piece.size());
        for (auto got = room; !piece.empty() || (got == room && !d.has_ended());) {
            got = d.decode(piece, some);
            out.insert(out.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(got));
        }
    }
    d.check_end();
    return out;
}
bytes pattern(std::size_t n) {
    bytes b(n);
    std::uint32_t x = 1;
    for (auto& e : b) e = static_cast<std::byte>((x = x * 1664525 + 1013904223) >> 29);
    return b;
}
void is_refused(const bytes& frame, std::uint64_t most, errc code, std::string_view words) {
    BOOST_CHECK_EXCEPTION(decoded(frame, most), cairn::error, [&](const cairn::error& e) {
        BOOST_TEST(std::string(e.what()).find(words) != std::string::npos, e.what());
        return e.code() == cairn::make_error_code(code);
    });
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_frame_is_decoded_in_pieces_of_any_size) {
    for (std::size_t const n : {0u, 1u, 1000u, 300'000u, 3'000'000u}) {
        auto const content = pattern(n);
        for (bool const with_size : {false, true}) {
            auto const frame = compressed(content, with_size);
            BOOST_TEST((decoded(frame, n) == content));
            BOOST_TEST((decoded(frame, n + 5'000'000) == content));
            BOOST_TEST((decoded(frame, n, 18, n < 10'000 ? 1 : 777) == content));
            BOOST_TEST((decoded(frame, n, 18, 777, n < 10'000 ? 1 : 1001) == content));
        }
    }
}

BOOST_AUTO_TEST_CASE(content_beyond_the_limit_is_refused) {
    auto const content = pattern(5000);
    for (std::uint64_t const most : {0u, 1u, 4999u}) {
        is_refused(compressed(content), most, errc::corrupt, std::to_string(most) + " decoded");
        is_refused(compressed(content, true), most, errc::corrupt, "found 5000");
    }
    // 32 KiB that say 1 GiB.
    auto const bomb = compressed(bytes(std::size_t{1} << 30));
    support::allocations const count;
    is_refused(bomb, std::size_t{1} << 20, errc::corrupt, "decoded");
    BOOST_TEST(count.peak() < std::size_t{4} << 20);
}

BOOST_AUTO_TEST_CASE(memory_grows_with_what_is_decoded_not_with_what_may_be) {
    auto const frame = compressed(pattern(10'000));
    support::allocations const count;
    BOOST_TEST(decoded(frame, std::uint64_t{1} << 50).size() == 10'000u);
    BOOST_TEST(count.peak() < std::size_t{3} << 20);
}

BOOST_AUTO_TEST_CASE(frames_may_follow_each_other_and_be_skipped) {
    auto const content = pattern(3000);
    auto const end = content.begin() + 1000;
    auto const empty = compressed({}),
               skipped = of(std::string_view("\x5f\x2a\x4d\x18\2\0\0\0xx", 10));
    bytes all;
    for (auto const& frame : {skipped, compressed(bytes(content.begin(), end)), empty, skipped,
                              compressed(bytes(end, content.end()), true), empty})
        all.insert(all.end(), frame.begin(), frame.end());
    for (std::size_t const next : {1u, 5u, 777u})
        for (std::size_t const room : {1u, 1000u, 5000u})
            BOOST_TEST((decoded(all, content.size(), 18, next, room) == content));
    BOOST_TEST((decoded(all, content.size()) == content));
    is_refused(all, content.size() - 1, errc::corrupt, "at most 2999 decoded bytes");
    all.pop_back();
    is_refused(all, content.size(), errc::corrupt, "ends too early");
}

BOOST_AUTO_TEST_CASE(a_frame_cut_short_or_followed_by_other_bytes_is_refused) {
    auto const content = pattern(2000);
    auto const frame = compressed(content);
    for (std::size_t n = 0; n < frame.size(); ++n) {
        auto const cut = bytes(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(n));
        BOOST_CHECK_THROW(decoded(cut, 1 << 20), cairn::error);
    }
    auto more = frame;
    more.push_back(std::byte{0});
    is_refused(more, 1 << 20, errc::corrupt, "1 byte behind a frame");
    more.back() = std::byte{0x27};  // of version 0.7
    for (auto const b : {0xb5, 0x2f, 0xfd, 0, 0, 0, 0, 0})
        more.push_back(static_cast<std::byte>(b));
    is_refused(more, 1 << 20, errc::corrupt, "9 bytes behind a frame");
    more[frame.size()] = std::byte{0x50};
    is_refused(more, 1 << 20, errc::corrupt, "nknown");
}

BOOST_AUTO_TEST_CASE(what_is_no_frame_is_refused) {
    is_refused({}, 100, errc::corrupt, "ends too early");
    is_refused(of("PK\3\4 is a zip, not compressed"), 100, errc::corrupt, "no frame");
    is_refused(of(std::string_view("\x27\xb5\x2f\xfd\0\0\0\0\0", 9)), 100, errc::corrupt,
               "no frame");
}

BOOST_AUTO_TEST_CASE(dictionaries_and_large_windows_are_refused) {
    using namespace std::string_view_literals;
    is_refused(of("\x28\xb5\x2f\xfd\x01\x58\x05\x01\0\0"sv), 100, errc::unsupported,
               "dictionary 5");
    is_refused(of("\x28\xb5\x2f\xfd\0\x90\x01\0\0"sv), 100, errc::unsupported, "larger window");
    BOOST_TEST(decoded(of("\x28\xb5\x2f\xfd\0\x88\x01\0\0"sv), 100).empty());
}

BOOST_AUTO_TEST_CASE(damage_is_an_error_or_changes_nothing_of_the_length) {
    auto const content = pattern(3000);
    auto const frame = compressed(content);
    for (std::size_t i = 0; i < frame.size(); ++i) {
        auto bad = frame;
        bad[i] ^= std::byte{0x10};
        try {
            BOOST_TEST(decoded(bad, content.size()).size() <= content.size());
        } catch (const cairn::error& e) {
            BOOST_TEST((e.code() == cairn::make_error_code(errc::corrupt) ||
                        e.code() == cairn::make_error_code(errc::unsupported)));
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
