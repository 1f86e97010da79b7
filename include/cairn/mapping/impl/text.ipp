// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_IMPL_TEXT_IPP
#define CAIRN_MAPPING_IMPL_TEXT_IPP

#include <cairn/mapping/text.hpp>

#include <cairn/mapping/detail/node.hpp>
#include <cairn/tensor/dtype.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cairn {

namespace map::detail {

/// An argument as it is written.
struct argument {
    struct word {
        std::string text{};
    };
    std::size_t at = 0;
    std::variant<std::string, word, double, std::int64_t, expression, std::vector<argument>> is{};
};

class text_parser {
public:
    text_parser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

    mapping whole() {
        mapping m;
        for (skip_space(); at_ < text_.size(); skip_space()) statement(m);
        return m;
    }
    expression only_expression() {
        auto const a = value();
        skip_space();
        if (at_ < text_.size()) fail(at_, "the end");
        return to_expression(a);
    }

private:
    /// Of arguments: of an operation, and of its list.
    static constexpr int most_levels = 2 * static_cast<int>(most_nested);

    [[noreturn]] void fail(std::size_t at, const std::string& expected,
                           std::string found = {}) const {
        auto const before = text_.substr(0, at);
        auto const line = 1 + std::count(before.begin(), before.end(), '\n');
        auto const column = at - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
        if (found.empty()) {
            auto const end = std::min(text_.find_first_of(" \t\r\n", at), at + 20);
            found =
                at < text_.size() ? "`" + std::string(text_.substr(at, end - at)) + "`" : "the end";
        }
        throw error(errc::invalid_argument,
                    {.file = file_,
                     .expected = expected + " in line " + std::to_string(line) + ", column " +
                                 std::to_string(column),
                     .found = std::move(found)});
    }
    /// Adds the place to an error about arguments.
    template <class F>
    auto placed(std::size_t at, F&& make) const {
        try {
            return make();
        } catch (const error& e) {
            fail(at, e.context().expected, e.context().found);
        }
    }

    void skip_space() {
        while (at_ < text_.size()) {
            if (text_[at_] == '#')
                at_ = std::min(text_.find('\n', at_), text_.size());
            else if (std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
                ++at_;
            else
                return;
        }
    }
    bool next_is(char c) {
        skip_space();
        return at_ < text_.size() && text_[at_] == c;
    }
    bool skip(char c) {
        if (!next_is(c)) return false;
        ++at_;
        return true;
    }
    void require(char c) {
        if (!skip(c)) fail(at_, std::string("`") + c + "`");
    }
    std::string word() {
        auto const end = std::find_if_not(
            text_.begin() + static_cast<std::ptrdiff_t>(at_), text_.end(),
            [](char c) { return (c >= 'a' && c <= 'z') || c == '_' || (c >= '0' && c <= '9'); });
        auto const begin = std::exchange(at_, static_cast<std::size_t>(end - text_.begin()));
        return std::string(text_.substr(begin, at_ - begin));
    }
    std::string quoted_text() {
        auto const begin = at_;
        require('"');
        std::string s;
        for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
            if (text_[at_] == '\n') break;
            bool const escaped = text_[at_] == '\\' && at_ + 1 < text_.size();
            if (escaped) ++at_;
            s += escaped && text_[at_] == 'n' ? '\n' : text_[at_];
        }
        if (at_ == text_.size() || text_[at_] != '"') fail(begin, "a closing quote");
        ++at_;
        return s;
    }

    void line(mapping& m, std::size_t begin,
              mapping& (mapping::*set)(std::string, map::expression)) {
        auto name = quoted_text();
        require('=');
        auto const made_of = value();
        placed(begin, [&] { (m.*set)(std::move(name), to_expression(made_of)); });
    }

    void statement(mapping& m) {
        auto const begin = at_;
        if (next_is('"')) return line(m, begin, &mapping::set);
        auto const what = word();
        if (what == "optional") {
            skip_space();
            line(m, begin, &mapping::set_optional);
        } else if (what == "follow") {
            skip_space();
            auto name = quoted_text();
            require('=');
            skip_space();
            auto stored = quoted_text();
            skip_space();
            std::string prefix, stored_prefix;
            if (auto const before = at_; word() == "of") {
                skip_space();
                stored_prefix = prefix = quoted_text();
                if (skip('=')) {
                    skip_space();
                    stored_prefix = quoted_text();
                }
            } else {
                at_ = before;
            }
            placed(begin, [&] {
                m.follow(std::move(name), std::move(stored), std::move(prefix),
                         std::move(stored_prefix));
            });
        } else if (what == "others") {
            require('=');
            skip_space();
            auto const at = at_;
            auto const which = word();
            if (which == "pass")
                m.others(other_names::pass);
            else if (which == "leave_out")
                m.others(other_names::leave_out);
            else if (which == "refuse")
                m.others(other_names::refuse);
            else
                fail(at, "pass, leave_out or refuse");
        } else if (what == "allow_narrowing") {
            m.allow_narrowing();
        } else {
            fail(begin, "a name in quotes, follow, optional, others or allow_narrowing");
        }
    }

