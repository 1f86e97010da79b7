// SPDX-License-Identifier: Apache-2.0
// Two places: each save goes to the first, some are copied to the second, and nothing counts as
// there before all of it is.
#include "support/data_files.hpp"
#include "support/forwarding_store.hpp"
#include "support/scratch.hpp"
#include "tiered_run.hpp"

#include <cairn/catalog/detail/committed.hpp>
#include <cairn/comm/solo.hpp>
#include <cairn/object_store/detail/exists.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/save.hpp>
#include <cairn/storage/safetensors_writer.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(checkpointer_uploads)

using namespace checkpointed_ranks;
using list = std::vector<std::string>;

namespace {

std::jthread open_later(control& slow) {
    return std::jthread([&slow] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        slow.open();
    });
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_mth_save_is_uploaded_and_each_place_has_its_rules) {
    for (int const n : {1, 3}) {
        tiered_run r(n);
        notes saw;
        r.on_ranks([&](rank& me) {
            auto o = r.options(me, 2);
            o.keep = cairn::last(1);
            o.upload->keep = cairn::last(2);
            auto ckpt = me.checkpointer(o);
            for (int step = 1; step <= 7; ++step) {
                save_step(me, ckpt, step);
                (void)ckpt.wait();
                saw.add(me.number, uploaded_of(ckpt));
            }
        });
        // The first one, too: the process before it may have been killed before its own.
        BOOST_TEST((saw.agreed() ==
                    list{"step_1", "step_1", "step_3", "step_3", "step_5", "step_5", "step_7"}));
        BOOST_TEST(places_of(r.base) == (list{"step_7"}), boost::test_tools::per_element());
        BOOST_TEST(places_of(r.far) == (list{"step_5", "step_7"}),
                   boost::test_tools::per_element());
        BOOST_TEST(r.durable_value("step_5") == 5.0f);
        BOOST_TEST(r.durable_value("step_7") == 7.0f);
    }
}

/// Values, weights that are tied, and what belongs to one rank, are the same in the copy.
BOOST_AUTO_TEST_CASE(a_copy_has_all_that_the_checkpoint_has) {
    cairn::memory_store near, far;
    std::vector<float> w(3000), b(7, 2.0f);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i);
    cairn::state_dict state{{"w", w},
                            {"tied", w},
                            {"empty", std::vector<float>()},
                            {"nested", cairn::state_dict{{"b", b}, {"name", "seven"}}},
                            {"step", 7}};
    for (auto const level : {std::optional<int>(), std::optional<int>(3)}) {
        cairn::checkpointer_options o{.every = cairn::steps(1)};
        o.save.storage.zstd_level = level;
        o.upload = cairn::upload_options{.to = cairn::any_store(far)};
        cairn::checkpointer ckpt(cairn::solo(), near, o);
        BOOST_TEST(ckpt.save_now(7, state, {{{"loss", 0.5}}}).saved);
        auto const report = ckpt.wait();
        BOOST_REQUIRE(report.has_value());
        BOOST_TEST(report->warnings.empty());
        BOOST_REQUIRE(ckpt.uploaded().has_value());
        BOOST_TEST(ckpt.uploaded()->step == 7);
        BOOST_TEST(ckpt.uploaded()->report.warnings.empty());
        auto const here = support::load_whole(near, "step_7");
        auto const there = support::load_whole(far, "step_7");
        BOOST_TEST(!there.tensors.empty());
        BOOST_TEST((here == there));
        cairn::any_store near_place(near.at("step_7")), far_place(far.at("step_7"));
        auto const first = cairn::detail::read_commit_record(near_place).value();
        auto const second = cairn::detail::read_commit_record(far_place).value();
        BOOST_TEST(first.sequence == second.sequence);
        BOOST_TEST(first.committed == second.committed);
        BOOST_TEST((first.metrics == second.metrics));
        BOOST_TEST(first.save_id != second.save_id);
    }
}

