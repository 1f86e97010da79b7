// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_ERROR_TEXT_HPP
#define CAIRN_TEST_SUPPORT_ERROR_TEXT_HPP

#include <exception>
#include <initializer_list>
#include <string>

namespace support {

/// What `f()` throws says; empty if it throws nothing.
template <class F>
std::string error_of(F&& f) {
    try {
        f();
    } catch (const std::exception& e) {
        return e.what();
    }
    return {};
}
inline bool contains(const std::string& all, std::initializer_list<const char*> parts) {
    for (auto const* p : parts)
        if (all.find(p) == std::string::npos) return false;
    return true;
}

}  // namespace support

#endif
