// SPDX-License-Identifier: Apache-2.0
// Indexes, footers and zips whose checksums are right and whose numbers are not.
#include <cairn/format/native/footer.hpp>
#include <cairn/format/native/index.hpp>
#include <cairn/format/torch/item.hpp>

#include "cost.hpp"
#include "message.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(hostile_files)

namespace {

namespace format = cairn::format;
using bytes = std::vector<std::byte>;
using cost::costs_little;
using cost::is_refused;

constexpr std::size_t many = 100'000;

bytes pickle_of(const std::function<void(format::pickle::writer&)>& write) {
    format::pickle::writer w;
    write(w);
    return w.finish();
}

using writes = std::function<void(cairn::detail::wire_writer&)>;

/// Metadata of one file.
bytes body(const writes& entries, const writes& paths) {
    return message_of([&](cairn::detail::wire_writer& w) {
        entries(w);
        paths(w);
    });
}
cairn::metadata decode(const bytes& b) {
    return format::native::decode_metadata(b);
}

}  // namespace

BOOST_AUTO_TEST_CASE(keys_and_paths_of_an_index_are_bounded) {
    auto const object = [](cairn::detail::wire_writer& w, std::string_view key) {
        w.string(key);
        for (int const v : {0, 0, 0, 1, 0}) w.u8(static_cast<std::uint8_t>(v));
    };
    auto const no_paths = [](cairn::detail::wire_writer& w) { w.varint(0); };
    auto const one = [&](cairn::detail::wire_writer& w) {
        w.varint(1);
        object(w, "a");
    };
    auto const good = body(one, no_paths);
    BOOST_TEST(decode(good).entries.size() == 1u);
    auto const twice = body(
        [&](auto& w) {
            w.varint(2);
            object(w, "a");
            object(w, "a");
        },
        no_paths);
    is_refused(twice.size(), [&] { (void)decode(twice); });
    auto const deep = body(one, [](auto& w) {
        w.varint(1);
        w.string("a");
        w.varint(many);
        for (std::size_t i = 0; i < many; ++i) {
            w.u8(1);
            w.u8(0);
        }
    });
    is_refused(deep.size(), [&] { (void)decode(deep); });
    auto const path_twice = body(one, [](auto& w) {
        w.varint(2);
        for (int i = 0; i < 2; ++i) {
            w.string("a");
            w.varint(1);
            w.u8(0);
            w.string("a");
        }
    });
    is_refused(path_twice.size(), [&] { (void)decode(path_twice); });
}

namespace {

bytes footer_of(const std::vector<format::native::footer_item>& items) {
    return format::native::encode_footer({"0123456789abcdef0123456789abcdef", items});
}

}  // namespace

BOOST_AUTO_TEST_CASE(footers_that_contradict_themselves_are_refused) {
    using item = format::native::footer_item;
    for (auto const& items : std::vector<std::vector<item>>{
             // 2^64 - 1 bytes in no blocks: their number overflowed to 0
             {{0, 900, 700, ~std::uint64_t{0}, {}}},
             {{0, 900, 800, 101, {7}}},                        // a payload beyond its item
             {{0, 900, ~std::uint64_t{0}, 2, {7}}},            // and one that wraps
             {{~std::uint64_t{0}, 900, 700, 100, {7}}},        // an item that wraps
             {{0, 900, 700, 100, {7}}, {899, 10, 0, 0, {}}},   // items that overlap
             {{5000, 900, 700, 100, {7}}, {0, 10, 0, 0, {}}},  // items out of order
             {{0, 900, 700, 100, {7}}, {0, 900, 700, 100, {7}}}}) {
        auto const b = footer_of(items);
        is_refused(b.size(), [&] { (void)format::native::decode_footer(b); });
    }
}

