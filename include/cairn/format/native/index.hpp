// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_NATIVE_INDEX_HPP
#define CAIRN_FORMAT_NATIVE_INDEX_HPP

#include <cairn/detail/name_numbers.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/format/native/commit_section.hpp>
#include <cairn/format/torch/metadata_pickle.hpp>
#include <cairn/format/unfolding.hpp>
#include <cairn/metadata/codec.hpp>
#include <cairn/metadata/file_names.hpp>
#include <cairn/metadata/file_numbers.hpp>
#include <cairn/metadata/metadata.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::format::native {

namespace impl {

using cairn::detail::wire_reader;
using cairn::detail::wire_writer;

class encoder {
public:
    encoder(const metadata& m, wire_writer& w) : m_(m), w_(w) {}

    void run() {
        w_.u8(1);
        w_.string(m_.save_id);
        collect_names();
        put(w_, m_.file_sizes);
        w_.varint(m_.entries.size());
        for (auto const& [fqn, entry] : m_.entries) {
            w_.string(fqn);
            if (auto const* t = std::get_if<tensor_metadata>(&entry)) {
                w_.u8(t->requires_grad ? 2 : 1);
                put(w_, t->type);
                put(w_, t->shape);
                put_chunks(t->chunks);
            } else {
                w_.u8(0);
                location(std::get<value_metadata>(entry).at);
            }
        }
        w_.varint(m_.paths.size());
        for (auto const& [fqn, steps] : m_.paths) {
            w_.string(fqn);
            put(w_, steps);
        }
    }

private:
    /// Numbers the data files, by which chunks refer to them.
    void collect_names() {
        for (auto const& [fqn, entry] : m_.entries) {
            if (auto const* t = std::get_if<tensor_metadata>(&entry))
                for (std::size_t i = 0; i < t->chunks.size(); ++i) (void)number_of(t->chunks, i);
            else
                names_.add(std::get<value_metadata>(entry).at.file);
        }
        w_.varint(names_.size());
        for (auto const& name : names_.names()) w_.string(name);
    }
    std::uint32_t number_of(const chunk_list& chunks, std::size_t i) {
        return numbers_.of(chunks, i, [&](const std::string& name) { return names_.add(name); });
    }
    void put_chunks(const chunk_list& chunks) {
        w_.varint(chunks.size());
        for (std::size_t i = 0; i < chunks.size(); ++i) {
            if (auto const* c = chunks.unusual(i)) {
                put_chunk_numbers(w_, c->region.offsets);
                put_chunk_numbers(w_, c->region.shape);
                location(c->at);
                continue;
            }
            put_chunk_numbers(w_, chunks.offsets(i));
            put_chunk_numbers(w_, chunks.lengths(i));
            w_.varint(number_of(chunks, i));
            put_within_file(w_, chunks.row_of(i), chunks.lengths(i));
        }
    }
    void location(const storage_location& at) {
        w_.varint(names_.add(at.file));
        put_within_file(w_, at);
    }

    const metadata& m_;
    wire_writer& w_;
    cairn::detail::name_numbers names_;
    cairn::detail::file_numbers numbers_;
};

/// About as many bytes as `.metadata` takes, rather more.
inline std::size_t usual_bytes(const metadata& m) {
    std::size_t n = 4096;
    for (auto const& [fqn, entry] : m.entries) {
        auto const* t = std::get_if<tensor_metadata>(&entry);
        n += 128 + 4 * fqn.size() + (t != nullptr ? 80 * t->chunks.size() : 0);
    }
    return n;
}

class decoder {
public:
    explicit decoder(std::span<const std::byte> b) : r_(b), unfolding_(b.size()) {}

