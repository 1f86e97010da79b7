// SPDX-License-Identifier: Apache-2.0
// Uploads that fail, and saves that fail before their upload: each is told once.
#include "support/forwarding_store.hpp"
#include "tiered_run.hpp"

#include <cairn/detail/host_name.hpp>
#include <cairn/object_store/memory.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(checkpointer_failed_uploads)

using namespace checkpointed_ranks;

namespace {

/// Saves from a step on until a failure, which has then ended on all ranks, is told. Then nothing
/// fails any more, and step 100 is saved. Notes what was told, how that save has ended, and what is
/// uploaded.
void go_on_until_told(rank& me, cairn::checkpointer& ckpt, int step, control& bad, notes& saw) {
    std::string said;
    for (; said.empty(); ++step) {
        me.train(step);
        auto const out = outcome_of([&] { return ckpt.maybe_save(step, me); });
        if (out != "saved") said = out;
    }
    saw.add(me.number, said);
    me.meet();
    bad.fail({});
    me.meet();
    me.train(100);
    saw.add(me.number, outcome_of([&] { return ckpt.maybe_save(100, me); }));
    BOOST_TEST(ckpt.wait().has_value());
    saw.add(me.number, uploaded_of(ckpt));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_failed_upload_is_told_like_a_failed_save_and_the_next_is_uploaded) {
    for (auto const what : support::all_thrown) {
        for (int const n : {1, 3}) {
            tiered_run r(n);
            auto& bad = *r.far_controls.back();
            notes saw;
            std::atomic<int> unclaimed{0};
            r.on_ranks([&](rank& me) {
                auto o = r.options(me, 1000);
                o.save.on_unclaimed_error = [&](const std::exception_ptr&) { ++unclaimed; };
                auto ckpt = me.checkpointer(o);
                save_step(me, ckpt, 1);
                BOOST_TEST(ckpt.wait().has_value());
                me.meet();
                bad.fail(what);
                me.meet();
                me.train(2);
                BOOST_TEST(ckpt.save_now(2, me).saved);
                BOOST_TEST(bad.wait_for(2));
                go_on_until_told(me, ckpt, 3, bad, saw);
            });
            BOOST_TEST(unclaimed == 0);
            auto const all = saw.agreed();
            BOOST_REQUIRE(all.size() == 3u);
            BOOST_TEST(has(all[0], "rank " + std::to_string(n - 1)), all[0]);
            BOOST_TEST(all[1] == "saved");
            BOOST_TEST(all[2] == "step_100");
            BOOST_TEST(!r.is_durable("step_2"));
            BOOST_TEST(r.durable_value("step_100") == 100.0f);
        }
    }
}

BOOST_AUTO_TEST_CASE(failed_uploads_are_tolerated_and_told_by_wait) {
    tiered_run r(2);
    auto& bad = *r.far_controls.back();
    bad.fail(support::thrown::cairn_error);
    notes saw;
    r.on_ranks([&](rank& me) {
        auto o = r.options(me);
        o.max_failed_saves = 1;
        auto ckpt = me.checkpointer(o);
        save_step(me, ckpt, 1);
        std::string said;
        int step = 2;
        for (; said.empty(); ++step) {
            me.train(step);
            auto const result = ckpt.maybe_save(step, me);
            BOOST_TEST(result.saved);
            if (!result.failures.empty()) said = result.failures.at(0).text;
        }
        saw.add(me.number, said);
        BOOST_CHECK_EXCEPTION((void)ckpt.wait(), cairn::error, [&](const cairn::error& e) {
            return has(e.what(), "the upload of step 1") && e.failures().size() >= 2u;
        });
        me.meet();
        bad.fail({});
        me.meet();
        save_step(me, ckpt, step);
        BOOST_TEST(ckpt.wait().has_value());
        saw.add(me.number, uploaded_of(ckpt));
    });
    auto const all = saw.agreed();
    BOOST_REQUIRE(all.size() == 2u);
    BOOST_TEST(has(all[0], "injected"), all[0]);
    BOOST_TEST(all[1] != "none");
}

/// The process may be killed soon.
BOOST_AUTO_TEST_CASE(a_signal_has_its_save_though_an_upload_has_failed) {
    tiered_run r(2);
    r.far_controls.back()->fail(support::thrown::cairn_error);
    notes saw;
    r.on_ranks([&](rank& me) {
        auto o = r.options(me);
        o.save.on_unclaimed_error = [](const std::exception_ptr&) {};
        if (me.number == 0) o.save_on_signal = {SIGUSR1};
        auto ckpt = me.checkpointer(o);
        save_step(me, ckpt, 1);
        std::string said;
        for (int step = 2; said.empty(); ++step) {
            if (me.number == 0) ::raise(SIGUSR1);
            me.train(step);
            said = outcome_of([&] { return ckpt.maybe_save(step, me); });
            if (said == "saved") said.clear();
        }
        saw.add(me.number, said);
    });
    auto const all = saw.agreed();
    BOOST_REQUIRE(all.size() == 1u);
    BOOST_TEST(has(all[0], "saved; "), all[0]);
    BOOST_TEST(has(all[0], "injected"), all[0]);
}

namespace {
/// A place that does not answer any more once it is asked to commit.
class silent_store : public support::forwarding_store<cairn::memory_store> {
public:
    enum state { well, until_commit, silent };
    silent_store(cairn::memory_store s, std::atomic<state>& is)
        : forwarding_store(std::move(s)), is_(&is) {}
    silent_store at(const std::string& id) const { return {store_.at(id), *is_}; }
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    void publish(std::string_view n, cairn::byte_span b, std::optional<cairn::object_tag> m) {
        auto from = until_commit;
        if (n == ".metadata") is_->compare_exchange_strong(from, silent);
        check();
        store_.publish(n, b, std::move(m));
    }
    auto open(std::string_view n) {
        check();
        return store_.open(n);
    }
    cairn::object_tag tag(std::string_view n) {
        check();
        return store_.tag(n);
    }
    auto places() {
        check();
        return store_.places();
    }

private:
    void check() const {
        if (*is_ == silent) throw cairn::error(cairn::errc::io, {.found = "no answer"});
    }
    std::atomic<state>* is_;
};
}  // namespace

BOOST_AUTO_TEST_CASE(uploads_go_on_after_a_save_in_doubt) {
    tiered_run r(2);
    std::atomic<silent_store::state> disk{silent_store::well};
    r.on_ranks([&](rank& me) {
        auto o = r.options(me);
        o.max_failed_saves = 3;
        cairn::checkpointer ckpt(me.member, silent_store(r.base, disk), o);
        save_step(me, ckpt, 1);
        (void)ckpt.wait();
        me.meet();
        disk = silent_store::until_commit;
        me.meet();
        save_step(me, ckpt, 2);
        BOOST_CHECK_EXCEPTION((void)ckpt.wait(), cairn::error, [](const cairn::error& e) {
            return e.code() == make_error_code(cairn::errc::outcome_unknown);
        });
        me.meet();
        disk = silent_store::well;
        me.meet();
        save_step(me, ckpt, 3);
        BOOST_TEST(ckpt.wait().has_value());
        BOOST_TEST(uploaded_of(ckpt) == "step_3");
    });
    BOOST_TEST(r.durable_value("step_3") == 3.0f);
}

BOOST_AUTO_TEST_CASE(a_second_place_that_is_away_at_the_start_is_told_with_a_way_out) {
    tiered_run r(2);
    std::atomic<silent_store::state> bucket{silent_store::silent};
    notes saw;
    r.on_ranks([&](rank& me) {
        {
            auto ckpt = me.checkpointer({.every = cairn::steps(1)});
            save_step(me, ckpt, 1);
        }
        auto o = r.options(me);
        o.upload->to = cairn::any_store(silent_store(r.far, bucket));
        auto ckpt = me.checkpointer(o);
        saw.add(me.number, outcome_of([&] {
                    (void)ckpt.load_latest(me);
                    return cairn::checkpoint_result();
                }));
        o.upload.reset();
        auto alone = me.checkpointer(o);
        BOOST_TEST(alone.load_latest(me)->id == "step_1");
    });
    auto const told = saw.agreed();
    BOOST_REQUIRE(told.size() == 1u);
    BOOST_TEST(has(told[0], "leave checkpointer_options::upload out"), told[0]);
}

BOOST_AUTO_TEST_CASE(the_end_of_a_run_waits_for_uploads_and_tells_of_failures) {
    for (bool const fails : {false, true}) {
        tiered_run r(2);
        if (fails) r.far_controls[1]->fail(support::thrown::runtime_error);
        std::atomic<int> unclaimed{0};
        r.on_ranks([&](rank& me) {
            auto o = r.options(me, 100);
            o.save.on_unclaimed_error = [&](const std::exception_ptr&) { ++unclaimed; };
            auto ckpt = me.checkpointer(o);
            me.train(5);
            BOOST_TEST(ckpt.save_now(5, me).saved);  // whatever `every` is
        });
        BOOST_TEST(r.exists("step_5"));
        BOOST_TEST(r.is_durable("step_5") == !fails);
        BOOST_TEST(unclaimed == (fails ? 2 : 0));
    }
}

namespace {
/// A disk that loses a file as soon as it is complete.
class losing_store : public support::forwarding_store<cairn::memory_store> {
public:
    losing_store(cairn::memory_store s, bool loses)
        : forwarding_store(std::move(s)), loses_(loses) {}
    losing_store at(const std::string& id) const { return {store_.at(id), loses_}; }
    struct writer {
        cairn::memory_store store;
        std::string name;
        bool loses;
        cairn::memory_store::writer to;

