// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_FUZZ_TARGETS_HPP
#define CAIRN_TEST_FUZZ_TARGETS_HPP

#include "edit.hpp"

#include <cairn/comm/tcp/messages.hpp>
#include <cairn/comm/tree/frame_assembler.hpp>
#include <cairn/comm/tree/missing_rank.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/detail/phases.hpp>
#include <cairn/format/native/footer.hpp>
#include <cairn/format/native/index.hpp>
#include <cairn/format/torch/item.hpp>
#include <cairn/load/read_once/shared_items.hpp>
#include <cairn/metadata/check.hpp>
#include <cairn/planner/plan_codec.hpp>

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace fuzz {

using bytes = std::span<const std::byte>;

/// Each target reads hostile bytes. Only cairn::error may come out of it.
inline void pickle(bytes b) {
    auto const t = cairn::format::pickle::reader::read(b);
    (void)cairn::format::pickle::to_value(t)(t.root);
}
inline void metadata(bytes b) {
    auto const m = cairn::format::torch::parse_metadata_pickle(b);
    cairn::check_metadata(m);
}
inline void index(bytes b) {
    (void)cairn::format::native::parse_metadata_file(b);
}
/// The index without the checksums in front of it.
inline void index_body(bytes b) {
    cairn::check_metadata(cairn::format::native::decode_metadata(b));
}
inline void item(bytes b) {
    (void)cairn::format::torch::parse_tensor_item(
        [b](std::uint64_t at, std::span<std::byte> into) {
            if (at > b.size() || into.size() > b.size() - at)
                cairn::format::zip::malformed("an offset beyond its end");
            if (!into.empty()) std::memcpy(into.data(), b.data() + at, into.size());
        },
        b.size());
}
inline void object(bytes b) {
    (void)cairn::format::torch::decode_value(b);
}
inline void footer(bytes b) {
    if (b.size() >= cairn::format::native::footer_tail_bytes)
        (void)cairn::format::native::footer_length(
            b.last(cairn::format::native::footer_tail_bytes));
    (void)cairn::format::native::decode_footer(b);
}
inline void plan(bytes b) {
    (void)cairn::decode_save_plan(b);
}

/// What a rank is to read, as the coordinator sends it.
inline void load(bytes b) {
    cairn::detail::wire_reader r(b);
    auto const plan = cairn::decode_load_plan(r.bytes());
    (void)cairn::detail::get_shared(r, plan, 4);
}

/// What other processes send: frames of the groups, greetings, failures.
inline void frame(bytes b) {
    (void)cairn::detail::decode_frame(b);
}
inline void hello(bytes b) {
    auto const head = cairn::detail::handshake_head_bytes;
    if (b.size() <= head) return;
    (void)cairn::detail::decode_handshake_head(b.first(head));
    cairn::detail::wire_reader body(b.subspan(head));
    auto const kind = static_cast<cairn::detail::handshake_kind>(body.u8());
    if (kind == cairn::detail::handshake_kind::join) (void)cairn::detail::decode_join(body);
    if (kind == cairn::detail::handshake_kind::answer) (void)cairn::detail::decode_answer(body);
}
inline void outcome(bytes b) {
    std::vector<cairn::detail::outcome> all;
    all.push_back(cairn::detail::decode_outcome(b));
    (void)cairn::detail::collect_failures(all);
    (void)cairn::detail::phase_table::decode(b);
    (void)cairn::detail::decode_missing(b);
}

/// What one input may cost in memory: a small multiple of its size, and what an empty one costs.
struct memory_limit {
    std::size_t times = 72;
    std::size_t floor = std::size_t{64} << 10;
    constexpr std::size_t operator()(std::size_t size) const { return times * size + floor; }
};

struct target {
    std::string_view name;
    void (*run)(bytes);
    memory_limit memory{};
    /// Changes an input by what it says; null: only bytes are changed.
    std::vector<std::byte> (*change)(bytes, engine&) = nullptr;
    unsigned slow = 1;  ///< So many times fewer inputs in a short run.
};
inline constexpr target targets[] = {
    {"pickle", pickle},
    {"metadata", metadata},
    {"index", index},
    {"index_body", index_body},
    {"item", item},
    {"object", object},
    {"footer", footer},
    {"plan", plan},
    {"load", load},
    {"frame", frame},
    {"hello", hello},
    {"outcome", outcome, {72, std::size_t{128} << 10}},
    {"checkpoint", checkpoint, {64, std::size_t{2} << 20}, edited, 10},
};

}  // namespace fuzz

#endif
