// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_IMPL_MAPPED_METADATA_IPP
#define CAIRN_STORAGE_IMPL_MAPPED_METADATA_IPP

#include <cairn/detail/counted.hpp>
#include <cairn/error.hpp>
#include <cairn/mapping/detail/name_pattern.hpp>
#include <cairn/metadata/detail/path_like.hpp>
#include <cairn/metadata/detail/scales.hpp>
#include <cairn/metadata/stored_bytes.hpp>
#include <cairn/storage/detail/finer_boxes.hpp>
#include <cairn/storage/detail/mapped_metadata.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::detail {

/// Whether a tensor is one stored tensor, as it is.
inline bool is_renamed(const map::detail::mapped_tensor& t) {
    if (t.pieces.size() != 1 || t.pieces.front().is_constant() || !t.equals.empty()) return false;
    auto const& p = t.pieces.front();
    return p.from->type == t.type && p.from->shape == t.shape &&
           p == map::detail::whole_piece(p.from);
}

/// The stored tensors whose elements a tensor has elsewhere than these, or not all of them.
inline std::set<std::string> moved_sources(const map::detail::mapped_tensor& t) {
    std::set<std::string> all;
    for (auto const& p : t.pieces)
        if (!p.is_constant() && (t.pieces.size() != 1 || p != map::detail::whole_piece(p.from)))
            all.insert(p.from->name);
    return all;
}

/// Whether a piece has the elements of its source in another order.
inline bool permutes(const map::detail::piece& p) {
    if (p.is_constant()) return false;
    auto const steps = p.strides(map::detail::side::source, row_major_strides(p.from->shape));
    return !std::is_sorted(steps.begin(), steps.end(), std::greater<>());
}

/// Applies a mapping to a checkpoint that has the names of a state.
inline map::detail::mapped stored_of(const mapping& how, const metadata& state) {
    map::detail::state_types types;
    for (auto const& [fqn, entry] : state.entries) {
        auto& type = types[fqn];
        if (auto const* t = std::get_if<tensor_metadata>(&entry))
            type = map::detail::tensor_type{t->type, t->shape};
    }
    return to_stored(how, types);
}

CAIRN_DECL mapped_metadata::mapped_metadata(metadata stored, const mapping& how,
                                            mapping_direction way)
    : stored_(std::move(stored)),
      made_(way == mapping_direction::to_state ? map::detail::to_state(how, stored_)
                                               : stored_of(how, stored_)) {
    unmade_ = made_.incomplete;
    if (!made_.idle.empty() || !made_.hidden.empty()) {
        map::detail::unmade_names unmade(how, stored_);
        // What has such a name is not what a load makes.
        for (auto const& fqn : made_.hidden) {
            if (made_.tensors.count(fqn) != 0 || made_.values.count(fqn) != 0) continue;
            auto u = unmade.find(fqn).value_or(unmade_name());
            u.found +=
                ", but what has this name already, as if the mapping had been applied before";
            unmade_.emplace(fqn, std::move(u));
        }
        for (auto const i : made_.idle) {
            auto const& name = how.lines()[i].name;
            map::detail::name_pattern const pattern(name);
            idle_ += (idle_.empty() ? "\"" : ", \"") + name + "\"";
            if (!pattern.is_literal()) continue;
            auto const fqn = pattern.fill({});
            if (made_.tensors.count(fqn) == 0 && made_.values.count(fqn) == 0)
                unmade_.emplace(fqn, *unmade.find(fqn));
        }
    }
    for (auto& [fqn, t] : made_.tensors) {
        if (is_renamed(t)) renamed_.insert(fqn);
        for (auto const& p : t.pieces) {
            if (way == mapping_direction::to_stored && !p.is_constant() &&
                stored_.tensor(p.from->name)->requires_grad)
                t.requires_grad = true;
            if (p.is_constant() || orders_.count(p.from->name) != 0) continue;
            auto const* const from = stored_.tensor(p.from->name);
            orders_.emplace(p.from->name, from->chunks);
            std::uint64_t elements = 0;
            for (std::size_t i = 0; i < from->chunks.size(); ++i) {
                std::uint64_t volume = 1;
                for (auto const n : from->chunks.lengths(i))
                    volume *= static_cast<std::uint64_t>(n);
                elements += volume;
            }
            if (elements != static_cast<std::uint64_t>(from->shape.product()))
                partial_.insert(p.from->name);
        }
    }
}

