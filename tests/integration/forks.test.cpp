// SPDX-License-Identifier: Apache-2.0
// Children of a process that saves: data loaders, daemons, launchers of other programs.
#include "save/background_ranks.hpp"
#include "support/child_process.hpp"
#include "support/forwarding_store.hpp"
#include "support/scratch.hpp"
#include "support/tcp_ranks.hpp"

#include <cairn/checkpointer.hpp>
#include <cairn/comm/detail/tcp/rendezvous_file.hpp>
#include <cairn/comm/tcp_group.hpp>
#include <cairn/detail/forks.hpp>
#include <cairn/load.hpp>
#include <cairn/object_store/detail/process_identity.hpp>
#include <cairn/object_store/detail/replace_file.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/observe/trace_file.hpp>
#include <cairn/storage/torch_writer.hpp>

#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

/// A child has all of its parent's memory, and not the threads whose stacks refer to it.
extern "C" int __lsan_is_turned_off() {
    return support::in_a_child;
}

BOOST_AUTO_TEST_SUITE(forks)

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using cairn::errc;
using support::child_that;
using support::end_of;
using support::has_open;
using support::sockets_of;

template <class F>
bool refuses(F&& f) {
    try {
        f();
    } catch (const cairn::error& e) {
        return e.code() == cairn::make_error_code(errc::invalid_argument) &&
               std::string_view(e.what()).find("before fork()") != std::string_view::npos;
    }
    return false;
}

struct trainer {
    std::vector<float> w = std::vector<float>(1000, 3.0f);
    cairn::state_dict state_dict() { return {{"w", w}}; }
    void load_state_dict(const cairn::state_dict&) {}
};
cairn::pending_save save(const std::filesystem::path& to) {
    trainer t;
    auto sd = t.state_dict();
    return cairn::async_save(sd, to.string(), cairn::solo(), asio::use_future).get();
}
/// What a process may do that has just begun.
int use_all(const std::filesystem::path& at) {
    (void)save(at / "a").wait();
    trainer t;
    auto sd = t.state_dict();
    (void)cairn::save(sd, (at / "b").string(), cairn::solo());
    cairn::checkpointer ckpt(cairn::solo(), at / "run", {.every = cairn::steps(1)});
    (void)ckpt.maybe_save(1, t);
    (void)ckpt.wait();
    std::vector<float> w(1000);
    cairn::state_dict loaded{{"w", w}};
    for (auto const* id : {"a", "b", "run/step_1"})
        (void)cairn::load(loaded, (at / id).string(), cairn::solo());
    cairn::run_ranks(2, [](cairn::thread_group::member& me) {
        (void)cairn::await_completion<std::vector<cairn::message>>(
            [&](auto done) { me.all_gather({}, cairn::deadline_after(20s), std::move(done)); });
    });
    return w == t.w ? 0 : 2;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_child_saves_loads_and_ends_as_another_process) {
    support::scratch s;
    (void)save(s.dir / "before").wait();
    BOOST_TEST(end_of(child_that([] { return 0; })) == 0);
    BOOST_TEST(end_of(child_that([&] { return use_all(s.dir / "child"); })) == 0);
    // As can a child of the child.
    BOOST_TEST(end_of(child_that([&] {
                   (void)save(s.dir / "again").wait();
                   return end_of(child_that([&] { return use_all(s.dir / "grandchild"); }));
               })) == 0);
}

BOOST_AUTO_TEST_CASE(a_child_that_was_forked_during_a_save_does_not_wait_for_it) {
    auto const g = std::make_shared<background_ranks::gate>();
    support::scratch s;
    trainer t;
    auto sd = t.state_dict();
    auto pending =
        cairn::async_save(sd, "c", background_ranks::gated_store(cairn::file_store(s.dir / "x"), g),
                          cairn::solo(), asio::use_future)
            .get();
    BOOST_REQUIRE(g->wait_for(1));
    BOOST_TEST(end_of(child_that([&] { return use_all(s.dir / "child"); })) == 0);
    BOOST_TEST(end_of(child_that([&] {
                   bool const refused = refuses([&] { (void)pending.wait(); });
                   pending.cancel();
                   pending = {};
                   return refused ? 0 : 3;
               })) == 0);
    g->let_go();
    BOOST_CHECK_NO_THROW(pending.wait());
}

