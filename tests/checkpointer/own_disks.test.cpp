// SPDX-License-Identifier: Apache-2.0
// Ranks of several hosts, some of which do not see the coordinator's disk.
#include "support/forwarding_store.hpp"
#include "support/meddling_store.hpp"
#include "tiered_run.hpp"

#include <cairn/catalog/detail/committed.hpp>
#include <cairn/comm/thread_group.hpp>
#include <cairn/object_store/memory.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(checkpointer_own_disks)

using namespace checkpointed_ranks;
using list = std::vector<std::string>;

namespace {

/// A directory in which something may be mounted, which then goes away.
class mounted_store : public support::forwarding_store<cairn::memory_store> {
public:
    mounted_store(cairn::memory_store mounted, cairn::memory_store below,
                  std::shared_ptr<std::atomic<bool>> gone)
        : forwarding_store(mounted), below_(std::move(below)), gone_(std::move(gone)) {}
    mounted_store at(const std::string& id) const {
        return {*gone_ ? below_.at(id) : store_.at(id), below_.at(id), gone_};
    }
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }

private:
    cairn::memory_store below_;
    std::shared_ptr<std::atomic<bool>> gone_;
};

/// A disk that may fail: it then keeps what was begun, and removes nothing.
class failing_disk : public support::forwarding_store<cairn::memory_store> {
public:
    failing_disk(cairn::memory_store s, std::shared_ptr<std::atomic<bool>> fails)
        : forwarding_store(std::move(s)), fails_(std::move(fails)) {}
    failing_disk at(const std::string& id) const { return {store_.at(id), fails_}; }
    auto create(std::string_view n, std::uint64_t size) {
        if (*fails_) {
            store_.publish(n, {}, std::nullopt);
            fail(n);
        }
        return store_.create(n, size);
    }
    void remove(std::string_view n) {
        if (*fails_) fail(n);
        store_.remove(n);
    }

private:
    void fail(std::string_view n) {
        throw cairn::error(cairn::errc::io, {.file = store_.describe(n)});
    }
    std::shared_ptr<std::atomic<bool>> fails_;
};

/// The disks of three hosts, on which a run keeps the last two checkpoints.
struct hosts {
    static constexpr int n = 3;
    tiered_run r{n};
    std::vector<cairn::memory_store> disks = std::vector<cairn::memory_store>(n);

    cairn::memory_store& disk_of(const rank& me) {
        return disks[static_cast<std::size_t>(me.number)];
    }
    cairn::checkpointer checkpointer(rank& me, int every) {
        auto o = r.options(me, every);
        o.keep = cairn::last(2);
        return {me.member, disk_of(me), std::move(o)};
    }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_rank_that_does_not_see_the_others_files_is_told) {
    for (bool const apart : {false, true}) {
        tiered_run r(3);
        cairn::memory_store other;
        notes saw;
        r.on_ranks([&](rank& me) {
            cairn::memory_store disk = apart && me.number == 2 ? other : r.base;
            cairn::checkpointer ckpt(me.member, disk, r.options(me));
            for (int const step : {1, 2}) {
                save_step(me, ckpt, step);
                auto const report = ckpt.wait();
                BOOST_REQUIRE(report.has_value());
                for (auto const& w : report->warnings) saw.add(me.number, w);
            }
        });
        BOOST_TEST(r.base.list().empty());
        auto const told = saw.agreed();
        BOOST_REQUIRE(told.size() == (apart ? 1u : 0u));
        if (apart) BOOST_TEST(has(told[0], "1 ranks, the first of which is rank 2"), told[0]);
    }
}

