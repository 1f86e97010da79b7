// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_S3_CONDITIONAL_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_CONDITIONAL_IPP

#include <cairn/object_store/detail/s3/conditional.hpp>

#include <cairn/detail/identity.hpp>
#include <cairn/detail/utf8.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/detail/s3/checksum.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

namespace cairn::detail::s3 {

CAIRN_DECL call put_call(client& c, const std::string& key, byte_span bytes) {
    auto put = c.about("PUT", key, "s3:PutObject");
    put.body = bytes;
    put.headers = {{"x-amz-checksum-crc32", crc32_text(bytes)}};
    put.creates = true;
    return put;
}

CAIRN_DECL found_object look_at(client& c, const std::string& key, byte_span bytes) {
    auto get = c.about("GET", key, "s3:GetObject");
    // One that is longer is not received.
    get.headers = {{"range", "bytes=0-" + std::to_string(bytes.size())}};
    get.most_body = bytes.size() + (std::size_t{64} << 10);
    get.expected = bytes.size();
    auto a = c.send(get);
    if (a.is(416)) {  // of an empty object there is no range
        get.headers.clear();
        a = c.send(get);
    }
    if (a.is_missing()) return {};
    if (!a.ok()) throw c.failure(get, a);
    auto const there = std::as_bytes(std::span(a.got.body));
    return {std::equal(there.begin(), there.end(), bytes.begin(), bytes.end()),
            object_tag{std::string(a.got.header("etag"))}};
}

inline std::pair<std::string, std::string> condition(const object_tag& match, tag_form form) {
    if (match.text.empty()) return {"if-none-match", "*"};
    std::string_view t = match.text;
    if (form == tag_form::plain && t.size() > 1 && t.front() == '"' && t.back() == '"')
        t = t.substr(1, t.size() - 2);
    return {"if-match", std::string(t)};
}

/// Whether a PUT failed because of its condition. AWS answers 404 if what must match is missing.
inline bool was_refused(const answer& a, const object_tag& match) {
    return a.is(412) || (a.is_missing() && !match.text.empty());
}

/// One server, one key that nobody else knows.
struct conditional_puts::trial {
    trial(client& c, std::string_view place)
        : client_(c), key(std::string(place) + std::string(trial_prefix) + new_save_id()) {}
    trial(trial&&) = delete;
    ~trial() {
        try {
            auto remove = client_.about("DELETE", key, "s3:DeleteObject");
            remove.tidies = true;
            (void)client_.send(remove);
        } catch (...) {  // it is collected with its place
        }
    }

    /// A PUT of other bytes than the last one, with a condition.
    answer put(const object_tag& match, tag_form form = tag_form::quoted) {
        auto const text = next_text();
        auto c = put_call(client_, key, std::as_bytes(std::span(text)));
        c.headers.push_back(condition(match, form));
        auto a = client_.send(c);
        server = a.got.header("server");
        said = a.code.empty()
                   ? std::string()
                   : " (" + shortened(a.code, 100) + ": " + shortened(a.message, 300) + ")";
        bool const is_lost = a.in_doubt && !refuses_conditions(a);
        in_doubt = in_doubt || is_lost;
        if (!a.ok() && !was_refused(a, match) && !refuses_conditions(a))
            throw client_.failure(c, a);
        if (is_lost && last)
            throw error(errc::io, {.file = c.what,
                                   .expected = "a trial of conditional writes that is answered",
                                   .found = "each time one whose answer was lost",
                                   .remedy = "look for what disturbs the connection"});
        return a;
    }
    /// A PUT without a condition.
    /// @throws error if it fails: what a server has refused was not the condition
    void put_plainly() {
        auto const text = next_text();
        (void)client_.expect(put_call(client_, key, std::as_bytes(std::span(text))));
    }
    std::string next_text() {
        return "a trial of conditional writes, step " + std::to_string(++step);
    }
    static bool refuses_conditions(const answer& a) {
        return a.is(501) || a.is(405) ||
               (a.is(400) && !is_transient(a) && !is_changed_on_the_way(a));
    }
    /// @throws error unless a PUT was refused because of a condition that does not hold
    void check_refused(const answer& a, const object_tag& match, const char* header) {
        if (was_refused(a, match)) return;
        bool const refuses = refuses_conditions(a);
        if (refuses) put_plainly();
        throw unsupported((refuses ? "refuses " : "ignores ") + std::string(header));
    }
    error unsupported(std::string found) const {
        return {
            errc::unsupported,
            {.file = client_.options().describe(key),
             .expected = "a server that heeds If-None-Match and If-Match of a PUT, because a "
                         "save ends with one",
             .found = (server.empty() ? "one" : "'" + server + "'") + std::string(" that ") +
                      std::move(found) + said + ", as the S3 interface of Google's storage does",
             .remedy = "use another server, or, if only one job saves there, "
                       "s3_options::unconditional"}};
    }

