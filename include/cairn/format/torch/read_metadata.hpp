// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_READ_METADATA_HPP
#define CAIRN_FORMAT_TORCH_READ_METADATA_HPP

#include <cairn/detail/counted.hpp>
#include <cairn/detail/utf8.hpp>
#include <cairn/format/pickle/copy.hpp>
#include <cairn/format/pickle/reader.hpp>
#include <cairn/format/pickle/writer.hpp>
#include <cairn/format/unfolding.hpp>
#include <cairn/metadata/file_names.hpp>
#include <cairn/metadata/metadata.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::format::torch {

/// Turns the pickle of `.metadata` into @ref metadata (docs/format.md; DCP's metadata.py of PyTorch
/// 1.13 to 2.14). Classes are recognised by name, in any module of PyTorch; any other class is
/// refused, except a subclass of `Metadata`, e.g. Megatron-Core's, which is recognised by its
/// members. What that has besides is kept for conversions.
class metadata_reader {
public:
    explicit metadata_reader(const pickle::tree& t) : t_(t), unfolding_(t.source_bytes) {}

    metadata read() {
        auto const top = is_subclass_of_metadata(t_.root) ? members_of(t_.root, "Metadata")
                                                          : instance(t_.root, "Metadata");
        keep_foreign(top);
        read_locations(member(top, "storage_data"));
        read_entries(member(top, "state_dict_metadata"));
        if (auto const p = find(top, "planner_data"); p && t_.kind(*p) != kind::none)
            read_paths(*p);
        for (auto const& [of, at] : locations_)
            if (!at.file.empty()) m_.spare_files.insert(at.file);
        // All of a name or none.
        for (auto& [fqn, kept] : m_.foreign.of_entries)
            std::erase_if(kept, [&](auto const& k) { return not_kept_.contains(k.first); });
        std::erase_if(m_.foreign.of_entries, [&](auto const& e) {
            return e.second.empty() || !m_.entries.contains(e.first);
        });
        return std::move(m_);
    }

private:
    using id = pickle::node_id;
    using kind = pickle::node_kind;
    using key = std::pair<std::string_view, index_vector>;  // windows on the pickle

    [[noreturn]] static void bad(std::string found) {
        throw error(errc::corrupt,
                    {.expected = "the metadata of a checkpoint", .found = std::move(found)});
    }

    /// Returns the name of an object's class, if its module is one of DCP's.
    std::string_view class_of(id i) const {
        if (t_.kind(i) != kind::object) return {};
        auto const [in, name] = t_.class_parts(t_.children(i)[0]);
        for (std::string_view module :
             {"torch.distributed.checkpoint.metadata", "torch.distributed.checkpoint.filesystem",
              "torch.distributed._shard.sharded_tensor.metadata",
              "torch.distributed._shard.checkpoint.metadata",
              "torch.distributed._shard.checkpoint.filesystem",
              "torch.distributed.checkpoint._fsspec_filesystem",
              "torch.distributed._shard.metadata"})
            if (in == module) return name;
        return {};
    }
    /// Throws for an unexpected node: errc::unsupported if it names another class, since the pickle
    /// may then be intact, otherwise errc::corrupt.
    [[noreturn]] void refuse(id i, std::string_view wanted) const {
        bool const made = t_.kind(i) == kind::object || t_.kind(i) == kind::collection ||
                          t_.kind(i) == kind::opaque;
        auto const name = t_.class_name(made ? t_.children(i)[0] : i);
        if (!name.empty())
            throw error(errc::unsupported,
                        {.expected = std::string(wanted), .found = "class " + name});
        bad("no " + std::string(wanted));
    }
    [[noreturn]] static void beyond_limits(std::string found) {
        throw error(errc::unsupported,
                    {.expected = "metadata within the limits of cairn", .found = std::move(found)});
    }

    /// The members of an object of a class, from its constructor call or its state.
    using member_names = std::array<std::string_view, 5>;
    struct members {
        std::span<const id> state{};  ///< Name, value, …
        std::span<const id> arguments{};
        member_names names{};  ///< Of the arguments.

