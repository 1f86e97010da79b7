// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_S3_STORE_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_STORE_IPP

#include <cairn/object_store/s3.hpp>

#include <cairn/error.hpp>
#include <cairn/object_store/detail/names.hpp>
#include <cairn/object_store/detail/s3/listing.hpp>
#include <cairn/object_store/detail/s3/removal.hpp>
#include <cairn/object_store/detail/s3/shared.hpp>
#include <cairn/object_store/detail/s3/text.hpp>
#include <cairn/object_store/detail/s3/upload.hpp>
#include <cairn/object_store/detail/s3/uri.hpp>
#include <cairn/object_store/impl/s3/handles.ipp>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace cairn {

static_assert(BrowsableStore<s3_store> && ManyRequestsStore<s3_store> && ReadSizeStore<s3_store> &&
              WarningStore<s3_store>);

/// What the members share.
struct s3_store::impl {
    static std::string key(const s3_store& at, std::string_view name) {
        if (!detail::is_object_name(name)) throw detail::bad_object_name(at.describe(name));
        return at.prefix_ + std::string(name);
    }
    /// @return Nothing if there is no such object.
    static std::optional<detail::s3::response> head(const s3_store& at, const std::string& key) {
        auto& requests = at.s_->here().requests;
        auto const c = requests.about("HEAD", key, "s3:GetObject");
        auto a = requests.send(c);
        if (a.is_missing()) return {};
        if (!a.ok()) throw requests.failure(c, a);
        return std::move(a.got);
    }
    static s3_options with(s3_options o, std::string_view url) {
        auto place = detail::s3::parse_s3_uri(url);
        o.bucket = std::move(place.bucket);
        o.prefix = std::move(place.prefix);
        return o;
    }
    static std::string as_prefix(std::string id) {
        if (id.empty() || id == ".") return {};
        return id + "/";
    }
    /// @return Nothing, with a warning, if this key may not list them, or the server cannot.
    static std::optional<std::vector<detail::s3::listed_upload>> listed(const s3_store& at,
                                                                        const std::string& prefix) {
        auto& here = at.s_->here();
        // A right that was denied once may have been given meanwhile: what is not seen is lost with
        // the intent that names it.
        for (bool again = true;; again = false) {
            try {
                return detail::s3::list_uploads(here.requests, prefix);
            } catch (const error& e) {
                if (e.code() != make_error_code(errc::permission_denied) &&
                    e.code() != make_error_code(errc::unsupported))
                    throw;
                if (again) continue;
                here.warn(
                    "uploads: " + e.code().message(),
                    std::string("unfinished uploads are not seen, and never removed: ") + e.what());
                return {};
            }
        }
    }
    /// The uploads below a place; none, with a warning, if they cannot be listed.
    static std::vector<detail::s3::listed_upload> uploads(const s3_store& at) {
        auto& here = at.s_->here();
        auto const before = [&] {
            std::lock_guard const lock(here.m);
            return here.uploads;
        }();
        auto all = listed(at, at.prefix_);
        if (!all) return {};
        std::lock_guard const lock(here.m);
        // Those that are not listed any more have ended; what is being written here has not.
        for (auto const& [key, ids] : before)
            if (key.starts_with(at.prefix_) && here.begun.count(key) == 0)
                for (auto const& id : ids) here.forget(key, id);
        for (auto const& u : *all) here.uploads[u.key].insert(u.id);
        return *std::move(all);
    }
    static std::vector<object_info> list(const s3_store& at, bool unfinished) {
        std::vector<object_info> out;
        std::set<std::string> known;
        auto const add = [&](const std::string& key, std::uint64_t size, auto modified) {
            auto name = key.substr(at.prefix_.size());
            if (detail::is_object_name(name) && name.find('/') == name.npos &&
                !name.starts_with(detail::s3::trial_prefix) && known.insert(name).second)
                out.push_back({std::move(name), size, nanoseconds(modified)});
        };
        for (auto const& o : detail::s3::list_objects(at.s_->here().requests, at.prefix_).objects)
            add(o.key, o.size, o.modified);
        if (unfinished)
            for (auto const& u : uploads(at)) add(u.key, 0, u.begun);
        std::sort(out.begin(), out.end(), [](auto& a, auto& b) { return a.name < b.name; });
        return out;
    }
    static bool is_url(const std::string& id) {
        constexpr std::string_view scheme = "s3://";
        return detail::s3::lower_case(id.substr(0, scheme.size())) == scheme;
    }
    static void remove_object(const s3_store& at, const std::string& key) {
        auto& requests = at.s_->here().requests;
        auto const c = requests.about("DELETE", key, "s3:DeleteObject");
        auto const a = requests.send(c);
        if (!a.ok() && !a.is_missing()) throw requests.failure(c, a);
    }
    /// @return Whether it has ended.
    static bool end_upload(const s3_store& at, const std::string& key, const std::string& id) {
        auto& requests = at.s_->here().requests;
        auto c = requests.about("DELETE", key, "s3:AbortMultipartUpload");
        c.query = {{"uploadId", id}};
        auto const a = requests.send(c);
        if (a.ok()) return true;
        if (!a.is_missing()) throw requests.failure(c, a);
        return !detail::s3::is_listed(requests, key, id);
    }
    static bool end_uploads(const s3_store& at, const std::string& key);
    static void check_ended(const s3_store& at, std::string_view name, bool ended) {
        if (!ended)
            throw error(errc::io, {.file = at.describe(name),
                                   .expected = "an upload that has ended",
                                   .found = "one that is listed, although the server says that "
                                            "there is none",
                                   .remedy = "remove it again later"});
    }
    static std::int64_t nanoseconds(std::chrono::system_clock::time_point t) {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count();
    }
};