CAIRN_DECL void mapped_metadata::check_sources() const {
    std::set<std::string_view> used;
    for (auto const& [fqn, t] : made_.tensors)
        for (auto const& p : t.pieces)
            if (!p.is_constant() && renamed_.count(fqn) == 0) used.insert(p.from->name);
    check_stored_bytes(stored_, [&](std::string_view fqn) {
        auto const& chunks = stored_.tensor(fqn)->chunks;
        for (std::size_t i = 0; i < chunks.size(); ++i)
            if (auto const size = stored_.file_sizes.find(chunks.file(i));
                size != stored_.file_sizes.end() && size->second == 0)
                return false;
        return used.contains(fqn);
    });
}

CAIRN_DECL std::vector<std::string> mapped_metadata::moved_codes() const {
    std::set<std::string> all;
    for (auto const& made : made_.tensors) all.merge(moved_sources(made.second));
    std::vector<std::string> found;
    for (auto const& codes : all) {
        if (auto const type = stored_.tensor(codes)->type;
            size_of(type) != 1 || type == dtype::boolean)
            continue;
        for (auto const& scales : scales_of(stored_, codes)) {
            auto const* const s = stored_.tensor(scales);
            if (s != nullptr && s->shape.product() > 1 && !all.contains(scales))
                found.push_back("the codes of '" + codes + "' are moved, its scales '" + scales +
                                "' are not: use dequantise, or set a line for them");
        }
    }
    return found;
}

CAIRN_DECL bool mapped_metadata::permutes(std::string_view fqn) const {
    auto const* const t = tensor(fqn);
    return t != nullptr && std::any_of(t->pieces.begin(), t->pieces.end(), detail::permutes);
}

CAIRN_DECL const map::detail::mapped_tensor* mapped_metadata::tensor(std::string_view fqn) const {
    auto const found = made_.tensors.find(fqn);
    return found == made_.tensors.end() ? nullptr : &found->second;
}
CAIRN_DECL const map::detail::mapped_value* mapped_metadata::value(std::string_view fqn) const {
    auto const found = made_.values.find(fqn);
    return found == made_.values.end() ? nullptr : &found->second;
}

CAIRN_DECL metadata mapped_metadata::shown() const {
    metadata m;
    auto const add_path = [&](const std::string& fqn, const std::string& from) {
        auto const found = stored_.paths.find(from);
        auto const old = found == stored_.paths.end() ? key_path() : found->second;
        auto const& path = m.paths.emplace(fqn, path_like(fqn, old)).first->second;
        if (stored_.text_keys.empty()) return;
        // The steps at the end that both have.
        for (std::ptrdiff_t n = 0; n < std::min(std::ssize(old), std::ssize(path)); ++n) {
            if (old.end()[-1 - n] != path.end()[-1 - n]) break;
            if (stored_.text_keys.contains(key_path(old.begin(), old.end() - n)))
                m.text_keys.emplace(path.begin(), path.end() - n);
        }
    };
    m.foreign = stored_.foreign;
    std::erase_if(m.foreign.of_entries, [&](auto const& e) { return !made_.passes(e.first); });
    m.text_keys = stored_.text_keys;
    m.unknown_members = stored_.unknown_members;
    m.spare_files = stored_.spare_files;
    m.save_id = stored_.save_id;
    m.file_sizes = stored_.file_sizes;
    m.file_versions = stored_.file_versions;
    m.format = stored_.format;
    m.is_file = stored_.is_file;
    m.unmade = unmade_;
    m.if_asked = made_.if_asked;
    m.hidden = made_.hidden;
    // Their scales may have another name here, or none.
    auto const note_codes = [&](const std::string& fqn, const std::string& from, dtype type) {
        if (auto codes = codes_of(stored_, from, type)) m.codes.emplace(fqn, *std::move(codes));
    };
    for (auto const& entry : stored_.entries)
        if (made_.passes(entry.first)) {
            m.entries.insert(entry);
            if (auto const* const t = std::get_if<tensor_metadata>(&entry.second))
                note_codes(entry.first, entry.first, t->type);
        }
    for (auto const& path : stored_.paths)
        if (made_.passes(path.first)) m.paths.insert(path);
    for (auto const& other : stored_.unsupported)
        if (made_.passes(other.first)) m.unsupported.insert(other);
    auto const keep_foreign = [&](const std::string& fqn, const std::string& from) {
        auto const some = stored_.foreign.of_entries.find(from);
        if (some != stored_.foreign.of_entries.end()) m.foreign.of_entries[fqn] = some->second;
    };
    for (auto const& [fqn, why] : made_.unreadable) m.unsupported[fqn].type = why;
    for (auto const& [fqn, t] : made_.tensors) {
        m.entries.emplace(
            fqn, tensor_metadata{t.type, t.shape, t.requires_grad,
                                 renamed_.count(fqn) != 0 ? stored_.tensor(stored_name(fqn))->chunks
                                                          : chunks_of(t)});
        add_path(fqn, t.source_name());
        for (auto const& p : t.pieces)
            if (!p.is_constant() && !m.codes.contains(fqn))
                note_codes(fqn, p.from->name, p.from->type);
        if (renamed_.count(fqn) != 0) keep_foreign(fqn, stored_name(fqn));
    }
    for (auto const& [fqn, v] : made_.values) {
        m.entries.emplace(fqn, *stored_.value(v.from));
        add_path(fqn, v.from);
        keep_foreign(fqn, v.from);
    }
    if (stored_.paths.empty()) m.paths.clear();
    return m;
}

