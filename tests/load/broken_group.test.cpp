// SPDX-License-Identifier: Apache-2.0
// An exchange of a load that only one rank fails at, and a storage that throws when it is asked
// whether the checkpoint was replaced: every rank ends, soon and with an error of its own.
#include "support/meddling_group.hpp"

#include <cairn/cairn.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(broken_group)

namespace {

constexpr int ranks = 3;
constexpr std::chrono::seconds hang{30};  // no test waits for it, if all is well

void save(cairn::memory_store store, float v) {
    std::vector<float> w(6, v);
    cairn::state_dict sd{{"w", w}, {"step", static_cast<int>(v)}};
    cairn::save(sd, "c", store);
}

/// A reader that does something else before its calls.
class odd_reader {
public:
    using inner = cairn::torch_reader;
    odd_reader(cairn::memory_store s, std::function<void(int)> looking,
               std::function<void()> reading)
        : r_(std::move(s)), looking_(std::move(looking)), reading_(std::move(reading)) {}
    void reset(const cairn::checkpoint_id& id) { r_.reset(id); }
    cairn::metadata read_metadata() {
        if (looking_) looking_(looks_++);
        return r_.read_metadata();
    }
    void set_up_reader(const cairn::metadata& m, const cairn::storage_setup& s) {
        r_.set_up_reader(m, s);
    }
    cairn::load_plan prepare_local_load_plan(cairn::load_plan p) { return p; }
    std::vector<cairn::load_plan> prepare_global_load_plan(std::vector<cairn::load_plan> p) {
        return p;
    }
    void read_data(const cairn::load_plan& p, const cairn::read_target& t,
                   cairn::completion<cairn::read_result> done) {
        if (reading_) reading_();
        r_.read_data(p, t, std::move(done));
    }

private:
    inner r_;
    std::function<void(int)> looking_;
    std::function<void()> reading_;
    int looks_ = 0;
};
static_assert(cairn::StorageReader<odd_reader>);

}  // namespace

BOOST_AUTO_TEST_CASE(a_message_that_one_rank_cannot_read_fails_all_ranks) {
    cairn::memory_store store;
    save(store, 1);
    int tried = 0;
    for (int rank : {0, 1}) {
        for (int n = 0; n < 5; ++n) {
            for (auto const& garbage : {cairn::message{}, cairn::message(30, std::byte{0xff})}) {
                auto const all = support::on_ranks_that_stay(ranks, [&](auto& me, int r) {
                    support::meddling_group comm(me, [&](int k, auto& ms) {
                        if (r != rank || k != n) return;
                        for (auto& m : ms) m = garbage;
                    });
                    std::vector<float> w(6);
                    int step = 0;
                    cairn::state_dict sd{{"w", w}, {"step", std::ref(step)}};
                    cairn::load_options o;
                    o.exchange_timeout = hang;
                    cairn::load(sd, "c", o, comm, store);
                });
                ++tried;
                BOOST_TEST_CONTEXT("exchange " << n << " on rank " << rank << ", " << garbage.size()
                                               << " bytes" << support::words(all)) {
                    bool const gathered_elsewhere = n == 1 && rank != 0;  // nothing to be read
                    for (int r = 0; r < ranks; ++r) {
                        auto const& t = all[static_cast<std::size_t>(r)];
                        BOOST_TEST(!t.raw);
                        BOOST_TEST(!t.is(cairn::errc::timed_out));
                        if (gathered_elsewhere) BOOST_TEST(t.ok());
                        // In the last exchange the others have all they need.
                        if (!gathered_elsewhere && (n != 4 || r == rank)) BOOST_TEST(!t.ok());
                    }
                }
            }
        }
    }
    std::cout << "broken group: " << tried << " messages of a load that could not be read\n";
}

BOOST_AUTO_TEST_CASE(a_group_that_loses_a_message_is_told) {
    cairn::memory_store store;
    save(store, 1);
    for (int const rank : {0, 1}) {
        for (int const n : {1, 3, 4}) {  // those that gather
            if (rank != 0 && n == 1) continue;
            auto const all = support::on_ranks_that_stay(ranks, [&](auto& me, int r) {
                support::meddling_group comm(me, [&](int k, auto& ms) {
                    if (r == rank && k == n) ms.pop_back();
                });
                std::vector<float> w(6);
                cairn::state_dict sd{{"w", w}};
                cairn::load_options o;
                o.exchange_timeout = hang;
                cairn::load(sd, "c", o, comm, store);
            });
            BOOST_TEST_CONTEXT("exchange " << n << " on rank " << rank << support::words(all)) {
                auto const& t = all[static_cast<std::size_t>(rank)];
                BOOST_REQUIRE(t.e);
                BOOST_TEST(t.is(cairn::errc::invalid_argument));
                BOOST_TEST(std::string(t.e->what()).find("3 messages, one per rank") !=
                           std::string::npos);
                for (auto const& other : all) BOOST_TEST(!other.is(cairn::errc::timed_out));
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_look_for_a_newer_checkpoint_may_throw_anything) {
    auto const throwing = std::vector<std::pair<const char*, std::function<void()>>>{
        {"runtime_error", [] { throw std::runtime_error("no answer"); }},
        {"bad_alloc", [] { throw std::bad_alloc(); }},
        {"42", [] { throw 42; }},
        {"io", [] { throw cairn::error(cairn::errc::io, {.found = "no answer"}); }},
        {"not_found", [] { throw cairn::error(cairn::errc::not_found, {}); }}};
    for (auto const& [what, f] : throwing) {
        cairn::memory_store store;
        save(store, 1);
        auto const all = support::on_ranks_that_stay(ranks, [&, fail = f](auto& me, int r) {
            std::vector<float> w(6);
            cairn::state_dict sd{{"w", w}};
            cairn::load_options o;
            o.exchange_timeout = hang;
            odd_reader reader(
                store,
                [&](int n) {
                    if (n == 1) fail();
                },
                [&] {
                    if (r == 1) throw cairn::error(cairn::errc::not_found, {.file = "a file"});
                });
            cairn::load(sd, "c", o, me, reader);
        });
        BOOST_TEST_CONTEXT(what << support::words(all)) {
            for (auto const& t : all) {
                BOOST_REQUIRE(t.e);
                // First why it looked at all, then what came of that.
                BOOST_TEST(t.is(cairn::errc::not_found));
                BOOST_TEST(t.e->failures().size() == (std::string(what) == "not_found" ? 1u : 2u));
                BOOST_TEST(t.e->failures()[0].where.rank == 1);
                BOOST_TEST(t.e->failures().back().where.rank == (t.e->failures().size() == 1));
            }
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
