// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_STORED_BYTES_HPP
#define CAIRN_METADATA_STORED_BYTES_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/metadata/metadata.hpp>

#include <functional>
#include <string>
#include <string_view>

namespace cairn {

/// Checks that tensors are about as large as their stored bytes, before memory is allocated for
/// them: a shape of 2^50 elements is written in ten bytes.
///
/// A tied weight is stored once for several tensors, and a broadcast one (a stride of 0, which
/// PyTorch can store though DCP does not) takes fewer bytes than its shape. Tensors may therefore
/// have 64 times the stored bytes plus 1 MiB. Of items that cairn has compressed, the bytes before
/// that count. Items in files of unknown size are not checked: those come from a reader that knows
/// more. Nor are tensors whose chunks have no file: a mapping makes them of stored tensors, which
/// are checked themselves.
/// @param wanted  By key: whether memory will be allocated for the tensor.
/// @throws error errc::corrupt naming the tensor that lacks the most bytes, or errc::unsupported if
/// there are compressed items whose size before that is not known; errc::missing_file naming a file
/// that is missing
CAIRN_DECL void check_stored_bytes(const metadata& m,
                                   const std::function<bool(std::string_view)>& wanted);

/// Returns that a tensor's elements repeat far fewer stored bytes than @ref check_stored_bytes
/// accepts for it alone, which only files of `torch.save` can rightly have; empty for others.
CAIRN_DECL std::string repetition(const metadata& m, const tensor_metadata& t);

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/metadata/impl/stored_bytes.ipp>
#endif

#endif
