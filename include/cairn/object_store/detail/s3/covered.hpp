// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_COVERED_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_COVERED_HPP

#include <cairn/detail/cxx20.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>

namespace cairn::detail::s3 {

/// Which bytes of a part have been written. Almost always it is one range that grows.
class covered {
public:
    void add(std::size_t begin, std::size_t end) {
        if (begin == end) return;
        auto next = ranges_.upper_bound(begin);
        if (next != ranges_.begin() && std::prev(next)->second >= begin) {
            --next;
            begin = next->first;
        }
        while (next != ranges_.end() && next->first <= end) {
            end = std::max(end, next->second);
            next = ranges_.erase(next);
        }
        ranges_.emplace(begin, end);
    }
    bool is_all(std::size_t length) const noexcept {
        return length == 0 || (ranges_.size() == 1 && ranges_.begin()->first == 0 &&
                               ranges_.begin()->second == length);
    }
    /// Calls `f(begin, end)` for each range that is missing.
    template <class F>
    void for_each_gap(std::size_t length, F&& f) const {
        std::size_t at = 0;
        for (auto const& [begin, end] : ranges_) {
            if (at != begin) f(at, begin);
            at = end;
        }
        if (at != length) f(at, length);
    }

private:
    std::map<std::size_t, std::size_t> ranges_{};  ///< Begin and end; none touches another.
};

}  // namespace cairn::detail::s3

#endif