    argument value(int nested = 0) {
        skip_space();
        auto const begin = at_;
        if (nested > most_levels) fail(at_, "less nesting");
        if (next_is('"')) return {begin, quoted_text()};
        if (next_is('[')) return {begin, list('[', ']', nested)};
        if (auto number = number_here()) return {begin, std::move(*number)};
        auto name = word();
        if (name.empty()) fail(begin, "a name in quotes, an operation, a number or a list");
        if (!next_is('(')) return {begin, argument::word{std::move(name)}};
        auto const arguments = list('(', ')', nested);
        return {begin, placed(begin, [&] { return operation_of(name, begin, arguments); })};
    }
    std::vector<argument> list(char open, char close, int nested) {
        std::vector<argument> all;
        require(open);
        if (skip(close)) return all;
        do all.push_back(value(nested + 1));
        while (skip(','));
        require(close);
        return all;
    }
    std::optional<decltype(argument::is)> number_here() {
        auto const* const begin = text_.data() + at_;
        auto const* const end = text_.data() + text_.size();
        std::int64_t integer = 0;
        double real = 0;
        auto const as_integer = std::from_chars(begin, end, integer);
        auto const as_real = std::from_chars(begin, end, real);
        if (as_real.ec == std::errc::invalid_argument) return std::nullopt;
        if (as_real.ec != std::errc()) fail(at_, "a number in range");
        at_ += static_cast<std::size_t>(as_real.ptr - begin);
        bool const negative_zero = integer == 0 && std::signbit(real);
        if (as_integer.ec == std::errc() && as_integer.ptr == as_real.ptr && !negative_zero)
            return integer;
        return real;
    }

    template <class T>
    const T& get(const argument& a, const char* expected) const {
        if (auto const* const t = std::get_if<T>(&a.is)) return *t;
        fail(a.at, expected);
    }
    expression to_expression(const argument& a) const {
        if (auto const* const name = std::get_if<std::string>(&a.is))
            return placed(a.at, [&] { return stored(*name); });
        return get<expression>(a, "an operation, or a name in quotes");
    }
    std::vector<expression> to_expressions(const argument& a) const {
        std::vector<expression> all;
        for (auto const& one : get<std::vector<argument>>(a, "a list of tensors"))
            all.push_back(to_expression(one));
        return all;
    }
    index_vector to_numbers(const argument& a) const {
        index_vector all;
        for (auto const& one : get<std::vector<argument>>(a, "a list of numbers"))
            all.push_back(get<std::int64_t>(one, "a number"));
        return all;
    }
    int to_dim(const argument& a) const {
        auto const n = get<std::int64_t>(a, "the number of a dimension");
        if (n < -1000 || n > 1000) fail(a.at, "the number of a dimension");
        return static_cast<int>(n);
    }
    double to_real(const argument& a) const {
        if (auto const* const n = std::get_if<std::int64_t>(&a.is)) return static_cast<double>(*n);
        return get<double>(a, "a number");
    }
    dtype to_type(const argument& a) const {
        auto const type = dtype_from_name(get<argument::word>(a, "a dtype").text);
        if (!type) fail(a.at, "a dtype");
        return *type;
    }

    expression operation_of(const std::string& name, std::size_t at,
                            const std::vector<argument>& a) const;

