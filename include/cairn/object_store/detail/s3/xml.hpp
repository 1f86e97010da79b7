// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_XML_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_XML_HPP

#include <cairn/detail/config.hpp>

#include <boost/property_tree/ptree.hpp>

#include <string_view>

/// The answers of services: XML of S3 and STS, small JSON texts of those that hand out credentials.
namespace cairn::detail::s3 {

/// The deepest nesting in an answer; theirs have 5 or so.
inline constexpr int max_answer_depth = 32;

/// Returns a tree whose only child is the root element. Texts are kept as they are, also blanks; an
/// element's attributes are in its child `<xmlattr>`.
/// @throws error errc::io with the first bytes, if it is no XML or is nested too deep
CAIRN_DECL boost::property_tree::ptree parse_xml(std::string_view text);

/// Returns the members of a JSON object; numbers and constants are texts.
/// @throws error errc::io if it is no JSON. The error has nothing of the text: these answers
/// have secrets. By Boost.PropertyTree, because Boost.JSON must be compiled once in a program,
/// which only the program can see to.
CAIRN_DECL boost::property_tree::ptree parse_json(std::string_view text);

}  // namespace cairn::detail::s3

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/s3/xml.ipp>
#endif

#endif
