// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_FILE_LAYOUT_HPP
#define CAIRN_STORAGE_DETAIL_FILE_LAYOUT_HPP

#include <cairn/format/native/footer.hpp>
#include <cairn/format/torch/item.hpp>
#include <cairn/format/torch/tensor_items.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/storage/torch_options.hpp>
#include <cairn/tensor/layout.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::detail {

/// One item of a plan in a file.
struct placed_item {
    std::uint32_t item = 0;  ///< Position in the plan.
    /// Set for tensors. The bytes around the payload are generated when it is written: padding
    /// alone would take kilobytes for each item of a plan.
    std::optional<format::torch::tensor_spec> tensor{};
    std::vector<std::byte> value{};  ///< The whole item, for values.
    bool compressed = false;         ///< Set by `item_compressor::lay_out`.
};

/// One data file: its items in order, then a footer.
struct placed_file {
    std::string name{};
    std::vector<placed_item> items{};
    format::native::file_footer footer{};  ///< Where these items are. Checksums of zero until then.
    std::uint64_t size = 0;                ///< Of the whole file.
};

/// Returns, for each item of a plan, the index of the item that it is stored as: its own, except
/// for a tied weight, which is stored once.
inline std::vector<std::uint32_t> stored_as(const save_plan& plan) {
    std::vector<std::uint32_t> out(plan.items.size());
    std::map<std::string_view, std::vector<std::size_t>> by_name;
    for (std::uint32_t i = 0; i < out.size(); ++i) {
        auto const& item = plan.items[i];
        out[i] = i;
        if (item.kind == item_kind::value) continue;
        auto const it = item.tied_to.empty() ? by_name.end() : by_name.find(item.tied_to);
        if (it != by_name.end()) {
            for (auto first : it->second)
                if (plan.items[first].region == item.region && plan.items[first].type == item.type)
                    out[i] = static_cast<std::uint32_t>(first);
        }
        if (out[i] == i) by_name[item.fqn].push_back(i);
    }
    return out;
}

/// Assigns the items of a plan to files. DCP's `_split_by_size_and_type`: values round robin,
/// tensors by size, the largest first, to the least loaded file. In a file small tensors are first,
/// by size, so that a reader of many, as of counters that each parameter has, takes them together:
/// the order of DCP's `_OverlappingCpuLoader`, which has all by size. Values are last, so that
/// tensor offsets do not change between saves when values change length.
/// @param place  See `stored_as`.
/// @param count  Of files, with `single_file_per_rank`: at least 1. See `file_count`.
inline std::vector<std::vector<std::uint32_t>> split_into_files(
    const save_plan& plan, std::span<const std::uint32_t> place, const torch_writer_options& o,
    std::size_t count) {
    auto const n = static_cast<std::uint32_t>(plan.items.size());
    std::vector<std::vector<std::uint32_t>> files;
    if (!o.single_file_per_rank) {
        for (std::uint32_t i = 0; i < n; ++i)
            if (place[i] == i) files.push_back({i});
        return files;
    }
    files.resize(count);
    std::vector<std::uint32_t> tensors, values;
    for (std::uint32_t i = 0; i < n; ++i)
        if (place[i] == i) (plan.items[i].kind == item_kind::value ? values : tensors).push_back(i);
    if (count > 1) {
        std::sort(tensors.begin(), tensors.end(), [&](auto a, auto b) {
            auto const x = plan.items[a].content_bytes(), y = plan.items[b].content_bytes();
            return x != y ? x > y : a < b;
        });
    }
    std::vector<std::uint64_t> load(count, 0);
    for (auto i : tensors) {
        auto const least =
            static_cast<std::size_t>(std::min_element(load.begin(), load.end()) - load.begin());
        load[least] += plan.items[i].content_bytes();
        files[least].push_back(i);
    }
    constexpr std::uint64_t small_bytes = std::uint64_t{64} << 10;
    for (auto& file : files)
        std::stable_sort(file.begin(), file.end(), [&](auto a, auto b) {
            auto const x = plan.items[a].content_bytes(), y = plan.items[b].content_bytes();
            return x <= small_bytes && x < y;
        });
    for (std::size_t k = 0; k < values.size(); ++k) files[k % count].push_back(values[k]);
    return files;
}

