// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_S3_LISTING_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_LISTING_IPP

#include <cairn/object_store/detail/s3/listing.hpp>

#include <cairn/error.hpp>
#include <cairn/object_store/detail/s3/text.hpp>
#include <cairn/object_store/detail/s3/utc_time.hpp>
#include <cairn/object_store/detail/s3/xml.hpp>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace cairn::detail::s3 {

inline error no_listing(const call& c, std::string found) {
    return {errc::io, {.file = c.what, .expected = "a listing of S3's", .found = std::move(found)}};
}

/// Decodes a key of a listing. Servers write a space as `+` or `%20`, and a plus as `%2B`.
inline std::string decoded_key(std::string_view text) {
    auto const digit = [](char ch) {
        return is_digit(ch)             ? ch - '0'
               : ch >= 'a' && ch <= 'f' ? ch - 'a' + 10
               : ch >= 'A' && ch <= 'F' ? ch - 'A' + 10
                                        : -1;
    };
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '+') {
            out += ' ';
        } else if (text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 &&
                   digit(text[i + 2]) >= 0) {
            out += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
            i += 2;
        } else {
            out += text[i];
        }
    }
    return out;
}

/// @throws error errc::unsupported if the server knows no such listing
inline std::string page_of(client& c, const call& asked) {
    auto a = c.send(asked);
    if (a.is(501) || (a.is(400) && (a.code == "InvalidArgument" || a.code == "NotImplemented")))
        throw error(errc::unsupported, c.failure(asked, a).context());
    if (!a.ok()) throw c.failure(asked, a);
    return std::move(a.got.body);
}

using answer_tree = boost::property_tree::ptree;

inline std::string text_in(const answer_tree& t, const char* name) {
    return std::string(trimmed(t.get<std::string>(name, "")));
}

/// Calls `f`, which reads a page. Its errors name what was listed.
template <class F>
void read_page(const call& asked, F&& f) {
    try {
        f();
    } catch (const error& e) {
        throw completed(e, {.file = asked.what});
    }
}

/// One page of a listing.
struct listing_page {
    listing_page(client& c, const call& asked, const char* root) {
        auto const body = page_of(c, asked);
        read_page(asked, [&] { tree = parse_xml(body); });
        auto const found = tree.get_child_optional(root);
        if (!found) throw no_listing(asked, "no <" + std::string(root) + ">");
        content = &*found;
        encoded = text_in(*content, "EncodingType") == "url";
    }
    listing_page(listing_page&&) = delete;

    /// A key is taken as it is: it may begin or end with blanks.
    std::string key(const answer_tree& t, const char* name) const {
        auto const text = t.get<std::string>(name, "");
        return encoded ? decoded_key(text) : text;
    }
    template <class F>
    void for_each(const char* name, F&& f) const {
        for (auto const& [n, child] : *content)
            if (n == name) f(child);
    }
    bool is_last() const { return text_in(*content, "IsTruncated") != "true"; }

    answer_tree tree{};
    const answer_tree* content = nullptr;
    bool encoded = false;
};

inline call listing_call(client& c, const std::string& prefix, const char* right) {
    call list;
    list.what = c.options().describe(prefix);
    list.right = right;
    list.most_body = std::size_t{64} << 20;
    list.query = {{"prefix", prefix}};
    return list;
}

