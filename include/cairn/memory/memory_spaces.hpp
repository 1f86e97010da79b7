// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_MEMORY_SPACES_HPP
#define CAIRN_MEMORY_MEMORY_SPACES_HPP

#include <cairn/error.hpp>
#include <cairn/memory/any_memory_space.hpp>
#include <cairn/memory/host.hpp>

#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

/// The memory spaces of one operation: those that it was given as parts, and the host's.
class memory_spaces {
public:
    memory_spaces() : host_(any_memory_space::own(host_memory())) {}

    void add(any_memory_space s) { given_.push_back(std::move(s)); }

    /// The first space given that serves the device; null if none does.
    any_memory_space* find(device_id d) {
        if (is_host(d.kind)) return &host_;
        for (auto& s : given_)
            if (s.serves(d)) return &s;
        return nullptr;
    }
    /// @param fqn  The tensor's name, for the error.
    /// @throws error errc::unsupported when no space serves the device, with the part that would
    any_memory_space& serving(device_id d, const std::string& fqn) {
        if (auto* const s = find(d)) return *s;
        auto const cuda = d.kind == memory_kind::cuda;
        error_context c;
        c.fqn = fqn;
        c.expected = "a memory space for " + to_string(d) + " among the arguments";
        c.found = given_.empty() ? "none" : std::to_string(given_.size()) + " for other devices";
        c.remedy = cuda ? "#include <cairn/memory/cuda.hpp> and add cairn::cuda_memory(stream), "
                          "with the stream that computes the tensor"
                        : "add an object of your class for this accelerator that models "
                          "cairn::MemorySpace (cairn/memory/concepts.hpp)";
        throw error(errc::unsupported, std::move(c));
    }

private:
    any_memory_space host_;
    std::vector<any_memory_space> given_{};
};

/// The queues of one operation, one for each device, opened when first used.
class device_queues {
public:
    /// The result stays valid.
    /// @param fqn  See @ref memory_spaces::serving.
    any_copy_queue& of(device_id d, memory_spaces& spaces, const std::string& fqn) {
        for (auto& q : queues_)
            if (q.device() == d) return q;
        queues_.push_back(spaces.serving(d, fqn).open(d));
        return queues_.back();
    }
    auto begin() { return queues_.begin(); }
    auto end() { return queues_.end(); }

private:
    std::deque<any_copy_queue> queues_{};
};

}  // namespace cairn

#endif
