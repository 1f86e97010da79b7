// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_TEXT_HPP
#define CAIRN_MAPPING_TEXT_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/mapping/expressions.hpp>
#include <cairn/mapping/mapping.hpp>

#include <string>
#include <string_view>

namespace cairn {

/// Reads the text form of a mapping:
///
///     # Comments, and white space, may stand anywhere.
///     "blocks.{i}.qkv" = concat(0, ["h.{i}.q.weight", "h.{i}.k.weight", "h.{i}.v.weight"])
///     optional "bias"  = "h.bias"
///     "embed"          = pad(stored("wte.weight", [50257, -1]), [50304, -1])
///     follow "optim.state.{param...}.{slot}" = "optimizer.state.{param...}.{slot}"
///     follow "o.{param...}.{slot}" = "o.{param...}.{slot}" of "model." = "weights."
///     others = leave_out
///     allow_narrowing
///
/// Operations have the names and arguments of the functions of `cairn/mapping/expressions.hpp`;
/// shapes and lists are in brackets, a name in quotes is what is stored under it, dtypes are
/// PyTorch's names. In quotes, `\"`, `\\` and `\n` are a quote, a backslash and a
/// new line.
/// @param file  What errors call the text.
/// @throws error errc::invalid_argument with line and column
CAIRN_DECL mapping parse_mapping(std::string_view text, const std::string& file = {});

/// Returns the text form: @ref parse_mapping makes an equal mapping of it.
CAIRN_DECL std::string to_string(const mapping& m);

namespace map {

/// Reads one expression. @throws error errc::invalid_argument with line and column
CAIRN_DECL expression parse_expression(std::string_view text);

}  // namespace map

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/mapping/impl/text.ipp>
#endif

#endif
