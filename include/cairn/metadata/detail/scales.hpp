// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_DETAIL_SCALES_HPP
#define CAIRN_METADATA_DETAIL_SCALES_HPP

#include <cairn/detail/config.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/tensor/dtype.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Which stored numbers are codes: they are weights only together with other tensors, their scales.
namespace cairn::detail {

/// The name of the layer that a tensor is in.
CAIRN_DECL std::string_view layer_of(std::string_view name);
/// Whether a tensor beside codes is called as scales are: `weight_scale_inv`, `scales` of GPTQ and
/// AWQ, `absmax`, `quant_map` and `SCB` of bitsandbytes, `zero` of HQQ.
CAIRN_DECL bool is_scale_name(std::string_view name);

/// Returns the names under which scales of a tensor are stored, as numbers of any dtype or as
/// values; first those that begin as the tensor's own name does. Only what is called `weight` has
/// scales of any name in its layer: a `logit_scale` there is that of other tensors.
CAIRN_DECL std::vector<std::string> scales_of(const metadata& m, const std::string& codes);

/// Returns which codes a tensor of this name and dtype consists of, or is made of by a mapping.
CAIRN_DECL std::optional<quantised_codes> codes_of(const metadata& m, const std::string& name,
                                                   dtype type);

/// Whether what becomes this dtype is meant as weights; numbers of one byte may be codes there too.
inline bool holds_weights(dtype t) {
    return size_of(t) > 1 && info(t).kind == dtype_class::floating;
}

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/metadata/impl/scales.ipp>
#endif

#endif
