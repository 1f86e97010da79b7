// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_ERROR_CODES_HPP
#define CAIRN_TEST_SUPPORT_ERROR_CODES_HPP

#include <cairn/error.hpp>

namespace support {

inline bool is(cairn::error_code c, cairn::errc e) {
    return c == cairn::make_error_code(e);
}
inline bool is(const cairn::error& e, cairn::errc code) {
    return is(e.code(), code);
}
/// For BOOST_CHECK_EXCEPTION.
inline auto is(cairn::errc code) {
    return [code](const cairn::error& e) { return is(e, code); };
}

/// Whether an error is about what was read. Bytes alone cannot cause any other: not a failure of
/// storage, of another rank or of a device, and no lack of memory or time.
inline bool is_about_content(const cairn::error& e) {
    using cairn::errc;
    for (auto const c :
         {errc::missing_key, errc::shape_mismatch, errc::dtype_mismatch, errc::kind_mismatch,
          errc::invalid_state, errc::invalid_plan, errc::checksum_mismatch, errc::corrupt,
          errc::unsupported, errc::foreign_file, errc::not_found, errc::invalid_argument,
          errc::missing_file, errc::value_mismatch})
        if (e.code() == make_error_code(c)) return true;
    return false;
}

}  // namespace support

#endif