    std::string_view text_;
    const std::string& file_;
    std::size_t at_ = 0;
};

CAIRN_DECL expression text_parser::operation_of(const std::string& name, std::size_t at,
                                                const std::vector<argument>& a) const {
    auto const known =
        std::find(std::begin(operation_names), std::end(operation_names), std::string_view(name));
    if (known == std::end(operation_names)) fail(at, "an operation");
    auto const op = static_cast<operation>(known - std::begin(operation_names));
    auto const n = a.size();
    auto const between = [&](std::size_t least, std::size_t most) {
        if (n < least || n > most)
            fail(at,
                 least == most
                     ? std::to_string(least) + " arguments"
                     : std::to_string(least) + " to " + std::to_string(most) + " arguments",
                 std::to_string(n) + " of " + name);
    };
    auto const number = [&](std::size_t i) { return get<std::int64_t>(a[i], "a number"); };
    auto const dim_or = [&](std::size_t i, int otherwise) {
        return i < n ? to_dim(a[i]) : otherwise;
    };
    auto const numbers_if = [&](std::size_t i) {
        return i < n ? to_numbers(a[i]) : index_vector();
    };
    switch (op) {
        case operation::stored: {
            between(1, 3);
            stored_type known_of_it{numbers_if(1), {}};
            if (n > 2) known_of_it.type = to_type(a[2]);
            return stored(get<std::string>(a[0], "a name in quotes"), std::move(known_of_it));
        }
        case operation::concat:
            between(2, 3);
            return concat(to_dim(a[0]), to_expressions(a[1]), numbers_if(2));
        case operation::interleave:
            between(3, 4);
            return interleave(to_dim(a[0]), number(1), to_expressions(a[2]), numbers_if(3));
        case operation::stack:
            between(2, 3);
            return stack(get<std::string>(a[0], "a capture in quotes"), to_expression(a[1]),
                         dim_or(2, 0));
        case operation::unstack:
            between(2, 3);
            if (auto const* const capture = std::get_if<std::string>(&a[1].is))
                return unstack(to_expression(a[0]), *capture, dim_or(2, 0));
            return unstack(to_expression(a[0]), number(1), dim_or(2, 0));
        case operation::slice:
            between(4, 4);
            return slice(to_expression(a[0]), to_dim(a[1]), number(2), number(3));
        case operation::part:
            between(4, 4);
            return part(to_expression(a[0]), to_dim(a[1]), number(2), number(3));
        case operation::transpose:
            between(1, 3);
            return transpose(to_expression(a[0]), dim_or(1, 0), dim_or(2, 1));
        case operation::permute:
            between(2, 2);
            return permute(to_expression(a[0]), to_numbers(a[1]));
        case operation::split_dim:
            between(3, 3);
            return split_dim(to_expression(a[0]), to_dim(a[1]), to_numbers(a[2]));
        case operation::merge_dims:
            between(3, 3);
            return merge_dims(to_expression(a[0]), to_dim(a[1]), to_numbers(a[2]));
        case operation::pad:
            between(2, 3);
            return pad(to_expression(a[0]), to_numbers(a[1]), n > 2 ? to_real(a[2]) : 0);
        case operation::clip:
            between(2, 3);
            return clip(to_expression(a[0]), to_numbers(a[1]),
                        n > 2 ? std::optional(to_real(a[2])) : std::nullopt);
        case operation::cast: between(2, 2); return cast(to_expression(a[0]), to_type(a[1]));
        case operation::dequantise: between(1, 1); return dequantise(to_expression(a[0]));
        case operation::tie: between(1, 1); return tie(to_expression(a[0]));
        case operation::leave_out: between(0, 0); return leave_out();
        case operation::constant:
            between(3, 3);
            return constant(to_real(a[0]), to_numbers(a[1]), to_type(a[2]));
        case operation::constant_like:
            between(2, 2);
            return constant_like(to_expression(a[0]), to_real(a[1]));
    }
    fail(at, "an operation");
}

}  // namespace map::detail

CAIRN_DECL mapping parse_mapping(std::string_view text, const std::string& file) {
    return map::detail::text_parser(text, file).whole();
}

CAIRN_DECL map::expression map::parse_expression(std::string_view text) {
    return detail::text_parser(text, {}).only_expression();
}

CAIRN_DECL std::string to_string(const mapping& m) {
    using map::detail::in_quotes;
    std::string text;
    for (auto const& line : m.lines())
        text += (line.optional ? "optional " : "") + in_quotes(line.name) + " = " +
                map::to_string(line.made_of) + "\n";
    for (auto const& f : m.followers())
        text += "follow " + in_quotes(f.name) + " = " + in_quotes(f.stored) +
                (f.prefix.empty() && f.stored_prefix.empty() ? "" : " of " + in_quotes(f.prefix)) +
                (f.prefix == f.stored_prefix ? "" : " = " + in_quotes(f.stored_prefix)) + "\n";
    if (m.others() == other_names::leave_out) text += "others = leave_out\n";
    if (m.others() == other_names::refuse) text += "others = refuse\n";
    if (m.allows_narrowing()) text += "allow_narrowing\n";
    return text;
}

}  // namespace cairn

#endif
