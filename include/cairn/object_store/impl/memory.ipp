// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_MEMORY_IPP
#define CAIRN_OBJECT_STORE_IMPL_MEMORY_IPP

#include <cairn/object_store/memory.hpp>

#include <cairn/object_store/detail/names.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <utility>

namespace cairn {

static_assert(RenamingStore<memory_store>);

struct memory_store::state {
    std::mutex m;
    std::map<std::string, std::shared_ptr<const object>, std::less<>> objects;
    /// Names of unfinished objects, with the number of each one's handle.
    std::map<std::string, std::uint64_t, std::less<>> begun;
    std::uint64_t versions = 0;
};

inline std::int64_t nanoseconds_now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

CAIRN_DECL memory_store::memory_store() : s_(std::make_shared<state>()) {}

CAIRN_DECL memory_store memory_store::at(std::string id) const {
    while (!id.empty() && id.back() == '/') id.pop_back();
    memory_store m(*this);
    m.prefix_ += std::move(id) + "/";
    return m;
}

CAIRN_DECL memory_store::writer::writer(std::shared_ptr<state> s, std::string key,
                                        std::uint64_t number, byte_vector bytes)
    : s_(std::move(s)), key_(std::move(key)), number_(number), bytes_(std::move(bytes)) {}

CAIRN_DECL memory_store::writer& memory_store::writer::operator=(writer&& other) noexcept {
    if (this != std::addressof(other)) {
        discard();
        s_ = std::move(other.s_);
        key_ = std::move(other.key_);
        number_ = other.number_;
        bytes_ = std::move(other.bytes_);
    }
    return *this;
}

CAIRN_DECL memory_store::writer::~writer() {
    discard();
}

CAIRN_DECL void memory_store::writer::write(std::uint64_t at, byte_span b) {
    if (!s_ || at > bytes_.size() || b.size() > bytes_.size() - at)
        throw error(errc::invalid_argument,
                    {.file = "memory:" + key_,
                     .expected = "bytes within the " + std::to_string(bytes_.size()) +
                                 " that were asked for, before finish",
                     .found = std::to_string(b.size()) + " at " + std::to_string(at)});
    if (!b.empty()) std::memcpy(bytes_.data() + at, b.data(), b.size());
}

CAIRN_DECL void memory_store::writer::finish(bool) {
    auto const s = std::move(s_);
    if (!s)
        throw error(errc::invalid_argument,
                    {.file = "memory:" + key_, .expected = "one finish", .found = "a second one"});
    auto const made = std::make_shared<object>(object{std::move(bytes_), 0, nanoseconds_now()});
    std::lock_guard const lock(s->m);
    auto const it = s->begun.find(key_);
    if (it == s->begun.end() || it->second != number_)
        throw error(errc::io,
                    {.file = "memory:" + key_, .found = "it was removed while being written"});
    made->version = ++s->versions;
    s->begun.erase(it);
    s->objects[key_] = made;
}

CAIRN_DECL void memory_store::writer::discard() noexcept {
    auto const s = std::move(s_);
    if (!s) return;
    std::lock_guard const lock(s->m);
    auto const it = s->begun.find(key_);
    if (it != s->begun.end() && it->second == number_) s->begun.erase(it);
}

CAIRN_DECL memory_store::reader::reader(std::shared_ptr<const object> o, std::string name)
    : o_(std::move(o)), name_(std::move(name)) {}

CAIRN_DECL void memory_store::reader::read(std::uint64_t at, std::span<std::byte> into) const {
    if (at > o_->bytes.size() || into.size() > o_->bytes.size() - at) {
        throw error(errc::corrupt, {.file = name_,
                                    .expected = std::to_string(at + into.size()) + " bytes",
                                    .found = std::to_string(o_->bytes.size()) + " bytes"});
    }
    if (!into.empty()) std::memcpy(into.data(), o_->bytes.data() + at, into.size());
}

CAIRN_DECL memory_store::writer::writer(writer&&) noexcept = default;

CAIRN_DECL memory_store::writer memory_store::create(std::string_view name, std::uint64_t size) {
    auto full = key(name);
    byte_vector bytes;
    if (size > bytes.max_size()) throw no_room(name, size);
    try {
        bytes.resize(static_cast<std::size_t>(size));
    } catch (const std::bad_alloc&) {
        throw no_room(name, size);
    }
    std::lock_guard const lock(s_->m);
    auto const number = s_->versions + 1;
    if (s_->objects.count(full) != 0 || !s_->begun.try_emplace(full, number).second)
        throw error(errc::already_exists, {.file = describe(name)});
    s_->versions = number;
    return {s_, std::move(full), number, std::move(bytes)};
}

CAIRN_DECL void memory_store::publish(std::string_view name, byte_span b,
                                      std::optional<object_tag> if_match) {
    auto full = key(name);
    auto const fresh =
        std::make_shared<object>(object{byte_vector(b.begin(), b.end()), 0, nanoseconds_now()});
    std::lock_guard const lock(s_->m);
    if (if_match && tag_of(full) != *if_match)
        throw error(errc::concurrent_save, {.file = describe(name),
                                            .expected = words(*if_match),
                                            .found = words(tag_of(full)),
                                            .remedy = "another job saves to the same place"});
    fresh->version = ++s_->versions;
    s_->begun.erase(full);
    s_->objects[std::move(full)] = fresh;
}

CAIRN_DECL memory_store::reader memory_store::open(std::string_view name) {
    std::lock_guard const lock(s_->m);
    auto const it = s_->objects.find(key(name));
    if (it == s_->objects.end()) throw error(errc::not_found, {.file = describe(name)});
    return {it->second, describe(name)};
}

CAIRN_DECL object_tag memory_store::tag(std::string_view name) {
    std::lock_guard const lock(s_->m);
    return tag_of(key(name));
}

CAIRN_DECL std::vector<object_info> memory_store::list() {
    std::vector<object_info> out;
    std::lock_guard const lock(s_->m);
    for (auto const& [name, o] : s_->objects)
        if (name.starts_with(prefix_) && name.find('/', prefix_.size()) == std::string::npos)
            out.push_back({name.substr(prefix_.size()), o->bytes.size(), o->modified});
    return out;
}

CAIRN_DECL std::vector<std::string> memory_store::places_that(bool hidden) {
    std::vector<std::string> out;
    std::lock_guard const lock(s_->m);
    for (auto const& [name, o] : s_->objects) {
        auto const slash = name.find('/', prefix_.size());
        if (!name.starts_with(prefix_) || slash == std::string::npos) continue;
        auto place = name.substr(prefix_.size(), slash - prefix_.size());
        if (place.starts_with('.') == hidden && (out.empty() || out.back() != place))
            out.push_back(std::move(place));
    }
    std::sort(out.begin(), out.end());  // '-' is less than '/'
    return out;
}
CAIRN_DECL std::vector<std::string> memory_store::places() {
    return places_that(false);
}
CAIRN_DECL std::vector<std::string> memory_store::hidden_places() {
    return places_that(true);
}

CAIRN_DECL void memory_store::remove(std::string_view name) {
    std::lock_guard const lock(s_->m);
    auto const full = key(name);
    s_->objects.erase(full);
    s_->begun.erase(full);
}

/// The objects of one name: itself, or all of a place.
struct memory_store::named {
    named(state& s, std::string full) : all(s.objects), key(std::move(full)) {
        first = all.lower_bound(key + "/");
        end = first;
        while (end != all.end() && end->first.starts_with(key + "/")) ++end;
        if (auto const it = all.find(key); it != all.end()) object = it->second;
    }
    name_kind kind() const {
        return object ? name_kind::object : first != end ? name_kind::place : name_kind::none;
    }
    /// Removes them. @return Their names, without that of the place.
    std::map<std::string, std::shared_ptr<const memory_store::object>> take() {
        std::map<std::string, std::shared_ptr<const memory_store::object>> out;
        if (object) out.emplace("", object);
        for (auto it = first; it != end; ++it)
            out.emplace(it->first.substr(key.size()), it->second);
        all.erase(first, end);
        all.erase(key);
        return out;
    }

