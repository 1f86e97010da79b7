// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_ZIP_DIRECTORY_SIZE_HPP
#define CAIRN_FORMAT_ZIP_DIRECTORY_SIZE_HPP

#include <cairn/error.hpp>

#include <cstdint>
#include <string>

namespace cairn::format::zip {

/// About three million storages. A directory is held in memory, as a list of its records.
inline constexpr std::uint64_t most_directory_bytes = std::uint64_t{256} << 20;

/// Of one that is read or written.
/// @throws error errc::unsupported
inline void check_directory_size(std::uint64_t bytes) {
    if (bytes > most_directory_bytes)
        throw error(errc::unsupported, {.expected = "a zip with a directory of at most " +
                                                    std::to_string(most_directory_bytes) + " bytes",
                                        .found = std::to_string(bytes),
                                        .remedy = "use several files, or PyTorch's DCP"});
}

}  // namespace cairn::format::zip

#endif
