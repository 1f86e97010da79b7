// SPDX-License-Identifier: Apache-2.0
#include "bucket.hpp"

// In place of cairn's headers of these names.
#include "bucket/http.hpp"
#include "bucket/retries.hpp"
#include "bucket/settings.hpp"
#include "bucket/upload_pool.hpp"

#define CAIRN_OBJECT_STORE_IMPL_S3_HTTP_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_HTTPS_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_SETTINGS_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_UPLOAD_POOL_IPP
#include <cairn/object_store/s3_src.hpp>
#include <cairn/storage/detail/data_names.hpp>

#include "support/s3/service.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace simulation {
namespace {

constexpr const char* bucket_name = "simulated";

/// What happens to a request.
enum class course {
    answered,
    lost_before,
    lost_afterwards,
    fails_before,
    fails_afterwards,
    slow_down
};

}  // namespace

/// The service: AWS's, or that of one of two others.
struct bucket_world {
    s3_server::world all{};

    explicit bucket_world(std::uint64_t like) {
        if (like == 1) all.how = s3_server::like_radosgw();
        if (like == 2) all.how = s3_server::like_ministack();
        all.how.least_part = 0;
        all.buckets.try_emplace(bucket_name);
    }
    s3_server::bucket& bucket() { return all.buckets.begin()->second; }
};

namespace {

s3_server::request asked_for(const cairn::detail::s3::request& r) {
    s3_server::request q;
    q.method = r.method;
    std::string_view path = r.path;
    path.remove_prefix(1);
    auto const slash = path.find('/');
    q.bucket = path.substr(0, slash);
    if (slash != path.npos) q.key = path.substr(slash + 1);
    q.query = r.query;
    q.headers = r.headers;
    q.body =
        std::make_shared<std::string>(reinterpret_cast<const char*>(r.body.data()), r.body.size());
    return q;
}

/// What the server of the other kinds of storage would have done, for the rules and for what looks
/// at the files afterwards.
void note_change(storage_client& c, const s3_server::request& q, int status) {
    using s3_server::kind;
    auto& files = c.server;
    if (status < 200 || status >= 300) return;
    auto const there = files.find(q.key);
    auto const& objects = files.bucket->bucket().objects;
    auto const& uploads = files.bucket->bucket().uploads;
    // Several where one was asked for twice.
    bool const is_begun = std::any_of(uploads.begin(), uploads.end(),
                                      [&](auto& one) { return one.first.first == q.key; });
    auto const bytes = [&] {
        auto const& text = *objects.at(q.key).content;
        auto const all = std::as_bytes(std::span(text));
        return cairn::byte_vector(all.begin(), all.end());
    };
    switch (q.what()) {
        case kind::put_object: files.put(q.key, bytes(), c.maker()); break;
        case kind::create_upload:
            if (!there) files.create(q.key, 0, c.maker());
            break;
        case kind::complete_upload:
            if (!there) return;
            // The answer was lost, and it is asked for again.
            if (there->finished && there->by.process == c.process && there->bytes == bytes())
                return;
            // What others have begun under the name, and have left, is another upload.
            if (there->finished || there->by.process != c.process) {
                files.put(q.key, bytes(), c.maker());
                break;
            }
            there->bytes = bytes();
            there->finished = there->durable = true;
            break;
        case kind::abort_upload:
            if (there && !there->finished && !is_begun) files.remove(q.key, c.process);
            break;
        case kind::delete_object:
            if (there && there->finished) files.remove(q.key, c.process);
            break;
        default: return;
    }
    files.sync();
}

/// The request has its effect.
s3_server::answer carry_out(storage_client& c, const s3_server::request& q) {
    using s3_server::kind;
    auto& w = c.server.bucket->all;
    auto& objects = c.server.bucket->bucket().objects;
    if (auto no = s3_server::refused_by_digest(w.how, q)) return *no;
    auto o = s3_server::object_of(q);
    // All are one process: in reality the bytes of an intent say whose it is.
    if (q.body && q.key.find(cairn::detail::intent_name("")) != q.key.npos)
        o.etag = s3_server::etag_of(*q.body + std::to_string(c.process));
    o.modified = static_cast<std::time_t>(c.where.storage());
    auto const it = objects.find(q.key);
    auto const what = q.what();
    if (what == kind::head_object) c.server.note_look(q.key, c.process);
    bool const reads =
        (what == kind::head_object || what == kind::get_object) && it != objects.end();
    std::shared_ptr<const std::string> stored;
    if (auto const f = reads ? c.server.find(q.key) : nullptr) {
        // As this process sees it.
        auto const name = std::string_view(q.key).substr(q.key.rfind('/') + 1);
        auto const seen = c.where.seen(name, *f, c.process);
        stored = std::exchange(
            it->second.content,
            std::make_shared<std::string>(reinterpret_cast<const char*>(seen.data()), seen.size()));
    }
    auto a = s3_server::carry_out(w, q, std::move(o), 0);
    if (stored) it->second.content = std::move(stored);
    if (what == kind::create_upload)
        for (auto& [name, u] : c.server.bucket->bucket().uploads)
            if (name.first == q.key) u.initiated = static_cast<std::time_t>(c.where.storage());
    if (what == kind::complete_upload && a.status == 200)
        if (auto const made = objects.find(q.key); made != objects.end())
            made->second.modified = static_cast<std::time_t>(c.where.storage());
    note_change(c, q, a.status);
    return a;
}

/// A process is killed while it sends: what the network has of the request may arrive later, when
/// others have found that the process has ended.
void may_arrive_late(storage_client& c, const cairn::detail::s3::request& r) {
    if (r.method == "GET" || r.method == "HEAD" || c.world.below(2) == 0) return;
    c.world.after(c.world.some_time(std::chrono::seconds(c.world.below(3) == 0 ? 60 : 2)),
                  world::nobody,
                  [w = &c.world, s = &c.server, h = &c.where, p = c.process, q = asked_for(r)] {
                      host_cache none;
                      storage_client gone(*w, *s, *h, none, store_kind::bucket, p);
                      (void)carry_out(gone, q);
                  });
}

course course_of(storage_client& c, bool fails) {
    if (fails) return c.fault.afterwards ? course::fails_afterwards : course::fails_before;
    if (c.losses == 0 || c.world.below(c.losses) != 0) return course::answered;
    constexpr course some[] = {course::lost_before, course::lost_afterwards, course::slow_down};
    return some[c.world.below(std::size(some))];
}

cairn::detail::s3::http_result result_of(const cairn::detail::s3::request& r,
                                         const s3_server::answer& a) {
    cairn::detail::s3::http_result x;
    x.got.status = a.status;
    for (auto const& [name, value] : a.headers)
        x.got.headers.emplace_back(s3_server::lower(name), value);
    x.got.headers.emplace_back("content-length", std::to_string(a.count));
    x.got.headers.emplace_back("x-amz-request-id", "1");
    if (r.method == "HEAD") return x;
    auto const content = a.content();
    if (a.status == 206 && !r.into.empty()) {
        x.got.received = std::min(content.size(), r.into.size());
        std::memcpy(r.into.data(), content.data(), x.got.received);
    } else {
        x.got.body = content;
    }
    return x;
}

}  // namespace

