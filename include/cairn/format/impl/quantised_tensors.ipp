// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_IMPL_QUANTISED_TENSORS_IPP
#define CAIRN_FORMAT_IMPL_QUANTISED_TENSORS_IPP

#include <cairn/error.hpp>
#include <cairn/format/json.hpp>
#include <cairn/format/quantised/tensors.hpp>
#include <cairn/metadata/detail/scales.hpp>
#include <cairn/tensor/dtype.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::format::quantised {
namespace impl {

inline constexpr std::int64_t nvfp4_block = 16;
/// In each dimension, of a configuration.
inline constexpr std::uint64_t longest_block = std::uint64_t{1} << 32;

inline bool is_float8(dtype t) {
    return t == dtype::float8_e4m3fn || t == dtype::float8_e5m2 || t == dtype::float8_e4m3fnuz ||
           t == dtype::float8_e5m2fnuz;
}
inline bool is_integer(dtype t) {
    return info(t).kind == dtype_class::integer;
}
inline bool is_one(const index_vector& shape) {
    return std::all_of(shape.begin(), shape.end(), [](auto n) { return n == 1; });
}
inline std::int64_t blocks_of(std::int64_t n, std::int64_t block) {
    return n / block + (n % block != 0 ? 1 : 0);
}

/// Returns the block of each dimension, if scales of such a shape fit.
inline std::optional<index_vector> block_of(const index_vector& shape, const index_vector& scales,
                                            const std::optional<index_vector>& said) {
    index_vector block = shape;
    for (auto& n : block) n = std::max<std::int64_t>(n, 1);
    if (is_one(scales)) return block;
    if (scales.size() != shape.size()) return {};
    auto const n = shape.size();
    auto const fits = [&](const index_vector& b) {
        for (std::size_t d = 0; d < n; ++d)
            if (blocks_of(shape[d], b[d]) != scales[d]) return false;
        return true;
    };
    if (said && n >= 2) {
        index_vector b(n, 1);
        b[n - 2] = std::min((*said)[0], block[n - 2]);
        b[n - 1] = std::min((*said)[1], block[n - 1]);
        if (fits(b)) return b;
    }
    // One for each row or column; others would need a guess.
    for (std::size_t d = 0; d < n; ++d)
        if (scales[d] == shape[d]) block[d] = 1;
    if (!fits(block)) return {};
    return block;
}

class finder {
public:
    finder(metadata& m, const config& said) : m_(m), said_(said) {}

    recipes run() {
        std::vector<std::string> names;
        for (auto const& [name, entry] : m_.entries) names.push_back(name);
        for (auto const& name : names)
            if (used_.count(name) == 0) nibbles(name);
        for (auto const& name : names)
            if (used_.count(name) == 0) floats(name);
        for (auto const& name : names)
            if (used_.count(name) == 0) integers(name);
        for (auto const& [name, what] : refused_) refuse(name, what);
        return std::move(all_);
    }

private:
    const tensor_metadata* tensor(const std::string& name, std::optional<dtype> type = {}) const {
        auto const* const t = m_.tensor(name);
        return t != nullptr && (!type || t->type == *type) ? t : nullptr;
    }
    static std::optional<std::string> without(const std::string& name, std::string_view end) {
        if (!name.ends_with(end) || name.size() == end.size()) return {};
        return name.substr(0, name.size() - end.size());
    }

