// SPDX-License-Identifier: Apache-2.0
// What tensors' elements are like: of bytes in memory, of parts of them, of a checkpoint.
#include "checkpoint_statistics.hpp"
#include "statistics.hpp"
#include "support/scratch.hpp"

#include <cairn/tensor/convert.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(tools_statistics)

namespace {

using tool::tensor_statistics;

tensor_statistics statistics_of_bytes(cairn::dtype type, const void* from, std::size_t n,
                                      std::size_t most_bins = 0) {
    tensor_statistics s;
    s.bins.most_bins = most_bins;
    tool::element_statistics(s).add(type, static_cast<const std::byte*>(from), n);
    return s;
}
template <class T>
tensor_statistics statistics_of_all(const std::vector<T>& x, std::size_t most_bins = 0) {
    return statistics_of_bytes(cairn::dtype_of<T>, x.data(), x.size(), most_bins);
}

/// The same, in two plain passes over doubles.
tensor_statistics expected_of(const std::vector<double>& x) {
    tensor_statistics s;
    s.elements = x.size();
    std::vector<long double> finite;
    for (auto const v : x) {
        if (std::isnan(v))
            ++s.nans;
        else if (std::isinf(v))
            ++s.infs;
        else
            finite.push_back(v);
        s.zeros += v == 0 ? 1 : 0;
    }
    if (finite.empty()) return s;
    auto const n = static_cast<long double>(finite.size());
    auto const mean = std::accumulate(finite.begin(), finite.end(), 0.0L) / n;
    long double squares = 0;
    for (auto const v : finite) squares += (v - mean) * (v - mean);
    s.mean = static_cast<double>(mean);
    s.squares = squares;
    s.min = static_cast<double>(*std::min_element(finite.begin(), finite.end()));
    s.max = static_cast<double>(*std::max_element(finite.begin(), finite.end()));
    return s;
}

bool is_close(double a, double b, double scale = 1) {
    return a == b || (std::isnan(a) && std::isnan(b)) ||
           (std::isfinite(a - b) &&
            std::abs(a - b) <= 1e-12 * std::max({std::abs(a), std::abs(b), scale * 1e-3}));
}
void check_same(const tensor_statistics& got, const tensor_statistics& want) {
    BOOST_TEST(got.elements == want.elements);
    BOOST_TEST(got.zeros == want.zeros);
    BOOST_TEST(got.nans == want.nans);
    BOOST_TEST(got.infs == want.infs);
    BOOST_TEST_REQUIRE(got.min.has_value() == want.min.has_value());
    BOOST_TEST(got.min.has_value() == (want.finite() != 0));
    if (want.min) {
        BOOST_TEST(tool::as_double(*got.min) == tool::as_double(*want.min));
        BOOST_TEST(tool::as_double(*got.max) == tool::as_double(*want.max));
    }
    BOOST_TEST(is_close(got.mean, want.mean, want.deviation()),
               "mean " << got.mean << ", not " << want.mean);
    BOOST_TEST(is_close(got.deviation(), want.deviation(), std::abs(want.mean)),
               "deviation " << got.deviation() << ", not " << want.deviation());
}

std::vector<float> noise(std::size_t n, float mean = 0) {
    std::mt19937 random(7);
    std::normal_distribution<float> of(mean, 1);
    std::vector<float> x(n);
    for (auto& v : x) v = of(random);
    return x;
}

}  // namespace

BOOST_AUTO_TEST_CASE(statistics_are_those_of_two_plain_passes) {
    for (std::size_t const n : {0u, 1u, 2u, 3u, 5u, 2047u, 2048u, 2049u, 10001u}) {
        auto x = noise(n, 3);
        if (n > 2) x[n / 2] = 0;
        if (n > 3) x[n - 1] = -0.0f;
        std::vector<double> const wide(x.begin(), x.end());
        check_same(statistics_of_all(x), expected_of(wide));
        check_same(statistics_of_all(wide), expected_of(wide));
    }
}

BOOST_AUTO_TEST_CASE(what_is_not_finite_is_counted_wherever_it_stands) {
    constexpr float inf = std::numeric_limits<float>::infinity();
    for (std::size_t const at : {0u, 1u, 6u, 2047u, 2048u, 2050u}) {
        auto x = noise(2051);
        x[at] = std::numeric_limits<float>::quiet_NaN();
        x[(at + 1) % x.size()] = at % 2 == 0 ? inf : -inf;
        check_same(statistics_of_all(x), expected_of({x.begin(), x.end()}));
    }
    std::vector<double> const none{std::nan(""), inf, -inf};
    check_same(statistics_of_all(none), expected_of(none));
}

BOOST_AUTO_TEST_CASE(the_largest_doubles_have_a_mean_and_a_deviation) {
    check_same(statistics_of_all<double>({1e308, 1e308, -1e308, 1}),
               expected_of({1e308, 1e308, -1e308, 1}));
    std::vector<double> x(5, 1.7e308);
    check_same(statistics_of_all(x), expected_of(x));
    x.resize(2048, 1.7e308);  // a block
    x.resize(3000, -1.7e308);
    check_same(statistics_of_all(x), expected_of(x));
}

