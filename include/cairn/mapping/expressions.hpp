// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_EXPRESSIONS_HPP
#define CAIRN_MAPPING_EXPRESSIONS_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/mapping/detail/expression.hpp>
#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// Expressions of a @ref cairn::mapping: how a tensor of the state is made of stored tensors.
///
/// They nest, at most 64 levels deep. Dimensions are counted from 0, negative ones from the last
/// (-1). Nothing is computed when an expression is made: shapes are checked where a mapping is
/// applied to a checkpoint.
namespace cairn::map {

/// What is known of a stored tensor before it exists: needed by saves where the state does not
/// tell.
struct stored_type {
    index_vector shape{};         ///< -1: not known. Empty: nothing is known.
    std::optional<dtype> type{};  ///< None: that of the state.
};

/// A stored tensor or value. @param name  With captures of the state's pattern: `layers.{i}.w`.
CAIRN_DECL expression stored(std::string name, stored_type known = {});

/// Tensors one after the other along a dimension.
/// @param proportions  Of their lengths, e.g. `{4, 1, 1}`. A load checks them. A save, which cuts a
///                     tensor of the state, assumes equal lengths without them.
CAIRN_DECL expression concat(int dim, std::vector<expression> parts, index_vector proportions = {});
/// The same for each of `groups` equal stretches of the dimension: all parts of the first stretch,
/// then those of the second. Megatron's fused QKV is `interleave(0, query_groups, {q, k, v})`.
CAIRN_DECL expression interleave(int dim, std::int64_t groups, std::vector<expression> parts,
                                 index_vector proportions = {});
/// A new dimension that counts through the tensors whose names have `{capture}` = 0, 1, ….
CAIRN_DECL expression stack(std::string capture, expression each, int dim = 0);
/// One index of a dimension, which the result lacks.
CAIRN_DECL expression unstack(expression of, std::int64_t index, int dim = 0);
/// @param index  A capture of the state's pattern, e.g. `"{e}"`, that is a number.
CAIRN_DECL expression unstack(expression of, std::string index, int dim = 0);

/// The indices from `begin` to before `end` of a dimension.
CAIRN_DECL expression slice(expression of, int dim, std::int64_t begin, std::int64_t end);
/// The `index`-th of `count` equal parts of a dimension.
CAIRN_DECL expression part(expression of, int dim, std::int64_t index, std::int64_t count);

/// Exchanges two dimensions: by default those of a matrix.
CAIRN_DECL expression transpose(expression of, int a = 0, int b = 1);
/// @param order  For each dimension of the result, which one of `of` it is.
CAIRN_DECL expression permute(expression of, index_vector order);
/// Replaces a dimension by several.
/// @param sizes  One may be -1: what remains.
CAIRN_DECL expression split_dim(expression of, int dim, index_vector sizes);
/// Replaces the dimensions from `dim` on by one.
/// @param sizes  Of the dimensions that are merged, one for each; -1: any. A save, which splits
///               them again, needs all but one.
CAIRN_DECL expression merge_dims(expression of, int dim, index_vector sizes);

/// Makes a tensor longer, at the end of dimensions.
/// @param shape  -1: as it is.
/// @param value  A number that the dtype has, if a rounded one; so are all values below.
CAIRN_DECL expression pad(expression of, index_vector shape, double value = 0);
/// Makes a tensor shorter, at the end of dimensions, e.g. drops padding that is stored.
/// @param shape  -1: as it is.
/// @param value  What a save stores in the place of what was dropped; none: it is refused.
CAIRN_DECL expression clip(expression of, index_vector shape, std::optional<double> value = {});

/// Converts elements, as `convert_elements` does.
CAIRN_DECL expression cast(expression of, dtype type);
/// Quantised weights as what they stand for (see `dequantising_reader`). A save refuses it.
CAIRN_DECL expression dequantise(expression of);

/// What another name of the state has too: loaded for both, stored for the other one only. Both
/// have the same shape.
CAIRN_DECL expression tie(expression of);
/// Nothing: the name of the state is neither loaded nor stored.
CAIRN_DECL expression leave_out();
/// A tensor that is not stored.
CAIRN_DECL expression constant(double value, index_vector shape, dtype type);
/// A tensor that is not stored, of the shape and dtype of another.
CAIRN_DECL expression constant_like(expression of, double value);

}  // namespace cairn::map

#ifdef CAIRN_HEADER_ONLY
#include <cairn/mapping/impl/expressions.ipp>
#endif

#endif
