// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_STORED_CHUNK_HPP
#define CAIRN_STORAGE_DETAIL_STORED_CHUNK_HPP

#include <cairn/detail/fits_in.hpp>
#include <cairn/format/native/footer.hpp>
#include <cairn/format/torch/item.hpp>
#include <cairn/metadata/check.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/detail/read_whole.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/tensor/layout.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// One data file open for reading. The footer of a file that cairn wrote is read and checked once.
template <class Handle>
class open_file {
public:
    /// @param me     Its activity advances with every read, and it can stop them.
    /// @param again  Opens the file again, where a read says that there is none; empty: that is an
    ///               error.
    open_file(Handle h, std::string described, storage_setup me = {},
              std::function<Handle()> again = {})
        : handle_(std::make_shared<Handle>(std::move(h))), described_(std::move(described)),
          size_(handle_->size()), read_size_(read_size_of(*handle_)), me_(std::move(me)),
          again_(std::move(again)) {}

    /// @throws error errc::cancelled when stopped
    void read(std::uint64_t at, std::span<std::byte> into) {
        if (!fits_in(at, into.size(), size_)) {
            throw error(errc::corrupt, {.file = described_,
                                        .expected = std::to_string(into.size()) + " bytes at " +
                                                    std::to_string(at),
                                        .found = "a file of " + std::to_string(size_) + " bytes",
                                        .remedy = "the file is truncated"});
        }
        heed_stop();
        if (!into.empty()) {
            auto const usual = [&] { handle()->read(at, into); };
            again_ ? reread(usual, [&] { open_again(); }) : usual();
        }
        if (me_.activity) me_.activity->advance();
    }
    /// Reads a beginning of these bytes past the caches of the host; see @ref UncachedReadStore.
    /// @throws error errc::cancelled when stopped
    std::size_t read_uncached(std::uint64_t at, std::span<std::byte> into) {
        heed_stop();
        auto const n = read_uncached_of(*handle(), at, into);
        if (me_.activity) me_.activity->advance();
        return n;
    }
    /// Reports that so many of the bytes that were asked for have been delivered.
    void delivered(std::uint64_t bytes) noexcept {
        if (me_.activity) me_.activity->advance(bytes);
    }
    std::uint64_t size() const noexcept { return size_; }
    /// Of the pieces that payloads are read in.
    std::size_t read_size() const noexcept { return read_size_; }
    const std::string& described() const noexcept { return described_; }

    /// Returns the footer, which must belong to the save that the metadata names.
    const format::native::file_footer& footer(const std::string& save_id) {
        std::lock_guard const lock(m_);
        if (footer_) return *footer_;
        std::array<std::byte, format::native::footer_tail_bytes> tail{};
        if (size_ >= tail.size()) read(size_ - tail.size(), tail);
        std::uint64_t const length = format::native::footer_length(tail);
        if (!format::native::is_possible_footer(length, size_)) {
            throw error(errc::corrupt, {.file = described_,
                                        .expected = "a footer, because cairn wrote this checkpoint",
                                        .found = "none",
                                        .remedy = "the file is truncated or is not the one that "
                                                  "the metadata names"});
        }
        std::vector<std::byte> bytes(static_cast<std::size_t>(length));
        read(size_ - length, bytes);
        auto f = format::native::decode_footer(bytes);
        if (f.save_id != save_id) {
            throw error(errc::foreign_file, {.file = described_,
                                             .expected = "a file of save " + save_id,
                                             .found = "a file of save " + f.save_id,
                                             .remedy = "put the checkpoint's own file back"});
        }
        footer_ = std::move(f);
        return *footer_;
    }

private:
    void heed_stop() const {
        if (me_.stop.stop_requested()) throw error(errc::cancelled, {.rank = me_.rank});
    }

    std::shared_ptr<Handle> handle() {
        std::lock_guard const lock(opening_);
        return handle_;
    }
    void open_again() {
        auto fresh = std::make_shared<Handle>(again_());
        if (fresh->size() != size_)
            throw error(errc::not_found, {.file = described_,
                                          .expected = "the file that was opened, of " +
                                                      std::to_string(size_) + " bytes",
                                          .found = "another in its place"});
        std::lock_guard const lock(opening_);
        handle_ = std::move(fresh);
    }

