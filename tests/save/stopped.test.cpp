// SPDX-License-Identifier: Apache-2.0
// A cancelled save or load does not write or read to the end.
#include "background_ranks.hpp"
#include "piecewise_store.hpp"

#include <cairn/async_load.hpp>
#include <cairn/async_save.hpp>
#include <cairn/load.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(stopped)

using namespace background_ranks;

/// Tensors that are written and read in a piece each.
struct four_tensors {
    std::vector<std::vector<float>> data{};
    cairn::state_dict dict{};

    explicit four_tensors(float v) : data(4, std::vector<float>(1 << 16, v)) {
        for (std::size_t i = 0; i < data.size(); ++i) dict["t" + std::to_string(i)] = data[i];
    }
};

BOOST_AUTO_TEST_CASE(a_cancelled_save_writes_no_further_piece) {
    cairn::memory_store base;
    auto const counts = std::make_shared<piecewise_store::seen>();
    four_tensors now(1);
    auto save =
        cairn::async_save(now.dict, "c", piecewise_store(base, counts), asio::use_future).get();
    BOOST_REQUIRE(counts->first.wait_for(1));
    save.cancel();
    counts->first.let_go();
    BOOST_TEST(outcome_of(save) == cancelled);
    BOOST_TEST(counts->pieces == 1);
    BOOST_TEST(base.at("c").list().empty());
}

BOOST_AUTO_TEST_CASE(a_cancelled_load_reads_no_further_piece) {
    cairn::memory_store base;
    four_tensors old(1), now(2);
    (void)cairn::save(old.dict, "c", base);
    auto const counts = std::make_shared<piecewise_store::seen>();
    asio::cancellation_signal stop;
    auto loaded = cairn::async_load(now.dict, "c", piecewise_store(base, counts),
                                    asio::bind_cancellation_slot(stop.slot(), asio::use_future));
    BOOST_REQUIRE(counts->first.wait_for(1));
    stop.emit(asio::cancellation_type::terminal);
    counts->first.let_go();
    BOOST_CHECK_EXCEPTION(loaded.get(), cairn::error, [](const cairn::error& e) {
        return e.code() == make_error_code(cairn::errc::cancelled) && e.state_modified();
    });
    BOOST_TEST(counts->pieces == 1);
    BOOST_TEST(now.data.back().back() == 2.0f);
}

BOOST_AUTO_TEST_SUITE_END()
