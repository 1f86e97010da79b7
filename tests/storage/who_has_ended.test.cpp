// SPDX-License-Identifier: Apache-2.0
// A save has ended when its process has, when its job was started again, or when it has shown no
// sign of life for a day by the storage's clock; and one that was presumed dead cannot commit.
#include "interrupted.hpp"
#include "support/forwarding_store.hpp"
#include "support/paused_process.hpp"

#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/detail/claim.hpp>
#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/found_intent.hpp>
#include <cairn/storage/detail/leftovers.hpp>
#include <cairn/storage/detail/running_saves.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(leftovers)

using namespace interrupted;

namespace {

/// A storage whose clock is not this host's.
struct distant_store : cairn::file_store {
    distant_store(const fs::path& at, hours off, bool knows = true)
        : cairn::file_store(at), off_(off), knows_(knows) {}
    std::vector<cairn::object_info> list() {
        auto all = cairn::file_store::list();
        for (auto& i : all)
            i.modified = knows_ ? i.modified + std::chrono::nanoseconds(off_).count() : 0;
        return all;
    }

private:
    hours off_;
    bool knows_;
};

/// Another process adopts each intent before its tag is first looked at, and may then remove it.
class adopting_store : public support::forwarding_store<cairn::file_store> {
public:
    adopting_store(cairn::file_store s, bool removes)
        : forwarding_store(std::move(s)), removes_(removes) {}
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    cairn::object_tag tag(std::string_view n) {
        if (cairn::detail::is_intent_name(n)) {
            auto its = save_intent::decode(cairn::read_whole(store_, n));
            its.owner = of_another_host(its.save_id).owner;
            store_.publish(n, its.encode(), std::nullopt);
            if (removes_) store_.remove(n);
        }
        return store_.tag(n);
    }

private:
    bool removes_;
};
static_assert(cairn::ObjectStore<adopting_store>);

}  // namespace

BOOST_AUTO_TEST_CASE(leftovers_of_this_process_go_unless_their_save_still_runs) {
    auto const i = intent_of(id_a);
    BOOST_TEST(is_collected(i));
    {
        cairn::detail::running_save const one(id_a), another_rank(id_a);
        BOOST_TEST(!is_collected(i));
        BOOST_TEST(!is_collected(i, hours(30)), "it takes its time");
    }
    BOOST_TEST(is_collected(i));
}

BOOST_AUTO_TEST_CASE(leftovers_of_another_process_on_this_host_go_when_it_has_ended) {
    std::optional<support::paused_process> child(std::in_place,
                                                 [](auto park) { park(intent_of(id_a).encode()); });
    auto const i = save_intent::decode(child->said());
    BOOST_TEST(i.owner.process.pid == child->pid());
    BOOST_TEST(i.owner.process.run != cairn::detail::this_process().run);
    BOOST_TEST(!is_collected(i), "it runs");
    auto another = i;
    ++another.owner.process.started;  // whose number this process has now
    BOOST_TEST(is_collected(another));
    child->kill();
    BOOST_TEST(is_collected(i), "it has ended, though its parent has not looked");
    child.reset();
    BOOST_TEST(is_collected(i));
    another = i;
    another.owner.process.boot = "before the host was started again";
    BOOST_TEST(!is_collected(another), "perhaps another host");
    another = i;
    ++another.owner.process.pid_space;
    BOOST_TEST(!is_collected(another), "perhaps a process that cannot be seen from here");
}

BOOST_AUTO_TEST_CASE(leftovers_of_another_host_go_a_day_after_their_last_sign_of_life) {
    auto i = of_another_host(id_a);
    BOOST_TEST(!is_collected(i));
    BOOST_TEST(!is_collected(i, hours(23)));
    BOOST_TEST(is_collected(i, hours(25)));
    BOOST_TEST(!is_collected(i, hours(25), hours(23)), "a file was written since");
    BOOST_TEST(!is_collected(i, hours(-1000)), "from the future");
}

