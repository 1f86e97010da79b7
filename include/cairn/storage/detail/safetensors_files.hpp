// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_SAFETENSORS_FILES_HPP
#define CAIRN_STORAGE_DETAIL_SAFETENSORS_FILES_HPP

#include <cairn/detail/failures.hpp>
#include <cairn/detail/parallel.hpp>
#include <cairn/error.hpp>
#include <cairn/format/safetensors/header.hpp>
#include <cairn/format/safetensors/layout.hpp>
#include <cairn/metadata/check.hpp>
#include <cairn/metadata/file_names.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/detail/heeded_stop.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/detail/data_file.hpp>
#include <cairn/storage/detail/file_index.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::detail {

using format::safetensors::shard_place;

/// Reads the metadata of some safetensors files in one place.
class safetensors_files {
public:
    /// @param threads  So many headers are read at a time.
    safetensors_files(any_store& place, std::size_t threads) : place_(place), threads_(threads) {}

    /// All tensors of these files.
    metadata of_files(const std::vector<std::string>& names) {
        auto const all = headers(names);
        for (std::size_t i = 0; i < all.size(); ++i) {
            auto const info = all[i].text.find("DCP_SHARDING_INFO");
            naming(place_, "", names[i], [&] {
                auto const crcs = format::safetensors::checksums_in(all[i].text);
                auto const shards = info == all[i].text.end()
                                        ? std::map<std::string, shard_place, std::less<>>()
                                        : format::safetensors::sharding_info(info->second);
                for (auto const& t : all[i].tensors) {
                    auto const shard = shards.find(t.name);
                    auto const* const told = shard != shards.end() ? &shard->second : nullptr;
                    add(names[i], told && told->logical_fqn ? *told->logical_fqn : t.name, t,
                        told && told->offsets ? told : nullptr, crcs);
                }
            });
        }
        return finish();
    }
    /// The tensors that an index names.
    metadata of_index(const std::string& index) {
        std::optional<file_index> map;
        format::safetensors::tensor_crcs crcs;
        naming(place_, "", index, [&] {
            auto const bytes = read_whole(place_, index, format::safetensors::max_index);
            map.emplace(place_, index, bytes);
            crcs = format::safetensors::decode_notes(bytes).crcs;
        });
        bool const has_crcs = !crcs.empty();
        auto const names = map->files();
        auto const all = headers(names, index);
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (!has_crcs)
                naming(place_, "", names[i],
                       [&] { crcs = format::safetensors::checksums_in(all[i].text); });
            for (auto const& t : all[i].tensors)
                if (map->places(t.name, names[i])) add(names[i], t.name, t, nullptr, crcs);
        }
        for (auto const& [fqn, file] : map->file_of)
            if (!meta_.entries.contains(fqn) && !meta_.unsupported.contains(fqn))
                map->refuse_without(place_, fqn);
        return finish();
    }

