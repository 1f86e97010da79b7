// SPDX-License-Identifier: Apache-2.0
// An exchange that only one rank fails at, or a group that breaks while something else goes wrong:
// every rank ends, soon and with what it knows, and no file is left that is known to be useless.
#include "support/fault_store.hpp"
#include "support/meddling_group.hpp"
#include "support/whole.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(broken_group)

namespace {

using support::told;
constexpr std::chrono::seconds hang{30};                   // no test waits for it, if all is well
constexpr int results = 3, verdict = 4, acknowledged = 5;  // the exchanges of a save

using hook = support::meddling_group::hook;
void nothing(int, std::vector<cairn::message>&) {}

struct options {
    int meddled = -1;  ///< This rank's messages go through `received`.
    hook received = nothing;
    int faulty = -1;  ///< This rank's store fails as `f` says.
    support::fault f{};
};

std::vector<told> save(cairn::memory_store base, float v, const options& o = {}, int ranks = 3) {
    return support::on_ranks_that_stay(ranks, [&](cairn::thread_group::member& me, int rank) {
        std::vector<float> rows(2, v);
        cairn::state_dict sd{
            {"w", cairn::shard_by_mesh(cairn::tensor_view(cairn::dtype::f32, {1, 2}, rows.data()),
                                       {ranks, 2}, cairn::device_mesh::line(ranks),
                                       {cairn::shard_along{0}}, rank)}};
        support::meddling_group comm(me, rank == o.meddled ? o.received : nothing);
        support::fault_store<cairn::memory_store> store(base,
                                                        rank == o.faulty ? o.f : support::fault{});
        cairn::save_options how;
        how.exchange_timeout = hang;
        cairn::save(sd, "c", how, comm, store);
    });
}
float standing(cairn::memory_store base) {
    auto const w = support::load_whole(base, "c");
    std::vector<float> all(6);
    std::memcpy(all.data(), w.tensors.at("w").bytes.data(), 24);
    for (float v : all)
        if (v != all[0]) return -1;
    return all[0];
}
std::vector<std::string> data_files(cairn::memory_store base) {
    std::vector<std::string> out;
    for (auto const& i : base.at("c").list())
        if (i.name.ends_with(".distcp")) out.push_back(i.name);
    return out;
}

/// The n-th operation of a rank's save that is so called.
int operation(const std::string& what, int rank, int which = 0) {
    for (int at = 0;; ++at) {
        cairn::memory_store base;
        BOOST_REQUIRE(save(base, 1)[0].ok());
        std::string hit;
        auto const all = support::on_ranks_that_stay(3, [&](auto& me, int r) {
            std::vector<float> rows(2, 2);
            cairn::state_dict sd{
                {"w", cairn::shard_by_mesh(
                          cairn::tensor_view(cairn::dtype::f32, {1, 2}, rows.data()), {3, 2},
                          cairn::device_mesh::line(3), {cairn::shard_along{0}}, r)}};
            support::fault_store<cairn::memory_store> store(
                base, support::fault{r == rank ? at : -1, support::thrown::cairn_error, false});
            try {
                cairn::save(sd, "c", me, store);
            } catch (const cairn::error&) {
            }
            if (r == rank) hit = store.hit();
        });
        BOOST_REQUIRE(!hit.empty());
        if (hit == what && which-- == 0) return at;
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_rank_whose_own_write_failed_says_so_and_leaves_nothing) {
    int const write = operation("write", 1);
    for (int cut : {results, verdict}) {
        BOOST_TEST_CONTEXT("exchange " << cut << " is cut short") {
            cairn::memory_store store;
            BOOST_REQUIRE(save(store, 1)[0].ok());
            options o;
            o.faulty = o.meddled = 1;
            o.f = {write, support::thrown::runtime_error, true};
            o.received = [&](int n, auto&) {
                if (n == cut) throw std::runtime_error("the network is gone");
            };
            auto const all = save(store, 2, o);
            BOOST_REQUIRE(all[1].e);
            auto const said = std::string(all[1].e->what());
            BOOST_TEST(!all[1].is(cairn::errc::outcome_unknown), said);
            BOOST_REQUIRE(all[1].e->failures().size() == 2u);
            BOOST_TEST(all[1].e->failures()[0].text.find("injected into write") !=
                       std::string::npos);
            BOOST_TEST(all[1].e->failures()[1].text.find("the network is gone") !=
                       std::string::npos);
            BOOST_TEST(data_files(store).size() == 3u, "left: " << data_files(store)[1]);
            BOOST_TEST(standing(store) == 1.0f);
            for (auto const& t : save(store, 3)) BOOST_TEST(t.ok());
            BOOST_TEST(store.at("c").list().size() == 4u);
        }
    }
}

BOOST_AUTO_TEST_CASE(what_the_coordinator_knows_comes_first) {
    cairn::memory_store store;
    BOOST_REQUIRE(save(store, 1)[0].ok());
    options o;
    o.faulty = 2;
    o.f = {operation("write", 2), support::thrown::runtime_error, false};
    o.meddled = 0;
    o.received = [](int n, auto&) {
        if (n == verdict) throw std::runtime_error("the network is gone");
    };
    auto const all = save(store, 2, o);
    BOOST_REQUIRE((all[0].e && all[0].e->failures().size() == 2u));
    BOOST_TEST(all[0].e->failures()[0].where.rank == 2);
    BOOST_TEST(all[0].e->failures()[0].text.find("injected into write") != std::string::npos);
    BOOST_TEST(standing(store) == 1.0f);
}

/// The coordinator knows what it did, whoever heard of it.
BOOST_AUTO_TEST_CASE(a_lost_verdict_changes_nothing_about_the_commit) {
    for (bool fails : {false, true}) {
        cairn::memory_store store;
        BOOST_REQUIRE(save(store, 1)[0].ok());
        options o;
        o.meddled = 0;
        o.received = [](int n, auto&) {
            if (n == verdict) throw std::runtime_error("the network is gone");
        };
        if (fails) o.faulty = 0;
        if (fails) o.f = {operation("publish", 0, 1), support::thrown::cairn_error, false};
        auto const all = save(store, 2, o);
        BOOST_TEST(all[0].ok() == !fails, support::words(all));
        BOOST_TEST(standing(store) == (fails ? 1.0f : 2.0f));
        BOOST_TEST(data_files(store).size() == 3u);
        if (fails) BOOST_TEST(all[0].e->failures().size() == 2u);
    }
}

/// A rank that cannot understand what it was sent ends the save for all: nobody waits for it.
BOOST_AUTO_TEST_CASE(a_message_that_one_rank_cannot_read_ends_the_save_for_all) {
    int tried = 0;
    for (int rank : {0, 1}) {
        for (int n = 0; n <= verdict; ++n) {
            for (auto const& garbage : {cairn::message{}, cairn::message{std::byte{9}},
                                        cairn::message(30, std::byte{0xff})}) {
                BOOST_TEST_CONTEXT("exchange " << n << " on rank " << rank << ", " << garbage.size()
                                               << " bytes") {
                    cairn::memory_store store;
                    BOOST_REQUIRE(save(store, 1)[0].ok());
                    options o;
                    o.meddled = rank;
                    o.received = [&](int k, std::vector<cairn::message>& ms) {
                        if (k != n) return;
                        for (auto& m : ms) m = garbage;
                    };
                    auto const all = save(store, 2, o);
                    ++tried;
                    auto const now = standing(store);
                    BOOST_TEST((now == 1.0f || now == 2.0f));
                    for (auto const& t : all) {
                        BOOST_TEST(!t.raw, support::words(all));
                        BOOST_TEST(!t.is(cairn::errc::timed_out), support::words(all));
                        if (t.ok()) BOOST_TEST(now == 2.0f);
                    }
                    for (auto const& t : save(store, 3)) BOOST_TEST(t.ok());
                    BOOST_TEST(store.at("c").list().size() == 4u);
                }
            }
        }
    }
    std::cout << "broken group: " << tried << " messages that could not be read\n";
}

/// Whatever the storage throws when it is asked: then it is not known, no more.
BOOST_AUTO_TEST_CASE(a_rank_in_doubt_whose_storage_throws_says_that_the_outcome_is_unknown) {
    int const ops = operation("sync", 1) + 1;  // what comes after is asked in doubt
    for (auto const what : support::all_thrown) {
        for (bool afterwards : {false, true}) {
            for (int at = ops;; ++at) {
                cairn::memory_store store;
                BOOST_REQUIRE(save(store, 1)[0].ok());
                options o;
                o.faulty = o.meddled = 1;
                o.f = {at, what, afterwards};
                o.received = [](int n, auto&) {
                    if (n == verdict) throw std::runtime_error("the network is gone");
                };
                auto const all = save(store, 2, o);
                BOOST_TEST(all[0].ok());
                BOOST_TEST(standing(store) == 2.0f);
                if (all[1].ok()) break;
                BOOST_TEST(!all[1].raw);
                BOOST_TEST(all[1].is(cairn::errc::outcome_unknown), support::words(all));
                BOOST_TEST(std::string(all[1].e->what()).find("the network is gone") !=
                           std::string::npos);
                BOOST_REQUIRE(at < ops + 20);
            }
        }
    }
}

/// Who removed his files says so to nobody: the coordinator keeps the intent, and nobody waits.
BOOST_AUTO_TEST_CASE(nobody_waits_for_an_acknowledgement_that_does_not_come) {
    for (int rank : {0, 1}) {
        cairn::memory_store store;
        BOOST_REQUIRE(save(store, 1)[0].ok());
        options o;
        o.faulty = 2;
        o.f = {operation("write", 2), support::thrown::number, false};
        o.meddled = rank;
        o.received = [](int n, auto&) {
            if (n == acknowledged) throw 42;
        };
        auto const all = save(store, 2, o);
        for (auto const& t : all) {
            BOOST_REQUIRE(t.e);
            BOOST_TEST(t.e->failures().size() == 1u);
            BOOST_TEST(t.e->context().rank == 2);
        }
        BOOST_TEST(data_files(store).size() == 3u);
        for (auto const& t : save(store, 3)) BOOST_TEST(t.ok());
        BOOST_TEST(store.at("c").list().size() == 4u);
    }
}

BOOST_AUTO_TEST_SUITE_END()
