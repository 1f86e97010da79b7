// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_WRITE_METADATA_HPP
#define CAIRN_FORMAT_TORCH_WRITE_METADATA_HPP

#include <cairn/format/pickle/writer.hpp>
#include <cairn/metadata/metadata.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::format::torch {

/// Writes the pickle that PyTorch 2.3 and later read as `.metadata`.
///
/// Small classes are constructor calls, and repeated names, shapes and classes come from the memo:
/// about 45 bytes per chunk where PyTorch writes 173. Without version and with `storage_meta` None,
/// so that PyTorch 2.3 can open it too.
class metadata_writer {
public:
    static std::vector<std::byte> write(const metadata& m) {
        metadata_writer w;
        w.run(m);
        return w.p_.finish();
    }

private:
    static constexpr const char* module = "torch.distributed.checkpoint.metadata";

    void run(const metadata& m) {
        begin_instance(module, "Metadata");
        p_.op('}');
        p_.mark();
        name("state_dict_metadata");
        mapping(m.entries.size(), [&] {
            for (auto const& [fqn, entry] : m.entries) {
                name(fqn);
                if (auto const* t = std::get_if<tensor_metadata>(&entry))
                    tensor(*t);
                else
                    begin_instance(module, "BytesStorageMetadata");
            }
        });
        name("planner_data");
        if (m.paths.empty()) {
            p_.none();
        } else {
            mapping(m.paths.size(), [&] {
                for (auto const& [fqn, steps] : m.paths) {
                    name(fqn);
                    p_.begin_tuple(steps.size());
                    for (auto const& e : steps) {
                        if (auto const* i = std::get_if<std::int64_t>(&e))
                            p_.integer(*i);
                        else
                            name(std::get<std::string>(e));
                    }
                    p_.end_tuple(steps.size());
                }
            });
        }
        name("storage_data");
        std::size_t places = 0;
        for (auto const& [fqn, entry] : m.entries)
            places += entry.index() == 0 ? std::get<tensor_metadata>(entry).chunks.size() : 1;
        mapping(places, [&] {
            for (auto const& [fqn, entry] : m.entries) {
                if (auto const* t = std::get_if<tensor_metadata>(&entry)) {
                    for (auto const& c : t->chunks) place(fqn, &c.region.offsets, c.at);
                } else {
                    place(fqn, nullptr, std::get<value_metadata>(entry).at);
                }
            }
        });
        name("storage_meta");
        p_.none();
        p_.op('u');
        p_.op('b');
    }

    /// Writes a mapping whose items `fill` writes; large ones as one batch, as readers accept.
    template <class F>
    void mapping(std::size_t n, F&& fill) {
        p_.op('}');
        if (n == 0) return;
        p_.mark();
        fill();
        p_.op('u');
    }

    void remembered(std::map<std::string, std::uint32_t, std::less<>>& memo, std::string_view key,
                    auto&& write) {
        auto const it = memo.find(key);
        if (it != memo.end()) return p_.get(it->second);
        write();
        memo.emplace(std::string(key), p_.put());
    }
    void name(std::string_view s) {
        remembered(names_, s, [&] { p_.string(s); });
    }
    void global(std::string_view mod, std::string_view cls) {
        remembered(globals_, std::string(mod) + "." + std::string(cls),
                   [&] { p_.global(mod, cls); });
    }
    /// cls.__new__(cls)
    void begin_instance(std::string_view mod, std::string_view cls) {
        global(mod, cls);
        p_.op(')');
        p_.op(0x81);
    }
    void size(const index_vector& s) {
        std::string key;
        for (auto n : s) key += std::to_string(n) + ",";
        remembered(sizes_, key, [&] {
            global("torch", "Size");
            p_.begin_tuple(s.size());
            for (auto n : s) p_.integer(n);
            p_.end_tuple(s.size());
            p_.op(0x85);
            p_.op('R');
        });
    }

    void tensor(const tensor_metadata& t) {
        begin_instance(module, "TensorStorageMetadata");
        p_.op('}');
        p_.mark();
        name("properties");
        std::string const kind = std::string(name_of(t.type)) + (t.requires_grad ? "+" : "-");
        remembered(properties_, kind, [&] { properties(t); });
        name("size");
        size(t.shape);
        name("chunks");
        p_.op(']');
        if (!t.chunks.empty()) {
            p_.mark();
            for (auto const& c : t.chunks) {
                global(module, "ChunkStorageMetadata");
                size(c.region.offsets);
                size(c.region.shape);
                p_.op(0x86);
                p_.op('R');
            }
            p_.op('e');
        }
        p_.op('u');
        p_.op('b');
    }
    void properties(const tensor_metadata& t) {
        begin_instance(module, "TensorProperties");
        p_.mark();
        global("torch", name_of(t.type));
        remembered(globals_, "strided", [&] {
            p_.global("torch.serialization", "_get_layout");
            p_.string("torch.strided");
            p_.op(0x85);
            p_.op('R');
        });
        p_.boolean(t.requires_grad);
        remembered(globals_, "contiguous", [&] {
            p_.global(module, "_MEM_FORMAT_ENCODING");
            p_.integer(0);
            p_.op(0x85);
            p_.op('R');
        });
        p_.boolean(false);
        p_.op('t');
        p_.op('b');
    }
    /// MetadataIndex(fqn, offset) → _StorageInfo(relative_path, offset, length)
    void place(const std::string& fqn, const index_vector* offset, const storage_location& at) {
        global(module, "MetadataIndex");
        name(fqn);
        if (offset != nullptr) {
            size(*offset);
            p_.op(0x86);
        } else {
            p_.op(0x85);
        }
        p_.op('R');
        global("torch.distributed.checkpoint.filesystem", "_StorageInfo");
        p_.mark();
        name(at.file);
        p_.integer(static_cast<std::int64_t>(at.offset));
        p_.integer(static_cast<std::int64_t>(at.length));
        if (!at.transforms.empty()) {
            p_.op(']');
            p_.mark();
            for (auto const& t : at.transforms) name(t);
            p_.op('e');
        }
        p_.op('t');
        p_.op('R');
    }

    pickle::writer p_;
    std::map<std::string, std::uint32_t, std::less<>> names_, globals_, sizes_, properties_;
};

inline std::vector<std::byte> write_metadata_pickle(const metadata& m) {
    return metadata_writer::write(m);
}

}  // namespace cairn::format::torch

#endif
