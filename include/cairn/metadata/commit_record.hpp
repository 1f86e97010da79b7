// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_COMMIT_RECORD_HPP
#define CAIRN_METADATA_COMMIT_RECORD_HPP

#include <cairn/detail/cxx20.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace cairn {

/// How a checkpoint was committed relative to the others in its directory or store. A
/// `checkpointer` stores it with the checkpoint.
struct commit_record {
    /// One more than that of any checkpoint that was there when the coordinator began to write it.
    /// Unlike steps and times, it never decreases from save to save of a run.
    std::uint64_t sequence = 0;
    /// When the sequence was determined: milliseconds since 1970, by the coordinator's clock.
    std::int64_t committed = 0;
    std::int64_t step = 0;
    std::map<std::string, double, std::less<>> metrics{};  ///< As passed to `maybe_save`.
    std::string save_id{};                                 ///< Of the save: 32 hex digits.
    friend bool operator==(const commit_record&, const commit_record&) = default;
};

}  // namespace cairn

#endif
