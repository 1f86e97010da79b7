// SPDX-License-Identifier: Apache-2.0
// A training loop keeps what its rules say, and what it may need to go on.
#include "checkpointed_ranks.hpp"
#include "support/meddling_store.hpp"

#include <cairn/catalog/committed.hpp>

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(checkpointer_keep)

using namespace checkpointed_ranks;

namespace {

std::string ids(run& r) {
    std::string s;
    for (auto const& c : cairn::detail::find_places(cairn::detail::erased_store(r.base)).committed)
        s += (s.empty() ? "" : " ") + c.id;
    return s;
}
void save(rank& me, cairn::checkpointer& ckpt, int step, const cairn::save_notes& with = {}) {
    me.train(step);
    (void)ckpt.save_now(step, me, with);
    auto const report = ckpt.wait();
    BOOST_REQUIRE(report.has_value());
    for (auto const& w : report->warnings) BOOST_TEST(w == "");
}

/// A store whose removals fail.
class sticky_store : public support::forwarding_store<cairn::memory_store> {
public:
    using forwarding_store::forwarding_store;
    sticky_store at(const std::string& id) const { return sticky_store(store_.at(id)); }
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    void remove(std::string_view n) {
        if (n == ".metadata") throw cairn::error(cairn::errc::io, {.found = "no permission"});
        store_.remove(n);
    }
};
/// A store without `places`.
class plain_store : public support::forwarding_store<cairn::memory_store> {
public:
    using forwarding_store::forwarding_store;
    plain_store at(const std::string& id) const { return plain_store(store_.at(id)); }
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    void places() = delete;
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_last_by_commits) {
    for (int const n : {1, 2}) {
        run r(n);
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer({.keep = cairn::last(2)});
            for (int const s : {100, 200, 300}) save(me, ckpt, s);
        });
        BOOST_TEST(ids(r) == "step_200 step_300");
        // The run goes back.
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer({.keep = cairn::last(2)});
            for (int const s : {110, 120}) save(me, ckpt, s);
        });
        BOOST_TEST(ids(r) == "step_110 step_120");
        BOOST_TEST(r.value_of("step_120") == 120.0f);
        for (int const s : {100, 200, 300}) BOOST_TEST(!r.exists("step_" + std::to_string(s)));
    }
}

BOOST_AUTO_TEST_CASE(combinations_and_metrics_that_survive_a_restart) {
    run r(2);
    auto const keep =
        cairn::last(1) | cairn::every(4) | cairn::best(1, "loss") | cairn::protect({"step_1"});
    auto const train = [&](int from, int to) {
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer({.keep = keep});
            for (int s = from; s <= to; ++s)
                save(me, ckpt, s, {.metrics = {{"loss", s == 3 ? 0.1 : 1.0 + s}}});
        });
    };
    train(1, 5);
    BOOST_TEST(ids(r) == "step_1 step_3 step_4 step_5");
    train(6, 7);
    BOOST_TEST(ids(r) == "step_1 step_3 step_4 step_7");
}

BOOST_AUTO_TEST_CASE(the_newest_that_was_read) {
    run r(2);
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({});
        for (int const s : {1, 2, 3}) save(me, ckpt, s);
    });
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({.keep = cairn::last(1)});
        (void)ckpt.load("step_2", me);
        for (int const s : {4, 5}) save(me, ckpt, s);
    });
    BOOST_TEST(ids(r) == "step_2 step_5");
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({.keep = cairn::last(1)});
        BOOST_TEST(ckpt.latest({.verify = cairn::verify_level::full}).value() == "step_5");
        save(me, ckpt, 6);
    });
    BOOST_TEST(ids(r) == "step_5 step_6");
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({.keep = cairn::last(1)});
        BOOST_TEST(ckpt.latest().value() == "step_6");  // looked at, not read
        save(me, ckpt, 7);
    });
    BOOST_TEST(ids(r) == "step_7");
}

