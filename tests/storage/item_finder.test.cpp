// SPDX-License-Identifier: Apache-2.0
// What finds the items of a format: how often it is asked, what its exceptions say, and what it
// costs that many items have the same bytes.
#include "support/known_reader.hpp"

#include <cairn/cairn.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <future>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(item_finder)

namespace {

using cairn::dtype;
using support::counted;
using support::known_reader;
using support::stored;
using support::with_file;

using change_payload = std::function<void(cairn::payload&)>;
/// The processor time of a load of `n` tensors whose locations are the same `n` KiB, four elements
/// of each KiB. They are converted, so that none is read into place.
double seconds_of_views(std::int64_t n, const change_payload& change) {
    auto const length = static_cast<std::uint64_t>(n) * 1024;
    auto const store = with_file("f", std::vector<float>(length / 4, 1.0f));
    cairn::metadata m;
    cairn::state_dict sd;
    std::vector<double> got(static_cast<std::size_t>(n) * 4);
    for (std::int64_t i = 0; i < n; ++i) {
        auto const name = std::to_string(i);
        m.entries[name] = stored(dtype::float32, {4}, "f", 0, length);
        sd[name] = cairn::tensor_view(dtype::float64, {4}, got.data() + 4 * i);
    }
    cairn::item_finder finder;
    finder.find_chunk = [&](cairn::open_file&, const std::string& fqn, auto&&...) {
        cairn::payload p;
        p.shape = {4};
        p.strides = {1};
        p.first = std::stoull(fqn) * 256;
        p.length = length;
        change(p);
        return p;
    };
    cairn::load_options o;
    o.planner.dtypes = cairn::dtype_policy::convert;
    auto const begin = std::clock();
    (void)cairn::load(sd, "", o, known_reader(store, m, finder));
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

}  // namespace

/// Eight times as many in eight times the bytes take about eight times as long, not 64 times.
BOOST_AUTO_TEST_CASE(tensors_that_share_a_storage_do_not_cost_each_other_time) {
    auto const grows = [](std::int64_t n, const change_payload& change) {
        auto const few = seconds_of_views(n, change), many = seconds_of_views(8 * n, change);
        BOOST_TEST(many < 24 * few, few << " s, " << many << " s");
    };
    grows(1000, [](cairn::payload&) {});
    grows(1000, [](cairn::payload& p) { p.big_endian = true; });
    grows(4000, [](cairn::payload& p) {  // not the location's bytes, but some of them
        p.offset = std::exchange(p.first, 0) * 4;
        p.length = 16;
    });
}

/// Parts of one chunk need not stand together in a plan.
BOOST_AUTO_TEST_CASE(a_chunk_is_found_and_reported_once_in_any_order_of_a_plan) {
    cairn::metadata m;
    for (auto const* name : {"a", "b"}) m.entries[name] = stored(dtype::float32, {8}, "f", 0, 32);
    int found = 0;
    cairn::item_finder finder;
    finder.find_chunk = [&](auto&&...) {
        ++found;
        cairn::payload p;
        p.shape = {8};
        p.strides = {1};
        p.length = 32;
        return p;
    };
    cairn::load_plan plan;
    for (std::int64_t i = 0; i < 3; ++i)
        plan.items.push_back({.fqn = i == 1 ? "b" : "a",
                              .kind = cairn::item_kind::tensor,
                              .source_offsets = {2 * i},
                              .target_offsets = {0},
                              .shape = {2}});
    std::vector<float> got(6);
    cairn::read_target target;
    target.resolve_converted = [&](const cairn::read_item& i) {
        return cairn::tensor_view(dtype::float32, {2}, got.data() + i.source_offsets[0]);
    };
    target.commit_tensor = [](auto&&...) {};
    known_reader reader(with_file("f", counted(8)), m, finder);
    reader.set_up_reader(m, {});
    std::promise<cairn::read_result> done;
    reader.read_data(plan, target, cairn::completion<cairn::read_result>([&](auto e, auto r) {
                         e ? done.set_exception(e) : done.set_value(*r);
                     }));
    auto const report = done.get_future().get().unverified;
    BOOST_TEST((got == counted(6)));
    BOOST_TEST(found == 2);
    BOOST_TEST_REQUIRE(report.size() == 1u);
    BOOST_TEST(report[0].ends_with("2 items were written without a checksum"));
}

/// None of them says where it happened.
BOOST_AUTO_TEST_CASE(an_exception_of_a_finder_is_an_error_that_names_tensor_and_file) {
    cairn::metadata m;
    m.entries["w"] = stored(dtype::float32, {4}, "f", 0, 16);
    m.entries["v"] = cairn::value_metadata{{"f", 0, 8, {}, {}}};
    auto const own = make_error_code(boost::system::errc::bad_message);
    auto const missing = make_error_code(cairn::errc::not_found);
    auto const is_named = [&](cairn::error_code code, const std::function<void()>& fail) {
        cairn::item_finder finder;
        finder.find_chunk = [&](auto&&...) {
            fail();
            return cairn::payload();
        };
        finder.read_value = [&](auto&&...) {
            fail();
            return cairn::value();
        };
        std::vector<float> w(4);
        std::int64_t v = 0;
        for (std::string const fqn : {"w", "v"}) {
            auto const is_of_it = [&](const cairn::error& e) {
                auto const& where = e.context();
                return e.code() == code && where.fqn == fqn && where.file.ends_with("f") &&
                       where.found.starts_with("why");
            };
            cairn::state_dict sd;
            if (fqn == "w")
                sd[fqn] = w;
            else
                sd[fqn] = std::ref(v);
            BOOST_CHECK_EXCEPTION(
                (void)cairn::load(sd, "", known_reader(with_file("f", counted(4)), m, finder)),
                cairn::error, is_of_it);
        }
    };
    is_named(make_error_code(cairn::errc::rank_failed), [] { throw std::runtime_error("why"); });
    is_named(own, [&] { throw boost::system::system_error(own, "why"); });
    is_named(own, [&] { throw cairn::error(own, {.found = "why"}); });
    is_named(missing, [&] { throw cairn::error(missing, {.found = "why"}); });
}

BOOST_AUTO_TEST_SUITE_END()
