// SPDX-License-Identifier: Apache-2.0
#include <cairn/state/detail/older_keys.hpp>
#include <cairn/state/flatten.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using cairn::value;

std::vector<std::string> names(const cairn::flattened& f) {
    std::vector<std::string> out;
    for (auto const& l : f.leaves) out.push_back(l.fqn);
    return out;
}

struct app {
    std::vector<float> w{1, 2};
    int told = 0;
    cairn::state_dict state_dict() { return {{"model", cairn::state_dict{{"w", w}}}}; }
    void load_state_dict(const cairn::state_dict&) { ++told; }
};

struct unreadable {};

/// A range whose iterators return tensors, as those of a transforming view do.
struct made_elements {
    struct iterator {
        int at;
        std::vector<float> operator*() const { return {7, 8}; }
        iterator& operator++() { return ++at, *this; }
        friend bool operator==(const iterator&, const iterator&) = default;
    };
    iterator begin() const { return {0}; }
    iterator end() const { return {2}; }
};

struct move_only {
    std::unique_ptr<float[]> data = std::make_unique<float[]>(3);
};

}  // namespace

template <>
struct cairn::tensor_traits<move_only> {
    static tensor_view view(move_only& m) {
        return {dtype::f32, std::vector<int>{3}, m.data.get()};
    }
    static const_tensor_view view(const move_only& m) {
        return {dtype::f32, std::vector<int>{3}, m.data.get()};
    }
};

template <>
struct cairn::value_traits<unreadable> {
    static value to_value(const unreadable&) { throw std::runtime_error("not to be read"); }
    static void from_value(unreadable&, const value&) {}
};

BOOST_AUTO_TEST_SUITE(state)

BOOST_AUTO_TEST_CASE(a_state_is_flattened_by_dcps_rules) {
    std::vector<float> t(2);
    cairn::state_dict sd{
        {"t", t},
        {"empty", cairn::state_dict{}},
        {"plain", value::list({1, 2})},
        {"none_in_it", value::list({})},
        {"pair", value::tuple({1, value::dict({{"a", 1}})})},
        {"groups", value::list({value::dict({{"lr", 0.1}, {"p", value::list({1})}}), 5})},
        {"ints", value::dict({{0, value::dict({{"step", 1}})}})}};
    auto const f = cairn::flatten(sd);
    BOOST_TEST(
        names(f) == (std::vector<std::string>{"t", "plain", "none_in_it", "pair", "groups.0.lr",
                                              "groups.0.p", "groups.1", "ints.0.step"}),
        boost::test_tools::per_element());
    // List positions stay integers in the path, mapping keys become strings.
    BOOST_TEST((f.leaves[4].path ==
                cairn::key_path{std::string("groups"), std::int64_t{0}, std::string("lr")}));
    BOOST_TEST((f.leaves[7].path ==
                cairn::key_path{std::string("ints"), std::string("0"), std::string("step")}));
}

BOOST_AUTO_TEST_CASE(two_paths_of_one_name_are_refused) {
    cairn::state_dict sd{{"a.b", 1}, {"a", cairn::state_dict{{"b", 2}}}};
    BOOST_CHECK_THROW(cairn::flatten(sd), cairn::error);
}

BOOST_AUTO_TEST_CASE(a_range_with_one_name_twice_is_refused) {
    std::vector<float> a{1}, b{2};
    auto const twice = [](const cairn::error& e) {
        std::string const what = e.what();
        return e.code() == make_error_code(cairn::errc::invalid_state) &&
               what.find("'w'") != std::string::npos && what.find("twice") != std::string::npos;
    };
    std::vector<std::pair<std::string, std::vector<float>>> const named{{"w", a}, {"w", b}};
    std::multimap<std::string, std::vector<float>> const ordered{{"w", a}, {"w", b}};
    BOOST_CHECK_EXCEPTION((cairn::state_dict{{"model", named}}), cairn::error, twice);
    BOOST_CHECK_EXCEPTION((cairn::state_dict{{"model", ordered}}), cairn::error, twice);
}