inline void list_all(client& c, const std::string& prefix, const std::string& delimiter,
                     const listed_page& found) {
    auto first = listing_call(c, prefix, "s3:ListBucket");
    first.query.emplace_back("list-type", "2");
    if (!delimiter.empty()) first.query.emplace_back("delimiter", delimiter);
    first.query.emplace_back("encoding-type", "url");
    for (std::string next;;) {
        auto list = first;
        if (!next.empty()) list.query.emplace_back("continuation-token", next);
        listing_page const page(c, list, "ListBucketResult");
        listed_place out;
        auto const read = [&](const answer_tree& t) {
            listed_object o;
            o.key = page.key(t, "Key");
            auto const size = text_in(t, "Size");
            auto const bytes = number_in(size);
            if (!bytes || !o.key.starts_with(prefix))
                throw no_listing(list, "an object '" + o.key + "' of " + size + " bytes");
            o.size = *bytes;
            o.tag = trimmed(t.get<std::string>("ETag", ""));
            // Some servers have none for what was written by another interface of theirs.
            if (!o.tag.empty() && !o.tag.starts_with('"')) o.tag = '"' + o.tag + '"';
            o.modified = parse_utc_time(text_in(t, "LastModified"));
            out.objects.push_back(std::move(o));
        };
        read_page(list, [&] { page.for_each("Contents", read); });
        page.for_each("CommonPrefixes",
                      [&](const answer_tree& t) { out.places.push_back(page.key(t, "Prefix")); });
        found(std::move(out));
        if (page.is_last()) return;
        auto token = page.content->get<std::string>("NextContinuationToken", "");
        if (token.empty() || token == next) throw no_listing(list, "a page that leads nowhere");
        next = std::move(token);
    }
}

CAIRN_DECL listed_place list_objects(client& c, const std::string& prefix) {
    listed_place out;
    list_all(c, prefix, "/", [&](listed_place page) {
        std::move(page.objects.begin(), page.objects.end(), std::back_inserter(out.objects));
        std::move(page.places.begin(), page.places.end(), std::back_inserter(out.places));
    });
    return out;
}

CAIRN_DECL void list_below(client& c, const std::string& prefix, const std::string& delimiter,
                           const listed_page& found) {
    if (delimiter.empty()) return list_all(c, prefix, {}, found);
    // Some services know only `/`, and say so, or take the first character.
    try {
        bool is_known = true;
        auto const is_one = [&](auto const& p) { return p.ends_with(delimiter); };
        list_all(c, prefix, delimiter, [&](listed_place page) {
            is_known = is_known && std::all_of(page.places.begin(), page.places.end(), is_one);
            found(std::move(page));
        });
        if (is_known) return;
    } catch (const error& e) {
        if (e.code() != make_error_code(errc::unsupported)) throw;
    }
    list_all(c, prefix, {}, found);
}

CAIRN_DECL std::vector<listed_upload> list_uploads(client& c, const std::string& prefix) {
    // Without `encoding-type`: some servers heed it and do not say so.
    auto first = listing_call(c, prefix, "s3:ListBucketMultipartUploads");
    first.query.emplace_back("uploads", "");
    std::vector<listed_upload> out;
    for (std::string key, id;;) {
        auto list = first;
        if (!key.empty()) list.query.emplace_back("key-marker", key);
        if (!id.empty()) list.query.emplace_back("upload-id-marker", id);
        listing_page const page(c, list, "ListMultipartUploadsResult");
        auto const read = [&](const answer_tree& t) {
            listed_upload u;
            u.key = page.key(t, "Key");
            u.id = text_in(t, "UploadId");
            u.begun = parse_utc_time(text_in(t, "Initiated"));
            // Some servers ignore the prefix.
            if (u.key.starts_with(prefix) && !u.id.empty()) out.push_back(std::move(u));
        };
        read_page(list, [&] { page.for_each("Upload", read); });
        if (page.is_last()) return out;
        auto next_key = page.key(*page.content, "NextKeyMarker");
        auto next_id = text_in(*page.content, "NextUploadIdMarker");
        if (next_key.empty() || (next_key == key && next_id == id))
            throw no_listing(list, "a page that leads nowhere");
        key = std::move(next_key);
        id = std::move(next_id);
    }
}

CAIRN_DECL bool is_listed(client& c, const std::string& key, const std::string& upload) {
    try {
        auto const all = list_uploads(c, key);
        return std::any_of(all.begin(), all.end(),
                           [&](auto const& u) { return u.key == key && u.id == upload; });
    } catch (const error& e) {
        if (e.code() == make_error_code(errc::permission_denied) ||
            e.code() == make_error_code(errc::unsupported))
            return false;
        throw;
    }
}

}  // namespace cairn::detail::s3

#endif
