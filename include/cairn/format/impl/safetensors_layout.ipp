// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_IMPL_SAFETENSORS_LAYOUT_IPP
#define CAIRN_FORMAT_IMPL_SAFETENSORS_LAYOUT_IPP

#include <cairn/detail/utf8.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/error.hpp>
#include <cairn/format/impl/safetensors.ipp>
#include <cairn/format/json.hpp>
#include <cairn/format/safetensors/dtypes.hpp>
#include <cairn/format/safetensors/header.hpp>
#include <cairn/format/safetensors/layout.hpp>
#include <cairn/printable.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace cairn::format::safetensors {

namespace impl {

/// A JSON string with the escapes that serde_json writes.
inline std::string json_text(std::string_view s) {
    constexpr std::string_view digits = "0123456789abcdef", plain = "\"\\\b\f\n\r\t",
                               escapes = "\"\\bfnrt";
    std::string out = "\"";
    for (char const c : s) {
        auto const code = static_cast<unsigned char>(c);
        if (auto const known = plain.find(c); known != plain.npos)
            out.append({'\\', escapes[known]});
        else if (code < 0x20)
            out.append("\\u00").append({digits[code >> 4], digits[code & 15]});
        else
            out += c;
    }
    return out += '"';
}

/// A dtype of the format whose elements are those of cairn's; null: there is none.
inline const dtype_entry* entry_of(dtype type) {
    auto const* const found = std::find_if(std::begin(dtypes), std::end(dtypes), [&](auto& d) {
        return d.type == type && (type != dtype::uint8 || d.bits == 8);
    });
    return found == std::end(dtypes) ? nullptr : found;
}

inline const dtype_entry& checked_entry(const target_tensor& t) {
    auto const refuse = [&](std::string expected, std::string found, std::string remedy) {
        throw error(errc::unsupported, {.fqn = t.fqn,
                                        .expected = std::move(expected),
                                        .found = std::move(found),
                                        .remedy = std::move(remedy)});
    };
    auto const* const entry = entry_of(t.type);
    if (entry == nullptr)
        refuse("a dtype of safetensors", std::string(name_of(t.type)),
               "leave the tensor out, or save it in two of real numbers");
    if (entry->bits < 8 && t.shape.empty())
        refuse("a tensor of at least one dimension, because its last one counts half bytes", "none",
               "give it the shape [1]");
    if (t.fqn == "__metadata__")
        refuse("another name, because the header's text has this one", "a tensor", "rename it");
    if (cairn::detail::find_not_utf8(t.fqn) != std::string_view::npos)
        refuse("a name in UTF-8", "other bytes", "rename it");
    return *entry;
}

inline void check_names(const std::vector<target_tensor>& tensors) {
    std::vector<std::string_view> names;
    for (auto const& t : tensors) names.push_back(t.fqn);
    std::sort(names.begin(), names.end());
    if (auto const same = std::adjacent_find(names.begin(), names.end()); same != names.end())
        throw error(errc::invalid_argument, {.fqn = std::string(*same),
                                             .expected = "each tensor once",
                                             .found = "two of this name"});
}

inline std::uint64_t bytes_of(const target_tensor& t) {
    return static_cast<std::uint64_t>(t.shape.product()) * size_of(t.type);
}

inline std::string crcs_text(const target_file& file, const tensor_crcs& crcs) {
    std::string json = "{";
    for (auto const& t : file.tensors)
        json += (json.size() == 1 ? "" : ",") + json_text(t.fqn) + ":" +
                std::to_string(crcs.find(t.fqn)->second);
    return json += "}";
}

/// @param crcs  Null: there are none.
inline std::string header_of(const target_file& file, const header_text& text,
                             std::span<const dtype_entry* const> entries, const tensor_crcs* crcs) {
    std::string json = "{\"__metadata__\":{";
    auto const* comma = "";
    auto const add = [&](std::string_view key, std::string_view what) {
        json += std::exchange(comma, ",") + json_text(key) + ":" + json_text(what);
    };
    if (crcs != nullptr) add(crcs_key, crcs_text(file, *crcs));
    if (!text.contains("format")) add("format", "pt");
    for (auto const& [key, what] : text) add(key, what);
    json += "}";
    std::uint64_t at = 0;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        auto const& t = file.tensors[i];
        json += "," + json_text(t.fqn) + ":{\"dtype\":\"" + std::string(entries[i]->name) +
                "\",\"shape\":[";
        for (std::size_t d = 0; d < t.shape.size(); ++d) {
            auto n = static_cast<std::uint64_t>(t.shape[d]);
            if (d + 1 == t.shape.size() && entries[i]->bits < 8) n *= 8 / entries[i]->bits;
            json += (d == 0 ? "" : ",") + std::to_string(n);
        }
        auto const begin = std::exchange(at, at + bytes_of(t));
        json += "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(at) + "]}";
    }
    json += "}";
    json.append((8 - json.size() % 8) % 8, ' ');
    return json;
}

