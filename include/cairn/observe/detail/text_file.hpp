// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBSERVE_DETAIL_TEXT_FILE_HPP
#define CAIRN_OBSERVE_DETAIL_TEXT_FILE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/detail/unique_fd.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::detail {

/// A file that a sink writes. Failures are @ref errc::io with its name. It is open only in the
/// process that opened it, not in forked children.
class text_file {
public:
    /// Creates the file, or empties it.
    CAIRN_DECL explicit text_file(std::string path);
    text_file(text_file&&) = delete;

    /// Writes at `at` with one call of the operating system.
    CAIRN_DECL void write(std::uint64_t at, std::string_view text);
    /// Truncates the file to `size`; a failure is ignored.
    CAIRN_DECL void cut(std::uint64_t size) noexcept;

private:
    std::string path_;
    unique_fd fd_;
};

/// Replaces a file by one with this content: a reader sees either the old or the new one.
CAIRN_DECL void replace_text(const std::string& path, std::string_view text);

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/observe/impl/text_file.ipp>
#endif

#endif
