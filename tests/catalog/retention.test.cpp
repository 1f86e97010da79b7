// SPDX-License-Identifier: Apache-2.0
// Which checkpoints are kept: each rule against its definition, on random lists.
#include <cairn/catalog/retention.hpp>
#include <cairn/error.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <variant>
#include <vector>

BOOST_AUTO_TEST_SUITE(catalog_retention)

using cairn::retention;
using cairn::detail::kept_or_not;
using cairn::detail::not_kept;

namespace {

constexpr std::int64_t now = 1'000'000'000;

kept_or_not one(std::uint64_t sequence, std::int64_t step) {
    kept_or_not c;
    c.id = "step_" + std::to_string(step);
    c.record.sequence = sequence;
    c.record.step = step;
    c.record.committed = now - 1000 + static_cast<std::int64_t>(sequence);
    return c;
}
std::string ids(const std::vector<kept_or_not>& all) {
    std::string s;
    for (auto const& c : all) s += (s.empty() ? "" : " ") + c.id;
    return s;
}
std::set<std::string> set_of(const std::vector<kept_or_not>& all) {
    std::set<std::string> s;
    for (auto const& c : all) s.insert(c.id);
    return s;
}

/// What a rule says of one checkpoint, by counting.
struct keeps {
    const kept_or_not& c;
    const std::vector<kept_or_not>& all;
    std::uint64_t loaded;  ///< Its number; 0: none.

