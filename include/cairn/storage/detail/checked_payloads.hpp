// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_CHECKED_PAYLOADS_HPP
#define CAIRN_STORAGE_DETAIL_CHECKED_PAYLOADS_HPP

#include <cairn/detail/cxx20.hpp>
#include <cairn/storage/unverified.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cairn::format::native {
struct file_footer;
}
namespace cairn::detail {

class compressed_item;

/// What several loads of one checkpoint know together. Which payloads, of those that one checksum
/// covers, were read whole and found right: who reads a payload piece by piece, like a conversion,
/// then reads only the pieces. The checksums of those that are being read in order. What was read
/// without a checksum, each item once. The footers of files, which have 4 bytes for each 64 KiB.
/// And a few items that are being decoded.
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
        begun_.erase({file, offset});
    }
    /// Returns the CRC-32 of the bytes of a payload before one of them, if these were the last ones
    /// that were read, in their order.
    std::optional<std::uint32_t> crc_before(const std::string& file, std::uint64_t offset,
                                            std::uint64_t at) const {
        if (at == 0) return 0;
        std::lock_guard const lock(m_);
        auto const known = begun_.find({file, offset});
        if (known == begun_.end() || known->second.first != at) return {};
        return known->second.second;
    }
    void note_crc_before(const std::string& file, std::uint64_t offset, std::uint64_t at,
                         std::uint32_t crc) {
        std::lock_guard const lock(m_);
        begun_[{file, offset}] = {at, crc};
    }
    /// Whether this is the first call for an item without a checksum.
    bool is_first(const std::string& file, std::uint64_t offset) {
        std::lock_guard const lock(m_);
        return unchecked_.emplace(file, offset).second;
    }

    using footer_ptr = std::shared_ptr<const format::native::file_footer>;
    /// Returns the footer of a file, which `read()` reads on the first call; others wait for that.
    template <class F>
    footer_ptr footer(const std::string& file, F&& read) {
        auto const kept = [&] {
            std::lock_guard const lock(m_);
            auto& at = footers_[file];
            if (!at) at = std::make_shared<known_footer>();
            return at;
        }();
        std::lock_guard const lock(kept->m);
        if (!kept->footer) kept->footer = std::forward<F>(read)();
        return kept->footer;
    }

    using decoding = std::shared_ptr<compressed_item>;
    /// Lends an item that was kept; null: there is none.
    decoding take(const std::string& file, std::uint64_t offset) {
        std::lock_guard const lock(m_);
        auto const found = std::find_if(decoding_.rbegin(), decoding_.rend(), [&](auto const& d) {
            return d.first == place(file, offset);
        });
        if (found == decoding_.rend()) return {};
        auto item = std::move(found->second);
        decoding_.erase(std::next(found).base());
        return item;
    }
    /// @param has_ended  Nothing of it is held: it is the next to go.
    void keep(const std::string& file, std::uint64_t offset, decoding item, bool has_ended) {
        std::lock_guard const lock(m_);
        decoding_.emplace(has_ended ? decoding_.begin() : decoding_.end(), place(file, offset),
                          std::move(item));
        if (decoding_.size() > most_decoding_) decoding_.erase(decoding_.begin());
    }
    /// So many threads may be in the middle of an item.
    void expect(std::size_t readers) {
        std::lock_guard const lock(m_);
        most_decoding_ = std::max(most_decoding_, readers);
    }

    unverified notes{};

private:
    using place = std::pair<std::string, std::uint64_t>;
    struct known_footer {
        std::mutex m{};
        footer_ptr footer{};
    };
    mutable std::mutex m_{};
    std::set<place> all_{}, unchecked_{};
    std::map<place, std::pair<std::uint64_t, std::uint32_t>> begun_{};
    std::map<std::string, std::shared_ptr<known_footer>> footers_{};
    std::vector<std::pair<place, decoding>> decoding_{};  ///< The first one is the next to go.
    /// At least as many as threads that read at a time. Each has the memory of a window, usually of
    /// 2 to 8 MiB, until its last byte was read.
    std::size_t most_decoding_ = 16;
};

}  // namespace cairn::detail

#endif
