// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_STORAGE_SERVER_HPP
#define CAIRN_TEST_SIMULATION_STORAGE_SERVER_HPP

#include <cairn/object_store/concepts.hpp>

#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace simulation {

/// Who has made a file, and when: seconds of the process's clock, and of the storage's own.
struct maker {
    int process = -1;
    std::int64_t wall = 0;
    std::int64_t at = 0;
};
/// A file as the storage has it.
struct stored {
    cairn::byte_vector bytes{};
    std::uint64_t number = 0;  ///< Never used twice.
    maker by{};
    bool finished = false;
    bool durable = false;  ///< Its bytes.
};

/// Whoever looks at every change of the storage, before (`removed`) or after it.
class storage_watch {
public:
    virtual ~storage_watch() = default;
    virtual void removed(const std::string& name, const stored& file, int by) = 0;
    /// A file has this name now; `old` had it before, and may be null.
    virtual void placed(const std::string& name, const stored& file, int by) = 0;
    virtual void synced() = 0;
    /// A process has asked which version of an object is there.
    virtual void looked(const std::string& name, int by) = 0;
    /// A process could not create a file, because the name is taken.
    virtual void taken(const std::string& name, const stored& file, int by) = 0;
};

struct bucket_world;

/// What outlives all processes: names and bytes, and which of them would survive a crash. Its
/// functions are single steps; names are paths.
class storage_server {
public:
    using file = std::shared_ptr<stored>;
    using names = std::map<std::string, file, std::less<>>;

    /// The service, where the storage is a bucket; what is in it is here, too.
    std::shared_ptr<bucket_world> bucket{};

    void watch(storage_watch* w) { watch_ = w; }
    void note_look(const std::string& name, int by) {
        if (watch_) watch_->looked(name, by);
    }

    /// @return Null if the name is taken.
    file create(const std::string& name, std::uint64_t size, const maker& by) {
        auto const [it, fresh] = now_.try_emplace(name);
        if (!fresh) {
            if (watch_) watch_->taken(name, *it->second, by.process);
            return nullptr;
        }
        it->second = std::make_shared<stored>();
        it->second->bytes.resize(static_cast<std::size_t>(size));
        it->second->number = ++numbers_;
        it->second->by = by;
        changed_.insert(name);
        if (watch_) watch_->placed(name, *it->second, by.process);
        return it->second;
    }
    /// In one step: made or replaced, finished and durable.
    void put(const std::string& name, cairn::byte_vector bytes, const maker& by) {
        auto f = std::make_shared<stored>();
        f->bytes = std::move(bytes);
        f->number = ++numbers_;
        f->by = by;
        f->finished = f->durable = true;
        now_[name] = f;
        changed_.insert(name);
        if (watch_) watch_->placed(name, *f, by.process);
    }
    void rename(const std::string& from, const std::string& to, int by) {
        auto const it = now_.find(from);
        auto const f = it->second;
        now_.erase(it);
        now_[to] = f;
        changed_.insert(from);
        changed_.insert(to);
        if (watch_) watch_->placed(to, *f, by);
    }
    void remove(std::string_view name, int by) {
        auto const it = now_.find(name);
        if (it == now_.end()) return;
        if (watch_) watch_->removed(it->first, *it->second, by);
        changed_.insert(it->first);
        now_.erase(it);
    }
    file find(std::string_view name) const {
        auto const it = now_.find(name);
        return it == now_.end() ? nullptr : it->second;
    }
    /// What would be found after a crash.
    file find_durable(std::string_view name) const {
        auto const it = durable_.find(name);
        return it == durable_.end() || !it->second->durable ? nullptr : it->second;
    }
    const names& all() const { return now_; }
    /// Makes all names durable.
    void sync() {
        for (auto const& name : changed_) {
            auto const it = now_.find(name);
            if (it == now_.end())
                durable_.erase(name);
            else
                durable_[name] = it->second;
        }
        changed_.clear();
        if (watch_) watch_->synced();
    }
    /// The server loses what is not durable, or some of it.
    /// @param keeps  Asked for each change that is not.
    void crash(const std::function<bool()>& keeps) {
        if (bucket) return;  // whatever it has confirmed stays, uploads included
        for (auto const& name : changed_) {
            if (keeps()) continue;
            auto const it = durable_.find(name);
            if (it == durable_.end())
                now_.erase(name);
            else
                now_[name] = it->second;
        }
        for (auto const& [name, f] : now_) {
            if (!f->durable && !keeps()) f->bytes.assign(f->bytes.size(), std::byte{0});
            f->finished = f->durable = true;
        }
        durable_ = now_;
        changed_.clear();
        locks_.clear();
    }

    /// @return Whether `by` has it now.
    bool lock(const std::string& place, int by) {
        return locks_.try_emplace(place, by).first->second == by;
    }
    void unlock(const std::string& place, int by) {
        auto const it = locks_.find(place);
        if (it != locks_.end() && it->second == by) locks_.erase(it);
    }
    /// Those of a process that has ended.
    void unlock_all(int of) {
        for (auto it = locks_.begin(); it != locks_.end();)
            it = it->second == of ? locks_.erase(it) : std::next(it);
    }

private:
    storage_watch* watch_ = nullptr;
    names now_{};
    names durable_{};
    std::set<std::string> changed_{};  ///< Names that a crash may take back.
    std::map<std::string, int> locks_{};
    std::uint64_t numbers_ = 0;
};

}  // namespace simulation

#endif