/// What was read is kept only if its record can be read again.
BOOST_AUTO_TEST_CASE(what_cannot_be_noted_as_read_is_a_warning) {
    run r(1);
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({});
        save(me, ckpt, 1);
    });
    // Loads, and fails when .metadata is opened for the so-many-th time.
    auto const warnings = [&](int fails_at, int& opened) {
        cairn::load_report report;
        r.on_ranks([&](rank& me) {
            support::meddlers m;
            m.before_open = [&](const std::string& path) {
                if (path.ends_with(".metadata") && ++opened == fails_at) throw 42;
            };
            support::meddling_store store(r.base, m);
            cairn::checkpointer ckpt(me.member, store, {.keep = cairn::last(1)});
            report = ckpt.load("step_1", me);
        });
        return report.warnings;
    };
    int opened = 0;
    BOOST_TEST(warnings(0, opened).empty());
    BOOST_TEST_REQUIRE(opened > 1);
    int again = 0;
    auto const all = warnings(opened, again);
    BOOST_TEST_REQUIRE(all.size() == 1u);
    BOOST_TEST(has(all[0], "'step_1' was loaded, but may be removed"));
}

/// Another load of this process reads the one that would be removed.
BOOST_AUTO_TEST_CASE(what_is_being_read) {
    run r(1);
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({.keep = cairn::last(1)});
        save(me, ckpt, 1);
        cairn::torch_reader reader(r.base);
        reader.reset("step_1");
        auto const meta = reader.read_metadata();
        reader.set_up_reader(meta, {});
        save(me, ckpt, 2);
        BOOST_TEST(r.value_of("step_1") == 1.0f);
        reader.reset("step_2");
        save(me, ckpt, 3);
    });
    BOOST_TEST(ids(r) == "step_3");
}

BOOST_AUTO_TEST_CASE(what_cannot_be_removed_is_a_warning) {
    run r(1);
    r.on_ranks([&](rank& me) {
        sticky_store store(r.base);
        cairn::checkpointer ckpt(me.member, store, {.keep = cairn::last(1)});
        for (int const s : {1, 2}) {
            me.train(s);
            (void)ckpt.save_now(s, me);
            auto const report = ckpt.wait();
            BOOST_REQUIRE(report.has_value());
            BOOST_TEST(report->warnings.size() == (s == 1 ? 0u : 1u));
            if (s == 2) BOOST_TEST(has(report->warnings.at(0), "step_1"));
        }
    });
    BOOST_TEST(r.value_of("step_1") == 1.0f);
    BOOST_TEST(r.value_of("step_2") == 2.0f);
    BOOST_TEST(r.base.at("step_1").list().size() == 2u);  // no intent stays
}

BOOST_AUTO_TEST_CASE(a_metric_that_was_not_passed_is_a_warning) {
    run r(1);
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({.keep = cairn::best(1, "loss")});
        (void)ckpt.save_now(1, me);
        auto const report = ckpt.wait();
        BOOST_REQUIRE(report->warnings.size() == 1u);
        BOOST_TEST(has(report->warnings[0], "loss"));
    });
}

BOOST_AUTO_TEST_CASE(a_store_that_cannot_list_its_places_is_refused) {
    run r(2);
    r.on_ranks([&](rank& me) {
        plain_store store(r.base);
        std::string said;
        try {
            cairn::checkpointer const ckpt(me.member, store, {.keep = cairn::last(1)});
        } catch (const cairn::error& e) {
            said = e.what();
        }
        BOOST_TEST(has(said, "BrowsableStore"), said);
        cairn::checkpointer ckpt(me.member, store);
        me.train(1);
        (void)ckpt.save_now(1, me);
        BOOST_TEST(ckpt.wait().has_value());
        BOOST_CHECK_THROW((void)ckpt.latest(), cairn::error);
        BOOST_TEST(ckpt.load("step_1", me).warnings.empty());
    });
}

BOOST_AUTO_TEST_SUITE_END()
