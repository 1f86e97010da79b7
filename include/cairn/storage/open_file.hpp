// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_OPEN_FILE_HPP
#define CAIRN_STORAGE_OPEN_FILE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/detail/fits_in.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/checked_payloads.hpp>

#include <algorithm>
#include <any>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn {

/// A file of a checkpoint, open for reading. Reads advance the activity of the load, and end when
/// it is cancelled.
///
/// Threads: any.
class open_file {
    using handle = any_store::reader;
    using reopening = std::function<handle()>;

public:
    /// Bytes that were read together, and their memory, which is not filled with zeros first.
    class read_bytes {
    public:
        /// What is there is not kept.
        /// @param room  For later ones.
        std::span<std::byte> take(std::uint64_t offset, std::size_t n, std::size_t room) {
            if (n > capacity_) {
                room = std::max(n, room);
                capacity_ = size_ = 0;
                memory_.reset();
                memory_ = std::make_unique_for_overwrite<std::byte[]>(room);
                capacity_ = room;
            }
            at_ = offset;
            size_ = n;
            return {memory_.get(), n};
        }
        /// Null if they are not among these.
        const std::byte* find(std::uint64_t offset, std::size_t n) const noexcept {
            bool const here = offset >= at_ && detail::fits_in(offset - at_, n, size_);
            return here ? memory_.get() + (offset - at_) : nullptr;
        }

    private:
        std::uint64_t at_ = 0;
        std::size_t size_ = 0, capacity_ = 0;
        std::unique_ptr<std::byte[]> memory_{};
    };

    /// @param h      What `ObjectStore::open` returns.
    /// @param me     Its activity advances with every read, and it can stop them.
    /// @param again  Opens the file again if a read reports that it does not exist; empty: that is
    ///               an error.
    template <class Handle>
        requires(!std::same_as<Handle, handle>)
    open_file(Handle h, std::string described, storage_setup me = {},
              std::type_identity_t<std::function<Handle()>> again = {})
        : open_file(
              erased(std::move(h)), std::move(described), std::move(me),
              again ? reopening([f = std::move(again)] { return erased(f()); }) : reopening()) {}
    CAIRN_DECL open_file(handle h, std::string described, storage_setup me = {},
                         reopening again = {});
    open_file(open_file&&) = delete;

    /// @throws error errc::corrupt beyond the end of the file, errc::cancelled when stopped; what
    /// the store throws
    CAIRN_DECL void read(std::uint64_t at, std::span<std::byte> into);
    /// Returns these bytes; allocates no memory for bytes beyond the end of the file.
    /// @throws error as `read`
    CAIRN_DECL byte_vector bytes(std::uint64_t at, std::uint64_t length);
    /// Bytes of the file that were read together, because requests for each part of them would take
    /// longer. While it lives, reads of this file find them in memory.
    ///
    /// Threads: one; reads of the file, any.
    class lookahead {
    public:
        /// @param memory  Of an earlier one; may be null.
        explicit lookahead(open_file& f, std::shared_ptr<read_bytes> memory = nullptr) noexcept
            : file_(f), here_(std::move(memory)) {}
        lookahead(lookahead&&) = delete;
        ~lookahead() { forget(); }
        /// Reads these bytes, instead of those of the last call.
        /// @throws error as `open_file::read`
        CAIRN_DECL void read(std::uint64_t at, std::size_t length);
        /// Ends it, for the memory.
        std::shared_ptr<read_bytes> take() noexcept {
            forget();
            return std::move(here_);
        }

    private:
        CAIRN_DECL void forget() noexcept;

        open_file& file_;
        std::shared_ptr<read_bytes> here_;
    };

    std::uint64_t size() const noexcept { return size_; }
    /// Which version is read, if the store says that: see @ref VersionedReadStore.
    CAIRN_DECL object_tag tag();
    /// The file's name for errors: a path, a URL.
    const std::string& described() const noexcept { return described_; }

    /// Returns the `T` that `make()` returned on the first call for this file, e.g. a table at its
    /// end that several chunks need. It is kept while the file is open. Only one `T` per file.
    /// @throws std::bad_any_cast for a second `T`
    template <class T, class F>
    const T& once(F&& make) {
        std::lock_guard const lock(m_);
        if (!kept_.has_value()) kept_ = std::any(T(std::forward<F>(make)()));
        return std::any_cast<const T&>(kept_);
    }

    /// Reads a prefix of these bytes past the caches of the host; see @ref UncachedReadStore.
    /// @throws error errc::cancelled when stopped
    CAIRN_DECL std::size_t read_uncached(std::uint64_t at, std::span<std::byte> into);
    struct cached_read {
        std::uint64_t at;
        std::span<std::byte> into;
    };
    /// Reads all of these, if memory of this host has them; see @ref CachedReadStore.
    /// @return False: not all were read, and the memory may have changed.
    /// @throws error errc::cancelled when stopped
    CAIRN_DECL bool read_cached(std::span<const cached_read> all);
    /// Reports how many of the requested bytes have been delivered.
    void delivered(std::uint64_t bytes) noexcept {
        if (me_.activity) me_.activity->advance(bytes);
    }
    /// Whether payloads are read piece by piece.
    bool reads_pieces() const noexcept { return me_.checked != nullptr; }
    /// Whether the checksums of payloads are somebody else's to compare.
    bool leaves_checks() const noexcept { return me_.unchecked; }
    /// Whether a payload that one checksum covers was read whole and found right, if that is noted.
    bool was_checked(std::uint64_t offset) const {
        return me_.checked && me_.checked->has(described_, offset);
    }
    void note_checked(std::uint64_t offset) const {
        if (me_.checked) me_.checked->add(described_, offset);
    }
    /// The CRC-32 of the bytes of a payload before one of them, if it is being read in order.
    std::optional<std::uint32_t> crc_before(std::uint64_t offset, std::uint64_t at) const {
        if (!me_.checked || !me_.in_order) return {};
        return me_.checked->crc_before(described_, offset, at);
    }
    void note_crc_before(std::uint64_t offset, std::uint64_t at, std::uint32_t crc) const {
        me_.checked->note_crc_before(described_, offset, at, crc);
    }
    /// What several loads of this checkpoint know together; null: there is one.
    detail::checked_payloads* together() const noexcept { return me_.checked.get(); }
    /// The size of the pieces in which payloads are read; see @ref ReadSizeStore.
    std::size_t read_size() const noexcept { return read_size_; }

private:
    template <class Handle>
    static handle erased(Handle h) {
        return handle::of(std::move(h));
    }
    CAIRN_DECL void check_within(std::uint64_t at, std::uint64_t length) const;
    CAIRN_DECL void heed_stop() const;
    CAIRN_DECL std::shared_ptr<handle> current();
    CAIRN_DECL void open_again();
    CAIRN_DECL bool find_ahead(std::uint64_t at, std::span<std::byte> into);

    std::mutex opening_{};
    std::shared_ptr<handle> handle_;
    std::string described_;
    std::uint64_t size_;
    std::size_t read_size_;
    storage_setup me_;
    reopening again_;
    std::mutex m_{};
    std::any kept_{};
    std::atomic<bool> looks_ahead_{false};
    std::mutex ahead_m_{};                              ///< Protects the next member.
    std::vector<std::shared_ptr<read_bytes>> ahead_{};  ///< Those that are complete.
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/storage/impl/open_file.ipp>
#endif

#endif