CAIRN_DECL s3_store::s3_store(s3_options o)
    : s_(std::make_shared<detail::s3::shared>(detail::s3::store_settings::of(std::move(o)))),
      prefix_(impl::as_prefix(s_->options().options.prefix)) {
    if (s_->options().options.unconditional)
        s_->here().warn(
            "unconditional",
            "'" + describe("") +
                "' is used without conditional writes: of two jobs that save to one place "
                "at the same moment both may be told that they have succeeded, so only one "
                "job may save there");
}
CAIRN_DECL s3_store::s3_store(std::string_view url, s3_options o)
    : s3_store(impl::with(std::move(o), url)) {}
CAIRN_DECL s3_store::s3_store(std::shared_ptr<detail::s3::shared> s, std::string prefix)
    : s_(std::move(s)), prefix_(std::move(prefix)) {}

CAIRN_DECL s3_store s3_store::at(const std::string& id) const {
    if (id.empty()) return *this;
    auto const outside = [&](std::string found) {
        return error(errc::invalid_argument,
                     {.file = describe(""),
                      .expected = "the id of a place in the bucket: relative, or 's3://" +
                                  s_->options().options.bucket + "/…'",
                      .found = std::move(found)});
    };
    if (impl::is_url(id)) {
        auto place = detail::s3::parse_s3_uri(id);
        // At AWS `a//b` is another key than `a/b`.
        bool const has_empty_part = place.prefix.find("//") != place.prefix.npos;
        if (place.bucket != s_->options().options.bucket || has_empty_part)
            throw outside("'" + id + "'");
        auto const plain = place.prefix.empty() ? "" : detail::plain_place_id(place.prefix);
        if (!plain.empty() && !detail::is_object_name(plain)) throw outside("'" + id + "'");
        return {s_, impl::as_prefix(plain)};
    }
    auto const plain = detail::plain_place_id(prefix_ + id);
    bool const is_root = plain.empty() || plain == ".";
    if (id.front() == '/' || (!is_root && !detail::is_object_name(plain)))
        throw outside("'" + id + "'");
    return {s_, impl::as_prefix(plain)};
}

CAIRN_DECL s3_store::writer s3_store::create(std::string_view name, std::uint64_t size) {
    auto const key = impl::key(*this, name);
    writer w(std::make_unique<writer::state>(s_, key, describe(name)));
    if (impl::head(*this, key)) throw error(errc::already_exists, {.file = describe(name)});
    auto& here = w.s_->here;
    bool may_be_begun = false;
    try {
        w.s_->object.emplace(here.requests, here.pool, key, size, may_be_begun);
    } catch (...) {
        // Those to a key that others use, too, may be theirs.
        if (may_be_begun && detail::s3::has_id(key)) here.may_have_others(key);
        throw;
    }
    w.s_->held.has_upload(w.s_->object->id());
    if (w.s_->object->may_have_others()) here.may_have_others(key);
    return w;
}

CAIRN_DECL void s3_store::publish(std::string_view name, byte_span b,
                                  std::optional<object_tag> if_match) {
    auto const key = impl::key(*this, name);
    auto& here = s_->here();
    if (if_match && !s_->options().options.unconditional) return here.puts.put(key, b, *if_match);
    if (if_match) {
        if (auto const there = tag(name); there != *if_match)
            throw error(errc::concurrent_save, {.file = describe(name),
                                                .expected = "version '" + if_match->text + "'",
                                                .found = "version '" + there.text + "'",
                                                .remedy = "another job saves to the same place"});
    }
    here.puts.put_unchecked(key, b);
}

