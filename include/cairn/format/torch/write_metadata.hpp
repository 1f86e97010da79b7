// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_WRITE_METADATA_HPP
#define CAIRN_FORMAT_TORCH_WRITE_METADATA_HPP

#include <cairn/detail/name_numbers.hpp>
#include <cairn/format/pickle/copy.hpp>
#include <cairn/format/pickle/reader.hpp>
#include <cairn/format/pickle/writer.hpp>
#include <cairn/format/unfolding.hpp>
#include <cairn/metadata/detail/file_numbers.hpp>
#include <cairn/metadata/metadata.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
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
    /// @param room  The number of bytes to reserve, also for what the caller appends to the result.
    static std::vector<std::byte> write(const metadata& m, std::size_t room) {
        metadata_writer w;
        w.p_.reserve(room);
        w.run(m);
        return w.p_.finish();
    }

    /// Whether a pickle that was written so has what @ref foreign_metadata keeps: its members are
    /// the first, or `storage_meta` is.
    static bool has_foreign(std::span<const std::byte> pickle) {
        metadata_writer w;
        w.begin_instance(w.metadata_);
        w.p_.op('}');
        w.p_.mark();
        w.name(first_member);
        auto usual = w.p_.finish();
        usual.pop_back();  // the end of a pickle
        return !std::ranges::equal(usual, pickle.first(std::min(usual.size(), pickle.size())));
    }

