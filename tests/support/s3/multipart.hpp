// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_S3_MULTIPART_HPP
#define CAIRN_TEST_SUPPORT_S3_MULTIPART_HPP

#include "support/s3/objects.hpp"

#include <charconv>
#include <cstddef>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace s3_server {

inline answer no_such_upload() {
    return error_answer(404, "NoSuchUpload",
                        "The specified upload does not exist. The upload ID may be invalid, or the "
                        "upload may have been aborted or completed.");
}
inline answer invalid_part(const std::string& why) {
    return error_answer(400, "InvalidPart", why);
}

inline answer create_upload(world& w, bucket& b, const request& r) {
    if (!w.may(right::put)) return access_denied();
    upload u{.algorithm = lower(r.header("x-amz-checksum-algorithm")),
             .checksum_of_whole = r.header("x-amz-checksum-type") == "FULL_OBJECT",
             .kept = object_of(r).kept};
    if (w.how.checks_crc32 && !u.algorithm.empty() && u.algorithm != "crc32" &&
        u.algorithm != "sha256")
        return error_answer(501, "NotImplemented", "This server does not know " + u.algorithm);
    if (u.checksum_of_whole && u.algorithm != "crc32")
        return error_answer(400, "InvalidRequest", "FULL_OBJECT needs a CRC");
    char number[16];
    std::snprintf(number, sizeof number, "%08u", w.next_upload++);
    // Opaque, and with characters that a query must not hold as they are.
    std::string const id = std::string("2~") + number + "+/=.VXBsb2Fk";
    b.uploads.emplace(std::pair(r.key, id), std::move(u));
    return xml_answer(
        200, "<InitiateMultipartUploadResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" +
                 xml_element("Bucket", r.bucket) + xml_element("Key", r.key) +
                 xml_element("UploadId", id) + "</InitiateMultipartUploadResult>");
}

