// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTING_DATA_PLANE_HPP
#define CAIRN_TESTING_DATA_PLANE_HPP

#include <cairn/comm/data_plane.hpp>
#include <cairn/testing/detail/ranks.hpp>
#include <cairn/testing/detail/run_check.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <future>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

/// Checks the semantics of a DataPlane, for models of your own. See
/// `cairn/testing/communicator.hpp`: every rank calls the same function concurrently.
namespace cairn::testing {
namespace detail {

template <DataPlane Plane>
void broadcast_and_wait(Plane& p, memory_span m, int root, deadline by = no_deadline) {
    (void)await_completion<done_t>([&](auto done) { p.broadcast(m, root, by, std::move(done)); });
}

/// Broadcasts, and expects an error before `patience` has passed; cancels the plane then.
template <DataPlane Plane>
void expect_failure_within(Plane& p, std::chrono::milliseconds patience, int root, deadline by) {
    bool endless = false;
    std::string why;
    {
        std::promise<void> ended;
        std::jthread const watch([&, until = ended.get_future()] {
            if (until.wait_for(patience) == std::future_status::ready) return;
            endless = true;
            p.cancel();
        });
        std::vector<std::byte> memory(100);
        why = why_not([&] { broadcast_and_wait(p, memory, root, by); });
        ended.set_value();
    }
    expect(!endless, p.rank(), "a broadcast waits for a rank that has missed the deadline");
    expect(!why.empty(), p.rank(), "no error");
}

/// Returns on no rank before all have called it.
template <DataPlane Plane>
void meet(Plane& p) {
    std::vector<std::byte> memory(1);
    for (int root = 0; root < p.size(); ++root) broadcast_and_wait(p, memory, root);
}

}  // namespace detail

/// Checks that the root's bytes, and nothing beyond them, arrive on every rank: with every root in
/// turn, from 0 bytes on, at unaligned addresses.
/// @param largest  Bytes of the largest broadcast.
template <DataPlane Plane>
void check_broadcasts(Plane& p, std::size_t largest = std::size_t{9} << 20) {
    auto const must = [&](bool ok, const char* what) { detail::expect(ok, p.rank(), what); };
    must(p.rank() >= 0 && p.rank() < p.size(), "a rank outside of the plane");
    must(std::as_const(p).serves(device_id()), "serves() returns false for host memory");
    constexpr auto untouched = std::byte{0xa5};
    for (int root = 0; root < p.size(); ++root) {
        for (std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{4096}, largest}) {
            auto const sent = detail::sample(root, 1, n);
            std::vector<std::byte> memory(n + 2, untouched);
            auto const middle = std::span(memory).subspan(1, n);
            if (p.rank() == root) std::copy(sent.begin(), sent.end(), middle.begin());
            detail::broadcast_and_wait(p, middle, root);
            must(memory.front() == untouched && memory.back() == untouched,
                 "bytes beyond the broadcast");
            must(std::equal(sent.begin(), sent.end(), middle.begin()), "other bytes than root's");
        }
    }
}

/// Checks that all ranks fail if one cancels instead of broadcasting. The plane is unusable
/// afterwards.
template <DataPlane Plane>
void check_cancelled_plane(Plane& p) {
    std::vector<std::byte> memory(100'000);
    if (p.rank() == p.size() - 1) p.cancel();
    auto const code = detail::code_of([&] { detail::broadcast_and_wait(p, memory, 0); });
    detail::expect(code.failed(), p.rank(), "no error");
}

/// Checks that ranks whose deadline passes do not wait for a root that does not call, and that the
/// plane is unusable for all afterwards, including the late root. For two ranks or more.
/// @param sync      Called once on every rank: returns when all have called it, by other means.
/// @param patience  A broadcast that takes longer ignores its deadline.
template <DataPlane Plane, class Sync>
void check_late_root(Plane& p, Sync sync,
                     std::chrono::milliseconds patience = std::chrono::seconds(5)) {
    detail::meet(p);  // a first broadcast may connect the ranks
    int const late = p.size() - 1;
    std::string why;
    if (p.rank() != late)
        why = detail::why_not([&] {
            detail::expect_failure_within(p, patience, late,
                                          deadline_after(std::chrono::milliseconds(50)));
        });
    sync();
    detail::expect(why.empty(), why);
    if (p.rank() == late) detail::expect_failure_within(p, patience, late, no_deadline);
}

/// Checks that a duplicate is a plane of the same ranks, and outlives its original.
template <BackgroundDataPlane Plane>
void check_duplicate(Plane p) {
    Plane other =
        await_completion<Plane>([&](auto done) { p.duplicate(no_deadline, std::move(done)); });
    detail::expect(
        other.rank() == p.rank() && other.size() == p.size() && other.plane_id() == p.plane_id(),
        p.rank(), "another rank, size or number");
    check_broadcasts(p, 5000);
    check_broadcasts(other, 5000);
    { Plane const ended(std::move(p)); }
    check_broadcasts(other, 5000);
}

/// Runs all checks.
/// @param make     Makes a plane of all ranks; called several times, in the same order on every
/// rank.
/// @param largest  Bytes of the largest broadcast.
/// @return Descriptions of the failures on this rank; empty if there are none.
template <class Make>
std::vector<std::string> data_plane_suite(Make make, std::size_t largest = std::size_t{9} << 20) {
    using plane = std::remove_cvref_t<decltype(make())>;
    static_assert(DataPlane<plane>);
    std::vector<std::string> failures;
    auto const check = [&](const char* name, auto f) { detail::run_check(failures, name, f); };
    check("broadcasts", [&] {
        plane p = make();
        check_broadcasts(p, largest);
    });
    if constexpr (BackgroundDataPlane<plane>) check("duplicates", [&] { check_duplicate(make()); });
    check("a cancelled broadcast", [&] {
        plane p = make();
        check_cancelled_plane(p);
    });
    check("a deadline", [&] {
        plane p = make(), between = make();
        if (p.size() > 1) check_late_root(p, [&] { detail::meet(between); });
    });
    return failures;
}

}  // namespace cairn::testing

#endif
