// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_IMPL_NAME_PATTERN_IPP
#define CAIRN_MAPPING_IMPL_NAME_PATTERN_IPP

#include <cairn/mapping/detail/name_pattern.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::map::detail {

CAIRN_DECL std::optional<captures> captures::only(const std::vector<std::string>& names) const {
    captures some;
    for (auto const& name : names) {
        auto const* const text = find(name);
        if (text == nullptr) return std::nullopt;
        some.bind(name, *text);
    }
    return some;
}

CAIRN_DECL name_pattern::name_pattern(std::string text) : text_(std::move(text)) {
    auto const refuse = [&](const char* expected) {
        throw error(errc::invalid_argument,
                    {.expected = expected, .found = "the pattern \"" + text_ + "\""});
    };
    if (text_.empty()) refuse("a name");
    for (std::size_t i = 0; i < text_.size();) {
        char const c = text_[i];
        bool const twice = i + 1 < text_.size() && text_[i + 1] == c;
        if ((c == '{' || c == '}') && twice) {
            append({std::string(1, c)});
            i += 2;
        } else if (c == '{') {
            auto const end = text_.find('}', i);
            if (end == std::string::npos) refuse("a } for each {");
            element e{text_.substr(i + 1, end - i - 1), element::kind::component};
            if (e.text.ends_with("...")) {
                e.text.resize(e.text.size() - 3);
                e.is = element::kind::any;
            }
            if (e.text.empty() || e.text.find_first_of("{. \"") != std::string::npos)
                refuse("the name of a capture between { and }");
            if (!elements_.empty() && elements_.back().is != element::kind::literal)
                refuse("something between two captures");
            if (has(e.text) && takes_dots(e.text) != (e.is == element::kind::any))
                refuse("a capture that may have dots everywhere, or nowhere");
            append(std::move(e));
            i = end + 1;
        } else {
            if (c == '}') refuse("a { for each }");
            append({std::string(1, c)});
            ++i;
        }
    }
}

CAIRN_DECL void name_pattern::append(element e) {
    if (e.is == element::kind::literal && !elements_.empty() &&
        elements_.back().is == element::kind::literal)
        elements_.back().text += e.text;
    else
        elements_.push_back(std::move(e));
}

CAIRN_DECL std::vector<std::string> name_pattern::names() const {
    std::vector<std::string> all;
    for (auto const& e : elements_)
        if (e.is != element::kind::literal &&
            std::find(all.begin(), all.end(), e.text) == all.end())
            all.push_back(e.text);
    return all;
}

CAIRN_DECL bool name_pattern::has(std::string_view capture) const noexcept {
    return std::any_of(elements_.begin(), elements_.end(), [&](const element& e) {
        return e.is != element::kind::literal && e.text == capture;
    });
}

CAIRN_DECL bool name_pattern::takes_dots(std::string_view capture) const noexcept {
    return std::any_of(elements_.begin(), elements_.end(), [&](const element& e) {
        return e.is == element::kind::any && e.text == capture;
    });
}

CAIRN_DECL bool name_pattern::match(std::string_view name, captures& bound) const {
    auto const before = bound.size();
    if (match_from(0, name, bound)) return true;
    bound.shrink(before);
    return false;
}

CAIRN_DECL bool name_pattern::match_from(std::size_t at, std::string_view rest,
                                         captures& bound) const {
    if (at == elements_.size()) return rest.empty();
    auto const& e = elements_[at];
    auto const* const known = e.is == element::kind::literal ? &e.text : bound.find(e.text);
    if (known != nullptr)
        return rest.starts_with(*known) && match_from(at + 1, rest.substr(known->size()), bound);
    auto const most =
        e.is == element::kind::any ? rest.size() : std::min(rest.find('.'), rest.size());
    // The last element takes the rest, and before a literal only its places come into question.
    bool const last = at + 1 == elements_.size();
    for (std::size_t n = last ? rest.size() : 1; n <= most && n > 0; ++n) {
        if (!last) {
            auto const& next = elements_[at + 1];
            auto const place = rest.find(next.text, n);
            if (place > most) return false;
            n = place;
        }
        auto const before = bound.size();
        bound.bind(e.text, std::string(rest.substr(0, n)));
        if (match_from(at + 1, rest.substr(n), bound)) return true;
        bound.shrink(before);
    }
    return false;
}

CAIRN_DECL std::string name_pattern::fill(const captures& bound) const {
    std::string name;
    for (auto const& e : elements_)
        name += e.is == element::kind::literal ? e.text : *bound.find(e.text);
    return name;
}

CAIRN_DECL std::string name_pattern::prefix(const captures& bound) const {
    std::string begin;
    for (auto const& e : elements_) {
        auto const* const known = e.is == element::kind::literal ? &e.text : bound.find(e.text);
        if (known == nullptr) break;
        begin += *known;
    }
    return begin;
}

CAIRN_DECL name_pattern name_pattern::with(std::string_view capture, const name_pattern& by,
                                           const captures& bound) const {
    name_pattern result;
    for (auto const& e : elements_) {
        auto const* const known = e.is == element::kind::literal ? nullptr : bound.find(e.text);
        if (known != nullptr)
            result.append({*known});
        else if (e.is != element::kind::literal && e.text == capture)
            for (auto const& inner : by.elements_) result.append(inner);
        else
            result.append(e);
    }
    for (auto const& e : result.elements_) {
        if (e.is != element::kind::literal) {
            result.text_ += "{" + e.text + (e.is == element::kind::any ? "...}" : "}");
            continue;
        }
        for (char const c : e.text) result.text_ += std::string(c == '{' || c == '}' ? 2 : 1, c);
    }
    return result;
}

}  // namespace cairn::map::detail

#endif
