// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_CRASH_RECORDING_HPP
#define CAIRN_TEST_CRASH_RECORDING_HPP

#include "checkpoints.hpp"
#include "disk.hpp"
#include "operation.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace crash {

/// What one or more jobs did to a disk.
struct recording {
    image beginning{};
    operations all{};
    history checkpoints{};
    disk end{};  ///< After all of it, with what is still open.

    /// The recorded calls in an order that is the same for all orders in which calls that commute
    /// can be made; ids are numbered.
    std::string normal_form() const;
};

/// A job that saves in `place`. Its hosts are numbered from `first_host`.
struct saving {
    int ranks = 2;
    int version = 2;
    int first_host = 0;
    bool names_of_its_own = false;  ///< In a subdirectory.
    int columns = 4;                ///< Numbers that each rank has.
    bool direct = false;            ///< Data past the page cache, one block at a time.
};

/// One host that crashes in a job, on its way.
struct node_crash {
    int host = 0;
    int call = 0;         ///< Before its so-manieth call that changes something, from 0.
    std::size_t way = 0;  ///< 0: it keeps none of what is not synced; 1: all; otherwise a seed.
    bool happened = false;
};

/// What a job's ranks were told.
struct outcome {
    bool any_well = false;    ///< The checkpoint was promised to a rank.
    bool any_failed = false;  ///< A rank was told that there is none.
    std::string text{};
};

/// Runs jobs at the same time on a file store, in an order that the seed decides, and records them.
/// @param start    What is there before, durably.
/// @param crashes  May be null.
/// @throws wrong if one of them fails, and no node crashes
recording record(const image& start, const std::vector<saving>& jobs, std::uint64_t seed,
                 node_crash* crashes = nullptr, std::vector<outcome>* outcomes = nullptr);

/// The same in a directory of the caller's, and calls `after_each` after each call.
recording record_at(const std::filesystem::path& root, const std::vector<saving>& jobs,
                    std::uint64_t seed, const std::function<void()>& after_each);

/// Records a job that is killed before one of its calls, counted from 0, and the job that follows
/// it: what the first has not synced is not durable when the second begins.
/// @param happened  Whether there was such a call.
recording record_after_kill(const image& start, const saving& killed, int call, const saving& next,
                            std::uint64_t seed, bool& happened);

/// Saves in what is below `root`. @throws wrong
void save_below(const std::string& root, const saving& job, std::uint64_t seed);

/// A complete checkpoint of that version.
image saved(const saving& job);
}  // namespace crash

#endif
