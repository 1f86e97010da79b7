// SPDX-License-Identifier: Apache-2.0
// A copy for which an arena has no room: the rest is written from the tensors.
#include "archetype/releasing_writer.hpp"
#include "archetype/storage_reader.hpp"
#include "background_ranks.hpp"
#include "piecewise_store.hpp"
#include "support/fault_store.hpp"

#include <cairn/async_save.hpp>
#include <cairn/load.hpp>
#include <cairn/memory/arena.hpp>
#include <cairn/save.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(budget)

using namespace background_ranks;

constexpr std::size_t tensor_bytes = std::size_t{1} << 18;

/// Four tensors of a quarter of a mebibyte; the third is saved under two names.
struct four_tensors {
    std::vector<std::vector<float>> data{};
    cairn::state_dict dict{};

    explicit four_tensors(float v) : data(4, std::vector<float>(tensor_bytes / 4, v)) {
        for (std::size_t i = 0; i < 4; ++i) dict["t" + std::to_string(i)] = data[i];
        dict["u_as_t2"] = data[2];
    }
    void set(float v) {
        for (auto& d : data) std::fill(d.begin(), d.end(), v);
    }
    bool is(float v) const {
        return std::all_of(data.begin(), data.end(), [&](auto const& d) {
            return std::all_of(d.begin(), d.end(), [&](float x) { return x == v; });
        });
    }
};
bool ready(const std::future<cairn::pending_save>& f) {
    return f.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

/// There is room for two tensors: the save is staged when the two others are written, and only then
/// may they change.
BOOST_AUTO_TEST_CASE(what_has_no_room_is_written_first) {
    cairn::memory_store base;
    auto const counts = std::make_shared<piecewise_store::seen>();
    counts->first.let_go();
    counts->at_large = 1;  // the second tensor
    four_tensors state(1);
    cairn::staging_arena arena({.budget = 2 * tensor_bytes, .slab_bytes = 2 * tensor_bytes});
    auto staged =
        cairn::async_save(state.dict, "c", piecewise_store(base, counts), arena, asio::use_future);
    BOOST_REQUIRE(counts->large.wait_for(1));
    BOOST_TEST(!ready(staged));
    BOOST_TEST(arena.stats().bytes_in_use == 2 * tensor_bytes);
    counts->large.let_go();
    auto save = staged.get();
    state.set(2);
    (void)save.wait();
    BOOST_TEST(arena.stats().peak_mapped <= 2 * tensor_bytes);
    BOOST_TEST(arena.stats().bytes_in_use == 0u);
    four_tensors loaded(0);
    (void)cairn::load(loaded.dict, "c", base);
    BOOST_TEST(loaded.is(1));
}

/// Staged comes when the last tensor that was not copied is released, not when all is written.
BOOST_AUTO_TEST_CASE(staged_does_not_wait_for_what_is_copied) {
    cairn::memory_store base;
    auto const counts = std::make_shared<piecewise_store::seen>();
    counts->first.let_go();
    counts->at_large = 3;  // the last tensor
    four_tensors state(1);
    cairn::staging_arena arena({.budget = 2 * tensor_bytes, .slab_bytes = 2 * tensor_bytes});
    auto staged =
        cairn::async_save(state.dict, "c", piecewise_store(base, counts), arena, asio::use_future);
    auto save = staged.get();  // although the last one stands at its gate
    state.set(2);
    BOOST_REQUIRE(counts->large.wait_for(1));
    counts->large.let_go();
    (void)save.wait();
    four_tensors loaded(0);
    (void)cairn::load(loaded.dict, "c", base);
    BOOST_TEST(loaded.is(1));
}

/// Without any room, and with a writer that does not say what it has finished with, the save is
/// staged when everything is written.
BOOST_AUTO_TEST_CASE(without_room_the_copy_is_left_out) {
    auto const none = [] { return cairn::staging_arena({.budget = 4096, .slab_bytes = 4096}); };
    auto const round_trip = [&](auto writer, auto reader) {
        four_tensors state(1);
        auto arena = none();
        auto save =
            cairn::async_save(state.dict, "c", std::move(writer), arena, asio::use_future).get();
        state.set(2);
        (void)save.wait();
        four_tensors loaded(0);
        (void)cairn::load(loaded.dict, "c", std::move(reader));
        BOOST_TEST(loaded.is(1));
    };
    auto const shelf = std::make_shared<cairn::archetype::shelf>();
    round_trip(cairn::archetype::storage_writer(shelf), cairn::archetype::storage_reader(shelf));
    round_trip(cairn::archetype::releasing_writer(shelf), cairn::archetype::storage_reader(shelf));
    cairn::memory_store base;
    round_trip(cairn::torch_writer(base), base);
}

/// A handler whose save is cancelled is told when the tensors are free, not before.
BOOST_AUTO_TEST_CASE(a_cancelled_save_frees_the_tensors_first) {
    cairn::memory_store base;
    auto const counts = std::make_shared<piecewise_store::seen>();
    counts->first.let_go();
    counts->at_large = 0;
    four_tensors state(1);
    cairn::staging_arena arena({.budget = tensor_bytes, .slab_bytes = tensor_bytes});
    asio::cancellation_signal stop;
    auto staged = cairn::async_save(state.dict, "c", piecewise_store(base, counts), arena,
                                    asio::bind_cancellation_slot(stop.slot(), asio::use_future));
    BOOST_REQUIRE(counts->large.wait_for(1));
    stop.emit(asio::cancellation_type::terminal);
    BOOST_TEST((staged.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout));
    counts->large.let_go();
    BOOST_CHECK_EXCEPTION((void)staged.get(), cairn::error, [](const cairn::error& e) {
        return e.code() == make_error_code(cairn::errc::cancelled) && e.context().rank == 0;
    });
    BOOST_TEST(counts->large_pieces == 1);
    auto again = cairn::async_save(state.dict, "c", base, arena, asio::use_future).get();
    BOOST_TEST(outcome_of(again) == "none");
    BOOST_TEST(base.at("c").list().size() == 2u);  // its file and the metadata, nothing older
}

/// Between `room` and `take` another save may be faster, or no slab may fit.
BOOST_AUTO_TEST_CASE(room_that_is_gone_is_no_error) {
    struct crowded : cairn::staging_arena {
        lease take(std::size_t bytes) {
            throw cairn::error(cairn::errc::invalid_argument,
                               {.expected = std::to_string(bytes) + " bytes", .found = "none"});
        }
    };
    static_assert(cairn::Stager<crowded>);
    crowded arena;
    BOOST_TEST(arena.room() > 4 * tensor_bytes);
    cairn::memory_store base;
    auto const g = std::make_shared<gate>();
    four_tensors state(1);
    auto staged = cairn::async_save(state.dict, "c", gated_store(base, g), arena, asio::use_future);
    BOOST_REQUIRE(g->wait_for(1));
    BOOST_TEST(!ready(staged));  // the tensors are what is written
    g->let_go();
    auto save = staged.get();
    state.set(2);
    BOOST_TEST(outcome_of(save) == "none");
    four_tensors loaded(0);
    (void)cairn::load(loaded.dict, "c", base);
    BOOST_TEST(loaded.is(1));
}

/// Each call of the store fails in turn, before it takes effect and after: the arena gets its
/// memory back, and the next save works.
BOOST_AUTO_TEST_CASE(failures_give_the_memory_back) {
    for (bool const afterwards : {false, true}) {
        int at = 0;
        for (bool hit = true; hit && at < 100; ++at) {
            cairn::memory_store base;
            four_tensors state(1);
            cairn::staging_arena arena({.budget = tensor_bytes, .slab_bytes = tensor_bytes});
            support::fault_store faulty(base, {.at = at, .afterwards = afterwards});
            try {
                auto save =
                    cairn::async_save(state.dict, "c", faulty, arena, asio::use_future).get();
                state.set(2);
                (void)save.wait();
            } catch (const cairn::error&) {
            }
            hit = !faulty.hit().empty();
            BOOST_TEST(arena.stats().bytes_in_use == 0u);
            state.set(3);
            auto again = cairn::async_save(state.dict, "c", base, arena, asio::use_future).get();
            state.set(4);
            BOOST_TEST(outcome_of(again) == "none");
            (void)cairn::load(state.dict, "c", base);
            BOOST_TEST(state.is(3));
        }
        BOOST_TEST(at > 5);
        BOOST_TEST(at < 100);
    }
}

BOOST_AUTO_TEST_SUITE_END()
