// SPDX-License-Identifier: Apache-2.0
// What each rank has its own of: values, bytes and tensors, on as many ranks and on others.
#include <cairn/cairn.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

template <>
inline constexpr bool cairn::plain_bytes<std::minstd_rand> = true;

BOOST_AUTO_TEST_SUITE(per_rank)

using cairn::errc;
using cairn::state_dict;
using cairn::value;

namespace {

struct counter {
    std::uint64_t state[3];
    friend bool operator==(const counter&, const counter&) = default;
};

/// One rank's own things, of a size that is its own too.
struct own {
    int seed = -1;
    counter random{};
    std::minstd_rand engine{};
    std::vector<std::int32_t> cache;
    std::int64_t position = 0;

    explicit own(int rank) : cache(static_cast<std::size_t>(rank) + 1) {}
    void fill(int rank) {
        seed = 100 + rank;
        for (auto& s : random.state) s = static_cast<std::uint64_t>(1000 + rank);
        engine.seed(static_cast<unsigned>(rank + 5));
        std::fill(cache.begin(), cache.end(), rank);
        position = 7 * rank;
    }
    bool operator==(const own&) const = default;
    state_dict state() {
        using cairn::per_rank;
        return {{"seed", per_rank(std::ref(seed))},
                {"random", per_rank(cairn::as_bytes(random))},
                {"engine", per_rank(cairn::as_bytes(engine))},
                {"data", state_dict{{"cache", per_rank(cache)}}},
                {"position", per_rank(cairn::converted<double>(position))}};
    }
};

void save(int ranks, cairn::memory_store& store) {
    cairn::run_ranks(ranks, [&](auto& me) {
        own o(me.rank());
        o.fill(me.rank());
        cairn::save(o.state(), "c", me, store);
    });
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_a_ranks_own_comes_back_by_rank) {
    cairn::memory_store store;
    save(3, store);
    std::atomic<int> good{0};
    cairn::run_ranks(3, [&](auto& me) {
        own o(me.rank()), expected(me.rank());
        expected.fill(me.rank());
        cairn::load(o.state(), "c", me, store);
        good += o == expected;
    });
    BOOST_TEST(good == 3);
}

BOOST_AUTO_TEST_CASE(other_readers_see_ordinary_entries) {
    cairn::memory_store store;
    save(2, store);
    auto const tree = cairn::load_tree("c", {}, store);
    auto const& caches = tree.at("data").as_dict().at("cache").as_dict();
    BOOST_TEST(to_string(caches.at("0").as_tensor().global_shape) == "[1]");
    BOOST_TEST(to_string(caches.at("1").as_tensor().global_shape) == "[2]");
    BOOST_TEST(tree.at("seed").as_dict().at("1").as_value().as<int>() == 101);
    auto const bytes = tree.at("random").as_dict().at("0").as_value();
    BOOST_TEST(bytes.as<value::bytes_t>().size() == sizeof(counter));
    BOOST_TEST(to_string(tree.at("position").as_dict().at("1").as_tensor().global_shape) == "[]");
}

BOOST_AUTO_TEST_CASE(another_number_of_ranks_says_whose_state_it_takes) {
    cairn::memory_store store;
    save(4, store);
    cairn::load_options options;
    std::atomic<int> asked{0}, good{0};
    // Two ranks take every other one's, in the proportion that they are told.
    options.planner.per_rank_source = [&](int rank, int saved) {
        asked += saved == 4;
        return rank * saved / 2;
    };
    cairn::run_ranks(2, [&](auto& me) {
        own o(2 * me.rank()), expected(2 * me.rank());
        expected.fill(2 * me.rank());
        cairn::load(o.state(), "c", options, me, store);
        good += o == expected;
    });
    BOOST_TEST(asked == 2 * 5);
    BOOST_TEST(good == 2);
}

/// An elastic job has fewer ranks than it had; what those had of their own is not unexpected.
BOOST_AUTO_TEST_CASE(strict_accepts_what_ranks_that_are_gone_had_of_their_own) {
    cairn::memory_store store;
    save(4, store);
    cairn::load_options options;
    options.planner.strict = true;
    std::atomic<int> good{0}, refused{0};
    cairn::run_ranks(2, [&](auto& me) {
        own o(me.rank()), expected(me.rank());
        expected.fill(me.rank());
        auto const report = cairn::load(o.state(), "c", options, me, store);
        good += o == expected && report.unexpected.empty();
        int seed = 0;
        state_dict only{{"seed", cairn::per_rank(std::ref(seed))}};
        try {
            cairn::load(only, "c", options, me, store);
        } catch (const cairn::error& e) {
            refused += e.code() == cairn::make_error_code(errc::unexpected_key);
        }
    });
    BOOST_TEST(good == 2);
    BOOST_TEST(refused == 2);
}

BOOST_AUTO_TEST_CASE(an_error_says_how_many_ranks_have_saved) {
    cairn::memory_store store;
    save(2, store);
    std::atomic<int> told{0};
    auto const fails = [&](int ranks, const cairn::load_options& options, std::string text) {
        told = 0;
        cairn::run_ranks(ranks, [&](auto& me) {
            own o(me.rank());
            try {
                cairn::load(o.state(), "c", options, me, store);
            } catch (const cairn::error& e) {
                told += e.code() == cairn::make_error_code(errc::missing_key) &&
                        std::string(e.what()).find(text) != std::string::npos;
            }
        });
        BOOST_TEST(told == ranks);
    };
    fails(3, {}, "'seed.2'");
    fails(3, {}, "some of ranks 0 to 1 saved one");
    cairn::load_options options;
    options.planner.per_rank_source = [](int, int saved) { return saved; };
    fails(1, options, "'seed.2'");
    // Nothing of that name: nobody is asked.
    options.planner.per_rank_source = [](int, int) -> int { throw 42; };
    int other = 0;
    BOOST_CHECK_EXCEPTION(
        cairn::load(state_dict{{"other", cairn::per_rank(std::ref(other))}}, "c", options, store),
        cairn::error, [](const cairn::error& e) {
            return e.code() == cairn::make_error_code(errc::missing_key) &&
                   std::string(e.what()).find("per_rank_source") == std::string::npos;
        });
}

BOOST_AUTO_TEST_CASE(an_entry_of_a_list_of_values_may_be_each_ranks_own) {
    cairn::memory_store store;
    auto const verb = [&](int ranks, auto&& f) {
        cairn::run_ranks(ranks, [&](auto& me) {
            int mine = 10 + me.rank(), same = 5;
            f(me, mine,
              state_dict{
                  {"rng", cairn::state_list{cairn::per_rank(std::ref(mine)), std::ref(same)}}});
        });
    };
    verb(2, [&](auto& me, int&, const state_dict& sd) { cairn::save(sd, "c", me, store); });
    verb(2, [&](auto& me, int& mine, const state_dict& sd) {
        mine = 0;
        cairn::load(sd, "c", me, store);
        BOOST_TEST(mine == 10 + me.rank());
    });
    verb(3, [&](auto& me, int&, const state_dict& sd) {
        BOOST_CHECK_EXCEPTION(cairn::load(sd, "c", me, store), cairn::error, [](const auto& e) {
            return e.code() == cairn::make_error_code(errc::missing_key);
        });
    });
}

BOOST_AUTO_TEST_CASE(keys_below_a_name_are_no_ranks) {
    cairn::memory_store store;
    int mine = 5;
    cairn::save(
        state_dict{
            {"rng",
             state_dict{
                 {"0", 1}, {"1x", 2}, {"-3", 3}, {"7.state", 4}, {"99999999999999999999", 5}}}},
        "c", store);
    cairn::load_options options;
    int saved_ranks = -1;
    options.planner.per_rank_source = [&](int rank, int saved) {
        saved_ranks = saved;
        return rank;
    };
    cairn::load(state_dict{{"rng", cairn::per_rank(std::ref(mine))}}, "c", options, store);
    BOOST_TEST(saved_ranks == 1);
    BOOST_TEST(mine == 1);
}

BOOST_AUTO_TEST_CASE(a_dict_is_refused_as_a_ranks_own) {
    BOOST_CHECK_THROW((state_dict{{"d", cairn::per_rank(state_dict{})}}), cairn::error);
}

BOOST_AUTO_TEST_SUITE_END()
