// SPDX-License-Identifier: Apache-2.0
// A group that is lent to an asynchronous verb is cancelled if its duplicate fails inside the call,
// and only then.
#include <cairn/completion.hpp>
#include <cairn/error.hpp>
#include <cairn/verb/detail/lane.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <utility>

BOOST_AUTO_TEST_SUITE(lane)

namespace {

struct group {
    /// Duplicates, as the test says.
    std::function<void(cairn::completion<group>)> how{};
    int* cancelled = nullptr;

    static int rank() { return 3; }
    void duplicate(cairn::deadline, cairn::completion<group> done) const { how(std::move(done)); }
    void cancel() const noexcept { ++*cancelled; }
};
template <class Part>
struct pointer_to_part {
    explicit pointer_to_part(Part& p) : part(&p) {}
    Part* part;
};

struct ending {
    bool opened = false;
    int cancelled = 0;
    int rank = -1;  ///< That the failure names.
};
/// @param later  What happens after the call.
ending open(
    std::function<void(cairn::completion<group>)> how, const std::function<void()>& later = [] {}) {
    ending e;
    group lent{std::move(how), &e.cancelled};
    boost::asio::io_context here;
    cairn::detail::lane<group, pointer_to_part> l;
    int ended = 0;
    l.open(lent, here.get_executor(), cairn::deadline::max(), [&](std::exception_ptr why) {
        ++ended;
        e.opened = !why && l.erased() != nullptr;
        if (!why) return;
        try {
            std::rethrow_exception(why);
        } catch (const cairn::error& x) {
            e.rank = x.failures().empty() ? x.context().rank : x.failures().front().where.rank;
        }
    });
    later();
    here.run();
    BOOST_TEST(ended == 1);
    return e;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_lane_is_opened_where_the_duplicate_is_made) {
    auto const e = open([](auto done) { done(group{}); });
    BOOST_TEST((e.opened && e.cancelled == 0));
    std::optional<cairn::completion<group>> kept;
    auto const after = open([&](auto done) { kept.emplace(std::move(done)); },
                            [&] { std::exchange(kept, {}).value()(group{}); });
    BOOST_TEST((after.opened && after.cancelled == 0));
}

/// A result stands: the other ranks have theirs.
BOOST_AUTO_TEST_CASE(a_lane_is_opened_where_the_call_throws_after_the_duplicate_was_made) {
    auto const e = open([](auto done) {
        done(group{});
        throw std::runtime_error("too late");
    });
    BOOST_TEST((e.opened && e.cancelled == 0));
}

BOOST_AUTO_TEST_CASE(a_group_that_fails_inside_the_call_is_cancelled) {
    auto const failure = std::make_exception_ptr(std::runtime_error("no duplicate"));
    for (auto const& e : {open([&](auto) { std::rethrow_exception(failure); }),
                          open([&](auto done) { done.fail(failure); }), open([&](auto done) {
                              done.fail(failure);
                              throw 42;
                          })}) {
        BOOST_TEST((!e.opened && e.cancelled == 1));
        BOOST_TEST(e.rank == 3);
    }
}

/// The other ranks may have theirs, and would wait in it.
BOOST_AUTO_TEST_CASE(a_group_that_throws_too_early_is_cancelled_with_its_late_duplicate) {
    int late = 0;
    std::optional<cairn::completion<group>> kept;
    auto const e = open(
        [&](auto done) {
            kept.emplace(std::move(done));
            throw std::runtime_error("too early");
        },
        [&] {
            std::exchange(kept, {}).value()(group{{}, &late});
        });
    BOOST_TEST((!e.opened && e.cancelled == 1 && late == 1));
    BOOST_TEST(e.rank == 3);
}

/// What was lent may have ended by then.
BOOST_AUTO_TEST_CASE(a_group_that_fails_later_is_left_alone) {
    auto const failure = std::make_exception_ptr(std::runtime_error("no duplicate"));
    std::optional<cairn::completion<group>> kept;
    auto const e = open([&](auto done) { kept.emplace(std::move(done)); },
                        [&] { std::exchange(kept, {}).value().fail(failure); });
    BOOST_TEST((!e.opened && e.cancelled == 0));
}

BOOST_AUTO_TEST_SUITE_END()
