// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_REPLACED_FILES_HPP
#define CAIRN_TEST_SUPPORT_REPLACED_FILES_HPP

#include "system_calls.hpp"

#include <array>
#include <cerrno>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace support {

/// How a distributed file system answers a call for a file that another host has replaced.
struct stale_call {
    std::string_view what;  ///< As `system_calls` names it.
    int error;
};
inline constexpr std::array all_stale_calls{stale_call{"open", ESTALE}, stale_call{"look", ESTALE},
                                            stale_call{"read", ESTALE}, stale_call{"read", ENOENT}};

/// Every file below a directory is, while this lives, one that another host has replaced just now:
/// the first calls of a kind for it fail, and again after each change of it.
class replaced_files {
public:
    replaced_files(const std::string& below, stale_call how, int times) : how_(how), times_(times) {
        calls_.watch(below);
        calls_.before = [this](std::string_view what, const std::string& path, std::uint64_t) {
            std::lock_guard const lock(m_);
            if (what != how_.what || !is_file(path)) return 0;
            if (!only_.empty() && only_.count(path) == 0) return 0;
            if (failed_[path] == times_) return 0;
            ++failed_[path];
            ++hits_;
            return how_.error;
        };
        calls_.after = [this](const system_call& c) {
            std::lock_guard const lock(m_);
            if (c.what == "rename" || c.what == "create") failed_[c.path] = 0;
        };
    }
    replaced_files(replaced_files&&) = delete;
    ~replaced_files() {
        calls_.watch({});
        calls_.before = nullptr;
        calls_.after = nullptr;
    }
    /// Only the files that were named so are affected.
    void only(std::string path) {
        std::lock_guard const lock(m_);
        only_.insert(std::move(path));
    }
    int hits() const {
        std::lock_guard const lock(m_);
        return hits_;
    }

private:
    static bool is_file(std::string_view path) {
        auto const name = path.substr(path.rfind('/') + 1);
        return name == ".metadata" || name.starts_with(".saving.") || name.ends_with(".distcp");
    }

    system_calls& calls_ = system_calls::get();
    stale_call how_;
    int times_;
    mutable std::mutex m_{};
    std::map<std::string, int> failed_{};
    std::set<std::string> only_{};
    int hits_ = 0;
};

}  // namespace support

#endif
