// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_MEMORY_SPACES_HPP
#define CAIRN_MEMORY_MEMORY_SPACES_HPP

#include <cairn/detail/config.hpp>
#include <cairn/memory/any_memory_space.hpp>

#include <string>
#include <utility>
#include <vector>

namespace cairn {
namespace detail {

/// @param found  Describes the memory spaces that were given.
/// @throws error unsupported, always: names the part, and the header, that would help
[[noreturn]] CAIRN_DECL void refuse_device(device_id d, const std::string& fqn,
                                           const std::string& found);

}  // namespace detail

/// The memory spaces of one operation: those that it was given as parts, and the host's.
class memory_spaces {
public:
    memory_spaces();

    void add(any_memory_space s) { given_.push_back(std::move(s)); }

    /// The first space given that serves the device; null if none does.
    any_memory_space* find(device_id d);
    /// @param fqn  The tensor's name, for the error.
    /// @throws error errc::unsupported when no space serves the device, with the part that would
    any_memory_space& serving(device_id d, const std::string& fqn);

private:
    any_memory_space host_;
    std::vector<any_memory_space> given_{};
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/memory/impl/memory_spaces.ipp>
#endif

#endif
