// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_IMPL_VALUE_TRAITS_IPP
#define CAIRN_STATE_IMPL_VALUE_TRAITS_IPP

#include <cairn/state/value_traits.hpp>

namespace cairn {

CAIRN_DECL value value_traits<std::string>::to_value(const std::string& s) {
    return s;
}

CAIRN_DECL void value_traits<std::string>::from_value(std::string& s, const value& v) {
    s = v.as<std::string>();
}

CAIRN_DECL value value_traits<value>::to_value(const value& v) {
    return v;
}

CAIRN_DECL void value_traits<value>::from_value(value& to, const value& v) {
    to = v;
}

CAIRN_DECL value value_traits<std::vector<std::byte>>::to_value(const std::vector<std::byte>& b) {
    return b;
}

CAIRN_DECL void value_traits<std::vector<std::byte>>::from_value(std::vector<std::byte>& b,
                                                                 const value& v) {
    b = v.as<value::bytes_t>();
}

}  // namespace cairn

#endif