std::shared_ptr<cairn::s3_store> make_bucket(storage_client& c) {
    if (!c.server.bucket) c.server.bucket = std::make_shared<bucket_world>(c.world.below(3));
    cairn::s3_options o;
    o.bucket = bucket_name;
    o.region = "us-east-1";
    o.credentials = cairn::s3_credentials::anonymous();
    // Data files are sent in parts, or in one request.
    o.part_size = c.world.below(2) == 0 ? 400 : 1 << 20;
    making_store = &c;
    return std::make_shared<cairn::s3_store>(std::move(o));
}

}  // namespace simulation

namespace cairn::detail::s3 {

http_result http::send(const request& r, const terms& t) {
    using simulation::course;
    auto& c = by_;
    auto const lost = [&] {
        http_result x;
        x.failure = "the connection broke";
        return x;
    };
    auto const takes_time = [&](auto d) {
        c.pass(d);
        c.wait_for_storage();
        simulation::last_sender = &c;
    };
    auto const number = c.calls++;
    bool const is_sent = !c.ended();
    try {
        takes_time(number == c.stuck_at ? c.stuck_for : c.world.some_time(c.typical));
    } catch (const simulation::process_ended&) {
        if (is_sent) simulation::may_arrive_late(c, r);
        throw;
    }
    if (t.stop != nullptr && *t.stop) {
        auto x = lost();
        x.stopped = x.not_sent = true;
        return x;
    }
    auto const how = simulation::course_of(c, number == c.fault.at);
    if (how != course::answered) c.troubled = true;
    bool const no_memory = c.fault.what == support::thrown::bad_alloc;
    if (how == course::fails_before) {
        if (no_memory) throw std::bad_alloc();
        return simulation::result_of(r, s3_server::access_denied());
    }
    if (how == course::lost_before) return lost();
    if (how == course::slow_down)
        return simulation::result_of(r, s3_server::error_answer(503, "SlowDown"));
    auto const a = simulation::carry_out(c, simulation::asked_for(r));
    takes_time(c.world.some_time(c.typical));
    if (how == course::fails_afterwards && no_memory) throw std::bad_alloc();
    if (how != course::answered) return lost();
    return simulation::result_of(r, a);
}

}  // namespace cairn::detail::s3
