// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_NATIVE_INDEX_CONTENT_HPP
#define CAIRN_FORMAT_NATIVE_INDEX_CONTENT_HPP

#include <cairn/detail/name_numbers.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/format/native/chunk_columns.hpp>
#include <cairn/format/unfolding.hpp>
#include <cairn/metadata/detail/codec.hpp>
#include <cairn/metadata/detail/file_numbers.hpp>
#include <cairn/metadata/file_names.hpp>
#include <cairn/metadata/metadata.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::format::native {

/// The metadata of a checkpoint as a whole, without its entries.
struct index_heading {
    struct file {
        std::string name{};
        std::optional<std::uint64_t> size{};
    };
    std::string save_id{};
    std::vector<file> files{};  ///< To which the content refers by position.
};

namespace impl {

/// Of what ranks send to each other.
inline constexpr std::uint8_t sent_version = 4;
/// Its second byte: flags, and the format between them.
inline constexpr unsigned sent_is_file = 1, sent_storage_data = 128;

using cairn::detail::wire_reader;
using cairn::detail::wire_writer;

/// Writes all entries and paths, then the heading, which lists the files that they name.
class content_encoder {
public:
    content_encoder(const metadata& m, wire_writer& w) : m_(m), w_(w) {}

    void content() {
        w_.varint(m_.entries.size());
        for (auto const& [fqn, entry] : m_.entries) {
            w_.string(fqn);
            if (auto const* t = std::get_if<tensor_metadata>(&entry)) {
                w_.u8(t->requires_grad ? 2 : 1);
                put(w_, t->type);
                put(w_, t->shape);
                w_.varint(t->chunks.size());
                if (!t->chunks.empty())
                    chunk_columns(t->shape.size()).put(w_, t->chunks, [&](std::size_t i) {
                        return numbers_.of(t->chunks, i, [&](const std::string& name) {
                            return names_.add(name);
                        });
                    });
            } else {
                auto const& at = std::get<value_metadata>(entry).at;
                w_.u8(0);
                w_.varint(names_.add(at.file));
                put_within_file(w_, at);
            }
        }
        w_.varint(m_.paths.size());
        for (auto const& [fqn, steps] : m_.paths) {
            w_.string(fqn);
            put(w_, steps);
        }
    }
    void heading() {
        w_.string(m_.save_id);
        for (auto const& [name, size] : m_.file_sizes) (void)names_.add(name);
        w_.varint(names_.size());
        for (auto const& name : names_.names()) {
            w_.string(name);
            auto const size = m_.file_sizes.find(name);
            w_.u8(size != m_.file_sizes.end() ? 1 : 0);
            if (size != m_.file_sizes.end()) w_.varint(size->second);
        }
    }

private:
    const metadata& m_;
    wire_writer& w_;
    cairn::detail::name_numbers names_;
    cairn::detail::file_numbers numbers_;
};

inline index_heading decode_heading(std::span<const std::byte> b) {
    wire_reader r(b);
    index_heading h;
    h.save_id = r.string();
    auto const files = r.count(2);
    h.files.reserve(files);
    while (h.files.size() < files) {
        auto& f = h.files.emplace_back();
        f.name = r.string();
        auto const has_size = r.u8();
        if (has_size > 1) wire_reader::fail("unknown flags");
        if (has_size == 1) f.size = r.varint();
    }
    if (r.left() != 0) wire_reader::fail("bytes after the heading");
    return h;
}

class content_decoder {
public:
    content_decoder(std::span<const std::byte> b, const index_heading& h)
        : r_(b), unfolding_(b.size()) {
        m_.save_id = h.save_id;
        for (auto const& f : h.files) {
            auto const fresh = names_->size();
            if (names_->add(f.name) != fresh) wire_reader::fail("a file twice");
            if (f.size) m_.file_sizes.emplace_hint(m_.file_sizes.end(), f.name, *f.size);
        }
    }

