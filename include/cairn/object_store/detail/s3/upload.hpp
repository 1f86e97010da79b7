// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_UPLOAD_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_UPLOAD_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/detail/s3/client.hpp>
#include <cairn/object_store/detail/s3/covered.hpp>
#include <cairn/object_store/detail/s3/upload_pool.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::detail::s3 {

/// Whether a key has a save id in its last part, so that no other job writes to it.
CAIRN_DECL bool has_id(std::string_view key);

/// An object that is being written: bytes are gathered in parts; a complete part is sent by the
/// pool. An object of one part is sent when it is finished, and only if there is none of its name.
///
/// Threads: several may write, disjoint ranges.
class upload {
public:
    /// Begins an upload of parts, if there will be several.
    /// @param c, pool       Must outlive this.
    /// @param may_be_begun  If this throws: set to whether there may be an upload.
    CAIRN_DECL upload(client& c, upload_pool& pool, std::string key, std::uint64_t size,
                      bool& may_be_begun);
    upload(upload&&) = delete;
    /// Ends what is under way, and removes what was sent, as far as possible.
    CAIRN_DECL ~upload();

    CAIRN_DECL void write(std::uint64_t at, byte_span b);
    /// @throws error errc::already_exists for an object of one part, if there is one of this name;
    /// errc::outcome_unknown if the object may be there, or may appear yet
    CAIRN_DECL void finish();
    /// Whether that may be so, although `finish` has failed, perhaps for another reason.
    bool may_appear() const noexcept { return may_appear_; }
    /// Whether there may be another upload of its key, which nobody knows.
    bool may_have_others() const noexcept { return in_doubt_; }
    /// Ends what is under way, and removes what was sent unless it is finished.
    /// @return whether nothing of it can be left
    CAIRN_DECL bool end() noexcept;
    /// S3's name for it; empty for an object of one part.
    const std::string& id() const noexcept { return id_; }
    const std::string& key() const noexcept { return key_; }

private:
    struct part {
        upload_pool::buffer memory{};
        covered written{};
        bool begun = false, complete = false;
        std::string tag{}, checksum{};
    };

    std::uint64_t length_of(std::size_t n) const noexcept;
    void write_part(std::size_t n, std::size_t at, byte_span b);
    void begin_part(std::unique_lock<std::mutex>& lock, std::size_t n);
    void send_later(std::unique_lock<std::mutex>& lock, std::size_t n);
    void send_part(std::size_t n) noexcept;
    void fill_gaps();
    void put_whole();
    void complete();
    bool abort(const std::string& id) noexcept;
    void end_others(std::chrono::system_clock::time_point since) noexcept;
    bool is_there();
    template <class Look>
    static bool is_found(const answer& a, Look&& look);
    error failure(const call& c, const answer& a) const;
    void note_failure(std::exception_ptr why) noexcept;
    void cancel() noexcept;
    void throw_failure(const std::unique_lock<std::mutex>& lock) const;

    client& client_;
    upload_pool& pool_;
    upload_pool::user user_;
    std::string key_, what_, id_{}, mark_{};
    std::uint64_t size_, part_size_;
    std::atomic<bool> stop_{false};
    std::mutex m_{};  ///< Protects the following.
    std::condition_variable sent_{};
    std::vector<part> parts_;
    std::size_t under_way_ = 0;
    std::exception_ptr failure_{};
    bool finished_ = false, may_appear_ = false, in_doubt_ = false;
    struct on_cancel {
        upload& self;
        void operator()() const noexcept { self.cancel(); }
    };
    /// The parts are sent by other threads than the one that began it.
    std::optional<std::stop_callback<on_cancel>> cancelled_{};
};

}  // namespace cairn::detail::s3

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/s3/upload.ipp>
#endif

#endif