BOOST_AUTO_TEST_CASE(a_mount_that_goes_away_fails_the_save) {
    tiered_run r(3);
    cairn::memory_store below;
    auto const gone = std::make_shared<std::atomic<bool>>(false);
    notes saw;
    r.on_ranks([&](rank& me) {
        auto const mine = me.number == 1 ? gone : std::make_shared<std::atomic<bool>>(false);
        cairn::checkpointer ckpt(me.member, mounted_store(r.base, below, mine), r.options(me));
        save_step(me, ckpt, 1);
        BOOST_TEST(ckpt.wait().has_value());
        me.meet();
        *gone = true;
        me.meet();
        save_step(me, ckpt, 2);
        saw.add(me.number, outcome_of([&] {
                    (void)ckpt.wait();
                    return cairn::checkpoint_result();
                }));
    });
    auto const told = saw.agreed();
    BOOST_REQUIRE(told.size() == 1u);
    BOOST_TEST(has(told[0], "all ranks must see the same directory"), told[0]);
    BOOST_TEST(r.value_of("step_1") == 1.0f);
}

BOOST_AUTO_TEST_CASE(the_next_group_finds_room_on_each_disk) {
    hosts h;
    cairn::thread_group second(hosts::n);
    h.r.on_ranks([&](rank& me) {
        auto ckpt = h.checkpointer(me, 100);
        for (int step = 1; step <= 3; ++step) {
            save_step(me, ckpt, step);
            if (step != 3) (void)ckpt.wait();
        }
        (void)ckpt.replace_group(second.rank(me.number));
        me.meet();
        if (me.number != 0) BOOST_TEST(h.disk_of(me).places().empty());
        me.meet();
        for (int step = 4; step <= 6; ++step) save_step(me, ckpt, step);
        (void)ckpt.wait();
    });
    for (auto& disk : h.disks)
        BOOST_TEST(disk.places() == (list{"step_5", "step_6"}), boost::test_tools::per_element());
}

/// One host goes on from the second place; then the run is back on a disk with the branch that was
/// given up.
BOOST_AUTO_TEST_CASE(what_was_saved_after_a_return_to_the_second_place_is_newer) {
    tiered_run r(1);
    cairn::memory_store first, second;
    r.on_ranks([&](rank& me) {
        auto const on = [&](cairn::memory_store& disk) {
            return cairn::checkpointer(me.member, disk, r.options(me, 100));
        };
        {
            auto ckpt = on(first);
            for (int step = 1; step <= 9; ++step) save_step(me, ckpt, step);  // uploads the first
        }
        {
            auto ckpt = on(second);
            (void)ckpt.load("step_1", me);
            me.train(2);
            BOOST_TEST(ckpt.save_now(2, me).saved);
        }
        auto ckpt = on(first);
        BOOST_TEST(ckpt.latest().value() == "step_2");
    });
}

/// As when the disk cannot be read for a day: nobody knows how far the numbers there went.
BOOST_AUTO_TEST_CASE(what_was_saved_in_the_second_place_alone_is_newer) {
    tiered_run r(1);
    r.on_ranks([&](rank& me) {
        {
            auto ckpt = me.checkpointer(r.options(me, 100));
            for (int step = 1; step <= 9; ++step) save_step(me, ckpt, step);  // uploads the first
        }
        // Runs are told apart by the second in which they begin.
        std::this_thread::sleep_for(std::chrono::milliseconds(1100));
        {
            cairn::checkpointer ckpt(me.member, r.far_of(me), {.every = cairn::steps(1)});
            (void)ckpt.load("step_1", me);
            save_step(me, ckpt, 2);
            (void)ckpt.wait();
        }
        auto ckpt = me.checkpointer(r.options(me, 100));
        BOOST_TEST(ckpt.latest().value() == "step_2");
    });
}

/// Another host has coordinated meanwhile: the number of its last commit is in the second place
/// alone.
BOOST_AUTO_TEST_CASE(a_coordinator_that_returns_goes_on_from_what_was_uploaded_meanwhile) {
    tiered_run r(2);
    std::vector<cairn::memory_store> disks(2);
    cairn::thread_group second(2), third(2);
    r.on_ranks([&](rank& me) {
        int const host = me.number;
        cairn::checkpointer ckpt(me.member, disks[static_cast<std::size_t>(host)], r.options(me));
        auto const save = [&](rank& now, int step) {
            save_step(now, ckpt, step);
            (void)ckpt.wait();
        };
        save(me, 1);
        rank other{1 - host, 2, second.rank(1 - host), me.store};
        (void)ckpt.replace_group(other.member);
        for (int const step : {2, 3, 4}) save(other, step);
        rank again{host, 2, third.rank(host), me.store};
        (void)ckpt.replace_group(again.member);
        save(again, 5);
    });
    auto const number_of = [&](const std::string& id) {
        cairn::any_store place(r.far.at(id));
        return cairn::detail::read_commit_record(place).value().sequence;
    };
    BOOST_TEST(number_of("step_5") > number_of("step_4"));
    BOOST_TEST(number_of("step_4") > number_of("step_1"));
}

