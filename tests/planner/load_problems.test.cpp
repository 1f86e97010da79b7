// SPDX-License-Identifier: Apache-2.0
#include <cairn/planner/detail/load_problems.hpp>

#include <cairn/cairn.hpp>

#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(load_problems)

namespace {

cairn::metadata keys(std::size_t n) {
    cairn::metadata m;
    for (std::size_t i = 0; i < n; ++i)
        m.entries["model.layers." + std::to_string(i) + ".weight"] = cairn::value_metadata{};
    return m;
}
std::string refused(cairn::detail::load_problems& p) {
    try {
        p.refuse();
    } catch (const cairn::error& e) {
        BOOST_TEST((e.code() == cairn::make_error_code(cairn::errc::missing_key)));
        return e.what();
    }
}
bool has(const std::string& s, const std::string& part) {
    return s.find(part) != s.npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(problems_say_what_was_probably_meant) {
    auto const m = keys(3);
    cairn::detail::load_problems p;
    p.add_missing("layers.1.weight", 0, m);
    p.add_missing("module.model.layers.2.weight", 0, m);
    p.add_missing("yers.1.weight", 0, m);
    p.add_missing("rng.7", 7, m);
    auto const what = refused(p);
    BOOST_TEST(has(what, "the checkpoint has 'model.layers.1.weight'"), what);
    BOOST_TEST(has(what, "the checkpoint has 'model.layers.2.weight'"), what);
    BOOST_TEST(has(what, "set load_options::planner.partial, or correct the name"), what);
    BOOST_TEST(has(what, "planner.per_rank_source, or set planner.partial"), what);
    BOOST_TEST(!has(what, "more"), what);
    BOOST_TEST(p.empty());
}

/// As many as there are: what is said of them is as long as what is said of five.
BOOST_AUTO_TEST_CASE(many_problems_are_said_in_few_words) {
    auto const m = keys(100'000);
    cairn::detail::load_problems p;
    for (std::size_t i = 0; i < 100'000; ++i)
        p.add_missing("mdoel.layers." + std::to_string(i) + ".weight", i % 7 == 6 ? 7 : 0, m);
    auto const what = refused(p);
    BOOST_TEST(has(what, "'mdoel.layers.0.weight'"), what);
    BOOST_TEST(has(what, "'mdoel.layers.3.weight'"), what);
    BOOST_TEST(!has(what, "'mdoel.layers.4.weight'"), what);
    BOOST_TEST(has(what, "and 99996 more"), what);
    BOOST_TEST(what.size() < 1000u);
}

BOOST_AUTO_TEST_CASE(all_problems_of_a_load_are_in_the_report) {
    constexpr int n = 2000;
    cairn::memory_store store;
    std::vector<int> numbers(n);
    cairn::state_dict stored, wanted;
    for (int i = 0; i < n; ++i) {
        auto const number = std::ref(numbers[static_cast<std::size_t>(i)]);
        stored["model.layer." + std::to_string(i)] = number;
        wanted["mdoel.layer." + std::to_string(i)] = number;
    }
    cairn::save(cairn::state_dict{{"net", stored}}, "c", store);
    cairn::state_dict sd{{"net", wanted}};
    BOOST_CHECK_EXCEPTION(cairn::load(sd, "c", store), cairn::error, [](const cairn::error& e) {
        return e.code() == cairn::make_error_code(cairn::errc::missing_key) &&
               std::string(e.what()).size() < 2000 && has(e.what(), "and 1996 more");
    });
    cairn::load_options o;
    o.planner.partial = true;
    auto const report = cairn::load(sd, "c", o, store);
    BOOST_TEST(report.missing.size() == 2000u);
    BOOST_TEST(report.unexpected.size() == 2000u);
}

BOOST_AUTO_TEST_CASE(problems_are_told_in_one_sentence_where_the_first_has_no_remedy) {
    cairn::detail::load_problems p;
    p.add(cairn::errc::shape_mismatch, {.fqn = "a", .expected = "[2]", .found = "[3]"});
    for (auto const* fqn : {"b", "c", "d", "e"})
        p.add(cairn::errc::shape_mismatch, {.fqn = fqn, .remedy = "x"});
    BOOST_CHECK_EXCEPTION(p.refuse(), cairn::error, [](const cairn::error& e) {
        return std::string(e.what()) ==
               "'a': shapes differ; expected [2], found [3]; also 'b': shapes differ; x; "
               "also 'c': shapes differ; x; also 'd': shapes differ; x; and 1 more";
    });
}

BOOST_AUTO_TEST_SUITE_END()