BOOST_AUTO_TEST_CASE(parts_merge_to_the_statistics_of_the_whole) {
    auto const x = noise(100000, 1000);
    for (std::size_t const most_bins : {4u, 7u, 64u}) {
        auto const whole = statistics_of_all(x, most_bins);
        check_same(whole, expected_of({x.begin(), x.end()}));
        for (std::size_t const step : {1000u, 4099u, 60000u}) {
            tensor_statistics merged;
            merged.bins.most_bins = most_bins;
            for (std::size_t at = 0; at < x.size(); at += step)
                merged.merge(statistics_of_bytes(cairn::dtype::float32, x.data() + at,
                                                 std::min(step, x.size() - at), most_bins));
            merged.merge(statistics_of_all(std::vector<float>{}, most_bins));
            check_same(merged, whole);
            BOOST_TEST(merged.bins.exponent == whole.bins.exponent);
            BOOST_TEST(merged.bins.first == whole.bins.first);
            BOOST_TEST(merged.bins.counts == whole.bins.counts, boost::test_tools::per_element());
        }
    }
}

BOOST_AUTO_TEST_CASE(a_deviation_far_from_zero_keeps_its_digits) {
    std::vector<double> x(300000);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1e9 + static_cast<double>(i % 3) - 1;
    auto const s = statistics_of_all(x);
    BOOST_TEST(std::abs(s.deviation() - std::sqrt(2.0 / 3)) < 1e-9);
    BOOST_TEST(statistics_of_all(std::vector<float>(5000, 0.1f)).deviation() == 0);
}

BOOST_AUTO_TEST_CASE(integers_of_64_bits_are_exact) {
    auto const most = std::numeric_limits<std::int64_t>::max();
    auto const s = statistics_of_all(std::vector<std::int64_t>{-most, most - 1, most - 2, 0});
    BOOST_TEST(std::get<std::int64_t>(*s.min) == -most);
    BOOST_TEST(std::get<std::int64_t>(*s.max) == most - 1);
    BOOST_TEST(s.zeros == 1u);
    auto const all = std::numeric_limits<std::uint64_t>::max();
    std::vector<std::uint64_t> large(5000, all - 1);
    large[4000] = all;
    large[4001] = (std::uint64_t{1} << 63) + 1;
    auto const u = statistics_of_all(large);
    BOOST_TEST(std::get<std::uint64_t>(*u.min) == large[4001]);
    BOOST_TEST(std::get<std::uint64_t>(*u.max) == all);
    BOOST_TEST(std::get<std::int64_t>(*statistics_of_all(std::vector<std::int8_t>{-128, 5}).min) ==
               -128);
}

BOOST_AUTO_TEST_CASE(every_dtype_is_read_as_conversions_read_it) {
    std::mt19937 random(11);
    std::vector<std::byte> bytes(std::size_t{16} * 3000 + 1);
    for (auto& b : bytes) b = static_cast<std::byte>(random() & 0xff);
    for (int d = 0; d < cairn::dtype_count; ++d) {
        auto const type = static_cast<cairn::dtype>(d);
        auto const kind = cairn::info(type).kind;
        if (kind == cairn::dtype_class::packed) continue;
        BOOST_TEST_CONTEXT(cairn::name_of(type)) {
            auto const* from = bytes.data() + 1;  // not aligned
            std::int64_t const n = 3000;
            std::vector<double> want(static_cast<std::size_t>(n));
            if (kind == cairn::dtype_class::complex) {
                std::vector<std::complex<double>> z(want.size());
                convert_elements(cairn::const_tensor_view(type, {n}, from),
                                 cairn::tensor_view(cairn::dtype::complex128, {n}, z.data()));
                for (std::size_t i = 0; i < z.size(); ++i) want[i] = std::abs(z[i]);
            } else {
                convert_elements(cairn::const_tensor_view(type, {n}, from),
                                 cairn::tensor_view(cairn::dtype::float64, {n}, want.data()));
            }
            auto const got = statistics_of_bytes(type, from, static_cast<std::size_t>(n));
            check_same(got, expected_of(want));
        }
    }
}

BOOST_AUTO_TEST_CASE(packed_numbers_are_two_in_a_byte) {
    std::vector<std::uint8_t> all(256);
    std::iota(all.begin(), all.end(), std::uint8_t{0});
    auto const s = statistics_of_bytes(cairn::dtype::float4_e2m1fn_x2, all.data(), all.size());
    std::vector<double> want;
    for (int i = 0; i < 32; ++i)
        for (double const v : {0., .5, 1., 1.5, 2., 3., 4., 6.}) {
            want.push_back(v);
            want.push_back(-v);
        }
    check_same(s, expected_of(want));
}

