// SPDX-License-Identifier: Apache-2.0
#include "archetype/data_plane.hpp"
#include "support/error_text.hpp"
#include "support/many_groups.hpp"
#include "support/tcp_ranks.hpp"

#include <cairn/comm/solo.hpp>
#include <cairn/testing/data_plane.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(data_plane)

using cairn::communicator_data_plane;
using cairn::thread_group;
using namespace std::chrono_literals;

namespace {

/// Ranks that take 60 ms for each message.
struct slow_ranks {
    explicit slow_ranks(thread_group::member& m) : m_(&m) {}
    int rank() const { return m_->rank(); }
    int size() const { return m_->size(); }
    void gather(cairn::message, int, cairn::deadline,
                cairn::completion<std::vector<cairn::message>>) {}
    void scatter(std::vector<cairn::message>, int, cairn::deadline,
                 cairn::completion<cairn::message>) {}
    void broadcast(cairn::message m, int root, cairn::deadline d,
                   cairn::completion<cairn::message> done) {
        std::this_thread::sleep_for(60ms);
        m_->broadcast(std::move(m), root, d, std::move(done));
    }
    void all_gather(cairn::message, cairn::deadline,
                    cairn::completion<std::vector<cairn::message>>) {}
    void share(std::shared_ptr<const cairn::activity>) {}
    void cancel() noexcept { m_->cancel(); }

private:
    thread_group::member* m_;
};

/// One rank whose messages arrive when a thread passes them on; one broadcast throws.
class passed_on {
public:
    explicit passed_on(int throw_at) : throw_at_(throw_at) {}
    int rank() const { return 0; }
    int size() const { return 1; }
    void gather(cairn::message, int, cairn::deadline,
                cairn::completion<std::vector<cairn::message>>) {}
    void scatter(std::vector<cairn::message>, int, cairn::deadline,
                 cairn::completion<cairn::message>) {}
    void broadcast(cairn::message m, int, cairn::deadline, cairn::completion<cairn::message> done) {
        if (calls_++ == throw_at_) throw std::runtime_error("injected");
        auto const to = std::make_shared<cairn::completion<cairn::message>>(std::move(done));
        on_their_way_.push_back([to, m = std::move(m)] { (*to)(m); });
    }
    void all_gather(cairn::message, cairn::deadline,
                    cairn::completion<std::vector<cairn::message>>) {}
    void share(std::shared_ptr<const cairn::activity>) {}
    void cancel() noexcept { ++cancelled_; }

