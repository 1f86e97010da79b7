// SPDX-License-Identifier: Apache-2.0
#include <cairn/state/converted.hpp>

#include <cairn/state/flatten.hpp>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(converted)

using cairn::converted;
using cairn::errc;
using cairn::detail::number_as;

namespace {

template <class T>
T element(const cairn::tensor_leaf& leaf) {
    T x{};
    std::memcpy(&x, leaf.shards.at(0).view.data, sizeof x);
    return x;
}
template <class T>
void fill(cairn::flat_leaf& leaf, T x) {
    std::memcpy(leaf.tensor()->shards.at(0).target, &x, sizeof x);
}
auto fails_with(errc code, std::vector<std::string> words) {
    return [=](const cairn::error& e) {
        std::string const text = e.what();
        bool all = e.code() == cairn::make_error_code(code);
        for (auto const& w : words) all = all && text.find(w) != std::string::npos;
        if (!all) BOOST_TEST_MESSAGE(text);
        return all;
    };
}

}  // namespace

BOOST_AUTO_TEST_CASE(numbers_convert_if_they_fit) {
    using limits = std::numeric_limits<std::int64_t>;
    BOOST_TEST(number_as<float>(std::int64_t{16777216}).value() == 16777216.0f);
    BOOST_TEST(number_as<float>(std::int64_t{16777217}).value() == 16777216.0f);  // rounded
    BOOST_TEST(number_as<std::int64_t>(7.0f).value() == 7);
    BOOST_TEST(number_as<std::int64_t>(-0.0).value() == 0);
    BOOST_TEST(number_as<std::int64_t>(-9223372036854775808.0).value() == limits::min());
    BOOST_TEST(!number_as<std::int64_t>(9223372036854775808.0));
    BOOST_TEST(!number_as<std::int64_t>(9223372036854775808.0f));
    BOOST_TEST(!number_as<std::int64_t>(-9223373136366403584.0f));
    BOOST_TEST(!number_as<std::int64_t>(1.5f));
    BOOST_TEST(!number_as<std::int64_t>(std::nan("")));
    BOOST_TEST(!number_as<std::int64_t>(HUGE_VAL));
    BOOST_TEST(!number_as<std::uint32_t>(-1.0f));
    BOOST_TEST(!number_as<std::uint32_t>(-1));
    BOOST_TEST(number_as<std::uint8_t>(255.0).value() == 255);
    BOOST_TEST(!number_as<std::uint8_t>(256.0));
    BOOST_TEST(!number_as<std::int32_t>(std::int64_t{1} << 31));
    BOOST_TEST(!number_as<float>(1e300));
    BOOST_TEST(std::isnan(number_as<float>(std::nan("")).value()));
    BOOST_TEST(std::isinf(number_as<float>(HUGE_VAL).value()));
    BOOST_TEST(number_as<bool>(1.0f).value());
    BOOST_TEST(!number_as<bool>(2));
    BOOST_TEST(number_as<double>(true).value() == 1.0);
    BOOST_TEST(number_as<std::uint64_t>(true).value() == 1U);
}

BOOST_AUTO_TEST_CASE(a_number_is_shown_as_it_is_and_set_when_it_was_loaded) {
    std::int64_t step = 5;
    cairn::state_dict d{{"step", converted<float>(step)}};
    step = 6;
    auto f = cairn::flatten(d);
    auto const& leaf = *f.leaves[0].tensor();
    BOOST_TEST((leaf.type == cairn::dtype::float32));
    BOOST_TEST(leaf.global_shape.empty());
    BOOST_TEST(!leaf.sharded);
    BOOST_TEST(element<float>(leaf) == 6);
    step = 7;
    BOOST_TEST(element<float>(leaf) == 6);  // as it was when the verb began
    BOOST_TEST(element<float>(d.at("step").as_tensor()) == 7);
    step = 6;
    fill(f.leaves[0], 1000.0f);
    BOOST_TEST(step == 6);
    cairn::detail::give_back(f.leaves);
    BOOST_TEST(step == 1000);
}

