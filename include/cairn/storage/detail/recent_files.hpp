// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_RECENT_FILES_HPP
#define CAIRN_STORAGE_DETAIL_RECENT_FILES_HPP

#include <cairn/storage/open_file.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The files that were read last, which stay open; see `storage_setup::in_pieces`. Few, because
/// what they know of their content takes memory. Not thread-safe.
class recent_files {
public:
    /// Returns the file of this name, which `open()` opens if it is none of the last ones.
    template <class F>
    std::shared_ptr<open_file> get(const std::string& name, F&& open) {
        auto at =
            std::find_if(all_.begin(), all_.end(), [&](const entry& e) { return e.first == name; });
        if (at == all_.end()) {
            auto file = std::forward<F>(open)();
            if (all_.size() == most) all_.pop_back();
            at = all_.emplace(all_.end(), name, std::move(file));
        }
        std::rotate(all_.begin(), at, at + 1);
        return all_.front().second;
    }
    void clear() noexcept { all_.clear(); }

private:
    using entry = std::pair<std::string, std::shared_ptr<open_file>>;
    static constexpr std::size_t most = 4;

    std::vector<entry> all_{};  ///< The very last one first.
};

}  // namespace cairn::detail

#endif