/// A job that ends, in any way, before an upload is complete leaves nothing that counts there.
BOOST_AUTO_TEST_CASE(nothing_is_durable_before_all_of_it_is) {
    for (int const n : {1, 2}) {
        tiered_run r(n);
        auto& slow = *r.far_controls.back();
        r.on_ranks([&](rank& me) {
            auto o = r.options(me);
            o.destruction = cairn::destruction_policy::cancel;
            o.save.on_unclaimed_error = [](const std::exception_ptr&) {};
            std::jthread opener;  // ends after the checkpointer, which waits for it
            auto ckpt = me.checkpointer(o);
            save_step(me, ckpt, 1);
            (void)ckpt.wait();
            BOOST_TEST(uploaded_of(ckpt) == "step_1");
            me.meet();
            if (me.number == n - 1) slow.close();
            me.meet();
            save_step(me, ckpt, 2);
            BOOST_TEST(slow.wait_for(2));
            BOOST_TEST(r.exists("step_2"));
            BOOST_TEST(!r.is_durable("step_2"));
            BOOST_TEST(uploaded_of(ckpt) == "step_1");
            me.meet();
            if (me.number != n - 1) return;
            slow.fail(support::thrown::cairn_error);  // whether or not it is cancelled before
            opener = std::jthread([&] { slow.open(); });
        });
        slow.fail({});
        BOOST_TEST(r.exists("step_2"));
        BOOST_TEST(!r.is_durable("step_2"));
        BOOST_TEST(!r.exists_far("step_2"));
        // The node is there: its copy is the newest. The node is lost: the other one is.
        for (bool const lost : {false, true}) {
            notes saw;
            if (lost) r.base = cairn::memory_store();
            r.on_ranks([&](rank& me) {
                auto ckpt = me.checkpointer(r.options(me));
                auto const loaded = ckpt.load_latest(me);
                BOOST_REQUIRE(loaded.has_value());
                saw.add(me.number, loaded->id);
                BOOST_TEST(me.row[0] == (lost ? 1.0f : 2.0f));
            });
            BOOST_TEST((saw.agreed() == list{lost ? "step_1" : "step_2"}));
        }
    }
}

BOOST_AUTO_TEST_CASE(retention_keeps_what_is_being_uploaded) {
    tiered_run r(2);
    auto& slow = *r.far_controls.back();
    slow.close();
    r.on_ranks([&](rank& me) {
        auto o = r.options(me);
        o.keep = cairn::last(1);
        auto ckpt = me.checkpointer(o);
        save_step(me, ckpt, 1);
        BOOST_TEST(slow.wait_for(1));
        me.train(2);
        BOOST_TEST(ckpt.save_now(2, me).saved);  // it is to be uploaded after the first
        for (int step = 3; step <= 5; ++step) save_step(me, ckpt, step);  // each ends the last
        BOOST_TEST(r.exists("step_1"));
        BOOST_TEST(r.exists("step_2"));
        BOOST_TEST(!r.exists("step_3"));
        me.meet();
        slow.open();
        (void)ckpt.wait();
        BOOST_TEST(uploaded_of(ckpt) == "step_2");
        save_step(me, ckpt, 6);
        (void)ckpt.wait();
        BOOST_TEST(uploaded_of(ckpt) == "step_6");
    });
    BOOST_TEST(places_of(r.base) == (list{"step_6"}), boost::test_tools::per_element());
    for (int const step : {1, 2, 6})
        BOOST_TEST(r.durable_value("step_" + std::to_string(step)) == static_cast<float>(step));
}

/// Each holds a checkpoint in the first place: one is on its way, one waits.
BOOST_AUTO_TEST_CASE(what_is_asked_for_waits_for_the_uploads_before) {
    tiered_run r(2);
    auto& slow = *r.far_controls.back();
    slow.close();
    std::jthread opener;
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer(r.options(me));
        save_step(me, ckpt, 1);
        BOOST_TEST(slow.wait_for(1));
        me.train(2);
        BOOST_TEST(ckpt.save_now(2, me).saved);
        BOOST_TEST(!r.is_durable("step_1"));
        me.meet();
        if (me.number == 0) opener = open_later(slow);  // by then the third save would have ended
        me.train(3);
        BOOST_TEST(ckpt.save_now(3, me).saved);
        BOOST_TEST(r.is_durable("step_1"));
        BOOST_TEST(ckpt.wait().has_value());
    });
    for (int const step : {1, 2, 3})
        BOOST_TEST(r.durable_value("step_" + std::to_string(step)) == static_cast<float>(step));
}

