// SPDX-License-Identifier: Apache-2.0
// Steps of `gpt2 async`.
#ifndef CAIRN_BENCHMARKS_GPT2_BACKGROUND_HPP
#define CAIRN_BENCHMARKS_GPT2_BACKGROUND_HPP

#include "arguments.hpp"
#include "figures.hpp"
#include "foreground.hpp"
#include "groups.hpp"
#include "process.hpp"
#include "state.hpp"

#include <cairn/async_save.hpp>
#include <cairn/cairn.hpp>
#include <cairn/memory/arena.hpp>
#include <cairn/memory/frozen_tensors.hpp>

#include <boost/asio/use_future.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <string>
#include <utility>
#include <vector>

namespace gpt2 {

/// What `async` keeps from step to step.
struct background {
    explicit background(std::uint64_t budget) : arena({.budget = budget}) {}

    cairn::staging_arena arena;
    std::vector<std::byte> copied{};  ///< Where memcpy copies to.
    foreground training{};
};

/// Starts a save. The result is ready once the tensors may change: the save that continues, empty
/// if none does. A further way to stage is a branch here and a word in `ways_to_stage`.
template <class Comm>
std::future<cairn::pending_save> start_step(state& s, const arguments& a, const std::string& id,
                                            Comm& ranks, background& b) {
    using boost::asio::use_future;
    cairn::save_options o;
    o.exchange_timeout = a.exchange_timeout();
    o.storage.sync_files = a.sync;
    if (a.polite) o.storage.polite.nice = 19;

    if (a.stage == "blocking") {
        cairn::save(s, id, o, ranks);
        std::promise<cairn::pending_save> none;
        none.set_value({});
        return none.get_future();
    }
    if (a.stage == "fresh") return cairn::async_save(s, id, o, ranks, use_future);
    if (a.stage == "frozen")
        return cairn::async_save(s, id, o, ranks, cairn::frozen_tensors(), use_future);
    return cairn::async_save(s, id, o, ranks, b.arena, use_future);
}

/// Saves, waits for the end, and measures one memcpy of the same bytes.
template <class Comm>
void async_step(state& s, const arguments& a, std::size_t step, Comm& ranks, background& b,
                result& mine) {
    auto const add = [&](result::column c, double x) { mine.steps[c].push_back(x); };
    auto const faults = usage().ru_minflt;
    auto const start = std::chrono::steady_clock::now();
    auto staged = start_step(s, a, a.dir + (step % 2 == 0 ? "/s0" : "/s1"), ranks, b);
    auto const started = seconds_since(start);
    std::vector<double> beside, alone;
    // One step's gradients are computed during the copies; then the remaining copies are waited
    // for.
    if (a.overlap) beside.push_back(b.training.step());
    auto const waiting = std::chrono::steady_clock::now();
    auto pending = staged.get();
    add(result::stalls, started + seconds_since(waiting));
    add(result::faults, static_cast<double>(usage().ru_minflt - faults));
    if (pending) {
        while (a.foreground && !pending.ready()) beside.push_back(b.training.step());
        (void)pending.wait();
    }
    add(result::times, seconds_since(start));
    wait_for_all(ranks);
    for (std::size_t k = 0; k < beside.size(); ++k) alone.push_back(b.training.step());
    add(result::alone_median, quantile(alone, 0.5));
    add(result::alone_p99, quantile(alone, 0.99));
    add(result::beside_median, quantile(beside, 0.5));
    add(result::beside_p99, quantile(beside, 0.99));
    add(result::residents, resident_mb());
    add(result::peaks, peak_mb());
    add(result::requests, 0);
    if (a.budget == cairn::arena_options::no_limit) b.copied.resize(s.bytes());
    wait_for_all(ranks);
    auto const copying = std::chrono::steady_clock::now();
    if (!b.copied.empty()) s.copy_to(b.copied.data());
    add(result::memcpys, seconds_since(copying));
}

}  // namespace gpt2

#endif
