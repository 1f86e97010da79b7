// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTING_STORAGE_HPP
#define CAIRN_TESTING_STORAGE_HPP

#include <cairn/comm/thread_group.hpp>
#include <cairn/format/native/index_content.hpp>
#include <cairn/load.hpp>
#include <cairn/planner/default_planner.hpp>
#include <cairn/save.hpp>
#include <cairn/testing/detail/probe.hpp>
#include <cairn/testing/detail/run_check.hpp>
#include <cairn/testing/detail/sample_state.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

/// Checks the semantics of a StorageWriter and the StorageReader of the same format, for models of
/// your own. Needs no test framework.
namespace cairn::testing {

/// The abilities of a format; what it cannot do is not checked.
struct storage_abilities {
    bool reshard = true;  ///< Loads in another layout than it was saved in.
    bool strided = true;  ///< Writes and reads memory that is not dense.
    bool values = true;   ///< Stores what is no tensor.
};

namespace detail {

/// The checks on one kind of place. Every save and load goes through the verbs, with a watcher
/// between them and the model.
template <class MakePlace>
class storage_checks {
    using place = std::remove_cvref_t<decltype(std::declval<MakePlace&>()())>;
    using writer = probed_writer<decltype(std::declval<place&>().writer())>;
    using reader = probed_reader<decltype(std::declval<place&>().reader())>;
    using outcomes = std::vector<std::optional<error>>;
    static constexpr int ranks = 3;

    struct injected {};  // not a std::exception: models and verbs must accept any type

public:
    storage_checks(MakePlace& make, storage_abilities can) : make_(make), can_(can) {}

    std::vector<std::string> run() {
        for (int n : {1, ranks, 9})
            check("written by " + std::to_string(n) + " ranks",
                  [&] { what_was_written_is_read(n); });
        if constexpr (IndexReader<decltype(std::declval<place&>().reader())>)
            check("the index", [&] { an_index_says_what_the_metadata_says(); });
        check("before finish", [&] { nothing_is_there_before_finish(); });
        if constexpr (requires(place& p) { p.names(); })
            check("abandon", [&] { abandon_removes_what_its_rank_wrote(); });
        each_call_of_a_save_fails_in_turn();
        check("save: finish fails afterwards", [&] { a_save_that_took_effect_stays(); });
        each_call_of_a_load_fails_in_turn();
        check("a target that throws", [&] { a_window_that_cannot_be_had_is_one_failure(); });
        check("no checkpoint", [&] { an_absent_checkpoint_is_an_error(); });
        return std::move(failures_);
    }

private:
    template <class F>
    void check(const std::string& name, F&& f) {
        name_ = name;
        run_check(failures_, name, std::forward<F>(f));
    }
    /// Reports a failure and continues. May be called from any thread.
    void note(bool ok, const std::string& what) {
        std::lock_guard const lock(m_);
        if (!ok) failures_.push_back(name_ + ": " + what);
    }

    std::vector<writer> writers(place& p, watcher& w, int n = ranks) {
        std::vector<writer> all;
        for (int r = 0; r < n; ++r) all.emplace_back(p.writer(), r, w);
        return all;
    }

    /// Runs `f(member, rank)` on every rank.
    /// @return The error on each rank, if any.
    template <class F>
    static outcomes on_ranks(int n, F&& f) {
        outcomes told(static_cast<std::size_t>(n));
        run_ranks(n, [&](thread_group::member& me) {
            try {
                f(me, static_cast<std::size_t>(me.rank()));
            } catch (const error& e) {
                told[static_cast<std::size_t>(me.rank())] = e;
            }
        });
        return told;
    }
    outcomes save(place& p, std::vector<writer>& ws, int seed, int coordinator = 0) {
        auto const n = static_cast<int>(ws.size());
        save_options o;
        o.coordinator = coordinator;
        return on_ranks(n, [&](thread_group::member& me, std::size_t r) {
            sample_state state(me.rank(), n, seed, can_.strided, can_.values);
            cairn::save(state, p.id(), o, me, ws[r]);
        });
    }
    outcomes load(place& p, watcher& w, std::vector<sample_state>& states) {
        auto const n = static_cast<int>(states.size());
        std::vector<reader> rs;
        for (int r = 0; r < n; ++r) rs.emplace_back(p.reader(), r, w);
        return on_ranks(n, [&](thread_group::member& me, std::size_t r) {
            cairn::load(states[r], p.id(), me, rs[r]);
        });
    }
    std::vector<sample_state> wiped(int n) const {
        std::vector<sample_state> states;
        for (int r = 0; r < n; ++r) states.emplace_back(r, n, 0, can_.strided, can_.values).wipe();
        return states;
    }
    void succeeded(const outcomes& told, const char* what) {
        for (auto const& e : told)
            if (e) return note(false, std::string(what) + " fails: " + e->what());
    }
    /// Checks that every rank received one failure, that of `rank`.
    void all_blame(const outcomes& told, int rank) {
        for (auto const& e : told) {
            if (!e) return note(false, "the failure of a call is not an error on all ranks");
            if (e->failures().size() != 1 || e->failures()[0].where.rank != rank)
                return note(false, "an error names others than rank " + std::to_string(rank) +
                                       ": " + e->what());
        }
    }
    void none_dropped(const watcher& w) {
        note(w.dropped == 0, "a completion was destroyed without having been called");
    }
    /// Checks that the place holds the checkpoint of a seed.
    void holds(place& p, int seed, int n = ranks) {
        watcher w;
        auto states = wiped(n);
        succeeded(load(p, w, states), "a load");
        for (auto const& s : states)
            if (auto const wrong = s.difference(seed); !wrong.empty())
                note(false, "a load returns other content than was saved: " + wrong);
        none_dropped(w);
    }
    bool has_checkpoint(place& p) {
        auto r = p.reader();
        checkpoint_id const id = p.id();
        r.reset(id);
        return why_not([&] { (void)r.read_metadata(); }).empty();
    }
    static std::set<std::string> names(place& p) {
        if constexpr (requires { p.names(); })
            return p.names();
        else
            return {};
    }
    void holds_just(place& p, const std::set<std::string>& want) {
        auto const found = names(p);
        std::string differing;
        for (auto const& n : found)
            if (want.count(n) == 0) differing += " '" + n + "' is left";
        for (auto const& n : want)
            if (found.count(n) == 0) differing += " '" + n + "' is gone";
        note(differing.empty(), "after a save that failed:" + differing);
    }

