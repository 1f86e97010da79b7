// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_DETAIL_EVALUATION_HPP
#define CAIRN_MAPPING_DETAIL_EVALUATION_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/mapping/detail/complaint.hpp>
#include <cairn/mapping/detail/expression.hpp>
#include <cairn/mapping/detail/name_list.hpp>
#include <cairn/mapping/detail/name_pattern.hpp>
#include <cairn/mapping/detail/node.hpp>
#include <cairn/mapping/detail/pieced_tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::map::detail {

/// Stored tensors by their names. Not for several threads at a time.
class sources {
public:
    /// Adds a tensor whose name comes after all others.
    void add(source s) {
        auto one = std::make_shared<const source>(std::move(s));
        all_.emplace_hint(all_.end(), one->name, std::move(one));
        names_.reset();
    }
    auto begin() const noexcept { return all_.begin(); }
    auto end() const noexcept { return all_.end(); }
    auto find(std::string_view name) const { return all_.find(name); }
    std::size_t size() const noexcept { return all_.size(); }
    /// Made when first needed.
    CAIRN_DECL const name_list& names() const;

private:
    std::map<std::string_view, std::shared_ptr<const source>> all_{};
    mutable std::optional<name_list> names_{};
};

/// Returns how many numbers from 0 on a capture of `pattern` has among names.
/// @throws error errc::missing_key naming the first name that is missing before a larger number
CAIRN_DECL std::int64_t stacked_count(const name_list& names, const name_pattern& pattern,
                                      const std::string& capture, const captures& bound,
                                      const std::string& fqn);

/// Makes a tensor as an expression says.
class evaluation {
public:
    /// Both must outlive it.
    /// @param fqn  What is made, for errors.
    evaluation(const sources& stored, std::string fqn) : stored_(stored), about_{std::move(fqn)} {}

    /// @throws error errc::missing_key, shape_mismatch, dtype_mismatch, unsupported, naming what is
    /// made, the expression and shapes
    CAIRN_DECL pieced_tensor operator()(const expression& e, captures& bound);

    /// What was used, in the order of the expression; one may occur twice.
    const std::vector<const source*>& used() const noexcept { return used_; }
    /// Called with what a clip drops, and the value that is stored there instead.
    std::function<void(std::vector<piece>, double)> dropped{};
    /// Whether an error names the nearest stored name, which looks at all of them.
    bool suggests = true;

private:
    /// What is found instead of a name that is not stored.
    CAIRN_DECL std::string suggested(const std::string& name) const;
    CAIRN_DECL pieced_tensor leaf(const expression& e, const captures& bound);
    CAIRN_DECL pieced_tensor concatenated(const expression& e, captures& bound);
    CAIRN_DECL pieced_tensor stacked(const expression& e, captures& bound);
    /// @throws error if no tensor has the shape with a longer dimension
    CAIRN_DECL void check_longer(const expression& e, index_vector shape, std::size_t dim,
                                 std::int64_t more) const;
    /// @throws error errc::dtype_mismatch for what no reader has dequantised
    CAIRN_DECL void check_dequantised(const expression& e, dtype type) const;
    CAIRN_DECL void take_slice(const expression& e, const captures& bound, pieced_tensor& t) const;
    CAIRN_DECL void split(const expression& e, pieced_tensor& t) const;
    CAIRN_DECL void merge(const expression& e, pieced_tensor& t) const;
    /// @throws error unless the dtype has the number of an expression
    CAIRN_DECL void check_value(const expression& e, dtype type) const;
    CAIRN_DECL void resize(const expression& e, pieced_tensor& t) const;
    CAIRN_DECL void reorder(const expression& e, pieced_tensor& t) const;
    CAIRN_DECL pieced_tensor changed(const expression& e, captures& bound);

    const sources& stored_;
    complaint about_;
    std::vector<const source*> used_{};
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
