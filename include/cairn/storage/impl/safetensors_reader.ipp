// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_IMPL_SAFETENSORS_READER_IPP
#define CAIRN_STORAGE_IMPL_SAFETENSORS_READER_IPP

#include <cairn/error.hpp>
#include <cairn/metadata/check.hpp>
#include <cairn/object_store/detail/exists.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/other_formats.hpp>
#include <cairn/storage/detail/safetensors_files.hpp>
#include <cairn/storage/detail/stored_chunk.hpp>
#include <cairn/storage/safetensors_reader.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

static_assert(StorageReader<safetensors_reader> && LocalReader<safetensors_reader>);

namespace detail {

/// Reads what is in a directory.
/// @throws error errc::not_found if there is none
inline metadata read_safetensors_in(erased_store& place, safetensors_files files) {
    std::vector<std::string> indices, all;
    for (auto& info : place.list())
        if (info.name.ends_with(".safetensors.index.json"))
            indices.push_back(std::move(info.name));
        else if (info.name.ends_with(".safetensors"))
            all.push_back(std::move(info.name));
    if (indices.size() > 1)
        throw error(errc::unsupported, {.file = place.describe("."),
                                        .expected = "one index",
                                        .found = "'" + indices[0] + "' and '" + indices[1] + "'",
                                        .remedy = "keep the other one elsewhere"});
    if (!indices.empty()) return files.of_index(indices[0]);
    constexpr const char* usual = "model.safetensors";
    if (std::find(all.begin(), all.end(), usual) != all.end()) all = {usual};
    if (all.empty())
        throw error(errc::not_found, {.file = place.describe("."),
                                      .expected = "a *.safetensors file, or an index of some",
                                      .found = "none"});
    return files.of_files(all);
}

}  // namespace detail

CAIRN_DECL safetensors_reader::safetensors_reader(detail::erased_store store, int thread_count)
    : chunk_reader(std::move(store), {}, thread_count), threads_(thread_count) {}

CAIRN_DECL void safetensors_reader::reset(const checkpoint_id& id) {
    id_ = id;
    chunk_reader::reset(id);
}
CAIRN_DECL metadata safetensors_reader::read_metadata() {
    auto const threads =
        std::max(static_cast<std::size_t>(std::max(1, threads_)), place().requests_in_flight());
    auto const [in, name] = detail::split_id(id_);
    metadata m;
    if (name.ends_with(".safetensors")) {
        chunk_reader::reset(in);
        m.is_file = detail::exists(place(), name);
    }
    if (m.is_file) {
        m = detail::safetensors_files(place(), threads).of_files({name});
        m.is_file = true;
    } else {
        chunk_reader::reset(id_);
        m = detail::read_safetensors_in(place(), detail::safetensors_files(place(), threads));
    }
    check_metadata(m);
    return m;
}
CAIRN_DECL void safetensors_reader::set_up_reader(const metadata& m, const storage_setup& me) {
    chunk_reader::reset(m.is_file ? detail::split_id(id_).place : id_);
    chunk_reader::set_up_reader(m, me);
    detail::note_missing_elements(notes(), m);
}

}  // namespace cairn

#endif