BOOST_AUTO_TEST_CASE(a_removal_on_an_own_disk_that_fails_is_told_there_and_repeated) {
    tiered_run r(2);
    cairn::memory_store other;
    std::atomic<bool> refuses{true};
    list said;
    r.on_ranks([&](rank& me) {
        auto o = r.options(me, 100);
        o.keep = cairn::last(1);
        auto const refuse = [&, number = me.number](const std::string& path) {
            if (number == 1 && refuses)
                throw cairn::error(cairn::errc::permission_denied, {.file = path});
        };
        cairn::memory_store const disk = me.number == 1 ? other : r.base;
        cairn::checkpointer ckpt(
            me.member, support::meddling_store(disk, {.before_remove = refuse}), std::move(o));
        for (int const step : {1, 2, 3, 4}) {
            if (step == 4) refuses = false;
            me.meet();
            save_step(me, ckpt, step);
            auto const report = ckpt.wait();
            BOOST_REQUIRE(report.has_value());
            if (me.number == 1)
                said.insert(said.end(), report->warnings.begin(), report->warnings.end());
            me.meet();
        }
    });
    BOOST_TEST(std::any_of(said.begin(), said.end(), [](const std::string& s) {
        return has(s, "rank 1 could not remove what it has written to its own disk");
    }));
    BOOST_TEST(other.places() == (list{"step_4"}), boost::test_tools::per_element());
}

/// Whatever fails: in the next group this rank coordinates, and has no disk of its own.
BOOST_AUTO_TEST_CASE(a_removal_that_fails_as_the_group_is_replaced_is_told_and_repeated) {
    for (bool const unreadable : {false, true}) {
        tiered_run r(2);
        std::vector<cairn::memory_store> disks(2);
        cairn::thread_group second(2);
        std::atomic<bool> refuses{false};
        list said;
        r.on_ranks([&](rank& me) {
            int const host = me.number;
            auto const refuse = [&, host](const std::string& path) {
                if (host == 1 && refuses && path.find(".cairn-trial.") == path.npos)
                    throw cairn::error(cairn::errc::permission_denied, {.file = path});
            };
            support::meddlers m;
            (unreadable ? m.before_open : m.before_remove) = refuse;
            cairn::checkpointer ckpt(
                me.member,
                support::meddling_store(disks[static_cast<std::size_t>(host)], std::move(m)),
                r.options(me, 100));
            save_step(me, ckpt, 1);
            (void)ckpt.wait();
            if (host == 1) refuses = true;
            rank other{1 - host, 2, second.rank(1 - host), me.store};
            (void)ckpt.replace_group(other.member);
            if (host == 1) refuses = false;
            save_step(other, ckpt, 2);
            auto const report = ckpt.wait();
            BOOST_REQUIRE(report.has_value());
            if (host == 1) said = report->warnings;
        });
        BOOST_TEST(std::any_of(said.begin(), said.end(), [](const std::string& s) {
            return has(s, "could not remove what it has written to its own disk");
        }));
        BOOST_TEST(disks[1].places() == (list{"step_2"}), boost::test_tools::per_element());
    }
}