private:
    static constexpr const char* module = "torch.distributed.checkpoint.metadata";
    static constexpr std::string_view first_member = "state_dict_metadata";

    void run(const metadata& m) {
        if (m.foreign.name.empty()) {
            begin_instance(metadata_);
        } else {
            named_global subclass{m.foreign.module, m.foreign.name};
            begin_instance(subclass);
        }
        p_.op('}');
        p_.mark();
        for (auto const& [member, bytes] : m.foreign.members) {
            name(member);
            copy(bytes);
        }
        bool const some_of_entries = !m.foreign.of_entries.empty();
        if (some_of_entries) storage_meta();
        name(first_member);
        mapping(m.entries.size(), [&] {
            for (auto const& [fqn, entry] : m.entries) {
                name(fqn);
                auto const kept = m.foreign.of_entries.find(fqn);
                auto const* more = kept == m.foreign.of_entries.end() ? nullptr : &kept->second;
                if (auto const* t = std::get_if<tensor_metadata>(&entry))
                    tensor(*t, more);
                else
                    value(more);
            }
        });
        // What was kept has the paths, and more.
        if (!m.foreign.members.contains("planner_data")) {
            name("planner_data");
            paths(m);
        }
        name("storage_data");
        std::size_t places = 0;
        for (auto const& [fqn, entry] : m.entries)
            places += entry.index() == 0 ? std::get<tensor_metadata>(entry).chunks.size() : 1;
        mapping(places, [&] {
            for (auto const& [fqn, entry] : m.entries) {
                if (auto const* t = std::get_if<tensor_metadata>(&entry)) {
                    for (std::size_t i = 0; i < t->chunks.size(); ++i) place(fqn, t->chunks, i);
                } else {
                    place(fqn, std::get<value_metadata>(entry).at);
                }
            }
        });
        if (!some_of_entries) storage_meta();
        p_.op('u');
        p_.op('b');
    }
    void storage_meta() {
        name("storage_meta");
        p_.none();
    }
    void copy(std::span<const std::byte> pickle) {
        auto const t = pickle::reader::read(pickle);
        unfolding budget(pickle.size());
        pickle::copier(t, budget, p_)(t.root);
    }

    using pickles = foreign_metadata::pickles;
    /// Calls `f(member, pickle)` for the members of a class.
    template <class F>
    static void for_each_of(const pickles* more, std::string_view of, F&& f) {
        if (more == nullptr) return;
        for (auto const& [member, pickle] : *more)
            if (std::string_view const name = member;
                name.size() > of.size() && name.starts_with(of) && name[of.size()] == '.')
                f(name.substr(of.size() + 1), pickle);
    }
    /// Writes unknown members as they were.
    void members_of(const pickles* more, std::string_view of) {
        for_each_of(more, of, [&](std::string_view member, std::span<const std::byte> pickle) {
            name(member);
            copy(pickle);
        });
    }
    void value(const pickles* more) {
        begin_instance(value_);
        bool any = false;
        for_each_of(more, value_.name, [&](auto, auto) { any = true; });
        if (!any) return;
        p_.op('}');
        p_.mark();
        members_of(more, value_.name);
        p_.op('u');
        p_.op('b');
    }

    void paths(const metadata& m) {
        if (m.paths.empty()) return p_.none();
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

    /// Writes a mapping whose items `fill` writes; large ones as one batch, as readers accept.
    template <class F>
    void mapping(std::size_t n, F&& fill) {
        p_.op('}');
        if (n == 0) return;
        p_.mark();
        fill();
        p_.op('u');
    }

    /// Numbers of the memo, by what they stand for.
    using memo = std::map<std::string, std::uint32_t, std::less<>>;
    void remembered(memo& known, std::string_view key, auto&& write) {
        auto const it = known.find(key);
        if (it != known.end()) return p_.get(it->second);
        write();
        known.emplace(std::string(key), p_.put());
    }
    /// @param s  Outlives this.
    void name(std::string_view s) { (void)named(s); }
    /// Writes a name. @return its number in `name_memo_`
    std::uint32_t named(std::string_view s) {
        auto const n = names_.add(s);
        if (n < name_memo_.size()) {
            p_.get(name_memo_[n]);
        } else {
            p_.string(s);
            name_memo_.push_back(p_.put());
        }
        return n;
    }
    /// A class or a function, with its number in the memo.
    struct named_global {
        std::string_view module, name;
        std::optional<std::uint32_t> number{};  ///< In the memo.
    };
    void global(named_global& g) {
        if (g.number) return p_.get(*g.number);
        p_.global(g.module, g.name);
        g.number = p_.put();
    }
    /// Writes `cls.__new__(cls)`.
    void begin_instance(named_global& cls) {
        global(cls);
        p_.op(')');
        p_.op(0x81);
    }
    /// Writes a `torch.Size`, and returns its number in the memo.
    /// @param s  Outlives this.
    std::uint32_t size(std::span<const std::int64_t> s) {
        auto const known = sizes_.add({reinterpret_cast<const char*>(s.data()), s.size_bytes()});
        if (known < size_memo_.size()) {
            p_.get(size_memo_[known]);
            return size_memo_[known];
        }
        global(size_);
        p_.begin_tuple(s.size());
        for (auto n : s) p_.integer(n);
        p_.end_tuple(s.size());
        p_.op(0x85);
        p_.op('R');
        return size_memo_.emplace_back(p_.put());
    }

    /// @param more  Unknown members; may be null.
    void tensor(const tensor_metadata& t, const pickles* more) {
        begin_instance(tensor_);
        p_.op('}');
        p_.mark();
        members_of(more, tensor_.name);
        name("properties");
        std::map<std::size_t, std::span<const std::byte>> others;  // by their positions
        for_each_of(more, properties_.name,
                    [&](std::string_view member, std::span<const std::byte> pickle) {
                        std::size_t at = 0;
                        for (char const c : member)
                            at = 10 * at + static_cast<std::size_t>(c - '0');
                        others[at] = pickle;
                    });
        std::string const kind = std::string(name_of(t.type)) + (t.requires_grad ? "+" : "-");
        if (others.empty())
            remembered(kinds_, kind, [&] { properties(t, others); });
        else
            properties(t, others);
        name("size");
        size(t.shape);
        name("chunks");
        p_.op(']');
        if (!t.chunks.empty()) {
            p_.mark();
            std::uint32_t lengths = 0;
            for (std::size_t i = 0; i < t.chunks.size(); ++i) {
                global(chunk_);
                offset_memo_.push_back(size(t.chunks.offsets(i)));
                if (i > 0 && std::ranges::equal(t.chunks.lengths(i), t.chunks.lengths(i - 1)))
                    p_.get(lengths);
                else
                    lengths = size(t.chunks.lengths(i));
                p_.op(0x86);
                p_.op('R');
            }
            p_.op('e');
        }
        p_.op('u');
        p_.op('b');
    }
    void properties(const tensor_metadata& t,
                    const std::map<std::size_t, std::span<const std::byte>>& others) {
        begin_instance(properties_);
        p_.mark();
        remembered(types_, name_of(t.type), [&] { p_.global("torch", name_of(t.type)); });
        remembered(constants_, "strided", [&] {
            p_.global("torch.serialization", "_get_layout");
            p_.string("torch.strided");
            p_.op(0x85);
            p_.op('R');
        });
        p_.boolean(t.requires_grad);
        remembered(constants_, "contiguous", [&] {
            p_.global(module, "_MEM_FORMAT_ENCODING");
            p_.integer(0);
            p_.op(0x85);
            p_.op('R');
        });
        p_.boolean(false);
        std::size_t n = 5;
        for (auto const& [at, pickle] : others) {
            for (; n < at; ++n) p_.none();
            copy(pickle);
            ++n;
        }
        p_.op('t');
        p_.op('b');
    }
    /// Writes `MetadataIndex(fqn, offset)` → `_StorageInfo(relative_path, offset, length)`.
    void place(const std::string& fqn, const chunk_list& chunks, std::size_t i) {
        global(index_);
        name(fqn);
        p_.get(offset_memo_[placed_++]);
        p_.op(0x86);
        p_.op('R');
        global(place_);
        p_.mark();
        bool written = false;
        auto const n = files_.of(chunks, i, [&](const std::string& file) {
            written = true;
            return named(file);
        });
        if (!written) p_.get(name_memo_[n]);
        auto const& at = chunks.row_of(i);
        auto const* other = chunks.unusual(i);
        range(at.offset, at.length, other != nullptr ? other->at.transforms : none_);
    }
    void place(const std::string& fqn, const storage_location& at) {
        global(index_);
        name(fqn);
        p_.op(0x85);
        p_.op('R');
        global(place_);
        p_.mark();
        name(at.file);
        range(at.offset, at.length, at.transforms);
    }
    void range(std::uint64_t offset, std::uint64_t length,
               const std::vector<std::string>& transforms) {
        p_.integer(static_cast<std::int64_t>(offset));
        p_.integer(static_cast<std::int64_t>(length));
        if (!transforms.empty()) {
            p_.op(']');
            p_.mark();
            for (auto const& t : transforms) name(t);
            p_.op('e');
        }
        p_.op('t');
        p_.op('R');
    }

    pickle::writer p_{};
    cairn::detail::name_numbers names_{};
    std::vector<std::uint32_t> name_memo_{};  ///< By the numbers of the names.
    cairn::detail::file_numbers files_{};     ///< In `name_memo_`.
    const std::vector<std::string> none_{};
    cairn::detail::name_numbers sizes_{};     ///< Their bytes are the names.
    std::vector<std::uint32_t> size_memo_{};  ///< By the numbers of the sizes.
    /// Of each chunk, in the order in which chunks and then their places are written.
    std::vector<std::uint32_t> offset_memo_{};
    std::size_t placed_ = 0;  ///< Chunks whose places are written.
    memo kinds_{}, types_{}, constants_{};
    named_global metadata_{module, "Metadata"};
    named_global value_{module, "BytesStorageMetadata"};
    named_global tensor_{module, "TensorStorageMetadata"};
    named_global properties_{module, "TensorProperties"};
    named_global chunk_{module, "ChunkStorageMetadata"};
    named_global index_{module, "MetadataIndex"};
    named_global place_{"torch.distributed.checkpoint.filesystem", "_StorageInfo"};
    named_global size_{"torch", "Size"};
};

inline std::vector<std::byte> write_metadata_pickle(const metadata& m, std::size_t room = 0) {
    return metadata_writer::write(m, room);
}

}  // namespace cairn::format::torch

#endif
