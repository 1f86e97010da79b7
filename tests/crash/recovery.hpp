// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_CRASH_RECOVERY_HPP
#define CAIRN_TEST_CRASH_RECOVERY_HPP

#include "checkpoints.hpp"
#include "disk.hpp"
#include "recording.hpp"

#include <string>

namespace crash {

/// What a later save can tell of a state: equal texts lead to equal recoveries, because it reads
/// nothing else of files that no standing metadata names.
std::string recovery_key(const image& left, const history& h, int standing);

/// The same after so many seconds, on a machine that was started again: as an intent's owner is
/// known by then.
image later(image i, long seconds);

/// Loads what stands, and saves there when the crash was an hour ago.
/// @throws wrong
void require_usable(const image& left, const history& h, int standing);

/// Saves there when leftovers may be collected.
/// @return What it did.
/// @throws wrong if anything is left but the new checkpoint
recording collect(const image& left);

}  // namespace crash

#endif
