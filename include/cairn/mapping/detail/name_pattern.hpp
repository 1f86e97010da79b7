// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_DETAIL_NAME_PATTERN_HPP
#define CAIRN_MAPPING_DETAIL_NAME_PATTERN_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::map::detail {

/// What captures stand for, by name. There are few: a list.
class captures {
public:
    const std::string* find(std::string_view capture) const noexcept {
        for (auto const& [name, text] : all_)
            if (name == capture) return &text;
        return nullptr;
    }
    /// @pre not bound
    void bind(std::string capture, std::string text) {
        all_.emplace_back(std::move(capture), std::move(text));
    }
    std::size_t size() const noexcept { return all_.size(); }
    void shrink(std::size_t n) { all_.resize(n); }
    /// Returns those of some names, in the order of the names; none if one is not bound.
    CAIRN_DECL std::optional<captures> only(const std::vector<std::string>& names) const;

    friend bool operator==(const captures&, const captures&) = default;
    friend auto operator<=>(const captures&, const captures&) = default;

private:
    std::vector<std::pair<std::string, std::string>> all_{};
};

/// A name with captures: `layers.{i}.weight`.
class name_pattern {
public:
    name_pattern() = default;
    /// @throws error errc::invalid_argument naming the pattern
    CAIRN_DECL explicit name_pattern(std::string text);

    const std::string& text() const noexcept { return text_; }
    /// The captures, each once.
    CAIRN_DECL std::vector<std::string> names() const;
    CAIRN_DECL bool has(std::string_view capture) const noexcept;
    /// Whether a capture may have dots.
    CAIRN_DECL bool takes_dots(std::string_view capture) const noexcept;
    /// Whether only one name matches.
    bool is_literal(const captures& bound = {}) const noexcept;

    /// Matches a whole name. Captures are as short as possible, the first ones first. Takes time in
    /// proportion to the square of its length at most, unless captures occur more than once.
    /// @param bound  Captures have this text; those that are new are added if the name matches.
    /// @throws error errc::invalid_argument if millions of texts would have to be tried
    CAIRN_DECL bool match(std::string_view name, captures& bound) const;
    /// @pre every capture is bound
    CAIRN_DECL std::string fill(const captures& bound) const;
    /// The same, without a copy of what has no captures.
    /// @param memory  Where the name is otherwise; must outlive it.
    const std::string& fill(const captures& bound, std::string& memory) const {
        if (elements_.size() == 1 && elements_.front().is == element::kind::literal)
            return elements_.front().text;
        return memory = fill(bound);
    }
    /// What every name begins with that matches.
    CAIRN_DECL std::string prefix(const captures& bound) const;
    /// What every name ends with that matches.
    CAIRN_DECL std::string suffix(const captures& bound) const;
    /// Whether it has the same text for each of its captures.
    CAIRN_DECL bool same(const captures& a, const captures& b) const;
    /// Returns the pattern with another one in the place of a capture, and bound ones filled in.
    CAIRN_DECL name_pattern with(std::string_view capture, const name_pattern& by,
                                 const captures& bound) const;

    friend bool operator==(const name_pattern& a, const name_pattern& b) noexcept {
        return a.text_ == b.text_;
    }

private:
    struct element {
        std::string text{};  ///< Itself, or the name of a capture.
        enum class kind : std::uint8_t { literal, component, any } is = kind::literal;
    };
    static constexpr std::size_t most_captures = 64;
    class attempt;
    CAIRN_DECL void append(element e);

    std::string text_{};
    std::vector<element> elements_{};
};

inline bool name_pattern::is_literal(const captures& bound) const noexcept {
    for (auto const& e : elements_)
        if (e.is != element::kind::literal && bound.find(e.text) == nullptr) return false;
    return true;
}

}  // namespace cairn::map::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/mapping/impl/name_pattern.ipp>
#endif

#endif