BOOST_AUTO_TEST_CASE(a_histogram_counts_each_finite_element_in_its_bin) {
    for (std::size_t const most_bins : {4u, 10u, 1000u}) {
        for (auto const& x :
             {std::vector<double>{0, 0, 0}, std::vector<double>{1e-310, 1, 1e300, -1e308},
              std::vector<double>{-1e308, 1.7e308}, std::vector<double>{-1.7e308, 1.7e308},
              std::vector<double>{1e9, 1e9 + 1e-7, 1e9},
              std::vector<double>{5, std::nan(""), 7, INFINITY, -2},
              std::vector<double>{std::nan("")}, std::vector<double>{-1e-300, -5, -1e-20}}) {
            auto const h = statistics_of_all(x, most_bins).bins;
            BOOST_TEST(h.counts.size() <= most_bins);
            BOOST_TEST(std::isfinite(h.edge(0)));
            std::vector<std::uint64_t> want(h.counts.size());
            for (auto const v : x)
                for (std::size_t i = 0; i < want.size(); ++i)
                    want[i] += v >= h.edge(i) && v < h.edge(i + 1) ? 1 : 0;
            BOOST_TEST(h.counts == want, boost::test_tools::per_element());
            BOOST_TEST(std::accumulate(want.begin(), want.end(), std::uint64_t{0}) ==
                       expected_of(x).finite());
        }
    }
    auto const h = statistics_of_all(std::vector<std::int32_t>{3, 4, 4, 6}, 100).bins;
    BOOST_TEST(h.width() == 1.0);
    BOOST_TEST(h.edge(0) == 3.0);
    BOOST_TEST(h.counts == (std::vector<std::uint64_t>{1, 2, 0, 1}),
               boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_checkpoint_gives_the_same_on_any_number_of_threads) {
    support::scratch const dir;
    auto large = noise(std::size_t{9} << 20, 2);
    std::vector<std::int64_t> small{-3, 0, 5};
    std::vector<double> none;
    double number = 2.5;
    cairn::state_dict sd{
        {"large", cairn::tensor_view(cairn::dtype::float32, {9, 1, 1 << 20}, large.data())},
        {"none", cairn::tensor_view(cairn::dtype::float64, {0, 3}, none.data())},
        {"number", cairn::tensor_view(cairn::dtype::float64, {}, &number)},
        {"small", small},
        {"step", cairn::value(7)}};
    cairn::save(sd, dir.dir.string());
    tool::opened const from(dir.dir.string());
    auto const one = tool::statistics_pass(from, 32).run(1);
    auto const four = tool::statistics_pass(from, 32).run(4);
    BOOST_TEST_REQUIRE(one.size() == 4u);
    BOOST_TEST(one[0].fqn == "large");
    check_same(one[0].found, expected_of({large.begin(), large.end()}));
    check_same(one[1].found, tensor_statistics());
    BOOST_TEST(tool::as_double(*one[2].found.max) == 2.5);
    BOOST_TEST(std::get<std::int64_t>(*one[3].found.min) == -3);
    for (std::size_t i = 0; i < one.size(); ++i) {
        BOOST_TEST(one[i].problem == "");
        BOOST_TEST(four[i].fqn == one[i].fqn);
        BOOST_TEST(one[i].found.squares == four[i].found.squares);
        BOOST_TEST(one[i].found.bins.counts == four[i].found.bins.counts,
                   boost::test_tools::per_element());
    }
}

BOOST_AUTO_TEST_CASE(only_a_damaged_tensor_is_lost) {
    support::scratch const dir;
    cairn::state_dict sd;
    for (int i = 0; i < 100; ++i)
        sd["w" + std::to_string(i)] = std::vector<float>(1000, static_cast<float>(i + 1));
    cairn::save(sd, dir.dir.string());
    for (auto const& f : std::filesystem::directory_iterator(dir.dir)) {
        if (f.path().extension() != ".distcp") continue;
        std::ifstream in(f.path(), std::ios::binary);
        std::string bytes((std::istreambuf_iterator<char>(in)), {});
        std::string const wanted(
            reinterpret_cast<const char*>(std::vector<float>(1000, 8.0f).data()), 4000);
        auto const at = bytes.find(wanted);
        if (at == std::string::npos) continue;
        bytes[at + 77] ^= 1;
        std::ofstream(f.path(), std::ios::binary) << bytes;
    }
    tool::opened const from(dir.dir.string());
    for (auto const& t : tool::statistics_pass(from).run(2)) {
        BOOST_TEST((t.problem.find("'w7'") != std::string::npos) == (t.fqn == "w7"));
        if (t.fqn == "w7") continue;
        BOOST_TEST(t.problem == "");
        BOOST_TEST(t.found.mean == std::stod(t.fqn.substr(1)) + 1);
        BOOST_TEST(t.found.elements == 1000u);
    }
}

BOOST_AUTO_TEST_SUITE_END()
