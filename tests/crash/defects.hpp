// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_CRASH_DEFECTS_HPP
#define CAIRN_TEST_CRASH_DEFECTS_HPP

#include "recording.hpp"

#include <functional>
#include <string>
#include <vector>

namespace crash {

/// A mistake in the order of a save's calls, made in its recording.
struct defect {
    std::string name;
    std::string scenario;
    std::function<void(operations&)> make;

    /// Mistakes that an enumeration must find.
    static std::vector<defect> all();
};

/// The calls of the ranks between the intent and the metadata, in an order in which as much as
/// possible is not synced. They commute but for that.
/// @param seed  0: all writes before all syncs; otherwise any order.
operations reordered(const operations& all, std::uint64_t seed);

}  // namespace crash

#endif