    void nibbles(const std::string& name) {
        auto const* const t = m_.tensor(name);
        if (t == nullptr || !is_integer(t->type)) return;
        if (auto const base = without(name, "_blocks"); base && tensor(*base + "_scales"))
            return mxfp4(*base, *t);
        if (auto const base = without(name, "_packed"); base && tensor(*base + "_scale"))
            return nvfp4(*base, name, *t, "_global_scale", true);
        if (tensor(name + "_scale_2")) nvfp4(name, name, *t, "_scale_2", false);
    }
    void mxfp4(const std::string& base, const tensor_metadata& t) {
        auto const* const scales = tensor(base + "_scales", dtype::uint8);
        auto const n = t.shape.size();
        bool const fits = scales != nullptr && t.type == dtype::uint8 && n >= 2 &&
                          t.shape[n - 1] > 0 && scales->shape.size() == n - 1 &&
                          std::equal(scales->shape.begin(), scales->shape.end(), t.shape.begin());
        recipe r{recipe::kind::grouped_nibbles, base + "_blocks", base + "_scales"};
        if (!fits) return note(r.elements, "MXFP4 blocks without scales that fit them");
        r.block = index_vector(n - 1, 1);
        r.block[n - 2] = 2 * t.shape[n - 1];
        add(base, std::move(r));
    }
    void nvfp4(const std::string& to, const std::string& name, const tensor_metadata& t,
               std::string_view one, bool divides) {
        auto const* const scales = tensor(to + "_scale", dtype::float8_e4m3fn);
        auto const* const scale = tensor(to + std::string(one));
        auto const n = t.shape.size();
        recipe r{recipe::kind::nibbles, name, to + "_scale", to + std::string(one), divides};
        bool fits = scales != nullptr && scale != nullptr && is_one(scale->shape) &&
                    info(scale->type).kind == dtype_class::floating && t.type == dtype::uint8 &&
                    n >= 1 && scales->shape.size() == n;
        for (std::size_t d = 0; fits && d < n; ++d)
            fits = scales->shape[d] ==
                   (d + 1 < n ? t.shape[d] : blocks_of(2 * t.shape[d], nvfp4_block));
        if (!fits) return note(name, "4 bits a weight, without scales that fit them");
        r.block = index_vector(n, 1);
        r.block[n - 1] = nvfp4_block;
        add(to, std::move(r));
    }
    void floats(const std::string& name) {
        auto const* const t = m_.tensor(name);
        if (t == nullptr || info(t->type).kind != dtype_class::floating) return;
        std::string scales = name + "_scale_inv";
        if (!tensor(scales)) scales = name + "_scale";
        auto const* const s = tensor(scales);
        auto const type = std::string(name_of(t->type));
        if (!is_float8(t->type)) {
            bool const are_codes = s != nullptr && size_of(t->type) > 1 && t->shape.size() >= 2 &&
                                   (!said_.method.empty() || scales.ends_with("_inv")) &&
                                   block_of(t->shape, s->shape, said_.block);
            if (are_codes)
                note(name, type + " with scales '" + scales + "': codes that have become " + type);
            return;
        }
        if (s == nullptr)
            return note(
                name, type + " without scales ('" + name + "_scale_inv' or '" + name + "_scale')");
        auto block = info(s->type).kind == dtype_class::floating
                         ? block_of(t->shape, s->shape, said_.block)
                         : std::nullopt;
        if (!block)
            return note(name, type + " with scales '" + scales + "' of shape " +
                                  to_string(s->shape) + " of " + std::string(name_of(s->type)) +
                                  (said_.block ? " and blocks of " + to_string(*said_.block)
                                               : ", and no block size in config.json"));
        recipe r{recipe::kind::floats, name, std::move(scales)};
        r.block = std::move(*block);
        add(name, std::move(r));
    }

    /// Codes of a form that has no recipe: they must not pass for weights.
    void integers(const std::string& name) {
        auto const* const t = m_.tensor(name);
        if (t == nullptr || !is_integer(t->type)) return;
        if (said_.method.empty() && !name.ends_with("weight")) return;
        for (auto const& scales : detail::scales_of(m_, name))
            if (used_.count(scales) == 0)
                return note(name, std::string(name_of(t->type)) + " with '" + scales +
                                      "', which is no form of quantised weights that is known");
    }

    void add(const std::string& name, recipe r) {
        if ((name != r.elements && m_.entries.count(name) != 0) || all_.count(name) != 0)
            return note(r.elements, "quantised, and '" + name + "' is stored beside it");
        for (auto const* part : {&r.scales, &r.scale})
            if (used_.count(*part) != 0)
                return note(r.elements, "quantised, and '" + *part + "' is a part of another one");
        auto const* const t = tensor(r.elements);
        if (!is_possible(shape_of(r, t->shape)))
            return note(r.elements, "more elements than exist");
        for (std::size_t i = 0; i < t->chunks.size(); ++i) {
            auto const region = t->chunks.region(i);
            if (!region.empty() && region_of(r, region, t->shape).empty())
                return note(r.elements, "4 bits a weight, in shards that cut through groups");
        }
        used_.insert({r.elements, r.scales});
        if (!r.scale.empty()) used_.insert(r.scale);
        all_.emplace(name, std::move(r));
    }
    void note(const std::string& name, std::string what) {
        used_.insert(name);
        refused_.emplace(name, std::move(what));
    }
    void refuse(const std::string& name, const std::string& what) {
        auto const* const t = m_.tensor(name);
        unsupported_tensor u{what, t->shape};
        for (std::size_t i = 0; i < t->chunks.size(); ++i) u.files.insert(t->chunks.file(i));
        m_.unsupported.insert_or_assign(name, std::move(u));
        m_.entries.erase(name);
        m_.paths.erase(name);
    }

    metadata& m_;
    const config& said_;
    recipes all_{};
    std::set<std::string> used_{};
    std::map<std::string, std::string> refused_{};
};

inline bool is_known_method(std::string_view method) {
    constexpr std::array<std::string_view, 6> known{"",      "fp8",      "fbgemm_fp8",
                                                    "mxfp4", "modelopt", "compressed-tensors"};
    return std::find(known.begin(), known.end(), method) != known.end();
}
inline bool is_known_algorithm(std::string_view algorithm) {
    return algorithm.empty() || algorithm == "FP8" || algorithm == "NVFP4";
}

/// Integers of 8 bytes are indices.
inline bool may_be_codes(std::string_view name, const tensor_metadata& t) {
    if (detail::is_scale_name(name)) return false;
    return is_float8(t.type) || (is_integer(t.type) && size_of(t.type) <= 4 &&
                                 (t.shape.size() >= 2 || name.ends_with("weight")));
}

}  // namespace impl