BOOST_AUTO_TEST_CASE(a_disk_that_refuses_removals_is_asked_a_few_times_after_each_save) {
    tiered_run r(2);
    cairn::memory_store other;
    std::atomic<int> asked{0};
    r.on_ranks([&](rank& me) {
        auto o = r.options(me, 100);
        o.keep = cairn::last(1);
        auto const refuse = [&, number = me.number](const std::string& path) {
            if (number != 1 || path.find(".cairn-trial.") != path.npos) return;
            ++asked;
            throw cairn::error(cairn::errc::permission_denied, {.file = path});
        };
        cairn::memory_store const disk = me.number == 1 ? other : r.base;
        cairn::checkpointer ckpt(
            me.member, support::meddling_store(disk, {.before_remove = refuse}), std::move(o));
        for (int step = 1; step <= 30; ++step) {
            save_step(me, ckpt, step);
            if (me.number == 1) asked = 0;
            (void)ckpt.wait();
        }
    });
    BOOST_TEST(asked > 0);
    BOOST_TEST(asked <= 10);
}

/// As where an administrator keeps some of them.
BOOST_AUTO_TEST_CASE(what_may_not_be_removed_keeps_nothing_else_on_an_own_disk) {
    constexpr int refused = 20, steps = 32;
    tiered_run r(2);
    cairn::memory_store other;
    r.on_ranks([&](rank& me) {
        auto o = r.options(me, 100);
        o.keep = cairn::last(1);
        auto const refuse = [number = me.number](const std::string& path) {
            auto const at = path.find("step_");
            if (number == 1 && at != path.npos && std::stoi(path.substr(at + 5)) <= refused)
                throw cairn::error(cairn::errc::permission_denied, {.file = path});
        };
        cairn::memory_store const disk = me.number == 1 ? other : r.base;
        cairn::checkpointer ckpt(
            me.member, support::meddling_store(disk, {.before_remove = refuse}), std::move(o));
        for (int step = 1; step <= steps; ++step) {
            save_step(me, ckpt, step);
            (void)ckpt.wait();
        }
    });
    BOOST_TEST(other.places().size() == static_cast<std::size_t>(refused) + 1);
}

BOOST_AUTO_TEST_CASE(a_removal_that_fails_after_the_last_save_is_told) {
    tiered_run r(2);
    cairn::memory_store other;
    std::atomic<bool> refuses{false};
    list said;
    r.on_ranks([&](rank& me) {
        auto o = r.options(me, 100);
        o.keep = cairn::last(1);
        auto const refuse = [&, number = me.number](const std::string& path) {
            if (number == 1 && refuses)
                throw cairn::error(cairn::errc::permission_denied, {.file = path});
        };
        cairn::memory_store const disk = me.number == 1 ? other : r.base;
        cairn::checkpointer ckpt(
            me.member, support::meddling_store(disk, {.before_remove = refuse}), std::move(o));
        for (int const step : {1, 2, 3}) {
            me.meet();
            if (step == 3) refuses = true;
            save_step(me, ckpt, step);
            auto const report = ckpt.wait();
            BOOST_REQUIRE(report.has_value());
            if (me.number == 1) said = report->warnings;
        }
    });
    BOOST_TEST(std::any_of(said.begin(), said.end(), [](const std::string& s) {
        return has(s, "rank 1 could not remove what it has written to its own disk");
    }));
}