BOOST_AUTO_TEST_CASE(no_clock_of_a_host_decides) {
    auto i = of_another_host(id_a);
    for (auto const absurd : {std::numeric_limits<std::int64_t>::min(), std::int64_t{0},
                              std::numeric_limits<std::int64_t>::max()}) {
        i.began = absurd;
        BOOST_TEST(!is_collected(i));
        BOOST_TEST(is_collected(i, hours(25)));
    }
    // A storage whose clock is days away from this host's.
    for (auto const off : {hours(-1000), hours(1000)}) {
        place p;
        p.write(".saving." + id_a, i.encode());
        distant_store store(p.at, off);
        cairn::detail::claim<distant_store> mine;
        (void)mine.take(store, id_b, {"__0_0.distcp"}, true);
        (void)mine.sweep(store, {"__0_0.distcp"}, nullptr);
        BOOST_TEST(p.has(".saving." + id_a));
    }
    // One that knows no times.
    place p;
    p.write(".saving." + id_a, i.encode());
    p.age(".saving." + id_a, hours(1000));
    distant_store store(p.at, {}, false);
    cairn::detail::claim<distant_store> mine;
    (void)mine.take(store, id_b, {"__0_0.distcp"}, true);
    (void)mine.sweep(store, {"__0_0.distcp"}, nullptr);
    BOOST_TEST(p.has(".saving." + id_a));
}

BOOST_AUTO_TEST_CASE(leftovers_of_an_earlier_attempt_of_the_job_go_at_once) {
    struct variables {
        explicit variables(const char* attempt) {
            ::setenv("CAIRN_JOB_ID", "17", 1);
            ::setenv("CAIRN_JOB_ATTEMPT", attempt, 1);
        }
        variables(variables&&) = delete;
        ~variables() {
            ::unsetenv("CAIRN_JOB_ID");
            ::unsetenv("CAIRN_JOB_ATTEMPT");
        }
    };
    auto i = of_another_host(id_a);
    {
        variables const v("2");
        i.owner.job = cairn::detail::job_attempt::of_this_process();
    }
    BOOST_TEST(!is_collected(i), "this process is of no job");
    for (auto const* attempt : {"0", "1", "2"}) {
        variables const v(attempt);
        BOOST_TEST(!is_collected(i), "the same attempt, or a later one");
    }
    variables const v("3");
    BOOST_TEST(is_collected(i));
    {  // Its processes may still be alive: not before something newer was committed.
        place p;
        p.write(".saving." + id_a, i.encode());
        cairn::file_store store(p.at);
        cairn::detail::claim<cairn::file_store> mine;
        (void)mine.take(store, id_b, {"__0_0.distcp"}, true);
        BOOST_TEST((save_intent::decode(cairn::read_whole(store, ".saving." + id_a)) == i));
        mine.release(store);
    }
    i.owner.job.job += "0";
    BOOST_TEST(!is_collected(i), "another job");
}

BOOST_AUTO_TEST_CASE(what_is_presumed_dead_is_adopted_before_anything_is_removed) {
    place p;
    auto const i = of_another_host(id_a);
    p.write(".saving." + id_a, i.encode());
    p.write(i.names[0], "left");
    for (auto const& name : {".saving." + id_a, i.names[0]}) p.age(name, hours(25));
    cairn::file_store store(p.at);
    auto const own = ".saving." + id_b;
    store.publish(own, intent_of(id_b).encode(), std::nullopt);
    std::set<std::string> const standing{"__0_0.distcp"};
    cairn::detail::leftovers<cairn::file_store> l(store, standing, nullptr);
    l.find(own, {});
    BOOST_TEST(p.has(i.names[0]));
    auto const now = save_intent::decode(cairn::read_whole(store, ".saving." + id_a));
    BOOST_TEST(cairn::detail::is_this_process(now.owner.process));
    BOOST_TEST(now.names == i.names);
    l.remove_found();
    BOOST_TEST((!p.has(i.names[0]) && !p.has(".saving." + id_a)));
}

/// It may have been presumed dead too early.
BOOST_AUTO_TEST_CASE(a_save_that_was_adopted_cannot_commit) {
    for (bool const goes_on : {true, false}) {
        place p;
        cairn::file_store store(p.at);
        cairn::detail::claim<cairn::file_store> mine;
        (void)mine.take(store, id_a, {"__0_0.distcp"}, true);
        auto const name = ".saving." + id_a;
        auto found = cairn::detail::read_intent(store, cairn::object_info{name, 0});
        BOOST_REQUIRE(found.has_value());
        BOOST_TEST(cairn::detail::adopt(store, *found));
        BOOST_TEST(!cairn::detail::adopt(store, *found), "it is not what was found any more");
        if (!goes_on) store.remove(name);
        auto const before = store.tag(".metadata");
        auto const bytes = cairn::read_whole(store, ".metadata");
        BOOST_CHECK_EXCEPTION(mine.publish(store, bytes), cairn::error, [&](const auto& e) {
            return e.code() == cairn::make_error_code(cairn::errc::concurrent_save);
        });
        BOOST_TEST((store.tag(".metadata") == before));
    }
}