inline std::vector<std::byte> head_of(std::string_view json) {
    cairn::detail::wire_writer w;
    w.u64(json.size());
    w.raw(std::as_bytes(std::span(json)));
    return w.take();
}

/// A checksum of a tensor, in JSON.
inline void add_crc(tensor_crcs& to, const std::string& fqn, const json::event& e) {
    if (e.kind != kind::number || !e.number || *e.number > UINT32_MAX ||
        !to.emplace(fqn, static_cast<std::uint32_t>(*e.number)).second)
        malformed(fqn, "one CRC-32 of each tensor", "another value");
}

inline std::string number_in_name(std::size_t n) {
    auto const digits = std::to_string(n);
    return std::string(5 - std::min<std::size_t>(5, digits.size()), '0') + digits;
}

}  // namespace impl

CAIRN_DECL bool is_target_name(std::string_view name) {
    if (name == single_name || name == index_name) return true;
    constexpr std::string_view begin = "model-", middle = "-of-", end = ".safetensors";
    if (!name.starts_with(begin) || !name.ends_with(end)) return false;
    name = name.substr(begin.size(), name.size() - begin.size() - end.size());
    auto const at = name.find(middle);
    auto const is_number = [](std::string_view s) {
        return s.size() >= 5 && s.find_first_not_of("0123456789") == s.npos;
    };
    return at != name.npos && is_number(name.substr(0, at)) &&
           is_number(name.substr(at + middle.size()));
}

CAIRN_DECL target lay_out_file(std::string name, std::vector<target_tensor> tensors,
                               const header_text& text, bool checksums) {
    impl::check_names(tensors);
    if (text.contains(crcs_key))
        throw error(errc::invalid_argument,
                    {.file = std::move(name),
                     .expected = "text for __metadata__ without '" + std::string(crcs_key) +
                                 "', which has the checksums of a file",
                     .found = "that of another file, perhaps",
                     .remedy = "leave it out, and set checksums_in_files"});
    for (auto const& [key, value] : text)
        for (std::string_view const part : {std::string_view(key), std::string_view(value)})
            if (cairn::detail::find_not_utf8(part) != part.npos)
                throw error(errc::invalid_argument,
                            {.file = std::move(name),
                             .expected = "text for __metadata__ in UTF-8, without which nobody "
                                         "reads the file",
                             .found = "other bytes at '" + terminal_text(key) + "'"});
    struct row {
        const dtype_entry* entry;
        target_tensor* tensor;
    };
    std::vector<row> rows;
    for (auto& t : tensors) rows.push_back({&impl::checked_entry(t), &t});
    std::sort(rows.begin(), rows.end(), [](const row& a, const row& b) {
        return std::tie(b.entry, a.tensor->fqn) < std::tie(a.entry, b.tensor->fqn);
    });
    target out;
    out.name = std::move(name);
    std::vector<const dtype_entry*> entries;
    for (auto const& r : rows) {
        entries.push_back(r.entry);
        out.tensors.push_back(std::move(*r.tensor));
    }
    tensor_crcs longest;
    if (checksums)
        for (auto const& t : out.tensors) longest.emplace(t.fqn, UINT32_MAX);
    auto const json = impl::header_of(out, text, entries, checksums ? &longest : nullptr);
    if (json.size() > max_header)
        throw error(errc::unsupported,
                    {.file = out.name,
                     .expected = "a header of at most " + std::to_string(max_header) + " bytes",
                     .found = std::to_string(json.size()),
                     .remedy = "write smaller files, which have fewer tensors each"});
    out.head = impl::head_of(json);
    out.size = out.head.size();
    for (auto& t : out.tensors) t.offset = std::exchange(out.size, out.size + impl::bytes_of(t));
    return out;
}

CAIRN_DECL std::vector<std::byte> head_with_checksums(const target& file, const header_text& text,
                                                      const tensor_crcs& crcs) {
    std::vector<const dtype_entry*> entries;
    for (auto const& t : file.tensors) entries.push_back(impl::entry_of(t.type));
    auto json = impl::header_of(file, text, entries, &crcs);
    json.resize(file.head.size() - length_bytes, ' ');
    return impl::head_of(json);
}