    client& client_;
    std::string key;
    std::string server{};
    std::string said{};  ///< Code and words of the last answer, if it was an error.
    int step = 0;
    bool last = false;      ///< After this one nothing is tried again.
    bool in_doubt = false;  ///< Some PUT may have been repeated: what was seen proves nothing.
};

CAIRN_DECL tag_form conditional_puts::find_out(std::string_view place) {
    constexpr int most_tries = 5;
    for (int tries = 1;; ++tries) {
        trial t(client_, place);
        t.last = tries == most_tries;
        auto const again = [&] { return t.in_doubt; };
        auto const made = t.put({});
        if (again()) continue;
        if (!made.ok()) {
            t.put_plainly();
            throw t.unsupported("refuses If-None-Match for a key that is free");
        }
        auto const kept = t.put({});
        if (again()) continue;
        t.check_refused(kept, {}, "If-None-Match");
        object_tag const other{"\"00000000000000000000000000000000\""};
        object_tag const right{std::string(made.got.header("etag"))};
        for (auto const form : {tag_form::quoted, tag_form::plain}) {
            auto const wrong = t.put(other, form);
            if (again()) break;
            t.check_refused(wrong, other, "If-Match");
            auto const replaced = t.put(right, form);
            if (again()) break;
            if (replaced.ok()) return form;
            if (t.refuses_conditions(replaced)) t.put_plainly();
        }
        if (again()) continue;
        throw t.unsupported("refuses If-Match of the right tag");
    }
}

CAIRN_DECL tag_form conditional_puts::prepare(const std::string& key) {
    std::lock_guard const lock(m_);
    if (!form_) form_ = find_out(std::string_view(key).substr(0, key.rfind('/') + 1));
    return *form_;
}

CAIRN_DECL error conditional_puts::unknown(const call& c, const answer& a) const {
    auto why = client_.failure(c, a).context();
    why.remedy = "load it to find out";
    return error(errc::outcome_unknown, std::move(why));
}

CAIRN_DECL void conditional_puts::put_unchecked(const std::string& key, byte_span bytes) {
    auto const c = put_call(client_, key, bytes);
    auto const a = client_.send(c);
    if (a.ok()) return;
    if (!a.in_doubt) throw client_.failure(c, a);
    bool ours = false;
    try {
        ours = look_at(client_, key, bytes).is_ours;
    } catch (const error&) {  // then nothing is known
    }
    if (!ours) throw unknown(c, a);
}

CAIRN_DECL void conditional_puts::put(const std::string& key, byte_span bytes,
                                      const object_tag& match) {
    auto const form = prepare(key);
    auto c = put_call(client_, key, bytes);
    c.headers.push_back(condition(match, form));
    auto const replaced = [&](const object_tag& there) {
        auto const words = [](const object_tag& t) {
            return t.text.empty() ? std::string("no object") : "version " + t.text;
        };
        return error(errc::concurrent_save, {.file = c.what,
                                             .expected = words(match),
                                             .found = words(there),
                                             .remedy = "another job saves to the same place"});
    };
    constexpr int most_rounds = 2;
    bool in_doubt = false;
    for (int round = 1;; ++round) {
        answer a;
        try {
            a = client_.send(c);
        } catch (const error& e) {
            if (!in_doubt) throw;
            throw error(errc::outcome_unknown, e.context());
        }
        if (a.ok()) return;
        in_doubt = in_doubt || a.in_doubt;
        bool const refused = was_refused(a, match);
        // A refusal may be the answer to a repetition: not by this client, but by a proxy.
        if (!in_doubt && !refused) throw client_.failure(c, a);
        found_object there;
        try {
            there = look_at(client_, key, bytes);
        } catch (const error&) {
            throw unknown(c, a);
        }
        if (there.is_ours) return;
        // It may have been made and removed since.
        if (in_doubt && there.tag.text.empty() && !match.text.empty()) throw unknown(c, a);
        if (there.tag != match) throw replaced(there.tag);
        // Refused, although what must be there is: what was seen is an old version, perhaps.
        if (round < most_rounds) continue;
        if (refused && !in_doubt) throw replaced(there.tag);
        throw unknown(c, a);
    }
}

}  // namespace cairn::detail::s3

#endif