BOOST_AUTO_TEST_CASE(what_the_parent_has_made_is_refused_or_made_anew) {
    support::scratch s;
    cairn::torch_writer writer{cairn::file_store(s.dir / "w")};
    trainer t;
    auto sd = t.state_dict();
    (void)cairn::save(sd, "first", cairn::solo(), writer);
    cairn::thread_group group(1);
    auto me = group.rank(0);
    cairn::tcp_options const o{.interfaces = "lo"};
    cairn::tcp_group over_tcp(cairn::tcp_group::unique_id(o), 0, 1, o);
    auto ckpt = std::make_optional<cairn::checkpointer>(
        cairn::solo(), s.dir / "run",
        cairn::checkpointer_options{.every = cairn::steps(1), .save_on_signal = {SIGUSR1}});
    (void)ckpt->maybe_save(1, t);
    auto const unused = cairn::tcp_group::unique_id(o);
    BOOST_TEST(end_of(child_that([&] {
                   if (!refuses([&] { support::meet(me); }) ||
                       !refuses([&] { support::meet(over_tcp); }) ||
                       !refuses([&] { (void)cairn::save(sd, "third", over_tcp, writer); }))
                       return 5;
                   if (!refuses([&] { (void)ckpt->maybe_save(2, t); }) ||
                       !refuses([&] { (void)ckpt->wait(); }))
                       return 3;
                   ckpt.reset();
                   try {
                       cairn::tcp_group(unused, 0, 1, o);
                   } catch (const cairn::error&) {
                       return 4;
                   }
                   (void)cairn::save(sd, "second", cairn::solo(), writer);
                   auto own = cairn::tcp_group(cairn::tcp_group::unique_id(o), 0, 1, o);
                   return 0;
               })) == 0);
    BOOST_CHECK_NO_THROW(ckpt->wait());
}

/// The handler of the parent's would only count the signal.
BOOST_AUTO_TEST_CASE(a_child_is_ended_by_a_signal_that_the_parent_saves_on) {
    support::scratch s;
    cairn::checkpointer ckpt(cairn::solo(), s.dir,
                             {.every = cairn::steps(1), .save_on_signal = {SIGTERM, SIGUSR2}});
    auto const child = child_that([] {
        for (;;) ::pause();
        return 0;
    });
    ::kill(child, SIGTERM);
    BOOST_TEST(end_of(child) == -1 - SIGTERM);
    ::raise(SIGTERM);
    trainer t;
    BOOST_TEST((ckpt.maybe_save(1, t).signals == std::vector<int>{SIGTERM}));
}

BOOST_AUTO_TEST_CASE(a_child_holds_no_file_of_the_parents) {
    support::scratch s;
    cairn::file_store store(s.dir);
    constexpr std::size_t large = std::size_t{4} << 20;
    auto done = store.create("a", large);
    done.finish(false);
    auto reading = store.open("a");
    auto writing = store.create("b", large);
    cairn::detail::directory_lock const locked(s.dir.string());
    cairn::detail::rendezvous_file published(s.dir.string(), "run", 0);
    published.write(cairn::tcp_group::unique_id({.interfaces = "lo"}));
    std::array<std::byte, 10> some{};
    auto const child = child_that([&] {
        bool failed = false;
        try {
            reading.read(0, some);
        } catch (const cairn::error&) {
            failed = true;
        }
        { auto const gone = std::move(writing); }  // the file is the parent's
        for (int k = 0; k < 20; ++k) std::this_thread::sleep_for(100ms);
        return failed ? 0 : 3;
    });
    std::this_thread::sleep_for(200ms);
    BOOST_TEST(has_open(::getpid(), s.dir));
    BOOST_TEST(!has_open(child, s.dir));
    reading.read(0, some);
    BOOST_TEST(end_of(child) == 0);
    BOOST_CHECK_NO_THROW(writing.finish(false));
}

