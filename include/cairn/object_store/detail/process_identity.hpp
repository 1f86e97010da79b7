// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_PROCESS_IDENTITY_HPP
#define CAIRN_OBJECT_STORE_DETAIL_PROCESS_IDENTITY_HPP

#include <cairn/detail/forks.hpp>
#include <cairn/detail/identity.hpp>

#include <signal.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

namespace cairn::detail {

/// Identifies a process among all those that may ever use a shared directory: a later process can
/// tell whether it is still running, if both are on one host.
struct process_identity {
    std::string boot{};           ///< Changes whenever the host boots. Empty: unknown.
    std::uint64_t pid_space = 0;  ///< The namespace of `pid`. 0: unknown.
    std::int64_t pid = 0;
    std::uint64_t started = 0;  ///< In clock ticks since boot. 0: unknown.
    /// 32 random hex digits, the first half drawn whenever a program is executed.
    std::string run{};
    friend bool operator==(const process_identity&, const process_identity&) = default;
};

/// The status of a process in Linux's `/proc/<pid>/stat`.
struct process_status {
    bool ended = false;  ///< It has ended, and its parent has not waited for it.
    std::uint64_t started = 0;
};
inline std::optional<process_status> status_of_process(const std::string& pid) {
    std::ifstream file("/proc/" + pid + "/stat");
    std::stringstream text;
    text << file.rdbuf();
    // The second field is the program's name, which may hold spaces and parentheses.
    auto const all = text.str();
    auto const name_end = all.rfind(')');
    if (name_end == std::string::npos) return {};
    std::istringstream fields(all.substr(name_end + 1));
    process_status s;
    std::string state, skipped;
    std::uint64_t threads = 0;
    fields >> state;
    for (int field = 4; field < 20; ++field) fields >> skipped;
    fields >> threads >> skipped >> s.started;
    if (!fields) return {};
    // A program's first thread may have ended while others continue.
    s.ended = (state == "Z" || state == "X") && threads <= 1;
    return s;
}

inline std::string boot_id() {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string id;
    std::getline(file, id);
    return id;
}

/// Returns 16 hex digits that differ after each `execve`, which keeps the number of a process and
/// the time of its start. They are derived from random bytes of the kernel's, combined so that
/// neither half can be inferred, since these guard the program's stack. All libraries of a program
/// that contain this code compute the same digits.
inline std::string execution_id() {
    std::uint64_t half[2] = {0, 0};
    if (auto const at = ::getauxval(AT_RANDOM); at != 0)
        std::memcpy(half, reinterpret_cast<const void*>(at), sizeof half);
    auto x = half[0] ^ half[1];
    std::string text(16, '0');
    for (auto digit = text.rbegin(); digit != text.rend(); ++digit, x >>= 4)
        *digit = "0123456789abcdef"[x & 15];
    return text;
}

/// Returns this process's id; a forked child is another process, with another id.
inline std::string run_id() {
    struct drawn_id {
        std::mutex m{};
        std::string id{};
    };
    static per_process<drawn_id> drawn;  // saves may end at exit
    auto& d = drawn.get();
    std::lock_guard const lock(d.m);
    if (d.id.empty()) d.id = execution_id() + new_save_id().substr(16);
    return d.id;
}

/// Whether `/proc` shows processes by the numbers that they have here. In a container it may be the
/// host's, where a number is another process's.
/// @param self  The link that names the process that reads it.
inline bool is_of_this_pid_space(const char* self = "/proc/self") {
    char text[24];
    auto const n = ::readlink(self, text, sizeof text);
    return n > 0 &&
           std::string_view(text, static_cast<std::size_t>(n)) == std::to_string(::getpid());
}

inline process_identity this_process() {
    process_identity p;
    p.boot = boot_id();
    p.pid = ::getpid();
    if (is_of_this_pid_space()) {
        struct ::stat s {};
        if (::stat("/proc/self/ns/pid", &s) == 0) p.pid_space = std::uint64_t{s.st_ino};
        if (auto const mine = status_of_process("self")) p.started = mine->started;
    }
    p.run = run_id();
    return p;
}

inline bool is_this_process(const process_identity& p) {
    return p.pid == ::getpid() && p.run == run_id();
}

/// Whether a process ran on this host, in this namespace, and has ended. False if this cannot be
/// determined.
inline bool has_ended(const process_identity& p) {
    auto const me = this_process();
    if (p.boot.empty() || p.boot != me.boot) return false;
    if (p.pid_space == 0 || p.pid_space != me.pid_space) return false;
    if (p.pid <= 0 || p.pid > std::numeric_limits<::pid_t>::max()) return false;
    // Its number is this process's now: it may be this one, before it executed another program.
    if (p.pid == me.pid && p.run.substr(0, 16) != me.run.substr(0, 16)) return true;
    if (::kill(static_cast<::pid_t>(p.pid), 0) != 0) return errno == ESRCH;
    auto const now = status_of_process(std::to_string(p.pid));
    return now && (now->ended || (p.started != 0 && now->started != p.started));
}

}  // namespace cairn::detail

#endif