BOOST_AUTO_TEST_CASE(footers_find_their_items) {
    std::vector<format::native::footer_item> items;
    for (std::uint64_t i = 0; i < 70'000; ++i) items.push_back({i * 1000, 900, 0, 0, {}});
    auto const b = footer_of(items);
    format::native::file_footer f;
    costs_little(b.size(), [&] { f = format::native::decode_footer(b); });
    for (std::uint64_t i = 0; i < items.size(); ++i) {
        auto const* found = f.find(i * 1000);
        BOOST_REQUIRE(found != nullptr);
        BOOST_REQUIRE((*found == items[i]));
    }
    for (std::uint64_t const none :
         {std::uint64_t{1}, std::uint64_t{999}, std::uint64_t{70'000'000}, ~std::uint64_t{0}})
        BOOST_TEST(f.find(none) == nullptr);
    BOOST_TEST(format::native::file_footer().find(0) == nullptr);
}

// From front to back this takes an hour.
BOOST_AUTO_TEST_CASE(a_footer_is_not_searched_from_front_to_back) {
    format::native::file_footer f;
    for (std::uint64_t i = 0; i < 1'000'000; ++i) f.items.push_back({i * 1000, 900, 0, 0, {}});
    std::size_t found = 0;
    for (auto const& i : f.items) found += f.find(i.offset) == &i;
    BOOST_TEST(found == f.items.size());
}

namespace {

/// A zip of these records; the directory may name each several times.
struct some_zip {
    cairn::detail::wire_writer out{};
    std::vector<format::zip::record> records{};

    void add(const std::string& name, std::string_view content) {
        auto const b = std::as_bytes(std::span(content.data(), content.size()));
        format::zip::record r{"archive/" + name, out.size(), b.size(), format::crc32(b)};
        format::zip::local_header(out, r, 64);
        out.raw(b);
        format::zip::descriptor(out, r);
        records.push_back(std::move(r));
    }
    bytes finish() {
        format::zip::directory(out, records, out.size());
        return out.take();
    }
};

std::size_t bytes_read(const bytes& item, const std::function<void(const format::read_at&)>& use) {
    std::size_t n = 0;
    format::read_at const source = [&](std::uint64_t at, std::span<std::byte> into) {
        if (at > item.size() || into.size() > item.size() - at)
            format::zip::malformed("an offset beyond its end");
        n += into.size();
        if (!into.empty()) std::memcpy(into.data(), item.data() + at, into.size());
    };
    use(source);
    return n;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_zip_whose_records_share_bytes_is_read_once) {
    some_zip z;
    z.add("version", "3\n");
    z.add("data.pkl", std::string(60'000, 'x'));
    auto const data = z.records.back();
    for (std::size_t i = 0; i < 1000; ++i) {
        z.records.push_back(data);
        z.records.back().name = "archive/r" + std::to_string(i);
    }
    auto const item = z.finish();
    auto const n = bytes_read(item, [&](const format::read_at& source) {
        BOOST_CHECK_THROW((void)format::torch::parse_tensor_item(source, item.size()),
                          cairn::error);
    });
    BOOST_TEST(n < 2 * item.size());
    is_refused(item.size(), [&] { (void)format::torch::decode_value(item); });
}

/// cairn would read one, PyTorch the other.
BOOST_AUTO_TEST_CASE(a_zip_with_one_name_twice_is_refused) {
    auto const zip = [](bool twice) {
        some_zip z;
        z.add("data.pkl", "\x80\x02N.");
        z.add("version", "3\n");
        if (twice) z.add("data.pkl", "\x80\x02K\x01.");
        return z.finish();
    };
    BOOST_TEST(format::torch::decode_value(zip(false)).is_none());
    is_refused(1000, [&] { (void)format::torch::decode_value(zip(true)); });
}

/// PyTorch writes neither; read as it is, such a record is something else.
BOOST_AUTO_TEST_CASE(a_compressed_or_encrypted_record_is_refused) {
    some_zip z;
    z.add("data.pkl", "\x80\x02N.");
    z.add("version", "3\n");
    auto const good = z.finish();
    BOOST_TEST(format::torch::decode_value(good).is_none());
    std::string_view const signature = "PK\x01\x02";
    auto const mark = std::as_bytes(std::span(signature));
    auto const entry = std::search(good.begin(), good.end(), mark.begin(), mark.end());
    BOOST_REQUIRE((entry != good.end()));
    auto const at = static_cast<std::size_t>(entry - good.begin());
    constexpr std::size_t flags = 8, method = 10;
    for (auto const& [where, what] : {std::pair(flags, 1), std::pair(method, 8)}) {
        auto bad = good;
        bad[at + where] |= static_cast<std::byte>(what);
        is_refused(
            1000, [&] { (void)format::torch::decode_value(bad); }, cairn::errc::unsupported);
    }
}

/// Each stride fits; all of them together reach one element too far.
BOOST_AUTO_TEST_CASE(a_shape_beyond_its_storage_is_refused) {
    for (std::uint64_t const elements : {4u, 3u}) {
        format::torch::tensor_item const made({cairn::dtype::float32, {2, 2}, {2, 1}, elements});
        bytes const payload(static_cast<std::size_t>(made.payload_length()));
        bytes item(made.prefix().begin(), made.prefix().end());
        item.insert(item.end(), payload.begin(), payload.end());
        auto const suffix = made.suffix(format::crc32(payload));
        item.insert(item.end(), suffix.begin(), suffix.end());
        bool refused = false;
        (void)bytes_read(item, [&](const format::read_at& source) {
            try {
                (void)format::torch::parse_tensor_item(source, item.size());
            } catch (const cairn::error&) {
                refused = true;
            }
        });
        BOOST_TEST(refused == (elements == 3));
    }
}

/// A tensor without elements: nothing is read, wherever it is said to begin.
BOOST_AUTO_TEST_CASE(an_empty_tensor_may_begin_beyond_its_storage) {
    auto const item = [](std::int64_t offset) {
        some_zip z;
        auto const pkl = pickle_of([&](auto& w) {
            w.global("torch._utils", "_rebuild_tensor_v2");
            w.mark();
            w.mark();
            w.string("storage");
            w.global("torch", "FloatStorage");
            w.string("0");
            w.string("cpu");
            w.integer(2);
            w.op('t');
            w.op('Q');
            w.integer(offset);
            w.integer(0);
            w.op(0x85);
            w.integer(1);
            w.op(0x85);
            w.boolean(false);
            w.none();
            w.op('t');
            w.op('R');
        });
        z.add("data.pkl", {reinterpret_cast<const char*>(pkl.data()), pkl.size()});
        z.add("data/0", "12345678");
        z.add("version", "3\n");
        return z.finish();
    };
    auto const parse = [&](std::int64_t offset) {
        auto const b = item(offset);
        (void)bytes_read(b, [&](const format::read_at& source) {
            (void)format::torch::parse_tensor_item(source, b.size());
        });
    };
    // As PyTorch slices.
    for (auto const offset : {std::int64_t{0}, std::int64_t{2}, std::int64_t{3}, INT64_MAX})
        BOOST_CHECK_NO_THROW(parse(offset));
    BOOST_CHECK_THROW(parse(-1), cairn::error);
}

BOOST_AUTO_TEST_SUITE_END()
