// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_FUZZ_TARGETS_HPP
#define CAIRN_TEST_FUZZ_TARGETS_HPP

#include "catalog.hpp"
#include "checkpoint.hpp"
#include "compressed.hpp"
#include "damage.hpp"
#include "edit.hpp"
#include "files.hpp"
#include "formats.hpp"
#include "group.hpp"
#include "items.hpp"
#include "ranks.hpp"
#include "torch_save.hpp"

#include <cstddef>
#include <string_view>

namespace fuzz {

/// What one input may cost in memory: a small multiple of its size, and what an empty one costs.
struct memory_limit {
    std::size_t times = 72;
    std::size_t floor = std::size_t{64} << 10;
    constexpr std::size_t operator()(std::size_t size) const { return times * size + floor; }
};

/// Reads hostile bytes. Only cairn::error may come out of it.
struct target {
    std::string_view name;
    void (*run)(bytes);
    /// Changes an input by what it says; null: only bytes are changed.
    input (*change)(bytes, engine&) = nullptr;
    /// Makes the checksums of changed bytes right; null: there are none, or `run` does it.
    void (*seal)(input&) = nullptr;
    memory_limit memory{};
    unsigned slow = 1;  ///< So many times fewer inputs in a short run.
};
inline constexpr memory_limit large{72, std::size_t{2} << 20};
inline constexpr target targets[] = {
    {"pickle", pickle, change_pickle},
    {"metadata", metadata_pickle, change_metadata_pickle, nullptr, {}, 4},
    {"index", metadata_file, change_metadata_file, seal_metadata_file, {}, 8},
    {"index_body", index_body, change_index_body},
    {"safetensors", safetensors, nullptr, seal_safetensors},
    {"weight_map", weight_map},
    {"record", record, change_record, seal_section},
    {"footer", footer, change_footer, seal_section},
    {"intent", intent, change_intent, seal_end},
    {"notice", notice, change_notice, seal_end},
    {"item", item, change_item, seal_item},
    {"object", object, change_object, seal_item},
    {"torch_save", torch_save, change_item, seal_item, large},
    {"torch_legacy", torch_save, change_opcodes, nullptr, large},
    {"compressed", compressed_item, change_compressed_item, nullptr, large, 4},
    {"plan", plan, change_plan},
    {"results", results, change_results},
    {"load", load, change_load},
    {"frame", frame, change_frame},
    {"group", group, change_group},
    {"hello", hello, change_hello},
    {"outcome", outcome, change_outcome, nullptr, {72, std::size_t{128} << 10}},
    {"report", report, change_report},
    {"checkpoint", checkpoint, edited, nullptr, large, 40},
    {"damage", damaged_checkpoint, change_damage, nullptr, large, 40},
    {"formats", formats, change_formats, seal_formats, large, 100},
    {"catalog", catalog, change_catalog, nullptr, large, 100},
};

}  // namespace fuzz

#endif
