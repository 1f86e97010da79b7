// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_S3_XML_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_XML_IPP

#include <cairn/object_store/detail/s3/xml.hpp>

#include <cairn/detail/utf8.hpp>
#include <cairn/error.hpp>

#include <boost/property_tree/json_parser.hpp>
#include <boost/property_tree/xml_parser.hpp>

#include <algorithm>
#include <sstream>
#include <string>

namespace cairn::detail::s3 {

/// Whether a parser that calls itself for each level may read it. Tags in comments count, too.
inline bool is_too_deep_xml(std::string_view text) {
    int depth = 0;
    for (auto at = text.find('<'); at != text.npos; at = text.find('<', at + 1)) {
        auto const next = text.substr(at + 1, 1);
        if (next == "?" || next == "!") continue;
        auto const end = text.find('>', at);
        if (next == "/")
            --depth;
        else if (end == text.npos || text[end - 1] != '/')
            ++depth;
        if (depth > max_answer_depth) return true;
    }
    return false;
}

CAIRN_DECL boost::property_tree::ptree parse_xml(std::string_view text) {
    namespace pt = boost::property_tree;
    auto const refuse = [&](const std::string& why) {
        throw error(
            errc::io,
            {.expected = "XML",
             .found = why + ": " + (text.empty() ? "nothing" : "'" + shortened(text, 120) + "'"),
             .remedy = "check that the endpoint is one of S3, not of a proxy"});
    };
    if (text.find('\0') != text.npos) refuse("a byte 0");
    if (is_too_deep_xml(text)) refuse("too many levels");
    pt::ptree out;
    try {
        std::istringstream in{std::string(text)};
        pt::read_xml(in, out, pt::xml_parser::no_comments);
    } catch (const pt::xml_parser_error& e) {
        refuse(e.message());
    }
    if (out.size() != 1) refuse("no single root");
    return out;
}

CAIRN_DECL boost::property_tree::ptree parse_json(std::string_view text) {
    namespace pt = boost::property_tree;
    auto const refuse = [] {
        throw error(errc::io, {.expected = "a JSON object", .found = "something else"});
    };
    auto const opens = [](char c) { return c == '{' || c == '['; };
    if (std::count_if(text.begin(), text.end(), opens) > max_answer_depth) refuse();
    auto const begin = text.find_first_not_of(" \t\r\n");
    if (begin == text.npos || text[begin] != '{') refuse();
    pt::ptree out;
    try {
        std::istringstream in{std::string(text)};
        pt::read_json(in, out);
    } catch (const pt::json_parser_error&) {
        refuse();
    }
    return out;
}

}  // namespace cairn::detail::s3

#endif
