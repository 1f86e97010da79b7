// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_NCCL_CHECKS_HPP
#define CAIRN_TEST_SUPPORT_NCCL_CHECKS_HPP

#include "support/error_codes.hpp"
#include "support/fake_nccl.hpp"

#include <cairn/comm/nccl/broadcaster.hpp>
#include <cairn/error.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <stdexcept>
#include <string>

/// What tests over the fake of NCCL share.
namespace support::nccl_checks {

inline constexpr std::size_t mib = std::size_t{1} << 20;

inline cairn::nccl_plane_options staging(std::size_t bytes) {
    cairn::nccl_plane_options o;
    o.staging_bytes = bytes;
    return o;
}
/// Nothing that NCCL would not have stood, and nothing left over.
inline void check_clean(fake_world& world) {
    for (auto const& rule : world.broken_rules()) BOOST_ERROR("a rule was broken: " + rule);
    BOOST_TEST(world.in_use() == 0u);
}
inline cairn::error error_of(const std::exception_ptr& e) {
    try {
        if (e) std::rethrow_exception(e);
    } catch (const cairn::error& x) {
        return x;
    }
    return {cairn::error_code(), {}};
}
using support::is;
inline bool contains(const cairn::error& e, const std::string& part) {
    return std::string(e.what()).find(part) != std::string::npos;
}
/// On the threads of ranks, where Boost.Test's macros must not be used.
inline void must(bool ok, const char* what) {
    if (!ok) throw std::runtime_error(what);
}
inline cairn::deadline in(std::chrono::milliseconds t) {
    return cairn::deadline_after(t);
}

}  // namespace support::nccl_checks

#endif
