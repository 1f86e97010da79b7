// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_IMPL_MEMORY_SPACES_IPP
#define CAIRN_MEMORY_IMPL_MEMORY_SPACES_IPP

#include <cairn/memory/memory_spaces.hpp>

#include <cairn/error.hpp>
#include <cairn/memory/host.hpp>

namespace cairn {

CAIRN_DECL void detail::refuse_device(device_id d, const std::string& fqn,
                                      const std::string& found) {
    error_context c;
    c.fqn = fqn;
    c.expected = "a memory space for " + to_string(d) + " among the arguments";
    c.found = found;
    c.remedy = d.kind == memory_kind::cuda
                   ? "#include <cairn/memory/cuda.hpp> and add cairn::cuda_memory(stream), with "
                     "the stream that computes the tensor"
                   : "add an object of your class for this accelerator that models "
                     "cairn::MemorySpace (cairn/memory/concepts.hpp)";
    throw error(errc::unsupported, std::move(c));
}

CAIRN_DECL memory_spaces::memory_spaces() : host_(any_memory_space::own(host_memory())) {}

CAIRN_DECL any_memory_space* memory_spaces::find(device_id d) {
    if (is_host(d.kind)) return &host_;
    for (auto& s : given_)
        if (s.serves(d)) return &s;
    return nullptr;
}

CAIRN_DECL any_memory_space& memory_spaces::serving(device_id d, const std::string& fqn) {
    if (auto* const s = find(d)) return *s;
    detail::refuse_device(
        d, fqn, given_.empty() ? "none" : std::to_string(given_.size()) + " for other devices");
}

}  // namespace cairn

#endif
