// SPDX-License-Identifier: Apache-2.0
// A number may be stored as a value or as a tensor of one element, and be either in the state.
#include "odd_planner.hpp"
#include "support/counting_store.hpp"
#include "support/error_codes.hpp"

#include <cairn/cairn.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(numbers_and_tensors)

namespace {

using cairn::dtype;
using cairn::errc;
using cairn::state_dict;
using cairn::value;

template <class T>
cairn::tensor_view one(dtype type, T& x, const cairn::index_vector& shape = {}) {
    return cairn::tensor_view(type, shape, &x);
}
using support::is;

}  // namespace

BOOST_AUTO_TEST_CASE(numbers_stored_as_tensors_are_loaded_into_values) {
    cairn::memory_store store;
    float lr = 0.5f, step = 1000, half = 2.5f;
    std::int64_t count = -7;
    bool flag = true;
    cairn::save(state_dict{{"lr", one(dtype::float32, lr)},
                           {"any", one(dtype::float32, lr, {1})},
                           {"step", one(dtype::float32, step)},
                           {"count", one(dtype::int64, count, {1, 1})},
                           {"flag", one(dtype::boolean, flag)},
                           {"half", one(dtype::float32, half)}},
                "c", store);
    double loaded = 0;
    value any = "text";
    std::int64_t steps = 0;
    std::int8_t small = 0;
    bool set = false;
    state_dict to{{"lr", std::ref(loaded)},
                  {"any", std::ref(any)},
                  {"step", std::ref(steps)},
                  {"count", std::ref(small)},
                  {"flag", std::ref(set)}};
    cairn::load(to, "c", store);
    BOOST_TEST(loaded == 0.5);
    BOOST_TEST((any == value(0.5)));
    BOOST_TEST(steps == 1000);
    BOOST_TEST(small == -7);
    BOOST_TEST(set);
    state_dict whole{{"half", std::ref(steps)}};
    BOOST_CHECK_EXCEPTION(cairn::load(whole, "c", store), cairn::error, [](const auto& e) {
        return is(e, errc::value_mismatch) && e.context().fqn == "half";
    });
    BOOST_TEST(steps == 1000);
}

BOOST_AUTO_TEST_CASE(numbers_stored_as_values_are_loaded_into_tensors) {
    cairn::memory_store store;
    cairn::save(state_dict{{"lr", 0.5}, {"step", 1000}, {"count", 300}, {"flag", true}, {"s", "x"}},
                "c", store);
    float lr = 0, step = 0;
    std::int16_t count = 0;
    std::int8_t small = 5;
    bool flag = false;
    std::int64_t kept = 0;
    state_dict to{{"lr", one(dtype::float32, lr, {1})},
                  {"step", one(dtype::float32, step)},
                  {"count", one(dtype::int16, count)},
                  {"flag", one(dtype::boolean, flag)}};
    cairn::load(to, "c", store);
    BOOST_TEST(lr == 0.5f);
    BOOST_TEST(step == 1000.0f);
    BOOST_TEST(count == 300);
    BOOST_TEST(flag);
    state_dict converted{{"step", cairn::converted<float>(kept)}};
    cairn::load(converted, "c", store);
    BOOST_TEST(kept == 1000);
    float pinned = 0;
    cairn::tensor_view const there(dtype::float32, {}, &pinned,
                                   cairn::device_id{cairn::memory_kind::pinned});
    cairn::load(state_dict{{"lr", there}}, "c", store);
    BOOST_TEST(pinned == 0.5f);
    // What does not fit is refused before anything changes.
    state_dict narrow{{"lr", one(dtype::float32, lr, {1})}, {"count", one(dtype::int8, small)}};
    lr = 1;
    BOOST_CHECK_EXCEPTION(cairn::load(narrow, "c", store), cairn::error, [](const auto& e) {
        return is(e, errc::value_mismatch) && e.context().fqn == "count" && !e.state_modified();
    });
    BOOST_TEST(small == 5);
    BOOST_TEST(lr == 1.0f);
    state_dict text{{"s", one(dtype::float32, lr)}};
    BOOST_CHECK_EXCEPTION(cairn::load(text, "c", store), cairn::error,
                          [](const auto& e) { return is(e, errc::kind_mismatch); });
    std::vector<float> two(2);
    state_dict more{{"lr", two}};
    BOOST_CHECK_EXCEPTION(cairn::load(more, "c", store), cairn::error,
                          [](const auto& e) { return is(e, errc::kind_mismatch); });
}

/// A load that is restarted begins with the state's own kinds again.
BOOST_AUTO_TEST_CASE(numbers_of_a_checkpoint_that_is_replaced_are_planned_anew) {
    float lr = 0.5f;
    std::vector<float> w(4, 1);
    auto const restarted = [&](state_dict to, const state_dict& before, const state_dict& after) {
        cairn::memory_store memory;
        cairn::save(before, "c", memory);
        support::counting_store<cairn::memory_store> store(memory);
        int replaced = 0;
        store.on_open([&](std::string_view name) {
            if (name.ends_with(".distcp") && replaced++ == 0) cairn::save(after, "c", memory);
        });
        cairn::load_options o;
        o.planner.partial = true;
        cairn::load(to, "c", o, store);
        BOOST_TEST(replaced > 0);
    };
    double loaded = 0.25;
    std::vector<float> read(4);
    state_dict const to{{"lr", std::ref(loaded)}, {"w", read}};
    restarted(to, state_dict{{"lr", one(dtype::float32, lr)}, {"w", w}}, state_dict{{"w", w}});
    BOOST_TEST(loaded == 0.25);
    int own = 3;
    restarted(state_dict{{"own", cairn::per_rank(std::ref(own))}, {"w", read}},
              state_dict{{"own", cairn::per_rank(one(dtype::float32, lr))}, {"w", w}},
              state_dict{{"own", cairn::per_rank(cairn::value(7))}, {"w", w}});
    BOOST_TEST(own == 7);
    // What PyTorch 2.3 stored whole.
    double rate = 0;
    BOOST_CHECK_EXCEPTION(
        restarted(state_dict{{"opt", state_dict{{"lr", std::ref(rate)}}}, {"w", read}},
                  state_dict{{"opt", state_dict{{"lr", one(dtype::float32, lr)}}}, {"w", w}},
                  state_dict{{"opt", value::list({1})}, {"w", w}}),
        cairn::error,
        [](const auto& e) { return is(e, errc::kind_mismatch) && e.context().fqn == "opt"; });
    BOOST_TEST(rate == 0);
}

