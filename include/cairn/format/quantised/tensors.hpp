// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_QUANTISED_TENSORS_HPP
#define CAIRN_FORMAT_QUANTISED_TENSORS_HPP

#include <cairn/detail/config.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/tensor/box.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

/// Weights that are stored with few bits and scales.
namespace cairn::format::quantised {

/// How the elements of a tensor are computed: each is a stored element times its scale.
struct recipe {
    enum class kind : std::uint8_t {
        floats,          ///< Elements are floats of 8 bits; the stored shape is the tensor's.
        nibbles,         ///< Two elements (E2M1) a byte, the low bits first, in the last dimension.
        grouped_nibbles  ///< As before, the last dimension stored as two: groups, and their bytes.
    };
    kind elements_are = kind::floats;
    std::string elements{};  ///< Name of the stored tensor.
    std::string scales{};    ///< Name of the tensor with a scale for each block.
    std::string scale{};     ///< Name of one more scale, for the whole tensor; may be empty.
    bool divides = false;    ///< By `scale`, rather than multiplied by it.
    index_vector block{};    ///< Elements that have one scale, in each dimension of the tensor.
    friend bool operator==(const recipe&, const recipe&) = default;
};

/// What the files beside the weights say.
struct config {
    std::string method{};                 ///< E.g. `fp8`; empty if nothing is said.
    std::string algorithm{};              ///< ModelOpt's, e.g. `NVFP4`.
    std::optional<index_vector> block{};  ///< Of the last two dimensions.
};
/// Reads Hugging Face's `config.json`, or ModelOpt's `hf_quant_config.json`.
/// @throws error errc::corrupt if it is not JSON
CAIRN_DECL config read_config(std::span<const std::byte> json);

/// The recipes of a checkpoint's tensors, by the names that they get.
using recipes = std::map<std::string, recipe, std::less<>>;
/// Finds quantised tensors by names, dtypes and shapes:
/// - FP8: `N`, with `N_scale_inv` or `N_scale`: one scale for each block of the last two
///   dimensions, for each row or column, or for the tensor;
/// - MXFP4: `N_blocks` and `N_scales`, which become `N`;
/// - NVFP4: `N` of bytes, with `N_scale` and `N_scale_2` (ModelOpt), or `N_packed` with `N_scale`
///   and `N_global_scale` (compressed-tensors), which become `N`.
///
/// A tensor that is quantised in another way, or whose scales do not fit it, moves from `m.entries`
/// to `m.unsupported`, so that nobody takes its elements for weights.
/// @param said  `block`: of FP8.
/// @throws error errc::unsupported for another method or algorithm, naming it
CAIRN_DECL recipes find(metadata& m, const config& said);

/// Whether @ref find knows the method and the algorithm, or none is said.
CAIRN_DECL bool is_known_form(const config& said);

/// Returns the names of codes and scales that are floating-point numbers: of other dtypes they are
/// no longer what their weights need, whatever the form of these. Scales are beside codes, in one
/// layer, and have such names; where the method is not known, all floating-point numbers there may
/// be what it needs. Float8 without scales is no code.
CAIRN_DECL std::set<std::string> floating_parts(const metadata& m, const config& said);

/// Returns the shape of the tensor that a recipe makes of stored elements.
CAIRN_DECL index_vector shape_of(const recipe& r, const index_vector& elements);

/// Returns the region that stored elements are enough for; an empty one if that is no box.
/// @param shape  Of the stored elements.
CAIRN_DECL box region_of(const recipe& r, const box& elements, const index_vector& shape);

}  // namespace cairn::format::quantised

#ifdef CAIRN_HEADER_ONLY
#include <cairn/format/impl/quantised_tensors.ipp>
#endif

#endif
