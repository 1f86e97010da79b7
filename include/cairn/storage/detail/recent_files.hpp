// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_RECENT_FILES_HPP
#define CAIRN_STORAGE_DETAIL_RECENT_FILES_HPP

#include <cairn/object_store/concepts.hpp>
#include <cairn/storage/open_file.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The files that were read last, which stay open; see `storage_setup::in_pieces`. Few, because
/// each thread has them, and a process may not have many open. Not thread-safe.
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

/// Files that were opened when a read was planned, or when values were read, until they are read:
/// each is opened once. Thread-safe.
class planned_files {
public:
    /// Of more files, some are opened again.
    void keep(const std::string& name, std::shared_ptr<open_file> file) {
        constexpr std::size_t most = 256;
        std::lock_guard const lock(m_);
        read_size_ = file->read_size();
        if (all_.size() < most) all_.emplace(name, std::move(file));
    }
    /// Returns null if there is none.
    std::shared_ptr<open_file> take(const std::string& name) {
        std::lock_guard const lock(m_);
        auto const kept = all_.extract(name);
        return kept ? std::move(kept.mapped()) : nullptr;
    }
    /// Returns `open_file::read_size` of the files, which may have been taken.
    std::size_t read_size() const {
        std::lock_guard const lock(m_);
        return read_size_;
    }
    void clear() {
        std::lock_guard const lock(m_);
        all_.clear();
        read_size_ = usual_read_size;
    }

private:
    mutable std::mutex m_{};
    std::map<std::string, std::shared_ptr<open_file>> all_{};
    std::size_t read_size_ = usual_read_size;
};

}  // namespace cairn::detail

#endif
