// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_IMPL_SAFETENSORS_IPP
#define CAIRN_FORMAT_IMPL_SAFETENSORS_IPP

#include <cairn/detail/wire.hpp>
#include <cairn/error.hpp>
#include <cairn/format/json.hpp>
#include <cairn/format/safetensors/dtypes.hpp>
#include <cairn/format/safetensors/header.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace cairn::format::safetensors {

namespace impl {

[[noreturn]] inline void malformed(std::string fqn, std::string expected, std::string found) {
    throw error(
        errc::corrupt,
        {.fqn = std::move(fqn), .expected = std::move(expected), .found = std::move(found)});
}

using kind = json::event::type;

inline constexpr std::size_t most_dimensions = 64;  // as PyTorch

/// A JSON text with one object. What is in it goes to a function with a path of at least one key.
inline json::receiver in_object(json::receiver f) {
    return [f = std::move(f)](json::path at, const json::event& e) {
        if (!at.empty()) return f(at, e);
        if (e.kind != kind::object && e.kind != kind::object_end)
            malformed({}, "a JSON object", "another value");
    };
}

inline const dtype_entry* dtype_named(std::string_view name) {
    auto const* const found = std::find_if(std::begin(dtypes), std::end(dtypes),
                                           [&](auto const& d) { return d.name == name; });
    return found == std::end(dtypes) ? nullptr : found;
}

}  // namespace impl

CAIRN_DECL std::uint64_t header_length(std::span<const std::byte, length_bytes> b,
                                       std::uint64_t file_size) {
    auto const n = cairn::detail::wire_reader(b).u64();
    auto const found = "a header of " + std::to_string(n) + " bytes";
    if (file_size < length_bytes || n > file_size - length_bytes)
        impl::malformed({}, "a header within its file of " + std::to_string(file_size) + " bytes",
                        found);
    if (n > max_header)
        throw error(errc::unsupported,
                    {.expected = "a header of at most " + std::to_string(max_header) + " bytes",
                     .found = found});
    return n;
}

namespace impl {

class header_reader {
public:
    header_reader(std::uint64_t length, std::uint64_t file_size)
        : begin(length_bytes + length), end(file_size) {}

    void receive(json::path at, const json::event& e) {
        auto const& name = at[0];
        bool const is_text = name == "__metadata__";
        if (at.size() == 1) {
            if (e.kind == kind::object) return is_text ? begin_text() : begin_tensor(name);
            if (e.kind == kind::object_end) return is_text ? void() : end_tensor();
            if (!is_text || e.kind != kind::constant)
                malformed(name, "an object for each tensor", "another value");
        } else if (is_text) {
            if (at.size() != 2 || e.kind != kind::text)
                malformed({}, "strings in __metadata__", "another value");
            if (!all.text.emplace(at[1], e.text).second)
                malformed({}, "each key of __metadata__ once", "'" + at[1] + "' twice");
        } else {
            member(at[1], at.size(), e);
        }
    }
    void begin_text() {
        if (std::exchange(has_text, true)) malformed({}, "one __metadata__", "two");
    }
    void begin_tensor(const std::string& name) {
        now = {name};
        type = nullptr;
        has_shape = has_offsets = false;
        offsets.clear();
    }
    /// Of a tensor. What the format does not define is ignored.
    void member(const std::string& key, std::size_t depth, const json::event& e) {
        auto const refuse = [&](const char* expected) {
            malformed(now.name, expected, "another '" + key + "'");
        };
        if (key == "dtype") {
            if (e.kind != kind::text || e.text.empty() || type != nullptr ||
                !now.unknown_dtype.empty())
                refuse("one string as dtype");
            type = dtype_named(e.text);
            if (type == nullptr) now.unknown_dtype = std::string(e.text);
            return;
        }
        bool const is_shape = key == "shape";
        if (!is_shape && key != "data_offsets") return;
        constexpr const char* expected =
            "one list of non-negative integers each as shape and "
            "data_offsets";
        if (depth == 2) {
            if (e.kind == kind::array_end) return;
            if (e.kind != kind::array || std::exchange(is_shape ? has_shape : has_offsets, true))
                refuse(expected);
            return;
        }
        if (e.kind != kind::number || !e.number ||
            (is_shape && *e.number > std::uint64_t{INT64_MAX}))
            refuse(expected);
        if (is_shape)
            now.shape.push_back(static_cast<std::int64_t>(*e.number));
        else
            offsets.push_back(*e.number);
        if (now.shape.size() > most_dimensions || offsets.size() > 2)
            refuse("at most 64 dimensions, and two offsets");
    }
    void end_tensor() {
        auto const refuse = [&](std::string expected, std::string found) {
            malformed(now.name, std::move(expected), std::move(found));
        };
        bool const is_known = now.unknown_dtype.empty();
        if ((type == nullptr && is_known) || !has_shape || offsets.size() != 2)
            refuse("dtype, shape and data_offsets", "not all of them");
        if (offsets[0] > offsets[1] || offsets[1] > end - begin)
            refuse("bytes within the " + std::to_string(end - begin) + " behind the header",
                   std::to_string(offsets[0]) + " to " + std::to_string(offsets[1]));
        now.offset = begin + offsets[0];
        now.length = offsets[1] - offsets[0];
        auto const shape = to_string(now.shape);
        if (!is_possible(now.shape)) refuse("the shape of a tensor", shape);
        if (!is_known) return all.tensors.push_back(std::move(now));
        now.type = type->type;
        auto const elements = static_cast<std::uint64_t>(now.shape.product());
        bool const fits = elements <= std::numeric_limits<std::uint64_t>::max() / type->bits;
        if (!fits || elements * type->bits % 8 != 0 || elements * type->bits / 8 != now.length)
            refuse("the bytes of " + std::string(type->name) + " of shape " + shape,
                   std::to_string(now.length) + " bytes");
        if (type->bits < 8) {
            auto in_bytes = shape_in_bytes();
            auto const bits = static_cast<std::uint64_t>(now.shape.back()) * type->bits;
            if (bits % 8 != 0 || now.type == dtype::uint8)
                now.stored_as = std::string(type->name) + " " + shape;
            now.shape = std::move(in_bytes);
        }
        all.tensors.push_back(std::move(now));
    }
    index_vector shape_in_bytes() const {
        auto s = now.shape;
        auto const last = static_cast<std::uint64_t>(s.back());
        if (last * type->bits % 8 != 0) return {static_cast<std::int64_t>(now.length)};
        s[s.size() - 1] = static_cast<std::int64_t>(last * type->bits / 8);
        return s;
    }
    header finish() {
        auto& t = all.tensors;
        std::sort(t.begin(), t.end(), [](const tensor& a, const tensor& b) {
            return std::tie(a.offset, a.length, a.name) < std::tie(b.offset, b.length, b.name);
        });
        auto at = begin;
        for (auto const& one : t) {
            if (one.offset != at)
                malformed(
                    one.name,
                    "a tensor that begins where the one before ends, at " + std::to_string(at),
                    std::to_string(one.offset));
            at += one.length;
        }
        if (at != end)
            malformed({}, "tensors up to the end of the file, at " + std::to_string(end),
                      "an end at " + std::to_string(at));
        std::vector<const std::string*> names;
        for (auto const& one : t) names.push_back(&one.name);
        auto const less = [](auto const* a, auto const* b) { return *a < *b; };
        std::sort(names.begin(), names.end(), less);
        auto const same = std::adjacent_find(names.begin(), names.end(),
                                             [](auto* a, auto* b) { return *a == *b; });
        if (same != names.end()) malformed(**same, "each tensor once", "two of this name");
        return std::move(all);
    }

private:
    std::uint64_t begin, end;  ///< Of the elements, in the file.
    header all{};
    bool has_text = false;
    tensor now{};  ///< The one whose members are being read.
    const dtype_entry* type = nullptr;
    bool has_shape = false, has_offsets = false;
    std::vector<std::uint64_t> offsets{};
};

}  // namespace impl

