// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_FUZZ_ITEMS_HPP
#define CAIRN_TEST_FUZZ_ITEMS_HPP

#include "message.hpp"
#include "opcodes.hpp"

#include "support/crafted.hpp"
#include "support/promises.hpp"

#include <cairn/format/pickle/reader.hpp>
#include <cairn/format/pickle/to_value.hpp>
#include <cairn/format/torch/item.hpp>
#include <cairn/format/torch/metadata_pickle.hpp>
#include <cairn/format/zip/writer.hpp>
#include <cairn/metadata/check.hpp>

/// What PyTorch's files consist of: pickles, and zips that hold them.
namespace fuzz {

namespace torch = cairn::format::torch;

/// Whether a value was made of plain values and the four classes that stand for some.
inline void check_classes(const cairn::format::pickle::tree& t, cairn::format::pickle::node_id i) {
    using cairn::format::pickle::node_kind;
    std::size_t from = 0;
    switch (t.kind(i)) {
        case node_kind::list:
        case node_kind::tuple:
        case node_kind::dict: break;
        case node_kind::object: {
            auto const name = t.class_name(t.children(i)[0]);
            if (name == "collections.OrderedDict") {
                from = 3;
                break;
            }
            if (name == "torch.Size" || name == "_codecs.encode" || name == "builtins.bytes" ||
                name == "__builtin__.bytes")
                return;
            throw support::finding("an object of class '" + name + "' was read as a plain value");
        }
        case node_kind::set:
        case node_kind::frozenset:
        case node_kind::collection:
        case node_kind::opaque:
        case node_kind::global:
        case node_kind::persistent: throw support::finding("no plain value was read as one");
        default: return;
    }
    for (auto const child : t.children(i).subspan(from)) check_classes(t, child);
}
inline input pickled(const cairn::value& v) {
    return torch::value_pickler::pickle(v);
}
inline cairn::value unpickled(bytes b) {
    auto const t = cairn::format::pickle::reader::read(b);
    auto v = cairn::format::pickle::to_value(t)(t.root);
    check_classes(t, t.root);
    return v;
}
inline void pickle(bytes b) {
    reread<fidelity::exact, unpickled, pickled>(b);
}
/// What it says, or how it says it.
inline input change_pickle(bytes b, engine& e) {
    return e.one_in(2) ? change_opcodes(b, e) : varied<fidelity::exact, unpickled, pickled>(b, e);
}

inline cairn::metadata read_metadata(bytes b) {
    return torch::parse_metadata_pickle(b);
}
inline void metadata_pickle(bytes b) {
    auto m = read_metadata(b);
    cairn::check_metadata(m);
    support::check_promises(m);
    m.unsupported.clear();  // never written
    m.unknown_members.clear();
    m.spare_files.clear();
    auto const written = torch::write_metadata_pickle(m);
    auto again = read_metadata(written);
    again.unknown_members.clear();
    if (!(again == m))
        throw support::finding("PyTorch's metadata changes when it is written again");
}
inline input change_metadata_pickle(bytes b, engine& e) {
    if (e.one_in(2)) return change_opcodes(b, e);
    auto m = decoded<read_metadata>(b);
    varier vary(e);
    for (auto n = 1 + e.below(3); n > 0; --n) vary(m);
    return torch::write_metadata_pickle(m);
}

/// A zip taken apart, to be put together again.
struct zip_record {
    std::string name{};
    input content{};
};
inline auto fields(zip_record& r) {
    return std::tie(r.name, r.content);
}
inline cairn::format::read_at reads(bytes b) {
    return [b](std::uint64_t at, std::span<std::byte> into) {
        if (at > b.size() || into.size() > b.size() - at)
            cairn::format::zip::malformed("an offset beyond its end");
        if (!into.empty()) std::memcpy(into.data(), b.data() + at, into.size());
    };
}
inline std::vector<zip_record> records_of(bytes b) {
    auto const source = reads(b);
    std::vector<zip_record> all;
    for (auto const& e : cairn::format::zip::reader(source, b.size()).entries()) {
        auto const content =
            b.subspan(static_cast<std::size_t>(e.data), static_cast<std::size_t>(e.size));
        all.push_back({e.name, {content.begin(), content.end()}});
    }
    return all;
}
/// With whatever numbers the directory is to hold; CRCs are made right later.
inline input zip_of(const std::vector<zip_record>& all, engine& e) {
    cairn::detail::wire_writer w;
    std::vector<cairn::format::zip::record> directory;
    for (auto const& one : all) {
        cairn::format::zip::record r{"archive/" + one.name.substr(0, 60000), w.size(),
                                     one.content.size(), cairn::format::crc32(one.content)};
        cairn::format::zip::local_header(w, r, 64);
        w.raw(one.content);
        cairn::format::zip::descriptor(w, r);
        directory.push_back(std::move(r));
    }
    auto at = w.size();
    if (!directory.empty() && e.one_in(6)) {
        auto& r = *e.any(directory);
        e.one_in(2) ? r.header = e.number(r.header) : r.size = e.number(r.size);
    }
    if (e.one_in(16)) at = static_cast<std::size_t>(e.number(at));
    cairn::format::zip::directory(w, directory, at);
    return w.take();
}
inline void seal_item(input& b) {
    support::crafted::seal_zip(b, 0, b.size());
}
/// Records of the zip, and opcodes of its pickle.
inline input change_item(bytes b, engine& e) {
    auto all = records_of(b);
    varier vary(e);
    for (auto n = 1 + e.below(3); n > 0; --n) {
        auto const it =
            std::find_if(all.begin(), all.end(), [](auto& r) { return r.name == "data.pkl"; });
        if (it != all.end() && !e.one_in(4))
            it->content = change_opcodes(it->content, e);
        else
            vary(all);
    }
    return zip_of(all, e);
}

inline void item(bytes b) {
    auto const p = torch::parse_tensor_item(reads(b), b.size());
    __extension__ using wide = __int128;
    auto const elements = static_cast<wide>(p.payload_length / cairn::size_of(p.type));
    wide last = p.storage_offset;
    bool none = false;
    if (p.strides.size() != p.shape.size()) throw support::finding("strides of another rank");
    for (std::size_t d = 0; d < p.shape.size(); ++d) {
        none = none || p.shape[d] == 0;
        last += wide(p.shape[d] - 1) * p.strides[d];
    }
    if (wide(p.payload_offset) + p.payload_length > b.size() || (!none && last >= elements))
        throw support::finding("a tensor beyond its payload, or a payload beyond its item");
}

inline cairn::value decode_object(bytes b) {
    return torch::decode_value(b);
}
inline void object(bytes b) {
    auto const v = torch::decode_value(b);
    if (!v.is<cairn::value::opaque_t>()) {
        auto const r = torch::item_records::read(reads(b), b.size(), b.size());
        auto const t = cairn::format::pickle::reader::read(r.pickle);
        check_classes(t, t.root);
    }
    if (!(torch::decode_value(torch::encode_value(v)) == v))
        throw support::finding("a value changes when it is written again");
}
inline input change_object(bytes b, engine& e) {
    if (e.one_in(2)) return change_item(b, e);
    return varied<fidelity::exact, decode_object, torch::encode_value>(b, e);
}

}  // namespace fuzz

#endif