    void what_was_written_is_read(int n) {
        place p = make_();
        watcher w;
        auto ws = writers(p, w, n);
        for (int seed : {1, 2}) {  // twice to one id, by the same writers
            succeeded(save(p, ws, seed), "a save");
            holds(p, seed, n);
        }
        auto fresh = writers(p, w, n);
        succeeded(save(p, fresh, 3, n - 1), "a save");
        holds(p, 3, n);
        if (can_.reshard) holds(p, 3, n + 1);
        none_dropped(w);
    }

    void an_index_says_what_the_metadata_says() {
        place p = make_();
        watcher w;
        auto ws = writers(p, w);
        succeeded(save(p, ws, 1), "a save");
        auto r = p.reader();
        checkpoint_id const id = p.id();
        r.reset(id);
        auto const meta = r.read_metadata();
        auto const index = r.read_index();
        note(index.meta == meta, "read_index returns other metadata than read_metadata");
        if (!index.bytes.empty())
            note(format::native::decode_metadata(index.bytes) == meta,
                 "the bytes of read_index are not those of the metadata");
    }

    void nothing_is_there_before_finish() {
        place p = make_();
        watcher w;
        auto ws = writers(p, w);
        bool looked = false;
        w.before = [&](call c, int) {
            if (c != call::finish) return;
            looked = true;
            note(!has_checkpoint(p), "a checkpoint exists");
        };
        succeeded(save(p, ws, 1), "a save");
        note(looked, "finish is not called");
        w.before = [&](call c, int) {
            if (c == call::finish) holds(p, 1);
        };
        succeeded(save(p, ws, 2), "a save");
        holds(p, 2);
    }

    void abandon_removes_what_its_rank_wrote() {
        place p = make_();
        watcher w;
        auto ws = writers(p, w);
        succeeded(save(p, ws, 1), "a save");
        auto const before = names(p);
        auto const look = [&] {  // abandon cannot throw
            std::set<std::string> found;
            auto const why = why_not([&] { found = names(p); });
            note(why.empty(), "names() throws: " + why);
            return found;
        };
        std::mutex one_at_a_time;
        std::set<std::string> seen, removed;
        w.before = [&](call c, int) {
            if (c == call::finish) throw injected();
            if (c != call::abandon) return;
            one_at_a_time.lock();
            seen = look();
        };
        w.after = [&](call c, int rank) {
            if (c != call::abandon) return;
            auto const left = look();
            std::size_t own = 0;
            for (auto const& n : seen)
                if (left.count(n) == 0) own += removed.insert(n).second ? 1u : 0u;
            note(own > 0, "rank " + std::to_string(rank) + " removes nothing");
            one_at_a_time.unlock();
        };
        all_blame(save(p, ws, 2), 0);
        holds_just(p, before);
        holds(p, 1);
    }

    /// @param f  Called with each rank that a call can fail on, and whether it had its effect.
    template <class F>
    void each_failure(const char* verb, call at, bool of_one, F&& f) {
        for (int rank = 0; rank < (of_one ? 1 : ranks); ++rank)
            for (bool after : {false, true}) {
                if (after && at == call::finish) continue;  // see a_save_that_took_effect_stays
                check(std::string(verb) + ": " + name_of(at) + " fails on rank " +
                          std::to_string(rank) + (after ? " afterwards" : ""),
                      [&] { f(rank, after); });
            }
    }
    void each_call_of_a_save_fails_in_turn() {
        for (auto at : {call::reset, call::set_up, call::prepare_local, call::prepare_global,
                        call::write, call::finish})
            each_failure("save", at, at == call::prepare_global || at == call::finish,
                         [&](int rank, bool after) { failing_save(at, rank, after); });
    }
    void failing_save(call at, int rank, bool after) {
        place p = make_();
        watcher w;
        auto ws = writers(p, w);
        succeeded(save(p, ws, 1), "a save");
        auto const before = names(p);
        (after ? w.after : w.before) = [&](call c, int r) {
            if (c == at && r == rank) throw injected();
        };
        all_blame(save(p, ws, 2), rank);
        holds_just(p, before);
        holds(p, 1);
        w.before = w.after = [](call, int) {};
        succeeded(save(p, ws, 3), "the save after it");
        holds(p, 3);
        none_dropped(w);
    }

