// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_DETAIL_EVALUATION_HPP
#define CAIRN_MAPPING_DETAIL_EVALUATION_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/mapping/detail/complaint.hpp>
#include <cairn/mapping/detail/expression.hpp>
#include <cairn/mapping/detail/name_pattern.hpp>
#include <cairn/mapping/detail/node.hpp>
#include <cairn/mapping/detail/pieced_tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::map::detail {

/// Stored tensors by name.
using sources = std::map<std::string, std::shared_ptr<const source>, std::less<>>;

/// Calls `f(captures)` with the captures of each key that matches a pattern.
template <class Keys, class F>
void for_each_match(const Keys& keys, const name_pattern& pattern, const captures& bound, F&& f) {
    auto const key_of = [](auto const& entry) -> const std::string& {
        if constexpr (requires { entry.first; })
            return entry.first;
        else
            return entry;
    };
    auto const prefix = pattern.prefix(bound);
    for (auto k = keys.lower_bound(prefix); k != keys.end() && key_of(*k).starts_with(prefix); ++k)
        if (auto c = bound; pattern.match(key_of(*k), c)) f(std::move(c));
}

/// Returns how many numbers from 0 on a capture of `pattern` has among names.
/// @throws error errc::missing_key naming the first name that is missing before a larger number
template <class Keys>
std::int64_t stacked_count(const Keys& keys, const name_pattern& pattern,
                           const std::string& capture, const captures& bound,
                           const std::string& fqn) {
    std::set<std::string> found;
    for_each_match(keys, pattern, bound, [&](const captures& c) {
        auto const& text = *c.find(capture);
        bool const canonical = text.find_first_not_of("0123456789") == text.npos &&
                               (text.size() == 1 || text.front() != '0') && text.size() < 10;
        if (canonical) found.insert(text);
    });
    for (std::int64_t n = 0; n < static_cast<std::int64_t>(found.size()); ++n)
        if (!found.contains(std::to_string(n)))
            throw error(
                errc::missing_key,
                {.fqn = fqn,
                 .expected = "numbers from 0 on as {" + capture + "} of \"" + pattern.text() + "\"",
                 .found = std::to_string(found.size()) + " of them, without " + std::to_string(n)});
    return static_cast<std::int64_t>(found.size());
}

/// Makes a tensor as an expression says.
class evaluation {
public:
    /// Both must outlive it.
    /// @param fqn  What is made, for errors.
    evaluation(const sources& stored, std::string fqn) : stored_(stored), about_{std::move(fqn)} {}

    /// @throws error errc::missing_key, shape_mismatch, dtype_mismatch, unsupported, naming what is
    /// made, the expression and shapes
    CAIRN_DECL pieced_tensor operator()(const expression& e, captures& bound);

    /// What was used, in the order of the expression; a name may occur twice.
    const std::vector<std::string>& used() const noexcept { return used_; }
    /// Called with what a clip drops, and the value that is stored there instead.
    std::function<void(std::vector<piece>, double)> dropped{};

private:
    CAIRN_DECL pieced_tensor leaf(const expression& e, const captures& bound);
    CAIRN_DECL pieced_tensor concatenated(const expression& e, captures& bound);
    CAIRN_DECL pieced_tensor stacked(const expression& e, captures& bound);
    /// @throws error if no tensor has the shape with a longer dimension
    CAIRN_DECL void check_longer(const expression& e, index_vector shape, std::size_t dim,
                                 std::int64_t more) const;
    CAIRN_DECL void take_slice(const expression& e, const captures& bound, pieced_tensor& t) const;
    CAIRN_DECL void split(const expression& e, pieced_tensor& t) const;
    CAIRN_DECL void merge(const expression& e, pieced_tensor& t) const;
    CAIRN_DECL void resize(const expression& e, pieced_tensor& t) const;
    CAIRN_DECL void reorder(const expression& e, pieced_tensor& t) const;
    CAIRN_DECL pieced_tensor changed(const expression& e, captures& bound);

    const sources& stored_;
    complaint about_;
    std::vector<std::string> used_{};
};

/// Returns an interleaving in terms of splitting, concatenating and merging.
CAIRN_DECL expression in_groups(const node& interleave);

/// The number that an index is. @throws error errc::invalid_argument
CAIRN_DECL std::int64_t index_of(const node& unstack, const captures& bound,
                                 const std::string& fqn);

/// The pattern of what is stored in an expression that counts with a capture.
CAIRN_DECL const name_pattern& counted_pattern(const node& stack);

}  // namespace cairn::map::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/mapping/impl/evaluation.ipp>
#endif

#endif