BOOST_AUTO_TEST_CASE(a_stateful_stands_beside_plain_values) {
    app a;
    cairn::state_dict sd{{"app", a}, {"step", 3}};
    auto f = cairn::flatten(sd);
    BOOST_TEST(names(f) == (std::vector<std::string>{"app.model.w", "step"}),
               boost::test_tools::per_element());
    f.notify_loaded();
    BOOST_TEST(a.told == 1);
}

BOOST_AUTO_TEST_CASE(references_are_loaded_in_place_and_misfits_are_errors) {
    int step = 1;
    std::string name = "x";
    cairn::state_dict sd{
        {"step", std::ref(step)}, {"name", std::ref(name)}, {"fixed", std::cref(step)}};
    auto f = cairn::flatten(sd);
    f.leaves[0].value()->set(7);
    f.leaves[1].value()->set("y");
    BOOST_TEST(step == 7);
    BOOST_TEST(name == "y");
    BOOST_CHECK_THROW(f.leaves[0].value()->set("text"), cairn::error);
    BOOST_CHECK_THROW(f.leaves[0].value()->set(std::int64_t{1} << 40), cairn::error);
    BOOST_TEST(!f.leaves[2].value()->set);
}

BOOST_AUTO_TEST_CASE(rvalues_are_owned_and_const_is_read_only) {
    std::vector<float> const constant(2);
    cairn::state_dict sd{
        {"owned", std::vector<float>{1, 2, 3}}, {"moved", move_only{}}, {"c", constant}};
    cairn::state_dict copy = sd;
    sd = {};
    auto const f = cairn::flatten(copy);
    BOOST_TEST(f.leaves[0].tensor()->shards[0].view.elements() == 3);
    BOOST_TEST((f.leaves[1].tensor()->global_shape == cairn::index_vector{3}));
    BOOST_TEST(f.leaves[1].tensor()->writable);
    BOOST_TEST(!f.leaves[2].tensor()->writable);
}

BOOST_AUTO_TEST_CASE(a_loaded_value_sits_where_it_was_given) {
    cairn::state_dict sd{
        {"a", cairn::state_dict{{"b", value::list({value::dict({{"lr", 1.0}})})}}}};
    auto f = cairn::flatten(sd);
    BOOST_TEST(f.leaves[0].fqn == "a.b.0.lr");
    f.leaves[0].value()->set(2.0);
    BOOST_TEST(
        (sd.at("a").as_dict().at("b").as_value() == value::list({value::dict({{"lr", 2.0}})})));
}

