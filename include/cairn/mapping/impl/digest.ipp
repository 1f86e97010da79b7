// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_IMPL_DIGEST_IPP
#define CAIRN_MAPPING_IMPL_DIGEST_IPP

#include <cairn/mapping/detail/digest.hpp>

#include <cairn/error.hpp>
#include <cairn/mapping/text.hpp>

#include <cstdint>
#include <string>

namespace cairn::map::detail {

CAIRN_DECL std::uint64_t digest(const mapping* how) {
    std::uint64_t hash = 14695981039346656037U;  // FNV-1a
    if (how != nullptr)
        for (char const c : to_string(*how))
            hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
    return hash;
}

CAIRN_DECL void check_same(const mapping* how, std::uint64_t coordinators) {
    if (digest(how) == coordinators) return;
    auto const lines = how == nullptr ? 0 : how->lines().size() + how->followers().size();
    throw error(
        errc::invalid_argument,
        {.expected = "the coordinator's mapping",
         .found = lines == 0 ? "none" : "another one of " + std::to_string(lines) + " lines",
         .remedy = "give all ranks the same mapping: it may have lines for names that only "
                   "some of them have"});
}

}  // namespace cairn::map::detail

#endif
