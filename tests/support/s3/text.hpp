// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_S3_TEXT_HPP
#define CAIRN_TEST_SUPPORT_S3_TEXT_HPP

#include <cctype>
#include <cstddef>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// A server for tests that speaks S3's protocol as AWS documents it. It shares nothing with the
/// client that it tests.
namespace s3_server {

/// Names and values, in the order in which they were sent.
using fields = std::vector<std::pair<std::string, std::string>>;

inline std::string lower(std::string_view s) {
    std::string r(s);
    for (auto& c : r) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return r;
}

/// Empty if what follows a percent sign is not hexadecimal.
inline std::optional<std::string> percent_decoded(std::string_view s, bool plus_is_space) {
    auto const digit = [](char c) {
        if (c >= '0' && c <= '9') return c - '0';
        if (c >= 'A' && c <= 'F') return c - 'A' + 10;
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    };
    std::string r;
    for (std::size_t i = 0; i < s.size(); ++i) {
        if (s[i] == '+' && plus_is_space) {
            r += ' ';
        } else if (s[i] != '%') {
            r += s[i];
        } else {
            if (i + 2 >= s.size()) return {};
            int const high = digit(s[i + 1]), low = digit(s[i + 2]);
            if (high < 0 || low < 0) return {};
            r += static_cast<char>(high * 16 + low);
            i += 2;
        }
    }
    return r;
}
/// @param kept  What stays as it is, besides letters and digits.
inline std::string percent_encoded(std::string_view s, std::string_view kept) {
    std::string r;
    for (char const c : s) {
        auto const u = static_cast<unsigned char>(c);
        if (u < 128 && (std::isalnum(u) != 0 || kept.find(c) != kept.npos)) {
            r += c;
        } else {
            r += '%';
            r += "0123456789ABCDEF"[u / 16];
            r += "0123456789ABCDEF"[u % 16];
        }
    }
    return r;
}

inline std::string hexadecimal(std::string_view bytes) {
    std::string r;
    for (char const c : bytes) {
        r += "0123456789abcdef"[static_cast<unsigned char>(c) / 16];
        r += "0123456789abcdef"[static_cast<unsigned char>(c) % 16];
    }
    return r;
}
inline std::string base64(std::string_view bytes) {
    static constexpr char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string r;
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        unsigned three = 0;
        for (std::size_t k = 0; k < 3; ++k)
            three =
                three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0);
        for (std::size_t k = 0; k < 4; ++k)
            r += i + k > bytes.size() ? '=' : digits[three >> (18 - 6 * k) & 63];
    }
    return r;
}

inline std::string xml_escaped(std::string_view s) {
    std::string r;
    for (char const c : s) {
        switch (c) {
            case '&': r += "&amp;"; break;
            case '<': r += "&lt;"; break;
            case '>': r += "&gt;"; break;
            case '"': r += "&quot;"; break;
            default:
                // As AWS does, although XML 1.0 has no such characters.
                if (static_cast<unsigned char>(c) < 32 && c != '\t') {
                    r += "&#" + std::to_string(static_cast<int>(c)) + ";";
                } else {
                    r += c;
                }
        }
    }
    return r;
}
inline std::string xml_unescaped(std::string_view s) {
    static constexpr std::pair<std::string_view, char> entities[] = {
        {"&amp;", '&'}, {"&lt;", '<'},    {"&gt;", '>'},   {"&quot;", '"'},
        {"&#34;", '"'}, {"&apos;", '\''}, {"&#39;", '\''}, {"&#x22;", '"'}};
    std::string r;
    while (!s.empty()) {
        std::size_t taken = 1;
        char c = s[0];
        for (auto const& [entity, stands_for] : entities)
            if (s.substr(0, entity.size()) == entity) {
                taken = entity.size();
                c = stands_for;
            }
        r += c;
        s.remove_prefix(taken);
    }
    return r;
}
/// Returns what stands between `<name>` and `</name>`, as it is written, each time they occur.
inline std::vector<std::string_view> xml_elements(std::string_view document,
                                                  const std::string& name) {
    std::string const begin = "<" + name + ">", end = "</" + name + ">";
    std::vector<std::string_view> r;
    for (std::size_t at = 0;;) {
        at = document.find(begin, at);
        if (at == document.npos) return r;
        at += begin.size();
        auto const stop = document.find(end, at);
        if (stop == document.npos) return r;
        r.push_back(document.substr(at, stop - at));
        at = stop + end.size();
    }
}
inline std::string xml_element(const std::string& name, std::string_view text) {
    return "<" + name + ">" + xml_escaped(text) + "</" + name + ">";
}

inline std::string time_text(std::time_t t, const char* format) {
    std::tm parts{};
    ::gmtime_r(&t, &parts);
    char text[64];
    return {text, std::strftime(text, sizeof text, format, &parts)};
}
/// As in headers.
inline std::string http_time(std::time_t t) {
    return time_text(t, "%a, %d %b %Y %H:%M:%S GMT");
}
/// As in XML.
inline std::string iso_time(std::time_t t) {
    return time_text(t, "%Y-%m-%dT%H:%M:%S.000Z");
}

}  // namespace s3_server

#endif