/// Counts a plan's items that are stored as themselves, and their bytes.
inline stored_amount stored_amount_of(const save_plan& plan) {
    auto const place = stored_as(plan);
    stored_amount sum;
    for (std::uint32_t i = 0; i < place.size(); ++i)
        if (place[i] == i) sum.add(plan.items[i].content_bytes());
    return sum;
}
/// Number of files that a rank writes.
/// @param threads  How many files it can write at once, if the options do not say.
inline std::size_t file_count(const stored_amount& stored, const torch_writer_options& o,
                              int threads) {
    if (!o.single_file_per_rank) return stored.items;
    if (o.thread_count != 0) return static_cast<std::size_t>(std::max(1, o.thread_count));
    // This many bytes take a tenth of a second to write. An item is not divided.
    constexpr std::uint64_t worth_a_file = std::uint64_t{128} << 20;
    auto const most = stored.bytes / std::max(worth_a_file, stored.largest);
    return static_cast<std::size_t>(
        std::clamp<std::uint64_t>(most, 1, static_cast<std::uint64_t>(std::max(1, threads))));
}

/// Returns the strides of a payload: a dense tensor keeps the order of its memory (like torch.save
/// for a transposed tensor), so that it is written without a copy; any other is laid out row-major.
inline index_vector payload_strides(const const_tensor_view& v) {
    return !is_row_major(v) && is_dense(v) ? v.strides : row_major_strides(v.shape);
}

/// Returns how a tensor will be stored; nothing for a value.
inline std::optional<format::torch::tensor_spec> spec_of(const item_data& data) {
    if (auto const* v = std::get_if<const_tensor_view>(&data))
        return format::torch::tensor_spec{v->type, v->shape, payload_strides(*v),
                                          static_cast<std::uint64_t>(v->elements())};
    if (auto const* s = std::get_if<const tensor_source*>(&data))
        return format::torch::tensor_spec{(*s)->type, (*s)->shape, row_major_strides((*s)->shape),
                                          static_cast<std::uint64_t>((*s)->shape.product())};
    return {};
}

/// Computes offsets and lengths of the given items of a plan within one file, before writing; not
/// those of items that will be compressed, see `item_compressor`.
inline placed_file place_items(std::string name, const std::vector<std::uint32_t>& which,
                               std::span<const item_data> data, const torch_writer_options& o,
                               std::string save_id) {
    placed_file f;
    f.name = std::move(name);
    f.footer.save_id = std::move(save_id);
    f.items.reserve(which.size());
    f.footer.items.reserve(which.size());
    format::torch::tensor_items items;
    for (auto i : which) {
        auto& p = f.items.emplace_back();
        auto& at = f.footer.items.emplace_back();
        p.item = i;
        at.offset = f.size;
        if ((p.tensor = spec_of(data[i]))) {
            auto const bytes = p.tensor->storage_elements * size_of(p.tensor->type);
            bool const big = bytes >= o.payload_alignment && !o.zstd_level;
            auto const align = p.tensor->payload_alignment = big ? o.payload_alignment : 64;
            if (align > 64) at.offset = (f.size + align - 1) / align * align;
            auto const& made = items.of(*p.tensor);
            at.length = made.length();
            if (!o.zstd_level) {
                at.payload_offset = made.payload_offset();
                at.payload_length = made.payload_length();
                at.block_crcs.resize((at.payload_length + format::native::block_bytes - 1) /
                                     format::native::block_bytes);
            }
        } else {
            p.value = format::torch::encode_value(*std::get<const value*>(data[i]));
            at.length = p.value.size();
        }
        f.size = at.offset + at.length;
    }
    if (!which.empty()) f.size += format::native::encode_footer(f.footer).size();
    return f;
}

}  // namespace cairn::detail

#endif
