// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_RUNNING_SAVES_HPP
#define CAIRN_STORAGE_DETAIL_RUNNING_SAVES_HPP

#include <cairn/object_store/detail/registered_id.hpp>

namespace cairn::detail {

struct registry_of_saves;

/// Registers, for its lifetime, a rank of this process that may still write files of a save: that
/// save's files are not leftovers yet.
using running_save = registered_id<registry_of_saves>;

}  // namespace cairn::detail

#endif
