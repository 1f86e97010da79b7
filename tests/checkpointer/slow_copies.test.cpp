// SPDX-License-Identifier: Apache-2.0
// Ranks that take long, to copy or to remove: the others wait as long as they advance.
#include "tiered_run.hpp"

#include <cairn/error.hpp>

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(checkpointer_slow_copies)

using namespace checkpointed_ranks;
using namespace std::chrono_literals;

namespace {

/// A place in memory in which each write takes a while, and each removal.
class slow_store : public support::forwarding_store<cairn::memory_store> {
public:
    template <class Handle>
    struct slow {
        Handle handle;
        std::chrono::milliseconds each;

        void write(std::uint64_t at, cairn::byte_span b) {
            std::this_thread::sleep_for(each);
            handle.write(at, b);
        }
        void finish(bool durable) { handle.finish(durable); }
    };

    slow_store(cairn::memory_store s, std::chrono::milliseconds each)
        : forwarding_store(std::move(s)), each_(each) {}
    slow_store at(const std::string& id) const { return {store_.at(id), each_}; }
    auto create(std::string_view n, std::uint64_t size) {
        auto h = store_.create(n, size);
        return slow<decltype(h)>{std::move(h), each_};
    }
    void remove(std::string_view n) {
        std::this_thread::sleep_for(each_);
        store_.remove(n);
    }

private:
    std::chrono::milliseconds each_;
};
/// One in which each file takes a while to be opened.
class slow_to_open : public support::forwarding_store<cairn::memory_store> {
public:
    slow_to_open(cairn::memory_store s, std::chrono::milliseconds each)
        : forwarding_store(std::move(s)), each_(each) {}
    slow_to_open at(const std::string& id) const { return {store_.at(id), each_}; }
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    auto open(std::string_view n) {
        std::this_thread::sleep_for(each_);
        return store_.open(n);
    }

private:
    std::chrono::milliseconds each_;
};

/// A rank's state, and tensors that each are a write of their own.
struct many_tensors {
    static constexpr std::size_t elements = std::size_t{1} << 14;
    rank& me;
    std::vector<std::vector<float>> own{};

    cairn::state_dict state_dict() {
        auto d = me.state_dict();
        for (std::size_t i = 0; i < own.size(); ++i) d["own" + std::to_string(i)] = own[i];
        return d;
    }
    void load_state_dict(const cairn::state_dict&) {}
};

/// To remove them is 40 removals, 2.4 s or more in a slow store.
void save_twenty(run& r) {
    r.on_ranks([&](rank& me) {
        cairn::checkpointer ckpt(me.member, r.base, {.every = cairn::steps(1)});
        for (int step = 1; step <= 20; ++step) {
            me.train(step);
            BOOST_TEST(ckpt.maybe_save(step, me).saved);
        }
        (void)ckpt.wait();
    });
}

}  // namespace

/// Rank 1 has nothing to do meanwhile, for more than `exchange_timeout`. A run that goes on has
/// loaded before.
BOOST_DATA_TEST_CASE(a_rank_without_room_may_take_longer_than_a_timeout,
                     boost::unit_test::data::make({false, true}), resumed) {
    constexpr std::size_t count = 40;  // 2.4 s or more
    run r(2);
    if (resumed) save_twenty(r);
    r.on_ranks([&](rank& me) {
        bool const slow = me.number == 0;
        cairn::checkpointer_options o{.every = cairn::steps(1)};
        o.save.exchange_timeout = 1200ms;
        if (slow) o.arena = {.budget = 4096, .slab_bytes = 4096};
        cairn::checkpointer ckpt(me.member, slow_store(r.base, slow ? 60ms : 0ms), o);
        if (resumed) BOOST_TEST(ckpt.load_latest(me).has_value());
        many_tensors s{me};
        if (slow) s.own.assign(count, std::vector<float>(many_tensors::elements, 1));
        me.train(1);
        BOOST_TEST(bool(ckpt.save_now(1, s)));
        me.train(2);
        for (auto& t : s.own) t.assign(many_tensors::elements, 2);
        BOOST_TEST(ckpt.wait().has_value());
    });
    BOOST_TEST(r.value_of("step_1") == 1.0f);
    auto const all = support::load_whole(r.base, "step_1").tensors;
    for (std::size_t i = 0; i < count; ++i)
        BOOST_TEST(support::only_number(all.at("own" + std::to_string(i))) == 1.0f);
}

/// Rank 1 has copied, and waits for rank 0 at the next step, for more than `exchange_timeout`.
BOOST_AUTO_TEST_CASE(an_update_may_wait_for_a_rank_without_room_longer_than_a_timeout) {
    run r(2);
    r.on_ranks([&](rank& me) {
        bool const slow = me.number == 0;
        cairn::checkpointer_options o{.every = cairn::steps(1), .overlap = true};
        o.save.exchange_timeout = 1200ms;
        if (slow) o.arena = {.budget = 4096, .slab_bytes = 4096};
        cairn::checkpointer ckpt(me.member, slow_store(r.base, slow ? 60ms : 0ms), o);
        many_tensors s{me};
        if (slow) s.own.assign(40, std::vector<float>(many_tensors::elements, 1));
        me.train(1);
        BOOST_TEST(bool(ckpt.maybe_save(1, s)));
        ckpt.before_update();  // 2.4 s or more on rank 0
        me.train(2);
        for (auto& t : s.own) t.clear();
        (void)ckpt.maybe_save(2, s);
        (void)ckpt.wait();
    });
    BOOST_TEST(r.value_of("step_1") == 1.0f);
}

