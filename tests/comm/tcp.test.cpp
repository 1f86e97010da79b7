// SPDX-License-Identifier: Apache-2.0
// The suite over real sockets, ranks as threads; ranks that end, and duplicates.
#include "support/many_groups.hpp"
#include "support/tcp_ranks.hpp"

#include <cairn/testing/communicator.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(tcp)

using cairn::errc;
using cairn::tcp_group;
using cairn::tcp_options;
using support::failure_of;
using support::meet;
using support::run_tcp_ranks;
using support::try_tcp_ranks;
using namespace std::chrono_literals;

namespace {

bool contains(const std::string& all, const std::string& part) {
    return all.find(part) != std::string::npos;
}
tcp_options with_fan_in(int n) {
    tcp_options o;
    o.fan_in = n;
    return o;
}
std::size_t open_files() {
    auto const all = std::filesystem::directory_iterator("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_group_over_tcp_keeps_its_word) {
    for (int fan_in : {2, 32}) {
        for (int n : {1, 2, 4, 8}) {
            if (n == 8 && fan_in == 32) continue;
            support::many_tcp_groups groups(n, with_fan_in(fan_in));
            std::vector<std::string> found;
            support::rethrow_first(support::try_on_threads(n, [&](int r) {
                auto failures = cairn::testing::communicator_suite(
                    [&] { return groups.next(r); }, std::size_t{1} << (n == 8 ? 16 : 20));
                if (r == 0) found = std::move(failures);
            }));
            for (auto const& f : found) BOOST_ERROR(f);
            BOOST_TEST(found.empty());
        }
    }
}

BOOST_AUTO_TEST_CASE(a_long_message_arrives_whole) {
    auto const largest = std::size_t{1} << 28;
    BOOST_CHECK_NO_THROW(run_tcp_ranks(2, {}, [&](tcp_group& g) {
        auto const sent = cairn::testing::detail::sample(1, 1, largest);
        auto const got = cairn::await_completion<cairn::message>(
            [&](auto done) { g.broadcast(sent, 1, cairn::no_deadline, std::move(done)); });
        cairn::testing::detail::expect(got == sent, g.rank(), "a long message");
    }));
}

BOOST_AUTO_TEST_CASE(groups_of_other_ranks_or_another_order_do_not_mix) {
    auto const id = tcp_group::unique_id();
    BOOST_CHECK_NO_THROW(run_tcp_ranks(3, {}, [&](tcp_group& g) {
        tcp_group other(id, (g.rank() + 1) % 3, 3);
        cairn::testing::check_interleaved(g, other);
    }));
    auto const few = tcp_group::unique_id();
    BOOST_CHECK_NO_THROW(run_tcp_ranks(4, {}, [&](tcp_group& g) {
        if (g.rank() % 2 == 1) {
            tcp_group half(few, g.rank() / 2, 2);
            cairn::testing::check_exchanges(half, 1024);
        }
        meet(g);
    }));
}

/// Whatever ends last, and wherever: on the thread of the group itself, too.
BOOST_AUTO_TEST_CASE(a_group_ends_with_the_last_that_uses_it) {
    (void)tcp_group(cairn::tcp_id{}, 0, 1);
    auto const before = open_files();
    BOOST_CHECK_NO_THROW(run_tcp_ranks(3, with_fan_in(1), [&](tcp_group& g) {
        auto copy = cairn::await_completion<tcp_group>(
            [&](auto done) { g.duplicate(cairn::no_deadline, std::move(done)); });
        auto held = std::make_shared<std::optional<tcp_group>>(std::move(copy));
        { tcp_group const first(std::move(g)); }
        meet(**held);
        std::atomic<int> over{0};
        (*held)->broadcast({}, 0, cairn::no_deadline,
                           cairn::completion<cairn::message>(
                               [held, &over](const std::exception_ptr& e, const auto&) {
                                   held->reset();
                                   over = e ? 2 : 1;
                                   over.notify_all();
                               }));
        over.wait(0);
        cairn::testing::detail::expect(over == 1, 0, "the last exchange failed");
    }));
    // The threads that ended themselves may still be about to close their sockets.
    for (int i = 0; i < 500 && open_files() > before; ++i) std::this_thread::sleep_for(10ms);
    BOOST_TEST(open_files() <= before);
}

BOOST_AUTO_TEST_CASE(many_duplicates_cost_no_descriptors) {
    BOOST_CHECK_NO_THROW(run_tcp_ranks(3, {}, [&](tcp_group& g) {
        // The ranks are threads, and who counts has a descriptor open: one counts, the others wait.
        meet(g);
        auto const before = g.rank() == 0 ? open_files() : 0;
        meet(g);
        std::vector<tcp_group> all;
        for (int i = 0; i < 100; ++i)
            all.push_back(cairn::await_completion<tcp_group>(
                [&](auto done) { g.duplicate(cairn::no_deadline, std::move(done)); }));
        for (auto& c : all) meet(c);
        meet(g);
        if (g.rank() == 0)
            cairn::testing::detail::expect(open_files() <= before, 0, "more descriptors");
        meet(g);
    }));
}

BOOST_AUTO_TEST_CASE(a_rank_that_leaves_is_named_and_the_rest_make_a_new_group) {
    for (int gone : {0, 1, 4}) {
        auto const o = with_fan_in(2);
        auto const again = tcp_group::unique_id();
        std::atomic<int> told{0}, rebuilt{0};
        auto const failures = try_tcp_ranks(5, o, [&](tcp_group& g) {
            meet(g);
            if (g.rank() == gone) return;
            auto const what = failure_of([&] { meet(g); });
            told += contains(what, "rank " + std::to_string(gone) + " left the group");
            tcp_group survivors(again, g.rank() - (g.rank() > gone), 4, o);
            meet(survivors);
            ++rebuilt;
        });
        BOOST_CHECK_NO_THROW(support::rethrow_first(failures));
        BOOST_TEST(told == 4);
        BOOST_TEST(rebuilt == 4);
    }
}

BOOST_AUTO_TEST_SUITE_END()
