// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_IMPL_OPEN_FILE_IPP
#define CAIRN_STORAGE_IMPL_OPEN_FILE_IPP

#include <cairn/detail/fits_in.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/open_file.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

CAIRN_DECL open_file::open_file(handle h, std::string described, storage_setup me, reopening again)
    : handle_(std::make_shared<handle>(std::move(h))), described_(std::move(described)),
      size_(handle_->size()), read_size_(handle_->read_size()), me_(std::move(me)),
      again_(std::move(again)) {}

CAIRN_DECL void open_file::read(std::uint64_t at, std::span<std::byte> into) {
    check_within(at, into.size());
    heed_stop();
    if (!into.empty() && !find_ahead(at, into)) {
        auto const usual = [&] { current()->read(at, into); };
        again_ ? detail::reread(usual, [&] { open_again(); }) : usual();
    }
    if (me_.activity) me_.activity->advance();
}

CAIRN_DECL bool open_file::find_ahead(std::uint64_t at, std::span<std::byte> into) {
    if (!looks_ahead_) return false;
    std::shared_ptr<const read_bytes> all;
    const std::byte* found = nullptr;
    {
        std::lock_guard const lock(ahead_m_);
        for (auto const& a : ahead_)
            if (auto const* const bytes = a->find(at, into.size())) {
                all = a;
                found = bytes;
            }
    }
    if (found != nullptr) std::memcpy(into.data(), found, into.size());
    return found != nullptr;
}

CAIRN_DECL void open_file::lookahead::read(std::uint64_t at, std::size_t length) {
    forget();
    // Another thread may be reading from the last one.
    if (here_.use_count() != 1) here_ = std::make_shared<read_bytes>();
    file_.read(at, here_->take(at, length, file_.read_size()));
    std::lock_guard const lock(file_.ahead_m_);
    file_.ahead_.push_back(here_);
    file_.looks_ahead_ = true;
}

CAIRN_DECL void open_file::lookahead::forget() noexcept {
    if (!here_) return;
    std::lock_guard const lock(file_.ahead_m_);
    std::erase(file_.ahead_, here_);
}

CAIRN_DECL byte_vector open_file::bytes(std::uint64_t at, std::uint64_t length) {
    check_within(at, length);
    byte_vector b(static_cast<std::size_t>(length));
    read(at, b);
    return b;
}

CAIRN_DECL object_tag open_file::tag() {
    return current()->tag();
}

CAIRN_DECL std::size_t open_file::read_uncached(std::uint64_t at, std::span<std::byte> into) {
    heed_stop();
    auto const n = current()->read_uncached(at, into);
    if (me_.activity) me_.activity->advance();
    return n;
}

CAIRN_DECL bool open_file::read_cached(std::span<const cached_read> all) {
    heed_stop();
    auto const file = current();
    for (auto const& r : all)
        if (!detail::fits_in(r.at, r.into.size(), size_) || !file->read_cached(r.at, r.into))
            return false;
    if (me_.activity) me_.activity->advance();
    return true;
}

CAIRN_DECL void open_file::check_within(std::uint64_t at, std::uint64_t length) const {
    if (detail::fits_in(at, length, size_)) return;
    throw error(errc::corrupt,
                {.file = described_,
                 .expected = std::to_string(length) + " bytes at " + std::to_string(at),
                 .found = "a file of " + std::to_string(size_) + " bytes",
                 .remedy = "the file is truncated: put it back, or load another checkpoint"});
}

CAIRN_DECL void open_file::heed_stop() const {
    if (me_.stop.stop_requested()) throw error(errc::cancelled, {.rank = me_.rank});
}

CAIRN_DECL std::shared_ptr<open_file::handle> open_file::current() {
    std::lock_guard const lock(opening_);
    return handle_;
}

CAIRN_DECL void open_file::open_again() {
    auto fresh = std::make_shared<handle>(again_());
    if (fresh->size() != size_)
        throw error(errc::missing_file,
                    {.file = described_,
                     .expected = "the file that was opened, of " + std::to_string(size_) + " bytes",
                     .found = "another file in its place"});
    std::lock_guard const lock(opening_);
    handle_ = std::move(fresh);
}

}  // namespace cairn

#endif