CAIRN_DECL tensor_crcs checksums_in(const header_text& text) {
    tensor_crcs all;
    auto const found = text.find(crcs_key);
    if (found != text.end())
        json::read(std::as_bytes(std::span(found->second)),
                   impl::in_object(
                       [&](json::path at, const json::event& e) { impl::add_crc(all, at[0], e); }));
    return all;
}

CAIRN_DECL std::vector<target> lay_out(std::vector<target_tensor> tensors, std::uint64_t max_size,
                                       const header_text& text, bool checksums) {
    impl::check_names(tensors);
    std::vector<std::vector<target_tensor>> files;
    std::vector<target_tensor> current;
    std::uint64_t size = 0;
    for (auto& t : tensors) {
        auto const n = impl::bytes_of(t);
        if (n > max_size) {  // the file that is being filled comes behind it
            files.emplace_back().push_back(std::move(t));
            continue;
        }
        if (n > max_size - size) {
            files.push_back(std::exchange(current, {}));
            size = 0;
        }
        current.push_back(std::move(t));
        size += n;
    }
    if (!current.empty() || files.empty()) files.push_back(std::move(current));
    std::vector<target> out;
    for (std::size_t i = 0; i < files.size(); ++i) {
        auto name = files.size() == 1 ? std::string(single_name)
                                      : "model-" + impl::number_in_name(i + 1) + "-of-" +
                                            impl::number_in_name(files.size()) + ".safetensors";
        out.push_back(lay_out_file(std::move(name), std::move(files[i]), text, checksums));
    }
    if (out.size() > 1) check_index(out);
    return out;
}

CAIRN_DECL void check_index(std::span<const target> files) {
    // As `encode_index` encodes it, with checksums of as many digits as there may be.
    std::uint64_t tensors = 0, total = 0, names = 0;
    for (auto const& f : files) {
        auto const file = impl::json_text(f.name).size();
        tensors += f.tensors.size();
        for (auto const& t : f.tensors) {
            names += 2 * impl::json_text(t.fqn).size() + file;
            total += impl::bytes_of(t);
        }
    }
    constexpr std::uint64_t of_each = std::string_view(
                                          "        : 4294967295,\n"
                                          "    : ,\n")
                                          .size();
    std::uint64_t const nothing = encode_index({}, {.save_id = std::string(32, 'f')}).size();
    std::uint64_t const commas = tensors == 0 ? 0 : 2;  // that the last ones have not
    auto const length =
        nothing - 1 + std::to_string(total).size() + names + tensors * of_each - commas;
    if (length > max_index)
        throw error(errc::unsupported,
                    {.file = std::string(index_name),
                     .expected = "at most " + std::to_string(max_index) + " bytes",
                     .found = std::to_string(length),
                     .remedy = "export fewer tensors, or in one file"});
}

CAIRN_DECL std::string encode_index(std::span<const target> files, const index_notes& notes) {
    std::map<std::string_view, std::string_view> map;
    std::uint64_t total = 0;
    for (auto const& f : files)
        for (auto const& t : f.tensors) {
            map.emplace(t.fqn, f.name);
            total += impl::bytes_of(t);
        }
    std::string json = "{\n  \"metadata\": {\n    \"cairn\": {\n      \"crc32\": {";
    auto const* comma = "\n";
    for (auto const& [fqn, crc] : notes.crcs) {
        json += std::exchange(comma, ",\n");
        json += "        " + impl::json_text(fqn) + ": " + std::to_string(crc);
    }
    json += "\n      },\n      \"save_id\": " + impl::json_text(notes.save_id) +
            "\n    },\n    \"total_size\": " + std::to_string(total) +
            "\n  },\n  \"weight_map\": {";
    comma = "\n";
    for (auto const& [fqn, file] : map) {
        json += std::exchange(comma, ",\n");
        json += "    " + impl::json_text(fqn) + ": " + impl::json_text(file);
    }
    return json += "\n  }\n}\n";
}

CAIRN_DECL index_notes decode_notes(std::span<const std::byte> index) {
    index_notes notes;
    json::read(index, impl::in_object([&](json::path at, const json::event& e) {
                   if (at.size() < 3 || at[0] != "metadata" || at[1] != "cairn") return;
                   if (at.size() == 3 && at[2] == "save_id" && e.kind == impl::kind::text) {
                       notes.save_id = e.text;
                   } else if (at.size() == 4 && at[2] == "crc32") {
                       impl::add_crc(notes.crcs, at[3], e);
                   }
               }));
    return notes;
}

}  // namespace cairn::format::safetensors

#endif