        bool knows(std::string_view name) const {
            return std::find(names.begin(), names.end(), name) != names.end();
        }
    };
    members instance(id i, std::string_view wanted) {
        if (class_of(i) != wanted) refuse(i, wanted);
        return members_of(i, wanted);
    }
    bool is_subclass_of_metadata(id i) const {
        if (t_.kind(i) != kind::object || t_.kind(t_.children(i)[2]) != kind::dict) return false;
        members m;
        m.state = t_.children(t_.children(i)[2]);
        return find(m, "state_dict_metadata") && find(m, "storage_data");
    }
    /// Keeps what DCP's class does not have.
    void keep_foreign(const members& top) {
        if (class_of(t_.root) != "Metadata" && t_.is_created(t_.root)) {
            auto const [in, name] = t_.class_parts(t_.children(t_.root)[0]);
            if (name.find('\n') == name.npos) {
                m_.foreign.module = in;
                m_.foreign.name = name;
            }
        }
        for (std::size_t k = 0; k + 1 < top.state.size(); k += 2) {
            if (t_.kind(top.state[k]) != kind::string) continue;
            auto const name = t_.text(top.state[k]);
            if (!top.knows(name)) keep(name, top.state[k + 1]);
        }
    }
    void keep(std::string_view name, id what) {
        if (auto copy = copy_of(name, what))
            m_.foreign.members.insert_or_assign(std::string(name), std::move(*copy));
    }
    /// Keeps what is not None of the unknown members of an entry's object.
    void keep_of_entry(std::string_view fqn, std::string_view as, const members& m) {
        auto const keep_one = [&](std::string_view name, id what) {
            if (t_.kind(what) == kind::none) return;
            auto full = std::string(as).append(".").append(name);
            if (auto copy = copy_of(name, what))
                m_.foreign.of_entries[std::string(fqn)].insert_or_assign(std::move(full),
                                                                         std::move(*copy));
            else
                not_kept_.insert(std::move(full));
        };
        // Other forms are not those of the classes that are written.
        bool const by_name = as != "TensorProperties";
        for (std::size_t k = 0; by_name && k + 1 < m.state.size(); k += 2)
            if (t_.kind(m.state[k]) == kind::string && !m.knows(t_.text(m.state[k])))
                keep_one(t_.text(m.state[k]), m.state[k + 1]);
        for (auto k = m.names.size(); !by_name && k < m.arguments.size(); ++k)
            keep_one(std::to_string(k), m.arguments[k]);
    }
    /// @return Nothing for what a tree does not have.
    std::optional<std::vector<std::byte>> copy_of(std::string_view name, id what) {
        if (detail::find_not_utf8(name) != name.npos) return {};
        pickle::writer w;
        try {
            pickle::copier(t_, unfolding_, w)(what);
        } catch (const error&) {
            return {};
        }
        return w.finish();
    }
    /// @param as  The class whose members it has, and maybe more.
    members members_of(id i, std::string_view as) {
        static constexpr std::array<std::pair<std::string_view, member_names>, 7> forms{{
            {"BytesStorageMetadata", {}},
            {"ChunkStorageMetadata", {"offsets", "sizes"}},
            {"MetadataIndex", {"fqn", "offset", "index"}},
            {"_StorageInfo", {"relative_path", "offset", "length", "transform_descriptors"}},
            {"TensorStorageMetadata", {"properties", "size", "chunks"}},
            {"TensorProperties",
             {"dtype", "layout", "requires_grad", "memory_format", "pin_memory"}},
            {"Metadata",
             {"state_dict_metadata", "planner_data", "storage_data", "storage_meta", "version"}},
        }};
        auto const form =
            std::find_if(forms.begin(), forms.end(), [&](auto const& f) { return f.first == as; });
        auto const c = t_.children(i);
        members m;
        m.names = form->second;
        auto const note = [&](std::string_view name, id what) {
            if (t_.kind(what) == kind::none) return;
            unfolding_.spend(name.size());  // it may be shared by many objects
            m_.unknown_members.insert(std::string(as).append(".").append(name));
        };
        if (t_.kind(c[2]) == kind::dict) {
            m.state = t_.children(c[2]);
            // It is searched once for each of the objects that share it.
            if (m.state.size() > 64) beyond_limits("an object of more than 32 members");
            for (std::size_t k = 0; k + 1 < m.state.size(); k += 2) {
                if (t_.kind(m.state[k]) != kind::string) continue;
                auto const name = t_.text(m.state[k]);
                if (!m.knows(name)) note(name, m.state[k + 1]);
            }
        } else {
            // TensorProperties has a state that is a tuple.
            m.arguments = t_.children(t_.kind(c[2]) == kind::tuple ? c[2] : c[1]);
            if (m.arguments.size() > 32) beyond_limits("an object of more than 32 members");
            for (std::size_t k = m.names.size(); k < m.arguments.size(); ++k)
                note(std::to_string(k), m.arguments[k]);
        }
        return m;
    }
    std::optional<id> find(const members& m, std::string_view name) const {
        for (std::size_t k = 0; k < m.arguments.size() && k < m.names.size(); ++k)
            if (m.names[k] == name) return m.arguments[k];
        for (auto k = m.state.size() / 2; k-- > 0;)  // for duplicate names, the last one counts
            if (t_.kind(m.state[2 * k]) == kind::string && t_.text(m.state[2 * k]) == name)
                return m.state[2 * k + 1];
        return std::nullopt;
    }
    id member(const members& m, std::string_view name) {
        auto const i = find(m, name);
        if (!i) bad("no member '" + std::string(name) + "'");
        return *i;
    }
    bool is_sequence(id i) const { return t_.kind(i) == kind::tuple || t_.kind(i) == kind::list; }
    std::span<const id> dict(id i) const {
        if (t_.kind(i) != kind::dict) refuse(i, "dict");
        return t_.children(i);
    }
    std::string_view string(id i) const {
        if (t_.kind(i) != kind::string) refuse(i, "str");
        return t_.text(i);
    }
    std::int64_t number(id i) const {
        if (t_.kind(i) != kind::integer || t_.number(i) > INT64_MAX)
            bad("a negative or missing number");
        return static_cast<std::int64_t>(t_.number(i));
    }
    index_vector size(id i) {
        if (t_.kind(i) == kind::object) {  // torch.Size((…)), once: a call may contain itself
            auto const c = t_.children(i);
            auto const args = t_.children(c[1]);
            if (!t_.is_class(c[0], "torch", "Size")) refuse(i, "torch.Size");
            if (args.empty()) return {};
            i = args[0];
        }
        if (!is_sequence(i) || t_.children(i).size() > 64) bad("something that is not a shape");
        index_vector s;
        auto const numbers = t_.children(i);
        unfolding_.spend(numbers.size() * sizeof(std::int64_t));
        for (auto c : numbers) s.push_back(number(c));
        return s;
    }

