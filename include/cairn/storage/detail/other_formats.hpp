// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_OTHER_FORMATS_HPP
#define CAIRN_STORAGE_DETAIL_OTHER_FORMATS_HPP

#include <cairn/error.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/file_index.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::detail {

/// Whether a name is `__R.metadata`, which each rank writes with `use_collectives=False`.
inline bool is_rank_metadata_name(std::string_view name) {
    constexpr std::string_view begin = "__", end = ".metadata";
    if (!name.starts_with(begin) || !name.ends_with(end) ||
        name.size() <= begin.size() + end.size())
        return false;
    auto const rank = name.substr(begin.size(), name.size() - begin.size() - end.size());
    return rank.find_first_not_of("0123456789") == rank.npos;
}

/// A file in a place.
struct file_in_place {
    std::string place{};
    std::string name{};
};
/// Splits an id that names a file.
inline file_in_place split_id(const std::string& id) {
    auto const slash = id.rfind('/');
    if (slash == id.npos) return {std::string(), id};
    return {slash == 0 ? "/" : id.substr(0, slash), id.substr(slash + 1)};
}
/// Returns where the metadata of a checkpoint is.
/// @param id  Names a place, or a rank's `__R.metadata` in one.
inline file_in_place metadata_of(const std::string& id) {
    auto last = split_id(id);
    return is_rank_metadata_name(last.name) ? last : file_in_place{id, std::string(metadata_name)};
}

/// Whether a name ends as those of files of `torch.save` usually do.
inline bool is_torch_save_name(std::string_view name) {
    constexpr std::array of_torch_save{".pt", ".pth", ".bin", ".ckpt"};
    return std::any_of(of_torch_save.begin(), of_torch_save.end(),
                       [&](auto const* end) { return name.ends_with(end); });
}
/// Returns the format that a file has, by the end of its name.
inline std::optional<checkpoint_format> format_by_name(std::string_view name) {
    if (name.ends_with(".safetensors")) return checkpoint_format::safetensors;
    if (is_torch_save_name(name)) return checkpoint_format::torch_save;
    return {};
}

/// Returns which checkpoint of another format is in a place without `.metadata`, judging by the
/// names there; nothing if there is none.
inline std::optional<error_context> other_format(any_store& place) {
    std::size_t ranks = 0;
    std::string of_a_rank, deepspeed, safetensors, torch_save;
    for (auto const& info : place.list_finished()) {
        auto const& name = info.name;
        std::string_view const n = name;
        if (is_rank_metadata_name(n)) {
            ++ranks;
            of_a_rank = of_a_rank.empty() ? name : of_a_rank;
        } else if (n == "zero_to_fp32.py" || n.ends_with("_optim_states.pt") ||
                   n.ends_with("_model_states.pt")) {
            deepspeed = name;
        } else if (n.ends_with(".safetensors") || n.ends_with(".safetensors.index.json")) {
            safetensors = name;
        } else if (is_torch_save_name(n)) {
            torch_save = name;
        }
    }
    auto const is = [](std::string what, const std::string& name, std::string remedy) {
        return error_context{.expected = "a checkpoint of torch.distributed.checkpoint",
                             .found = std::move(what) + " ('" + name + "')",
                             .remedy = std::move(remedy)};
    };
    if (ranks != 0)
        return is(
            "one of " + std::to_string(ranks) +
                (ranks == 1 ? " rank" : " ranks, each of which has its own metadata"),
            of_a_rank,
            "load the part of each rank alone, without a communicator, as 'PLACE/__R.metadata', or "
            "save it without use_collectives=False");
    if (!deepspeed.empty())
        return is("one of DeepSpeed", deepspeed,
                  "convert it with zero_to_fp32.py, and its result with "
                  "torch.distributed.checkpoint.format_utils");
    if (!safetensors.empty())
        return is("one of Hugging Face", safetensors,
                  "load it without a reader, or with a safetensors_reader");
    if (auto const n = shard_of(torch_save).count; n != 0)
        return is("one of the " + std::to_string(n) + " files of a model", torch_save,
                  "fetch its index, '*.bin.index.json', and all that this names");
    if (!torch_save.empty())
        return is("a file of torch.save", torch_save,
                  "load it by its own path, with the name of the file");
    return {};
}

/// @throws error errc::unsupported if a place without `.metadata` has a checkpoint of another
/// format
inline void refuse_other_format(any_store& place) {
    std::optional<error_context> other;
    try {
        other = other_format(place);
    } catch (const error&) {  // there is no such place
    }
    if (!other) return;
    other->file = place.describe(".");
    throw error(errc::unsupported, std::move(*other));
}

}  // namespace cairn::detail

#endif