/// Whatever the other threads of the parent are at.
BOOST_AUTO_TEST_CASE(children_hold_no_file_that_a_thread_of_their_parent_opens) {
    support::scratch s;
    std::vector<std::jthread> threads;
    for (int k = 0; k < 3; ++k)
        threads.emplace_back([&s, k](const std::stop_token& stop) {
            cairn::file_store store(s.dir);
            auto const name = std::to_string(k);
            while (!stop.stop_requested()) {
                store.create(name, 100).finish(false);
                cairn::object_tag const none;
                store.publish("p" + name, {}, std::nullopt);
                store.remove(name);
            }
        });
    auto const own = ::open(s.dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int k = 0; k < 100; ++k) {
        std::cout.flush();
        auto const since = std::chrono::steady_clock::now();
        auto const child = ::fork();
        auto const took = std::chrono::steady_clock::now() - since;
        if (child == 0) {
            // Nobody but this program's descriptors are closed.
            int files = 0;
            for (int fd = 3; fd < 100; ++fd) {
                std::array<char, 64> link{};
                std::array<char, 4096> to{};
                std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", fd);
                auto const n = ::readlink(link.data(), to.data(), to.size());
                std::string_view const name(to.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
                if (name.size() == s.dir.native().size() + 2 && name.starts_with(s.dir.native()))
                    ++files;
            }
            ::_exit(::fcntl(own, F_GETFD) < 0 ? 100 : files);
        }
        // A fork waits no longer than that for a thread that is given no core.
        int const files = end_of(child);
        BOOST_TEST((files == 0 || (files < 100 && took >= 100ms)),
                   files << " in a child, after a fork of " << took / 1ms << " ms");
    }
    ::close(own);
}

/// What it waits for would come from a thread of the parent's.
BOOST_AUTO_TEST_CASE(a_checkpointer_whose_copies_are_under_way_is_refused) {
    auto const g = std::make_shared<background_ranks::gate>();
    support::scratch s;
    trainer t;
    t.w.assign(100'000, 3.0f);
    cairn::checkpointer_options o{.every = cairn::steps(1), .overlap = true};
    o.arena = {.budget = 1 << 12, .slab_bytes = 1 << 12};  // the rest is copied when it is written
    auto ckpt = std::make_optional<cairn::checkpointer>(
        cairn::solo(), background_ranks::gated_store(cairn::file_store(s.dir), g), o);
    BOOST_TEST(bool(ckpt->maybe_save(1, t)));
    BOOST_REQUIRE(g->wait_for(1));
    auto const make = [&](const cairn::stored_checkpoint&) -> trainer& { return t; };
    std::vector<std::function<void()>> const members{
        [&] { ckpt->before_update(); },
        [&] { ckpt->before_update(std::string("a stream")); },
        [&] { (void)ckpt->load("step_1", t); },
        [&] { (void)ckpt->latest(); },
        [&] { (void)ckpt->load_latest(t); },
        [&] { (void)ckpt->load_latest(make); },
        [&] { (void)ckpt->replace_group(cairn::solo()); },
        [&] { (void)ckpt->save_now(1, t); },
        [&] { (void)ckpt->maybe_save(2, t); },
        [&] { (void)ckpt->plan(t); },
        [&] { (void)ckpt->reserve(t); },
        [&] { (void)ckpt->wait(); }};
    for (std::size_t k = 0; k < members.size(); ++k)
        BOOST_TEST(end_of(child_that([&] {
                       bool const refused = refuses(members[k]);
                       ckpt.reset();
                       return refused ? 0 : 3;
                   })) == 0,
                   "member " << k);
    g->let_go();
    ckpt->before_update();
    BOOST_TEST(ckpt->wait().has_value());
}

/// Its threads wait, in the parent, for the time to write.
BOOST_AUTO_TEST_CASE(a_writer_that_is_held_back_ends_in_a_child) {
    support::scratch s;
    trainer t;
    t.w.assign(1 << 18, 3.0f);  // of which the first piece is not held back
    auto sd = t.state_dict();
    cairn::torch_writer_options o;
    o.polite.bytes_per_second = 1;
    auto writer = std::make_optional<cairn::torch_writer>(cairn::file_store(s.dir), o);
    auto pending = cairn::async_save(sd, "c", cairn::solo(), *writer, asio::use_future).get();
    while (!has_open(::getpid(), s.dir / "c")) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(200ms);
    BOOST_TEST(end_of(child_that([&] {
                   writer.reset();
                   return 0;
               })) == 0);
    pending.cancel();
    BOOST_CHECK_THROW(pending.wait(), cairn::error);
}

namespace {

std::mutex at_fork;
std::atomic<bool> waits_at_fork{false};
/// Before everything else, so that at a fork it comes after cairn's: waits, if told to, for a lock
/// that another thread has, as handlers of allocators do.
[[gnu::constructor(101)]] void register_handler() {
    (void)::pthread_atfork(
        [] {
            if (waits_at_fork) std::lock_guard const lock(at_fork);
        },
        nullptr, nullptr);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_fork_may_wait_for_a_thread_that_opens_a_file) {
    support::scratch s;
    BOOST_TEST(end_of(child_that([&] {
                   cairn::file_store store(s.dir);
                   std::atomic<bool> locked{false};
                   std::jthread const opens([&] {
                       std::lock_guard const lock(at_fork);
                       locked = true;
                       std::this_thread::sleep_for(300ms);
                       store.create("a", 10).finish(false);
                   });
                   while (!locked) std::this_thread::yield();
                   waits_at_fork = true;
                   auto const child = ::fork();
                   if (child == 0) ::_exit(0);
                   return end_of(child);
               })) == 0);
}

struct failing_store : support::forwarding_store<cairn::memory_store> {
    using forwarding_store::forwarding_store;
    failing_store at(const std::string& id) const { return failing_store(store_.at(id)); }
    auto create(std::string_view n, std::uint64_t size) {
        if (size != 0) throw cairn::error(errc::io, {.file = std::string(n)});
        return store_.create(n, size);
    }
};
/// The parent reports it.
BOOST_AUTO_TEST_CASE(an_error_that_nobody_has_claimed_is_not_the_childs) {
    trainer t;
    auto sd = t.state_dict();
    int told = 0;
    cairn::save_options o;
    o.on_unclaimed_error = [&](const std::exception_ptr&) { ++told; };
    auto pending = cairn::async_save(sd, "c", o, cairn::solo(),
                                     failing_store(cairn::memory_store()), asio::use_future)
                       .get();
    while (!pending.ready()) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(200ms);  // its thread may end
    BOOST_TEST(end_of(child_that([&] {
                   pending = {};
                   return told;
               })) == 0);
    pending = {};
    BOOST_TEST(told == 1);
}

BOOST_AUTO_TEST_CASE(a_sink_does_not_write_to_the_parents_file) {
    support::scratch s;
    trainer t;
    auto sd = t.state_dict();
    auto const file = s.dir / "trace.json";
    cairn::trace_file trace(file.string());
    (void)cairn::save(sd, (s.dir / "a").string(), cairn::solo(), trace);
    auto const size = std::filesystem::file_size(file);
    BOOST_TEST(end_of(child_that([&] {
                   (void)cairn::save(sd, (s.dir / "b").string(), cairn::solo(), trace);
                   return has_open(::getpid(), file) ? 3 : 0;
               })) == 0);
    BOOST_TEST(std::filesystem::file_size(file) == size);
    (void)cairn::save(sd, (s.dir / "c").string(), cairn::solo(), trace);
    BOOST_TEST(std::filesystem::file_size(file) > size);
}

/// Although a child of the one that dies lives on.
BOOST_AUTO_TEST_CASE(the_death_of_a_process_with_children_is_seen_at_once) {
    cairn::tcp_options const o{.interfaces = "lo"};
    int ready[2];
    BOOST_REQUIRE(::pipe(ready) == 0);
    auto const id = cairn::tcp_group::unique_id(o);
    std::cout.flush();
    auto const parent = ::fork();
    if (parent == 0) {
        support::restore_signals();
        try {
            auto const text = id.text();
            cairn::tcp_group group(cairn::tcp_id::parse(text), 1, 2, o);
            auto const child = child_that([] {
                std::this_thread::sleep_for(20s);
                return 0;
            });
            std::this_thread::sleep_for(100ms);
            int const said[2] = {child, sockets_of(child)};
            (void)!::write(ready[1], said, sizeof said);
            for (;;) ::pause();
        } catch (const std::exception& e) {
            std::fprintf(stderr, "    in a process: %s\n", e.what());
        }
        ::_exit(1);
    }
    cairn::tcp_group group(id, 0, 2, o);
    int said[2] = {-1, -1};
    BOOST_REQUIRE(::read(ready[0], said, sizeof said) == static_cast<::ssize_t>(sizeof said));
    BOOST_TEST(said[1] == 0);
    ::kill(parent, SIGKILL);
    try {
        support::meet(group);
        BOOST_ERROR("an exchange with a rank that is dead");
    } catch (const cairn::error& e) {
        BOOST_TEST(e.code() == cairn::make_error_code(errc::rank_failed));
    }
    BOOST_TEST(::kill(said[0], SIGKILL) == 0);
    BOOST_TEST(end_of(parent) == -1 - SIGKILL);
    ::close(ready[0]);
    ::close(ready[1]);
}

/// After `execve` a process has the number and the start that it had before.
BOOST_AUTO_TEST_CASE(a_program_that_was_executed_anew_is_another_process) {
    using namespace cairn::detail;
    auto const me = this_process();
    BOOST_TEST(me.run.size() == 32u);
    BOOST_TEST(!has_ended(me));
    auto before = me;
    before.run = new_save_id();
    BOOST_TEST(has_ended(before));
    // Another library of this program that has this code to itself.
    auto beside = me;
    beside.run = me.run.substr(0, 16) + new_save_id().substr(16);
    BOOST_TEST(!is_this_process(beside));
    BOOST_TEST(!has_ended(beside));
    // The kernel draws it at each execution.
    auto const ids = [] {
        std::array<int, 2> ends{};
        BOOST_REQUIRE(::pipe(ends.data()) == 0);
        std::cout.flush();
        auto const child = ::fork();
        if (child == 0) {
            ::setenv("CAIRN_TEST_SAYS_ID", std::to_string(ends[1]).c_str(), 1);
            ::execl("/proc/self/exe", "self", "--run_test=forks/this_program_says_its_id", nullptr);
            ::_exit(1);
        }
        ::close(ends[1]);
        std::string text(16, ' ');
        (void)!::read(ends[0], text.data(), text.size());
        ::close(ends[0]);
        BOOST_TEST(end_of(child) == 0);
        return text;
    };
    auto const a = ids();
    auto const b = ids();
    BOOST_TEST(a != b);
    BOOST_TEST(a.find_first_not_of("0123456789abcdef") == a.npos);
    BOOST_TEST(a != execution_id());
    BOOST_TEST(execution_id() == me.run.substr(0, 16));
}
BOOST_AUTO_TEST_CASE(this_program_says_its_id) {
    auto const* const to = std::getenv("CAIRN_TEST_SAYS_ID");
    if (to == nullptr) return;
    auto const id = cairn::detail::execution_id();
    BOOST_TEST(::write(std::atoi(to), id.data(), id.size()) == 16);
}

BOOST_AUTO_TEST_SUITE_END()
