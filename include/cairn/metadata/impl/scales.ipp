// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_IMPL_SCALES_IPP
#define CAIRN_METADATA_IMPL_SCALES_IPP

#include <cairn/metadata/detail/scales.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

CAIRN_DECL std::string_view layer_of(std::string_view name) {
    auto const dot = name.rfind('.');
    return name.substr(0, dot == name.npos ? 0 : dot);
}

CAIRN_DECL bool is_scale_name(std::string_view name) {
    auto const last = name.substr(name.rfind('.') + 1);
    constexpr std::array<std::string_view, 5> words{"scale", "zero", "absmax", "quant_map", "SCB"};
    return std::any_of(words.begin(), words.end(),
                       [&](auto word) { return last.find(word) != last.npos; });
}

CAIRN_DECL std::vector<std::string> scales_of(const metadata& m, const std::string& codes) {
    std::vector<std::string> all;
    auto const add = [&](const std::string& name) {
        if (m.entries.contains(name) || m.unsupported.contains(name)) all.push_back(name);
    };
    for (auto const* end : {"_scale_inv", "_scale", "_scales", "_zero_point"}) add(codes + end);
    for (auto const& [end, of_scales] :
         {std::pair("_blocks", "_scales"), std::pair("_packed", "_scale")})
        if (codes.ends_with(end))
            add(codes.substr(0, codes.size() - std::string_view(end).size()) + of_scales);
    auto const layer = layer_of(codes);
    auto const prefix = layer.empty() ? std::string() : std::string(layer) + '.';
    if (codes.substr(prefix.size()) != "weight") return all;
    auto const* const weight = m.tensor(codes);
    // A model all of whose parameters became one dtype has no scales: they would need a wider one.
    auto const became_one_dtype = [&](const std::string& name) {
        auto const* const t = m.tensor(name);
        return t != nullptr && weight != nullptr && t->type == weight->type &&
               info(t->type).kind == dtype_class::floating;
    };
    auto const add_beside = [&](auto const& names) {
        for (auto at = names.lower_bound(prefix);
             at != names.end() && at->first.starts_with(prefix); ++at) {
            auto const& name = at->first;
            auto const in = layer_of(name);  // bitsandbytes: `weight.absmax`, of `weight`
            if ((in == layer || in == codes) && is_scale_name(name) && !became_one_dtype(name) &&
                std::find(all.begin(), all.end(), name) == all.end())
                all.push_back(name);
        }
    };
    add_beside(m.entries);
    add_beside(m.unsupported);
    return all;
}

CAIRN_DECL std::optional<quantised_codes> codes_of(const metadata& m, const std::string& name,
                                                   dtype type) {
    if (auto const made = m.codes.find(name); made != m.codes.end()) return made->second;
    if (size_of(type) != 1 || type == dtype::boolean) return {};
    auto scales = scales_of(m, name);
    if (scales.empty()) return {};
    return quantised_codes{type, std::move(scales.front())};
}

}  // namespace cairn::detail

#endif
