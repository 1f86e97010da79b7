// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_S3_UPLOAD_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_UPLOAD_IPP

#include <cairn/object_store/detail/s3/upload.hpp>

#include <cairn/detail/identity.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/detail/heeded_stop.hpp>
#include <cairn/object_store/detail/s3/checksum.hpp>
#include <cairn/object_store/detail/s3/conditional.hpp>
#include <cairn/object_store/detail/s3/listing.hpp>
#include <cairn/object_store/detail/s3/text.hpp>
#include <cairn/object_store/detail/s3/xml.hpp>
#include <cairn/object_store/detail/time_limit.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

namespace cairn::detail::s3 {

/// Of an object, in its metadata: the upload that it is of. Several may have its size.
inline constexpr const char* mark_header = "x-amz-meta-cairn-upload";

CAIRN_DECL bool has_id(std::string_view key) {
    constexpr std::size_t length = 32;
    std::size_t digits = 0;
    for (auto const c : key.substr(key.rfind('/') + 1)) {
        bool const is_one = is_digit(c) || (c >= 'a' && c <= 'f');
        if (!is_one && digits == length) return true;
        digits = is_one ? digits + 1 : 0;
    }
    return digits == length;
}

CAIRN_DECL upload::upload(client& c, upload_pool& pool, std::string key, std::uint64_t size,
                          bool& may_be_begun)
    : client_(c), pool_(pool), user_(pool), key_(std::move(key)), what_(c.options().describe(key_)),
      size_(size), part_size_(c.options().part_size(size)),
      parts_(static_cast<std::size_t>(size == 0 ? 1 : (size - 1) / part_size_ + 1)) {
    cancelled_.emplace(heeded_stop::current(), on_cancel{*this});
    if (parts_.size() == 1) return;
    mark_ = new_save_id();
    auto begin = client_.about("POST", key_, "s3:PutObject");
    begin.query = {{"uploads", ""}};
    begin.headers = {{"x-amz-checksum-algorithm", "CRC32"}, {mark_header, mark_}};
    begin.creates = true;
    auto const since = client_.now();
    may_be_begun = true;
    auto const a = client_.send(begin);
    if (!a.ok()) {
        may_be_begun = a.in_doubt;
        throw client_.failure(begin, a);
    }
    id_ = trimmed(
        parse_xml(a.got.body).get<std::string>("InitiateMultipartUploadResult.UploadId", ""));
    if (id_.empty())
        throw error(errc::io, {.file = what_,
                               .expected = "an answer that names the upload",
                               .found = "one that does not"});
    // Those to a key that others use, too, may be theirs.
    in_doubt_ = a.in_doubt && has_id(key_);
    if (in_doubt_) end_others(since);
}

/// A try whose answer was lost may have begun an upload that nobody knows.
CAIRN_DECL void upload::end_others(std::chrono::system_clock::time_point since) noexcept {
    constexpr std::chrono::minutes clocks_differ{5};
    try {
        for (auto const& u : list_uploads(client_, key_))
            if (u.key == key_ && u.id != id_ && u.begun >= since - clocks_differ) (void)abort(u.id);
    } catch (...) {  // it has no parts, and ends when its object is removed
    }
}

CAIRN_DECL upload::~upload() {
    (void)end();
}

CAIRN_DECL bool upload::end() noexcept {
    cancelled_.reset();
    stop_ = true;
    {
        std::unique_lock lock(m_);
        sent_.wait(lock, [this] { return under_way_ == 0; });
    }
    if (finished_ || id_.empty()) return true;
    return abort(std::exchange(id_, {}));  // once, whatever it says
}

CAIRN_DECL std::uint64_t upload::length_of(std::size_t n) const noexcept {
    return std::min(part_size_, size_ - n * part_size_);
}

CAIRN_DECL void upload::note_failure(std::exception_ptr why) noexcept {
    std::lock_guard const lock(m_);
    if (!failure_) failure_ = std::move(why);
    stop_ = true;
}

CAIRN_DECL void upload::cancel() noexcept {
    try {
        note_failure(std::make_exception_ptr(error(errc::cancelled, {.file = what_})));
    } catch (...) {  // no memory to say so
        note_failure(std::current_exception());
    }
}

CAIRN_DECL void upload::throw_failure(const std::unique_lock<std::mutex>&) const {
    if (failure_) std::rethrow_exception(failure_);
}

CAIRN_DECL void upload::write(std::uint64_t at, byte_span b) {
    {
        std::unique_lock const lock(m_);
        if (finished_ || at > size_ || b.size() > size_ - at)
            throw error(errc::invalid_argument,
                        {.file = what_,
                         .expected = "bytes within the " + std::to_string(size_) +
                                     " that were asked for, before finish",
                         .found = std::to_string(b.size()) + " at " + std::to_string(at)});
        throw_failure(lock);
    }
    try {
        while (!b.empty()) {
            auto const n = static_cast<std::size_t>(at / part_size_);
            auto const within = static_cast<std::size_t>(at % part_size_);
            auto const most = static_cast<std::size_t>(length_of(n)) - within;
            auto const piece = b.first(std::min(b.size(), most));
            write_part(n, within, piece);
            at += piece.size();
            b = b.subspan(piece.size());
        }
    } catch (...) {
        note_failure(std::current_exception());
        throw;
    }
}

CAIRN_DECL void upload::begin_part(std::unique_lock<std::mutex>& lock, std::size_t n) {
    if (parts_[n].begun) return;
    // Those that send parts need the lock.
    lock.unlock();
    auto memory = pool_.take(static_cast<std::size_t>(length_of(n)));
    lock.lock();
    if (parts_[n].begun) return;  // by another thread, meanwhile
    parts_[n].memory = std::move(memory);
    parts_[n].begun = true;
}

CAIRN_DECL void upload::write_part(std::size_t n, std::size_t at, byte_span b) {
    std::unique_lock lock(m_);
    begin_part(lock, n);
    throw_failure(lock);
    auto& p = parts_[n];
    if (p.complete)
        throw error(errc::invalid_argument, {.file = what_,
                                             .expected = "each byte to be written once",
                                             .found = "bytes that were written before",
                                             .remedy = "write an object front to back"});
    auto const to = p.memory.bytes().subspan(at, b.size());
    lock.unlock();
    std::memcpy(to.data(), b.data(), b.size());
    lock.lock();
    p.written.add(at, at + b.size());
    if (p.written.is_all(static_cast<std::size_t>(length_of(n)))) send_later(lock, n);
}

/// The part is complete.
CAIRN_DECL void upload::send_later(std::unique_lock<std::mutex>& lock, std::size_t n) {
    auto& p = parts_[n];
    if (parts_.size() == 1) return;  // it is sent when it is finished
    p.complete = true;
    p.memory.is_sent_soon();
    ++under_way_;
    lock.unlock();
    try {
        pool_.run([this, n] { send_part(n); });
    } catch (...) {
        lock.lock();
        --under_way_;
        throw;
    }
    lock.lock();
}

CAIRN_DECL void upload::send_part(std::size_t n) noexcept {
    try {
        if (!stop_) {
            auto c = client_.about("PUT", key_, "s3:PutObject");
            c.query = {{"partNumber", std::to_string(n + 1)}, {"uploadId", id_}};
            c.body = parts_[n].memory.bytes();
            auto const checksum = crc32_text(c.body);
            c.headers = {{"x-amz-checksum-crc32", checksum}};
            c.stop = &stop_;
            auto const a = client_.send(c);
            if (a.is(404) && a.code == "NoSuchUpload")
                throw error(errc::io,
                            {.file = what_, .found = "it was removed while being written"});
            if (!a.ok() && !a.stopped) throw client_.failure(c, a);
            auto const tag = a.got.header("etag");
            if (a.ok() && tag.empty())
                throw error(errc::io, {.file = what_,
                                       .expected = "the tag of the part that was sent",
                                       .found = "an answer without one"});
            parts_[n].tag = tag;
            if (a.got.header("x-amz-checksum-crc32") == checksum) parts_[n].checksum = checksum;
        }
    } catch (...) {
        note_failure(std::current_exception());
    }
    parts_[n].memory = {};
    // The last use of this: it may be destroyed as soon as the lock is free.
    std::lock_guard const lock(m_);
    --under_way_;
    sent_.notify_all();
}

/// Bytes that nobody has written are zeros.
CAIRN_DECL void upload::fill_gaps() {
    std::unique_lock lock(m_);
    for (std::size_t n = 0; n < parts_.size(); ++n) {
        if (parts_[n].complete) continue;
        begin_part(lock, n);
        throw_failure(lock);
        auto const bytes = parts_[n].memory.bytes();
        parts_[n].written.for_each_gap(bytes.size(), [&](std::size_t begin, std::size_t end) {
            std::memset(bytes.data() + begin, 0, end - begin);
        });
        send_later(lock, n);
    }
    sent_.wait(lock, [this] { return under_way_ == 0; });
    throw_failure(lock);
}

CAIRN_DECL void upload::finish() {
    {
        std::unique_lock const lock(m_);
        if (finished_)
            throw error(errc::invalid_argument,
                        {.file = what_, .expected = "one finish", .found = "a second one"});
        throw_failure(lock);
    }
    try {
        fill_gaps();
        if (parts_.size() == 1)
            put_whole();
        else
            complete();
    } catch (...) {
        note_failure(std::current_exception());
        throw;
    }
    finished_ = true;
    parts_.clear();
}

/// Looks for the object after a request that seems to have failed.
template <class Look>
bool upload::is_found(const answer& a, Look&& look) {
    try {
        return look();
    } catch (const error& e) {
        if (!a.in_doubt || e.code() == make_error_code(errc::cancelled)) throw;
        throw error(errc::outcome_unknown, e.context());
    }
}
/// Of a request whose object was not found.
CAIRN_DECL error upload::failure(const call& c, const answer& a) const {
    auto const why = client_.failure(c, a);
    if (!a.in_doubt || a.stopped) return why;
    auto in_doubt = why.context();
    if (in_doubt.remedy.empty()) in_doubt.remedy = "look whether it is there";
    return error(errc::outcome_unknown, std::move(in_doubt));
}

CAIRN_DECL void upload::put_whole() {
    auto c = client_.about("PUT", key_, "s3:PutObject");
    c.body = parts_[0].memory.bytes();
    c.headers = {{"x-amz-checksum-crc32", crc32_text(c.body)}};
    c.creates = true;
    if (!client_.options().options.unconditional) c.headers.emplace_back("if-none-match", "*");
    auto const a = client_.send(c);
    may_appear_ = a.in_doubt;
    if (a.ok()) return;
    auto const is_there = [&] { return look_at(client_, key_, c.body).is_ours; };
    // A refusal may be the answer to a repetition, by this client or by a proxy.
    if ((a.in_doubt || a.is(412)) && is_found(a, is_there)) return;
    if (a.is(412)) throw error(errc::already_exists, {.file = what_});
    throw failure(c, a);
}

CAIRN_DECL void upload::complete() {
    std::string xml = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
    // Checksums of all parts or of none: a server that keeps them wants each.
    bool const checked = std::all_of(parts_.begin(), parts_.end(),
                                     [](auto const& p) { return !p.checksum.empty(); });
    for (std::size_t n = 0; n < parts_.size(); ++n) {
        xml += "<Part><PartNumber>" + std::to_string(n + 1) + "</PartNumber><ETag>";
        for (char const ch : parts_[n].tag) switch (ch) {
                case '"': xml += "&quot;"; break;
                case '&': xml += "&amp;"; break;
                case '<': xml += "&lt;"; break;
                default: xml += ch;
            }
        xml += "</ETag>";
        if (checked) xml += "<ChecksumCRC32>" + parts_[n].checksum + "</ChecksumCRC32>";
        xml += "</Part>";
    }
    xml += "</CompleteMultipartUpload>";
    auto c = client_.about("POST", key_, "s3:PutObject");
    c.query = {{"uploadId", id_}};
    c.body = std::as_bytes(std::span(xml));
    c.may_fail_late = true;
    // Some servers ignore it here, and others do not know it: `s3_store::create` has looked too.
    if (!client_.options().options.unconditional) c.headers = {{"if-none-match", "*"}};
    auto a = client_.send(c);
    if (a.is(501) || a.is(405) ||
        (a.is(400) && (a.code == "InvalidArgument" || a.code == "InvalidRequest"))) {
        c.headers.clear();
        auto const in_doubt = a.in_doubt;
        a = client_.send(c);
        a.in_doubt = a.in_doubt || in_doubt;
    }
    may_appear_ = a.in_doubt;
    if (a.ok()) return;
    // A try that seemed to fail may have succeeded, and the upload is gone since.
    bool const gone = a.is(404) && a.code == "NoSuchUpload";
    if ((a.in_doubt || gone || a.is(412)) && is_found(a, [this] { return is_there(); })) return;
    if (a.is(412)) throw error(errc::already_exists, {.file = what_});
    if (gone) throw error(errc::io, {.file = what_, .found = "it was removed while being written"});
    throw failure(c, a);
}

/// Whether there is the object of this upload.
CAIRN_DECL bool upload::is_there() {
    auto const c = client_.about("HEAD", key_, "s3:GetObject");
    auto const a = client_.send(c);
    if (!a.ok() && !a.is(404)) throw client_.failure(c, a);  // it may be there
    return a.ok() && a.got.header(mark_header) == mark_;
}

/// @return whether the server has confirmed it
CAIRN_DECL bool upload::abort(const std::string& id) noexcept {
    heeded_stop const also_when_cancelled{std::stop_token()};
    try {
        auto c = client_.about("DELETE", key_, "s3:AbortMultipartUpload");
        c.query = {{"uploadId", id}};
        c.tidies = true;
        auto const a = client_.send(c);
        if (!a.is(404)) return a.ok();
        time_limit const limit(patience_to_tidy);
        return !is_listed(client_, key_, id);
    } catch (...) {  // a listing shows it to those who collect leftovers
        return false;
    }
}

}  // namespace cairn::detail::s3

#endif
