// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_DETAIL_PATH_LIKE_HPP
#define CAIRN_METADATA_DETAIL_PATH_LIKE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/metadata/metadata.hpp>

#include <string>

namespace cairn::detail {

/// Returns a path for a name that stands for what has another path: the steps that both have at the
/// beginning and at the end, and between them one key. `optim.state.q.m` is like optim/state/a.qk/m
/// in optim/state/q/m. The name itself, as one key, if it would lack a position in a list.
CAIRN_DECL key_path path_like(std::string name, const key_path& other);

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/metadata/impl/path_like.ipp>
#endif

#endif