CAIRN_DECL chunk_list mapped_metadata::chunks_of(const map::detail::mapped_tensor& t) const {
    chunk_list all;
    bool whole = true;
    for (auto const& p : t.pieces)
        whole = whole && (p.is_constant() || partial_.count(p.from->name) == 0);
    if (whole) {
        all.push_back({box::whole(t.shape), {}});
        return all;
    }
    using map::detail::side;
    auto const add = [&](const map::detail::piece& p) {
        for_each_box(p, side::target, [&](const map::detail::piece_box& b) {
            if (all.size() == std::size_t{map::detail::most_operations})
                throw error(errc::unsupported,
                            {.fqn = p.is_constant() ? std::string() : p.from->name,
                             .expected = "a stored tensor without gaps, or one that a mapping does "
                                         "not divide into so many boxes",
                             .found = "more than " + std::to_string(all.size())});
            all.push_back({b.region, {}});
        });
    };
    for (auto const& p : t.pieces) {
        if (p.is_constant() || partial_.count(p.from->name) == 0) {
            add(p);
            continue;
        }
        auto const& chunks = stored_.tensor(p.from->name)->chunks;
        std::vector<map::detail::piece> parts;
        orders_.find(p.from->name)->second.for_each_near(p.bounds(side::source), [&](auto i) {
            cut(p, side::source, chunks.region(i), parts);
        });
        for (auto const& part : parts) add(part);
    }
    return all;
}

CAIRN_DECL void mapped_metadata::for_each_part(const map::detail::mapped_tensor& t,
                                               const box& region, bool finer, const on_item& item,
                                               const on_constant& constant) const {
    using map::detail::side;
    std::vector<map::detail::piece> wanted, found;
    for (auto const& p : t.pieces) {
        if (!overlaps(p.bounds(side::target), region)) continue;
        wanted.clear();
        cut(p, side::target, region, wanted);
        for (auto const& part : wanted) {
            if (part.is_constant()) {
                constant(part);
                continue;
            }
            auto const& from = part.from->name;
            auto const& chunks = stored_.tensor(from)->chunks;
            std::int64_t elements = 0;
            orders_.find(from)->second.for_each_near(
                part.bounds(side::source), [&](std::size_t chunk) {
                    auto const have = chunks.region(chunk);
                    auto const add = [&](const map::detail::piece_box& b, const finer_dims* dims) {
                        read_item i;
                        i.fqn = from;
                        i.kind = item_kind::shard;
                        i.chunk = static_cast<std::uint32_t>(chunk);
                        i.source_offsets =
                            dims ? b.region.offsets : relative_to(b.region, have).offsets;
                        i.shape = b.region.shape;
                        i.target_offsets = index_vector(i.shape.size(), 0);
                        item(std::move(i), b, dims);
                    };
                    // What has to be decoded is decoded for each set of dimensions.
                    auto const* const unusual = chunks.unusual(chunk);
                    bool const divides =
                        finer && (unusual == nullptr || unusual->at.transforms.empty());
                    found.clear();
                    cut(part, side::source, have, found);
                    for (auto const& here : found) {
                        elements += here.volume();
                        if (divides)
                            for_each_finer_box(here, have, add);
                        else
                            for_each_box(here, side::source,
                                         [&](const map::detail::piece_box& b) { add(b, nullptr); });
                    }
                });
            if (elements != part.volume())
                throw error(
                    errc::missing_key,
                    {.fqn = from,
                     .expected = "all elements of " + to_string(part.bounds(side::source)),
                     .found = std::to_string(elements) + " of " +
                              counted(static_cast<std::uint64_t>(part.volume()), "element")});
        }
    }
}

}  // namespace cairn::detail

#endif
