// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_ITEMS_BY_FILE_HPP
#define CAIRN_STORAGE_DETAIL_ITEMS_BY_FILE_HPP

#include <cairn/detail/cxx20.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Hands out a rank's items to its threads, file by file, of each file the largest first: no thread
/// is left with a large one when the others have ended. File systems let one thread write a file at
/// a time, so each thread of each rank begins with another file, as far as there are some. Or in
/// the order of their places, for a store that holds parts of a file until they are complete.
/// Thread-safe.
class items_by_file {
public:
    /// One thread of all that write.
    struct writer {
        std::size_t index, count;
    };

    /// @param file_of  The number of each item's file, below `files`.
    /// @param sizes    Of each item.
    items_by_file(std::span<const std::uint32_t> file_of, std::span<const std::uint64_t> sizes,
                  std::size_t files)
        : files_(files) {
        for (std::size_t i = 0; i < file_of.size(); ++i) files_[file_of[i]].items.push_back(i);
        for (auto& f : files_)
            std::stable_sort(f.items.begin(), f.items.end(),
                             [&](auto a, auto b) { return sizes[a] > sizes[b]; });
    }
    /// Where an item begins: the number of a file, and the byte there.
    using place = std::pair<std::uint32_t, std::uint64_t>;
    /// All threads take them in the order of these places.
    explicit items_by_file(const std::vector<place>& at) : files_(1) {
        auto& items = files_[0].items;
        for (std::size_t i = 0; i < at.size(); ++i) items.push_back(i);
        std::stable_sort(items.begin(), items.end(), [&](auto a, auto b) { return at[a] < at[b]; });
    }
    items_by_file(items_by_file&&) = delete;

    /// Returns an item that nobody has; nothing if there is none.
    std::optional<std::size_t> next(writer w) {
        std::lock_guard const lock(m_);
        auto const first = w.index * files_.size() / w.count;
        for (std::size_t k = 0; k < files_.size(); ++k) {
            auto& file = files_[(first + k) % files_.size()];
            if (file.next < file.items.size()) return file.items[file.next++];
        }
        return {};
    }

private:
    struct one {
        std::vector<std::size_t> items{};
        std::size_t next = 0;
    };
    std::mutex m_{};
    std::vector<one> files_;
};

}  // namespace cairn::detail

#endif
