// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_CONFORMANCE_STORAGE_HPP
#define CAIRN_TEST_CONFORMANCE_STORAGE_HPP

#include "probe.hpp"
#include "sample_state.hpp"

#include <cairn/comm/thread_group.hpp>
#include <cairn/load.hpp>
#include <cairn/planner/default_planner.hpp>
#include <cairn/save.hpp>

#include <boost/test/unit_test.hpp>

#include <exception>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cairn::conformance {

/// What a format can do; what it cannot is not asked of it.
struct storage_abilities {
    bool reshard = true;  ///< Loads in another layout than it was saved in.
    bool strided = true;  ///< Writes and reads memory that is not dense.
};

namespace detail {

/// The suite on one kind of place. Every save and load goes through the verbs, with a watcher
/// between them and the model.
template <class MakePlace>
class storage_suite {
    using place = decltype(std::declval<MakePlace&>()());
    using writer = probed_writer<decltype(std::declval<place&>().writer())>;
    using reader = probed_reader<decltype(std::declval<place&>().reader())>;
    using failures = std::vector<std::optional<error>>;
    static constexpr int ranks = 3;

    struct injected {};  // no std::exception: models and verbs must carry anything

public:
    storage_suite(MakePlace& make, storage_abilities can) : make_(make), can_(can) {}

    void run() {
        what_was_written_is_read();
        nothing_is_there_before_finish();
        abandon_removes_what_its_rank_wrote();
        each_call_of_a_save_fails_in_turn();
        each_call_of_a_load_fails_in_turn();
        a_window_that_cannot_be_had_is_one_failure();
        an_absent_checkpoint_is_an_error();
    }

private:
    std::vector<writer> writers(place& p, watcher& w, int n = ranks) {
        std::vector<writer> all;
        for (int r = 0; r < n; ++r) all.emplace_back(p.writer(), r, w);
        return all;
    }

    /// Runs `f(member, rank)` on every rank; what each rank was told.
    template <class F>
    static failures on_ranks(int n, F&& f) {
        failures told(static_cast<std::size_t>(n));
        run_ranks(n, [&](thread_group::member& me) {
            try {
                f(me, static_cast<std::size_t>(me.rank()));
            } catch (const error& e) {
                told[static_cast<std::size_t>(me.rank())] = e;
            }
        });
        return told;
    }
    failures save(place& p, std::vector<writer>& ws, int seed, int coordinator = 0) {
        auto const n = static_cast<int>(ws.size());
        save_options o;
        o.coordinator = coordinator;
        return on_ranks(n, [&](thread_group::member& me, std::size_t r) {
            sample_state state(me.rank(), n, seed, can_.strided);
            cairn::save(state, p.id(), o, me, ws[r]);
        });
    }
    failures load(place& p, watcher& w, std::vector<sample_state>& states) {
        auto const n = static_cast<int>(states.size());
        std::vector<reader> rs;
        for (int r = 0; r < n; ++r) rs.emplace_back(p.reader(), r, w);
        return on_ranks(n, [&](thread_group::member& me, std::size_t r) {
            cairn::load(states[r], p.id(), me, rs[r]);
        });
    }
    std::vector<sample_state> wiped(int n) const {
        std::vector<sample_state> states;
        for (int r = 0; r < n; ++r) states.emplace_back(r, n, 0, can_.strided).wipe();
        return states;
    }
    static bool all_well(const failures& told) {
        for (auto const& e : told) {
            if (!e) continue;
            BOOST_TEST_MESSAGE(e->what());
            return false;
        }
        return true;
    }
    /// Every rank was told of one failure, that of `rank`.
    static void all_blame(const failures& told, int rank) {
        for (auto const& e : told) {
            BOOST_REQUIRE(e.has_value());
            BOOST_TEST_CONTEXT(e->what()) {
                BOOST_REQUIRE(e->failures().size() == 1u);
                BOOST_TEST(e->failures()[0].where.rank == rank);
            }
        }
    }
    /// The place holds the checkpoint of a seed.
    void holds(place& p, int seed, int n = ranks) {
        watcher w;
        auto states = wiped(n);
        BOOST_TEST(all_well(load(p, w, states)));
        for (auto const& s : states) BOOST_TEST(s.difference(seed) == "");
        BOOST_TEST(w.dropped == 0);
    }
    bool has_checkpoint(place& p) {
        auto r = p.reader();
        checkpoint_id const id = p.id();
        r.reset(id);
        try {
            (void)r.read_metadata();
        } catch (const std::exception&) {
            return false;
        }
        return true;
    }
    static std::set<std::string> names(place& p) {
        if constexpr (requires { p.names(); })
            return p.names();
        else
            return {};
    }

