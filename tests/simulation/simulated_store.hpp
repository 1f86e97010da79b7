// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_SIMULATED_STORE_HPP
#define CAIRN_TEST_SIMULATION_SIMULATED_STORE_HPP

#include "storage_client.hpp"

#include <cairn/object_store/concepts.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace simulation {

/// The storage, as one process uses it: each call takes some of the world's time. Replacing takes
/// the steps of `file_store`, unless the storage does that itself.
class simulated_store {
    using bytes = cairn::byte_span;
    static constexpr std::string_view temporary = ".cairn-publish.";

public:
    explicit simulated_store(storage_client& c) : c_(&c) {}
    simulated_store at(std::string id) const {
        simulated_store s(*this);
        s.prefix_ += std::move(id) + "/";
        return s;
    }

    class writer {
    public:
        writer(storage_client& c, std::string path, storage_server::file f)
            : c_(&c), path_(std::move(path)), file_(std::move(f)) {}
        writer(writer&& o) noexcept : c_(o.c_), path_(std::move(o.path_)), file_(o.take()) {}
        writer& operator=(writer&& o) noexcept {
            discard();
            c_ = o.c_;
            path_ = std::move(o.path_);
            file_ = o.take();
            return *this;
        }
        ~writer() { discard(); }

        void write(std::uint64_t at, bytes b) {
            c_->call("write of " + path_, [&] {
                if (!b.empty()) std::memcpy(file_->bytes.data() + at, b.data(), b.size());
            });
        }
        void finish(bool durable) {
            c_->call("finish of " + path_, [&] {
                if (c_->server.find(path_) != file_)
                    throw cairn::error(
                        cairn::errc::io,
                        {.file = path_, .found = "it was removed while being written"});
                auto const f = take();
                f->finished = true;
                f->durable = f->durable || durable;
            });
        }

        /// It stays.
        void keep() { (void)take(); }

    private:
        storage_server::file take() { return std::exchange(file_, nullptr); }
        /// Whatever a process has begun stays if it is killed, except in a storage of objects.
        void discard() noexcept {
            auto const f = take();
            if (!f || (c_->ended() && c_->kind != store_kind::conditional)) return;
            if (c_->server.find(path_) == f) c_->server.remove(path_, c_->process);
        }

        storage_client* c_;
        std::string path_;
        storage_server::file file_;
    };
    class reader {
    public:
        reader(storage_client& c, std::string path, cairn::byte_vector b)
            : c_(&c), path_(std::move(path)), bytes_(std::move(b)) {}
        void read(std::uint64_t at, std::span<std::byte> into) const {
            c_->call("read of " + path_, [&] {
                if (at > bytes_.size() || into.size() > bytes_.size() - at)
                    throw cairn::error(cairn::errc::corrupt, {.file = path_, .found = "its end"});
                if (!into.empty()) std::memcpy(into.data(), bytes_.data() + at, into.size());
            });
        }
        std::uint64_t size() const { return bytes_.size(); }

    private:
        storage_client* c_;
        std::string path_;
        cairn::byte_vector bytes_;
    };

