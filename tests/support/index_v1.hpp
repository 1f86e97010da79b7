// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_INDEX_V1_HPP
#define CAIRN_TEST_SUPPORT_INDEX_V1_HPP

#include <cairn/detail/name_numbers.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/format/native/index_magic.hpp>
#include <cairn/metadata/codec.hpp>
#include <cairn/metadata/file_numbers.hpp>
#include <cairn/metadata/metadata.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace support {

/// Writes the body of an index as cairn did before its first release.
class encoder_v1 {
public:
    encoder_v1(const cairn::metadata& m, cairn::detail::wire_writer& w) : m_(m), w_(w) {}

    void run() {
        using cairn::detail::put;
        w_.u8(1);
        w_.string(m_.save_id);
        collect_names();
        put(w_, m_.file_sizes);
        w_.varint(m_.entries.size());
        for (auto const& [fqn, entry] : m_.entries) {
            w_.string(fqn);
            if (auto const* t = std::get_if<cairn::tensor_metadata>(&entry)) {
                w_.u8(t->requires_grad ? 2 : 1);
                put(w_, t->type);
                put(w_, t->shape);
                put_chunks(t->chunks);
            } else {
                w_.u8(0);
                location(std::get<cairn::value_metadata>(entry).at);
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
            if (auto const* t = std::get_if<cairn::tensor_metadata>(&entry))
                for (std::size_t i = 0; i < t->chunks.size(); ++i) (void)number_of(t->chunks, i);
            else
                names_.add(std::get<cairn::value_metadata>(entry).at.file);
        }
        w_.varint(names_.size());
        for (auto const& name : names_.names()) w_.string(name);
    }
    std::uint32_t number_of(const cairn::chunk_list& chunks, std::size_t i) {
        return numbers_.of(chunks, i, [&](const std::string& name) { return names_.add(name); });
    }
    void put_chunks(const cairn::chunk_list& chunks) {
        w_.varint(chunks.size());
        for (std::size_t i = 0; i < chunks.size(); ++i) {
            if (auto const* c = chunks.unusual(i)) {
                cairn::detail::put_chunk_numbers(w_, c->region.offsets);
                cairn::detail::put_chunk_numbers(w_, c->region.shape);
                location(c->at);
                continue;
            }
            cairn::detail::put_chunk_numbers(w_, chunks.offsets(i));
            cairn::detail::put_chunk_numbers(w_, chunks.lengths(i));
            w_.varint(number_of(chunks, i));
            cairn::detail::put_within_file(w_, chunks.row_of(i), chunks.lengths(i));
        }
    }
    void location(const cairn::storage_location& at) {
        w_.varint(names_.add(at.file));
        cairn::detail::put_within_file(w_, at);
    }

    const cairn::metadata& m_;
    cairn::detail::wire_writer& w_;
    cairn::detail::name_numbers names_;
    cairn::detail::file_numbers numbers_;
};

inline std::vector<std::byte> encode_index_v1(const cairn::metadata& m) {
    cairn::detail::wire_writer w;
    encoder_v1(m, w).run();
    return w.take();
}

/// Appends an index of version 1, whatever its body says, to what precedes it.
inline std::vector<std::byte> append_index_v1(std::vector<std::byte> before,
                                              std::span<const std::byte> body) {
    auto const magic = std::as_bytes(std::span(cairn::format::native::index_magic_v1));
    cairn::detail::wire_writer w;
    w.raw(magic);
    w.u64(body.size());
    w.raw(body);
    w.u32(cairn::format::crc32(before));
    w.u32(cairn::format::crc32(w.written()));
    w.u64(w.size() + 16);
    w.raw(magic);
    before.insert(before.end(), w.written().begin(), w.written().end());
    return before;
}

}  // namespace support

#endif
