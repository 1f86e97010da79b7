// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_REPORT_CONTENT_HPP
#define CAIRN_TOOLS_REPORT_CONTENT_HPP

#include <cairn/metadata/metadata.hpp>
#include <cairn/tensor/dtype.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tool::page {

/// A tensor or value, as a row or rectangle shows it.
struct entry {
    std::string_view name{};
    const cairn::tensor_metadata* tensor = nullptr;  ///< Null: a value.
    /// Of a tensor by its shape. Values that are stored as one item share its bytes.
    std::uint64_t bytes = 0;

    std::string_view type() const {
        return tensor != nullptr ? cairn::name_of(tensor->type) : "value";
    }
    std::string shape() const { return tensor != nullptr ? to_string(tensor->shape) : ""; }
};

/// Something that has a share of the bytes: a file, a rank or a dtype.
struct share {
    std::uint64_t bytes = 0;
    std::uint64_t items = 0;  ///< Chunks and values.
};

/// What a page shows of a checkpoint's metadata, which it refers to.
struct content {
    std::vector<entry> entries{};  ///< In the order of their names.
    std::map<std::string, share, std::less<>> files{};
    std::map<std::uint64_t, share> ranks{};  ///< Empty if the names of files do not tell.
    std::map<std::string_view, share> types{};
    std::size_t tensors = 0;
    std::uint64_t elements = 0;
    std::uint64_t bytes = 0;  ///< Of all entries.
};

/// Sums of shapes of 2^62 bytes end at the largest number.
inline void add(std::uint64_t& sum, std::uint64_t n) {
    sum = n > UINT64_MAX - sum ? UINT64_MAX : sum + n;
}

/// Returns the rank that wrote a file, if its name tells: `__R_N…` and `shard-R+1-…` are DCP's.
inline std::optional<std::uint64_t> rank_of(std::string_view file) {
    file = file.substr(file.rfind('/') + 1);
    bool const shard = file.starts_with("shard-");
    if (!shard && !file.starts_with("__")) return {};
    file.remove_prefix(shard ? 6 : 2);
    std::uint64_t rank = 0;
    auto const r = std::from_chars(file.data(), file.data() + file.size(), rank);
    bool const ends = r.ptr != file.data() + file.size() && *r.ptr == (shard ? '-' : '_');
    if (r.ec != std::errc() || !ends || (shard && rank == 0)) return {};
    return rank - (shard ? 1 : 0);
}

/// The colour of a dtype: floating-point types that occur together have one each.
inline std::size_t colour_of(std::string_view type) {
    if (type == "float32") return 0;
    if (type == "bfloat16") return 1;
    if (type == "float16") return 2;
    if (type == "float64") return 3;
    if (type.starts_with("float")) return 4;
    if (type.starts_with("int")) return 5;
    if (type.starts_with("uint")) return 6;
    return type == "value" ? 8 : 7;  // bool, complex
}

/// How many values are stored in one item: all those of a torch.save file are one pickle.
class value_shares {
public:
    explicit value_shares(const cairn::metadata& m) {
        for (auto const& [name, stored] : m.entries)
            if (auto const* v = std::get_if<cairn::value_metadata>(&stored)) ++at(*v).first;
    }
    /// Returns the bytes of the next value of an item, so that they add up to those of the item.
    std::uint64_t next(const cairn::value_metadata& v) {
        auto& [count, seen] = at(v);
        ++seen;
        return v.at.length / count + (seen <= v.at.length % count ? 1 : 0);
    }

private:
    std::pair<std::uint64_t, std::uint64_t>& at(const cairn::value_metadata& v) {
        return items_[{v.at.file, v.at.offset}];
    }
    std::map<std::pair<std::string_view, std::uint64_t>, std::pair<std::uint64_t, std::uint64_t>>
        items_{};
};

/// @param m  Outlives the result.
inline content content_of(const cairn::metadata& m) {
    content c;
    value_shares values(m);
    std::map<std::string_view, share> files;
    auto const note_file = [&](std::string_view file, std::uint64_t length) {
        auto& f = files[file];
        ++f.items;
        add(f.bytes, length);
    };
    for (auto const& [name, stored] : m.entries) {
        entry e{name, std::get_if<cairn::tensor_metadata>(&stored), 0};
        if (e.tensor != nullptr) {
            auto const elements = static_cast<std::uint64_t>(e.tensor->shape.product());
            e.bytes = elements * cairn::size_of(e.tensor->type);
            add(c.elements, elements);
            ++c.tensors;
            auto const& chunks = e.tensor->chunks;
            for (std::size_t i = 0; i < chunks.size(); ++i)
                note_file(chunks.file(i), chunks.row_of(i).length);
        } else {
            auto const& v = std::get<cairn::value_metadata>(stored);
            e.bytes = values.next(v);
            note_file(v.at.file, e.bytes);
        }
        auto& type = c.types[e.type()];
        ++type.items;
        add(type.bytes, e.bytes);
        add(c.bytes, e.bytes);
        c.entries.push_back(e);
    }
    for (auto const& [name, size] : m.file_sizes) c.files[name].bytes = size;
    for (auto const& [name, f] : files) {
        auto& file = c.files[std::string(name)];
        file.items = f.items;
        if (m.file_sizes.find(name) == m.file_sizes.end()) file.bytes = f.bytes;
    }
    for (auto const& [name, f] : c.files) {
        auto const rank = rank_of(name);
        if (!rank) {
            c.ranks.clear();
            break;
        }
        add(c.ranks[*rank].bytes, f.bytes);
        c.ranks[*rank].items += f.items;
    }
    return c;
}

}  // namespace tool::page

#endif
