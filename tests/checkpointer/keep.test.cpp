// SPDX-License-Identifier: Apache-2.0
// A training loop keeps what its rules say, and what it may need to go on.
#include "checkpointed_ranks.hpp"
#include "support/meddling_store.hpp"

#include <cairn/catalog/detail/committed.hpp>
#include <cairn/comm/solo.hpp>
#include <cairn/format/native/index.hpp>
#include <cairn/storage/detail/save_intent.hpp>

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(checkpointer_keep)

using namespace checkpointed_ranks;

namespace {

std::string ids(run& r) {
    std::string s;
    for (auto const& c : cairn::detail::find_places(cairn::any_store(r.base)).committed)
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
    sticky_store(cairn::memory_store s, cairn::errc with)
        : forwarding_store(std::move(s)), with_(with) {}
    sticky_store at(const std::string& id) const { return {store_.at(id), with_}; }
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    void remove(std::string_view n) {
        if (n == ".metadata") throw cairn::error(with_, {.found = "no answer"});
        store_.remove(n);
    }

private:
    cairn::errc with_;
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

BOOST_AUTO_TEST_CASE(the_last_are_those_that_were_committed_last) {
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

/// A coordinator whose host stops before the commit, while others go on without it.
BOOST_AUTO_TEST_CASE(a_save_that_later_ones_overtake_is_older_than_they_are) {
    run r(2);
    r.controls[1]->close();
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({.keep = cairn::last(2)});
        me.train(10);
        BOOST_TEST(ckpt.save_now(10, me).saved);
        if (me.number == 0) {
            BOOST_TEST(r.controls[0]->wait_for(1));  // it writes
            cairn::checkpointer others(cairn::solo(), r.base);
            std::vector<float> w(2, 20.0f);
            cairn::state_dict state{{"w", w}};
            for (int const step : {20, 30, 40}) {
                BOOST_TEST(others.save_now(step, state).saved);
                (void)others.wait();
            }
            r.controls[1]->open();
        }
        BOOST_TEST(ckpt.wait().has_value());
    });
    BOOST_TEST(r.exists("step_10"));  // one that was committed just now is kept, but …
    BOOST_TEST(r.exists("step_30"));
    BOOST_TEST(ids(r).ends_with("step_40"), ids(r));
}

/// A disk that has room for one checkpoint more than are kept, and a process that was killed.
BOOST_AUTO_TEST_CASE(what_is_not_kept_is_removed_before_the_first_save_of_a_run_writes) {
    run r(2);
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({});
        for (int const s : {100, 200, 300}) save(me, ckpt, s);
    });
    {
        auto place = r.base.at("step_400");
        cairn::detail::save_intent i;
        i.save_id = std::string(32, 'a');
        i.began = cairn::detail::save_intent::now();
        i.owner = cairn::detail::record_owner::this_one();
        i.names = {"__0_0." + i.save_id + ".distcp"};
        place.publish(".saving." + i.save_id, i.encode(), std::nullopt);
        place.publish(i.names[0], cairn::byte_vector(5), std::nullopt);
    }
    r.on_ranks([&](rank& me) {
        auto ckpt =
            me.checkpointer({.keep = cairn::last(2) | cairn::protect({"step_412", "step_500"})});
        r.controls[1]->fail(support::thrown::cairn_error);  // as a full disk does
        me.train(412);
        BOOST_CHECK_THROW(((void)ckpt.save_now(412, me), (void)ckpt.wait()), cairn::error);
        me.meet();
        BOOST_TEST(ids(r) == "step_200 step_300");
        BOOST_TEST(!r.exists("step_400"));
        me.meet();
        r.controls[1]->fail({});
        me.meet();
        (void)ckpt.save_now(412, me);
        auto const report = ckpt.wait();
        BOOST_REQUIRE(report.has_value());
        if (me.number != 0) return;
        // What is said of rules is said after the commit.
        BOOST_REQUIRE(report->warnings.size() == 1u);
        BOOST_TEST(has(report->warnings[0], "protect(\"step_500\")"), report->warnings[0]);
    });
    BOOST_TEST(ids(r) == "step_300 step_412");
}

/// The save that finds it out may have no report.
BOOST_AUTO_TEST_CASE(a_save_that_fails_leaves_its_warnings_to_the_next) {
    run r(1);
    r.base.at("step_9").publish(".metadata", cairn::byte_vector(5), std::nullopt);
    r.on_ranks([&](rank& me) {
        auto& mine = *r.controls[0];
        auto ckpt = me.checkpointer({});
        auto const warnings = [&](int step) {
            me.train(step);
            (void)ckpt.save_now(step, me);
            auto const report = ckpt.wait();
            int told = 0;
            for (auto const& w : report->warnings)
                if (has(w, "'step_9' is not known")) ++told;
            return told;
        };
        mine.fail(support::thrown::cairn_error);
        BOOST_CHECK_THROW((void)warnings(1), cairn::error);
        mine.fail({});
        BOOST_TEST(warnings(2) == 1);
        BOOST_TEST(warnings(3) == 0);
    });
}