/// Rank 1 waits at the next step for rank 0, which cannot let its tensors change. It learns that
/// after `exchange_timeout`, not when the storage answers again.
BOOST_AUTO_TEST_CASE(an_update_that_waits_for_hanging_storage_does_not_hold_the_other_ranks) {
    run r(2);
    auto& hanging = *r.controls[0];
    hanging.close();
    std::atomic<bool> told{false};
    r.on_ranks([&](rank& me) {
        cairn::checkpointer_options o{.every = cairn::steps(1), .overlap = true};
        o.save.exchange_timeout = 1s;
        o.save.on_unclaimed_error = [](const std::exception_ptr&) {};
        if (me.number == 0) o.arena = {.budget = 4096, .slab_bytes = 4096};
        auto ckpt = me.checkpointer(o);
        many_tensors s{me};
        if (me.number == 0) s.own.assign(1, std::vector<float>(many_tensors::elements, 1));
        me.train(1);
        BOOST_TEST(bool(ckpt.maybe_save(1, s)));
        if (me.number == 0) BOOST_TEST(hanging.wait_for(1));
        ckpt.before_update();
        if (me.number == 0) BOOST_TEST(told.load());
        me.train(2);
        auto const is_told = [&](const cairn::error& e) {
            return me.number == 0 || (e.code() == make_error_code(cairn::errc::timed_out) &&
                                      has(e.what(), "rank 0 did not arrive"));
        };
        BOOST_CHECK_EXCEPTION((void)ckpt.maybe_save(2, s), cairn::error, is_told);
        if (me.number == 0) return;
        told = true;
        hanging.open();
    });
    BOOST_TEST(!r.exists("step_2"));
}

/// Rank 1 waits for a save that has ended there, while rank 0 removes what is not kept, for more
/// than `exchange_timeout`.
BOOST_AUTO_TEST_CASE(ranks_wait_for_one_that_removes_much) {
    run r(2);
    save_twenty(r);
    r.on_ranks([&](rank& me) {
        cairn::checkpointer_options o{.every = cairn::steps(1)};
        o.save.exchange_timeout = 1200ms;
        o.keep = cairn::last(1);
        cairn::checkpointer ckpt(me.member, slow_store(r.base, 60ms), o);
        me.train(30);
        BOOST_TEST(bool(ckpt.save_now(30, me)));
        BOOST_TEST(ckpt.wait().has_value());
    });
    BOOST_TEST(!r.exists("step_20"));
    BOOST_TEST(r.value_of("step_30") == 30.0f);
}

/// Rank 1 waits while rank 0 looks for the newest checkpoint, for more than `exchange_timeout`.
BOOST_AUTO_TEST_CASE(ranks_wait_for_one_that_searches_long) {
    run r(2);
    save_twenty(r);
    r.base.remove(".cairn-records");
    r.on_ranks([&](rank& me) {
        cairn::checkpointer_options o{.every = cairn::steps(1)};
        o.save.exchange_timeout = 1200ms;
        cairn::checkpointer ckpt(me.member, slow_to_open(r.base, me.number == 0 ? 120ms : 0ms), o);
        auto const found = ckpt.load_latest(me);
        BOOST_REQUIRE(found.has_value());
        BOOST_TEST(found->id == "step_20");
    });
}

/// Rank 1 begins to upload when its save has ended, while rank 0 removes what is not kept, for more
/// than `exchange_timeout`.
BOOST_AUTO_TEST_CASE(uploads_wait_for_a_rank_that_removes_much) {
    tiered_run r(2);
    save_twenty(r);
    r.on_ranks([&](rank& me) {
        auto o = r.options(me);
        o.save.exchange_timeout = 1200ms;
        o.keep = cairn::last(1);
        cairn::checkpointer ckpt(me.member, slow_store(r.base, 60ms), o);
        for (int const step : {30, 40}) {
            me.train(step);
            BOOST_TEST(bool(ckpt.save_now(step, me)));
            for (int i = 0; i < 200 && !r.is_durable("step_" + std::to_string(step)); ++i)
                std::this_thread::sleep_for(100ms);
            (void)ckpt.wait();
        }
    });
    BOOST_TEST(!r.exists("step_20"));
    for (int const step : {30, 40})
        BOOST_TEST(r.durable_value("step_" + std::to_string(step)) == static_cast<float>(step));
}

/// Those that are new wait for the others no longer than `exchange_timeout`.
BOOST_AUTO_TEST_CASE(a_group_is_replaced_though_an_upload_takes_long) {
    tiered_run r(2);
    cairn::thread_group second(2);
    r.on_ranks([&](rank& me) {
        auto o = r.options(me);
        o.save.exchange_timeout = 1200ms;
        o.upload->to = cairn::any_store(slow_store(r.far, 60ms));
        auto ckpt = me.checkpointer(o);
        many_tensors s{me};
        s.own.assign(80, std::vector<float>(many_tensors::elements, 1));  // 4.8 s or more
        me.train(1);
        BOOST_TEST(bool(ckpt.save_now(1, s)));
        auto const told = ckpt.replace_group(second.rank(me.number));
        BOOST_TEST(!told.uploaded.has_value());
        BOOST_REQUIRE(!told.failures.empty());
        BOOST_TEST(has(told.failures.at(0).text, "the upload of step 1"));
    });
    BOOST_TEST(r.value_of("step_1") == 1.0f);
    BOOST_TEST(!r.is_durable("step_1"));
}

BOOST_AUTO_TEST_SUITE_END()