/// The intent that lists it is on the coordinator's disk.
BOOST_AUTO_TEST_CASE(what_a_failed_save_has_left_on_an_own_disk_goes_after_the_next_one) {
    tiered_run r(2);
    cairn::memory_store other;
    std::atomic<bool> fails{false};
    r.on_ranks([&](rank& me) {
        auto const fail = [&](const std::string& path) {
            bool const is_of_save = path.ends_with(".metadata") || path.ends_with(".distcp");
            if (fails && is_of_save) throw cairn::error(cairn::errc::io, {.file = path});
        };
        support::meddlers m;
        (me.number == 0 ? m.before_publish : m.before_remove) = fail;
        cairn::memory_store const disk = me.number == 1 ? other : r.base;
        cairn::checkpointer ckpt(me.member, support::meddling_store(disk, std::move(m)),
                                 r.options(me, 100));
        save_step(me, ckpt, 1);
        (void)ckpt.wait();
        me.meet();
        fails = true;
        me.meet();
        save_step(me, ckpt, 2);
        BOOST_CHECK_THROW((void)ckpt.wait(), cairn::error);
        me.meet();
        BOOST_TEST(other.places().size() == 2u);
        fails = false;
        me.meet();
        save_step(me, ckpt, 3);
        (void)ckpt.wait();
    });
    BOOST_TEST(other.places() == (list{"step_1", "step_3"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(
    what_an_own_disk_has_of_a_file_that_it_failed_to_write_goes_after_the_next_save) {
    tiered_run r(2);
    cairn::memory_store other;
    r.on_ranks([&](rank& me) {
        auto const fails = std::make_shared<std::atomic<bool>>(false);
        cairn::checkpointer ckpt(me.member, failing_disk(me.number == 1 ? other : r.base, fails),
                                 r.options(me, 100));
        save_step(me, ckpt, 1);
        (void)ckpt.wait();
        *fails = me.number == 1;
        save_step(me, ckpt, 2);
        BOOST_CHECK_THROW((void)ckpt.wait(), cairn::error);
        me.meet();
        BOOST_TEST(other.places().size() == 2u);
        me.meet();
        *fails = false;
        save_step(me, ckpt, 3);
        (void)ckpt.wait();
    });
    BOOST_TEST(other.places() == (list{"step_1", "step_3"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_trial_of_the_disk_goes_if_the_ranks_do_not_meet) {
    tiered_run r(2);
    std::promise<void> over;
    auto const ended = over.get_future().share();
    r.on_ranks([&](rank& me) {
        auto o = r.options(me);
        o.save.exchange_timeout = std::chrono::milliseconds(300);
        // Rank 1 looks for the file for longer than the other waits.
        support::meddling_store disk(
            r.base, {.before_open = [&](const std::string& path) {
                if (me.number == 1 && path.find(".cairn-trial.") != path.npos)
                    (void)ended.wait_for(std::chrono::seconds(60));
            }});
        BOOST_CHECK_THROW((void)cairn::checkpointer(me.member, disk, o), cairn::error);
        if (me.number != 0) return;
        BOOST_TEST(r.base.list().empty());
        over.set_value();
    });
}

BOOST_AUTO_TEST_CASE(a_trial_of_the_disk_that_fails_is_told) {
    tiered_run r(2);
    notes saw;
    r.on_ranks([&](rank& me) {
        support::meddling_store disk(r.base, {.before_publish = [](const std::string& path) {
                                         if (path.find(".cairn-trial.") != path.npos)
                                             throw cairn::error(cairn::errc::permission_denied,
                                                                {.file = path});
                                     }});
        cairn::checkpointer ckpt(me.member, disk, r.options(me));
        save_step(me, ckpt, 1);
        auto const report = ckpt.wait();
        BOOST_REQUIRE(report.has_value());
        for (auto const& w : report->warnings) saw.add(me.number, w);
    });
    auto const told = saw.agreed();
    BOOST_REQUIRE(told.size() == 1u);
    BOOST_TEST(has(told[0], "whether all ranks see"), told[0]);
}

/// The coordinator's disk is full, or not mounted yet, when the job begins.
BOOST_AUTO_TEST_CASE(a_trial_of_the_disk_that_fails_lets_no_disk_fill) {
    hosts h;
    h.r.on_ranks([&](rank& me) {
        support::meddling_store disk(h.disk_of(me), {.before_publish = [](const std::string& path) {
                                         if (path.find(".cairn-trial.") != path.npos)
                                             throw cairn::error(cairn::errc::io, {.file = path});
                                     }});
        auto o = h.r.options(me, 100);
        o.keep = cairn::last(2);
        cairn::checkpointer ckpt(me.member, disk, o);
        for (int step = 1; step <= 6; ++step) save_step(me, ckpt, step);
        (void)ckpt.wait();
    });
    for (auto& disk : h.disks)
        BOOST_TEST(disk.places() == (list{"step_5", "step_6"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
