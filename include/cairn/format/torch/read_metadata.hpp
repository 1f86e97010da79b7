// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_READ_METADATA_HPP
#define CAIRN_FORMAT_TORCH_READ_METADATA_HPP

#include <cairn/format/pickle/reader.hpp>
#include <cairn/metadata/metadata.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::format::torch {

/// Turns the pickle of `.metadata` into @ref metadata (docs/format.md; DCP's metadata.py of
/// PyTorch 1.13 to 2.14). Classes are recognised by name, whatever module of PyTorch they lived in;
/// any other class is refused.
class metadata_reader {
public:
    explicit metadata_reader(const pickle::tree& t) : t_(t) {}

    metadata read() {
        auto const top = instance(t_.root, "Metadata");
        read_locations(member(top, "storage_data"));
        read_entries(member(top, "state_dict_metadata"));
        if (auto const p = find(top, "planner_data"); p && t_.kind(*p) != kind::none)
            read_paths(*p);
        if (used_ != locations_.size()) bad("a place for something that is not in the state dict");
        return std::move(m_);
    }

private:
    using id = pickle::node_id;
    using kind = pickle::node_kind;
    using key = std::pair<std::string, sizes>;

    [[noreturn]] static void bad(std::string found) {
        throw error(errc::corrupt,
                    {.expected = "the metadata of a checkpoint", .found = std::move(found)});
    }

    /// The last part of the class name, if its module is one of DCP's.
    std::string short_class(id i) const {
        auto full = t_.class_name(i);
        for (std::string_view module :
             {"torch.distributed.checkpoint.metadata.", "torch.distributed.checkpoint.filesystem.",
              "torch.distributed._shard.sharded_tensor.metadata.",
              "torch.distributed._shard.checkpoint.metadata.",
              "torch.distributed._shard.checkpoint.filesystem.",
              "torch.distributed.checkpoint._fsspec_filesystem.",
              "torch.distributed._shard.metadata."})
            if (full.starts_with(module)) return full.substr(module.size());
        return full;
    }
    std::string class_of(id i) const {
        if (t_.kind(i) != kind::object) return {};
        return short_class(t_.children(i)[0]);
    }
    [[noreturn]] void refuse(id i, std::string_view wanted) const {
        auto const name =
            t_.kind(i) == kind::object ? t_.class_name(t_.children(i)[0]) : std::string();
        if (!name.empty())
            throw error(errc::unsupported, {.expected = "class " + std::string(wanted),
                                            .found = "class " + name});
        bad("no " + std::string(wanted));
    }

    /// An object of a class: its members, by constructor call or by state.
    struct members {
        std::map<std::string_view, id> named;
    };
    members instance(id i, std::string_view wanted) const {
        if (class_of(i) != wanted) refuse(i, wanted);
        auto const& c = t_.children(i);
        members m;
        if (t_.kind(c[2]) == kind::dict) {
            auto const& d = t_.children(c[2]);
            for (std::size_t k = 0; k + 1 < d.size(); k += 2)
                if (t_.kind(d[k]) == kind::string) m.named[t_.text(d[k])] = d[k + 1];
            return m;
        }
        static constexpr std::array<std::pair<std::string_view, std::array<std::string_view, 4>>, 3>
            forms{{
                {"ChunkStorageMetadata", {"offsets", "sizes", "", ""}},
                {"MetadataIndex", {"fqn", "offset", "index", ""}},
                {"_StorageInfo", {"relative_path", "offset", "length", "transform_descriptors"}},
            }};
        auto const& args = t_.children(c[1]);
        for (auto const& [name, names] : forms)
            if (name == wanted)
                for (std::size_t k = 0; k < args.size() && k < names.size(); ++k)
                    m.named[names[k]] = args[k];
        return m;
    }
    static std::optional<id> find(const members& m, std::string_view name) {
        auto const it = m.named.find(name);
        if (it == m.named.end()) return std::nullopt;
        return it->second;
    }
    static id member(const members& m, std::string_view name) {
        auto const i = find(m, name);
        if (!i) bad("no member '" + std::string(name) + "'");
        return *i;
    }
    const std::vector<id>& dict(id i) const {
        if (t_.kind(i) != kind::dict) bad("something that is no dict");
        return t_.children(i);
    }
    std::string string(id i) const {
        if (t_.kind(i) != kind::string) bad("something that is no str");
        return std::string(t_.text(i));
    }
    std::int64_t number(id i) const {
        auto const v = static_cast<std::int64_t>(t_[i].payload);
        if (t_.kind(i) != kind::integer || v < 0) bad("a negative or missing number");
        return v;
    }
    sizes size(id i) const {
        if (t_.kind(i) == kind::object) {
            auto const& c = t_.children(i);
            auto const& args = t_.children(c[1]);
            if (t_.class_name(c[0]) != "torch.Size") refuse(i, "torch.Size");
            if (args.empty()) return {};
            return size(args[0]);
        }
        if ((t_.kind(i) != kind::tuple && t_.kind(i) != kind::list) || t_.children(i).size() > 64)
            bad("something that is no shape");
        sizes s;
        for (auto c : t_.children(i)) s.push_back(number(c));
        return s;
    }