CAIRN_DECL config read_config(std::span<const std::byte> text) {
    config c;
    std::vector<std::uint64_t> block;
    auto const take = [&](json::path at, const json::event& e) {
        using kind = json::event::type;
        if (at.size() < 2 || (at[0] != "quantization_config" && at[0] != "quantization")) return;
        if (at.size() == 2 && e.kind == kind::text) {
            if (at[1] == "quant_method") c.method = std::string(e.text);
            if (at[1] == "quant_algo") c.algorithm = std::string(e.text);
        }
        if (at.size() == 3 && at[1] == "weight_block_size" && e.kind == kind::number)
            block.push_back(e.number.value_or(0));
    };
    json::read(text, take, json::dialect::python);
    if (block.size() == 2 && std::all_of(block.begin(), block.end(),
                                         [](auto n) { return n > 0 && n <= impl::longest_block; }))
        c.block = {static_cast<std::int64_t>(block[0]), static_cast<std::int64_t>(block[1])};
    return c;
}

CAIRN_DECL recipes find(metadata& m, const config& said) {
    auto const refuse_unless = [](bool known, const std::string& name) {
        if (known) return;
        throw error(errc::unsupported,
                    {.expected = "weights quantised as FP8, MXFP4 or NVFP4",
                     .found = "'" + name + "', by the configuration beside them",
                     .remedy = "load them without dequantising: the stored tensors as they are"});
    };
    refuse_unless(impl::is_known_method(said.method), said.method);
    refuse_unless(impl::is_known_algorithm(said.algorithm), said.algorithm);
    return impl::finder(m, said).run();
}

CAIRN_DECL bool is_known_form(const config& said) {
    return impl::is_known_method(said.method) && impl::is_known_algorithm(said.algorithm);
}

CAIRN_DECL std::set<std::string> floating_parts(const metadata& m, const config& said) {
    std::set<std::string_view> layers, scaled;
    for (auto const& [name, entry] : m.entries) {
        auto const* const t = std::get_if<tensor_metadata>(&entry);
        if (t == nullptr || !impl::may_be_codes(name, *t)) continue;
        layers.insert(detail::layer_of(name));
        layers.insert(name);  // bitsandbytes: `weight.absmax`, of `weight`
    }
    bool const takes_all = !is_known_form(said);
    std::set<std::string> parts;
    std::vector<std::string> floats;
    for (auto const& [name, entry] : m.entries) {
        auto const* const t = std::get_if<tensor_metadata>(&entry);
        auto const layer = detail::layer_of(name);
        if (t == nullptr || info(t->type).kind != dtype_class::floating || !layers.contains(layer))
            continue;
        if (impl::is_float8(t->type)) floats.push_back(name);
        if (!takes_all && !detail::is_scale_name(name)) continue;
        parts.insert(name);
        scaled.insert(layer);
    }
    for (auto& name : floats)  // scales may also be integers, or of a dtype that is not known
        if (scaled.contains(name) || scaled.contains(detail::layer_of(name)) ||
            !detail::scales_of(m, name).empty())
            parts.insert(std::move(name));
    return parts;
}

CAIRN_DECL index_vector shape_of(const recipe& r, const index_vector& elements) {
    auto shape = elements;
    if (r.elements_are == recipe::kind::floats) return shape;
    if (r.elements_are == recipe::kind::grouped_nibbles) {
        auto const bytes = shape.back();
        shape.pop_back();
        shape.back() *= bytes;
    }
    shape.back() *= 2;
    return shape;
}

CAIRN_DECL box region_of(const recipe& r, const box& elements, const index_vector& shape) {
    box b = elements;
    if (r.elements_are == recipe::kind::floats) return b;
    std::int64_t bytes = 1, first = 0;
    if (r.elements_are == recipe::kind::grouped_nibbles) {
        bytes = shape.back();
        auto const groups = b.shape[b.rank() - 2];
        first = b.offsets.back();
        auto const wide = b.shape.back();
        b.offsets.pop_back();
        b.shape.pop_back();
        if (wide != bytes) {  // parts of groups follow each other only within one group
            b.shape.back() = groups == 1 ? 2 * wide : 0;
            b.offsets.back() = 2 * (b.offsets.back() * bytes + first);
            return b;
        }
    }
    b.offsets.back() *= 2 * bytes;
    b.shape.back() *= 2 * bytes;
    return b;
}

}  // namespace cairn::format::quantised

#endif
