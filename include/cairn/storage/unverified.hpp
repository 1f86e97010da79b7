// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_UNVERIFIED_HPP
#define CAIRN_STORAGE_UNVERIFIED_HPP

#include <cairn/detail/counted.hpp>
#include <cairn/printable.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

/// Collects the items that a reader delivers without a checksum, or without understanding them: the
/// content of @ref read_result. Thread-safe.
class unverified {
public:
    void reset() {
        std::lock_guard const lock(m_);
        lines_.clear();
        items_.clear();
        parts_.clear();
        unread_.clear();
    }
    /// Adds a line about the whole checkpoint, unless it was added before.
    void note(std::string line) {
        std::lock_guard const lock(m_);
        if (std::find(lines_.begin(), lines_.end(), line) == lines_.end())
            lines_.push_back(std::move(line));
    }
    /// Adds a tensor or value that is not delivered, or not understood.
    void note_unread(const std::string& fqn, std::string why) {
        std::lock_guard const lock(m_);
        unread_[fqn] = std::move(why);
    }
    /// Adds an item that was written without a checksum.
    void note_item(const std::string& described_file) {
        std::lock_guard const lock(m_);
        ++items_[described_file];
    }
    /// Adds an item of which only parts are read, for which there is no checksum.
    void note_part(const std::string& described_file) {
        std::lock_guard const lock(m_);
        ++parts_[described_file];
    }
    /// Returns one line for each kind; one that is about names has the first of them.
    std::vector<std::string> lines() const {
        std::lock_guard const lock(m_);
        auto out = lines_;
        for (auto const& [file, n] : items_)
            out.push_back("'" + terminal_text(file) + "': " + std::to_string(n) +
                          (n == 1 ? " item was" : " items were") + " written without a checksum");
        for (auto const& [file, n] : parts_)
            out.push_back("'" + terminal_text(file) + "': parts of " + detail::counted(n, "item") +
                          " were read without the checksum, which covers the whole");
        std::map<std::string_view, std::vector<std::string_view>> by_reason;
        for (auto const& [fqn, why] : unread_) by_reason[why].push_back(fqn);
        for (auto const& [why, names] : by_reason) {
            auto const shown = std::min(names.size(), most_names);
            std::string line;
            for (std::size_t i = 0; i < shown; ++i)
                line += (i == 0 ? "'" : ", '") + terminal_text(names[i]) + "'";
            if (shown != names.size())
                line += " and " + std::to_string(names.size() - shown) + " more";
            out.push_back(line + ": " + terminal_text(why));
        }
        return out;
    }

private:
    static constexpr std::size_t most_names = 3;

    mutable std::mutex m_;
    std::vector<std::string> lines_;
    std::map<std::string, std::size_t, std::less<>> items_, parts_;
    std::map<std::string, std::string> unread_;  ///< Why, by the name of the tensor or value.
};

}  // namespace cairn

#endif