    void what_was_written_is_read() {
        for (int n : {1, ranks, 9}) {
            BOOST_TEST_CONTEXT("written by " << n << " ranks") {
                place p = make_();
                watcher w;
                auto ws = writers(p, w, n);
                for (int seed : {1, 2}) {  // twice to one id, by the same objects
                    BOOST_TEST(all_well(save(p, ws, seed)));
                    holds(p, seed, n);
                }
                auto fresh = writers(p, w, n);
                BOOST_TEST(all_well(save(p, fresh, 3, n - 1)));
                holds(p, 3, n);
                if (can_.reshard) holds(p, 3, n + 1);
                BOOST_TEST(w.dropped == 0);
            }
        }
    }

    void nothing_is_there_before_finish() {
        BOOST_TEST_CONTEXT("before finish") {
            place p = make_();
            watcher w;
            auto ws = writers(p, w);
            bool looked = false;
            w.before = [&](call c, int) {
                if (c != call::finish) return;
                looked = true;
                BOOST_TEST(!has_checkpoint(p));
            };
            BOOST_TEST(all_well(save(p, ws, 1)));
            BOOST_TEST(looked);
            looked = false;
            w.before = [&](call c, int) {
                if (c != call::finish) return;
                looked = true;
                holds(p, 1);
            };
            BOOST_TEST(all_well(save(p, ws, 2)));
            BOOST_TEST(looked);
            holds(p, 2);
        }
    }

    void abandon_removes_what_its_rank_wrote() {
        if constexpr (requires(place& p) { p.names(); }) {
            BOOST_TEST_CONTEXT("abandon") {
                place p = make_();
                watcher w;
                auto ws = writers(p, w);
                BOOST_TEST(all_well(save(p, ws, 1)));
                auto const before = names(p);
                std::mutex one_at_a_time;
                std::set<std::string> seen, removed;
                w.before = [&](call c, int) {
                    if (c == call::finish) throw injected();
                    if (c != call::abandon) return;
                    one_at_a_time.lock();
                    seen = names(p);
                };
                w.after = [&](call c, int rank) {
                    if (c != call::abandon) return;
                    auto const left = names(p);
                    std::size_t own = 0;
                    for (auto const& n : seen)
                        if (left.count(n) == 0) own += removed.insert(n).second ? 1u : 0u;
                    BOOST_TEST_CONTEXT("rank " << rank) {
                        BOOST_TEST(own > 0u);
                    }
                    one_at_a_time.unlock();
                };
                all_blame(save(p, ws, 2), 0);
                BOOST_TEST(names(p) == before, boost::test_tools::per_element());
                holds(p, 1);
            }
        }
    }

    void each_call_of_a_save_fails_in_turn() {
        for (auto at : {call::reset, call::set_up, call::prepare_local, call::prepare_global,
                        call::write, call::finish}) {
            bool const alone = at == call::prepare_global || at == call::finish;
            for (int rank = 0; rank < (alone ? 1 : ranks); ++rank) {
                for (bool after : {false, true}) {
                    if (after && at == call::finish) continue;  // then the checkpoint exists
                    BOOST_TEST_CONTEXT("save: " << name_of(at) << " fails on rank " << rank
                                                << (after ? " afterwards" : "")) {
                        failing_save(at, rank, after);
                    }
                }
            }
        }
    }
    void failing_save(call at, int rank, bool after) {
        place p = make_();
        watcher w;
        auto ws = writers(p, w);
        BOOST_TEST(all_well(save(p, ws, 1)));
        auto const before = names(p);
        int failed = 0;
        (after ? w.after : w.before) = [&](call c, int r) {
            if (c != at || r != rank) return;
            ++failed;
            throw injected();
        };
        auto const told = save(p, ws, 2);
        BOOST_TEST(failed == 1);
        all_blame(told, rank);
        BOOST_TEST(names(p) == before, boost::test_tools::per_element());
        holds(p, 1);
        w.before = w.after = [](call, int) {};
        BOOST_TEST(all_well(save(p, ws, 3)));
        holds(p, 3);
        BOOST_TEST(w.dropped == 0);
    }