    writer create(std::string_view n, std::uint64_t size) {
        auto path = full(n);
        return c_->call("create of " + path, [&] { return create_now(path, size); });
    }
    void publish(std::string_view n, bytes b, const std::optional<cairn::object_tag>& if_match) {
        auto const path = full(n);
        auto const temporary_path = full(std::string(temporary) + std::to_string(c_->process) +
                                         "." + std::to_string(c_->calls));
        auto const put = [&](const std::string& at) {
            auto w = create_now(at, b.size());
            auto const f = c_->server.find(at);
            if (!b.empty()) std::memcpy(f->bytes.data(), b.data(), b.size());
            f->finished = f->durable = true;
            return w;
        };
        if (c_->kind == store_kind::conditional) {
            c_->call("publish of " + path, [&] {
                compare(path, c_->server.find(path), if_match);
                put(temporary_path).keep();
                c_->server.rename(temporary_path, path, c_->process);
                c_->server.sync();
            });
            return;
        }
        {
            place_lock const lock(*c_, prefix_);
            auto w = c_->call("temporary file of " + path, [&] { return put(temporary_path); });
            remove_stale();
            if (if_match)
                c_->call("comparison of " + path,
                         [&] { compare(path, c_->look_up(path), if_match); });
            c_->call("rename to " + path, [&] {
                // After a day others take it for one of a process that has ended.
                if (!c_->server.find(temporary_path))
                    throw cairn::error(cairn::errc::io, {.file = path, .found = "no such file"});
                w.keep();
                c_->server.rename(temporary_path, path, c_->process);
                c_->cache.changed();
                if (c_->on_renamed) c_->on_renamed(path);
            });
        }
        sync();
    }
    reader open(std::string_view n) {
        auto const path = full(n);
        return c_->call("open of " + path, [&] {
            auto const f = visible(path);
            if (!f) throw cairn::error(cairn::errc::not_found, {.file = path});
            return reader(*c_, path, c_->where.seen(n, *f, c_->process));
        });
    }
    cairn::object_tag tag(std::string_view n) {
        auto const path = full(n);
        return c_->call("tag of " + path, [&] {
            c_->server.note_look(path, c_->process);
            return tag_of(visible(path));
        });
    }
    std::vector<cairn::object_info> list() {
        auto all = c_->call("list of " + prefix_, [&] { return c_->list(prefix_); });
        std::erase_if(all, [](auto& i) { return i.name.starts_with(temporary); });
        return all;
    }
    std::vector<std::string> places() {
        return c_->call("places of " + prefix_, [&] {
            std::set<std::string> out;
            for (auto const& [name, f] : c_->server.all()) {
                auto const slash = name.find('/', prefix_.size());
                if (c_->kind == store_kind::conditional && !f->finished) continue;
                if (name.starts_with(prefix_) && slash != std::string::npos)
                    out.insert(name.substr(prefix_.size(), slash - prefix_.size()));
            }
            return std::vector<std::string>(out.begin(), out.end());
        });
    }
    void remove_place(const std::string&) {}
    void remove(std::string_view n) {
        auto const path = full(n);
        c_->call("removal of " + path, [&] {
            c_->server.remove(path, c_->process);
            c_->cache.changed();
        });
    }
    void sync() {
        c_->call("sync of " + prefix_, [&] { c_->server.sync(); });
    }
    std::string describe(std::string_view n) { return prefix_ + std::string(n); }

private:
    /// Waits for the lock, as `file_store` does; a killed process has none.
    class place_lock {
    public:
        place_lock(storage_client& c, const std::string& place) : c_(c), place_(place) {
            if (c.kind != store_kind::locked) return;
            auto const until = c.world.now(c.process) + std::chrono::seconds(60);
            while (!c.server.lock(place_, c.process)) {
                if (c.world.now(c.process) > until)
                    throw cairn::error(cairn::errc::io, {.file = place_, .found = "it is locked"});
                c.pass(std::chrono::milliseconds(20));
            }
        }
        place_lock(place_lock&&) = delete;
        ~place_lock() { c_.server.unlock(place_, c_.process); }

    private:
        storage_client& c_;
        std::string place_;
    };
    std::string full(std::string_view n) const { return prefix_ + std::string(n); }
    storage_server::file visible(const std::string& path) {
        auto f = c_->look_up(path);
        if (f && c_->kind == store_kind::conditional && !f->finished) f = nullptr;
        return f;
    }
    static cairn::object_tag tag_of(const storage_server::file& f) {
        return {f ? std::to_string(f->number) : std::string()};
    }
    static void compare(const std::string& path, const storage_server::file& there,
                        const std::optional<cairn::object_tag>& wanted) {
        if (!wanted || tag_of(there) == *wanted) return;
        throw cairn::error(cairn::errc::concurrent_save,
                           {.file = path,
                            .expected = "version " + wanted->text,
                            .found = "version " + tag_of(there).text});
    }
    writer create_now(const std::string& path, std::uint64_t size) {
        auto f = c_->server.create(path, size, c_->maker());
        if (!f) throw cairn::error(cairn::errc::already_exists, {.file = path});
        c_->cache.changed();
        return {*c_, path, std::move(f)};
    }
    /// Whoever holds the lock is alone; without it, only what is a day old is certainly no one's.
    void remove_stale() {
        constexpr std::int64_t day = 24 * 60 * 60;
        for (auto const& info : c_->list(prefix_)) {
            if (!info.name.starts_with(temporary)) continue;
            auto const path = full(info.name);
            auto const f = c_->server.find(path);
            if (!f || f->by.process == c_->process) continue;
            if (c_->kind == store_kind::locked || c_->maker().at - f->by.at > day)
                c_->server.remove(path, c_->process);
        }
    }

    storage_client* c_;
    std::string prefix_{};
};
static_assert(cairn::BrowsableStore<simulated_store>);

}  // namespace simulation

#endif