    bool operator()(const cairn::detail::keep_last& r) const {
        auto const newer = std::count_if(all.begin(), all.end(), [&](auto const& o) {
            return o.record.sequence > c.record.sequence && o.record.sequence != loaded;
        });
        // The loaded one is one of them.
        return static_cast<std::size_t>(newer) + (loaded != 0 ? 1 : 0) < r.count;
    }
    bool operator()(const cairn::detail::keep_every& r) const {
        return c.record.step % r.steps == 0;
    }
    bool operator()(const cairn::detail::keep_best& r) const {
        auto const value = [&](const kept_or_not& o) {
            auto const it = o.record.metrics.find(r.metric);
            return it == o.record.metrics.end() ? std::nan("") : it->second;
        };
        auto const mine = value(c);
        if (std::isnan(mine)) return false;
        auto const ahead = std::count_if(all.begin(), all.end(), [&](auto const& o) {
            auto const v = value(o);
            if (v == mine) return o.record.sequence > c.record.sequence;
            return r.which == cairn::better::lower ? v < mine : v > mine;
        });
        return static_cast<std::size_t>(ahead) < r.count;
    }
    bool operator()(const cairn::detail::keep_younger& r) const {
        return std::chrono::milliseconds(now - c.record.committed) < r.age;
    }
    bool operator()(const cairn::detail::keep_ids& r) const {
        return std::count(r.ids.begin(), r.ids.end(), c.id) != 0;
    }
};

std::vector<kept_or_not> random_list(std::mt19937& random) {
    auto const below = [&](unsigned n) { return random() % n; };
    std::vector<kept_or_not> all;
    auto const n = below(12);
    for (unsigned i = 0; i < n; ++i) {
        auto c = one(i + 1, static_cast<std::int64_t>(10 * below(30)));
        c.id += "_" + std::to_string(i);
        c.record.committed = now - static_cast<std::int64_t>(below(5000));
        if (below(3) != 0) c.record.metrics["loss"] = static_cast<double>(below(4));
        if (below(9) == 0) c.record.metrics["loss"] = std::nan("");
        if (below(4) == 0) c.read = below(1'000'000) + 1;
        c.since = below(5);
        all.push_back(std::move(c));
    }
    std::shuffle(all.begin(), all.end(), random);
    return all;
}
retention random_rule(std::mt19937& random) {
    auto const n = static_cast<int>(1 + random() % 4);
    switch (random() % 5) {
        case 0: return cairn::last(n);
        case 1: return cairn::every(20 * n);
        case 2:
            return cairn::best(n, "loss",
                               n % 2 == 0 ? cairn::better::lower : cairn::better::higher);
        case 3: return cairn::younger_than(std::chrono::seconds(n));
        default: return cairn::protect({"step_100_" + std::to_string(n), "step_0_1"});
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_any_rule_keeps_is_kept_and_nothing_else) {
    std::mt19937 random(7);
    for (int i = 0; i < 20'000; ++i) {
        auto const all = random_list(random);
        auto keep = random_rule(random);
        for (auto more = random() % 3; more > 0; --more) keep = keep | random_rule(random);

        auto const newer = [](const kept_or_not& a, const kept_or_not& b) {
            return a.record.sequence < b.record.sequence;
        };
        std::set<std::string> expected;
        auto const newest = std::max_element(all.begin(), all.end(), newer);
        std::size_t enough = 1;
        for (auto const& rule : keep.rules())
            if (auto const* last = std::get_if<cairn::detail::keep_last>(&rule))
                enough = std::max(enough, last->count);
        std::uint64_t loaded = 0;
        std::size_t last_read = 0;
        for (auto const& c : all)
            if (c.since < enough && c.read > last_read) {
                last_read = c.read;
                loaded = c.record.sequence;
            }
        for (auto const& c : all) {
            bool const kept =
                c.id == newest->id || c.record.sequence == loaded ||
                std::any_of(keep.rules().begin(), keep.rules().end(), [&](auto const& rule) {
                    return std::visit(keeps{c, all, loaded}, rule);
                });
            if (!kept) expected.insert(c.id);
        }
        auto const removed = not_kept(keep, all, now);
        BOOST_REQUIRE((set_of(removed) == expected));
        BOOST_REQUIRE(std::is_sorted(removed.begin(), removed.end(), newer));

        // What is left is kept again, however often it is asked.
        std::vector<kept_or_not> left;
        for (auto const& c : all)
            if (expected.count(c.id) == 0) left.push_back(c);
        BOOST_REQUIRE(not_kept(keep, left, now).empty());
    }
}

BOOST_AUTO_TEST_CASE(the_order_is_that_of_commits_not_of_steps) {
    // The run went back from step 300 to 100.
    std::vector<kept_or_not> const all{one(1, 100), one(2, 200), one(3, 300), one(4, 110),
                                       one(5, 120)};
    BOOST_TEST(ids(not_kept(cairn::last(2), all, now)) == "step_100 step_200 step_300");
}

BOOST_AUTO_TEST_CASE(all_are_kept_by_default) {
    std::vector<kept_or_not> const all{one(1, 1), one(2, 2)};
    BOOST_TEST(not_kept({}, all, now).empty());
    BOOST_TEST(not_kept(cairn::last(1) | retention(), all, now).empty());
    BOOST_TEST(not_kept(retention() | cairn::last(1), all, now).empty());
    BOOST_TEST(not_kept(cairn::last(1), {}, now).empty());
}

/// A run that has diverged goes back to an older one.
BOOST_AUTO_TEST_CASE(the_checkpoint_that_was_read_last_is_kept) {
    std::vector<kept_or_not> all{one(1, 1), one(2, 2), one(3, 3), one(4, 4)};
    all[0].read = 1;
    all[1].read = 2;
    BOOST_TEST(ids(not_kept(cairn::last(1), all, now)) == "step_1 step_3");
    all[0].read = 3;
    BOOST_TEST(ids(not_kept(cairn::last(1), all, now)) == "step_2 step_3");
    all[0].since = 1;  // it has been made up for
    BOOST_TEST(ids(not_kept(cairn::last(1), all, now)) == "step_1 step_3");
}

BOOST_AUTO_TEST_CASE(what_was_read_is_one_of_the_last_until_as_many_later_saves_stand) {
    std::vector<kept_or_not> all{one(1, 1), one(2, 2), one(3, 3), one(4, 4)};
    all[0].read = 1;
    auto const removed = [&](std::size_t since, const retention& keep) {
        all[0].since = since;
        return ids(not_kept(keep, all, now));
    };
    BOOST_TEST(removed(0, cairn::last(2)) == "step_2 step_3");
    BOOST_TEST(removed(1, cairn::last(2)) == "step_2 step_3");
    BOOST_TEST(removed(2, cairn::last(2)) == "step_1 step_2");
    BOOST_TEST(removed(1, cairn::last(3)) == "step_2");
    BOOST_TEST(removed(0, cairn::every(3)) == "step_2");
    BOOST_TEST(removed(1, cairn::every(3)) == "step_1 step_2");
}

BOOST_AUTO_TEST_CASE(the_save_that_asks_is_kept) {
    // Another job has committed meanwhile, or its number is too low.
    std::vector<kept_or_not> all{one(1, 1), one(2, 2), one(3, 3)};
    all[0].own = true;
    BOOST_TEST(ids(not_kept(cairn::last(1), all, now)) == "step_2");
}

BOOST_AUTO_TEST_CASE(rules_without_a_meaning_are_refused) {
    using namespace std::chrono_literals;
    BOOST_CHECK_THROW((void)cairn::last(0), cairn::error);
    BOOST_CHECK_THROW((void)cairn::every(0), cairn::error);
    BOOST_CHECK_THROW((void)cairn::best(0, "loss"), cairn::error);
    BOOST_CHECK_THROW((void)cairn::best(1, ""), cairn::error);
    BOOST_CHECK_THROW((void)cairn::younger_than(-1s), cairn::error);
}

BOOST_AUTO_TEST_SUITE_END()
