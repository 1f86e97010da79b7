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
            if (elements_.size() > 2 * most_captures) refuse("at most 64 captures");
            if (has(e.text) && takes_dots(e.text) != (e.is == element::kind::any))
                refuse("a capture that may have dots everywhere, or nowhere");
            append(std::move(e));
            i = end + 1;
        } else if (c == '}') {
            refuse("a { for each }");
        } else {
            auto const end = std::min(text_.find_first_of("{}", i), text_.size());
            append({text_.substr(i, end - i)});
            i = end;
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

/// Matches one name. Remembers from where the rest of the pattern does not match.
class name_pattern::attempt {
public:
    attempt(const name_pattern& pattern, std::string_view name, captures& bound)
        : pattern_(pattern), elements_(pattern.elements_), name_(name), bound_(bound) {}

    bool from(std::size_t at, std::size_t begin) {
        if (at == elements_.size()) return begin == name_.size();
        auto const& e = elements_[at];
        auto const rest = name_.substr(begin);
        auto const* const known = e.is == element::kind::literal ? &e.text : bound_.find(e.text);
        if (known != nullptr)
            return rest.starts_with(*known) && from(at + 1, begin + known->size());
        auto const place = at * (name_.size() + 1) + begin;
        if (!failed_.empty() && failed_[place]) return false;
        if (take(at, begin)) return true;
        if (failed_.empty()) failed_.resize(elements_.size() * (name_.size() + 1));
        failed_[place] = true;
        return false;
    }

private:
    static constexpr int most_texts = 1 << 20;

    /// Tries each text for a capture, the shortest first.
    bool take(std::size_t at, std::size_t begin) {
        auto const& e = elements_[at];
        auto const rest = name_.substr(begin);
        auto const most =
            e.is == element::kind::any ? rest.size() : std::min(rest.find('.'), rest.size());
        // The last element takes the rest, and before a literal only its places come into question.
        bool const last = at + 1 == elements_.size();
        for (std::size_t n = last ? rest.size() : 1; n <= most && n > 0; ++n) {
            if (!last) {
                auto const place = rest.find(elements_[at + 1].text, n);
                if (place > most) return false;
                n = place;
            }
            count();
            auto const before = bound_.size();
            bound_.bind(e.text, std::string(rest.substr(0, n)));
            if (from(at + 1, begin + n)) return true;
            bound_.shrink(before);
            // With another text, what is after it may match.
            if (occurs_after(at)) failed_.clear();
        }
        return false;
    }
    bool occurs_after(std::size_t at) const {
        return std::any_of(elements_.begin() + static_cast<std::ptrdiff_t>(at) + 1, elements_.end(),
                           [&](const element& e) {
                               return e.is != element::kind::literal &&
                                      e.text == elements_[at].text;
                           });
    }
    void count() {
        if (++texts_ > most_texts)
            throw error(errc::invalid_argument,
                        {.expected = "a pattern that is matched in little time",
                         .found = "the pattern \"" + pattern_.text() + "\" for '" +
                                  std::string(name_) + "'",
                         .remedy = "Let fewer of its captures occur more than once."});
    }

    const name_pattern& pattern_;
    const std::vector<element>& elements_;
    std::string_view name_;
    captures& bound_;
    std::vector<bool> failed_{};  ///< Of each element, of each place. Empty: none is known.
    int texts_ = 0;
};

CAIRN_DECL bool name_pattern::match(std::string_view name, captures& bound) const {
    auto const before = bound.size();
    if (attempt(*this, name, bound).from(0, 0)) return true;
    bound.shrink(before);
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

CAIRN_DECL std::string name_pattern::suffix(const captures& bound) const {
    std::vector<std::string_view> known;
    std::size_t size = 0;
    for (auto e = elements_.rbegin(); e != elements_.rend(); ++e) {
        auto const* const text = e->is == element::kind::literal ? &e->text : bound.find(e->text);
        if (text == nullptr) break;
        known.push_back(*text);
        size += text->size();
    }
    std::string end;
    end.reserve(size);
    for (auto t = known.rbegin(); t != known.rend(); ++t) end += *t;
    return end;
}

CAIRN_DECL bool name_pattern::same(const captures& a, const captures& b) const {
    for (auto const& e : elements_) {
        if (e.is == element::kind::literal) continue;
        auto const *const in_a = a.find(e.text), *const in_b = b.find(e.text);
        if (in_a == nullptr || in_b == nullptr || *in_a != *in_b) return false;
    }
    return true;
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
