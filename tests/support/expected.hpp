// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_EXPECTED_HPP
#define CAIRN_TEST_SUPPORT_EXPECTED_HPP

#include <cairn/metadata/value.hpp>

#include <boost/json.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace support {

inline std::string slurp(const std::filesystem::path& p) {
    std::ifstream f(p, std::ios::binary);
    return {std::istreambuf_iterator<char>(f), {}};
}

inline std::string hex(const std::vector<std::byte>& b) {
    std::string s;
    for (auto x : b) {
        s += "0123456789abcdef"[static_cast<unsigned>(x) >> 4];
        s += "0123456789abcdef"[static_cast<unsigned>(x) & 15];
    }
    return s;
}

/// The JSON of expected.json for a value; integers beyond 64 bits as their double, like the parser.
inline boost::json::value plain(const cairn::value& v) {
    namespace json = boost::json;
    using cairn::value;
    if (v.is_none()) return nullptr;
    if (auto const* b = v.get_if<bool>()) return *b;
    if (auto const* i = v.get_if<std::int64_t>()) return *i;
    if (auto const* i = v.get_if<cairn::big_int>()) return std::stod(i->to_string());
    if (auto const* d = v.get_if<double>()) return *d;
    if (auto const* s = v.get_if<std::string>()) return json::string(*s);
    if (auto const* b = v.get_if<value::bytes_t>()) return json::object{{"bytes", hex(*b)}};
    json::array items;
    if (auto const* l = v.get_if<value::list_t>()) {
        for (auto const& x : *l) items.push_back(plain(x));
        return items;
    }
    if (auto const* t = v.get_if<value::tuple_t>()) {
        for (auto const& x : t->items) items.push_back(plain(x));
        return json::object{{"tuple", items}};
    }
    json::object o;
    for (auto const& [k, x] : v.get_if<value::dict_t>()->items) o[k.as<std::string>()] = plain(x);
    return o;
}

}  // namespace support

#endif