    metadata run() {
        for (auto n = r_.count(2); n-- > 0;) {
            auto const fqn = r_.string();
            auto const kind = r_.u8();
            if (kind > 2) wire_reader::fail("an entry of an unknown kind");
            auto& entry = cairn::detail::place_for_key(m_.entries, fqn);
            if (kind == 0) {
                entry = value(fqn);
                continue;
            }
            auto& t = entry.emplace<tensor_metadata>();
            t.requires_grad = kind == 2;
            t.type = get_dtype(r_);
            t.shape = get_shape(r_);
            t.chunks = chunk_list(names_, t.shape.size());
            auto const chunks = r_.count(chunk_columns::least_bytes(t.shape.size()));
            unfolding_.allow(chunks);
            if (chunks != 0)
                chunk_columns(t.shape.size())
                    .get(r_, chunks, t.chunks, *names_,
                         [&](std::uint32_t file) { expand(fqn, file); });
        }
        for (auto n = r_.count(2); n-- > 0;) {
            auto const fqn = r_.string();
            cairn::detail::place_for_key(m_.paths, fqn) = cairn::detail::get_path(r_);
        }
        if (r_.left() != 0) wire_reader::fail("bytes after the index");
        return std::move(m_);
    }

private:
    value_metadata value(const std::string& fqn) {
        auto const n = r_.varint();
        if (n >= names_->size()) wire_reader::fail("an unknown file number");
        auto const file = static_cast<std::uint32_t>(n);
        expand(fqn, file);
        return {get_within_file(r_, (*names_)[file])};
    }
    void expand(const std::string& fqn, std::uint32_t file) {
        unfolding_.spend(fqn.size() + (*names_)[file].size());
    }

    wire_reader r_;
    metadata m_;
    chunk_list::names_ptr names_ = std::make_shared<file_names>();
    unfolding unfolding_;
};

}  // namespace impl

/// Encodes all of a checkpoint's metadata compactly, as ranks send it to each other: a version, the
/// format, `storage_data` if there is some, the unsupported tensors, the length of the content, the
/// content of the native index, and its heading.
inline std::vector<std::byte> encode_metadata(const metadata& m) {
    cairn::detail::wire_writer w;
    w.u8(impl::sent_version);
    w.u8(static_cast<std::uint8_t>(2 * static_cast<unsigned>(m.format) +
                                   (m.is_file ? impl::sent_is_file : 0) +
                                   (m.storage_data.empty() ? 0 : impl::sent_storage_data)));
    if (!m.storage_data.empty()) w.string(m.storage_data);
    w.varint(m.unsupported.size());
    for (auto const& [fqn, t] : m.unsupported) {
        w.string(fqn);
        w.string(t.type);
        cairn::detail::put(w, t.shape);
        w.varint(t.files.size());
        for (auto const& name : t.files) w.string(name);
    }
    auto const at = w.size();
    w.u64(0);
    impl::content_encoder all(m, w);
    all.content();
    w.set_u64(at, w.size() - at - 8);
    all.heading();
    return w.take();
}
/// Returns the same for the metadata of an index, as it is stored.
/// @param index  Its content and heading.
inline std::vector<std::byte> encode_stored(std::span<const std::byte> index,
                                            std::size_t content_length) {
    cairn::detail::wire_writer w;
    w.u8(impl::sent_version);
    w.u8(0);      // An index is of PyTorch's format, in a place,
    w.varint(0);  // and lists nothing that is unsupported.
    w.u64(content_length);
    w.raw(index);
    return w.take();
}
inline metadata decode_metadata(std::span<const std::byte> b) {
    using cairn::detail::wire_reader;
    wire_reader r(b);
    if (r.u8() != impl::sent_version) wire_reader::fail("metadata of an unknown version");
    auto const kind = r.u8();
    auto const format = (kind & ~impl::sent_storage_data) >> 1;
    if (format > static_cast<unsigned>(checkpoint_format::torch_save))
        wire_reader::fail("an unknown format");
    auto storage_data = (kind & impl::sent_storage_data) != 0 ? r.string() : std::string();
    decltype(metadata::unsupported) unsupported;
    for (auto n = r.count(4); n-- > 0;) {
        auto& t = cairn::detail::place_for_key(unsupported, r.string());
        t.type = r.string();
        t.shape = cairn::detail::get_shape(r);
        for (auto files = r.count(); files-- > 0;) t.files.insert(t.files.end(), r.string());
    }
    auto const length = r.u64();
    if (length > r.left()) wire_reader::fail("fewer bytes than announced");
    auto const content = r.raw(static_cast<std::size_t>(length));
    auto m = impl::content_decoder(content, impl::decode_heading(r.raw(r.left()))).run();
    m.unsupported = std::move(unsupported);
    m.format = static_cast<checkpoint_format>(format);
    m.is_file = (kind & impl::sent_is_file) != 0;
    m.storage_data = std::move(storage_data);
    return m;
}

}  // namespace cairn::format::native

#endif
