// SPDX-License-Identifier: Apache-2.0
#include <cairn/metadata/detail/codec.hpp>

#include "support/allocations.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <random>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(metadata_codec)

namespace {

using namespace cairn::detail;
using cairn::box;
using cairn::index_vector;
using cairn::path_element;
using engine = std::mt19937_64;
using bytes = std::vector<std::byte>;

constexpr std::int64_t largest = std::int64_t{1} << 62;

template <class T>
bytes encoded(const T& x) {
    wire_writer w;
    put(w, x);
    return w.take();
}
bytes of(std::initializer_list<int> numbers) {
    bytes b;
    for (auto n : numbers) b.push_back(static_cast<std::byte>(n));
    return b;
}
bytes of(const std::function<void(wire_writer&)>& write) {
    wire_writer w;
    write(w);
    return w.take();
}

template <class Get>
void is_refused(const bytes& b, Get get) {
    support::allocations const count(64 * b.size() + 1024);
    bool refused = false;
    try {
        wire_reader r(b);
        (void)get(r);
    } catch (const cairn::error& e) {
        refused = e.code() == cairn::make_error_code(cairn::errc::corrupt);
    }
    BOOST_TEST(refused);
    BOOST_TEST(!count.exceeded());
}

/// What was put is got, all of it; less is refused, and other bytes are, or mean something else.
template <class T, class Get>
void comes_back(const T& x, const bytes& b, Get get) {
    wire_reader r(b);
    BOOST_TEST((get(r) == x));
    BOOST_TEST(r.left() == 0u);
    for (std::size_t n = 0; n < b.size(); ++n)
        is_refused({b.begin(), b.begin() + static_cast<std::ptrdiff_t>(n)}, get);
    for (std::size_t at = 0; at < b.size(); ++at)
        for (auto const with : {0x01, 0x55, 0x80, 0xff}) {
            auto other = b;
            other[at] ^= static_cast<std::byte>(with);
            wire_reader damaged(other);
            try {
                (void)get(damaged);
            } catch (const cairn::error& e) {
                BOOST_TEST((e.code() == cairn::make_error_code(cairn::errc::corrupt) ||
                            e.code() == cairn::make_error_code(cairn::errc::unsupported)));
            }
        }
}
template <class T, class Get>
void comes_back(const T& x, Get get) {
    comes_back(x, encoded(x), get);
}

/// The location of a chunk of these lengths, by way of the table.
cairn::storage_location location_in_table(wire_reader& r, const index_vector& lengths) {
    cairn::chunk_list one(nullptr, lengths.size());
    auto const blank = one.add();
    std::copy(lengths.begin(), lengths.end(), blank.lengths.begin());
    auto const unusual = get_within_file(r, blank.at, lengths);
    return unusual ? *unusual : one.location(0);
}

/// Numbers of all lengths.
std::uint64_t number(engine& e) {
    auto const n = e();
    return n >> (e() % 64);
}
index_vector numbers(engine& e) {
    index_vector v;
    for (auto n = e() % 7; n > 0; --n) v.push_back(static_cast<std::int64_t>(number(e)));
    return v;
}
std::string text(engine& e) {
    std::string s;
    for (auto n = e() % 12; n > 0; --n) s += static_cast<char>(e() % 256);
    return s;
}
std::vector<std::string> texts(engine& e) {
    std::vector<std::string> all;
    for (auto n = e() % 4; n > 0; --n) all.push_back(text(e));
    return all;
}
cairn::item_layout layout(engine& e) {
    return {number(e), number(e), static_cast<std::uint32_t>(e()), static_cast<std::uint32_t>(e()),
            numbers(e)};
}

}  // namespace

/// The bytes of checkpoints that exist.
BOOST_AUTO_TEST_CASE(bytes_are_those_of_the_native_index) {
    BOOST_TEST((encoded(cairn::dtype::bfloat16) == of({3})));
    BOOST_TEST((encoded(index_vector{3, -1, 64}) == of({3, 6, 1, 0x80, 1})));
    BOOST_TEST((encoded(index_vector{}) == of({0})));
    BOOST_TEST((encoded(box({1}, {200})) == of({1, 2, 1, 0x90, 3})));
    BOOST_TEST((encoded(cairn::key_path{std::string("ab"), std::int64_t{-2}}) ==
                of({2, 0, 2, 'a', 'b', 1, 3})));
    cairn::item_layout const l{64, 300, 0x01020304, 0xa0b0c0d0, {2, 1}};
    BOOST_TEST((encoded(l) == of({64, 0xac, 2, 4, 3, 2, 1, 0xd0, 0xc0, 0xb0, 0xa0, 2, 4, 2})));
    auto const place = [](const cairn::storage_location& at) {
        return of([&](wire_writer& w) { put_within_file(w, at); });
    };
    BOOST_TEST((place({"f", 5, 130, {}, {}}) == of({5, 0x82, 1, 0})));
    BOOST_TEST((place({"f", 5, 6, {"zz"}, {}}) == of({5, 6, 2, 1, 2, 'z', 'z'})));
    BOOST_TEST((place({"f", 5, 6, {}, cairn::item_layout{}}) ==
                of({5, 6, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})));
    BOOST_TEST((place({"f", 5, 6, {"z"}, cairn::item_layout{}}) ==
                of({5, 6, 3, 1, 1, 'z', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})));
    BOOST_TEST((encoded(std::vector<std::string>{"a", ""}) == of({2, 1, 'a', 0})));
    BOOST_TEST(
        (encoded(file_size_map{{"b", 128}, {"a", 1}}) == of({2, 1, 'a', 1, 1, 'b', 0x80, 1})));
}