    metadata run() {
        if (r_.u8() != 1) wire_reader::fail("an index of an unknown version");
        metadata m;
        m.save_id = r_.string();
        // A name may be there twice: a number is a position.
        for (auto const& name : get_strings(r_)) numbers_.push_back(names_->add(name));
        m.file_sizes = get_file_sizes(r_);
        for (auto n = r_.count(2); n-- > 0;) {
            auto fqn = r_.string();
            auto const kind = r_.u8();
            if (kind > 2) wire_reader::fail("an entry of an unknown kind");
            auto& entry = place_for(m.entries, fqn);
            if (kind == 0)
                entry = value_metadata{location(fqn)};
            else
                entry = tensor(fqn, kind == 2);
        }
        for (auto n = r_.count(2); n-- > 0;) {
            auto fqn = r_.string();
            place_for(m.paths, fqn) = get_path(r_);
        }
        if (r_.left() != 0) wire_reader::fail("bytes after the index");
        return m;
    }

private:
    /// Returns the entry for a key that must be new.
    template <class Map>
    static typename Map::mapped_type& place_for(Map& map, const std::string& fqn) {
        auto const before = map.size();
        auto const found = map.try_emplace(map.end(), fqn);  // cairn writes them in order
        if (map.size() == before) wire_reader::fail("a key twice");
        return found->second;
    }
    tensor_metadata tensor(const std::string& fqn, bool requires_grad) {
        tensor_metadata t;
        t.requires_grad = requires_grad;
        t.type = get_dtype(r_);
        t.shape = get_shape(r_);
        auto const rank = t.shape.size();
        auto const chunks = r_.count(2 * rank + 4);
        t.chunks = chunk_list(names_, rank);
        t.chunks.reserve(chunks);
        for (std::size_t i = 0; i < chunks; ++i) {
            auto const blank = t.chunks.add();
            get_chunk_numbers(r_, blank.offsets);
            get_chunk_numbers(r_, blank.lengths);
            blank.at.file = file_of(fqn);
            auto unusual = get_within_file(r_, blank.at, blank.lengths);
            if (!unusual) continue;
            unusual->file = t.chunks.file(i);
            t.chunks.set(i, {{blank.offsets, blank.lengths}, *unusual}, blank.at.file);
        }
        return t;
    }
    std::uint32_t file_of(const std::string& fqn) {
        auto const n = r_.varint();
        if (n >= numbers_.size()) wire_reader::fail("an unknown file number");
        auto const file = numbers_[static_cast<std::size_t>(n)];
        unfolding_.spend(fqn.size() + (*names_)[file].size());
        return file;
    }
    storage_location location(const std::string& fqn) {
        auto const file = file_of(fqn);
        return get_within_file(r_, (*names_)[file]);
    }

    wire_reader r_;
    chunk_list::names_ptr names_ = std::make_shared<file_names>();
    std::vector<std::uint32_t> numbers_;  ///< Of the names, by their positions.
    unfolding unfolding_;
};

}  // namespace impl

/// Encodes all of a checkpoint's metadata compactly: the content of the native index, and what
/// ranks send to each other.
inline std::vector<std::byte> encode_metadata(const metadata& m) {
    cairn::detail::wire_writer w;
    impl::encoder(m, w).run();
    return w.take();
}
inline metadata decode_metadata(std::span<const std::byte> b) {
    return impl::decoder(b).run();
}

inline constexpr std::string_view index_magic = "cairnidx";

/// The content of a `.metadata` file.
struct metadata_file {
    metadata meta{};
    bool has_index = false;      ///< Written by cairn.
    bool torch_metadata = true;  ///< PyTorch can read it too.
    std::optional<commit_record> record{};
    std::size_t pickle_bytes = 0;
};

/// Returns the stub that replaces the pickle: a pickle of a class that does not exist in Python, so
/// that PyTorch fails with "No module named '…'", which states the reason.
inline std::span<const std::byte> no_torch_metadata() {
    static constexpr std::string_view stub =
        "\x80\x02"
        "ccairn checkpoint with torch_metadata off: PyTorch cannot load it, cairn can\nMetadata\n.";
    return std::as_bytes(std::span(stub.data(), stub.size()));
}

/// Returns the bytes of `.metadata`: PyTorch's pickle, then, where PyTorch does not look, the
/// commit record, if there is one, and the native index:
///
///     index magic · length of the body u64 · body · CRC-32 of all before the index · CRC-32 of the
///     index up to here · length of the index u64 · index magic
///
/// @param torch_metadata  False: instead of the pickle, a stub that PyTorch refuses.
/// @param record          May be null.
/// @throws error errc::invalid_state for metadata that no reader would accept
inline std::vector<std::byte> make_metadata_file(const metadata& m, bool torch_metadata = true,
                                                 const commit_record* record = nullptr) {
    auto const magic = std::as_bytes(std::span(index_magic.data(), index_magic.size()));
    auto const stub = no_torch_metadata();
    auto out = torch_metadata ? torch::write_metadata_pickle(m, impl::usual_bytes(m))
                              : std::vector<std::byte>(stub.begin(), stub.end());
    if (record != nullptr) append_commit_section(out, *record);
    auto const pickle_crc = crc32(out);
    auto const begin = out.size();
    cairn::detail::wire_writer w(std::move(out));  // one buffer: it may have gigabytes
    w.raw(magic);
    w.u64(0);
    auto const body = w.size();
    impl::encoder(m, w).run();
    auto const length = w.size() - body;
    w.set_u64(body - 8, length);
    unfolding::check(m, length);
    w.u32(pickle_crc);
    w.u32(crc32(w.written().subspan(begin)));
    w.u64(w.size() - begin + 16);
    w.raw(magic);
    return w.take();
}

