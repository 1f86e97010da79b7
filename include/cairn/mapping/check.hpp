// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_CHECK_HPP
#define CAIRN_MAPPING_CHECK_HPP

#include <cairn/detail/config.hpp>
#include <cairn/mapping/mapping.hpp>
#include <cairn/metadata/metadata.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace cairn {

/// What is odd about a mapping of a checkpoint. Not all of it is wrong: names may be meant to pass
/// through, and a mapping may serve several models.
struct mapping_report {
    /// What a load would throw: names that are missing, shapes and dtypes that do not fit.
    std::vector<std::string> errors{};
    /// Stored tensors and values that no expression uses.
    std::vector<std::string> unused{};
    /// Patterns whose expressions match nothing that is stored.
    std::vector<std::string> idle{};
    struct ambiguous_name {
        std::string name{};
        /// The numbers of lines in the mapping, from 0.
        std::size_t made_by = 0, also_by = 0;
    };
    /// Names that two expressions could make; the first one does.
    std::vector<ambiguous_name> ambiguous{};
    /// What is made, as `name: dtype [shape]`.
    std::vector<std::string> made{};

    bool empty() const noexcept {
        return errors.empty() && unused.empty() && idle.empty() && ambiguous.empty();
    }
};

/// Applies a mapping to a checkpoint's metadata, and reports all that is odd.
CAIRN_DECL mapping_report check(const mapping& m, const metadata& stored);

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/mapping/impl/check.ipp>
#endif

#endif
