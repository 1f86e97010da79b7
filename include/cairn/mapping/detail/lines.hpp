// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_DETAIL_LINES_HPP
#define CAIRN_MAPPING_DETAIL_LINES_HPP

#include <cairn/detail/config.hpp>
#include <cairn/mapping/detail/evaluation.hpp>
#include <cairn/mapping/detail/expression.hpp>
#include <cairn/mapping/detail/name_list.hpp>
#include <cairn/mapping/detail/name_pattern.hpp>
#include <cairn/mapping/detail/node.hpp>
#include <cairn/mapping/detail/piece.hpp>
#include <cairn/mapping/mapping.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cairn::map::detail {

inline constexpr std::string_view parameter = "param";

/// What the names of parameters begin with, on one side, and those of their optimizer state lack.
class parameter_prefix {
public:
    parameter_prefix() = default;
    /// @param text  A pattern without captures, or empty.
    CAIRN_DECL explicit parameter_prefix(std::string text);

    /// Returns the name of a parameter of which optimizer state has this name.
    std::string before(const std::string& param) const { return plain_ + param; }
    /// Returns what optimizer state calls a parameter; nothing if its name begins otherwise.
    CAIRN_DECL std::optional<std::string> off(const std::string& name) const;
    /// @throws error errc::invalid_argument if names of this pattern begin otherwise
    CAIRN_DECL name_pattern off(const name_pattern& name) const;

private:
    std::string text_{}, plain_{};
};

/// Patterns of optimizer state, in the state and in the checkpoint.
struct follower_patterns {
    name_pattern name{}, stored{};
    parameter_prefix prefix{}, stored_prefix{};
    /// Captures other than the parameter's name.
    std::vector<std::string> slot{};

    /// Returns the stored name of what follows a stored parameter, named without the prefix.
    std::string stored_beside(const std::string& param, const captures& slot_of) const {
        return filled(stored, param, slot_of);
    }
    std::string name_beside(const std::string& param, const captures& slot_of) const {
        return filled(name, param, slot_of);
    }
    static captures captures_of(const std::string& param, captures slot_of) {
        slot_of.bind(std::string(parameter), param);
        return slot_of;
    }

private:
    static std::string filled(const name_pattern& p, const std::string& param,
                              const captures& slot_of) {
        return p.fill(captures_of(param, slot_of));
    }
};

/// What a name of optimizer state means.
struct follower_reading {
    const follower_patterns* of = nullptr;
    std::string param{};  ///< As optimizer state calls it.
    captures slot{};
};

/// The patterns of a mapping, parsed once.
class lines {
public:
    CAIRN_DECL explicit lines(const mapping& m);

    struct made_by {
        std::size_t line;
        captures bound;
    };
    /// Returns the line that makes a name of the state: the first whose pattern matches.
    CAIRN_DECL std::optional<made_by> find(const std::string& name) const;

    /// Reads a name of optimizer state: of what it may mean, the first whose parameter is known,
    /// with the longest name; otherwise the first, with the shortest one.
    /// @param of     Target: a name of the state. Source: a stored one.
    /// @param known  Whether there is a parameter of this name, there.
    CAIRN_DECL std::optional<follower_reading> reading(
        const std::string& name, side of,
        const std::function<bool(const std::string&)>& known) const;

    const std::vector<name_pattern>& names() const noexcept { return names_; }
    const std::vector<follower_patterns>& followers() const noexcept { return followers_; }

private:
    std::vector<name_pattern> names_{};
    std::map<std::string, std::size_t, std::less<>> literal_{};  ///< The first of each name.
    /// Those with captures, by what names that match begin and end with.
    struct ends {
        std::size_t prefix, suffix;
        friend auto operator<=>(const ends&, const ends&) = default;
    };
    std::map<ends, std::unordered_map<std::string, std::vector<std::size_t>>> others_{};
    std::vector<follower_patterns> followers_{};
};

/// Returns a parameter's expression for what follows it: of other stored names, without
/// conversions; constants and padding are 0, of the dtype of what stands beside them.
/// @param how   Has the pattern of these names.
/// @param slot  Its captures without the parameter.
CAIRN_DECL expression following(const expression& of_parameter, const follower_patterns& how,
                                const captures& slot);

/// What a pattern makes of captures must be read as the same captures: else a load and a save
/// would not mean the same things by a name.
/// @param name  What it makes of `by`, or is made of what it makes.
/// @throws error errc::invalid_argument unless `read` has the same captures
CAIRN_DECL void check_reads_back(const name_pattern& p, const std::string& name, const captures& by,
                                 const captures& read);
/// The same, with what it reads of the name.
CAIRN_DECL void check_reads_back(const name_pattern& p, const std::string& name,
                                 const captures& by);

/// Calls `f(node, bound)` with each stored name of an expression: of what is stacked, the first.
template <class F>
void for_each_leaf(const expression& e, captures& bound, F&& f) {
    auto const& n = e.node();
    if (n.is_a(operation::stored)) f(n, std::as_const(bound));
    auto const before = bound.size();
    if (n.is_a(operation::stack)) bound.bind(n.capture, "0");
    for (auto const& part : n.parts) for_each_leaf(part, bound, f);
    bound.shrink(before);
}

/// Returns the names of stored things of an expression, in its order, as far as they are known.
CAIRN_DECL std::vector<std::string> leaf_names(const expression& e, const captures& bound,
                                               const name_list& known);

/// Binds the captures of an expression that are not, and that it does not count itself, to their
/// first index: for its shape, which is that of all.
CAIRN_DECL captures bound_to_first(const expression& e, captures bound);

/// Returns the lines that must match something and match none of these names, where what no line
/// matches is left out: what such a line was meant for would be left out in silence.
/// @param of  Target: names of a state. Source: stored ones.
CAIRN_DECL std::vector<std::size_t> unmatched_lines(const mapping& m, const name_list& names,
                                                    side of);
/// @param lines  Of which no rank has a name.
/// @throws error errc::missing_key unless there are none
CAIRN_DECL void refuse_unmatched(const mapping& m, const std::vector<std::size_t>& lines);

/// Returns an expression for what is stored under a name without captures.
CAIRN_DECL expression stored_as_it_is(const std::string& name);

}  // namespace cairn::map::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/mapping/impl/lines.ipp>
#endif

#endif