BOOST_AUTO_TEST_CASE(combinations_and_metrics_survive_a_restart) {
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

/// A reader would take the checkpoint for damaged.
BOOST_AUTO_TEST_CASE(metrics_that_no_reader_accepts_are_refused) {
    run r(1);
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({});
        std::string const name(std::size_t{1} << 24, 'm');
        (void)ckpt.save_now(1, me, {.metrics = {{name, 0.5}}});
        BOOST_CHECK_EXCEPTION((void)ckpt.wait(), cairn::error, [](const cairn::error& e) {
            return e.code() == make_error_code(cairn::errc::invalid_argument) &&
                   has(e.what(), "save_notes::metrics");
        });
        BOOST_TEST(!r.exists("step_1"));
        save(me, ckpt, 2, {.metrics = {{name.substr(256), 0.5}}});
        BOOST_TEST(ckpt.latest().value_or("none") == "step_2");
    });
}

BOOST_AUTO_TEST_CASE(the_loaded_checkpoint_is_kept_as_one_of_the_last) {
    for (int const last : {1, 2, 3}) {
        run r(2);
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer({});
            for (int const s : {1, 2, 3}) save(me, ckpt, s);
        });
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer({.keep = cairn::last(last)});
            (void)ckpt.load("./step_2/", me);
            save(me, ckpt, 4);
        });
        BOOST_TEST(ids(r) == (last == 1   ? "step_4"
                              : last == 2 ? "step_2 step_4"
                                          : "step_2 step_3 step_4"));
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer({.keep = cairn::last(2)});
            (void)ckpt.load_latest(me);
            for (int const s : {5, 6}) save(me, ckpt, s);
        });
        BOOST_TEST(ids(r) == "step_5 step_6");
    }
}

BOOST_AUTO_TEST_CASE(an_id_that_names_nothing_is_an_error) {
    run r(2);
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({});
        save(me, ckpt, 1);
        BOOST_CHECK_EXCEPTION((void)ckpt.load("step_9", me), cairn::error,
                              [](const cairn::error& e) {
                                  return e.code() == make_error_code(cairn::errc::not_found) &&
                                         has(e.what(), "step_9");
                              });
    });
}

/// Other jobs save here too; what was only written may turn out to be unreadable.
BOOST_AUTO_TEST_CASE(what_was_read_from_the_first_byte_to_the_last_is_kept) {
    for (auto const level : {cairn::verify_level::full, cairn::verify_level::sampled}) {
        run r(2);
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer({.keep = cairn::last(2)});
            auto other = me.checkpointer({});
            for (int const s : {1, 2, 3}) save(me, other, s);
            BOOST_TEST(ckpt.latest({.verify = level}).value() == "step_3");
            for (int const s : {4, 5}) save(me, other, s);
            save(me, ckpt, 6);
        });
        BOOST_TEST(ids(r) ==
                   (level == cairn::verify_level::full ? "step_3 step_6" : "step_5 step_6"));
    }
}

/// What a run goes back to stays until enough was saved after it, not before.
BOOST_AUTO_TEST_CASE(what_the_run_goes_back_to_stays_until_enough_is_saved) {
    run r(1);
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({.keep = cairn::last(2) | cairn::every(4)});
        for (int const s : {4, 5, 6}) save(me, ckpt, s);
        (void)ckpt.load("step_4", me);
        save(me, ckpt, 7);
    });
    BOOST_TEST(ids(r) == "step_4 step_7");
}

/// However often it fails, it is told once; no record is read twice.
BOOST_AUTO_TEST_CASE(a_save_opens_only_records_that_are_new) {
    run r(1);
    constexpr int n = 1000;
    for (int s = 1; s <= n; ++s) {
        cairn::metadata m;
        cairn::commit_record record;
        m.save_id = record.save_id = std::string(28, 'a') + std::to_string(1000 + s % 9000);
        record.sequence = static_cast<std::uint64_t>(s);
        record.step = s;
        r.base.at("step_" + std::to_string(s))
            .publish(".metadata", cairn::format::native::make_metadata_file(m, true, &record),
                     std::nullopt);
    }
    for (bool const keeps : {false, true})
        r.on_ranks([&](rank& me) {
            int opened = 0;
            support::meddlers m;
            m.before_open = [&](const std::string& path) {
                if (path.ends_with(".metadata")) ++opened;
            };
            support::meddling_store store(r.base, m);
            cairn::checkpointer ckpt(me.member, store,
                                     {.keep = keeps ? cairn::every(1) : cairn::retention()});
            for (int i = 1; i < 5; ++i) {
                opened = 0;
                save(me, ckpt, n + i);
                BOOST_TEST(opened <= (i == 1 ? n + 10 : 5), "save " << i << ": " << opened);
            }
            if (!keeps) return;
            // What is to be removed is read again.
            cairn::checkpointer tidy(me.member, store, {.keep = cairn::every(100)});
            save(me, tidy, n + 5);
            opened = 0;
            save(me, tidy, n + 6);
            BOOST_TEST((opened >= 32 && opened <= 100), opened);
        });
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
BOOST_AUTO_TEST_CASE(what_is_being_read_is_kept) {
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

/// An intent stays only if the metadata may still be removed.
BOOST_AUTO_TEST_CASE(what_cannot_be_removed_is_a_warning) {
    for (auto const with : {cairn::errc::io, cairn::errc::outcome_unknown}) {
        run r(1);
        r.on_ranks([&](rank& me) {
            sticky_store store(r.base, with);
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
        auto const left = r.base.at("step_1").list().size();
        BOOST_TEST(left == (with == cairn::errc::io ? 2u : 3u));
    }
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
