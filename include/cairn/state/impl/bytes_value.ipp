// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_IMPL_BYTES_VALUE_IPP
#define CAIRN_STATE_IMPL_BYTES_VALUE_IPP

#include <cairn/state/bytes_value.hpp>

#include <cairn/error.hpp>

#include <cstring>
#include <string>

namespace cairn::detail {

CAIRN_DECL value value_of_bytes(const void* object, std::size_t size) {
    value::bytes_t out(size);
    std::memcpy(out.data(), object, size);
    return out;
}

CAIRN_DECL void check_bytes(std::size_t size, const value& v) {
    auto const* bytes = v.get_if<value::bytes_t>();
    if (bytes == nullptr)
        throw error(errc::kind_mismatch,
                    {.expected = "bytes", .found = std::string(v.kind_name())});
    if (bytes->size() != size)
        throw error(errc::shape_mismatch,
                    {.expected = std::to_string(size) + " bytes, as the program's object has",
                     .found = std::to_string(bytes->size()),
                     .remedy = "check whether the struct has changed since it was saved"});
}
CAIRN_DECL void set_bytes(void* object, std::size_t size, const value& v) {
    check_bytes(size, v);
    std::memcpy(object, v.get_if<value::bytes_t>()->data(), size);
}

}  // namespace cairn::detail

#endif