/// Reads `.metadata`: from the native index if cairn wrote one, after checking its CRC and the
/// pickle's; otherwise from the pickle. Anything after the pickle that is not a valid index is an
/// error, so that a damaged index is never taken for a file of PyTorch's.
/// @throws error errc::corrupt, errc::checksum_mismatch, errc::unsupported.
inline metadata_file parse_metadata_file(std::span<const std::byte> bytes) {
    using cairn::detail::wire_reader;
    auto const damaged = [](const char* what) {
        return error(errc::checksum_mismatch,
                     {.expected = "the index as it was written", .found = what});
    };
    auto const is_magic = [](std::span<const std::byte> b) {
        return std::memcmp(b.data(), index_magic.data(), index_magic.size()) == 0;
    };
    metadata_file f;
    if (bytes.size() >= 40 && is_magic(bytes.last(8))) {
        auto const length = wire_reader(bytes.last(16)).u64();
        if (length < 40 || length > bytes.size()) throw damaged("an impossible length");
        auto const index = bytes.last(static_cast<std::size_t>(length));
        auto pickle = bytes.first(bytes.size() - index.size());
        if (!is_magic(index)) throw damaged("no magic at its start");
        if (wire_reader(index.subspan(index.size() - 20)).u32() !=
            crc32(index.first(index.size() - 20)))
            throw damaged("other bytes");
        wire_reader r(index.subspan(8));
        auto const body = r.raw(static_cast<std::size_t>(r.u64()));
        if (r.u32() != crc32(pickle)) throw damaged("a pickle with another checksum");
        if (r.left() != 20) throw damaged("a body of another length");
        f.meta = decode_metadata(body);
        f.has_index = true;
        if (auto const n = commit_section_length(pickle); n != 0) {
            f.record = decode_commit_section(pickle.last(n));
            pickle = pickle.first(pickle.size() - n);
        }
        auto const stub = no_torch_metadata();
        f.torch_metadata = !std::equal(pickle.begin(), pickle.end(), stub.begin(), stub.end());
        f.pickle_bytes = pickle.size();
        return f;
    }
    f.meta = torch::parse_metadata_pickle(bytes, &f.pickle_bytes);
    if (f.pickle_bytes != bytes.size()) throw damaged("other bytes after the pickle");
    return f;
}

/// Checks that the pickle, which PyTorch reads, and the index, which cairn reads, agree.
/// @throws error errc::corrupt naming what differs.
inline void check_pickle_agrees(std::span<const std::byte> bytes) {
    auto const f = parse_metadata_file(bytes);
    if (!f.has_index || !f.torch_metadata) return;
    auto const pickle = torch::parse_metadata_pickle(bytes);
    auto stripped = f.meta;
    stripped.save_id.clear();
    stripped.file_sizes.clear();
    for (auto& [fqn, entry] : stripped.entries) {
        if (auto* t = std::get_if<tensor_metadata>(&entry))
            t->chunks.edit_each([](chunk& c) { c.at.layout.reset(); });
        else
            std::get<value_metadata>(entry).at.layout.reset();
        auto const it = pickle.entries.find(fqn);
        if (it == pickle.entries.end() || it->second != entry)
            throw error(errc::corrupt, {.fqn = fqn,
                                        .expected = "the pickle to say what the index says",
                                        .found = "something else"});
    }
    if (stripped.entries.size() != pickle.entries.size() || stripped.paths != pickle.paths)
        throw error(errc::corrupt, {.expected = "the pickle to name what the index names",
                                    .found = "other keys or paths"});
}

}  // namespace cairn::format::native

#endif