    void each_call_of_a_load_fails_in_turn() {
        place p = make_();
        watcher w;
        auto ws = writers(p, w);
        BOOST_TEST(all_well(save(p, ws, 1)));
        for (auto at : {call::reset, call::read_metadata, call::set_up, call::prepare_local,
                        call::prepare_global, call::read_values, call::read}) {
            bool const alone = at == call::prepare_global || at == call::read_metadata;
            for (int rank = 0; rank < (alone ? 1 : ranks); ++rank) {
                for (bool after : {false, true}) {
                    BOOST_TEST_CONTEXT("load: " << name_of(at) << " fails on rank " << rank
                                                << (after ? " afterwards" : "")) {
                        failing_load(p, at, rank, after);
                    }
                }
            }
        }
        holds(p, 1);
    }
    void failing_load(place& p, call at, int rank, bool after) {
        watcher w;
        std::atomic<int> failed{0};
        (after ? w.after : w.before) = [&](call c, int r) {
            if (c != at || r != rank) return;
            ++failed;
            throw injected();
        };
        auto states = wiped(ranks);
        auto const told = load(p, w, states);
        BOOST_TEST(failed == 1);
        all_blame(told, rank);
        for (int r = 0; r < ranks; ++r) {
            auto const i = static_cast<std::size_t>(r);
            BOOST_TEST(told[i]->state_modified() == (at == call::read));
            if (at != call::read || (r == rank && !after)) BOOST_TEST(states[i].wiped());
        }
        BOOST_TEST(w.dropped == 0);
    }

    /// A planner that gives no window.
    struct blind_planner : default_planner {
        tensor_view resolve_tensor(const read_item&) { throw injected(); }
    };
    void a_window_that_cannot_be_had_is_one_failure() {
        BOOST_TEST_CONTEXT("read_data: the target throws") {
            place p = make_();
            watcher w;
            auto ws = writers(p, w, 1);
            BOOST_TEST(all_well(save(p, ws, 1)));
            auto states = wiped(1);
            reader r(p.reader(), 0, w);
            BOOST_CHECK_EXCEPTION(cairn::load(states[0], p.id(), r, blind_planner()), error,
                                  [](const error& e) { return e.failures().size() == 1; });
            BOOST_TEST(w.dropped == 0);
        }
    }

    void an_absent_checkpoint_is_an_error() {
        BOOST_TEST_CONTEXT("no checkpoint") {
            place p = make_();
            watcher w;
            auto states = wiped(ranks);
            all_blame(load(p, w, states), 0);
            for (auto const& s : states) BOOST_TEST(s.wiped());
        }
    }

    MakePlace& make_;
    storage_abilities can_;
};

}  // namespace detail

/// What a StorageWriter and the StorageReader of the same format promise beyond their syntax: what
/// was written is read bit by bit, a checkpoint exists from `finish` on and not before, a failure
/// of any call on any rank is one error on all ranks and harms no earlier checkpoint. Call it from
/// a Boost.Test case of your own:
///
///     struct my_place {
///         std::string id() { return ...; }         // the checkpoint that is written and read
///         my_writer writer() { return ...; }       // a new object at each call, one per rank
///         my_reader reader() { return ...; }
///         std::set<std::string> names();           // optional: every name that the place holds
///     };
///     BOOST_AUTO_TEST_CASE(my_format_keeps_its_word) {
///         cairn::conformance::check_storage([] { return my_place(...); });
///     }
///
/// @param make  Returns an empty place, a new one at each call.
template <class MakePlace>
void check_storage(MakePlace make, storage_abilities can = {}) {
    detail::storage_suite<MakePlace>(make, can).run();
}

}  // namespace cairn::conformance

#endif
