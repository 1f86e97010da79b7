// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_SHARED_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_SHARED_HPP

#include <cairn/detail/config.hpp>
#include <cairn/detail/forks.hpp>
#include <cairn/object_store/detail/s3/client.hpp>
#include <cairn/object_store/detail/s3/conditional.hpp>
#include <cairn/object_store/detail/s3/one_per_process.hpp>
#include <cairn/object_store/detail/s3/settings.hpp>
#include <cairn/object_store/detail/s3/upload_pool.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail::s3 {

/// What the copies of a store share, in one process.
struct local {
    explicit local(const store_settings& s)
        : requests(s), puts(requests),
          pool(s.options.requests_in_flight, s.options.part_size * s.options.requests_in_flight) {}
    local(local&&) = delete;

    /// Once for each cause: answers have numbers that differ.
    void warn(const std::string& cause, std::string what) {
        std::lock_guard const lock(m);
        if (told.insert(cause).second) fresh.push_back(std::move(what));
    }
    /// With `m` locked: an upload has ended.
    void forget(const std::string& key, const std::string& id) {
        auto const all = uploads.find(key);
        if (all == uploads.end()) return;
        all->second.erase(id);
        if (all->second.empty()) uploads.erase(all);
    }

    /// A key may have uploads that are not in `uploads`.
    void may_have_others(const std::string& key) {
        std::lock_guard const lock(m);
        in_doubt.insert(key);
    }
    /// An object may appear after it was removed: a server has a request that was given up.
    void may_appear_late(const std::string& key) {
        std::lock_guard const lock(m);
        forget_long_ago();
        late[key] = {std::chrono::steady_clock::now()};
    }
    /// With `m` locked: whether an object that was removed now may appear yet.
    bool may_still_appear(const std::string& key) {
        forget_long_ago();
        auto const it = late.find(key);
        if (it == late.end()) return false;
        auto const age = std::chrono::steady_clock::now() - it->second.given_up;
        bool const may = !it->second.was_removed || age < requests.options().options.retry_for;
        it->second.was_removed = true;
        if (!may) late.erase(it);
        return may;
    }

    /// With `m` locked.
    void forget_long_ago() {
        constexpr std::chrono::hours longest{1};
        auto const now = std::chrono::steady_clock::now();
        std::erase_if(late, [&](auto const& one) { return now - one.second.given_up > longest; });
    }

    home_process home{};
    client requests;
    conditional_puts puts;
    std::mutex m{};  ///< Protects the following.
    /// Keys of objects that are being written, with the number of each one's handle.
    std::map<std::string, std::uint64_t> begun{};
    std::uint64_t handles = 0;
    /// The uploads of each key: of this process, and those that the last listing has shown.
    std::map<std::string, std::set<std::string>> uploads{};
    /// Keys for which there may be an upload that no answer has named, or that a listing of a place
    /// does not show (MinIO).
    std::set<std::string> in_doubt{};
    struct given_up_request {
        std::chrono::steady_clock::time_point given_up{};
        bool was_removed = false;  ///< What it makes, since then.
    };
    /// Of keys whose object may appear after it was removed.
    std::map<std::string, given_up_request> late{};
    std::vector<std::string> fresh{};  ///< Warnings.
    std::set<std::string> told{};
    upload_pool pool;  ///< Last: its threads end first.
};

/// What the copies of a store share. A forked child makes its own `local`.
class shared {
public:
    explicit shared(store_settings s) : s_(std::move(s)), local_(std::make_unique<local>(s_)) {}
    const store_settings& options() const noexcept { return s_; }
    local& here() {
        return local_.here([this] { return std::make_unique<local>(s_); });
    }

private:
    store_settings s_;
    one_per_process<local> local_;
};

/// An object that is being written has its key for itself, among the stores that share it.
class begun_key {
public:
    /// @throws error errc::already_exists if another handle has it
    CAIRN_DECL begun_key(local& l, std::string key, const std::string& described);
    begun_key(begun_key&&) = delete;
    CAIRN_DECL ~begun_key();
    /// Whether nobody has removed it.
    CAIRN_DECL bool is_there() const;
    /// Its upload, which others who remove the key end, too.
    CAIRN_DECL void has_upload(const std::string& id);
    /// The upload could not be ended: whoever removes the key tries again.
    CAIRN_DECL void leave_upload() noexcept;

private:
    local& local_;
    std::string key_, upload_{};
    std::uint64_t number_ = 0;
};

}  // namespace cairn::detail::s3

#endif
