// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBSERVE_IMPL_TEXT_FILE_IPP
#define CAIRN_OBSERVE_IMPL_TEXT_FILE_IPP

#include <cairn/observe/detail/text_file.hpp>

#include <cairn/detail/blocked_signals.hpp>
#include <cairn/error.hpp>

#include <boost/system/error_code.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

namespace cairn::detail {

[[noreturn]] CAIRN_DECL void fail_text(int e, const std::string& path, const char* what) {
    throw error(errc::io,
                {.file = path,
                 .found = std::string(what) + ": " + boost::system::generic_category().message(e),
                 .remedy = "pass the sink a file in a directory that exists, is writable, and has "
                           "space"});
}

CAIRN_DECL text_file::text_file(std::string path)
    : path_(std::move(path)), fd_([this] {
          return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
      }) {
    if (fd_.get() < 0) fail_text(errno, path_, "cannot create it");
}

CAIRN_DECL void text_file::write(std::uint64_t at, std::string_view text) {
    if (fd_.get() < 0)
        throw error(errc::io, {.file = path_,
                               .expected = "a sink of this process",
                               .found = "one made before fork()",
                               .remedy = "pass the verbs of the child sinks made there, or none"});
    while (!text.empty()) {
        auto const n = detail::without_sigxfsz(
            [&] { return ::pwrite(fd_.get(), text.data(), text.size(), static_cast<off_t>(at)); });
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) fail_text(n < 0 ? errno : ENOSPC, path_, "cannot write it");
        text.remove_prefix(static_cast<std::size_t>(n));
        at += static_cast<std::uint64_t>(n);
    }
}
CAIRN_DECL void text_file::cut(std::uint64_t size) noexcept {
    if (fd_.get() < 0) return;
    [[maybe_unused]] auto const failed =
        without_sigxfsz([&] { return ::ftruncate(fd_.get(), static_cast<off_t>(size)); });
}

CAIRN_DECL void replace_text(const std::string& path, std::string_view text) {
    // Collectors select files by their last extension; the name differs in each process.
    auto const beside = path + "." + std::to_string(::getpid()) + ".tmp";
    try {
        text_file(beside).write(0, text);
        if (std::rename(beside.c_str(), path.c_str()) != 0)
            fail_text(errno, path, "cannot rename to it");
    } catch (...) {
        (void)::unlink(beside.c_str());
        throw;
    }
}

}  // namespace cairn::detail

#endif