CAIRN_DECL void s3_store::prepare_publish(std::string_view name) {
    auto const key = impl::key(*this, name);
    if (!s_->options().options.unconditional) s_->here().puts.prepare(key);
}

CAIRN_DECL s3_store::reader s3_store::open(std::string_view name) {
    auto key = impl::key(*this, name);
    auto const there = impl::head(*this, key);
    if (!there) throw error(errc::not_found, {.file = describe(name), .found = "no such object"});
    auto const length = there->header("content-length");
    auto const size = detail::s3::number_in(length);
    if (!size)
        throw error(errc::io, {.file = describe(name),
                               .expected = "an answer with the object's size",
                               .found = "the size '" + std::string(length) + "'"});
    return reader(std::make_unique<reader::state>(
        reader::state{s_, std::move(key), *size, std::string(there->header("etag"))}));
}

CAIRN_DECL object_tag s3_store::tag(std::string_view name) {
    auto const there = impl::head(*this, impl::key(*this, name));
    return there ? object_tag{std::string(there->header("etag"))} : object_tag{};
}

CAIRN_DECL std::vector<object_info> s3_store::list() {
    return impl::list(*this, true);
}
CAIRN_DECL std::vector<object_info> s3_store::list_finished() {
    return impl::list(*this, false);
}

CAIRN_DECL std::vector<std::string> s3_store::places() {
    auto all = detail::s3::list_objects(s_->here().requests, prefix_).places;
    for (auto const& u : impl::uploads(*this)) all.push_back(u.key);
    std::vector<std::string> out;
    for (auto const& key : all) {
        auto const slash = key.find('/', prefix_.size());
        if (slash == key.npos) continue;
        auto id = key.substr(prefix_.size(), slash - prefix_.size());
        if (detail::is_object_name(id) && !id.starts_with('.')) out.push_back(std::move(id));
    }
    detail::keep_one_of_each(out);
    return out;
}

CAIRN_DECL std::vector<place_info> s3_store::places_with(std::string_view name) {
    std::map<std::string, place_info> all;
    auto const add = [&](const std::string& key) -> place_info* {
        auto const slash = key.find('/', prefix_.size());
        if (slash == key.npos) return nullptr;
        auto id = key.substr(prefix_.size(), slash - prefix_.size());
        if (!detail::is_object_name(id) || id.starts_with('.')) return nullptr;
        auto& p = all[id];
        p.id = std::move(id);
        if (!p.tag) p.tag.emplace();
        return &p;
    };
    detail::s3::list_below(
        s_->here().requests, prefix_, "/_", [&](const detail::s3::listed_place& page) {
            for (auto const& o : page.objects) {
                auto* const p = add(o.key);
                if (p == nullptr ||
                    std::string_view(o.key).substr(prefix_.size() + p->id.size() + 1) != name)
                    continue;
                // It would count as an object that is not there.
                if (o.tag.empty())
                    throw error(errc::io, {.file = s_->options().describe(o.key),
                                           .expected = "an ETag in a listing",
                                           .found = "none"});
                p->tag->text = o.tag;
            }
            for (auto const& key : page.places) (void)add(key);
        });
    for (auto const& u : impl::uploads(*this)) (void)add(u.key);
    std::vector<place_info> out;
    for (auto& [id, p] : all) out.push_back(std::move(p));
    return out;
}

CAIRN_DECL std::vector<object_info> s3_store::list_tree() {
    std::vector<object_info> out;
    auto const add = [&](const std::string& key, std::uint64_t size, auto modified) {
        if (auto name = key.substr(prefix_.size()); detail::is_object_name(name))
            out.push_back({std::move(name), size, impl::nanoseconds(modified)});
    };
    detail::s3::list_below(s_->here().requests, prefix_, "",
                           [&](const detail::s3::listed_place& page) {
                               for (auto const& o : page.objects) add(o.key, o.size, o.modified);
                           });
    for (auto const& begun : impl::uploads(*this)) add(begun.key, 0, begun.begun);
    return out;
}

CAIRN_DECL std::string s3_store::place_id(const std::string& id) const {
    if (!impl::is_url(id)) return detail::plain_place_id(id);
    auto const place = detail::s3::parse_s3_uri(id);
    // Another place of the bucket, or what `at` refuses, stays as it is.
    bool const is_below = place.bucket == s_->options().options.bucket &&
                          place.prefix.starts_with(prefix_) && place.prefix.size() > prefix_.size();
    return is_below ? detail::plain_place_id(place.prefix.substr(prefix_.size())) : id;
}