    /// If the answer of `finish` is lost, `committed` decides whether ranks remove their files.
    void a_save_that_took_effect_stays() {
        place p = make_();
        watcher w;
        auto ws = writers(p, w);
        succeeded(save(p, ws, 1), "a save");
        w.after = [&](call c, int) {
            if (c == call::finish) throw injected();
        };
        auto const told = save(p, ws, 2);
        bool const unknown = std::all_of(told.begin(), told.end(), [](auto const& e) {
            return e && e->code() == make_error_code(errc::outcome_unknown);
        });
        if (!unknown) succeeded(told, "a save that was committed");
        holds(p, 2);
        w.after = [](call, int) {};
        succeeded(save(p, ws, 3), "the save after it");
        holds(p, 3);
        none_dropped(w);
    }

    void each_call_of_a_load_fails_in_turn() {
        std::optional<place> p;
        check("a save", [&] {
            p.emplace(make_());
            watcher w;
            auto ws = writers(*p, w);
            succeeded(save(*p, ws, 1), "it");
        });
        if (!p) return;
        for (auto at : {call::reset, call::read_metadata, call::set_up, call::prepare_local,
                        call::prepare_global, call::read_values, call::read}) {
            if (at == call::read_values && !can_.values) continue;
            each_failure("load", at, at == call::prepare_global || at == call::read_metadata,
                         [&](int rank, bool after) { failing_load(*p, at, rank, after); });
        }
        check("after loads that failed", [&] { holds(*p, 1); });
    }
    void failing_load(place& p, call at, int rank, bool after) {
        watcher w;
        (after ? w.after : w.before) = [&](call c, int r) {
            if (c == at && r == rank) throw injected();
        };
        auto states = wiped(ranks);
        auto const told = load(p, w, states);
        all_blame(told, rank);
        for (int r = 0; r < ranks; ++r) {
            auto const i = static_cast<std::size_t>(r);
            if (told[i])
                note(told[i]->state_modified() == (at == call::read),
                     "an error states incorrectly whether the state was modified");
            if (at != call::read || (r == rank && !after))
                note(states[i].wiped(), "the state was modified");
        }
        none_dropped(w);
    }

    /// A planner that returns no window.
    struct blind_planner : default_planner {
        tensor_view resolve_tensor(const read_item&) { throw injected(); }
    };
    void a_window_that_cannot_be_had_is_one_failure() {
        place p = make_();
        watcher w;
        auto ws = writers(p, w, 1);
        succeeded(save(p, ws, 1), "a save");
        auto states = wiped(1);
        reader r(p.reader(), 0, w);
        auto const told = on_ranks(1, [&](thread_group::member& me, std::size_t) {
            cairn::load(states[0], p.id(), me, r, blind_planner());
        });
        all_blame(told, 0);
        none_dropped(w);
    }

    void an_absent_checkpoint_is_an_error() {
        place p = make_();
        watcher w;
        auto states = wiped(ranks);
        all_blame(load(p, w, states), 0);
        for (auto const& s : states) note(s.wiped(), "the state was modified");
    }

    MakePlace& make_;
    storage_abilities can_;
    std::string name_{};  ///< Of the check that is running.
    std::vector<std::string> failures_{};
    std::mutex m_{};
};

}  // namespace detail

/// Runs all checks: what was written is read bit for bit; a checkpoint exists from `finish` on and
/// not before; a failure of any call on any rank is one error on all ranks and damages no earlier
/// checkpoint, unless `finish` took effect: then the save succeeds, or its outcome is unknown.
///
/// Not checked: when a ReleasingWriter says that items are released, and what a reader declares
/// with `checksum`, `items_stay_local` and `divides_chunks`.
///
///     struct my_place {
///         std::string id() { return ...; }         // the checkpoint that is written and read
///         my_writer writer() { return ...; }       // a new one at each call, one per rank
///         my_reader reader() { return ...; }
///         std::set<std::string> names();           // optional: every name that the place holds
///     };
///
/// A part that neither calls nor destroys a completion makes the suite hang, as it does any verb.
///
/// @param make  Returns an empty place, a different one at each call.
/// @return Descriptions of the failures; empty if there are none.
template <class MakePlace>
std::vector<std::string> storage_suite(MakePlace make, storage_abilities can = {}) {
    return detail::storage_checks<MakePlace>(make, can).run();
}

}  // namespace cairn::testing

#endif