/// The process may be killed soon.
BOOST_AUTO_TEST_CASE(what_a_signal_asks_for_waits_for_no_upload) {
    tiered_run r(2);
    auto& slow = *r.far_controls.back();
    slow.close();
    r.on_ranks([&](rank& me) {
        auto o = r.options(me);
        if (me.number == 0) o.save_on_signal = {SIGUSR1};
        auto ckpt = me.checkpointer(o);
        save_step(me, ckpt, 1);
        BOOST_TEST(slow.wait_for(1));
        me.train(2);
        BOOST_TEST(ckpt.save_now(2, me).saved);
        if (me.number == 0) ::raise(SIGUSR1);
        save_step(me, ckpt, 3);
        me.meet();
        BOOST_TEST(!r.is_durable("step_1"));
        me.meet();
        slow.open();
        BOOST_TEST(ckpt.wait().has_value());
    });
    BOOST_TEST(r.durable_value("step_3") == 3.0f);
}

BOOST_AUTO_TEST_CASE(a_copy_of_the_checkpoint_that_was_loaded_is_kept) {
    tiered_run r(2);
    r.on_ranks([&](rank& me) {
        auto o = r.options(me);
        o.upload->keep = cairn::last(2);
        {
            auto ckpt = me.checkpointer(o);
            for (int const step : {100, 200}) {
                save_step(me, ckpt, step);
                (void)ckpt.wait();
            }
        }
        auto ckpt = me.checkpointer(o);
        (void)ckpt.load("step_100", me);
        for (int const step : {150, 160}) {
            me.train(step);
            BOOST_TEST(ckpt.save_now(step, me).saved);
            (void)ckpt.wait();
            BOOST_TEST(r.is_durable("step_100") == (step == 150));
        }
    });
}

/// The second save replaces the checkpoint that is being uploaded.
BOOST_AUTO_TEST_CASE(a_step_may_be_saved_again_while_it_is_uploaded) {
    tiered_run r(2);
    auto& slow = *r.far_controls.back();
    slow.close();
    std::jthread opener;
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer(r.options(me));
        save_step(me, ckpt, 10);
        BOOST_TEST(slow.wait_for(1));
        if (me.number == 0)
            opener = open_later(slow);  // by then the second save would have replaced the first
        me.train(11);
        BOOST_TEST(ckpt.save_now(10, me).saved);
        BOOST_TEST(ckpt.wait().has_value());
    });
    BOOST_TEST(r.durable_value("step_10") == 11.0f);
    BOOST_TEST(r.value_of("step_10") == 11.0f);
}

/// Ranks of several hosts: each sees its own disk only.
BOOST_AUTO_TEST_CASE(each_rank_uploads_from_its_own_disk) {
    constexpr int n = 3;
    tiered_run r(n);
    std::vector<cairn::memory_store> disks(n);
    notes saw;
    std::atomic<int> skipped{0};
    auto const disk_of = [&](const rank& me) { return disks[static_cast<std::size_t>(me.number)]; };
    r.on_ranks([&](rank& me) {
        auto o = r.options(me, 3);
        o.keep = cairn::last(1);
        cairn::checkpointer ckpt(me.member, disk_of(me), o);
        for (int step = 1; step <= 4; ++step) {
            save_step(me, ckpt, step);
            (void)ckpt.wait();
        }
        saw.add(me.number, uploaded_of(ckpt));
    });
    for (auto& disk : disks)
        BOOST_TEST(disk.places() == (list{"step_4"}), boost::test_tools::per_element());
    BOOST_TEST(r.durable_value("step_1") == 1.0f);
    BOOST_TEST(r.durable_value("step_4") == 4.0f);
    r.on_ranks([&](rank& me) {
        cairn::checkpointer ckpt(me.member, disk_of(me), r.options(me));
        auto const loaded = ckpt.load_latest(me, quietly(&skipped));
        BOOST_REQUIRE(loaded.has_value());
        saw.add(me.number, loaded->id);
        BOOST_TEST(me.row[0] == 4.0f);
    });
    BOOST_TEST((saw.agreed() == list{"step_4", "step_4"}));
    BOOST_TEST(skipped == 1);
}

