// SPDX-License-Identifier: Apache-2.0
// A plan serves for many saves as long as nothing but contents changes, and for no save longer:
// whatever changes, on whichever rank, is planned anew, and no shard is lost.
#include "planned_states.hpp"
#include "support/fault_store.hpp"

#include <cairn/planner/global_plan.hpp>
#include <cairn/save/detail/save_plans.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(plan_cache)

namespace {

using planned_states::check_stored;
using planned_states::layout;
using planned_states::rank_memory;
using planned_states::rows;
using planned_states::usual;
using support::told;
constexpr std::chrono::seconds hang{30};  // no test waits for it, if all is well

/// Ranks that save to one place, again and again.
struct job {
    cairn::memory_store store{};
    std::vector<cairn::plan_cache> caches{};  ///< By rank.
    cairn::save_options options = patient();
    std::function<cairn::save_options(int)> options_of = [this](int) { return options; };
    /// What a rank is sent.
    std::function<void(int rank, int exchange, std::vector<cairn::message>&)> received =
        [](int, int, auto&) {};
    support::fault fault{};  ///< Of rank 1's store.

    explicit job(int ranks = 3) {
        for (int r = 0; r < ranks; ++r) caches.emplace_back();
    }
    static cairn::save_options patient() {
        cairn::save_options o;
        o.exchange_timeout = hang;
        return o;
    }

    struct ended {
        std::vector<told> all{};
        std::vector<bool> reused{};
        cairn::save_report report{};  ///< The coordinator's.

