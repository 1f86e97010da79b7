// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_DETAIL_COMPLAINT_HPP
#define CAIRN_MAPPING_DETAIL_COMPLAINT_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/mapping/detail/expression.hpp>

#include <cstddef>
#include <string>

namespace cairn::map::detail {

/// Errors of what is made of an expression.
struct complaint {
    std::string fqn{};  ///< What is made.

    /// @throws error naming what is made and the expression
    [[noreturn]] CAIRN_DECL void fail(errc code, const expression& e, const std::string& expected,
                                      const std::string& found, std::string remedy = {}) const;
    /// Returns a dimension counted from 0.
    /// @throws error errc::shape_mismatch
    CAIRN_DECL std::size_t dim(const expression& e, int given, std::size_t rank) const;
};

}  // namespace cairn::map::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/mapping/impl/complaint.ipp>
#endif

#endif