        void write(std::uint64_t at, cairn::byte_span b) { to.write(at, b); }
        void finish(bool durable) {
            to.finish(durable);
            if (loses) store.remove(name);
        }
    };
    writer create(std::string_view n, std::uint64_t size) {
        return {store_, std::string(n), loses_, store_.create(n, size)};
    }

private:
    bool loses_;
};
}  // namespace

/// The coordinator does not see the disks of other hosts.
BOOST_AUTO_TEST_CASE(a_file_that_a_disk_loses_is_told_with_rank_and_host) {
    constexpr int n = 3;
    tiered_run r(n);
    std::vector<cairn::memory_store> disks(n);
    notes saw;
    r.on_ranks([&](rank& me) {
        losing_store disk(disks[static_cast<std::size_t>(me.number)], me.number == 2);
        cairn::checkpointer ckpt(me.member, disk, r.options(me));
        me.train(1);
        BOOST_TEST(ckpt.save_now(1, me).saved);
        saw.add(me.number, outcome_of([&] {
                    (void)ckpt.wait();
                    return cairn::checkpoint_result();
                }));
    });
    auto const all = saw.agreed();
    BOOST_REQUIRE(all.size() == 1u);
    BOOST_TEST(has(all[0], "rank 2"), all[0]);
    BOOST_TEST(has(all[0], "step_1/__2_0"), all[0]);
    BOOST_TEST(has(all[0], "on host '" + cairn::detail::host_name() + "'"), all[0]);
    BOOST_TEST(!r.is_durable("step_1"));
}

BOOST_AUTO_TEST_CASE(a_save_that_fails_in_the_first_place_is_told_once) {
    for (int const n : {1, 3}) {
        tiered_run r(n);
        auto& bad = *r.controls.back();
        bad.fail(support::thrown::cairn_error);
        notes saw;
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer(r.options(me));
            save_step(me, ckpt, 1);
            // By then the upload, too, knows that it has nothing to copy.
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
            go_on_until_told(me, ckpt, 2, bad, saw);
        });
        auto const all = saw.agreed();
        BOOST_REQUIRE(all.size() == 3u);
        BOOST_TEST(!has(all[0], "upload"), all[0]);
        BOOST_TEST(all[1] == "saved");
        BOOST_TEST(all[2] == "step_100");
    }
}

BOOST_AUTO_TEST_SUITE_END()
