// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_TARGET_FILES_HPP
#define CAIRN_STORAGE_DETAIL_TARGET_FILES_HPP

#include <cairn/error.hpp>
#include <cairn/format/target_file.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/detail/time_limit.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Calls `f`. @return whether it has returned
template <class F>
bool succeeds(F&& f) noexcept {
    try {
        f();
        return true;
    } catch (...) {
        return false;
    }
}

/// The files of a target while several ranks write them; over a store that is no @ref
/// SharedWriteStore only the rank that creates them does. Thread-safe, except the last two
/// functions.
class target_files {
public:
    /// @param place    Outlives this.
    /// @param threads  That write.
    target_files(any_store& place, bool sync, int threads)
        : place_(place), sync_(sync), shared_(place.shares_writes()),
          most_open_(32 + static_cast<std::size_t>(std::max(32, threads))) {}

    /// Whether other ranks can write what this one creates.
    bool are_shared() const noexcept { return shared_; }
    /// @param own  False: others may create files of the same name.
    void create(const std::string& name, std::uint64_t size, bool own = true) {
        if (own) created_.insert(name);
        auto file = begin(name, size, own);
        std::lock_guard const lock(m_);
        if (shared_) {
            file.finish(false);
            created_.insert(name);  // of two that finish one, the other fails
        } else {
            open_[name] = std::make_shared<handle>(std::move(file));
        }
    }
    /// Sets bytes of a file that are written when this rank has written all others, so that no
    /// file that is not complete can be read.
    void write_last(const std::string& name, std::uint64_t size,
                    std::vector<format::placed_bytes> parts) {
        for (auto const& part : parts) size -= part.bytes.size();
        std::lock_guard const lock(m_);
        last_[name] = {std::move(parts), size};
    }
    /// Writes them nevertheless: other ranks have written the rest, or there is none.
    void write_last_now(const std::string& name) { write_all(take_last(name, 0, true)); }
    void write(const std::string& name, std::uint64_t at, byte_span b) {
        write_bytes(name, at, b);
        write_all(take_last(name, b.size()));
    }
    /// Completes the files that this rank has written, durably. Each handle reports the errors of
    /// its own writes, some of them only here.
    void finish() {
        for (auto& [name, file] : std::exchange(open_, {})) file->finish(sync_);
    }
    /// Removes the files that this rank has created. Those of which others may have created some
    /// of the same name end with their handles.
    /// @return whether all are removed
    bool remove() noexcept {
        bool all = succeeds([&] { open_.clear(); });
        // Of many files each would wait for a bucket that is away.
        std::optional<time_limit> limit;
        (void)succeeds([&] { limit.emplace(std::chrono::minutes(1)); });
        for (auto const& name : std::exchange(created_, {}))
            all = succeeds([&] { place_.remove(name); }) && all;
        for (auto const& one : std::exchange(blank_, {}))
            all = succeeds([&] {
                      if (place_.tag(one.first) == one.second) place_.remove(one.first, one.second);
                  }) &&
                  all;
        return all;
    }

private:
    using handle = any_store::writer;

    handle begin(const std::string& name, std::uint64_t size, bool own) {
        try {
            return place_.create(name, size, sync_);
        } catch (const error& e) {
            if (!own && e.code() != make_error_code(errc::already_exists)) note_blank(name);
            throw;
        } catch (...) {
            if (!own) note_blank(name);
            throw;
        }
    }
    /// A file may have been made although that failed.
    void note_blank(const std::string& name) noexcept {
        try {
            auto tag = place_.tag(name);
            if (!tag.text.empty() && is_blank(name)) blank_[name] = std::move(tag);
        } catch (...) {  // it stays
        }
    }
    /// Whether a file has nothing at its beginning, as no file of these formats that is complete.
    bool is_blank(const std::string& name) noexcept {
        try {
            auto file = place_.open(name);
            byte_vector head(static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), 8)));
            if (!head.empty()) file.read(0, head);
            return std::all_of(head.begin(), head.end(), [](auto b) { return b == std::byte{0}; });
        } catch (...) {  // there is none
            return false;
        }
    }

    struct last_bytes {
        std::vector<format::placed_bytes> parts{};
        std::uint64_t left = 0;  ///< Of the others.
    };
    using node = std::map<std::string, last_bytes>::node_type;

    void write_bytes(const std::string& name, std::uint64_t at, byte_span b) {
        auto file = opened(name);
        try {
            file->write(at, b);
        } catch (...) {
            std::lock_guard const lock(m_);
            // Whoever finished it would report that it has failed, not why.
            if (shared_) open_.erase(name);
            file.reset();
            throw;
        }
        std::lock_guard const lock(m_);
        file.reset();  // whoever finishes it then sees all of this write
    }
    /// @param written  Bytes of a file.
    /// @param now      No others follow.
    /// @return Its last bytes, if they are to be written now
    node take_last(const std::string& name, std::uint64_t written, bool now = false) {
        std::lock_guard const lock(m_);
        auto const found = last_.find(name);
        if (found == last_.end()) return {};
        found->second.left -= written;
        return now || found->second.left == 0 ? last_.extract(found) : node();
    }
    void write_all(const node& last) {
        if (last.empty()) return;
        for (auto const& part : last.mapped().parts)
            write_bytes(last.key(), part.offset, part.bytes);
    }
    std::shared_ptr<handle> opened(const std::string& name) {
        std::vector<std::shared_ptr<handle>> idle;
        std::shared_ptr<handle> file;
        {
            std::lock_guard const lock(m_);
            if (auto const it = open_.find(name); it != open_.end()) return it->second;
            if (open_.size() >= most_open_)
                std::erase_if(open_, [&](auto& o) {
                    bool const is_idle = o.second.use_count() == 1;
                    if (is_idle) idle.push_back(std::move(o.second));
                    return is_idle;
                });
            file = open_[name] = std::make_shared<handle>(place_.reopen(name));
        }
        for (auto const& one : idle) one->finish(sync_);  // others write meanwhile
        return file;
    }

    any_store& place_;
    bool sync_, shared_;
    std::size_t most_open_;
    std::mutex m_{};  ///< Protects the rest.
    std::map<std::string, std::shared_ptr<handle>, std::less<>> open_{};
    std::map<std::string, last_bytes> last_{};
    std::set<std::string> created_{};
    std::map<std::string, object_tag> blank_{};
};

}  // namespace cairn::detail

#endif