/// A place is its objects. What may be left are an object that stands for a folder in other
/// programs, and trials of processes that have ended.
CAIRN_DECL void s3_store::remove_place(const std::string& id) {
    auto const place = at(id);
    auto& here = s_->here();
    auto const there = detail::s3::list_objects(here.requests, place.prefix_);
    if (!there.places.empty() || place.prefix_.empty()) return;
    auto const is_trial = [&](const std::string& key) {
        return std::string_view(key)
            .substr(place.prefix_.size())
            .starts_with(detail::s3::trial_prefix);
    };
    auto newest = std::chrono::system_clock::time_point::min();
    for (auto const& o : there.objects) {
        if (o.key != place.prefix_ && !is_trial(o.key)) return;
        newest = std::max(newest, o.modified);
    }
    constexpr std::chrono::hours long_ago{1};
    auto const now = std::max(newest, here.requests.now());
    for (auto const& o : there.objects)
        if (!is_trial(o.key) || now - o.modified > long_ago) impl::remove_object(*this, o.key);
}

/// Ends what is under way to a key.
/// @return Whether nothing is any more.
CAIRN_DECL bool s3_store::impl::end_uploads(const s3_store& at, const std::string& key) {
    auto& here = at.s_->here();
    std::set<std::string> uploads;
    bool const in_doubt = [&] {
        std::lock_guard const lock(here.m);
        return here.in_doubt.count(key) != 0;
    }();
    if (in_doubt) {
        auto const all = listed(at, key);
        std::lock_guard const lock(here.m);
        if (all)
            for (auto const& u : *all)
                if (u.key == key) here.uploads[key].insert(u.id);
    }
    {
        std::lock_guard const lock(here.m);
        here.begun.erase(key);
        if (auto const it = here.uploads.find(key); it != here.uploads.end()) uploads = it->second;
    }
    bool all = true;
    for (auto const& id : uploads) {
        bool const ended = end_upload(at, key, id);
        all = all && ended;
        std::lock_guard const lock(here.m);
        if (ended) here.forget(key, id);
    }
    if (all && in_doubt) {
        std::lock_guard const lock(here.m);
        here.in_doubt.erase(key);
    }
    return all;
}

CAIRN_DECL void s3_store::remove(std::string_view name) {
    auto const key = impl::key(*this, name);
    bool const ended = impl::end_uploads(*this, key);
    impl::remove_object(*this, key);
    impl::check_ended(*this, name, ended);
    // Who removes it must not forget it yet.
    auto& here = s_->here();
    std::lock_guard const lock(here.m);
    if (here.may_still_appear(key))
        throw error(errc::io, {.file = describe(name),
                               .expected = "an object that stays removed",
                               .found = "a request to make it that was given up, and that the "
                                        "server may carry out yet",
                               .remedy = "remove it again later"});
}
CAIRN_DECL void s3_store::remove(std::string_view name, const object_tag& version) {
    auto const key = impl::key(*this, name);
    bool const ended = impl::end_uploads(*this, key);
    detail::s3::remove_version(s_->here().requests, key, version);
    impl::check_ended(*this, name, ended);
}

CAIRN_DECL void s3_store::end_uploads(std::string_view name) {
    auto const key = impl::key(*this, name);
    // MinIO lists uploads only if asked for their keys. Those to a key that others use, too, may be
    // of a job that runs.
    if (detail::s3::has_id(key)) s_->here().may_have_others(key);
    impl::check_ended(*this, name, impl::end_uploads(*this, key));
}

CAIRN_DECL void s3_store::remove_trials() {
    constexpr std::chrono::hours long_ago{1};
    auto& here = s_->here();
    for (auto const& o :
         detail::s3::list_objects(here.requests, prefix_ + std::string(detail::s3::trial_prefix))
             .objects)
        if (here.requests.now() - o.modified > long_ago) impl::remove_object(*this, o.key);
}

CAIRN_DECL std::string s3_store::describe(std::string_view name) const {
    return s_->options().describe(prefix_ + std::string(name));
}

CAIRN_DECL std::size_t s3_store::requests_in_flight() const noexcept {
    return s_->options().options.requests_in_flight;
}

CAIRN_DECL std::vector<std::string> s3_store::take_warnings() {
    auto& here = s_->here();
    std::lock_guard const lock(here.m);
    return std::exchange(here.fresh, {});
}

CAIRN_DECL s3_statistics s3_store::statistics() const {
    return s_->here().requests.statistics();
}

}  // namespace cairn

#endif
