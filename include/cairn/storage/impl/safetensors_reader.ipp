// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_IMPL_SAFETENSORS_READER_IPP
#define CAIRN_STORAGE_IMPL_SAFETENSORS_READER_IPP

#include <cairn/error.hpp>
#include <cairn/object_store/detail/exists.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/file_index.hpp>
#include <cairn/storage/detail/other_formats.hpp>
#include <cairn/storage/detail/safetensors_files.hpp>
#include <cairn/storage/detail/stored_chunk.hpp>
#include <cairn/storage/safetensors_reader.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cairn {

static_assert(StorageReader<safetensors_reader> && LocalReader<safetensors_reader>);

namespace detail {

/// Checks that of each `X-00001-of-00003.safetensors` there are as many as its name says. Ranks of
/// DCP (`shard-*`) leave out files that they have nothing for.
/// @throws error errc::missing_file
inline void check_all_there(any_store& place, const std::vector<std::string>& names) {
    auto const group_of = [](std::string_view name) {
        auto const [before, count] = shard_of(name);
        bool const is_one = count != 0 && !name.starts_with("shard-");
        return is_one ? std::string(before) + ' ' + std::to_string(count) : std::string();
    };
    std::vector<std::string> groups;
    for (auto const& name : names) groups.push_back(group_of(name));
    std::sort(groups.begin(), groups.end());
    for (auto const& name : names) {
        auto const group = group_of(name);
        if (group.empty()) continue;
        auto const found =
            static_cast<std::size_t>(std::upper_bound(groups.begin(), groups.end(), group) -
                                     std::lower_bound(groups.begin(), groups.end(), group));
        if (auto const wanted = shard_of(name).count; wanted > found)
            throw error(errc::missing_file, {.file = place.describe("."),
                                             .expected = std::to_string(wanted) +
                                                         " files, by the name of '" + name + "'",
                                             .found = std::to_string(found),
                                             .remedy = "fetch the others too"});
    }
}

/// Reads what is in a directory.
/// @param ignored  Set to the name of a file that other programs may take for all of it.
/// @throws error errc::not_found if there is none
inline metadata read_safetensors_in(any_store& place, safetensors_files files,
                                    std::string& ignored) {
    constexpr std::string_view usual = "model.safetensors",
                               usual_index = "model.safetensors.index.json";
    std::vector<std::string> indices, all;
    for (auto& info : place.list_finished()) {
        std::string_view const name = info.name;
        // Hidden ones are no weights, and those below belong to something else.
        if (name.starts_with('.') || name.find('/') != name.npos) continue;
        if (name.ends_with(".safetensors.index.json"))
            indices.push_back(std::move(info.name));
        else if (name.ends_with(".safetensors"))
            all.push_back(std::move(info.name));
    }
    auto const has = [](const std::vector<std::string>& names, std::string_view name) {
        return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (has(all, usual) && !has(indices, usual_index))
        indices.clear();  // those of variants, or of another model
    auto const index = chosen_index(place, indices, usual_index);
    if (!index.empty()) {
        try {
            auto m = files.of_index(index);
            if (has(all, usual) && !m.file_sizes.contains(usual)) ignored = usual;
            return m;
        } catch (const error& e) {
            if (e.code() != make_error_code(errc::missing_file) || !has(all, usual)) throw;
            auto where = e.context();
            where.remedy = "if the index is a leftover of an older export, remove it, or load '" +
                           place.describe(usual) + "' alone";
            throw error(errc::missing_file, std::move(where));
        }
    }
    if (has(all, usual)) all = {std::string(usual)};
    if (all.empty())
        throw error(errc::not_found, {.file = place.describe("."),
                                      .expected = "a *.safetensors file, or an index of some",
                                      .found = "none"});
    check_all_there(place, all);
    return files.of_files(all);
}

/// Whether files are of single ranks, as DCP's `HuggingFaceStorageWriter` names them.
inline bool has_shards_of_ranks(const metadata& m) {
    return std::any_of(m.file_sizes.begin(), m.file_sizes.end(),
                       [](auto const& file) { return file.first.starts_with("shard-"); });
}

/// Whether each tensor has one, from an index of cairn's.
inline bool has_checksums(const metadata& m) {
    bool some = false;
    for (auto const& [fqn, entry] : m.entries)
        if (auto const* t = std::get_if<tensor_metadata>(&entry))
            for (std::size_t i = 0; i < t->chunks.size(); ++i) {
                if (t->chunks.row_of(i).payload_crc == 0) return false;
                some = true;
            }
    return some;
}

}  // namespace detail

CAIRN_DECL safetensors_reader::safetensors_reader(any_store store, int thread_count)
    : chunk_reader(std::move(store), {}, thread_count), threads_(thread_count) {}

CAIRN_DECL void safetensors_reader::reset(const checkpoint_id& id) {
    id_ = id;
    ignored_.clear();
    chunk_reader::reset(id);
}
CAIRN_DECL metadata safetensors_reader::read_metadata() {
    auto const threads =
        std::max(static_cast<std::size_t>(std::max(1, threads_)), place().requests_in_flight());
    auto const [in, name] = detail::split_id(id_);
    bool is_file = false;
    if (name.ends_with(".safetensors")) {
        chunk_reader::reset(in);
        is_file = detail::exists(place(), name);
    }
    if (!is_file) chunk_reader::reset(id_);
    detail::safetensors_files files(place(), threads);
    auto m = is_file ? files.of_files({name})
                     : detail::read_safetensors_in(place(), std::move(files), ignored_);
    m.is_file = is_file;
    return m;
}
CAIRN_DECL void safetensors_reader::set_up_reader(const metadata& m, const storage_setup& me) {
    chunk_reader::reset(m.is_file ? detail::split_id(id_).place : id_);
    chunk_reader::set_up_reader(m, me);
    if (!detail::has_checksums(m))
        notes().note(
            "safetensors files: they have no checksums and no save id, so nothing tells whether "
            "they belong together");
    if (detail::has_shards_of_ranks(m))
        notes().note(
            "shards of ranks: where they do not say how large a tensor is, it ends with the last "
            "shard that is there, so nothing tells whether files of the last ranks are missing");
    detail::note_unsupported(notes(), m);
    detail::note_missing_elements(notes(), m);
    detail::note_beside_index(notes(), ignored_);
    if (m.is_file) detail::note_other_shards(notes(), detail::split_id(id_).name);
}

}  // namespace cairn

#endif
