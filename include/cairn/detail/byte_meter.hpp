// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_BYTE_METER_HPP
#define CAIRN_DETAIL_BYTE_METER_HPP

#include <cairn/detail/cxx20.hpp>

#include <cstdint>

namespace cairn::detail {

/// Counts the bytes that an operation moves. Threads: any.
class byte_meter {
public:
    byte_meter() = default;
    byte_meter(byte_meter&&) = delete;

    virtual void moved(std::uint64_t bytes) noexcept = 0;

protected:
    ~byte_meter() = default;
};

}  // namespace cairn::detail

#endif
