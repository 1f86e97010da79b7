// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_DETAIL_ENTRY_CURSOR_HPP
#define CAIRN_METADATA_DETAIL_ENTRY_CURSOR_HPP

#include <cairn/metadata/metadata.hpp>

#include <iterator>
#include <string_view>
#include <variant>

namespace cairn::detail {

/// Finds entries of metadata. The one that was found last and the one after it are found without a
/// search, as are most of a plan's items, which are in the order of their names.
///
/// Threads: one at a time.
class entry_cursor {
public:
    using entry = decltype(metadata::entries)::const_iterator;

    /// @param m  Must outlive this, and keep its entries.
    explicit entry_cursor(metadata&&) = delete;
    explicit entry_cursor(const metadata& m) : entries_(m.entries), at_(entries_.begin()) {}

    /// @return The end of the entries if there is none.
    entry find(std::string_view fqn) {
        if (at_ != entries_.end()) {
            if (at_->first == fqn) return at_;
            auto const next = std::next(at_);
            if (next != entries_.end() && next->first == fqn) return at_ = next;
        }
        auto const found = entries_.find(fqn);
        if (found != entries_.end()) at_ = found;
        return found;
    }
    entry end() const { return entries_.end(); }
    /// @return Null if there is none, or it is a value.
    const tensor_metadata* tensor(std::string_view fqn) {
        auto const found = find(fqn);
        return found == end() ? nullptr : std::get_if<tensor_metadata>(&found->second);
    }
    /// @return Null if there is none, or it is a tensor.
    const value_metadata* value(std::string_view fqn) {
        auto const found = find(fqn);
        return found == end() ? nullptr : std::get_if<value_metadata>(&found->second);
    }

private:
    const decltype(metadata::entries)& entries_;
    entry at_;
};

}  // namespace cairn::detail

#endif
