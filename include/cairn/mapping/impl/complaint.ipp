// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_IMPL_COMPLAINT_IPP
#define CAIRN_MAPPING_IMPL_COMPLAINT_IPP

#include <cairn/mapping/detail/complaint.hpp>

#include <cairn/mapping/detail/node.hpp>

#include <cstddef>
#include <string>
#include <utility>

namespace cairn::map::detail {

CAIRN_DECL void complaint::fail(errc code, const expression& e, const std::string& expected,
                                const std::string& found, std::string remedy) const {
    throw error(code, {.fqn = fqn,
                       .expected = expected + " for " + shown(e),
                       .found = found,
                       .remedy = std::move(remedy)});
}

CAIRN_DECL std::size_t complaint::dim(const expression& e, int given, std::size_t rank) const {
    auto const r = static_cast<int>(rank);
    if (given >= r || given < -r)
        fail(errc::shape_mismatch, e, "a dimension " + std::to_string(given),
             std::to_string(r) + " dimensions");
    return static_cast<std::size_t>(given < 0 ? given + r : given);
}

}  // namespace cairn::map::detail

#endif