    std::mutex opening_{};
    std::shared_ptr<Handle> handle_;
    std::string described_;
    std::uint64_t size_;
    std::size_t read_size_;
    storage_setup me_;
    std::function<Handle()> again_;
    std::mutex m_;
    std::optional<format::native::file_footer> footer_;
};

/// The position of a stored chunk's elements in a file, and the checksums that cover them.
struct stored_payload {
    dtype type = dtype::float32;
    index_vector shape{};
    index_vector strides{};
    std::uint64_t storage_offset = 0;  ///< First element, in elements from the payload's start.
    std::uint64_t at = 0;              ///< In the file.
    std::uint64_t length = 0;          ///< Of the payload, in bytes.
    std::uint32_t crc = 0;             ///< Of the whole payload.
    bool checked = true;               ///< False: PyTorch wrote it without checksums.
    bool big_endian = false;
    /// CRCs of its blocks, if cairn wrote it: parts can be checked.
    std::vector<std::uint32_t> block_crcs{};
};

/// @throws error errc::corrupt if its file is too short for the item
template <class Handle>
void check_within(const open_file<Handle>& file, const std::string& fqn,
                  const storage_location& at) {
    if (!fits_in(at.offset, at.length, file.size()))
        throw error(errc::corrupt,
                    {.fqn = fqn,
                     .file = file.described(),
                     .expected = "an item of " + std::to_string(at.length) + " bytes at " +
                                 std::to_string(at.offset),
                     .found = "a file of " + std::to_string(file.size()) + " bytes"});
}
/// @throws error also errc::unsupported for an item that was compressed or otherwise modified
template <class Handle>
void check_item(const open_file<Handle>& file, const std::string& fqn, const storage_location& at) {
    if (!at.transforms.empty())
        throw error(errc::unsupported, {.fqn = fqn,
                                        .file = file.described(),
                                        .expected = "an item without stream transforms",
                                        .found = at.transforms.front()});
    check_within(file, fqn, at);
}

/// Looks a chunk up: from the native index and the footer if cairn wrote it, otherwise by parsing
/// the item. Checks that the item matches the metadata.
template <class Handle>
stored_payload find_payload(open_file<Handle>& file, const std::string& fqn,
                            const tensor_metadata& t, const cairn::chunk& c,
                            const std::string& save_id) {
    auto const wrong = [&](const char* what, std::string expected, std::string found) {
        return error(errc::corrupt, {.fqn = fqn,
                                     .file = file.described(),
                                     .expected = what + std::move(expected),
                                     .found = std::move(found)});
    };
    check_item(file, fqn, c.at);
    stored_payload p;
    p.type = t.type;
    p.shape = c.region.shape;
    if (c.at.layout) {
        // Already checked when the metadata was read; but it keeps every read and copy below within
        // its bounds.
        check_layout(fqn, t.type, c.region.shape, c.at);
        auto const& l = *c.at.layout;
        p.strides = l.strides;
        p.at = c.at.offset + l.payload_offset;
        p.length = l.payload_length;
        p.crc = l.payload_crc;
        auto const* i = file.footer(save_id).find(c.at.offset);
        if (i == nullptr || i->length != c.at.length || i->payload_offset != l.payload_offset ||
            i->payload_length != l.payload_length)
            throw wrong("a footer entry for the item at ", std::to_string(c.at.offset),
                        "none that agrees");
        p.block_crcs = i->block_crcs;
        return p;
    }
    auto const parsed = format::torch::parse_tensor_item(
        [&](std::uint64_t offset, std::span<std::byte> into) {
            file.read(c.at.offset + offset, into);
        },
        c.at.length);
    if (parsed.type != t.type)
        throw wrong("dtype ", std::string(name_of(t.type)), std::string(name_of(parsed.type)));
    if (parsed.shape != c.region.shape)
        throw wrong("shape ", to_string(c.region.shape), to_string(parsed.shape));
    p.strides = parsed.strides;
    p.storage_offset = parsed.storage_offset;
    p.at = c.at.offset + parsed.payload_offset;
    p.length = parsed.payload_length;
    p.crc = parsed.payload_crc;
    p.checked = parsed.checked;
    p.big_endian = parsed.big_endian;
    return p;
}

}  // namespace cairn::detail

#endif
