// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_IMPL_TORCH_SAVE_READER_IPP
#define CAIRN_STORAGE_IMPL_TORCH_SAVE_READER_IPP

#include <cairn/error.hpp>
#include <cairn/format/safetensors/header.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/data_file.hpp>
#include <cairn/storage/detail/file_index.hpp>
#include <cairn/storage/detail/other_formats.hpp>
#include <cairn/storage/detail/stored_chunk.hpp>
#include <cairn/storage/detail/torch_save_file.hpp>
#include <cairn/storage/torch_save_reader.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

static_assert(StorageReader<torch_save_reader> && ChecksumReader<torch_save_reader> &&
              LocalReader<torch_save_reader>);

namespace detail {

/// What finds values needs it; it does not move with the reader.
struct torch_save_parts {
    unverified* notes = nullptr;
    std::size_t requests = 1;  ///< That the store wants in flight.
};

inline item_finder torch_save_finder(std::shared_ptr<torch_save_parts> parts) {
    return {{},
            find_in_torch_save,
            [](const tensor_metadata& t, std::size_t chunk) {
                auto const& row = t.chunks.row_of(chunk);
                return row.is_divisible() && row.payload_crc == 0;
            },
            [parts = std::move(parts)](open_file& file, const std::string& fqn,
                                       const storage_location& at) {
                auto const& all = torch_save_content(file, parts->requests);
                auto v = read_torch_save_value(file, fqn, at, all);
                note_value(*parts->notes, fqn, v);
                if (!all.parts().checked) parts->notes->note_item(file.described());
                return v;
            }};
}

inline metadata read_torch_save_file(any_store& place, const std::string& name,
                                     std::size_t threads) {
    auto const described = place.describe(name);
    try {
        auto opened = place.open(name);
        auto version = opened.tag().text;
        open_file file(std::move(opened), described);
        auto m = format::torch_save::describe(torch_save_content(file, threads), name, file.size());
        m.format = checkpoint_format::torch_save;
        if (!version.empty()) m.file_versions[name] = std::move(version);
        return m;
    } catch (const error& e) {
        throw detail::completed(e, {.file = described});
    }
}

/// Returns the index of a directory of such files; empty: there is none, or no directory.
/// @param single  Set to the name of a file that other programs may take for all of it.
inline std::string index_of_torch_save_files(any_store& place, std::string& single) {
    constexpr std::string_view usual = "pytorch_model.bin";
    std::vector<std::string> names;
    std::vector<object_info> all;
    try {
        all = place.list_finished();
    } catch (const error& e) {  // there is no such place, or the store cannot list any
        if (e.code() != make_error_code(errc::not_found) &&
            e.code() != make_error_code(errc::unsupported))
            throw;
    }
    for (auto const& info : all) {
        std::string_view const n = info.name;
        if (n == usual) single = usual;
        if (n.ends_with(".bin.index.json") && !n.starts_with('.') && n.find('/') == n.npos)
            names.push_back(info.name);
    }
    return chosen_index(place, names, "pytorch_model.bin.index.json");
}

/// Reads what an index names, from files each of which is a flat dict of tensors.
inline metadata read_torch_save_files(any_store& place, const std::string& index,
                                      std::size_t threads) {
    std::optional<file_index> found;
    naming(place, "", index, [&] {
        found.emplace(place, index, read_whole(place, index, format::safetensors::max_index));
    });
    auto const& map = *found;
    metadata m;
    m.format = checkpoint_format::torch_save;
    for (auto const& name : map.files()) {
        auto one = of_data_file(
            place, name, [&] { return read_torch_save_file(place, name, threads); }, index);
        m.file_sizes.merge(one.file_sizes);
        m.file_versions.merge(one.file_versions);
        m.text_keys.merge(one.text_keys);
        auto const take = [&](auto& from, auto& to) {
            for (auto& [fqn, what] : from)
                if (map.places(fqn, name)) to.insert_or_assign(fqn, std::move(what));
        };
        take(one.entries, m.entries);
        take(one.unsupported, m.unsupported);
        take(one.paths, m.paths);
    }
    for (auto const& [fqn, file] : map.file_of)
        if (!m.entries.contains(fqn) && !m.unsupported.contains(fqn))
            map.refuse_without(place, fqn);
    return m;
}

}  // namespace detail

CAIRN_DECL torch_save_reader::torch_save_reader(any_store store, int thread_count)
    : torch_save_reader(std::move(store), thread_count,
                        std::make_shared<detail::torch_save_parts>()) {}
CAIRN_DECL torch_save_reader::torch_save_reader(any_store store, int thread_count,
                                                std::shared_ptr<detail::torch_save_parts> parts)
    : chunk_reader(std::move(store), detail::torch_save_finder(parts), thread_count),
      parts_(std::move(parts)) {}

CAIRN_DECL void torch_save_reader::reset(const checkpoint_id& id) {
    id_ = id;
    meta_ = nullptr;
    ignored_.clear();
    chunk_reader::reset(id);
    parts_->requests = place().requests_in_flight();
}
CAIRN_DECL metadata torch_save_reader::read_metadata() {
    auto const [in, name] = detail::split_id(id_);
    error absent(errc::not_found, {.file = place().describe("."),
                                   .expected = "the name of a file of torch.save, or of a "
                                               "directory with an index of several"});
    if (!name.empty()) try {
            chunk_reader::reset(in);
            auto m = detail::read_torch_save_file(place(), name, parts_->requests);
            m.is_file = true;
            return m;
        } catch (const error& e) {
            if (e.code() != make_error_code(errc::not_found)) throw;
            absent = e;
        }
    chunk_reader::reset(id_);
    auto const index = detail::index_of_torch_save_files(place(), ignored_);
    if (index.empty()) throw absent;
    auto m = detail::read_torch_save_files(place(), index, parts_->requests);
    if (m.file_sizes.contains(ignored_)) ignored_.clear();
    return m;
}
CAIRN_DECL void torch_save_reader::set_up_reader(const metadata& m, const storage_setup& me) {
    meta_ = &m;
    auto const [in, name] = detail::split_id(id_);
    chunk_reader::reset(m.is_file ? in : id_);
    chunk_reader::set_up_reader(m, me);
    parts_->notes = &notes();
    for (auto const& [fqn, t] : m.unsupported) notes().note_unread(fqn, t.type);
    detail::note_beside_index(notes(), ignored_);
    if (m.is_file) detail::note_other_shards(notes(), name);
}
CAIRN_DECL std::optional<chunk_checksum> torch_save_reader::checksum(const std::string& fqn,
                                                                     std::size_t chunk) {
    auto const* t = meta_ == nullptr ? nullptr : meta_->tensor(fqn);
    if (t == nullptr || chunk >= t->chunks.size()) return {};
    auto const at = t->chunks.location(chunk);
    if (!at.layout || at.layout->payload_crc == 0 || !at.transforms.empty()) return {};
    return chunk_checksum{at.layout->payload_crc, at.length,
                          at.layout->payload_offset / size_of(t->type), at.layout->strides};
}

}  // namespace cairn

#endif
