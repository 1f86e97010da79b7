// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTING_COMMUNICATOR_HPP
#define CAIRN_TESTING_COMMUNICATOR_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/testing/detail/ranks.hpp>
#include <cairn/testing/detail/run_check.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

/// Checks the semantics of a Communicator, for models of your own. Needs no test framework:
/// `communicator_suite` runs all checks; the functions before it are the individual ones.
///
///     // on every rank, in any kind of process or thread
///     auto const failures = cairn::testing::communicator_suite([&] { return my_ranks(…); });
///     for (auto const& f : failures) std::cerr << f << '\n';
///
/// Each function is called by every rank of a group concurrently and throws std::runtime_error on a
/// rank that detects a violation. After the checks of misuse, deadlines and cancellation the group
/// is unusable.
namespace cairn::testing {

namespace detail {

/// Calls each operation once, with messages of about `size` bytes that differ from rank to rank.
template <Communicator Comm>
void one_round(Comm& c, int round, std::size_t size) {
    int const me = c.rank(), n = c.size(), root = round % n;
    auto const count = static_cast<std::size_t>(n);
    auto const of = [&](int rank, int shift = 0) {
        return sample(rank, round + shift, size + (size == 0 ? 0 : static_cast<std::size_t>(rank)));
    };
    blocking<Comm> b{c};

    auto const gathered = b.gather(of(me), root);
    expect(gathered.size() == (me == root ? count : 0u), me, "gather: a wrong number");
    for (std::size_t r = 0; r < gathered.size(); ++r)
        expect(gathered[r] == of(static_cast<int>(r)), me, "gather: wrong bytes");

    std::vector<message> out;
    if (me == root)
        for (int r = 0; r < n; ++r) out.push_back(of(r, 1));
    expect(b.scatter(std::move(out), root) == of(me, 1), me, "scatter: wrong bytes");
    // Arguments of other ranks are ignored.
    expect(b.broadcast(me == root ? of(me) : message(3), root) == of(root), me,
           "broadcast: wrong bytes");
    auto const all = b.all_gather(of(me, 2));
    expect(all.size() == count, me, "all_gather: a wrong number");
    for (int r = 0; r < n; ++r)
        expect(all[static_cast<std::size_t>(r)] == of(r, 2), me, "all_gather: wrong bytes");
    b.meet();
}

}  // namespace detail

/// Checks for correct ranks and correct bytes in rank order, with every root in turn and messages
/// from 0 bytes on.
/// @param largest  Bytes of the largest message. 16 MiB exceeds the plans of cairn.
template <Communicator Comm>
void check_exchanges(Comm& c, std::size_t largest = std::size_t{16} << 20) {
    int const me = c.rank();
    detail::expect(c.size() > 0 && me >= 0 && me < c.size(), me, "a rank outside of the group");
    c.share(std::make_shared<const activity>());
    for (int round = 0; round < 20; ++round)
        detail::one_round(c, round, static_cast<std::size_t>(round * 97));
    c.share(nullptr);
    for (std::size_t size = 1024; size <= largest; size *= 128)
        detail::one_round(c, static_cast<int>(size % 5), size);
    if (largest > 0) detail::one_round(c, 3, largest);
}

/// Checks that two groups of the same ranks, used in turn, do not mix.
template <Communicator First, Communicator Second>
void check_interleaved(First& a, Second& b) {
    for (int round = 0; round < 10; ++round) {
        detail::blocking<First> in_a{a};
        detail::blocking<Second> in_b{b};
        auto const from_a = in_a.all_gather(detail::sample(a.rank(), 1, 9));
        auto const from_b = in_b.all_gather(detail::sample(b.rank(), 2, 9));
        detail::expect(from_a[0] == detail::sample(0, 1, 9), a.rank(), "bytes of another group");
        detail::expect(from_b[0] == detail::sample(0, 2, 9), b.rank(), "bytes of another group");
        detail::one_round(a, round, 40);
        detail::one_round(b, round + 1, 50);
    }
}

/// Checks that a root out of range is refused on every rank.
/// @param root  Less than 0, or not less than the number of ranks.
template <Communicator Comm>
void check_wrong_root(Comm& c, int root) {
    auto const code = detail::code_of([&] { (void)detail::blocking<Comm>{c}.broadcast({}, root); });
    detail::expect(code == make_error_code(errc::invalid_argument), c.rank(),
                   "a root outside of the group is not refused");
}

/// Checks that different operations on different ranks are an error on all of them. For two ranks
/// or more.
template <Communicator Comm>
void check_mismatch(Comm& c) {
    auto const code = detail::code_of([&] {
        if (c.rank() == 0)
            (void)detail::blocking<Comm>{c}.all_gather({});
        else
            (void)detail::blocking<Comm>{c}.broadcast({}, 0);
    });
    detail::expect(code.failed(), c.rank(), "different operations are not refused");
}

/// Checks that a rank that does not call is named once the deadline has passed, and that the group
/// is poisoned for all, including the late one. For two ranks or more.
/// @param late  The rank that calls too late.
/// @param sync  Called once on every rank: returns when all have called it, by other means.
template <Communicator Comm, class Sync>
void check_deadline(Comm& c, int late, Sync sync) {
    auto const name = "rank " + std::to_string(late);
    detail::blocking<Comm> b{c};
    b.meet();  // the group works
    if (c.rank() == late) {
        sync();
    } else {
        b.by = deadline_after(std::chrono::milliseconds(50));
        std::string text;
        auto const code = detail::code_of([&] { b.meet(); }, &text);
        sync();
        detail::expect(code == make_error_code(errc::timed_out), c.rank(), "no timeout: " + text);
        detail::expect(text.find(name) != std::string::npos, c.rank(),
                       "the late " + name + " is not named: " + text);
    }
    b.by = no_deadline;
    for (int again = 0; again < 2; ++again) {
        auto const code = detail::code_of([&] { b.meet(); });
        // The late rank may have called before it received the others' failure.
        bool const ok =
            code == make_error_code(errc::poisoned) ||
            (c.rank() == late && again == 0 && code == make_error_code(errc::timed_out));
        detail::expect(ok, c.rank(), "not poisoned: " + code.message());
    }
}

/// Checks that a waiting rank can be cancelled from another thread, and that the others, waiting
/// for `absent`, which has not called, then stop waiting too. For three ranks or more.
/// @param sync  As above.
template <Communicator Comm, class Sync>
void check_cancel(Comm& c, int absent, Sync sync) {
    detail::blocking<Comm> b{c};
    b.meet();
    int const canceller = (absent + 1) % c.size();
    if (c.rank() == absent) {
        sync();
    } else {
        std::thread other;
        if (c.rank() == canceller)
            other = std::thread([&] {
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
                c.cancel();
            });
        auto const code = detail::code_of([&] { b.meet(); });
        if (other.joinable()) other.join();
        sync();
        bool const ok = code == make_error_code(errc::cancelled) ||
                        (c.rank() != canceller && code == make_error_code(errc::rank_failed));
        detail::expect(ok, c.rank(), "not cancelled: " + code.message());
    }
    for (int again = 0; again < 2; ++again)
        detail::expect(detail::code_of([&] { b.meet(); }).failed(), c.rank(),
                       "a cancelled group still works");
}

/// Checks that after `cancel` without an operation under way, the next one fails. For any number of
/// ranks.
template <Communicator Comm>
void check_cancel_before(Comm& c) {
    bool const canceller = c.rank() == c.size() - 1;
    if (canceller) c.cancel();
    auto const code = detail::code_of([&] { detail::blocking<Comm>{c}.meet(); });
    bool const ok = code == make_error_code(errc::cancelled) ||
                    (!canceller && code == make_error_code(errc::rank_failed));
    detail::expect(ok, c.rank(), "not cancelled: " + code.message());
}

/// Checks that a rank whose group has been destroyed is named on all others. For two ranks or more.
/// @param c     Destroyed on rank `gone`.
template <Communicator Comm>
void check_gone(std::optional<Comm>& c, int gone) {
    detail::blocking<Comm>{*c}.meet();
    if (c->rank() == gone) return c.reset();
    std::string text;
    auto const code = detail::code_of([&] { detail::blocking<Comm>{*c}.meet(); }, &text);
    detail::expect(code == make_error_code(errc::rank_failed) &&
                       text.find("rank " + std::to_string(gone)) != std::string::npos,
                   c->rank(), "rank " + std::to_string(gone) + " is not named: " + text);
}

/// Checks that a duplicate and its original do not wait for each other, and that one may outlive
/// the other.
template <BackgroundCommunicator Comm>
void check_duplicate(Comm c, std::size_t largest = 100'000) {
    auto const duplicate = [](Comm& of) {
        return await_completion<Comm>(
            [&](auto done) { of.duplicate(no_deadline, std::move(done)); });
    };
    int const me = c.rank();
    Comm other = duplicate(c), third = duplicate(other);
    detail::expect(other.rank() == me && other.size() == c.size(), me, "another rank or size");
    check_interleaved(c, other);
    check_exchanges(third, largest);
    // Both under way at once, started in different orders.
    for (int round = 0; round < 10; ++round) {
        detail::pending_message first, second;
        auto const start = [&](Comm& g, detail::pending_message& p, int what) {
            g.broadcast(detail::sample(0, what, 33), 0, no_deadline, p.completion());
        };
        if ((me + round) % 2 == 0) start(c, first, 1);
        start(other, second, 2);
        if ((me + round) % 2 != 0) start(c, first, 1);
        detail::expect(
            first.wait() == detail::sample(0, 1, 33) && second.wait() == detail::sample(0, 2, 33),
            me, "exchanges of two groups under way at once: wrong bytes");
    }
    detail::blocking<Comm>{c}.meet();
    if (me == c.size() - 1) other.cancel();
    detail::expect(detail::code_of([&] { detail::blocking<Comm>{other}.meet(); }).failed(), me,
                   "a cancelled duplicate still works");
    detail::one_round(c, 1, 20);
    { Comm const ended(std::move(c)); }
    check_exchanges(third, largest);
}

/// Runs all checks.
///
/// @param make     Makes a group of all ranks; called several times, in the same order on every
/// rank.
/// @param largest  Bytes of the largest message.
/// @return Descriptions of the failures on any rank; empty if there are none.
template <class Make>
std::vector<std::string> communicator_suite(Make make, std::size_t largest = std::size_t{1} << 20) {
    using group = std::remove_cvref_t<decltype(make())>;
    static_assert(Communicator<group>);
    // A separate group reports the result of each check to all ranks.
    group between = make();
    int const me = between.rank(), n = between.size();
    std::vector<std::string> failures;
    auto const sync = [&] { detail::blocking<group>{between}.meet(); };
    auto const check = [&](const std::string& name, auto f) {
        auto const why = detail::why_not(f);
        auto const bytes = std::as_bytes(std::span(why.data(), why.size()));
        auto const all = detail::blocking<group>{between}.all_gather({bytes.begin(), bytes.end()});
        for (std::size_t r = 0; r < all.size(); ++r) {
            if (all[r].empty()) continue;
            auto const* const text = reinterpret_cast<const char*>(all[r].data());
            failures.push_back(name + ": " + std::string(text, all[r].size()));
        }
    };
    try {
        check("exchanges", [&] {
            group g = make();
            check_exchanges(g, largest);
        });
        check("two groups", [&] {
            group a = make(), b = make();
            check_interleaved(a, b);
        });
        for (int root : {n, -1})
            check("a wrong root", [&] {
                group g = make();
                check_wrong_root(g, root);
            });
        check("cancelled before the call", [&] {
            group g = make();
            check_cancel_before(g);
        });
        if constexpr (BackgroundCommunicator<group>)
            check("duplicates", [&] { check_duplicate(make()); });
        if (n < 2) return failures;
        check("different operations", [&] {
            group g = make();
            check_mismatch(g);
        });
        for (int odd : {0, n - 1}) {
            auto const rank = ", rank " + std::to_string(odd);
            check("a deadline" + rank, [&] {
                group g = make();
                check_deadline(g, odd, sync);
            });
            check("a rank that is gone" + rank, [&] {
                std::optional<group> g(make());
                check_gone(g, odd);
            });
            if (n < 3) continue;
            check("a cancelled call" + rank, [&] {
                group g = make();
                check_cancel(g, odd, sync);
            });
        }
    } catch (const std::exception& e) {
        failures.push_back("rank " + std::to_string(me) + " cannot continue: " + e.what());
    }
    return failures;
}

}  // namespace cairn::testing

#endif
