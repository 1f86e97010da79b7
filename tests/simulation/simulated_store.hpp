// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_SIMULATED_STORE_HPP
#define CAIRN_TEST_SIMULATION_SIMULATED_STORE_HPP

#include "bucket.hpp"
#include "storage_client.hpp"

#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/s3.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace simulation {

/// A call of cairn's store, which is told apart from what others have done if a request of it did
/// not go well.
template <class F>
auto in_bucket(storage_client& c, const std::string& what, F&& f) {
    try {
        return f();
    } catch (const process_ended&) {
        throw;
    } catch (const cairn::error& e) {
        bool const usual = e.code() == make_error_code(cairn::errc::not_found) ||
                           e.code() == make_error_code(cairn::errc::already_exists) ||
                           e.code() == make_error_code(cairn::errc::concurrent_save);
        if (!usual && std::exchange(c.troubled, false) && c.on_fault) c.on_fault(what);
        throw;
    } catch (...) {
        if (std::exchange(c.troubled, false) && c.on_fault) c.on_fault(what);
        throw;
    }
}

/// The storage, as one process uses it: each call takes some of the world's time. Replacing takes
/// the steps of `file_store`. A bucket is used through cairn's own store of it.
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
        writer(storage_client& c, std::string path, cairn::s3_store::writer w)
            : c_(&c), path_(std::move(path)), sent_(std::move(w)) {}
        writer(writer&& o) noexcept
            : c_(o.c_), path_(std::move(o.path_)), file_(o.take()),
              sent_(std::exchange(o.sent_, std::nullopt)) {}
        writer& operator=(writer&& o) noexcept {
            discard();
            c_ = o.c_;
            path_ = std::move(o.path_);
            file_ = o.take();
            sent_ = std::exchange(o.sent_, std::nullopt);
            return *this;
        }
        ~writer() { discard(); }

        void write(std::uint64_t at, bytes b) {
            if (sent_) return in_bucket(*c_, "write of " + path_, [&] { sent_->write(at, b); });
            c_->call("write of " + path_, [&] {
                if (!b.empty()) std::memcpy(file_->bytes.data() + at, b.data(), b.size());
            });
        }
        void finish(bool durable) {
            if (sent_) return in_bucket(*c_, "finish of " + path_, [&] { sent_->finish(durable); });
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
        /// Whatever a process has begun stays if it is killed.
        void discard() noexcept {
            auto const f = take();
            if (!f || c_->ended()) return;
            if (c_->server.find(path_) == f) c_->server.remove(path_, c_->process);
        }

        storage_client* c_;
        std::string path_;
        storage_server::file file_{};
        std::optional<cairn::s3_store::writer> sent_{};
    };
    class reader {
    public:
        reader(storage_client& c, std::string path, cairn::byte_vector b)
            : c_(&c), path_(std::move(path)), bytes_(std::move(b)) {}
        reader(storage_client& c, std::string path, cairn::s3_store::reader r)
            : c_(&c), path_(std::move(path)), asked_(std::move(r)) {}
        void read(std::uint64_t at, std::span<std::byte> into) const {
            if (asked_) return in_bucket(*c_, "read of " + path_, [&] { asked_->read(at, into); });
            c_->call("read of " + path_, [&] {
                if (at > bytes_.size() || into.size() > bytes_.size() - at)
                    throw cairn::error(cairn::errc::corrupt, {.file = path_, .found = "its end"});
                if (!into.empty()) std::memcpy(into.data(), bytes_.data() + at, into.size());
            });
        }
        std::uint64_t size() const { return asked_ ? asked_->size() : bytes_.size(); }

    private:
        storage_client* c_;
        std::string path_;
        cairn::byte_vector bytes_{};
        std::optional<cairn::s3_store::reader> asked_{};
    };

    writer create(std::string_view n, std::uint64_t size) {
        auto path = full(n);
        if (auto b = bucket())
            return in_bucket(*c_, "create of " + path,
                             [&] { return writer(*c_, path, b->create(n, size)); });
        return c_->call("create of " + path, [&] { return create_now(path, size); });
    }
    void publish(std::string_view n, bytes b, const std::optional<cairn::object_tag>& if_match,
                 const std::function<void()>& look = {}) {
        auto const path = full(n);
        if (auto to = bucket()) {
            if (look) look();
            return in_bucket(*c_, "publish of " + path, [&] { to->publish(n, b, if_match); });
        }
        auto const temporary_path = full(std::string(temporary) + std::to_string(c_->process) +
                                         "." + std::to_string(c_->calls));
        auto const put = [&](const std::string& at) {
            auto w = create_now(at, b.size());
            auto const f = c_->server.find(at);
            if (!b.empty()) std::memcpy(f->bytes.data(), b.data(), b.size());
            f->finished = f->durable = true;
            return w;
        };
        {
            auto w = c_->call("temporary file of " + path, [&] { return put(temporary_path); });
            place_lock const lock(*c_, prefix_);
            remove_stale();
            if (if_match)
                c_->call("comparison of " + path,
                         [&] { compare(path, c_->look_up(path), if_match); });
            if (look) look();
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
    void prepare_publish(std::string_view n) {
        if (auto b = bucket())
            in_bucket(*c_, "trial beside " + full(n), [&] { b->prepare_publish(n); });
    }
    reader open(std::string_view n) {
        auto const path = full(n);
        if (auto b = bucket())
            return in_bucket(*c_, "open of " + path, [&] { return reader(*c_, path, b->open(n)); });
        return c_->call("open of " + path, [&] {
            auto const f = c_->look_up(path);
            if (!f) throw cairn::error(cairn::errc::not_found, {.file = path});
            return reader(*c_, path, c_->where.seen(n, *f, c_->process));
        });
    }
    cairn::object_tag tag(std::string_view n) {
        auto const path = full(n);
        if (auto b = bucket()) return in_bucket(*c_, "tag of " + path, [&] { return b->tag(n); });
        return c_->call("tag of " + path, [&] {
            c_->server.note_look(path, c_->process);
            return tag_of(c_->look_up(path));
        });
    }
    std::vector<cairn::object_info> list() {
        if (auto b = bucket())
            return in_bucket(*c_, "list of " + prefix_, [&] { return b->list(); });
        auto all = c_->call("list of " + prefix_, [&] { return c_->list(prefix_); });
        std::erase_if(all, [](auto& i) { return i.name.starts_with(temporary); });
        return all;
    }
    std::vector<cairn::object_info> list_finished() {
        if (auto b = bucket())
            return in_bucket(*c_, "list of " + prefix_, [&] { return b->list_finished(); });
        return list();
    }
    std::vector<std::string> places() {
        if (auto b = bucket())
            return in_bucket(*c_, "places of " + prefix_, [&] { return b->places(); });
        return c_->call("places of " + prefix_, [&] {
            std::set<std::string> out;
            for (auto const& one : c_->server.all()) {
                auto const& name = one.first;
                auto const slash = name.find('/', prefix_.size());
                if (name.starts_with(prefix_) && slash != std::string::npos)
                    out.insert(name.substr(prefix_.size(), slash - prefix_.size()));
            }
            return std::vector<std::string>(out.begin(), out.end());
        });
    }
    std::vector<cairn::place_info> places_with(std::string_view n) {
        if (auto b = bucket())
            return in_bucket(*c_, "places of " + prefix_, [&] { return b->places_with(n); });
        std::vector<cairn::place_info> out;
        for (auto& id : places()) out.push_back({std::move(id)});
        return out;
    }
    void remove_place(const std::string& id) {
        if (auto b = bucket())
            in_bucket(*c_, "removal of place " + prefix_ + id, [&] { b->remove_place(id); });
    }
    void remove(std::string_view n) {
        auto const path = full(n);
        if (auto b = bucket()) return in_bucket(*c_, "removal of " + path, [&] { b->remove(n); });
        c_->call("removal of " + path, [&] {
            c_->server.remove(path, c_->process);
            c_->cache.changed();
        });
    }
    void remove(std::string_view n, const cairn::object_tag& version) {
        if (auto b = bucket())
            return in_bucket(*c_, "removal of " + full(n), [&] { b->remove(n, version); });
        remove(n);
    }
    void remove_trials() {
        if (auto b = bucket()) in_bucket(*c_, "trials of " + prefix_, [&] { b->remove_trials(); });
    }
    void end_uploads(std::string_view n) {
        if (auto b = bucket()) in_bucket(*c_, "uploads of " + full(n), [&] { b->end_uploads(n); });
    }
    void sync() {
        if (c_->kind == store_kind::bucket) return;
        c_->call("sync of " + prefix_, [&] { c_->server.sync(); });
    }
    std::string describe(std::string_view n) { return prefix_ + std::string(n); }

private:
    /// The place in the bucket, where the storage is one.
    std::optional<cairn::s3_store> bucket() const {
        if (c_->kind != store_kind::bucket) return {};
        if (!c_->bucket) c_->bucket = make_bucket(*c_);
        return prefix_.empty() ? *c_->bucket
                               : c_->bucket->at(prefix_.substr(0, prefix_.size() - 1));
    }
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
    /// Those of processes of this host that have ended, and what is a day old.
    void remove_stale() {
        constexpr std::int64_t day = 24 * 60 * 60;
        for (auto const& info : c_->list(prefix_)) {
            if (!info.name.starts_with(temporary)) continue;
            auto const path = full(info.name);
            auto const f = c_->server.find(path);
            if (!f || f->by.process == c_->process) continue;
            bool const left = c_->where.host_of(f->by.process) == c_->where.host_of(c_->process) &&
                              c_->world.dead(f->by.process);
            if (left || c_->maker().at - f->by.at > day) c_->server.remove(path, c_->process);
        }
    }

    storage_client* c_;
    std::string prefix_{};
};
static_assert(cairn::BrowsableStore<simulated_store>);

}  // namespace simulation

#endif