    void read_locations(id i) {
        auto const d = dict(i);
        for (std::size_t k = 0; k + 1 < d.size(); k += 2) {
            auto const index = instance(d[k], "MetadataIndex");
            auto const info = instance(d[k + 1], "_StorageInfo");
            key where{string(member(index, "fqn")), {}};
            bool whole = true;
            if (auto const o = find(index, "offset"); o && t_.kind(*o) != kind::none) {
                where.second = size(*o);
                whole = false;
            }
            auto const name = string(member(info, "relative_path"));
            // Each may be stored once and be referred to from many places.
            unfolding_.spend(where.first.size() + name.size());
            storage_location at;
            at.file = name;
            at.offset = static_cast<std::uint64_t>(number(member(info, "offset")));
            at.length = static_cast<std::uint64_t>(number(member(info, "length")));
            if (auto const t = find(info, "transform_descriptors");
                t && t_.kind(*t) != kind::none) {
                if (t_.kind(*t) != kind::list) bad("transform descriptors that are not a list");
                for (auto c : t_.children(*t)) {
                    unfolding_.spend(sizeof(std::string) + string(c).size());
                    at.transforms.emplace_back(string(c));
                }
            }
            if (!locations_.try_emplace({std::move(where), whole}, std::move(at)).second)
                bad("two locations for one chunk");
        }
    }

    storage_location take(std::string_view fqn, const index_vector& offset, bool whole) {
        auto const it = locations_.find({key{fqn, offset}, whole});
        bool const known = it != locations_.end();
        if (!known || it->second.file.empty())
            throw error(errc::corrupt,
                        {.fqn = std::string(fqn),
                         .expected = "a storage location for the chunk at " + to_string(offset),
                         .found = known ? "one without a file name, or of another chunk" : "none"});
        ++used_;
        return std::exchange(it->second, {});
    }

    void read_entries(id i) {
        auto const d = dict(i);
        for (std::size_t k = 0; k + 1 < d.size(); k += 2) {
            auto const name = string(d[k]);
            unfolding_.spend(name.size());
            std::string const fqn(name);
            if (m_.entries.find(fqn) != m_.entries.end() ||
                m_.unsupported.find(fqn) != m_.unsupported.end())
                bad("the key '" + fqn + "' twice");
            constexpr std::string_view as = "BytesStorageMetadata";
            if (class_of(d[k + 1]) == as) {
                keep_of_entry(name, as, members_of(d[k + 1], as));
                m_.entries.emplace(fqn, value_metadata{take(name, {}, true)});
                continue;
            }
            std::string unknown_type;
            auto t = tensor(name, d[k + 1], unknown_type);
            if (unknown_type.empty()) {
                m_.entries.emplace(fqn, std::move(t));
                continue;
            }
            auto& u = m_.unsupported[fqn];
            u = {std::move(unknown_type), std::move(t.shape), {}};
            for (std::size_t c = 0; c < t.chunks.size(); ++c) u.files.insert(t.chunks.file(c));
        }
    }