inline std::optional<int> part_number(std::string_view text) {
    int n = 0;
    auto const [end, e] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (e != std::errc() || end != text.data() + text.size() || n < 1 || n > 10'000) return {};
    return n;
}

/// @param o  Made of the request, before anything is locked.
inline answer upload_part(const world& w, bucket& b, const request& r, object o) {
    if (!w.may(right::put)) return access_denied();
    auto const n = part_number(r.parameter("partNumber"));
    if (!n)
        return error_answer(400, "InvalidArgument",
                            "Part number must be an integer between 1 and 10000, inclusive");
    auto const it = b.uploads.find({r.key, r.parameter("uploadId")});
    if (it == b.uploads.end()) return no_such_upload();
    auto& u = it->second;
    if (w.how.checks_crc32 && !o.checksums.empty() &&
        o.checksums.front().first != "x-amz-checksum-" + u.algorithm)
        return error_answer(400, "InvalidRequest",
                            "Checksum Type mismatch occurred, expected checksum Type: " +
                                (u.algorithm.empty() ? "null" : u.algorithm) +
                                ", actual checksum Type: " + o.checksums.front().first.substr(15));
    auto a = empty_answer(200);
    a.headers = o.checksums;
    a.headers.emplace_back("ETag", o.etag);
    u.parts.insert_or_assign(*n, std::move(o));
    return a;
}

/// What CompleteMultipartUpload names, in its order; empty if it is not as it should be.
struct named_part {
    int number = 0;
    std::string etag{};
    std::string checksum{};
};
inline std::vector<named_part> named_parts(const std::string& document,
                                           const std::string& checksum_element) {
    std::vector<named_part> r;
    for (auto const part : xml_elements(document, "Part")) {
        auto const numbers = xml_elements(part, "PartNumber"), tags = xml_elements(part, "ETag");
        if (numbers.size() != 1 || tags.size() != 1) return {};
        auto const n = part_number(numbers.front());
        if (!n) return {};
        auto const sums = xml_elements(part, checksum_element);
        r.push_back({*n, xml_unescaped(tags.front()),
                     sums.empty() ? std::string() : xml_unescaped(sums.front())});
    }
    return r;
}

/// Why these parts do not make an object, if so.
inline std::optional<answer> refused_parts(const world& w, const upload& u,
                                           const std::vector<named_part>& named) {
    if (named.empty()) return error_answer(400, "MalformedXML");
    std::size_t first_size = 0;
    for (std::size_t i = 0; i < named.size(); ++i) {
        auto const& [number, etag, checksum] = named[i];
        auto const name = "part " + std::to_string(number);
        if (i != 0 && number <= named[i - 1].number)
            return error_answer(400, "InvalidPartOrder",
                                "The list of parts was not in ascending order.");
        auto const it = u.parts.find(number);
        if (it == u.parts.end()) return invalid_part(name + " was not uploaded");
        if (without_quotes(etag) != without_quotes(it->second.etag))
            return invalid_part(name + " has another ETag");
        auto const size = it->second.content->size();
        if (i == 0) first_size = size;
        bool const last = i + 1 == named.size();
        if (!last && size < w.how.least_part)
            return error_answer(
                400, "EntityTooSmall",
                "Your proposed upload is smaller than the minimum allowed size",
                xml_element("ProposedSize", std::to_string(size)) +
                    xml_element("MinSizeAllowed", std::to_string(w.how.least_part)) +
                    xml_element("PartNumber", std::to_string(number)));
        if (w.how.equal_parts && (last ? size > first_size : size != first_size))
            return invalid_part("All non-trailing parts must have the same length.");
        if (!w.how.checks_crc32 || u.algorithm.empty()) continue;
        if (checksum.empty() && !u.checksum_of_whole)
            return error_answer(400, "InvalidRequest",
                                "The upload was created using a " + u.algorithm +
                                    " checksum. The complete request must include the checksum "
                                    "for each part. It was missing for " +
                                    name);
        auto const& sums = it->second.checksums;
        if (!checksum.empty() && (sums.empty() || sums.front().second != checksum))
            return invalid_part(name + " has another checksum");
    }
    return {};
}

inline answer completed(const request& r, const std::string& etag) {
    return xml_answer(
        200, "<CompleteMultipartUploadResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" +
                 xml_element("Location", "http://127.0.0.1/" + r.bucket + "/" + r.key) +
                 xml_element("Bucket", r.bucket) + xml_element("Key", r.key) +
                 xml_element("ETag", etag) + "</CompleteMultipartUploadResult>");
}

inline answer complete_upload(const world& w, bucket& b, const request& r) {
    if (!w.may(right::put)) return access_denied();
    auto const id = r.parameter("uploadId");
    auto const it = b.uploads.find({r.key, id});
    if (it == b.uploads.end()) {
        auto const before = b.completed.find(id);
        if (!w.how.completes_twice || before == b.completed.end()) return no_such_upload();
        return completed(r, before->second);
    }
    auto& u = it->second;
    auto const named =
        named_parts(*r.body, u.algorithm == "sha256" ? "ChecksumSHA256" : "ChecksumCRC32");
    if (auto no = refused_parts(w, u, named)) return *no;

    auto whole = std::make_shared<std::string>();
    std::string tags, sums;
    for (auto const& p : named) {
        auto const& o = u.parts.at(p.number);
        *whole += *o.content;
        tags += o.etag;
        sums += u.algorithm == "sha256" ? sha256(*o.content) : crc32_of(*o.content);
    }
    if (auto const said = r.header("x-amz-mp-object-size");
        !said.empty() && said != std::to_string(whole->size()))
        return error_answer(400, "InvalidRequest", "x-amz-mp-object-size is another");
    auto const crc = base64(crc32_of(*whole));
    if (auto const said = r.header("x-amz-checksum-crc32");
        w.how.checks_crc32 && u.checksum_of_whole && !said.empty() && said != crc)
        return error_answer(400, "BadDigest", "The CRC32 you specified did not match");
    if (auto no = refused_by_condition(w, r, find(b, r.key), w.how.complete_if_none_match,
                                       w.how.complete_if_match))
        return *no;

    auto const parts = "-" + std::to_string(named.size());
    auto etag = without_quotes(etag_of(tags)) + parts;
    object o{.content = std::move(whole), .etag = '"' + etag + '"', .kept = u.kept};
    if (u.checksum_of_whole) {
        o.checksums.emplace_back("x-amz-checksum-crc32", crc);
    } else if (!u.algorithm.empty()) {
        auto const sum = u.algorithm == "sha256" ? sha256(sums) : crc32_of(sums);
        o.checksums.emplace_back("x-amz-checksum-" + u.algorithm, base64(sum) + parts);
    }
    auto a = completed(r, o.etag);
    b.completed[id] = o.etag;
    b.objects.insert_or_assign(r.key, std::move(o));
    b.uploads.erase(it);
    return a;
}

inline answer abort_upload(const world& w, bucket& b, const request& r) {
    if (!w.may(right::abort)) return access_denied();
    if (b.uploads.erase({r.key, r.parameter("uploadId")}) == 0) return no_such_upload();
    return empty_answer(204);
}

}  // namespace s3_server

#endif
