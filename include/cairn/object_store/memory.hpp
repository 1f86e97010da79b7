// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_MEMORY_HPP
#define CAIRN_OBJECT_STORE_MEMORY_HPP

#include <cairn/object_store/concepts.hpp>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

/// Objects in memory: for tests, and to hand state to another job of this process.
///
/// Copies, and the stores that `at` gives, share the same objects.
class memory_store {
    struct object {
        byte_vector bytes;
        std::uint64_t version = 0;
    };
    struct state {
        std::mutex m;
        std::map<std::string, std::shared_ptr<object>, std::less<>> objects;
        std::set<std::string, std::less<>> begun;
        std::uint64_t versions = 0;
    };

public:
    memory_store() : s_(std::make_shared<state>()) {}

    memory_store at(std::string id) const {
        memory_store m(*this);
        m.prefix_ += std::move(id) + "/";
        return m;
    }

    class writer {
    public:
        writer(std::shared_ptr<state> s, std::string name, std::uint64_t size)
            : s_(std::move(s)), name_(std::move(name)), bytes_(static_cast<std::size_t>(size)) {}
        writer(writer&&) noexcept = default;
        writer& operator=(writer&&) = delete;
        ~writer() {
            if (!s_) return;
            std::lock_guard const lock(s_->m);
            s_->begun.erase(name_);
        }
        /// Ranges of one object that do not meet may be written from several threads.
        void write(std::uint64_t at, byte_span b) {
            if (at + b.size() > bytes_.size()) {
                std::lock_guard const lock(s_->m);
                bytes_.resize(static_cast<std::size_t>(at) + b.size());
            }
            if (!b.empty()) std::memcpy(bytes_.data() + at, b.data(), b.size());
        }
        void finish(bool) {
            auto const s = std::move(s_);
            std::lock_guard const lock(s->m);
            s->begun.erase(name_);
            s->objects[name_] = std::make_shared<object>(object{std::move(bytes_), ++s->versions});
        }

    private:
        std::shared_ptr<state> s_;
        std::string name_;
        byte_vector bytes_;
    };

    class reader {
    public:
        reader(std::shared_ptr<const object> o, std::string name)
            : o_(std::move(o)), name_(std::move(name)) {}
        void read(std::uint64_t at, std::span<std::byte> into) const {
            if (at > o_->bytes.size() || into.size() > o_->bytes.size() - at) {
                throw error(errc::corrupt, {.object = name_,
                                            .expected = std::to_string(at + into.size()) + " bytes",
                                            .found = std::to_string(o_->bytes.size()) + " bytes"});
            }
            if (!into.empty()) std::memcpy(into.data(), o_->bytes.data() + at, into.size());
        }
        std::uint64_t size() const noexcept { return o_->bytes.size(); }

    private:
        std::shared_ptr<const object> o_;
        std::string name_;
    };

    writer create(std::string_view name, std::uint64_t size) {
        auto full = key(name);
        std::lock_guard const lock(s_->m);
        if (s_->objects.count(full) != 0 || !s_->begun.insert(full).second)
            throw error(errc::already_exists, {.object = describe(name)});
        return {s_, std::move(full), size};
    }
    void publish(std::string_view name, byte_span b, std::optional<object_tag> if_match) {
        auto full = key(name);
        std::lock_guard const lock(s_->m);
        if (if_match && tag_of(full) != *if_match)
            throw error(errc::concurrent_save,
                        {.object = describe(name), .found = "another version"});
        s_->objects[std::move(full)] =
            std::make_shared<object>(object{byte_vector(b.begin(), b.end()), ++s_->versions});
    }
    reader open(std::string_view name) {
        std::lock_guard const lock(s_->m);
        auto const it = s_->objects.find(key(name));
        if (it == s_->objects.end()) throw error(errc::not_found, {.object = describe(name)});
        return {it->second, describe(name)};
    }
    object_tag tag(std::string_view name) {
        std::lock_guard const lock(s_->m);
        return tag_of(key(name));
    }
    std::vector<object_info> list() {
        std::vector<object_info> out;
        std::lock_guard const lock(s_->m);
        for (auto const& [name, o] : s_->objects)
            if (name.starts_with(prefix_) && name.find('/', prefix_.size()) == std::string::npos)
                out.push_back({name.substr(prefix_.size()), o->bytes.size()});
        return out;
    }
    void remove(std::string_view name) {
        std::lock_guard const lock(s_->m);
        s_->objects.erase(key(name));
    }
    void sync() {}
    std::string describe(std::string_view name) { return "memory:" + prefix_ + std::string(name); }

private:
    std::string key(std::string_view name) const {
        if (name.empty() || name.front() == '/' || name.find("..") != std::string_view::npos)
            throw error(errc::invalid_argument, {.object = std::string(name),
                                                 .expected = "a relative name without '..'"});
        return prefix_ + std::string(name);
    }
    object_tag tag_of(const std::string& full) const {
        auto const it = s_->objects.find(full);
        return it == s_->objects.end() ? object_tag{}
                                       : object_tag{std::to_string(it->second->version)};
    }

    std::shared_ptr<state> s_;
    std::string prefix_;
};
static_assert(RelocatableStore<memory_store>);

}  // namespace cairn

#endif
