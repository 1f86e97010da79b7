// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_IMPL_METADATA_IPP
#define CAIRN_METADATA_IMPL_METADATA_IPP

#include <cairn/metadata/metadata.hpp>

#include <cairn/error.hpp>

namespace cairn {

CAIRN_DECL metadata::metadata() noexcept = default;
CAIRN_DECL metadata::metadata(const metadata& other) = default;
CAIRN_DECL metadata::metadata(metadata&& other) noexcept = default;
CAIRN_DECL metadata& metadata::operator=(const metadata& other) = default;
CAIRN_DECL metadata& metadata::operator=(metadata&& other) noexcept = default;
CAIRN_DECL metadata::~metadata() = default;

CAIRN_DECL const tensor_metadata* metadata::tensor(std::string_view fqn) const {
    auto const it = entries.find(fqn);
    return it == entries.end() ? nullptr : std::get_if<tensor_metadata>(&it->second);
}

CAIRN_DECL const value_metadata* metadata::value(std::string_view fqn) const {
    auto const it = entries.find(fqn);
    return it == entries.end() ? nullptr : std::get_if<value_metadata>(&it->second);
}

CAIRN_DECL void metadata::check_supported(std::string_view fqn) const {
    auto const it = unsupported.find(fqn);
    if (it == unsupported.end()) return;
    throw error(errc::unsupported, {.fqn = it->first,
                                    .expected = "a tensor that this version of cairn reads",
                                    .found = it->second.type});
}

CAIRN_DECL void metadata::check_made(std::string_view fqn) const {
    auto const it = unmade.find(fqn);
    if (it == unmade.end() || it->second.of.empty()) return;
    throw error(errc::missing_key, {.fqn = it->first,
                                    .expected = it->second.of + ", of which the mapping makes it",
                                    .found = it->second.found,
                                    .remedy = "correct the mapping"});
}

}  // namespace cairn

#endif
