// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_OPTIONS_HPP
#define CAIRN_LOAD_OPTIONS_HPP

#include <cairn/planner/default_planner.hpp>
#include <cairn/storage/torch_options.hpp>

#include <chrono>

namespace cairn {

/// What `load` and `async_load` can be told besides their parts.
struct load_options {
    /// How long to wait for ranks that do not get on: in each exchange, from its start or from when
    /// a rank that is missing was last seen to work (it plans, or its bytes move). 0: for ever; a
    /// rank that dies or falls silent is noticed all the same where ranks are processes.
    std::chrono::milliseconds deadline = std::chrono::minutes(10);
    /// The rank that reads the metadata for all. The same on every rank.
    int coordinator = 0;
    torch_reader_options storage{};  ///< For the default reader; a reader of your own has its own.
    planner_options planner{};       ///< For the default planner: strict, partial, dtypes, names.
};

}  // namespace cairn

#endif