    void read_locations(id i) {
        auto const& d = dict(i);
        for (std::size_t k = 0; k + 1 < d.size(); k += 2) {
            auto const index = instance(d[k], "MetadataIndex");
            auto const info = instance(d[k + 1], "_StorageInfo");
            key where{string(member(index, "fqn")), {}};
            bool whole = true;
            if (auto const o = find(index, "offset"); o && t_.kind(*o) != kind::none) {
                where.second = size(*o);
                whole = false;
            }
            storage_location at;
            at.object = string(member(info, "relative_path"));
            at.offset = static_cast<std::uint64_t>(number(member(info, "offset")));
            at.length = static_cast<std::uint64_t>(number(member(info, "length")));
            if (auto const t = find(info, "transform_descriptors");
                t && t_.kind(*t) != kind::none) {
                if (t_.kind(*t) != kind::list) bad("transform descriptors that are no list");
                for (auto c : t_.children(*t)) at.transforms.push_back(string(c));
            }
            if (!locations_.try_emplace({std::move(where), whole}, std::move(at)).second)
                bad("two places for one chunk");
        }
    }

    storage_location take(const std::string& fqn, const sizes& offset, bool whole) {
        auto const it = locations_.find({key{fqn, offset}, whole});
        if (it == locations_.end())
            throw error(errc::corrupt, {.tensor = fqn,
                                        .expected = "a place for the chunk at " + to_string(offset),
                                        .found = "none"});
        ++used_;
        return std::move(it->second);
    }

    void read_entries(id i) {
        auto const& d = dict(i);
        for (std::size_t k = 0; k + 1 < d.size(); k += 2) {
            auto const fqn = string(d[k]);
            auto const cls = class_of(d[k + 1]);
            bool fresh = false;
            if (cls == "BytesStorageMetadata") {
                fresh = m_.entries.try_emplace(fqn, object_metadata{take(fqn, {}, true)}).second;
            } else {
                fresh = m_.entries.try_emplace(fqn, tensor(fqn, d[k + 1])).second;
            }
            if (!fresh) bad("the key '" + fqn + "' twice");
        }
    }

    tensor_metadata tensor(const std::string& fqn, id i) {
        auto const m = instance(i, "TensorStorageMetadata");
        tensor_metadata t;
        t.extents = size(member(m, "size"));
        if (!is_possible(t.extents))
            throw error(errc::corrupt,
                        {.tensor = fqn,
                         .expected = "at most " + std::to_string(most_elements) + " elements",
                         .found = "the shape " + to_string(t.extents)});
        properties(member(m, "properties"), t);
        auto const chunks = member(m, "chunks");
        if (t_.kind(chunks) != kind::list) bad("chunks that are no list");
        for (auto c : t_.children(chunks)) {
            auto const box_members = instance(c, "ChunkStorageMetadata");
            cairn::chunk x;
            x.where = {size(member(box_members, "offsets")), size(member(box_members, "sizes"))};
            if (x.where.offsets.size() != t.extents.size() ||
                x.where.lengths.size() != t.extents.size())
                throw error(
                    errc::corrupt,
                    {.tensor = fqn,
                     .expected = "chunks of " + std::to_string(t.extents.size()) + " dimensions",
                     .found = to_string(x.where)});
            x.at = take(fqn, x.where.offsets, false);
            t.chunks.push_back(std::move(x));
        }
        return t;
    }

    /// State of TensorProperties: (dtype, layout, requires_grad, memory format, pinned).
    void properties(id i, tensor_metadata& t) const {
        if (class_of(i) != "TensorProperties") refuse(i, "TensorProperties");
        auto const state = t_.children(i)[2];
        std::optional<id> type, grad;
        if (t_.kind(state) == kind::tuple && t_.children(state).size() == 5) {
            type = t_.children(state)[0];
            grad = t_.children(state)[2];
        } else {
            bad("tensor properties of another form");
        }
        auto const name = t_.class_name(*type);
        auto const d = dtype_from_name(name.starts_with("torch.") ? name.substr(6) : name);
        if (!d)
            throw error(errc::unsupported,
                        {.expected = "a dtype of a dense tensor", .found = name});
        t.type = *d;
        t.requires_grad = t_.kind(*grad) == kind::boolean && t_[*grad].payload != 0;
    }

    void read_paths(id i) {
        auto const& d = dict(i);
        for (std::size_t k = 0; k + 1 < d.size(); k += 2) {
            auto const fqn = string(d[k]);
            if (m_.entries.find(fqn) == m_.entries.end())
                bad("a path for '" + fqn + "', which is not there");
            if (t_.kind(d[k + 1]) != kind::tuple) bad("a path that is no tuple");
            key_path p;
            std::string joined;
            for (auto c : t_.children(d[k + 1])) {
                if (t_.kind(c) == kind::integer)
                    p.emplace_back(static_cast<std::int64_t>(number(c)));
                else
                    p.emplace_back(string(c));
                if (p.size() > 1) joined += '.';
                joined += p.back().index() == 0 ? std::get<std::string>(p.back())
                                                : std::to_string(std::get<std::int64_t>(p.back()));
                if (p.size() > 256) bad("a path of more than 256 steps");
            }
            if (joined != fqn) bad("the path '" + joined + "' under the key '" + fqn + "'");
            m_.paths.insert_or_assign(fqn, std::move(p));
        }
    }

    const pickle::tree& t_;
    metadata m_;
    std::map<std::pair<key, bool>, storage_location> locations_;
    std::size_t used_ = 0;
};

/// @param bytes     May go on after the pickle's STOP.
/// @param consumed  Set to the pickle's length.
inline metadata parse_metadata_pickle(std::span<const std::byte> bytes,
                                      std::size_t* consumed = nullptr) {
    auto const t = pickle::reader::read(bytes);
    if (consumed != nullptr) *consumed = t.source_bytes;
    return metadata_reader(t).read();
}

}  // namespace cairn::format::torch

#endif