BOOST_AUTO_TEST_CASE(whatever_is_put_comes_back) {
    for (int d = 0; d < cairn::dtype_count; ++d)
        comes_back(static_cast<cairn::dtype>(d), get_dtype);
    engine e(7);
    for (int round = 0; round < 100; ++round) {
        auto v = numbers(e);
        if (!v.empty() && e() % 2 == 0) v[0] = -v[0];
        comes_back(v, get_numbers);
        comes_back(box(v, numbers(e)), get_box);

        index_vector shape;
        for (auto n = e() % 9; n > 0; --n) shape.push_back(static_cast<std::int64_t>(e() % 70));
        comes_back(shape, get_shape);

        cairn::key_path path;
        for (auto n = e() % 6; n > 0; --n)
            path.push_back(e() % 2 == 0 ? path_element(text(e))
                                        : path_element(static_cast<std::int64_t>(e())));
        comes_back(path, get_path);

        comes_back(layout(e), get_layout);
        cairn::storage_location at{text(e), number(e), number(e), texts(e), {}};
        if (e() % 2 == 0) at.layout = layout(e);
        comes_back(at, of([&](wire_writer& w) { put_within_file(w, at); }),
                   [&](wire_reader& r) { return get_within_file(r, at.file); });
        at.file.clear();
        auto const in_table = [&](wire_reader& r) { return location_in_table(r, shape); };
        comes_back(at, of([&](wire_writer& w) { put_within_file(w, at); }), in_table);
        at.transforms.clear();
        if (at.layout) at.layout->strides = row_major_strides(shape);
        comes_back(at, of([&](wire_writer& w) { put_within_file(w, at); }), in_table);

        comes_back(texts(e), get_strings);
        file_size_map sizes;
        for (auto const& name : texts(e)) sizes[name] = number(e);
        comes_back(sizes, get_file_sizes);
    }
}

BOOST_AUTO_TEST_CASE(limits_are_reached_and_not_exceeded) {
    index_vector deep(most_dimensions, 1);
    comes_back(deep, get_numbers);
    comes_back(deep, get_shape);
    deep.push_back(1);
    is_refused(encoded(deep), get_numbers);
    is_refused(encoded(deep), get_shape);
    is_refused(encoded(box({0}, deep)), get_box);
    is_refused(encoded(box(deep, {0})), get_box);
    cairn::item_layout l;
    l.strides = deep;
    is_refused(encoded(l), get_layout);

    cairn::key_path path(cairn::most_path_steps, path_element(std::int64_t{1}));
    comes_back(path, get_path);
    path.emplace_back(std::string());
    is_refused(encoded(path), get_path);

    comes_back(index_vector{cairn::most_elements}, get_shape);
    for (auto const& s : std::vector<index_vector>{
             {cairn::most_elements, 2}, {-1}, {0, -1}, {largest, 4}, {INT64_MIN}}) {
        comes_back(s, get_numbers);
        is_refused(encoded(s), get_shape);
    }
}

BOOST_AUTO_TEST_CASE(what_no_put_writes_is_refused) {
    for (int const later : {cairn::dtype_count, 0xff}) {
        auto const b = of({later});
        wire_reader r(b);
        BOOST_CHECK_EXCEPTION((void)get_dtype(r), cairn::error, [](const cairn::error& e) {
            return e.code() == cairn::make_error_code(cairn::errc::unsupported);
        });
    }
    is_refused(of({1, 2, 1, 'a'}), get_path);  // neither a name nor a position
    auto const in_file = [](wire_reader& r) { return get_within_file(r, "f"); };
    is_refused(of({5, 6, 4}), in_file);
    is_refused(of({5, 6, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}), in_file);
    is_refused(of({2, 1, 'a', 1, 1, 'a', 2}), get_file_sizes);
}

/// A count is never believed: neither memory nor time is spent on what cannot follow.
BOOST_AUTO_TEST_CASE(counts_beyond_the_data_cost_nothing) {
    for (auto const n : {std::uint64_t{60}, std::uint64_t{200}, std::uint64_t{1} << 40,
                         std::uint64_t{1} << 63, UINT64_MAX}) {
        auto const b = of([&](wire_writer& w) {
            w.varint(n);
            for (int i = 0; i < 50; ++i) w.u8(0);
        });
        is_refused(b, get_numbers);
        is_refused(b, get_shape);
        is_refused(b, get_box);
        is_refused(b, get_path);
        is_refused(b, get_strings);
        is_refused(b, get_file_sizes);
        is_refused(of([&](wire_writer& w) {
                       for (int const v : {0, 0, 2}) w.u8(static_cast<std::uint8_t>(v));
                       w.raw(b);
                   }),
                   [](wire_reader& r) { return get_within_file(r, "f"); });
        is_refused(of([&](wire_writer& w) {
                       for (int i = 0; i < 10; ++i) w.u8(0);
                       w.raw(b);
                   }),
                   get_layout);
    }
}

BOOST_AUTO_TEST_SUITE_END()
