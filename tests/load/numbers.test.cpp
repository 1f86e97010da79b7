// SPDX-License-Identifier: Apache-2.0
// A number may be stored as a value or as a tensor of one element, and be either in the state.
#include <cairn/cairn.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <string>
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
bool is(const cairn::error& e, errc code) {
    return e.code() == cairn::make_error_code(code);
}

}  // namespace

BOOST_AUTO_TEST_CASE(stored_as_tensors_are_loaded_into_values) {
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

BOOST_AUTO_TEST_CASE(stored_as_values_are_loaded_into_tensors) {
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

BOOST_AUTO_TEST_SUITE_END()
