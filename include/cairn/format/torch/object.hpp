// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_OBJECT_HPP
#define CAIRN_FORMAT_TORCH_OBJECT_HPP

#include <cairn/format/pickle/reader.hpp>
#include <cairn/format/pickle/to_value.hpp>
#include <cairn/format/pickle/writer.hpp>
#include <cairn/format/torch/archive.hpp>
#include <cairn/format/zip/reader.hpp>
#include <cairn/state/value.hpp>

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cairn::format::torch {

/// Pickles a plain value as torch.save does (protocol 2). Containers and strings are remembered in
/// the memo as CPython's pickler would, which shares equal dict keys and names but no other values.
class value_pickler {
public:
    static std::vector<std::byte> pickle(const value& v) {
        value_pickler p;
        p.write(v, 0);
        return p.w_.finish();
    }

private:
    void write(const value& v, int depth) {
        if (depth > 200)
            throw error(errc::invalid_state, {.expected = "a value nested at most 200 deep"});
        std::visit([&](auto const& x) { put(x, depth); }, v.raw());
    }
    void put(value::none_t, int) { w_.none(); }
    void put(bool b, int) { w_.boolean(b); }
    void put(std::int64_t i, int) { w_.integer(i); }
    void put(const big_int& b, int) { w_.big(b.bytes()); }
    void put(double d, int) { w_.real(d); }
    void put(const std::string& s, int) {
        if (s.size() > UINT32_MAX)
            throw error(errc::invalid_state, {.expected = "a str below 4 GiB"});
        w_.string(s);
        w_.put();
    }
    /// `_codecs.encode("…", "latin1")`
    void put(const value::bytes_t& b, int) {
        if (b.empty()) {
            w_.global("__builtin__", "bytes");
            w_.put();
            w_.op(')');
            w_.op('R');
            w_.put();
            return;
        }
        std::string latin1;
        for (auto const x : b) {
            auto const u = static_cast<unsigned>(x);
            if (u < 0x80) {
                latin1.push_back(static_cast<char>(u));
            } else {
                latin1.push_back(static_cast<char>(0xc0 | u >> 6));
                latin1.push_back(static_cast<char>(0x80 | (u & 0x3f)));
            }
        }
        w_.global("_codecs", "encode");
        w_.put();
        w_.string(latin1);
        w_.put();
        w_.string("latin1");
        w_.put();
        w_.op(0x86);
        w_.put();
        w_.op('R');
        w_.put();
    }
    void put(const value::list_t& l, int depth) {
        w_.op(']');
        w_.put();
        batches(l.size(), 'a', 'e', [&](std::size_t i) { write(l[i], depth + 1); });
    }
    void put(const value::tuple_t& t, int depth) {
        w_.begin_tuple(t.items.size());
        for (auto const& i : t.items) write(i, depth + 1);
        if (w_.end_tuple(t.items.size())) w_.put();
    }
    void put(const value::dict_t& d, int depth) {
        w_.op('}');
        w_.put();
        batches(d.items.size(), 's', 'u', [&](std::size_t i) {
            write(d.items[i].first, depth + 1);
            write(d.items[i].second, depth + 1);
        });
    }
    /// CPython appends in batches of 1000; a batch of one has an opcode of its own.
    template <class F>
    void batches(std::size_t n, char single, char many, F&& item) {
        for (std::size_t at = 0; at < n; at += 1000) {
            auto const end = std::min(n, at + 1000);
            bool const one = end - at == 1;
            if (!one) w_.mark();
            for (auto i = at; i < end; ++i) item(i);
            w_.op(static_cast<std::uint8_t>(one ? single : many));
        }
    }

    pickle::writer w_;
};

/// The whole item of a value that is no tensor.
inline std::vector<std::byte> encode_object(const value& v) {
    archive a;
    a.add_preamble(value_pickler::pickle(v));
    a.finish(object_names_hash);
    return a.take();
}

/// Reads the small records of an item, all checked against their CRCs, and finds the large ones.
struct item_records {
    std::vector<zip::entry> entries;
    std::vector<std::byte> pickle;

    /// @param limit  A data.pkl longer than this is refused.
    static item_records read(const read_at& source, std::uint64_t length, std::uint64_t limit) {
        item_records r;
        r.entries = zip::reader(source, length).entries();
        bool version = false;
        for (auto const& e : r.entries) {
            if (e.name.starts_with("data/")) continue;
            if (e.size > limit)
                zip::malformed("a record '" + e.name + "' of " + std::to_string(e.size) + " bytes");
            std::vector<std::byte> bytes(static_cast<std::size_t>(e.size));
            source(e.data, bytes);
            if (crc32(bytes) != e.crc)
                throw error(errc::checksum_mismatch,
                            {.expected = "record '" + e.name + "' as it was written",
                             .found = "other bytes"});
            if (e.name == "version") version = true;
            if (e.name == "data.pkl") r.pickle = std::move(bytes);
            else if (e.name == "byteorder") r.big_endian = bytes.size() == 3;
        }
        if (!version) zip::malformed("no record 'version'");
        if (r.pickle.empty()) zip::malformed("no record 'data.pkl'");
        return r;
    }
    bool big_endian = false;
};

/// The value in an object's item.
inline value decode_object(std::span<const std::byte> item) {
    read_at const source = [item](std::uint64_t at, std::span<std::byte> into) {
        if (at > item.size() || into.size() > item.size() - at)
            zip::malformed("an offset beyond its end");
        if (!into.empty()) std::memcpy(into.data(), item.data() + at, into.size());
    };
    auto const r = item_records::read(source, item.size(), item.size());
    auto const t = pickle::reader::read(r.pickle);
    return pickle::to_value(t)(t.root);
}

}  // namespace cairn::format::torch

#endif