    decltype(state::objects)& all;
    std::string key;
    decltype(state::objects)::iterator first{}, end{};
    std::shared_ptr<const memory_store::object> object{};
};

CAIRN_DECL name_kind memory_store::kind_of(std::string_view name) {
    std::lock_guard const lock(s_->m);
    return named(*s_, key(name)).kind();
}
CAIRN_DECL void memory_store::rename(std::string_view from, std::string_view to, bool both) {
    std::lock_guard const lock(s_->m);
    named a(*s_, key(from)), b(*s_, key(to));
    if (a.kind() == name_kind::none) throw error(errc::not_found, {.file = describe(from)});
    bool const there = b.kind() != name_kind::none;
    if (there && !both) throw error(errc::already_exists, {.file = describe(to)});
    if (!there && both) throw error(errc::not_found, {.file = describe(to)});
    // What is being written in one of them is removed.
    std::erase_if(s_->begun, [&](auto const& x) {
        return x.first.starts_with(a.key + "/") || x.first.starts_with(b.key + "/");
    });
    auto const of_a = a.take(), of_b = b.take();
    for (auto const& [rest, o] : of_a) s_->objects[b.key + rest] = o;
    for (auto const& [rest, o] : of_b) s_->objects[a.key + rest] = o;
}
CAIRN_DECL void memory_store::move(std::string_view from, std::string_view to) {
    rename(from, to, false);
}
CAIRN_DECL void memory_store::exchange(std::string_view a, std::string_view b) {
    rename(a, b, true);
}
CAIRN_DECL void memory_store::remove_tree(std::string_view name) {
    std::lock_guard const lock(s_->m);
    auto const within = key(name) + "/";
    auto const is_there = [&](auto const& x) { return x.first.starts_with(within); };
    std::erase_if(s_->objects, is_there);
    std::erase_if(s_->begun, is_there);
}

CAIRN_DECL std::string memory_store::describe(std::string_view name) {
    return "memory:" + prefix_ + std::string(name);
}

CAIRN_DECL std::string memory_store::key(std::string_view name) const {
    if (!detail::is_object_name(name))
        throw detail::bad_object_name("memory:" + prefix_ + std::string(name));
    return prefix_ + std::string(name);
}

CAIRN_DECL error memory_store::no_room(std::string_view name, std::uint64_t size) {
    return {errc::io,
            {.file = describe(name),
             .expected = std::to_string(size) + " bytes of memory",
             .found = "less"}};
}

CAIRN_DECL std::string memory_store::words(const object_tag& t) {
    return t.text.empty() ? std::string("no object") : "version " + t.text;
}

CAIRN_DECL object_tag memory_store::tag_of(const std::string& full) const {
    auto const it = s_->objects.find(full);
    return it == s_->objects.end() ? object_tag{} : object_tag{std::to_string(it->second->version)};
}

}  // namespace cairn

#endif
