// SPDX-License-Identifier: Apache-2.0
// Every operation of a store fails in turn, before and after its effect, with whatever a store may
// throw: what stands afterwards is one whole checkpoint, and every rank says so truthfully.
#include "support/fault_store.hpp"
#include "support/forwarding_store.hpp"
#include "support/sanitized.hpp"
#include "support/saved_by_ranks.hpp"

#include <cairn/catalog/whole.hpp>
#include <cairn/load_tree.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/state/detail/copy_leaf.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(faults)

namespace {

using support::fault;
using support::verb;
using faulty_store = support::fault_store<cairn::memory_store>;

constexpr int stride_of_operations = support::stride_if_sanitized(17);
constexpr float before = 1, saved = 2, later = 3;

void save(cairn::memory_store base, float v, int ranks) {
    auto const all = support::save_on_ranks(v, ranks, [&](int) { return base; });
    BOOST_REQUIRE(all[0].ok());
}

/// Calls `once(fault)` for each operation, kind of exception, before and after the effect, until it
/// returns that there was no such operation; sampled under sanitizers. @return how many failed.
int each_fault(const std::function<bool(const fault&)>& once) {
    support::failure_points operations(stride_of_operations);
    int tried = 0;
    for (bool afterwards : {false, true}) {
        for (auto const what : support::all_thrown) {
            for (int at = operations.first(); once({at, what, afterwards});
                 at += operations.stride())
                ++tried;
        }
    }
    return tried;
}

/// @param old  What stands there before; 0: nothing.
int fail_saves(int ranks, int faulty, float old, verb how) {
    return each_fault([&](const fault& f) {
        cairn::memory_store base;
        if (old != 0) save(base, old, ranks);
        faulty_store const bad(base, f), good(base, fault{});
        auto const all = support::save_on_ranks(
            saved, ranks, [&](int rank) { return rank == faulty ? bad : good; }, how);
        if (bad.hit().empty()) {
            for (auto const& t : all) BOOST_TEST(t.ok(), support::words(all));
            return false;
        }
        BOOST_TEST_CONTEXT("rank " << faulty << " of " << ranks << ", "
                                   << (how == verb::blocking ? "save" : "async_save") << ", "
                                   << support::words(f, bad.hit()) << support::words(all)) {
            support::check_save(base, all, old, saved, ranks);
            support::check_next_save(base, later, ranks);
        }
        return true;
    });
}

/// What one rank does that only reads; returns whether it got what was saved.
using reading = std::function<bool(cairn::thread_group::member&, int rank, faulty_store)>;

int fail_reads(int ranks, int faulty, const reading& read) {
    cairn::memory_store base;
    save(base, before, ranks);
    faulty_store const good(base, fault{});
    return each_fault([&](const fault& f) {
        faulty_store const bad(base, f);
        std::atomic<bool> whole{true};
        auto const all = support::on_ranks_that_stay(ranks, [&](auto& me, int rank) {
            if (!read(me, rank, rank == faulty ? bad : good)) whole = false;
        });
        BOOST_TEST_CONTEXT("rank " << faulty << " of " << ranks << ", "
                                   << support::words(f, bad.hit()) << support::words(all)) {
            BOOST_TEST(whole);
            for (auto const& t : all) {
                BOOST_TEST(!t.raw);
                BOOST_TEST(!t.is(cairn::errc::timed_out));
                BOOST_TEST(t.ok() == all[0].ok());
            }
            if (bad.hit().empty()) BOOST_TEST(all[0].ok());
        }
        return !bad.hit().empty();
    });
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_operation_of_a_save_by_one_process_may_fail) {
    int tried = 0;
    for (auto const how : {verb::blocking, verb::background})
        tried += fail_saves(1, 0, before, how) + fail_saves(1, 0, 0, how);
    std::cout << "faults: " << tried << " operations of a store, in saves of one process\n";
    BOOST_TEST(tried > 200 / stride_of_operations);
}

BOOST_AUTO_TEST_CASE(each_operation_of_a_save_by_three_ranks_may_fail) {
    int tried = 0;
    for (auto const how : {verb::blocking, verb::background}) {
        for (int faulty : {0, 2}) tried += fail_saves(3, faulty, before, how);
        tried += fail_saves(3, 0, 0, how);
    }
    std::cout << "faults: " << tried << " operations of a store, in saves of three ranks\n";
    BOOST_TEST(tried > 400 / stride_of_operations);
}

BOOST_AUTO_TEST_CASE(each_operation_of_a_load_may_fail) {
    int tried = 0;
    for (int ranks : {1, 3}) {
        auto const load = [&](auto& me, int rank, faulty_store store) {
            support::rank_state s(0, rank, ranks);
            (void)cairn::load(s.dict, "c", support::patient_load(), me, store);
            return s.is(before);
        };
        auto const load_tree = [&](auto& me, int, faulty_store store) {
            auto const all = cairn::load_tree("c", {}, support::patient_load(), me, store);
            support::rank_state s(before, 0, 1);
            return cairn::detail::same_content(all.at("bias").as_tensor(),
                                               s.dict.at("bias").as_tensor());
        };
        for (int faulty : {0, ranks - 1}) {
            tried += fail_reads(ranks, faulty, load);
            tried += fail_reads(ranks, faulty, load_tree);
        }
    }
    std::cout << "faults: " << tried << " operations of a store, in loads\n";
    BOOST_TEST(tried > 100 / stride_of_operations);
}

/// Storage that fails is not a checkpoint that is damaged.
BOOST_AUTO_TEST_CASE(an_operation_of_a_verification_that_fails_is_no_damage) {
    cairn::memory_store base;
    save(base, before, 1);
    cairn::any_store place(base.at("c"));
    auto const meta = cairn::detail::read_checked_metadata(place);
    int const tried = each_fault([&](const fault& f) {
        faulty_store const bad(base.at("c"), f);
        auto const problem =
            cairn::detail::problem_of(cairn::any_store(bad), meta, cairn::verify_level::full, {});
        BOOST_TEST_CONTEXT(support::words(f, bad.hit()) << ": " << problem.text) {
            BOOST_TEST(bool(problem) == !bad.hit().empty());
            BOOST_TEST(!problem.damaged);
        }
        return !bad.hit().empty();
    });
    std::cout << "faults: " << tried << " operations of a store, in verifications\n";
    BOOST_TEST(tried > 20 / stride_of_operations);
}

namespace {

/// A place that for a while neither syncs nor removes anything.
class stuck_store : public support::forwarding_store<cairn::memory_store> {
public:
    stuck_store(cairn::memory_store s, bool stuck)
        : forwarding_store(std::move(s)), stuck_(stuck) {}
    stuck_store at(const std::string& id) const { return {store_.at(id), stuck_}; }
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    void remove(std::string_view n) {
        check("remove");
        store_.remove(n);
    }
    void sync() {
        check("sync");
        store_.sync();
    }

private:
    void check(const std::string& into) const {
        if (stuck_) support::throw_it(support::thrown::cairn_error, into);
    }
    bool stuck_;
};

}  // namespace

/// A save fails, and what it has written cannot be removed either: it is not forgotten.
BOOST_AUTO_TEST_CASE(files_that_cannot_be_removed_are_removed_later) {
    for (int stuck : {0, 1}) {
        cairn::memory_store const base;
        auto const all = support::save_on_ranks(
            saved, 2, [&](int rank) { return stuck_store(base, rank == stuck); });
        for (auto const& t : all) BOOST_TEST(t.is(cairn::errc::io), support::words(all));
        support::check_next_save(base, later, 2);
    }
}

BOOST_AUTO_TEST_SUITE_END()
