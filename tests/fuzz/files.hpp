// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_FUZZ_FILES_HPP
#define CAIRN_TEST_FUZZ_FILES_HPP

#include "message.hpp"

#include "support/crafted.hpp"
#include "support/promises.hpp"

#include <cairn/format/native/commit_section.hpp>
#include <cairn/format/native/footer.hpp>
#include <cairn/format/native/index.hpp>
#include <cairn/format/safetensors/header.hpp>
#include <cairn/metadata/check.hpp>

#include <algorithm>

/// What cairn keeps in files of its own, each with its checksum.
namespace fuzz {

namespace native = cairn::format::native;

inline void footer(bytes b) {
    if (b.size() >= native::footer_tail_bytes)
        (void)native::footer_length(b.last(native::footer_tail_bytes));
    auto const f = native::decode_footer(b);
    std::uint64_t end = 0;
    for (auto const& i : f.items) {
        if (i.offset < end || i.length > UINT64_MAX - i.offset || i.payload_offset > i.length ||
            i.payload_length > i.length - i.payload_offset)
            throw support::finding("a footer whose items overlap, or payloads leave their items");
        end = i.offset + i.length;
    }
    reread<fidelity::exact, native::decode_footer, native::encode_footer>(b);
}
inline input change_footer(bytes b, engine& e) {
    return varied<fidelity::exact, native::decode_footer, native::encode_footer>(b, e);
}

inline input encode_record(const cairn::commit_record& r) {
    input out;
    native::append_commit_section(out, r);
    return out;
}
/// Metrics may be NaN: bytes are compared.
inline void record(bytes b) {
    (void)native::commit_section_length(b);
    auto const r = native::decode_commit_section(b);
    auto const written = encode_record(r);
    if (encode_record(native::decode_commit_section(written)) != written)
        throw support::finding("a commit record changes when it is written again");
}
inline input change_record(bytes b, engine& e) {
    return varied<fidelity::none, native::decode_commit_section, encode_record>(b, e);
}

inline input encode_intent(const cairn::detail::save_intent& i) {
    return i.encode();
}
inline input encode_notice(const cairn::detail::read_notice& n) {
    return n.encode();
}
inline void intent(bytes b) {
    reread<fidelity::readable, cairn::detail::save_intent::decode, encode_intent>(b);
}
inline input change_intent(bytes b, engine& e) {
    return varied<fidelity::none, cairn::detail::save_intent::decode, encode_intent>(b, e);
}
inline void notice(bytes b) {
    reread<fidelity::readable, cairn::detail::read_notice::decode, encode_notice>(b);
}
inline input change_notice(bytes b, engine& e) {
    return varied<fidelity::none, cairn::detail::read_notice::decode, encode_notice>(b, e);
}

/// The index without the checksums in front of it.
inline void index_body(bytes b) {
    auto const m = native::decode_metadata(b);
    if (!(native::decode_metadata(native::encode_metadata(m)) == m))
        throw support::finding("an index changes when it is written again");
    cairn::check_metadata(m);
    support::check_promises(m);
}
inline input change_index_body(bytes b, engine& e) {
    return varied<fidelity::none, native::decode_metadata, native::encode_metadata>(b, e);
}

/// A whole `.metadata` file.
inline void metadata_file(bytes b) {
    auto const f = native::parse_metadata_file(b);
    cairn::check_metadata(f.meta);
    support::check_promises(f.meta);
    native::check_pickle_agrees(b);
}
inline void seal_metadata_file(input& b) {
    support::crafted c;
    c.files[".metadata"] = std::move(b);
    c.seal();
    b = std::move(c.files[".metadata"]);
}
/// Metadata and commit record; the pickle says the same, or what it has said.
inline input change_metadata_file(bytes b, engine& e) {
    auto f = decoded<native::parse_metadata_file>(b);
    varier vary(e);
    for (auto n = 1 + e.below(3); n > 0; --n)
        if (f.record && e.one_in(4))
            vary(*f.record);
        else
            vary(f.meta);
    if (e.one_in(16)) f.record.emplace();
    if (!f.has_index) return cairn::format::torch::write_metadata_pickle(f.meta);
    support::crafted c;
    if (e.one_in(2)) {
        c.set_pickle(f.meta);
    } else {
        c.files[".metadata"].assign(b.begin(),
                                    b.begin() + static_cast<std::ptrdiff_t>(f.pickle_bytes));
    }
    if (f.record) native::append_commit_section(c.files[".metadata"], *f.record);
    c.add_index(f.meta);
    return std::move(c.files[".metadata"]);
}

/// A whole safetensors file; its checks leave nothing to what reads it.
inline void safetensors(bytes b) {
    namespace st = cairn::format::safetensors;
    if (b.size() < st::length_bytes) return;
    auto const n = st::header_length(b.first<st::length_bytes>(), b.size());
    auto header = b.subspan(st::length_bytes, static_cast<std::size_t>(n));
    auto const next = [&] {  // in pieces
        auto const some = header.first(std::min<std::size_t>(header.size(), 7));
        header = header.subspan(some.size());
        return some;
    };
    auto const h = st::read_header(next, n, b.size());
    for (auto const& t : h.tensors)
        if (!cairn::detail::fits_in(t.offset, t.length, b.size()) ||
            (t.unknown_dtype.empty() &&
             static_cast<std::uint64_t>(t.shape.product()) * cairn::size_of(t.type) != t.length))
            throw support::finding("a tensor whose bytes are not those of its shape");
    if (auto const info = h.text.find("DCP_SHARDING_INFO"); info != h.text.end())
        (void)st::sharding_info(info->second);
}
/// The length in front is right afterwards.
inline void seal_safetensors(input& b) {
    auto const end = std::find(b.rbegin(), b.rend(), std::byte{'}'});
    if (b.size() < 8 || b.rend() - end <= 8) return;
    auto const n = static_cast<std::uint64_t>(b.rend() - end) - 8;
    for (unsigned i = 0; i < 8; ++i) b[i] = static_cast<std::byte>(n >> (8 * i));
}
inline void weight_map(bytes b) {
    (void)cairn::format::safetensors::weight_map(b);
}

}  // namespace fuzz

#endif
