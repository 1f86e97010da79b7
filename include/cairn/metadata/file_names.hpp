// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_FILE_NAMES_HPP
#define CAIRN_METADATA_FILE_NAMES_HPP

#include <cairn/detail/name_numbers.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

/// The names of data files, each once, numbered from 0.
///
/// Names may be read by several threads, but not while one is added.
class file_names {
public:
    file_names() = default;
    file_names(file_names&&) = delete;

    /// Returns the number of a name, which is added if it is new.
    std::uint32_t add(std::string_view name) {
        if (auto const n = numbers_.find(name)) return *n;
        names_.resize(size());  // an earlier call without memory may have left its name
        names_.push_back(std::make_unique<const std::string>(name));
        return numbers_.add(*names_.back());
    }
    std::optional<std::uint32_t> find(std::string_view name) const { return numbers_.known(name); }
    const std::string& operator[](std::uint32_t n) const noexcept { return *names_[n]; }
    std::size_t size() const noexcept { return numbers_.size(); }

    /// Whether several lists use these names, so that none may add to them alone. Once true, it
    /// stays true.
    bool shared() const noexcept { return shared_.load(std::memory_order_relaxed); }
    void share() const noexcept { shared_.store(true, std::memory_order_relaxed); }

private:
    std::vector<std::unique_ptr<const std::string>> names_{};  ///< Borrowed below: they never move.
    detail::name_numbers numbers_{};
    mutable std::atomic<bool> shared_{false};
};

}  // namespace cairn

#endif