    /// Until no message is on its way.
    void pass_on() {
        while (!on_their_way_.empty()) {
            auto const next = std::move(on_their_way_.front());
            on_their_way_.pop_front();
            next();
        }
    }
    int calls() const { return calls_; }
    int cancelled() const { return cancelled_; }

private:
    int throw_at_;
    int calls_ = 0, cancelled_ = 0;
    std::deque<std::function<void()>> on_their_way_{};
};
static_assert(cairn::Communicator<passed_on>);

/// The suite on `n` threads, for planes over groups that `next(rank)` makes.
template <class Next>
void check_suite(int n, Next next) {
    auto const failures = support::try_on_threads(n, [&](int r) {
        using group = decltype(next(r));
        std::deque<group> groups;
        auto const found = cairn::testing::data_plane_suite([&] {
            groups.push_back(next(r));
            return communicator_data_plane(groups.back(), 3);
        });
        for (auto const& f : found) throw std::runtime_error(f);
    });
    BOOST_CHECK_NO_THROW(support::rethrow_first(failures));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_plane_over_one_rank_keeps_its_word) {
    check_suite(1, [](int) { return cairn::solo(); });
    // Pieces that end inside the call are a loop, not a recursion.
    cairn::solo s;
    communicator_data_plane p(s);
    std::vector<std::byte> much(std::size_t{300} << 20);
    BOOST_CHECK_NO_THROW(cairn::testing::detail::broadcast_and_wait(p, much, 0));
}

BOOST_AUTO_TEST_CASE(planes_over_threads_and_over_tcp_keep_their_word) {
    for (int n : {2, 5}) {
        support::many_thread_groups groups(n);
        check_suite(n, [&](int r) { return groups.next(r); });
    }
    support::many_tcp_groups groups(3, {});
    check_suite(3, [&](int r) { return groups.next(r); });
}

BOOST_AUTO_TEST_CASE(the_archetype_keeps_its_word) {
    support::many_thread_groups groups(3);
    BOOST_CHECK_NO_THROW(support::rethrow_first(support::try_on_threads(3, [&](int r) {
        auto const found = cairn::testing::data_plane_suite(
            [&] { return cairn::archetype::data_plane(groups.next(r)); }, 1024);
        for (auto const& f : found) throw std::runtime_error(f);
    })));
}

namespace {

/// Waits without end for ranks that do not call.
struct endless_plane : cairn::archetype::data_plane {
    using data_plane::data_plane;
    void broadcast(cairn::memory_span m, int root, cairn::deadline,
                   cairn::completion<cairn::done_t>&& done) {
        data_plane::broadcast(m, root, cairn::no_deadline, std::move(done));
    }
};
static_assert(cairn::DataPlane<endless_plane>);

}  // namespace

BOOST_AUTO_TEST_CASE(the_check_of_deadlines_finds_a_plane_that_ignores_them) {
    support::many_thread_groups groups(2);
    auto const found = support::try_on_threads(2, [&](int r) {
        endless_plane p(groups.next(r));
        cairn::archetype::data_plane between(groups.next(r));
        cairn::testing::check_late_root(
            p, [&] { cairn::testing::detail::meet(between); }, 200ms);
    });
    BOOST_TEST(bool(found[0]));  // rank 1 comes late
}

/// A long broadcast has more time than its deadline says, as long as its pieces arrive.
BOOST_AUTO_TEST_CASE(a_broadcast_is_waited_for_as_long_as_pieces_arrive) {
    BOOST_CHECK_NO_THROW(cairn::run_ranks(2, [](thread_group::member& m) {
        slow_ranks slow(m);
        communicator_data_plane p(slow);
        std::vector<std::byte> memory(std::size_t{6} << 20);
        cairn::testing::detail::broadcast_and_wait(p, memory, 0, cairn::deadline_after(250ms));
    }));
}

/// What throws is then called by a completion, on a thread of the communicator's.
BOOST_AUTO_TEST_CASE(a_later_piece_that_throws_fails_the_broadcast) {
    for (int const at : {1, 2}) {
        passed_on ranks(at);
        communicator_data_plane p(ranks);
        std::vector<std::byte> memory(3 * p.piece_bytes);
        int told = 0;
        std::exception_ptr failure;
        p.broadcast(memory, 0, cairn::no_deadline,
                    cairn::completion<cairn::done_t>(
                        [&](std::exception_ptr e, std::optional<cairn::done_t>) {
                            ++told;
                            failure = std::move(e);
                        }));
        std::thread([&] { ranks.pass_on(); }).join();
        BOOST_TEST(told == 1);
        BOOST_TEST(ranks.calls() == at + 1);
        BOOST_TEST(ranks.cancelled() >= 1);  // other ranks wait for this one
        BOOST_REQUIRE(failure);
        auto const text = support::error_of([&] { std::rethrow_exception(failure); });
        auto const abandoned = make_error_code(cairn::errc::abandoned).message();
        BOOST_TEST(
            (support::contains(text, {"injected"}) || support::contains(text, {abandoned.c_str()})),
            text);
    }
}

/// Larger or smaller than root's, by pieces or by bytes: nothing is written beyond a rank's memory,
/// and the ranks do not wait for each other for ever.
BOOST_AUTO_TEST_CASE(sizes_that_differ_are_an_error) {
    std::size_t constexpr mib = std::size_t{1} << 20;
    for (auto [at_root, elsewhere] : {std::pair<std::size_t, std::size_t>{10, 11},
                                      {11, 10},
                                      {0, 5},
                                      {9 * mib, 2 * mib},
                                      {2 * mib, 9 * mib},
                                      {2 * mib - 8, mib - 8},  // whole pieces: 8 for the size
                                      {mib - 8, 2 * mib - 8}}) {
        std::atomic<int> refused{0};
        std::size_t const sizes[] = {at_root, elsewhere};
        BOOST_CHECK_THROW(
            cairn::run_ranks(3,
                             [&](thread_group::member& m) {
                                 communicator_data_plane p(m);
                                 std::vector<std::byte> memory(sizes[m.rank() != 1]);
                                 try {
                                     cairn::testing::detail::broadcast_and_wait(p, memory, 1);
                                     cairn::testing::detail::broadcast_and_wait(p, memory, 1);
                                 } catch (const cairn::error& e) {
                                     refused += e.code() == cairn::make_error_code(
                                                                cairn::errc::invalid_argument);
                                     throw;
                                 }
                             }),
            cairn::error);
        BOOST_TEST(refused >= 1);
    }
}

BOOST_AUTO_TEST_SUITE_END()
