// SPDX-License-Identifier: Apache-2.0
#include <cairn/state/bytes_value.hpp>

#include <cairn/state/flatten.hpp>

#include <boost/test/unit_test.hpp>

#include <array>
#include <complex>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

BOOST_AUTO_TEST_SUITE(bytes_value)

using cairn::errc;
using cairn::plain_bytes;
using cairn::value;

namespace {

struct random_state {
    std::uint64_t s[4];
};
struct nested {
    random_state inner;
    std::array<std::int32_t, 3> a;
    float f;
};
struct derived : random_state {
    std::int64_t more;
};
enum class kind : std::uint8_t { one };
struct small_ones {
    kind a, b;
    bool c;
};
struct large {
    std::uint32_t s[624];
    std::uint32_t i;
};
static_assert(plain_bytes<random_state> && plain_bytes<nested> && plain_bytes<derived>);
static_assert(plain_bytes<small_ones> && plain_bytes<large> && plain_bytes<int>);
static_assert(cairn::detail::count_scalars<large>() == 625);

struct padded {
    double d;
    int n;
};
struct padded_within {
    random_state inner;
    std::array<std::int32_t, 2> a;
    float f;
};
struct bits {
    unsigned a : 4, b : 28;
};
struct empty {};
static_assert(!plain_bytes<padded> && !plain_bytes<padded_within>);
static_assert(!plain_bytes<bits> && !plain_bytes<empty>);
struct extended {
    long double x;
};
static_assert(!plain_bytes<extended> && !plain_bytes<long double>);
static_assert(cairn::ValueLike<double> && !cairn::ValueLike<long double>);

struct pointer {
    std::uint64_t a;
    int* p;
};
struct pointers_within {
    random_state inner;
    struct {
        const char* p[2];
    } deep;
};
struct member_pointer {
    kind small_ones::*p;
};
struct reference {
    int& r;
};
static_assert(!plain_bytes<pointer> && !plain_bytes<pointers_within>);
static_assert(!plain_bytes<member_pointer> && !plain_bytes<reference> && !plain_bytes<int*>);

// Nobody can look into these.
struct too_many {
    std::uint8_t s[5000];
};
static_assert(!plain_bytes<std::string_view> && !plain_bytes<std::mt19937>);
static_assert(!plain_bytes<std::complex<float>> && !plain_bytes<too_many>);

}  // namespace

BOOST_AUTO_TEST_CASE(bytes_go_out_and_come_back) {
    random_state r{{1, 2, 3, 4}};
    cairn::state_dict d{{"rng", cairn::as_bytes(r)}};
    auto f = cairn::flatten(d);
    auto const saved = f.leaves[0].value()->get();
    BOOST_TEST(saved.as<value::bytes_t>().size() == 32u);
    r = {};
    f.leaves[0].value()->set(saved);
    BOOST_TEST(r.s[3] == 4u);
}

BOOST_AUTO_TEST_CASE(other_sizes_and_kinds_change_nothing) {
    random_state r{{1, 2, 3, 4}};
    auto f = cairn::flatten(cairn::state_dict{{"rng", cairn::as_bytes(r)}});
    auto const fails = [&](value v, errc code, const char* found) {
        BOOST_CHECK_EXCEPTION(
            f.leaves[0].value()->set(std::move(v)), cairn::error, [&](const cairn::error& e) {
                return e.code() == cairn::make_error_code(code) && e.context().found == found;
            });
        BOOST_TEST(r.s[0] == 1u);
    };
    fails(value::bytes_t(31), errc::shape_mismatch, "31");
    fails(value::bytes_t(), errc::shape_mismatch, "0");
    fails(value::bytes_t(64), errc::shape_mismatch, "64");
    fails("text", errc::kind_mismatch, "str");
}

BOOST_AUTO_TEST_CASE(const_objects_are_read_only) {
    random_state const r{{1, 2, 3, 4}};
    auto const f = cairn::flatten(cairn::state_dict{{"rng", cairn::as_bytes(r)}});
    BOOST_TEST(!f.leaves[0].value()->set);
    BOOST_TEST(f.leaves[0].value()->get().as<value::bytes_t>().size() == 32u);
}

BOOST_AUTO_TEST_SUITE_END()