CAIRN_DECL header read_header(const json::source& from, std::uint64_t length,
                              std::uint64_t file_size) {
    impl::header_reader r(length, file_size);
    json::read(from,
               impl::in_object([&](json::path at, const json::event& e) { r.receive(at, e); }));
    return r.finish();
}

CAIRN_DECL std::map<std::string, shard_place, std::less<>> sharding_info(const std::string& text) {
    std::map<std::string, shard_place, std::less<>> all;
    auto const member = [&](std::string_view name) {
        return name == "saved_offsets"  ? &shard_place::offsets
               : name == "global_shape" ? &shard_place::global_shape
                                        : nullptr;
    };
    json::read(std::as_bytes(std::span(text)),
               impl::in_object([&](json::path at, const json::event& e) {
                   if (at.size() == 2 && at[1] == "logical_fqn" && e.kind == impl::kind::text)
                       all[at[0]].logical_fqn = std::string(e.text);
                   auto const which = at.size() < 2 ? nullptr : member(at[1]);
                   if (which == nullptr) return;
                   bool const opens = at.size() == 2 && e.kind == impl::kind::array;
                   auto const of = all.find(at[0]);
                   bool const is_open = of != all.end() && of->second.*which;
                   // What later versions write may have another form.
                   if (which == &shard_place::global_shape && !opens && !is_open) return;
                   if (opens) {
                       auto& list = all[at[0]].*which;
                       if (std::exchange(list, index_vector()))
                           impl::malformed(at[0], "one list of numbers", "two");
                   } else if (at.size() == 3 && e.kind == impl::kind::number && e.number &&
                              *e.number <= std::uint64_t{INT64_MAX}) {
                       auto& list = *(of->second.*which);
                       if (list.size() == impl::most_dimensions)
                           impl::malformed(at[0], "at most 64 dimensions", "more");
                       list.push_back(static_cast<std::int64_t>(*e.number));
                   } else if (e.kind != impl::kind::array_end) {
                       impl::malformed(at[0], "a list of numbers", "another value");
                   }
               }));
    return all;
}

CAIRN_DECL std::map<std::string, std::string, std::less<>> weight_map(
    std::span<const std::byte> index) {
    std::map<std::string, std::string, std::less<>> all;
    bool has_map = false;
    json::read(index, impl::in_object([&](json::path at, const json::event& e) {
                   if (at[0] != "weight_map") return;
                   if (at.size() == 1) {
                       if (e.kind == impl::kind::object_end) return;
                       if (e.kind != impl::kind::object || std::exchange(has_map, true))
                           impl::malformed({}, "one object as weight_map", "another value");
                   } else if (at.size() != 2 || e.kind != impl::kind::text) {
                       impl::malformed(at[1], "a file name in weight_map", "another value");
                   } else if (!all.emplace(at[1], e.text).second) {
                       impl::malformed(at[1], "each tensor once in weight_map", "twice");
                   }
               }));
    if (!has_map) impl::malformed({}, "a weight_map", "none");
    return all;
}

}  // namespace cairn::format::safetensors

#endif
