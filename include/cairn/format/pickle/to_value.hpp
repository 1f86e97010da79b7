// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_PICKLE_TO_VALUE_HPP
#define CAIRN_FORMAT_PICKLE_TO_VALUE_HPP

#include <cairn/format/pickle/tree.hpp>
#include <cairn/metadata/value.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::format::pickle {

/// Turns a tree into a plain value. The only supported calls are those that represent plain values:
/// `collections.OrderedDict`, `_codecs.encode` (bytes in protocol 2), `torch.Size`.
/// @throws error errc::unsupported for any other class, naming it, for nesting deeper than 200 and
/// for trees that would unfold to far more than their pickle.
class to_value {
public:
    explicit to_value(const tree& t) : t_(t), budget_(64 * t.source_bytes + 4096) {}

    value operator()(node_id i) {
        spend(sizeof(value));
        return convert(i, 0);
    }

    /// Returns the names of the classes in a tree that are not those of plain values, e.g. `class
    /// a.B`; empty if there are none.
    static std::string unknown_classes(const tree& t) {
        std::set<std::string> names;
        for (std::size_t i = 0; i < t.size(); ++i) {
            auto const n = static_cast<node_id>(i);
            if (t.kind(n) == node_kind::set) names.insert("set");
            if (t.kind(n) == node_kind::frozenset) names.insert("frozenset");
            if (t.kind(n) == node_kind::global &&
                std::find(std::begin(plain), std::end(plain), t.class_parts(n)) == std::end(plain))
                names.insert(t.class_name(n));
        }
        constexpr std::size_t most = 8;
        std::string all;
        std::size_t shown = 0;
        for (auto const& n : names) {
            if (shown++ == most) break;
            all += (all.empty() ? names.size() == 1 ? "class " : "classes " : ", ") + n;
        }
        if (names.size() > most) all += " and " + std::to_string(names.size() - most) + " more";
        return all;
    }

private:
    static constexpr int max_depth = 200;

    void spend(std::size_t n) {
        if (n > budget_)
            beyond_limits("shared values that expand to more than 64 times their bytes");
        budget_ -= n;
    }

    value convert(node_id i, int depth) {
        if (depth > max_depth) beyond_limits("nesting deeper than " + std::to_string(max_depth));
        switch (t_.kind(i)) {
            case node_kind::none: return {};
            case node_kind::boolean: return t_.is_true(i);
            case node_kind::integer: return static_cast<std::int64_t>(t_.number(i));
            case node_kind::big_integer: {
                auto const s = t_.text(i);
                spend(s.size());
                return big_int(std::vector<std::uint8_t>(s.begin(), s.end()));
            }
            case node_kind::real: return std::bit_cast<double>(t_.number(i));
            case node_kind::string: spend(t_.text(i).size()); return std::string(t_.text(i));
            case node_kind::bytes: return bytes(t_.text(i));
            case node_kind::list: return value::list(many(i, depth));
            case node_kind::tuple: return value::tuple(many(i, depth));
            case node_kind::dict: return dict(i, 0, depth);
            case node_kind::object: return call(i, depth);
            case node_kind::collection:
            case node_kind::opaque: refuse(t_.class_name(t_.children(i)[0]));
            case node_kind::set:
            case node_kind::frozenset: refuse("a set");
            case node_kind::global: refuse(t_.class_name(i));
            case node_kind::persistent:
                throw error(errc::unsupported,
                            {.found = "a tensor inside a value",
                             .remedy = "save tensors as values of a mapping, not inside tuples"});
        }
        malformed("an unknown node");
    }

    static constexpr std::pair<std::string_view, std::string_view> plain[] = {
        {"collections", "OrderedDict"}, {"torch", "Size"},     {"_codecs", "encode"},
        {"__builtin__", "bytes"},       {"builtins", "bytes"},
    };

    [[noreturn]] static void refuse(const std::string& what) {
        throw error(
            errc::unsupported,
            {.expected = "None, bool, int, float, str, bytes, list, tuple or dict", .found = what});
    }

    // Counted before memory is allocated: a container may contain itself.
    std::vector<value> many(node_id i, int depth) {
        auto const c = t_.children(i);
        spend(c.size() * sizeof(value));
        std::vector<value> v;
        v.reserve(c.size());
        for (auto const child : c) v.push_back(convert(child, depth + 1));
        return v;
    }
    value dict(node_id i, std::size_t from, int depth) {
        auto const c = t_.children(i).subspan(from);
        spend(c.size() * sizeof(value));
        value::dict_t d;
        d.items.reserve(c.size() / 2);
        for (std::size_t k = 0; k + 1 < c.size(); k += 2) {
            d.items.emplace_back(convert(c[k], depth + 1), value());
            if (!d.items.back().first.is_hashable()) malformed("a list or dict as a key");
            d.items.back().second = convert(c[k + 1], depth + 1);
        }
        return d;
    }
    value bytes(std::string_view s) {
        spend(s.size());
        auto const* p = reinterpret_cast<const std::byte*>(s.data());
        return value::bytes_t(p, p + s.size());
    }

    value call(node_id i, int depth) {
        auto const c = t_.children(i);
        auto const args = t_.children(c[1]);
        if (t_.is_class(c[0], "collections", "OrderedDict") && args.empty())
            return dict(i, 3, depth);
        if (t_.is_class(c[0], "torch", "Size") && args.size() == 1) {
            auto size = convert(args[0], depth + 1);
            if (auto* const tuple = size.get_if<value::tuple_t>()) tuple->is_torch_size = true;
            return size;
        }
        if (t_.is_class(c[0], "_codecs", "encode") && args.size() == 2 &&
            t_.kind(args[0]) == node_kind::string && t_.kind(args[1]) == node_kind::string &&
            t_.text(args[1]) == "latin1")
            return latin1(t_.text(args[0]));
        // An empty bytes object in protocol 2.
        if ((t_.is_class(c[0], "__builtin__", "bytes") || t_.is_class(c[0], "builtins", "bytes")) &&
            args.empty())
            return value::bytes_t();
        auto const name = t_.class_name(c[0]);
        refuse(name.empty() ? "a call of something that is not a class" : name);
    }

    /// Decodes text of code points up to 255, which protocol 2 writes for bytes.
    value latin1(std::string_view s) {
        spend(s.size());
        value::bytes_t out;
        out.reserve(s.size());
        for (std::size_t k = 0; k < s.size(); ++k) {
            auto const b = static_cast<std::uint8_t>(s[k]);
            if (b < 0x80) {
                out.push_back(std::byte{b});
            } else if ((b == 0xc2 || b == 0xc3) && k + 1 < s.size() &&
                       (static_cast<std::uint8_t>(s[k + 1]) & 0xc0) == 0x80) {
                out.push_back(
                    static_cast<std::byte>((b << 6) | (static_cast<std::uint8_t>(s[++k]) & 0x3f)));
            } else {
                malformed("bytes that are not latin-1");
            }
        }
        return out;
    }

    const tree& t_;
    std::size_t budget_;
};

}  // namespace cairn::format::pickle

#endif
