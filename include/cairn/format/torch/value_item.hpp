// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_VALUE_ITEM_HPP
#define CAIRN_FORMAT_TORCH_VALUE_ITEM_HPP

#include <cairn/format/pickle/reader.hpp>
#include <cairn/format/pickle/to_value.hpp>
#include <cairn/format/torch/archive.hpp>
#include <cairn/format/torch/value_pickler.hpp>
#include <cairn/format/zip/reader.hpp>
#include <cairn/metadata/value.hpp>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::format::torch {

/// Encodes the whole item of a value that is not a tensor.
inline std::vector<std::byte> encode_value(const value& v) {
    if (auto const* o = v.get_if<value::opaque_t>()) return o->item();
    archive a;
    a.add_preamble(value_pickler::pickle(v));
    a.finish(object_names_hash);
    return a.take();
}

/// Reads the small records of an item, checks all CRCs, and locates the large records.
struct item_records {
    std::vector<zip::entry> entries;
    std::vector<std::byte> pickle;
    bool checked = false;  ///< False: PyTorch's set_crc32_options turned checksums off.

    /// @param limit    A longer record is refused with errc::unsupported.
    /// @param threads  Number of reads at once of the headers of records.
    static item_records read(const read_at& source, std::uint64_t length, std::uint64_t limit,
                             std::size_t threads = 1) {
        item_records r;
        r.entries = zip::reader(source, length, threads).entries();
        bool version = false;
        // PyTorch writes 0 for all if told to compute none; damage does not produce that.
        for (auto const& e : r.entries) r.checked = r.checked || e.crc != 0;
        for (auto const& e : r.entries) {
            if (e.name.starts_with("data/")) continue;
            if (e.size > limit)
                pickle::beyond_limits("a record '" + e.name + "' of " + std::to_string(e.size) +
                                      " bytes");
            std::vector<std::byte> bytes(static_cast<std::size_t>(e.size));
            source(e.data, bytes);
            if (r.checked && crc32(bytes) != e.crc)
                throw error(errc::checksum_mismatch,
                            {.expected = "record '" + e.name + "' as it was written",
                             .found = "other bytes"});
            if (e.name == "version") version = true;
            if (e.name == "data.pkl")
                r.pickle = std::move(bytes);
            else if (e.name == "byteorder")
                r.big_endian = bytes.size() == 3;
        }
        if (!version) zip::malformed("no record 'version'");
        if (r.pickle.empty()) zip::malformed("no record 'data.pkl'");
        return r;
    }
    bool big_endian = false;
};

/// Returns what reads an item that is in memory.
inline read_at reading(std::span<const std::byte> item) {
    return [item](std::uint64_t at, std::span<std::byte> into) {
        if (at > item.size() || into.size() > item.size() - at)
            zip::malformed("an offset beyond its end");
        if (!into.empty()) std::memcpy(into.data(), item.data() + at, into.size());
    };
}

/// Decodes the value in an item: an opaque one if it is not a plain value of Python's.
/// @param checked  Set to whether the item has checksums.
inline value decode_value(std::span<const std::byte> item, bool* checked = nullptr) {
    auto const r = item_records::read(reading(item), item.size(), item.size());
    if (checked != nullptr) *checked = r.checked;
    pickle::tree t;
    std::string what;
    try {
        t = pickle::reader::read(r.pickle);
        return pickle::to_value(t)(t.root);
    } catch (const error& e) {
        if (e.code() != make_error_code(errc::unsupported)) throw;
        what = e.context().found;
    }
    if (auto classes = pickle::to_value::unknown_classes(t); !classes.empty())
        what = std::move(classes);
    // Tensors within it are part of what is kept.
    for (auto const& e : r.entries)
        if (r.checked && e.name.starts_with("data/") &&
            crc32(item.subspan(static_cast<std::size_t>(e.data),
                               static_cast<std::size_t>(e.size))) != e.crc)
            throw error(
                errc::checksum_mismatch,
                {.expected = "record '" + e.name + "' as it was written", .found = "other bytes"});
    return value::opaque_t{{item.begin(), item.end()}, std::move(what)};
}

}  // namespace cairn::format::torch

#endif