private:
    /// Most headers are shorter: one request reads length and header.
    static constexpr std::size_t first_read = std::size_t{128} << 10;
    static constexpr std::size_t next_reads = std::size_t{1} << 20;

    std::vector<format::safetensors::header> headers(const std::vector<std::string>& names,
                                                     std::string_view index = {}) {
        std::vector<format::safetensors::header> all(names.size());
        std::vector<std::uint64_t> sizes(names.size());
        std::vector<std::string> versions(names.size());
        auto const look = heeding([&](std::size_t i) {
            naming(place_, "", names[i], [&] {
                of_data_file(
                    place_, names[i],
                    [&] {
                        reread(place_, names[i],
                               [&] { all[i] = header_of(names[i], sizes[i], versions[i]); });
                    },
                    index);
            });
        });
        for_each_in_parallel(threads_, names.size(), look);
        for (std::size_t i = 0; i < names.size(); ++i) {
            meta_.file_sizes[names[i]] = sizes[i];
            note_text(all[i]);
            if (!versions[i].empty()) meta_.file_versions[names[i]] = std::move(versions[i]);
        }
        return all;
    }
    /// Notes what is for others than readers of tensors.
    void note_text(const format::safetensors::header& h) {
        std::set<std::string_view> names;
        for (auto const& [key, what] : h.text) {
            bool const is_known = key == "format" || key == format::safetensors::crcs_key ||
                                  key == "DCP_SHARDING_INFO" || key == "DCP_VERSION";
            if (is_known) continue;
            if (names.empty())
                for (auto const& t : h.tensors) names.insert(t.name);
            // safetensors.torch.save_model: a name of a tied weight, and the one that it keeps.
            bool const is_tied = names.contains(what) && !names.contains(key);
            if (!is_tied) meta_.unknown_members.insert("__metadata__." + key);
        }
    }
    format::safetensors::header header_of(const std::string& name, std::uint64_t& size,
                                          std::string& version) {
        namespace st = format::safetensors;
        auto file = place_.open(name);
        size = file.size();
        version = file.tag().text;
        byte_vector b(static_cast<std::size_t>(std::min<std::uint64_t>(size, first_read)));
        if (!b.empty()) file.read(0, b);
        if (b.size() < st::length_bytes)
            throw error(errc::corrupt, {.expected = "a safetensors file",
                                        .found = std::to_string(size) + " bytes"});
        refuse_by_beginning(b);
        auto const length = st::header_length(std::span(b).first<st::length_bytes>(), size);
        auto const end = st::length_bytes + length;
        std::uint64_t at = 0;  // what was read before
        auto const next = [&]() -> std::span<const std::byte> {
            if (at == 0) {
                at = std::min<std::uint64_t>(b.size(), end);
                return std::span(b).first(static_cast<std::size_t>(at)).subspan(st::length_bytes);
            }
            b.resize(static_cast<std::size_t>(std::min<std::uint64_t>(end - at, next_reads)));
            if (!b.empty()) file.read(at, b);
            at += b.size();
            return b;
        };
        return st::read_header(next, length, size);
    }

    /// What often has the name of a safetensors file.
    static void refuse_by_beginning(std::span<const std::byte> b) {
        std::string_view const s(reinterpret_cast<const char*>(b.data()), b.size());
        auto const refuse = [](const char* found, const char* remedy) {
            throw error(errc::unsupported,
                        {.expected = "a safetensors file", .found = found, .remedy = remedy});
        };
        if (s.starts_with("version https://git-lfs"))
            refuse("a pointer of Git LFS", "fetch the file itself: git lfs pull");
        if (s.starts_with("GGUF")) refuse("a GGUF file", "convert it first");
        if (s.starts_with("PK\003\004")) refuse("a zip, as torch.save writes it", "name it .pt");
    }

    /// @param fqn     Of the tensor that it is, or is a shard of.
    /// @param placed  Of the shard that it is, with offsets; null: it is the whole tensor.
    /// @param crcs    Where cairn has written them.
    void add(const std::string& file, const std::string& fqn, const format::safetensors::tensor& t,
             const shard_place* placed, const format::safetensors::tensor_crcs& crcs) {
        box region{index_vector(t.shape.size(), 0), t.shape};
        if (placed != nullptr) region.offsets = *placed->offsets;
        auto const refuse = [&](std::string expected, std::string found) {
            throw error(errc::corrupt, {.fqn = fqn,
                                        .file = place_.describe(file),
                                        .expected = std::move(expected),
                                        .found = std::move(found)});
        };
        if (region.offsets.size() != t.shape.size())
            refuse("an offset for each dimension of shape " + to_string(t.shape),
                   to_string(region.offsets));
        auto const odd = meta_.unsupported.find(fqn);
        if (odd != meta_.unsupported.end()
                ? t.unknown_dtype != odd->second.type
                : !t.unknown_dtype.empty() && meta_.entries.contains(fqn))
            refuse("one dtype of each tensor", "two, of which one is not known");
        if (!t.unknown_dtype.empty()) {
            auto& u = meta_.unsupported[fqn];
            u.type = t.unknown_dtype;
            u.shape = t.shape;
            u.files.insert(file);
            return;
        }
        auto const [at, fresh] = meta_.entries.try_emplace(fqn, tensor_metadata());
        auto& known = std::get<tensor_metadata>(at->second);
        if (fresh) {
            known.type = t.type;
            known.shape = index_vector(t.shape.size(), 0);
            known.chunks = chunk_list(names_, t.shape.size());
            if (!t.stored_as.empty()) meta_.stored_as[fqn] = t.stored_as;
            whole_[fqn] = placed == nullptr ? &file : nullptr;
        } else if (placed == nullptr || whole_[fqn] != nullptr) {
            auto const* const other = whole_[fqn];
            refuse("each tensor in one file, because DCP_SHARDING_INFO does not place it",
                   other == nullptr || *other == file
                       ? std::string("a second one")
                       : "one in '" + place_.describe(*other) + "' too");
        } else if (known.type != t.type || known.shape.size() != t.shape.size()) {
            refuse("a shard of " + std::string(name_of(known.type)) + " with " +
                       std::to_string(known.shape.size()) + " dimensions, as in '" +
                       place_.describe(known.chunks.empty() ? "." : known.chunks.file(0)) + "'",
                   std::string(name_of(t.type)) + " of shape " + to_string(t.shape));
        }
        auto const* const whole =
            placed != nullptr && placed->global_shape ? &*placed->global_shape : nullptr;
        if (whole != nullptr && whole->size() != t.shape.size())
            refuse("a global shape of " + std::to_string(t.shape.size()) + " dimensions",
                   to_string(*whole));
        if (whole != nullptr) {
            auto const [told, first] = told_.try_emplace(fqn, *whole, &file);
            if (told->second.first != *whole)
                refuse("a tensor of shape " + to_string(told->second.first) + ", as '" +
                           place_.describe(*told->second.second) + "' says",
                       to_string(*whole));
        }
        for (std::size_t d = 0; d < t.shape.size(); ++d) {
            auto const end = static_cast<std::uint64_t>(region.offsets[d]) +
                             static_cast<std::uint64_t>(t.shape[d]);
            auto const most = whole != nullptr ? (*whole)[d] : INT64_MAX;
            if (end > static_cast<std::uint64_t>(most))
                refuse("a shard within a tensor" +
                           (whole != nullptr ? " of shape " + to_string(*whole) : std::string()),
                       to_string(t.shape) + " at " + to_string(region.offsets));
            known.shape[d] =
                std::max(known.shape[d], whole != nullptr ? most : static_cast<std::int64_t>(end));
        }
        if (t.length == 0) return;
        auto chunk = known.chunks.add();
        std::copy(region.offsets.begin(), region.offsets.end(), chunk.offsets.begin());
        std::copy(t.shape.begin(), t.shape.end(), chunk.lengths.begin());
        auto const crc = crcs.find(t.name);
        // With a layout: any part of it can be read alone.
        chunk.at = {.offset = t.offset,
                    .length = t.length,
                    .payload_length = t.length,
                    .payload_crc = crc == crcs.end() ? 0 : crc->second,
                    .file = names_->add(file),
                    .has_layout = true};
    }
    metadata finish() {
        meta_.format = checkpoint_format::safetensors;
        try {
            check_metadata(meta_);
        } catch (const error& e) {  // the same tensor in two files, usually
            auto where = e.context();
            if (where.file.empty()) where.file = place_.describe(".");
            throw error(errc::corrupt, std::move(where));
        }
        return std::move(meta_);
    }

    any_store& place_;
    std::size_t threads_;
    metadata meta_{};
    chunk_list::names_ptr names_ = std::make_shared<file_names>();
    /// The file of each tensor that is whole; null: of a shard.
    std::map<std::string, const std::string*, std::less<>> whole_{};
    /// Shapes of whole tensors that files with shards tell, and which file was the first.
    std::map<std::string, std::pair<index_vector, const std::string*>> told_{};
};

}  // namespace cairn::detail

#endif
