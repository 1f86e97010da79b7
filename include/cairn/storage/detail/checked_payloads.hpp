// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_CHECKED_PAYLOADS_HPP
#define CAIRN_STORAGE_DETAIL_CHECKED_PAYLOADS_HPP

#include <cairn/detail/cxx20.hpp>
#include <cairn/storage/unverified.hpp>

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace cairn::detail {

/// What several loads of one checkpoint know together. Which payloads, of those that one checksum
/// covers, were read whole and found right: who reads a payload piece by piece, like a conversion,
/// then reads only the pieces. And what was read without a checksum, each item once.
///
/// Threads: any.
class checked_payloads {
public:
    bool has(const std::string& file, std::uint64_t offset) const {
        std::lock_guard const lock(m_);
        return all_.count({file, offset}) != 0;
    }
    void add(const std::string& file, std::uint64_t offset) {
        std::lock_guard const lock(m_);
        all_.emplace(file, offset);
    }
    /// Whether this is the first call for an item without a checksum.
    bool is_first(const std::string& file, std::uint64_t offset) {
        std::lock_guard const lock(m_);
        return unchecked_.emplace(file, offset).second;
    }

    unverified notes{};

private:
    mutable std::mutex m_{};
    std::set<std::pair<std::string, std::uint64_t>> all_{}, unchecked_{};
};

}  // namespace cairn::detail

#endif
