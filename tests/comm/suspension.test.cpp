// SPDX-License-Identifier: Apache-2.0
// A group whose processes stand still for a while (a suspended job, a paused machine) and go on.
#include "support/error_codes.hpp"
#include "support/scratch.hpp"
#include "support/tree_world.hpp"

#include <cairn/comm/deadline.hpp>
#include <cairn/comm/tcp_group.hpp>
#include <cairn/completion.hpp>

#include <boost/test/unit_test.hpp>

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(suspension)

using cairn::errc;
using cairn::message;
using kind = cairn::detail::exchange_kind;
using support::is;
using support::tree_world;
using namespace std::chrono_literals;

namespace {

constexpr auto peer_timeout = cairn::liveness_options{}.peer_timeout;

void meet(tree_world& w, int rank, std::chrono::milliseconds timeout) {
    w.call(rank, kind::all_gather, 0, std::vector<message>(1), timeout);
}
void suspend_all(tree_world& w) {
    for (int r = 0; r < w.size(); ++r) w.suspend(r);
}
bool ended_well(tree_world& w, int rank) {
    auto const& o = w.outcome_of(rank);
    return o && !o->failure;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_group_that_stood_still_goes_on) {
    for (int n : {2, 5, 14}) {
        for (auto const stop : {2500ms, 10'500ms, 30'000ms, 3'600'000ms}) {
            tree_world w(n, 3, static_cast<unsigned>(n));
            w.pass(700ms);
            // One rank is waited for, with a deadline that ends during the stop.
            for (int r = 0; r + 1 < n; ++r) meet(w, r, 1000ms);
            w.pass(300ms);
            suspend_all(w);
            w.pass(stop);
            for (int r = 0; r < n; ++r) w.go_on(r);
            w.pass(500ms);
            for (int r = 0; r < n; ++r) BOOST_TEST(!w.code_of(r));
            meet(w, n - 1, 1000ms);
            w.pass(100ms);
            for (int r = 0; r < n; ++r) BOOST_TEST(ended_well(w, r));
            // A rank that dies later is noticed as ever.
            w.stop(n - 1);
            for (int r = 0; r + 1 < n; ++r) meet(w, r, cairn::no_timeout);
            w.pass(peer_timeout + 1s);
            for (int r = 0; r + 1 < n; ++r) BOOST_TEST(is(w.code_of(r), errc::rank_failed));
        }
    }
}

/// As long as the last one goes on within the timeout of the first, whatever its place in the tree.
BOOST_AUTO_TEST_CASE(ranks_go_on_one_after_the_other) {
    constexpr int n = 5;
    for (int first = 0; first < n; ++first) {
        tree_world w(n, 2);
        w.pass(1s);
        for (int r = 0; r + 1 < n; ++r) meet(w, r, 2000ms);
        w.pass(500ms);
        suspend_all(w);
        w.pass(30s);
        for (int k = 0; k < n; ++k) {
            w.go_on((first + k) % n);
            w.pass((peer_timeout - 1s) / (n - 1));
        }
        meet(w, n - 1, 2000ms);
        w.pass(100ms);
        for (int r = 0; r < n; ++r) {
            std::string what;
            (void)w.code_of(r, &what);
            BOOST_TEST(ended_well(w, r), "rank " << r << ", first " << first << ": " << what);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_rank_that_is_stopped_alone_is_presumed_dead) {
    for (bool const all_stopped_before : {false, true}) {
        for (int alone = 0; alone < 3; ++alone) {
            tree_world w(3);
            w.pass(1s);
            if (all_stopped_before) suspend_all(w);
            w.suspend(alone);
            w.pass(30s);
            for (int r = 0; r < 3; ++r)
                if (r != alone) w.go_on(r);
            for (int r = 0; r < 3; ++r)
                if (r != alone) meet(w, r, cairn::no_timeout);
            w.pass(peer_timeout + 1s);
            for (int r = 0; r < 3; ++r)
                if (r != alone) BOOST_TEST(is(w.code_of(r), errc::rank_failed));
            w.go_on(alone);
            w.pass(peer_timeout + 1s);
            meet(w, alone, cairn::no_timeout);
            BOOST_TEST(is(w.code_of(alone), errc::rank_failed));
        }
    }
}

/// A rank that works again and hears nothing of a peer waits for it no longer than the timeout.
BOOST_AUTO_TEST_CASE(a_stop_counts_once) {
    tree_world w(2);
    w.pass(1s);
    suspend_all(w);
    w.pass(30s);
    w.go_on(0);
    meet(w, 0, cairn::no_timeout);
    w.pass(peer_timeout - 100ms);
    BOOST_TEST(!w.code_of(0));
    w.pass(200ms);
    BOOST_TEST(is(w.code_of(0), errc::rank_failed));
}

/// A host with too much to do runs each tick late: who is gone or late is noticed all the same.
BOOST_AUTO_TEST_CASE(a_host_that_is_always_late_waits_longer_but_not_forever) {
    for (bool const dead : {false, true}) {
        tree_world w(3);
        w.pass(1s);
        if (dead) w.stop(2);
        for (int r : {0, 1}) meet(w, r, dead ? cairn::no_timeout : 5s);
        for (int k = 0; k < 60 && (!w.code_of(0) || !w.code_of(1)); ++k) {
            suspend_all(w);
            w.pass(3s);
            for (int r = 0; r < 3; ++r) w.go_on(r);
            w.pass(20ms);
        }
        for (int r : {0, 1})
            BOOST_TEST(is(w.code_of(r), dead ? errc::rank_failed : errc::timed_out));
    }
}

/// Whoever is stopped, and whenever: a job that works on within the timeout goes on, and one of
/// which a rank stays away ends on all that are there.
BOOST_AUTO_TEST_CASE(jobs_whose_ranks_stand_still_at_random_go_on_or_end) {
    for (unsigned seed = 0; seed < 300; ++seed) {
        std::mt19937 random(seed);
        auto const below = [&](int n) { return std::uniform_int_distribution<>(0, n - 1)(random); };
        int const n = 2 + below(9);
        tree_world w(n, 2 + below(3), seed);
        bool const one_stays_away = below(4) == 0;
        int const last = below(n);  // whom the others wait for
        for (int round = 0; round < 4; ++round) {
            w.pass(std::chrono::milliseconds(below(3000)));
            for (int r = 0; r < n; ++r)
                if (r != last) meet(w, r, below(2) == 0 ? cairn::no_timeout : 120'000ms);
            w.pass(std::chrono::milliseconds(below(1000)));
            // All of them for any time, or some for less than the others wait.
            bool const all = below(2) == 0;
            std::vector<int> still;
            for (int r = 0; r < n; ++r)
                if (all || below(2) == 0) still.push_back(r);
            for (int const r : still) w.suspend(r);
            bool const ends = one_stays_away && round == 3;
            if (ends) w.stop(last);
            w.pass(all ? std::chrono::milliseconds(below(100'000)) : peer_timeout / 3);
            std::shuffle(still.begin(), still.end(), random);
            for (int const r : still) {
                w.go_on(r);
                w.pass(peer_timeout / 3 / n);
            }
            if (ends) {
                w.pass(3 * peer_timeout);
                for (int r = 0; r < n; ++r)
                    BOOST_TEST((r == last || is(w.code_of(r), errc::rank_failed)),
                               "seed " << seed << ", rank " << r);
                break;
            }
            meet(w, last, cairn::no_timeout);
            w.pass(100ms);
            for (int r = 0; r < n; ++r) {
                std::string what;
                (void)w.code_of(r, &what);
                BOOST_REQUIRE_MESSAGE(ended_well(w, r), "seed " << seed << ", round " << round
                                                                << ", rank " << r << ": " << what);
            }
        }
    }
}

/// Memory has no heartbeats: there the lateness of the deadline shows the stop.
BOOST_AUTO_TEST_CASE(a_deadline_that_passed_during_a_stop_begins_anew) {
    tree_world w(3, 3, 1, {cairn::no_timeout, cairn::no_timeout, 1ms});
    for (int r : {0, 1}) meet(w, r, 5s);
    w.pass(1s);
    suspend_all(w);
    w.pass(60s);
    for (int r = 0; r < 3; ++r) w.go_on(r);
    w.pass(1s);
    for (int r : {0, 1}) BOOST_TEST(!w.code_of(r));
    w.pass(64s);
    for (int r : {0, 1}) BOOST_TEST(is(w.code_of(r), errc::timed_out));
}

#ifndef __SANITIZE_THREAD__  // It ends a forked child that makes threads ("dup thread").
namespace {

/// Processes that form a group over TCP and meet in it until one says that it is enough.
class processes {
public:
    explicit processes(int n) {
        int ids[2], said[2];
        BOOST_REQUIRE(::pipe(ids) == 0);
        BOOST_REQUIRE(::pipe(said) == 0);
        std::cout.flush();
        for (int r = 0; r < n; ++r) {
            all_.push_back(::fork());
            if (all_.back() == 0) run(r, n, ids, said[1]);
        }
        ::close(ids[0]);
        ::close(ids[1]);
        ::close(said[1]);
        said_ = said[0];
    }
    processes(processes&&) = delete;
    ~processes() {
        for (auto const p : all_) {
            ::kill(p, SIGKILL);
            ::waitpid(p, nullptr, 0);
        }
        ::close(said_);
    }
    void signal(int rank, int s) const { ::kill(all_[static_cast<std::size_t>(rank)], s); }
    /// Waits until every rank has met the others so often more.
    void meet(int times) const {
        char c = 0;
        for (std::size_t k = 0; k < all_.size() * static_cast<std::size_t>(times); ++k)
            BOOST_REQUIRE((::read(said_, &c, 1) == 1 && c == '.'));
    }
    /// What is said next; dots of before are skipped. 0: all have ended, or nothing for a minute.
    char next_but_dots() const {
        char c = '.';
        ::pollfd p{said_, POLLIN, 0};
        while (c == '.')
            if (::poll(&p, 1, 60'000) != 1 || ::read(said_, &c, 1) != 1) return 0;
        return c;
    }

private:
    [[noreturn]] static void run(int rank, int n, const int (&ids)[2], int said) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        try {
            cairn::tcp_options o;
            o.interfaces = "lo";
            o.liveness = {std::chrono::milliseconds(100), std::chrono::milliseconds(1500),
                          std::chrono::milliseconds(300)};
            auto const group = [&] {
                // One of a size: each rank takes one whole from the pipe that all share.
                std::string t(512, '\n');
                if (rank == 0) {
                    auto const id = cairn::tcp_group::unique_id(o);
                    t.replace(0, id.text().size(), id.text());
                    for (int r = 1; r < n; ++r) (void)!::write(ids[1], t.data(), t.size());
                    return cairn::tcp_group(id, rank, n, o);
                }
                (void)!::read(ids[0], t.data(), t.size());
                return cairn::tcp_group(cairn::tcp_id::parse(t.substr(0, t.find('\n'))), rank, n,
                                        o);
            };
            auto g = group();
            for (;;) {
                (void)cairn::await_completion<std::vector<message>>([&](auto done) {
                    g.all_gather({}, cairn::deadline_after(800ms), std::move(done));
                });
                (void)!::write(said, ".", 1);
                std::this_thread::sleep_for(20ms);
            }
        } catch (const cairn::error& e) {
            if (!is(e.code(), errc::rank_failed) && !is(e.code(), errc::timed_out))
                std::cerr << "rank " << rank << ": " << e.what() << std::endl;
            (void)!::write(said, "f", 1);
        } catch (const std::exception& e) {
            std::cerr << "rank " << rank << ": " << e.what() << std::endl;
            (void)!::write(said, "x", 1);
        }
        ::_exit(1);
    }

    std::vector<::pid_t> all_{};
    int said_ = -1;
};

}  // namespace

BOOST_AUTO_TEST_CASE(processes_that_were_stopped_meet_again) {
    processes p(3);
    p.meet(5);
    for (bool const staggered : {false, true}) {
        for (int r = 0; r < 3; ++r) p.signal(r, SIGSTOP);
        std::this_thread::sleep_for(3s);
        for (int r = 0; r < 3; ++r) {
            p.signal(r, SIGCONT);
            if (staggered && r < 2) std::this_thread::sleep_for(500ms);
        }
        p.meet(10);
    }
    // One that stands still alone does not go on with them.
    p.signal(1, SIGSTOP);
    BOOST_TEST(p.next_but_dots() == 'f');
    p.signal(1, SIGCONT);
}

BOOST_AUTO_TEST_CASE(a_job_that_is_stopped_while_it_joins_goes_on) {
    support::scratch const place;
    cairn::tcp_options o;
    o.interfaces = "lo";
    o.join_timeout = 3s;
    auto const join = [&](int rank) {
        (void)cairn::tcp_group::from_directory(place.dir.string(), "run", rank, 2, o);
    };
    auto const zero = ::fork();
    BOOST_REQUIRE(zero >= 0);
    if (zero == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        try {
            join(0);
        } catch (const std::exception& e) {
            std::cerr << "rank 0: " << e.what() << std::endl;
            ::_exit(1);
        }
        ::_exit(0);
    }
    for (int k = 0; k < 1000 && !std::filesystem::exists(place.dir / "cairn-run.group"); ++k)
        std::this_thread::sleep_for(10ms);
    std::this_thread::sleep_for(100ms);
    ::kill(zero, SIGSTOP);
    std::this_thread::sleep_for(6s);
    ::kill(zero, SIGCONT);
    std::this_thread::sleep_for(300ms);
    BOOST_CHECK_NO_THROW(join(1));
    int how = -1;
    BOOST_TEST(::waitpid(zero, &how, 0) == zero);
    BOOST_TEST(how == 0);
}

#endif

BOOST_AUTO_TEST_SUITE_END()
