// SPDX-License-Identifier: Apache-2.0
// An exchange of whole tensors in which one rank gets something that it cannot read: every rank
// ends, soon and with an error of its own, and no memory is read that was not sent.
#include "support/meddling_group.hpp"

#include <cairn/comm/thread_group.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/models.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <iostream>
#include <map>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(broken_group)

namespace {

constexpr int ranks = 3;
constexpr std::chrono::seconds hang{30};  // no test waits for it, if all is well

cairn::gather_options small_pieces(int root = -1) {
    return {.root = root, .piece_bytes = 16, .exchange_timeout = hang};
}
/// Two rows of six for each rank: two small pieces.
struct rows {
    std::vector<float> memory = std::vector<float>(8, 1.0f);
    cairn::sharded_view view{{2 * ranks, 4}, cairn::dtype::float32, {}};
    explicit rows(int r) {
        view.shards.emplace_back(cairn::box({2 * r, 0}, {2, 4}),
                                 cairn::tensor_view(cairn::dtype::float32, {2, 4}, memory.data()));
    }
};
template <class Group>
using verb = std::function<void(Group&, int)>;

/// What exchanges whole tensors.
template <class Group>
std::map<std::string, verb<Group>> verbs() {
    std::map<std::string, verb<Group>> all;
    for (int root : {-1, 0, 1})
        all["full_tensor, root " + std::to_string(root)] = [root](Group& g, int r) {
            rows mine(r);
            (void)cairn::full_tensor(mine.view, g, small_pieces(root));
        };
    all["broadcast_from_rank0"] = [](Group& g, int r) {
        std::map<std::string, std::vector<float>> m{{"w", {1, 2, 3, 4, 5, 6, 7, 8}}};
        cairn::state_dict whole;
        if (r == 0) whole = {{"w", std::vector<float>(8, 3.0f)}};
        cairn::set_model_state_dict(
            m, whole,
            {.full_state_dict = true, .broadcast_from_rank0 = true, .gather = small_pieces()}, g);
    };
    return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_message_that_one_rank_cannot_read_fails_all_ranks) {
    using group = support::meddling_group;
    auto const well_formed = [](std::size_t n) {
        return cairn::detail::encode_outcome({}, std::vector<std::byte>(n, std::byte{0xff}));
    };
    struct message {
        const char* what;
        cairn::message bytes;
        bool readable;  ///< As an outcome; what is in it is not what was sent.
    };
    std::vector<message> const garbage{{"nothing", {}, false},
                                       {"noise", cairn::message(30, std::byte{0xff}), false},
                                       {"no payload", well_formed(0), true},
                                       {"another payload", well_formed(5), true}};
    int tried = 0, refused = 0;
    for (auto const& [name, run] : verbs<group>()) {
        for (auto const& g : garbage) {
            for (int const rank : {0, 1}) {
                for (int n = 0; n < 5; ++n) {
                    std::atomic<bool> received{false};
                    auto const all =
                        support::on_ranks_that_stay(ranks, [&, &run_verb = run](auto& me, int r) {
                            group comm(me, [&](int k, auto& ms) {
                                if (r != rank || k != n || ms.empty()) return;
                                received = true;
                                for (auto& m : ms) m = g.bytes;
                            });
                            run_verb(comm, r);
                        });
                    if (!received) continue;
                    ++tried;
                    BOOST_TEST_CONTEXT(name << ": " << g.what << " in exchange " << n << " on rank "
                                            << rank << support::words(all)) {
                        bool some = false;
                        for (auto const& t : all) {
                            BOOST_TEST(!t.raw);
                            BOOST_TEST(!t.is(cairn::errc::timed_out));
                            some = some || !t.ok();
                        }
                        if (!g.readable) BOOST_TEST(!all[static_cast<std::size_t>(rank)].ok());
                        refused += some;
                    }
                }
            }
        }
    }
    std::cout << "broken group: " << tried << " messages with whole tensors, " << refused
              << " refused\n";
    // Only in one exchange of each verb do the ranks tell no more than that they are ready.
    BOOST_TEST(refused >= tried * 3 / 4);
}

/// The others, who may have heard all that was sent, do not wait for it.
BOOST_AUTO_TEST_CASE(an_exchange_that_throws_on_one_rank_fails_all_ranks) {
    using group = support::meddling_group;
    int tried = 0;
    for (auto const& [name, run] : verbs<group>()) {
        for (int const rank : {0, 1}) {
            for (int n = 0; n < 5; ++n) {
                std::atomic<bool> reached{false};
                auto const all =
                    support::on_ranks_that_stay(ranks, [&, &run_verb = run](auto& me, int r) {
                        group comm(me, [&](int k, auto&) {
                            if (r != rank || k != n) return;
                            reached = true;
                            throw cairn::error(cairn::errc::io, {.found = "injected"});
                        });
                        run_verb(comm, r);
                    });
                if (!reached) continue;
                ++tried;
                BOOST_TEST_CONTEXT(name << ": exchange " << n << " on rank " << rank
                                        << support::words(all)) {
                    BOOST_TEST(all[static_cast<std::size_t>(rank)].is(cairn::errc::io));
                    for (auto const& t : all) {
                        BOOST_TEST(!t.raw);
                        BOOST_REQUIRE(!t.is(cairn::errc::timed_out));
                    }
                }
            }
        }
    }
    std::cout << "broken group: " << tried << " exchanges of whole tensors that threw\n";
    BOOST_TEST(tried >= 4 * 2 * 4);
}

/// In the last exchange to a root, the others are told nothing.
BOOST_AUTO_TEST_CASE(a_rank_that_cannot_pack_its_last_piece_says_so) {
    for (int const root : {0, 2}) {
        auto const all = support::on_ranks_that_stay(ranks, [&](auto& me, int r) {
            rows mine(r);
            // No memory that it could read.
            if (r == 1) mine.view.shards.front().view.device = {cairn::memory_kind::cuda, 0};
            (void)cairn::full_tensor(mine.view, me, {.root = root, .exchange_timeout = hang});
        });
        BOOST_TEST_CONTEXT("root " << root << support::words(all)) {
            for (int const r : {1, root}) {
                auto const& t = all[static_cast<std::size_t>(r)];
                BOOST_REQUIRE(t.e);
                BOOST_TEST(t.is(cairn::errc::invalid_argument));
                BOOST_TEST(t.e->context().rank == 1);
            }
            for (auto const& t : all) BOOST_TEST(!t.is(cairn::errc::timed_out));
        }
    }
}

/// The pieces that ranks expect of each other differ.
BOOST_AUTO_TEST_CASE(ranks_with_other_pieces_are_told) {
    for (int root : {-1, 0}) {
        auto const all = support::on_ranks_that_stay(ranks, [&](auto& me, int r) {
            auto options = small_pieces(root);
            if (r == 1) options.piece_bytes = 32;
            rows mine(r);
            (void)cairn::full_tensor(mine.view, me, options);
        });
        bool said = false;
        for (auto const& t : all) {
            BOOST_TEST(!t.raw);
            BOOST_TEST(!t.is(cairn::errc::timed_out));
            said =
                said || (t.e && std::string(t.e->what()).find("piece_bytes") != std::string::npos);
        }
        BOOST_TEST(said, support::words(all));
    }
}

/// What was being copied when the group broke is not what it was.
BOOST_AUTO_TEST_CASE(a_piece_that_is_lost_has_modified_the_state) {
    auto const all = support::on_ranks_that_stay(ranks, [&](auto& me, int r) {
        support::meddling_group comm(me, [&](int k, auto& ms) {
            if (r == 1 && k == 3) ms[0].clear();  // the second of two pieces
        });
        verbs<support::meddling_group>().at("broadcast_from_rank0")(comm, r);
    });
    BOOST_TEST_CONTEXT(support::words(all)) {
        BOOST_REQUIRE(all[1].e);
        BOOST_TEST(all[1].e->state_modified());
        for (auto const& t : all) BOOST_TEST((t.ok() || t.e->state_modified()));
    }
}

/// A communicator may throw anything.
BOOST_AUTO_TEST_CASE(an_exception_of_any_type_after_a_piece_has_modified_the_state) {
    auto const throwing = std::map<std::string, std::function<void()>>{
        {"injected", [] { throw std::runtime_error("injected"); }},
        {"out of memory", [] { throw std::bad_alloc(); }},
        {"unknown type", [] { throw 42; }}};
    for (auto const& [text, fail] : throwing) {
        auto const all = support::on_ranks_that_stay(ranks, [&, &throw_it = fail](auto& me, int r) {
            support::meddling_group comm(me, [&](int k, auto&) {
                if (r == 1 && k == 3) throw_it();  // the second of two pieces
            });
            verbs<support::meddling_group>().at("broadcast_from_rank0")(comm, r);
        });
        BOOST_TEST_CONTEXT(text << support::words(all)) {
            BOOST_REQUIRE(all[1].e);
            BOOST_TEST(all[1].e->state_modified());
            BOOST_TEST(std::string(all[1].e->what()).find(text) != std::string::npos);
            for (auto const& t : all) {
                BOOST_TEST(!t.raw);
                BOOST_TEST((t.ok() || (t.e && t.e->state_modified())));
                BOOST_TEST(!t.is(cairn::errc::timed_out));
            }
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