BOOST_AUTO_TEST_CASE(what_was_not_loaded_is_not_set) {
    std::int64_t step = 16777217;  // float32 holds it rounded
    cairn::state_dict d{{"step", converted<float>(step)}};
    auto f = cairn::flatten(d);
    cairn::detail::give_back(f.leaves);
    BOOST_TEST(step == 16777217);
    // Loaded twice, as when a checkpoint is replaced meanwhile: the second counts.
    fill(f.leaves[0], 3.0f);
    cairn::detail::give_back(f.leaves);
    BOOST_TEST(step == 3);
    fill(f.leaves[0], 16777216.0f);
    cairn::detail::give_back(f.leaves);
    BOOST_TEST(step == 16777216);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_named_and_sets_nothing) {
    std::int32_t step = 5;
    cairn::state_dict d{{"optim", cairn::state_dict{{"step", converted<double>(step)}}}};
    auto f = cairn::flatten(d);
    for (double const bad : {1.5, 1e30, std::nan("")}) {
        fill(f.leaves[0], bad);
        BOOST_CHECK_EXCEPTION(cairn::detail::give_back(f.leaves), cairn::error,
                              fails_with(errc::dtype_mismatch, {"'optim.step'", "int32"}));
        BOOST_TEST(step == 5);
    }
    std::int64_t large = 300;
    cairn::state_dict narrow{{"n", converted<std::uint8_t>(large)}};
    BOOST_CHECK_EXCEPTION(cairn::flatten(narrow), cairn::error,
                          fails_with(errc::dtype_mismatch, {"'n'", "uint8", "300"}));
}

BOOST_AUTO_TEST_CASE(one_number_under_several_names_is_one_memory) {
    std::int64_t step = 5, other = 5;
    auto f = cairn::flatten(cairn::state_dict{{"a", converted<float>(step)},
                                              {"b", converted<float>(step)},
                                              {"c", converted<double>(step)},
                                              {"d", converted<float>(other)}});
    auto const memory = [&](std::size_t i) { return f.leaves[i].tensor()->shards[0].target; };
    BOOST_TEST(memory(0) == memory(1));
    BOOST_TEST(memory(0) != memory(2));
    BOOST_TEST(memory(0) != memory(3));
    fill(f.leaves[1], 9.0f);
    cairn::detail::give_back(f.leaves);
    BOOST_TEST(step == 9);
    BOOST_TEST(other == 5);
}

BOOST_AUTO_TEST_CASE(const_numbers_are_read_only) {
    std::int64_t const step = 5;
    std::int64_t own = 6;
    auto const f = cairn::flatten(cairn::state_dict{{"step", converted<float>(step)},
                                                    {"shown", converted<float>(std::as_const(own))},
                                                    {"own", converted<float>(own)}});
    BOOST_TEST(!f.leaves[0].tensor()->writable);
    BOOST_TEST(element<float>(*f.leaves[0].tensor()) == 5);
    BOOST_TEST(!f.leaves[1].tensor()->writable);
    BOOST_TEST(f.leaves[2].tensor()->writable);
}

BOOST_AUTO_TEST_CASE(a_number_may_be_converted_through_functions) {
    struct counter {
        int n = 3, sets = 0;
    } c;
    auto number = converted<std::int64_t>([&] { return c.n; },
                                          [&](std::int64_t n) {
                                              if (n < 0) throw std::runtime_error("negative");
                                              c.n = static_cast<int>(n), ++c.sets;
                                          });
    static_assert(cairn::Tensor<decltype(number)>);
    cairn::state_dict d{{"n", number}};
    auto f = cairn::flatten(d);
    cairn::detail::give_back(f.leaves);
    BOOST_TEST(c.sets == 0);
    fill(f.leaves[0], std::int64_t{8});
    auto const undo = cairn::detail::give_back(f.leaves[0].tensor()->number);
    BOOST_TEST(c.n == 8);
    undo();
    BOOST_TEST(c.n == 3);
    fill(f.leaves[0], std::int64_t{-8});
    BOOST_CHECK_THROW(cairn::detail::give_back(f.leaves), std::runtime_error);
    BOOST_TEST(c.n == 3);
}

BOOST_AUTO_TEST_CASE(what_functions_throw_gets_the_name_of_the_number) {
    bool broken = false;
    auto const get = [&] {
        if (broken) throw std::runtime_error("no step");
        return 1.0f;
    };
    auto const set = [](float) { throw std::runtime_error("not set"); };
    cairn::state_dict const d{{"a", cairn::state_dict{{"step", converted<float>(get, set)}}}};
    auto const says = [](const char* what) {
        return [what](const cairn::error& e) {
            return e.context().fqn == "a.step" &&
                   std::string(e.what()).find(what) != std::string::npos;
        };
    };
    auto f = cairn::flatten(d);
    fill(f.leaves[0], 5.0f);
    BOOST_CHECK_EXCEPTION(cairn::detail::give_back(f.leaves), cairn::error, says("not set"));
    broken = true;
    BOOST_CHECK_EXCEPTION(cairn::flatten(d), cairn::error, says("no step"));
}

BOOST_AUTO_TEST_SUITE_END()