/// Whenever it is replaced, also when the files of some numbers have been read already.
BOOST_AUTO_TEST_CASE(converted_numbers_that_the_new_checkpoint_lacks_stay_as_they_are) {
    int saved = 7, at = 0, opened = 0, warned = 0;
    std::vector<float> w(4, 1), read(4);
    cairn::save_options in_files;
    in_files.storage.single_file_per_rank = false;
    do {
        cairn::memory_store memory;
        cairn::save(state_dict{{"a", cairn::converted<float>(saved)},
                               {"b", cairn::converted<double>(saved)},
                               {"w", w}},
                    "c", in_files, memory);
        support::counting_store<cairn::memory_store> store(memory);
        opened = 0;
        store.on_open([&](std::string_view) {
            if (opened++ == at) cairn::save(state_dict{{"w", w}}, "c", memory);
        });
        int a = 3, b = 3;
        cairn::load_options o;
        o.planner.partial = true;
        o.storage.thread_count = 1;
        auto const report = cairn::load(
            state_dict{
                {"a", cairn::converted<float>(a)}, {"b", cairn::converted<double>(b)}, {"w", read}},
            "c", o, store);
        BOOST_TEST_CONTEXT("replaced before object " << at << " was opened") {
            auto const kept = report.missing.empty() ? saved : 3;
            BOOST_TEST(a == kept);
            BOOST_TEST(b == kept);
            for (auto const& text : report.warnings) {
                BOOST_TEST_INFO(text);
                BOOST_TEST((text.find("'a' is missing") != text.npos &&
                            text.find("1 other missing name") != text.npos));
                ++warned;
            }
        }
    } while (at++ < opened);
    BOOST_TEST(warned > 0);
}

BOOST_AUTO_TEST_CASE(numbers_that_a_planner_drops_stay_as_they_are) {
    cairn::memory_store store;
    float lr = 0.5f;
    cairn::save(state_dict{{"lr", one(dtype::float32, lr)}}, "c", store);
    double loaded = 0.25;
    state_dict to{{"lr", std::ref(loaded)}};
    cairn::load(to, "c", store, odd_planner{cairn::default_planner(), "lr"});
    BOOST_TEST(loaded == 0.25);
    cairn::load(to, "c", store, odd_planner{cairn::default_planner()});
    BOOST_TEST(loaded == 0.5);
}

/// Nothing becomes infinite, NaN, or the largest that there is.
BOOST_AUTO_TEST_CASE(numbers_that_a_narrow_tensor_does_not_hold_are_refused) {
    cairn::memory_store store;
    cairn::save(state_dict{{"f16", 65536.0},
                           {"f32", 1e39},
                           {"e4m3fn", 500.0},
                           {"e4m3fnuz", 300},
                           {"e8m0", -2.0},
                           {"small", 1e-60},
                           {"infinite", std::numeric_limits<double>::infinity()},
                           {"half", 0.5}},
                "c", store);
    std::uint32_t element = 0x3f3f3f3f;
    auto const load_into = [&](const std::string& key, dtype type) {
        state_dict to{{key, one(type, element)}};
        cairn::load(to, "c", store);
    };
    std::vector<std::pair<std::string, dtype>> const narrow{{"f16", dtype::float16},
                                                            {"f32", dtype::float32},
                                                            {"f32", dtype::bfloat16},
                                                            {"e4m3fn", dtype::float8_e4m3fn},
                                                            {"e4m3fnuz", dtype::float8_e4m3fnuz},
                                                            {"e8m0", dtype::float8_e8m0fnu}};
    for (auto const& one_of : narrow) {
        auto const& key = one_of.first;
        BOOST_CHECK_EXCEPTION(load_into(key, one_of.second), cairn::error, [&](const auto& e) {
            return is(e, errc::value_mismatch) && e.context().fqn == key && !e.state_modified();
        });
        BOOST_TEST(element == 0x3f3f3f3fu);
    }
    load_into("small", dtype::float32);
    BOOST_TEST(element == 0u);
    load_into("infinite", dtype::float32);
    BOOST_TEST(element == 0x7f800000u);
    // What the program keeps it in is looked at before other memory changes.
    int kept = 3;
    element = 5;
    state_dict both{{"half", cairn::converted<float>(kept)},
                    {"small", one(dtype::float32, element)}};
    BOOST_CHECK_EXCEPTION(cairn::load(both, "c", store), cairn::error, [](const auto& e) {
        return is(e, errc::dtype_mismatch) && e.context().fqn == "half" && !e.state_modified();
    });
    BOOST_TEST(element == 5u);
}

BOOST_AUTO_TEST_SUITE_END()
