// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_DETAIL_STORED_SHAPES_HPP
#define CAIRN_MAPPING_DETAIL_STORED_SHAPES_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/mapping/detail/complaint.hpp>
#include <cairn/mapping/detail/evaluation.hpp>
#include <cairn/mapping/detail/expression.hpp>
#include <cairn/mapping/detail/name_pattern.hpp>
#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <boost/container/small_vector.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::map::detail {

/// What is known of the length of a dimension.
struct extent {
    std::int64_t n = -1;  ///< -1: nothing.
    bool least = false;   ///< It may be longer.
    bool known() const noexcept { return n != -1; }
};
using extents = boost::container::small_vector<extent, 4>;

/// What is known of a tensor that will be stored.
struct stored_shape {
    extents shape{};
    std::optional<dtype> type{};        ///< None: that of the state.
    std::string told_by{};              ///< A name of the state.
    dtype state_type = dtype::float32;  ///< Of that one.
};

/// Finds the shapes of stored tensors from those of the state: expressions backwards. What the
/// state does not tell, the expression must (`stored_type`).
class stored_shapes {
public:
    /// Takes into account that an expression makes a tensor of this shape and dtype.
    /// @return the stored names of the expression: they live as long as this
    /// @throws error errc::shape_mismatch, or errc::unsupported for what a save would lose
    CAIRN_DECL std::vector<const std::string*> add(const std::string& fqn, const expression& e,
                                                   captures& bound, const index_vector& shape,
                                                   dtype type);

    /// @throws error errc::invalid_argument naming a tensor whose shape nothing tells
    CAIRN_DECL sources resolved() const;
    /// Whether an expression has a stored name.
    bool has(const std::string& stored) const { return found_.contains(stored); }
    /// The state's name that a stored tensor's shape comes from.
    const std::string& told_by(const std::string& stored) const {
        return found_.find(stored)->second.told_by;
    }

private:
    CAIRN_DECL void require(const expression& e, captures& bound, extents wanted);
    CAIRN_DECL void require_leaf(const expression& e, const captures& bound, extents wanted);
    CAIRN_DECL void require_parts(const expression& e, captures& bound, const extents& wanted);
    CAIRN_DECL void require_each(const expression& e, captures& bound, extents wanted);
    CAIRN_DECL extents wanted_of_operand(const expression& e, captures& bound, extents wanted);
    /// What an expression's own words tell; none if not even the number of dimensions.
    CAIRN_DECL std::optional<extents> told(const expression& e) const;
    CAIRN_DECL std::optional<extents> told_of_operand(const expression& e) const;

    std::map<std::string, stored_shape, std::less<>> found_{};
    std::int64_t stacked_ = 0;                  ///< Names of all stacks.
    complaint about_{};                         // of what is being added
    dtype type_ = dtype::float32;               // of that
    std::vector<const std::string*> leaves_{};  // of that
};

}  // namespace cairn::map::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/mapping/impl/stored_shapes.ipp>
#endif

#endif
