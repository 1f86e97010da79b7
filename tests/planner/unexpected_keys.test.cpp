// SPDX-License-Identifier: Apache-2.0
#include <cairn/planner/detail/unexpected_keys.hpp>

#include <cairn/cairn.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(unexpected_keys)

namespace {

using names = std::vector<std::string>;
using cairn::detail::wire_writer;

std::string text(const wire_writer& w) {
    return {reinterpret_cast<const char*>(w.written().data()), w.size()};
}

}  // namespace

BOOST_AUTO_TEST_CASE(unexpected_keys_are_told_in_a_few_bytes) {
    std::mt19937_64 random(1);
    for (int round = 0; round < 200; ++round) {
        cairn::metadata m;
        names all, chosen;
        for (auto n = random() % 50; n > 0; --n) {
            auto const key = "k" + std::to_string(random() % 1000);
            m.entries[key] = cairn::value_metadata{};
        }
        auto const density = random() % 4;
        for (auto const& [key, entry] : m.entries)
            if (random() % 4 < density) chosen.push_back(key);
        cairn::detail::unexpected_keys const keys(chosen, m);
        auto const data = keys.encode();
        BOOST_TEST(!data.empty());
        BOOST_TEST(data.size() <= m.entries.size() + 2);
        BOOST_TEST((keys.decode(data, m) == chosen));
    }
}

BOOST_AUTO_TEST_CASE(unexpected_keys_from_elsewhere_are_checked) {
    cairn::metadata m;
    for (auto const* key : {"a", "b", "c"}) m.entries[key] = cairn::value_metadata{};
    for (auto const& runs : std::vector<std::vector<std::uint64_t>>{
             {4}, {0, 4}, {1, 1, 2}, {UINT64_MAX}, {1, UINT64_MAX}, {2, 1, UINT64_MAX}}) {
        wire_writer w;
        for (auto const n : runs) w.varint(n);
        BOOST_CHECK_THROW((void)cairn::detail::unexpected_keys::decode(text(w), m), cairn::error);
    }
    wire_writer cut;
    cut.u8(0x80);
    BOOST_CHECK_THROW((void)cairn::detail::unexpected_keys::decode(text(cut), m), cairn::error);
}

/// Stages of a pipeline: each wants its own keys, and is told only of those that nobody wants.
BOOST_AUTO_TEST_CASE(unexpected_keys_are_those_that_no_rank_wants) {
    cairn::memory_store store;
    {
        std::vector<float> w{1, 2}, empty;
        cairn::state_dict sd{{"first", w}, {"last", w}, {"none", empty},
                             {"step", 7},  {"more", 8}, {"also", w}};
        cairn::save(sd, "c", store);
    }
    for (int ranks : {1, 2, 3}) {
        std::vector<names> unexpected(static_cast<std::size_t>(ranks));
        cairn::run_ranks(ranks, [&](cairn::thread_group::member& me) {
            std::vector<float> w(2), none;
            int step = 0;
            cairn::state_dict sd{{me.rank() == 0 ? "first" : "last", w}};
            if (me.rank() == ranks - 1) sd["none"] = cairn::node(none);
            if (me.rank() == 1) sd["step"] = cairn::node(std::ref(step));
            auto const r = cairn::load(sd, "c", me, store);
            unexpected[static_cast<std::size_t>(me.rank())] = r.unexpected;
        });
        for (auto const& u : unexpected)
            BOOST_TEST((
                u == (ranks == 1 ? names{"also", "last", "more", "step"} : names{"also", "more"})));
    }
}

/// A plan of another planner says by its items what its rank wants; one of the default planner also
/// if it is sent without them.
BOOST_AUTO_TEST_CASE(unexpected_keys_are_found_from_items_and_without_them) {
    cairn::metadata m;
    for (auto const* key : {"a", "b", "c", "d"}) m.entries[key] = cairn::value_metadata{};
    names const all{"a", "b", "c", "d"};
    names const of_one{"a", "c", "d"}, of_another{"a", "b", "c"};
    cairn::detail::unexpected_keys keys(all, m);
    std::vector<cairn::load_plan> plans(2);
    plans[0].planner_data = cairn::detail::unexpected_keys(of_one, m).of_rank();
    plans[1].planner_data = "what another planner has to say";
    plans[1].items.emplace_back().fqn = "d";
    plans[1].no_items = {"c"};
    keys.keep_those_of_all(plans);
    BOOST_TEST((keys.decode(keys.encode(), m) == names{"a"}));
    cairn::detail::unexpected_keys none(of_another, m);
    none.keep_those_of_all(plans);
    BOOST_TEST((none.size() == 1u && none.first() == "a"));
    // One that says nothing: its items may have stayed on its rank.
    plans.emplace_back().planner_data = "what another planner has to say";
    none.keep_those_of_all(plans);
    BOOST_TEST(none.empty());

    names told = of_one;
    for (auto const& data : {std::string(), plans[0].planner_data, plans[1].planner_data}) {
        cairn::detail::unexpected_keys::receive(data, m, told);
        BOOST_TEST((told == of_one), data);
    }
    cairn::detail::unexpected_keys::receive(keys.of_all(), m, told);
    BOOST_TEST((told == names{"a"}));
}

BOOST_AUTO_TEST_CASE(unexpected_keys_are_counted_where_they_are_refused) {
    cairn::memory_store store;
    cairn::save(cairn::state_dict{{"a", 1}, {"b", 2}, {"c", 3}}, "c", store);
    int a = 0;
    cairn::state_dict sd{{"a", std::ref(a)}};
    cairn::load_options o;
    o.planner.strict = true;
    BOOST_CHECK_EXCEPTION(cairn::load(sd, "c", o, store), cairn::error, [](const cairn::error& e) {
        return e.code() == cairn::make_error_code(cairn::errc::unexpected_key) &&
               e.context().fqn == "b" && e.context().found == "2 of them" && !e.state_modified();
    });
    BOOST_TEST(a == 0);
}

BOOST_AUTO_TEST_SUITE_END()
