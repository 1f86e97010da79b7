// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_S3_HANDLES_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_HANDLES_IPP

#include <cairn/object_store/s3.hpp>

#include <cairn/error.hpp>
#include <cairn/object_store/detail/s3/shared.hpp>
#include <cairn/object_store/detail/s3/upload.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace cairn {
namespace detail::s3 {

CAIRN_DECL begun_key::begun_key(local& l, std::string key, const std::string& described)
    : local_(l), key_(std::move(key)) {
    std::lock_guard const lock(local_.m);
    number_ = ++local_.handles;
    if (!local_.begun.try_emplace(key_, number_).second)
        throw error(errc::already_exists, {.file = described});
}

CAIRN_DECL begun_key::~begun_key() {
    std::lock_guard const lock(local_.m);
    auto const it = local_.begun.find(key_);
    if (it != local_.begun.end() && it->second == number_) local_.begun.erase(it);
    local_.forget(key_, upload_);
}

CAIRN_DECL bool begun_key::is_there() const {
    std::lock_guard const lock(local_.m);
    auto const it = local_.begun.find(key_);
    return it != local_.begun.end() && it->second == number_;
}

CAIRN_DECL void begun_key::has_upload(const std::string& id) {
    if (id.empty()) return;
    std::lock_guard const lock(local_.m);
    local_.uploads[key_].insert(id);
    upload_ = id;
}

CAIRN_DECL void begun_key::leave_upload() noexcept {
    upload_.clear();
    try {
        // Others may write to a name without an id.
        if (has_id(key_)) local_.may_have_others(key_);
    } catch (const std::bad_alloc&) {  // then it must be listed
    }
}

}  // namespace detail::s3

struct s3_store::writer::state {
    state(std::shared_ptr<detail::s3::shared> s, std::string key, const std::string& described)
        : all(std::move(s)), here(all->here()), held(here, key, described) {}
    state(state&&) = delete;
    ~state() {
        if (object && !object->end()) held.leave_upload();
    }

    std::shared_ptr<detail::s3::shared> all;
    detail::s3::local& here;
    detail::s3::begun_key held;
    std::optional<detail::s3::upload> object{};
};

CAIRN_DECL s3_store::writer::writer(std::unique_ptr<state> s) : s_(std::move(s)) {}
CAIRN_DECL s3_store::writer::writer(writer&&) noexcept = default;
CAIRN_DECL s3_store::writer& s3_store::writer::operator=(writer&& o) noexcept {
    writer old(std::move(*this));
    s_ = std::move(o.s_);
    return *this;
}
CAIRN_DECL s3_store::writer::~writer() {
    // In a child: its parent's, whose threads are not here.
    if (s_ && !s_->here.home.is_this()) (void)s_.release();
}

CAIRN_DECL void s3_store::writer::write(std::uint64_t at, byte_span b) {
    s_->object->write(at, b);
}
CAIRN_DECL void s3_store::writer::finish(bool) {
    if (!s_->held.is_there())
        throw error(errc::io, {.file = s_->here.requests.options().describe(s_->object->key()),
                               .found = "it was removed while being written"});
    try {
        s_->object->finish();
    } catch (...) {
        if (s_->object->may_appear()) s_->here.may_appear_late(s_->object->key());
        throw;
    }
    std::lock_guard const lock(s_->here.m);
    s_->here.late.erase(s_->object->key());
}

struct s3_store::reader::state {
    std::shared_ptr<detail::s3::shared> all;
    std::string key;
    std::uint64_t size;
    std::string tag;
};

CAIRN_DECL s3_store::reader::reader(std::unique_ptr<state> s) : s_(std::move(s)) {}
CAIRN_DECL s3_store::reader::reader(reader&&) noexcept = default;
CAIRN_DECL s3_store::reader& s3_store::reader::operator=(reader&&) noexcept = default;
CAIRN_DECL s3_store::reader::~reader() = default;

CAIRN_DECL std::uint64_t s3_store::reader::size() const noexcept {
    return s_->size;
}
CAIRN_DECL object_tag s3_store::reader::tag() const {
    return {s_->tag};
}

CAIRN_DECL void s3_store::reader::read(std::uint64_t at, std::span<std::byte> into) const {
    auto const described = s_->all->options().describe(s_->key);
    if (at > s_->size || into.size() > s_->size - at)
        throw error(errc::corrupt, {.file = described,
                                    .expected = std::to_string(at + into.size()) + " bytes",
                                    .found = std::to_string(s_->size) + " bytes"});
    if (into.empty()) return;
    auto& requests = s_->all->here().requests;
    auto get = requests.about("GET", s_->key, "s3:GetObject");
    get.headers = {
        {"range", "bytes=" + std::to_string(at) + "-" + std::to_string(at + into.size() - 1)}};
    get.into = into;
    auto const a = requests.send(get);
    bool const gone = a.is_missing() || a.is(412) || a.is(416);
    if (gone || (a.is(206) && a.got.header("etag") != s_->tag))
        throw error(errc::not_found,
                    {.file = described,
                     .expected = "the version that was opened",
                     .found = a.is(404) ? "no such object" : "another one: it was replaced"});
    if (a.is(200))
        throw error(errc::unsupported, {.file = described,
                                        .expected = "the range that was asked for",
                                        .found = "a server that sends whole objects instead",
                                        .remedy = "use another server"});
    if (!a.ok()) throw requests.failure(get, a);
    if (auto other = detail::s3::other_range(a.got, at, into.size()))
        throw error(errc::io, {.file = described,
                               .expected = "the range that was asked for",
                               .found = std::move(*other)});
    if (a.got.received != into.size())
        throw error(errc::io, {.file = described,
                               .expected = std::to_string(into.size()) + " bytes",
                               .found = std::to_string(a.got.received)});
}

}  // namespace cairn

#endif
