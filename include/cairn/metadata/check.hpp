// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_CHECK_HPP
#define CAIRN_METADATA_CHECK_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/tensor/layout.hpp>

#include <string>

namespace cairn {

/// Checks the native index's description of a tensor's item: a payload within the item that is the
/// chunk's box, dense, in the order given by the strides. Every element that is addressed then lies
/// in the payload.
/// @throws error errc::corrupt naming tensor and file
CAIRN_DECL void check_layout(const std::string& fqn, dtype type, const index_vector& lengths,
                             const storage_location& at);

/// Checks that a checkpoint's metadata is consistent, before anything is read with it: chunks
/// within bounds, without overlap, covering if cairn wrote them; items not empty, within their
/// files where those are known; no byte of a file in two items, except for tied weights; payloads
/// within items; paths of bounded length.
/// @throws error errc::invalid_plan or errc::corrupt naming the tensor or file.
CAIRN_DECL void check_metadata(const metadata& m);

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/metadata/impl/check.ipp>
#endif

#endif