BOOST_AUTO_TEST_CASE(the_newest_of_both_places_is_found) {
    for (int const n : {1, 2}) {
        tiered_run r(n);
        save_three(r);
        notes saw;
        // What is missing in the first place is found in the second one.
        auto const look = [&](float value) {
            r.on_ranks([&](rank& me) {
                auto ckpt = me.checkpointer(r.options(me));
                auto const found = ckpt.latest(quietly());
                saw.add(me.number, found.value_or("none"));
                (void)ckpt.load(*found, me);
                BOOST_TEST(me.row[0] == value);
                me.train(0);
                BOOST_TEST(ckpt.load_latest(me, quietly())->id == *found);
                BOOST_TEST(me.row[0] == value);
            });
        };
        look(3.0f);
        auto const older = r.base;
        r.base = cairn::memory_store();
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer(r.options(me));
            me.train(30);
            BOOST_TEST(ckpt.save_now(3, me).saved);
            (void)ckpt.wait();
        });
        r.base = older;
        look(30.0f);  // of two of one name
        auto place = r.base.at("step_3");
        for (auto const& info : place.list())  // damaged here, whole there
            if (support::is_data_file("step_3/" + info.name, "step_3/__0_0"))
                place.remove(info.name);
        look(30.0f);
        for (auto const& info : place.list()) place.remove(info.name);  // an older one is here
        look(30.0f);
        r.base = cairn::memory_store();
        look(30.0f);
        BOOST_TEST((saw.agreed() == list(5, "step_3")));
        // Steps go back: what is saved now is newer than all that is in the second place.
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer(r.options(me, 100));
            save_step(me, ckpt, 1);
            (void)ckpt.wait();
            me.train(2);
            BOOST_TEST(ckpt.latest(quietly()).value() == "step_1");
            (void)ckpt.load("step_1", me);
            BOOST_TEST(me.row[0] == 1.0f);
            (void)ckpt.load("step_2", me);  // there only
            BOOST_TEST(me.row[0] == 2.0f);
        });
    }
}

BOOST_AUTO_TEST_CASE(a_path_in_the_first_place_names_the_copy_in_the_second_too) {
    support::scratch const here;
    cairn::memory_store far;
    std::vector<float> w(3, 1.0f);
    cairn::state_dict const state{{"w", w}};
    cairn::checkpointer_options o{.every = cairn::steps(1)};
    o.upload = cairn::upload_options{.to = cairn::any_store(far)};
    {
        cairn::checkpointer ckpt(cairn::solo(), cairn::file_store(here.dir), o);
        (void)ckpt.save_now(1, state);
        (void)ckpt.wait();
    }
    std::filesystem::remove_all(here.dir / "step_1");
    w.assign(3, 0.0f);
    cairn::checkpointer ckpt(cairn::solo(), cairn::file_store(here.dir), o);
    (void)ckpt.load((here.dir / "step_1").string(), state);
    BOOST_TEST(w == std::vector<float>(3, 1.0f), boost::test_tools::per_element());
}

namespace {
/// As in a bucket, an id may be a URL.
class store_with_urls : public support::forwarding_store<cairn::memory_store> {
public:
    explicit store_with_urls(cairn::memory_store s) : forwarding_store(std::move(s)) {}
    std::string place_id(const std::string& id) const {
        std::string const mine = "near://run/";
        return id.starts_with(mine) ? id.substr(mine.size()) : id;
    }
    store_with_urls at(const std::string& id) const {
        return store_with_urls(store_.at(place_id(id)));
    }
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    std::string describe(std::string_view n) { return "near://run/" + std::string(n); }
};

/// What is in it cannot be opened.
class store_that_is_away : public support::forwarding_store<cairn::memory_store> {
public:
    explicit store_that_is_away(cairn::memory_store s) : forwarding_store(std::move(s)) {}
    store_that_is_away at(const std::string& id) const { return store_that_is_away(store_.at(id)); }
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    auto open(std::string_view n) {
        if (!n.empty()) throw cairn::error(cairn::errc::io, {.found = "no answer"});
        return store_.open(n);
    }
};
}  // namespace

