// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_MEMORY_SPACES_HPP
#define CAIRN_MEMORY_MEMORY_SPACES_HPP

#include <cairn/detail/config.hpp>
#include <cairn/memory/any_memory_space.hpp>

#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace cairn {
namespace detail {

/// @param found  The memory spaces that there are, in words.
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

/// The queues of one operation, one for each device, opened when first used.
class device_queues {
public:
    /// The result stays valid.
    /// @param fqn  See @ref memory_spaces::serving.
    any_copy_queue& of(device_id d, memory_spaces& spaces, const std::string& fqn);
    auto begin() { return queues_.begin(); }
    auto end() { return queues_.end(); }

private:
    std::deque<any_copy_queue> queues_{};
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/memory/impl/memory_spaces.ipp>
#endif

#endif
