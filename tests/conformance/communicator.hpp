// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_CONFORMANCE_COMMUNICATOR_HPP
#define CAIRN_TEST_CONFORMANCE_COMMUNICATOR_HPP

#include <cairn/comm/concepts.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

/// What a Communicator promises beyond its syntax. Every function is called by every rank of a
/// group at once, from wherever your ranks run, and throws std::runtime_error on a rank that saw a
/// promise broken:
///
///     BOOST_AUTO_TEST_CASE(my_ranks_keep_their_word) {
///         run_my_ranks(5, [](my_ranks& c) { cairn::conformance::check_communicator(c); });
///     }
///
/// The checks of misuse and deadlines leave the group unusable: give each a group of its own.
namespace cairn::conformance {
namespace detail {

/// The operations of one rank, blocking.
template <Communicator Comm>
struct blocking {
    Comm& c;
    deadline by = no_deadline;

    std::vector<message> gather(message m, int root) {
        return await_completion<std::vector<message>>(
            [&](auto done) { c.gather(std::move(m), root, by, std::move(done)); });
    }
    message scatter(std::vector<message> ms, int root) {
        return await_completion<message>(
            [&](auto done) { c.scatter(std::move(ms), root, by, std::move(done)); });
    }
    message broadcast(message m, int root) {
        return await_completion<message>(
            [&](auto done) { c.broadcast(std::move(m), root, by, std::move(done)); });
    }
    std::vector<message> all_gather(message m) {
        return await_completion<std::vector<message>>(
            [&](auto done) { c.all_gather(std::move(m), by, std::move(done)); });
    }
    void barrier() {
        (void)await_completion<done_t>([&](auto done) { c.barrier(by, std::move(done)); });
    }
};

inline void expect(bool ok, int rank, const std::string& what) {
    if (!ok) throw std::runtime_error("rank " + std::to_string(rank) + ": " + what);
}

/// Bytes that tell who sent them and when.
inline message sample(int rank, int round, std::size_t size) {
    message m(size);
    for (std::size_t i = 0; i < size; ++i)
        m[i] = static_cast<std::byte>(static_cast<std::size_t>(rank * 7 + round) + i + i / 256);
    return m;
}

/// One of each operation, with messages of about `size` bytes: of another size on each rank.
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
    // What others pass is ignored.
    expect(b.broadcast(me == root ? of(me) : message(3), root) == of(root), me,
           "broadcast: wrong bytes");
    auto const all = b.all_gather(of(me, 2));
    expect(all.size() == count, me, "all_gather: a wrong number");
    for (int r = 0; r < n; ++r)
        expect(all[static_cast<std::size_t>(r)] == of(r, 2), me, "all_gather: wrong bytes");
    b.barrier();
}

template <class F>
error_code code_of(F&& f) {
    try {
        f();
    } catch (const error& e) {
        return e.code();
    }
    return {};
}

}  // namespace detail

/// Right ranks, right bytes in rank order, every root in turn, messages from 0 bytes on.
/// @param largest  Bytes of the largest message. 16 MiB is more than a plan of cairn's takes.
template <Communicator Comm>
void check_communicator(Comm& c, std::size_t largest = std::size_t{16} << 20) {
    int const me = c.rank();
    detail::expect(c.size() > 0 && me >= 0 && me < c.size(), me, "a rank outside of the group");
    for (int round = 0; round < 20; ++round)
        detail::one_round(c, round, static_cast<std::size_t>(round * 97));
    for (std::size_t size = 1024; size <= largest; size *= 128)
        detail::one_round(c, static_cast<int>(size % 5), size);
    if (largest > 0) detail::one_round(c, 3, largest);
}

/// Two groups of the same ranks, used in turns, do not hear each other.
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

/// A root that is no rank is refused on every rank.
template <Communicator Comm>
void check_wrong_root(Comm& c) {
    for (int root : {c.size(), -1}) {
        auto const code =
            detail::code_of([&] { (void)detail::blocking<Comm>{c}.broadcast({}, root); });
        detail::expect(code == make_error_code(errc::invalid_argument), c.rank(),
                       "a root outside of the group is not refused");
    }
}

/// Different operations on different ranks are an error on all of them. For two ranks or more.
template <Communicator Comm>
void check_mismatch(Comm& c) {
    auto const code = detail::code_of([&] {
        if (c.rank() == 0)
            detail::blocking<Comm>{c}.barrier();
        else
            (void)detail::blocking<Comm>{c}.broadcast({}, 0);
    });
    detail::expect(code.failed(), c.rank(), "different operations are not refused");
}

/// Whether a rank that waits knows of whom, and hears of one that gave up: false where
/// `C::names_ranks` is there and false. Nothing but a deadline ends such a wait then.
template <class C>
constexpr bool names_ranks() {
    if constexpr (requires { C::names_ranks; }) return C::names_ranks;
    return true;
}

/// A rank that does not come is named when the deadline has passed (unless `names_ranks` says that
/// the group cannot), and the group is poisoned for all, the late one too. For two ranks or more.
/// @param late  The rank that comes too late.
/// @param wait  Called on that rank: returns when all others have been told (by your own means).
/// @param told  Called on the others when they have been told.
template <Communicator Comm, class Wait, class Told>
void check_deadline(Comm& c, int late, Wait wait, Told told) {
    auto const name = "rank " + std::to_string(late);
    detail::blocking<Comm> b{c};
    b.barrier();  // a group that works
    if (c.rank() == late) {
        wait();
    } else {
        b.by = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
        std::string text;
        error_code code;
        try {
            b.barrier();
        } catch (const error& e) {
            code = e.code();
            text = e.what();
        }
        told();
        detail::expect(code == make_error_code(errc::timed_out), c.rank(), "no timeout: " + text);
        detail::expect(!names_ranks<Comm>() || text.find(name) != std::string::npos, c.rank(),
                       "the late " + name + " is not named: " + text);
    }
    b.by = no_deadline;
    for (int again = 0; again < 2; ++again) {
        auto const code = detail::code_of([&] { b.barrier(); });
        detail::expect(code == make_error_code(errc::poisoned), c.rank(), "not poisoned");
    }
}

/// A rank that waits can be cancelled from another thread; the others, of which `absent` has not
/// called, do not wait for ever either; without `names_ranks` because they have a deadline. For
/// three ranks or more.
/// @param wait  Called on `absent`: returns when all others have been told (by your own means).
/// @param told  Called on the others when they have been told.
template <Communicator Comm, class Wait, class Told>
void check_cancel(Comm& c, int absent, Wait wait, Told told) {
    detail::blocking<Comm> b{c};
    b.barrier();
    int const canceller = (absent + 1) % c.size();
    if (c.rank() == absent) {
        wait();
    } else {
        std::thread other;
        if (c.rank() != canceller && !names_ranks<Comm>())
            b.by = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
        if (c.rank() == canceller)
            other = std::thread([&] {
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
                c.cancel();
            });
        auto const code = detail::code_of([&] { b.barrier(); });
        if (other.joinable()) other.join();
        told();
        bool const ok = code == make_error_code(errc::cancelled) ||
                        (c.rank() != canceller && code == make_error_code(errc::rank_failed)) ||
                        (b.by != no_deadline && code == make_error_code(errc::timed_out));
        detail::expect(ok, c.rank(), "not cancelled: " + code.message());
    }
    b.by = no_deadline;
    for (int again = 0; again < 2; ++again)
        detail::expect(detail::code_of([&] { b.barrier(); }).failed(), c.rank(),
                       "a cancelled group goes on");
}

}  // namespace cairn::conformance

#endif
