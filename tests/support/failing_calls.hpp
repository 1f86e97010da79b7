// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_FAILING_CALLS_HPP
#define CAIRN_TEST_SUPPORT_FAILING_CALLS_HPP

#include "system_calls.hpp"

#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace support {

/// How one system call fails.
struct call_failure {
    int error;        ///< An errno, or `system_calls::half`: a transfer that is cut short.
    bool afterwards;  ///< When it has had its effect, as where the answer of a server is lost.
};
inline constexpr std::array all_call_failures{call_failure{EIO, false},
                                              call_failure{EIO, true},
                                              call_failure{ENOSPC, false},
                                              call_failure{ENOSPC, true},
                                              call_failure{EDQUOT, false},
                                              call_failure{EDQUOT, true},
                                              call_failure{EINTR, false},
                                              call_failure{EINTR, true},
                                              call_failure{ESTALE, false},
                                              call_failure{ESTALE, true},
                                              call_failure{system_calls::half, false}};

inline std::string name_of(const call_failure& f) {
    auto const name = f.error == EIO      ? "EIO"
                      : f.error == ENOSPC ? "ENOSPC"
                      : f.error == EDQUOT ? "EDQUOT"
                      : f.error == EINTR  ? "EINTR"
                      : f.error == ESTALE ? "ESTALE"
                                          : "half of it";
    return std::string(name) + (f.afterwards ? " afterwards" : "");
}

/// Lets one of the calls below a directory fail, while it lives. A file whose sync has failed loses
/// what was written to it, as its dirty pages are gone, and must not be used again.
class failing_calls {
public:
    /// @param at  The how-many-th of those that can fail so, from 0.
    failing_calls(const std::string& below, int at, call_failure f) : at_(at), f_(f) {
        calls_.watch(below);
        calls_.before = [this](std::string_view what, const std::string& path, std::uint64_t n) {
            std::lock_guard const lock(m_);
            if (is_sync(what) && given_up_.count(path) != 0) misused_ = "synced again: " + path;
            return !f_.afterwards && can_fail(what, n) ? next(what, path) : 0;
        };
        calls_.after = [this](const system_call& c) {
            std::lock_guard const lock(m_);
            if (c.what == "rename" && given_up_.count(c.from) != 0) misused_ = "renamed: " + c.from;
        };
        calls_.afterwards = [this](std::string_view what, const std::string& path) {
            std::lock_guard const lock(m_);
            return f_.afterwards ? next(what, path) : 0;
        };
    }
    failing_calls(const failing_calls&) = delete;
    failing_calls& operator=(const failing_calls&) = delete;
    ~failing_calls() { stop(); }

    /// From here on no call fails.
    void stop() {
        calls_.watch({});
        calls_.before = nullptr;
        calls_.after = nullptr;
        calls_.afterwards = nullptr;
    }
    bool hit() const { return !what_.empty(); }
    const std::string& what() const { return what_; }
    const std::string& path() const { return path_; }
    std::string words() const {
        return "call " + std::to_string(at_) + ", " + what_ + " of " + path_ + ": " + name_of(f_);
    }
    /// What was done with a file whose sync had failed; empty if nothing was.
    const std::string& misused() const { return misused_; }

private:
    static bool is_sync(std::string_view what) {
        return what == "fsync" || what == "fdatasync" || what == "start";
    }
    /// Of a call before its effect.
    bool can_fail(std::string_view what, std::uint64_t bytes) const {
        if (f_.error == system_calls::half) return (what == "read" || what == "write") && bytes > 1;
        bool const full = f_.error == ENOSPC || f_.error == EDQUOT;
        return !full || (can_change(what) && what != "remove" && what != "rmdir");
    }
    int next(std::string_view what, const std::string& path) {
        if (n_++ != at_) return 0;
        what_ = what;
        path_ = path;
        if (is_sync(what) && f_.error != EINTR && std::filesystem::is_regular_file(path)) {
            given_up_.insert(path);
            if (!f_.afterwards) lose_pages(path);
        }
        return f_.error;
    }
    static void lose_pages(const std::string& path) {
        std::string const nothing(std::filesystem::file_size(path), '\0');
        std::ofstream(path, std::ios::in | std::ios::binary) << nothing;
    }

    system_calls& calls_ = system_calls::get();
    int at_;
    call_failure f_;
    std::mutex m_{};
    int n_ = 0;
    std::string what_{}, path_{}, misused_{};
    std::set<std::string> given_up_{};
};

}  // namespace support

#endif