/// E.g. a model from elsewhere, where a training begins.
BOOST_AUTO_TEST_CASE(a_checkpoint_of_another_format_is_loaded_from_the_first_place) {
    cairn::memory_store near, far;
    std::vector<float> w(3, 1.0f);
    cairn::state_dict const state{{"w", w}};
    cairn::save(state, "base", cairn::safetensors_writer(near));
    cairn::checkpointer_options o{.every = cairn::steps(1)};
    o.upload = cairn::upload_options{.to = cairn::any_store(far)};
    cairn::checkpointer ckpt(cairn::solo(), store_with_urls(near), o);
    for (std::string const id : {"base", "near://run/base"}) {
        w.assign(3, 0.0f);
        for (auto const& said : ckpt.load(id, state).warnings)
            BOOST_TEST(!has(said, "may be removed"), said);
        BOOST_TEST(w == std::vector<float>(3, 1.0f), boost::test_tools::per_element());
    }
    w.assign(3, 0.0f);
    o.upload->to = cairn::any_store(store_that_is_away(far));
    (void)cairn::checkpointer(cairn::solo(), near, o).load("base", state);
    BOOST_TEST(w == std::vector<float>(3, 1.0f), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_url_that_is_none_of_a_directory_names_a_checkpoint_of_the_second_place) {
    cairn::memory_store far;
    std::vector<float> w(3, 1.0f);
    cairn::state_dict const state{{"w", w}};
    cairn::save(state, "base", far);
    cairn::checkpointer_options o{.every = cairn::steps(1)};
    o.upload = cairn::upload_options{.to = cairn::any_store(store_with_urls(far))};
    w.assign(3, 0.0f);
    (void)cairn::checkpointer(cairn::solo(), "/nowhere/run", o).load("near://run/base", state);
    BOOST_TEST(w == std::vector<float>(3, 1.0f), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(options_that_cannot_be_are_refused_on_all_ranks) {
    enum { on_one_rank, same_place, every_0, kinds };
    for (int kind = 0; kind < kinds; ++kind) {
        tiered_run r(2);
        r.on_ranks([&](rank& me) {
            auto o = r.options(me, kind == every_0 ? 0 : 1);
            if (kind == on_one_rank && me.number == 0) o.upload.reset();
            cairn::file_store here("/nowhere/run");
            if (kind == same_place) o.upload->to = cairn::any_store(here);
            auto const make = [&] {
                if (kind == same_place)
                    cairn::checkpointer(me.member, here, o);
                else
                    (void)me.checkpointer(o);
            };
            BOOST_CHECK_EXCEPTION(make(), cairn::error, [](const cairn::error& e) {
                return e.code() == make_error_code(cairn::errc::invalid_argument);
            });
        });
    }
}

BOOST_AUTO_TEST_CASE(a_group_without_a_timeout_is_replaced_when_uploads_have_ended) {
    tiered_run r(2);
    cairn::thread_group second(2);
    auto& slow = *r.far_controls.back();
    slow.close();
    std::jthread opener;
    r.on_ranks([&](rank& me) {
        auto o = r.options(me);
        o.save.exchange_timeout = cairn::no_timeout;
        auto ckpt = me.checkpointer(o);
        save_step(me, ckpt, 1);
        BOOST_TEST(slow.wait_for(1));
        if (me.number == 0) opener = open_later(slow);
        auto const told = ckpt.replace_group(second.rank(me.number));
        BOOST_TEST(told.failures.empty());
        BOOST_TEST(told.uploaded.has_value());
    });
    BOOST_TEST(r.durable_value("step_1") == 1.0f);
}

BOOST_AUTO_TEST_SUITE_END()
