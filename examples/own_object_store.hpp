// SPDX-License-Identifier: Apache-2.0
#ifndef EXAMPLES_OWN_OBJECT_STORE_HPP
#define EXAMPLES_OWN_OBJECT_STORE_HPP

#include <cairn/object_store/concepts.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

/// Objects in a map. A real store would use a bucket or a database. Only small objects are ever
/// published, so their bytes serve as their tags.
class my_store {
    struct shared : std::recursive_mutex {
        std::map<std::string, std::shared_ptr<cairn::byte_vector>> objects;
        std::map<std::string, std::weak_ptr<cairn::byte_vector>> begun;  // owned by writers
    };
    std::shared_ptr<shared> s_ = std::make_shared<shared>();
    std::shared_ptr<cairn::byte_vector> find(const std::string& n) {
        std::lock_guard lock(*s_);
        return s_->objects.count(n) ? s_->objects[n] : nullptr;
    }
    cairn::error no(cairn::errc e, std::string_view n) { return {e, {.file = describe(n)}}; }

public:
    struct handle {
        std::shared_ptr<shared> s;
        std::string name;
        std::shared_ptr<cairn::byte_vector> data;
        void write(std::size_t at, cairn::byte_span b) { std::ranges::copy(b, data->data() + at); }
        void finish(bool) {
            std::lock_guard lock(*s);
            s->objects[name] = data;
        }
        void read(std::uint64_t at, std::span<std::byte> into) {
            if (at + into.size() > data->size()) throw cairn::error(cairn::errc::corrupt, {});
            std::copy_n(data->data() + at, into.size(), into.data());
        }
        std::uint64_t size() { return data->size(); }
    };
    handle create(std::string_view n, std::uint64_t size) {
        handle h{s_, std::string(n), std::make_shared<cairn::byte_vector>(size)};
        std::lock_guard lock(*s_);
        if (find(h.name) || !s_->begun[h.name].expired()) throw no(cairn::errc::already_exists, n);
        s_->begun[h.name] = h.data;
        return h;
    }
    void publish(std::string_view n, cairn::byte_span b, std::optional<cairn::object_tag> match) {
        std::lock_guard lock(*s_);
        if (match && tag(n) != *match) throw no(cairn::errc::concurrent_save, n);
        s_->objects[std::string(n)] = std::make_shared<cairn::byte_vector>(b.begin(), b.end());
    }
    handle open(std::string_view n) {
        if (auto data = find(std::string(n))) return {s_, std::string(n), data};
        throw no(cairn::errc::not_found, n);
    }
    cairn::object_tag tag(std::string_view n) {
        auto const d = find(std::string(n));
        return {d ? "=" + std::string(reinterpret_cast<char*>(d->data()), d->size()) : ""};
    }
    std::vector<cairn::object_info> list() {
        std::vector<cairn::object_info> out;
        std::lock_guard lock(*s_);
        for (auto const& [name, data] : s_->objects) out.push_back({name, data->size()});
        return out;
    }
    void remove(std::string_view n) {
        std::lock_guard lock(*s_);
        s_->objects.erase(std::string(n));
    }
    void sync() {}
    std::string describe(std::string_view n) { return "my-store:" + std::string(n); }
};
static_assert(cairn::ObjectStore<my_store>);

#endif