BOOST_AUTO_TEST_CASE(a_save_whose_place_was_removed_does_not_make_it_again) {
    place p;
    cairn::any_store store{cairn::file_store(p.at)};
    cairn::detail::claim<cairn::any_store> mine;
    (void)mine.take(store, id_a, {"__0_0.distcp"}, true);
    auto const bytes = cairn::read_whole(store, ".metadata");
    fs::remove_all(p.at);
    BOOST_CHECK_EXCEPTION(mine.publish(store, bytes), cairn::error, [](const auto& e) {
        return e.code() == make_error_code(cairn::errc::concurrent_save) &&
               std::string(e.what()).find("presumed this one dead") != std::string::npos;
    });
    BOOST_TEST(!fs::exists(p.at));
}

/// Another process adopts the intent while `.metadata` is written, which takes a while.
class slow_store : public support::forwarding_store<cairn::file_store> {
public:
    explicit slow_store(cairn::file_store s) : forwarding_store(std::move(s)) {}
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    using forwarding_store::publish;
    void publish(std::string_view n, cairn::byte_span b, std::optional<cairn::object_tag> m,
                 const std::function<void()>& look) {
        auto const name = ".saving." + id_a;
        auto its = save_intent::decode(cairn::read_whole(store_, name));
        its.owner = of_another_host(id_a).owner;
        store_.publish(name, its.encode(), std::nullopt);
        store_.publish(n, b, std::move(m), look);
    }
};
static_assert(cairn::ObjectStore<slow_store>);

BOOST_AUTO_TEST_CASE(a_save_that_is_adopted_while_its_metadata_is_written_cannot_commit) {
    place p;
    slow_store store{cairn::file_store(p.at)};
    cairn::detail::claim<slow_store> mine;
    (void)mine.take(store, id_a, {"__0_0.distcp"}, true);
    auto const before = store.tag(".metadata");
    BOOST_CHECK_EXCEPTION(
        mine.publish(store, cairn::read_whole(store, ".metadata")), cairn::error,
        [](const auto& e) { return e.code() == make_error_code(cairn::errc::concurrent_save); });
    BOOST_TEST((store.tag(".metadata") == before));
}

/// A host of NFS, which has cached that there are no data files, until it changes the place itself.
class late_store : public support::forwarding_store<cairn::file_store> {
public:
    explicit late_store(cairn::file_store s) : forwarding_store(std::move(s)) {}
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    auto open(std::string_view n) {
        if (is_late_ && cairn::detail::is_data_name(n))
            throw cairn::error(cairn::errc::not_found, {.file = std::string(n)});
        return store_.open(n);
    }
    cairn::object_tag tag(std::string_view n) {
        return is_late_ && cairn::detail::is_data_name(n) ? cairn::object_tag() : store_.tag(n);
    }
    void publish(std::string_view n, cairn::byte_span b, std::optional<cairn::object_tag> m) {
        store_.publish(n, b, std::move(m));
        is_late_ = false;
    }

private:
    bool is_late_ = true;
};

BOOST_AUTO_TEST_CASE(what_has_ended_is_removed_by_a_host_that_sees_names_late) {
    for (bool const certain : {true, false}) {
        place p;
        auto const i = intent_of(id_a);
        p.write(".saving." + id_a, i.encode());
        p.write(i.names[0], "left");
        late_store store{cairn::file_store(p.at)};
        cairn::detail::leftovers<late_store> l(store, {"__0_0.distcp"}, nullptr);
        if (certain)
            l.find_ended();
        else
            l.find({}, {});
        l.remove_found();
        BOOST_TEST((!p.has(i.names[0]) && !p.has(".saving." + id_a)));
    }
}

/// As when its process stood still for a day after it had written the intent.
BOOST_AUTO_TEST_CASE(a_save_that_was_adopted_at_once_does_not_begin) {
    for (bool const removed : {false, true}) {
        place p;
        cairn::file_store files(p.at);
        adopting_store store(files, removed);
        cairn::detail::claim<adopting_store> mine;
        BOOST_CHECK_EXCEPTION(
            mine.take(store, id_a, {"__0_0.distcp"}, true), cairn::error, [](const auto& e) {
                return e.code() == cairn::make_error_code(cairn::errc::concurrent_save);
            });
        BOOST_TEST(mine.release(store).empty());
        BOOST_TEST(p.has(".saving." + id_a) == !removed, "the intent is another process's");
    }
}

BOOST_AUTO_TEST_SUITE_END()