BOOST_AUTO_TEST_CASE(maps_and_lists_of_tensors_nest) {
    std::map<std::string, std::vector<double>> m{{"x", {1}}, {"y", {2}}};
    std::vector<std::vector<double>> l{{1}, {2}};
    cairn::state_dict sd{{"m", m}, {"l", l}};
    BOOST_TEST(names(cairn::flatten(sd)) == (std::vector<std::string>{"m.x", "m.y", "l.0", "l.1"}),
               boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_view_lends_the_elements_that_it_refers_to) {
    std::vector<std::pair<std::string, std::vector<float>>> named{{"w", {1, 2}}};
    std::vector<std::vector<float>> listed{{3, 4, 5}};
    std::vector<std::pair<std::string, std::vector<float>&>> referred{{"w", named[0].second}};
    cairn::state_dict const sd{{"named", std::span(named)},
                               {"listed", std::span(listed)},
                               {"referred", std::move(referred)}};
    BOOST_REQUIRE(named[0].second.size() == 2u);
    BOOST_REQUIRE(listed[0].size() == 3u);
    auto const f = cairn::flatten(sd);
    auto const address = [&](std::size_t i) -> const void* {
        return f.leaves[i].tensor()->shards[0].view.data;
    };
    BOOST_TEST(address(0) == named[0].second.data());
    BOOST_TEST(address(1) == listed[0].data());
    BOOST_TEST(address(2) == named[0].second.data());
}

BOOST_AUTO_TEST_CASE(elements_that_a_range_makes_are_owned) {
    made_elements const range;
    cairn::state_dict const sd{{"l", range}};
    auto const f = cairn::flatten(sd);
    BOOST_REQUIRE(f.leaves.size() == 2u);
    for (auto const& leaf : f.leaves) {
        BOOST_TEST((leaf.tensor()->keep != nullptr));
        auto const& view = leaf.tensor()->shards[0].view;
        BOOST_TEST(reinterpret_cast<const float*>(view.data)[0] == 7.0f);
    }
}

using cairn::detail::AmbiguousVariable;
static_assert(AmbiguousVariable<value&> && AmbiguousVariable<std::vector<std::byte>&>);
static_assert(AmbiguousVariable<value::list_t&> && AmbiguousVariable<cairn::big_int&>);
static_assert(!AmbiguousVariable<const value&> && !AmbiguousVariable<value>);
static_assert(!AmbiguousVariable<value::dict_t> && !AmbiguousVariable<const char*&>);

BOOST_AUTO_TEST_CASE(what_a_value_of_a_list_throws_gets_the_name_of_the_list) {
    unreadable u;
    cairn::state_dict const sd{{"l", cairn::state_list{cairn::node(std::ref(u))}}};
    BOOST_CHECK_EXCEPTION(cairn::flatten(sd), cairn::error, [](const cairn::error& e) {
        return e.context().fqn == "l" &&
               std::string(e.what()).find("not to be read") != std::string::npos;
    });
}

// Entry by entry against entry by entry, this takes minutes.
BOOST_AUTO_TEST_CASE(an_old_object_of_many_entries_is_given_to_them_in_one_pass) {
    cairn::state_dict d;
    std::vector<std::pair<value, value>> stored;
    for (int i = 0; i < 50000; ++i) {
        d[std::to_string(i)] = cairn::node(0);
        stored.emplace_back(i % 2 == 0 ? value(i) : value(std::to_string(i)), -i);
    }
    cairn::detail::older_keys::assign(d, value::dict(stored));
    BOOST_TEST(d.at("49999").as_value().as<int>() == -49999);
    BOOST_TEST(d.at("31").as_value().as<int>() == -31);
    stored.pop_back();
    BOOST_CHECK_EXCEPTION(cairn::detail::older_keys::assign(d, value::dict(stored)), cairn::error,
                          [](const cairn::error& e) {
                              return e.context().expected.find("'49999'") != std::string::npos;
                          });
}

BOOST_AUTO_TEST_CASE(numbers_of_any_size_print_in_full) {
    using cairn::big_int;
    std::vector<std::uint8_t> two_to_80(11, 0);
    two_to_80[10] = 1;
    BOOST_TEST(big_int(two_to_80).to_string() == "1208925819614629174706176");
    BOOST_TEST(big_int(std::int64_t{-1}).to_string() == "-1");
    BOOST_TEST(big_int(INT64_MIN).to_string() == "-9223372036854775808");
    BOOST_TEST(big_int(~std::uint64_t{0}).to_string() == "18446744073709551615");
    // Python prints up to 4300 digits; a megabyte of them would take hours.
    std::vector<std::uint8_t> digits(1785, 0xff);
    digits.push_back(0);
    auto const longest = big_int(digits).to_string();
    BOOST_TEST(longest.size() == 4299u);
    BOOST_TEST(longest.substr(0, 5) == "51090");
    digits.back() = 1;
    BOOST_TEST(big_int(digits).to_string() == "0x1" + std::string(2 * 1785, 'f'));
    std::vector<std::uint8_t> negative(std::size_t{1} << 20, 0);
    negative.back() = 0xff;
    BOOST_TEST(big_int(negative).to_string() ==
               "-0x1" + std::string(2 * ((std::size_t{1} << 20) - 1), '0'));
    BOOST_TEST(value(~std::uint64_t{0}).as<std::uint64_t>() == ~std::uint64_t{0});
    BOOST_CHECK_THROW(value(300).as<std::uint8_t>(), cairn::error);
    BOOST_CHECK_THROW(value(-1).as<unsigned>(), cairn::error);
}

BOOST_AUTO_TEST_SUITE_END()