        bool ok() const {
            return std::all_of(all.begin(), all.end(), [](auto const& t) { return t.ok(); });
        }
        /// Whether all ranks say that the plan was an earlier one; none if they differ.
        std::optional<bool> alike() const {
            auto const n = std::count(reused.begin(), reused.end(), true);
            if (n != 0 && n != static_cast<std::ptrdiff_t>(reused.size())) return {};
            return n != 0;
        }
    };
    /// @param state_of  The layout that a rank believes in.
    template <class StateOf>
    ended save_as(StateOf&& state_of, int step) {
        ended out;
        auto const ranks = static_cast<int>(caches.size());
        std::vector<char> reused(caches.size(), 0);
        out.all =
            support::on_ranks_that_stay(ranks, [&](cairn::thread_group::member& me, int rank) {
                auto const at = static_cast<std::size_t>(rank);
                layout const l = state_of(rank);
                rank_memory const mine(l, rank, step);
                support::meddling_group comm(me, [&](int n, auto& ms) { received(rank, n, ms); });
                support::fault_store<cairn::memory_store> to(store,
                                                             rank == 1 ? fault : support::fault{});
                auto report = cairn::save(mine.state, "c", options_of(rank), comm, to, caches[at]);
                reused[at] = report.plan_reused;
                if (rank == options_of(rank).coordinator) out.report = std::move(report);
            });
        out.reused.assign(reused.begin(), reused.end());
        return out;
    }
    ended save(const layout& l, int step) {
        return save_as([&](int) { return l; }, step);
    }
    /// Saves, and checks what is stored then.
    void check(const layout& l, int step, bool reused) {
        auto const e = save(l, step);
        BOOST_TEST_REQUIRE(e.ok(), support::words(e.all));
        BOOST_TEST((e.alike() == reused),
                   "reused by " << std::count(e.reused.begin(), e.reused.end(), true) << " ranks");
        check_stored(store, "c", l, step);
    }
};

/// The metadata of a checkpoint, without what tells one save from another.
cairn::metadata anonymous(const cairn::memory_store& store, const std::string& id) {
    cairn::torch_reader reader{cairn::memory_store(store)};
    reader.reset(id);
    auto m = reader.read_metadata();
    auto const without_id = [&](std::string name) {
        if (auto const at = name.find(m.save_id); at != name.npos)
            name.replace(at, m.save_id.size(), "ID");
        return name;
    };
    auto const forget = [&](cairn::storage_location& at) {
        at.file = without_id(at.file);
        if (at.layout) at.layout->payload_crc = at.layout->item_crc = 0;
    };
    for (auto& [fqn, entry] : m.entries)
        if (auto* t = std::get_if<cairn::tensor_metadata>(&entry))
            t->chunks.edit_each([&](cairn::chunk& c) { forget(c.at); });
        else
            forget(std::get<cairn::value_metadata>(entry).at);
    std::map<std::string, std::uint64_t, std::less<>> sizes;
    for (auto const& [name, size] : m.file_sizes) sizes[without_id(name)] = size;
    m.file_sizes = std::move(sizes);
    m.save_id.clear();
    return m;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_state_of_which_only_the_content_changes_is_planned_once) {
    for (int ranks : {1, 2, 5}) {
        job j(ranks);
        auto const l = usual(ranks);
        j.check(l, 1, false);
        for (auto const& c : j.caches) BOOST_TEST(!c.empty());
        for (int step = 2; step < 6; ++step) j.check(l, step, true);
    }
}

BOOST_AUTO_TEST_CASE(what_is_written_is_what_a_new_plan_would_write) {
    job planned, kept;
    auto const l = usual();
    kept.check(l, 1, false);
    kept.check(l, 1, true);
    planned.check(l, 1, false);
    for (auto& c : planned.caches) c.clear();
    planned.check(l, 1, false);
    BOOST_TEST((anonymous(kept.store, "c") == anonymous(planned.store, "c")));
}

/// Each change is one of all ranks, or one of a single rank that the others do not notice.
BOOST_AUTO_TEST_CASE(whatever_changes_is_planned_anew) {
    using change = std::function<void(layout&)>;
    auto const held = [](layout& l, const char* name) -> auto& { return l.tensors.at(name).held; };
    std::vector<std::pair<const char*, change>> const changes{
        {"a name",
         [](layout& l) {
             auto t = l.tensors.extract("net.sharded");
             t.key() = "net.shardee";
             l.tensors.insert(std::move(t));
         }},
        {"swapped shards",
         [&](layout& l) { std::swap(held(l, "net.sharded")[0], held(l, "net.sharded")[1]); }},
        {"rows that move to another rank",
         [&](layout& l) {
             held(l, "net.sharded")[1] = {rows(2, 3)};
             held(l, "net.sharded")[2] = {rows(5, 1)};
         }},
        {"a shard in two pieces",
         [&](layout& l) {
             held(l, "net.sharded")[2] = {rows(4, 1), rows(5, 1)};
         }},
        {"a rank that holds nothing",
         [&](layout& l) {
             held(l, "net.sharded")[1] = {rows(2, 4)};
             held(l, "net.sharded")[2] = {};
         }},
        {"a replica that a rank has no longer", [&](layout& l) { held(l, "net.replica")[0] = {}; }},
        {"a shape",
         [&](layout& l) {
             l.tensors.at("net.replica").shape = {6, 2};
             for (auto& h : held(l, "net.replica")) h = {rows(0, 6)};
         }},
        {"a dtype", [](layout& l) { l.tensors.at("net.sharded").type = cairn::dtype::float64; }},
        {"a new tensor", [](layout& l) { l.tensors["net.twin"] = l.tensors.at("net.replica"); }},
        {"a new tie",
         [](layout& l) {
             l.tensors["net.twin"] = l.tensors.at("net.replica");
             l.tensors["net.twin"].tied_to = "net.replica";
         }},
        {"a tensor less", [](layout& l) { l.tensors.erase("net.replica"); }},
        {"a new value", [](layout& l) { l.values["seed"] = 3; }},
        {"a value less", [](layout& l) { l.values.erase("epoch"); }},
    };
    for (auto const& [what, f] : changes) {
        BOOST_TEST_CONTEXT(what) {
            job j;
            auto changed = usual();
            f(changed);
            j.check(usual(), 1, false);
            j.check(usual(), 2, true);
            j.check(changed, 3, false);
            j.check(changed, 4, true);
            j.check(usual(), 5, false);
        }
    }
}

/// A twin that is tied differs from one that is not in nothing but its memory.
BOOST_AUTO_TEST_CASE(a_tie_that_comes_or_goes_is_planned_anew) {
    auto apart = usual();
    apart.tensors["net.twin"] = apart.tensors.at("net.replica");
    auto tied = apart;
    tied.tensors["net.twin"].tied_to = "net.replica";
    job j;
    j.check(apart, 1, false);
    j.check(tied, 2, false);
    j.check(tied, 3, true);
    j.check(apart, 4, false);
}

BOOST_AUTO_TEST_CASE(options_that_plans_depend_on_are_planned_anew) {
    auto const l = usual();
    using change = std::function<void(cairn::save_options&)>;
    std::vector<std::pair<const char*, change>> const changes{
        {"replicas", [](auto& o) { o.replicas = cairn::replica_policy::verify; }},
        {"dedup", [](auto& o) { o.planner.dedup_save_to_lowest_rank = true; }},
        {"coordinator", [](auto& o) { o.coordinator = 2; }},
    };
    for (auto const& [what, f] : changes) {
        BOOST_TEST_CONTEXT(what) {
            job j;
            j.check(l, 1, false);
            f(j.options);
            j.check(l, 2, false);
            j.check(l, 3, true);
            j.options = job::patient();
            j.check(l, 4, false);
        }
    }
    // How the files are laid out is no part of the plan.
    job j;
    j.check(l, 1, false);
    j.options.storage.thread_count = 3;
    j.check(l, 2, true);
    j.options.storage.single_file_per_rank = false;
    j.check(l, 3, true);
    j.options.storage.payload_alignment = 64;
    j.check(l, 4, true);
}

BOOST_AUTO_TEST_CASE(functions_cannot_be_compared) {
    auto const l = usual();
    using change = std::function<void(cairn::save_options&)>;
    std::vector<change> const never{
        [](auto& o) { o.replicas_of = [](auto) { return cairn::replica_policy::verify; }; },
        [](auto& o) {
            o.planner.dedup = [](auto plans) { return cairn::dedup_save_plans(std::move(plans)); };
        }};
    for (auto const& f : never) {
        job j;
        f(j.options);
        for (int step = 1; step < 4; ++step) j.check(l, step, false);
        for (auto const& c : j.caches) BOOST_TEST(c.empty());
    }
    // What these return is part of the local plan.
    job j;
    j.options.planner.create_items = [](auto const&, auto usual) {
        for (auto& i : usual) i.fqn = "a." + i.fqn;
        return usual;
    };
    BOOST_TEST(j.save(l, 1).ok());
    BOOST_TEST((j.save(l, 2).alike() == true));
    j.options.planner.create_items = nullptr;
    j.check(l, 3, false);
}

BOOST_AUTO_TEST_CASE(another_number_of_ranks_is_planned_anew) {
    job three(3);
    three.check(usual(3), 1, false);
    three.caches.pop_back();
    three.check(usual(2), 2, false);
    three.check(usual(2), 3, true);
    three.caches.emplace_back();
    three.check(usual(3), 4, false);
}

/// The ranks that have not forgotten do not send their plans, and the save is right.
BOOST_AUTO_TEST_CASE(a_rank_that_has_forgotten_makes_all_plan_anew) {
    for (std::size_t who = 0; who < 3; ++who) {
        job j;
        auto const l = usual();
        j.check(l, 1, false);
        j.caches[who].clear();
        j.check(l, 2, false);
        j.check(l, 3, true);
    }
}

/// Ranks whose part has not changed say so, whatever the others do.
BOOST_AUTO_TEST_CASE(ranks_that_have_not_changed_do_not_send_their_plans) {
    job j;
    auto const l = usual();
    std::size_t whole = 0, short_one = 0;
    j.received = [&](int rank, int n, std::vector<cairn::message>& ms) {
        if (rank != 0 || n != 1) return;
        whole = ms.at(0).size();
        short_one = ms.at(2).size();
    };
    j.check(l, 1, false);
    BOOST_TEST(short_one > whole / 2);
    j.caches[0].clear();  // of the coordinator: nothing is offered
    j.check(l, 2, false);
    BOOST_TEST(short_one > whole / 2);
    j.caches[1].clear();
    j.check(l, 3, false);
    BOOST_TEST(short_one < 60u);
}

BOOST_AUTO_TEST_CASE(values_that_differ_between_ranks_are_refused_as_ever) {
    job j;
    auto l = usual();
    j.check(l, 1, false);
    auto const e = j.save_as(
        [&](int rank) {
            auto mine = l;
            if (rank == 2) mine.values["epoch"] = 8;
            return mine;
        },
        2);
    for (auto const& t : e.all) {
        BOOST_REQUIRE(t.is(cairn::errc::invalid_plan));
        auto const text = std::string(t.e->what());
        BOOST_TEST(text.find("epoch") != text.npos, text);
        BOOST_TEST(text.find("rank 2") != text.npos, text);
        BOOST_TEST(text.find("per_rank") != text.npos, text);
    }
    check_stored(j.store, "c", l, 1);
    j.check(l, 3, true);
}

/// A rank that heard no verdict has kept an older plan than the coordinator.
BOOST_AUTO_TEST_CASE(a_rank_that_has_missed_a_save_is_not_taken_at_its_word) {
    constexpr int verdict = 4;
    auto const a = usual();
    std::vector<layout> others;
    others.push_back(usual());  // other ranks swap what the third does not hold
    std::swap(others[0].tensors.at("net.sharded").held[0],
              others[0].tensors.at("net.sharded").held[1]);
    others.push_back(usual());  // the third is to write a replica that others have lost
    others[1].tensors.at("net.replica").held[0].clear();
    others[1].tensors.at("net.replica").held[1].clear();
    others.push_back(usual());  // the third swaps, too
    std::swap(others[2].tensors.at("net.sharded").held[1],
              others[2].tensors.at("net.sharded").held[2]);
    for (std::size_t which = 0; which < others.size(); ++which) {
        auto const& b = others[which];
        for (int missed = 0; missed < 3; ++missed) {
            BOOST_TEST_CONTEXT("layout " << which << ", missed by rank " << missed) {
                job j;
                j.check(a, 1, false);
                j.received = [&](int rank, int n, auto&) {
                    if (rank == missed && n == verdict)
                        throw std::runtime_error("the network is gone");
                };
                (void)j.save(b, 2);
                j.received = [](int, int, auto&) {};
                auto const next = j.save(b, 3);
                BOOST_TEST_REQUIRE(next.ok(), support::words(next.all));
                BOOST_TEST(next.alike().has_value());
                check_stored(j.store, "c", b, 3);
                j.check(b, 4, true);
                j.check(a, 5, false);
            }
        }
    }
}

/// Every operation of a rank's store fails in turn while a kept plan is in use.
BOOST_AUTO_TEST_CASE(a_save_that_fails_leaves_the_earlier_plan) {
    auto const l = usual();
    int failed = 0;
    for (int at = 0; at < 40; ++at) {
        job j;
        j.check(l, 1, false);
        j.fault = {at, support::thrown::runtime_error, at % 2 == 0};
        auto const e = j.save(l, 2);
        failed += !e.ok();
        j.fault = {};
        j.check(l, 3, true);
    }
    BOOST_TEST(failed > 2);
}

BOOST_AUTO_TEST_CASE(plans_that_were_not_committed_are_not_kept) {
    auto const l = usual();
    auto other = usual();
    std::swap(other.tensors.at("net.sharded").held[0], other.tensors.at("net.sharded").held[2]);
    int failed = 0;
    for (int at = 0; at < 12; ++at) {
        job j;
        j.check(l, 1, false);
        j.fault = {at, support::thrown::runtime_error, false};
        bool const ok = j.save(other, 2).ok();
        failed += !ok;
        j.fault = {};
        j.check(l, 3, !ok);
    }
    BOOST_TEST(failed > 2);
}

/// Nobody may be told that its plan is an earlier one if it has not said so.
BOOST_AUTO_TEST_CASE(messages_that_nobody_sends_are_refused) {
    for (int const kind : {0, 3, 4, 255}) {
        cairn::detail::save_plans plans(std::make_shared<cairn::detail::plan_slot>());
        (void)plans.send_local({}, "a key");
        std::vector<std::byte> const answer{static_cast<std::byte>(kind), std::byte{0}};
        BOOST_CHECK_THROW(plans.receive(answer), cairn::error);
    }
    // What a rank says is only that: its plan, or that it is unchanged.
    cairn::default_planner planner;
    cairn::torch_writer writer{cairn::memory_store()};
    cairn::detail::save_planner_ref planner_ref(planner);
    cairn::detail::storage_writer_ref writer_ref(writer);
    for (int const kind : {0, 2, 3, 255}) {
        cairn::detail::save_plans plans(nullptr);
        cairn::detail::outcome told{{}, {static_cast<std::byte>(kind), std::byte{0}}};
        BOOST_CHECK_THROW(plans.join({&told, 1}, planner_ref, writer_ref, {}), cairn::error);
    }
}

BOOST_AUTO_TEST_SUITE_END()
