// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_WRITE_RESULTS_HPP
#define CAIRN_TEST_SUPPORT_WRITE_RESULTS_HPP

#include <cairn/planner/results_codec.hpp>

#include <cstddef>
#include <span>

namespace support {

/// Reads what `encode_write_results` wrote.
inline cairn::write_results decode_write_results(std::span<const std::byte> b) {
    cairn::detail::results_reader r(b);
    cairn::write_results results;
    while (r.left() != 0) {
        auto const item = r.next_item();
        auto const& file = r.files()[r.next_file()];
        results.items.push_back({item, cairn::detail::get_within_file(r.location(), file)});
    }
    results.file_sizes = r.file_sizes();
    results.warnings = r.warnings();
    return results;
}

}  // namespace support

#endif