    /// @param unknown_type  Set to the dtype if it is not known; the result's dtype is then
    ///                      meaningless.
    tensor_metadata tensor(std::string_view fqn, id i, std::string& unknown_type) {
        auto const m = instance(i, "TensorStorageMetadata");
        keep_of_entry(fqn, "TensorStorageMetadata", m);
        tensor_metadata t;
        t.shape = size(member(m, "size"));
        if (!is_possible(t.shape))
            throw error(errc::corrupt,
                        {.fqn = std::string(fqn),
                         .expected = "at most " + std::to_string(most_elements) + " elements",
                         .found = "the shape " + to_string(t.shape)});
        unknown_type = properties(fqn, member(m, "properties"), t);
        auto const chunks = member(m, "chunks");
        if (t_.kind(chunks) != kind::list) bad("chunks that are not a list");
        auto const all = t_.children(chunks);
        t.chunks = chunk_list(names_, t.shape.size());
        t.chunks.reserve(std::min(all.size(), locations_.size() - used_));
        for (auto c : all) {
            auto const box_members = instance(c, "ChunkStorageMetadata");
            cairn::chunk x;
            x.region = {size(member(box_members, "offsets")), size(member(box_members, "sizes"))};
            if (x.region.offsets.size() != t.shape.size() ||
                x.region.shape.size() != t.shape.size())
                throw error(
                    errc::corrupt,
                    {.fqn = std::string(fqn),
                     .expected = "chunks of " + detail::counted(t.shape.size(), "dimension"),
                     .found = to_string(x.region)});
            x.at = take(fqn, x.region.offsets, false);
            (void)t.chunks.add();
            t.chunks.set(t.chunks.size() - 1, x, names_->add(x.at.file));
        }
        return t;
    }

    /// @return the dtype if it is not known
    std::string properties(std::string_view fqn, id i, tensor_metadata& t) {
        auto const m = instance(i, "TensorProperties");
        keep_of_entry(fqn, "TensorProperties", m);
        auto const type = member(m, "dtype");
        if (t_.kind(type) != kind::global) refuse(type, "dtype");
        if (auto const grad = find(m, "requires_grad")) t.requires_grad = t_.is_true(*grad);
        auto const [module, name] = t_.class_parts(type);
        auto const d = module == "torch" ? dtype_from_name(name) : std::nullopt;
        if (!d) return t_.class_name(type);
        t.type = *d;
        return {};
    }

    /// Reads what is a path: a user's planner may have stored anything in `planner_data`.
    void read_paths(id i) {
        bool all = t_.kind(i) == kind::dict;
        auto const d = all ? t_.children(i) : std::span<const id>();
        for (std::size_t k = 0; k + 1 < d.size(); k += 2) {
            if (t_.kind(d[k]) != kind::string) {
                all = false;
                continue;
            }
            auto const fqn = t_.text(d[k]);
            unfolding_.spend(fqn.size());
            auto const entry = m_.entries.find(fqn);
            if (entry == m_.entries.end()) {
                // The path of an unsupported or absent entry: no load needs it.
                all = all && is_sequence(d[k + 1]);
                continue;
            }
            if (auto p = path(fqn, d[k + 1]))
                m_.paths.insert_or_assign(entry->first, std::move(*p));
            else
                all = false;
        }
        if (all) return;
        m_.unknown_members.insert("Metadata.planner_data");
        keep("planner_data", i);
    }
    /// Returns the path if its elements, joined by dots, are the key.
    std::optional<key_path> path(std::string_view fqn, id i) const {
        if (!is_sequence(i)) return {};
        auto const steps = t_.children(i);
        if (steps.size() > most_path_steps)
            beyond_limits("a path of more than " + std::to_string(most_path_steps) + " steps");
        key_path p;
        p.reserve(steps.size());
        auto rest = fqn;
        auto const spelled = [&](std::string_view what) {
            bool const so = rest.starts_with(what);
            if (so) rest.remove_prefix(what.size());
            return so;
        };
        for (auto c : steps) {
            if (!p.empty() && !spelled(".")) return {};
            if (t_.kind(c) == kind::integer && t_.number(c) <= INT64_MAX) {
                if (!spelled(std::to_string(number(c)))) return {};
                p.emplace_back(number(c));
            } else {
                if (t_.kind(c) != kind::string || !spelled(t_.text(c))) return {};
                p.emplace_back(std::string(t_.text(c)));
            }
        }
        if (p.empty() || !rest.empty()) return {};
        return p;
    }

    const pickle::tree& t_;
    metadata m_;
    chunk_list::names_ptr names_ = std::make_shared<file_names>();
    std::map<std::pair<key, bool>, storage_location> locations_;
    std::size_t used_ = 0;
    std::set<std::string> not_kept_{};  ///< Members of entries of which some cannot be copied.
    unfolding unfolding_;
};

/// @param bytes     May continue after the pickle's STOP.
/// @param consumed  Set to the pickle's length.
inline metadata parse_metadata_pickle(std::span<const std::byte> bytes,
                                      std::size_t* consumed = nullptr) {
    auto const t = pickle::reader::read(bytes);
    if (consumed != nullptr) *consumed = t.source_bytes;
    return metadata_reader(t).read();
}

}  // namespace cairn::format::torch

#endif
