// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CHECKPOINTER_IMPL_PLAN_IPP
#define CAIRN_CHECKPOINTER_IMPL_PLAN_IPP

#include <cairn/checkpointer/plan.hpp>

#include <cairn/detail/fold_failures.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/error.hpp>
#include <cairn/memory/detail/arena_core.hpp>
#include <cairn/object_store/detail/removed_space.hpp>
#include <cairn/planner/default_planner.hpp>
#include <cairn/planner/plan_codec.hpp>

#include <boost/system/errc.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace cairn {

CAIRN_DECL std::string to_string(const checkpoint_plan& p) {
    std::string s;
    for (std::size_t r = 0; r < p.ranks.size(); ++r) {
        auto const& n = p.ranks[r];
        s += "rank " + std::to_string(r) + ": " + std::to_string(n.items) + " items, " +
             std::to_string(n.bytes) + " bytes, " + std::to_string(n.staging_bytes) +
             " bytes of staging memory\n";
    }
    s += "all: " + std::to_string(p.bytes) + " bytes";
    if (p.free_bytes) s += ", " + std::to_string(*p.free_bytes) + " bytes free";
    return s + "\n";
}

namespace detail {

inline void put_optional(wire_writer& w, const std::optional<std::uint64_t>& v) {
    w.u8(v ? 1 : 0);
    w.varint(v.value_or(0));
}
inline std::optional<std::uint64_t> get_optional(wire_reader& r) {
    bool const there = r.u8() != 0;
    auto const v = r.varint();
    return there ? std::optional(v) : std::nullopt;
}

/// Returns the bytes that are free there; empty if the system does not tell.
inline std::optional<std::uint64_t> free_bytes_at(std::filesystem::path at) {
    removed_space::of_process().wait();
    std::error_code e;
    at = std::filesystem::absolute(at, e);
    while (!e && !std::filesystem::exists(at, e) && at != at.parent_path()) at = at.parent_path();
    auto const space = std::filesystem::space(at, e);
    return e ? std::nullopt : std::optional<std::uint64_t>(space.available);
}

CAIRN_DECL std::vector<std::byte> encode_needs(const flattened_or_error& state,
                                               const planner_options& options, int rank,
                                               bool coordinator, const arena_options& arena,
                                               const std::optional<std::string>& where,
                                               const std::string& disk) {
    if (state.refused) std::rethrow_exception(state.refused);
    default_planner planner(options);
    planner.set_up_save(state.leaves(), rank, coordinator);
    wire_writer w;
    w.varint(arena.budget);
    w.varint(arena.slab_bytes);
    put_optional(w, where ? free_bytes_at(*where) : std::nullopt);
    w.string(where.value_or(std::string()));
    w.string(disk);
    w.raw(encode_save_plan(planner.create_local_save_plan()));
    return w.take();
}
CAIRN_DECL needs_report decode_needs(std::span<const std::byte> b) {
    wire_reader r(b);
    needs_report n;
    n.budget = r.varint();
    n.slab_bytes = r.varint();
    n.free_bytes = get_optional(r);
    n.directory = r.string();
    n.disk = r.string();
    auto const plan = r.raw(r.left());
    n.plan.assign(plan.begin(), plan.end());
    return n;
}

CAIRN_DECL std::vector<std::byte> encode(const checkpoint_plan& p) {
    wire_writer w;
    w.varint(p.ranks.size());
    for (auto const& n : p.ranks) {
        w.varint(n.bytes);
        w.varint(n.staging_bytes);
        w.varint(n.items);
    }
    w.varint(p.bytes);
    put_optional(w, p.free_bytes);
    return w.take();
}
CAIRN_DECL checkpoint_plan decode_checkpoint_plan(std::span<const std::byte> b) {
    wire_reader r(b);
    checkpoint_plan p;
    for (auto n = r.count(3); n-- > 0;) {
        auto& one = p.ranks.emplace_back();
        one.bytes = r.varint();
        one.staging_bytes = r.varint();
        one.items = r.varint();
    }
    p.bytes = r.varint();
    p.free_bytes = get_optional(r);
    return p;
}

/// As `snapshot` lays out the copy: memory that items share is copied once.
inline rank_needs needs_of(const save_plan& plan) {
    constexpr std::uint64_t alignment = 64;
    rank_needs n;
    n.items = plan.items.size();
    for (auto const& item : plan.items) {
        if (!item.tied_to.empty()) continue;
        n.bytes += item.content_bytes();
        if (item.kind != item_kind::value)
            n.staging_bytes += (item.content_bytes() + alignment - 1) / alignment * alignment;
    }
    return n;
}

CAIRN_DECL checkpoint_plan join_needs(std::span<const needs_report> all,
                                      const planner_options& options) {
    std::vector<save_plan> plans;
    checkpoint_plan p;
    for (auto const& n : all) {
        plans.push_back(decode_save_plan(n.plan));
        if (n.free_bytes) p.free_bytes = std::min(*n.free_bytes, p.free_bytes.value_or(UINT64_MAX));
    }
    for (auto const& plan :
         default_planner(options).create_global_save_plan(std::move(plans)).first)
        p.bytes += p.ranks.emplace_back(needs_of(plan)).bytes;
    std::map<std::string_view, std::uint64_t> wanted;  // on each disk
    for (std::size_t r = 0; r < all.size() && r < p.ranks.size(); ++r)
        wanted[all[r].disk] += p.ranks[r].bytes;
    failure_folder refused;
    for (std::size_t r = 0; r < all.size() && r < p.ranks.size(); ++r) {
        auto const rank = static_cast<int>(r);
        auto& staged = p.ranks[r].staging_bytes;
        staged = arena_core::mapped_for(
            staged,
            {.budget = all[r].budget, .slab_bytes = static_cast<std::size_t>(all[r].slab_bytes)});
        auto const bytes = wanted[all[r].disk];
        if (all[r].free_bytes && bytes > *all[r].free_bytes)
            refused.add(
                error(make_error_code(boost::system::errc::no_space_on_device),
                      {.rank = rank,
                       .file = all[r].directory,
                       .expected = "room for " + std::to_string(bytes) + " bytes of all ranks" +
                                   (all[r].disk.empty() ? "" : " on host '" + all[r].disk + "'"),
                       .found = std::to_string(*all[r].free_bytes) + " bytes free",
                       .remedy = "free space, or save elsewhere"})
                    .as_failure(rank));
    }
    if (auto failures = refused.take(); !failures.empty()) throw error(std::move(failures), false);
    return p;
}

}  // namespace detail
}  // namespace cairn

#endif
