// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_SNAPSHOT_HPP
#define CAIRN_SAVE_SNAPSHOT_HPP

#include <cairn/detail/config.hpp>
#include <cairn/memory/arena.hpp>
#include <cairn/planner/plan.hpp>

#include <cstddef>
#include <memory>
#include <span>

namespace cairn::detail {

/// A copy of what one rank writes, so that its tensors may change meanwhile.
class snapshot {
public:
    /// Copies all tensors, and makes `data` refer to the copies. Memory that several items share,
    /// such as tied weights, is copied once. Dense tensors keep their strides, all others become
    /// row-major.
    /// @param from  Null: memory for this snapshot only, from the heap if it is little.
    /// @throws error naming the bytes if the arena does not have them; `data` is then unchanged
    CAIRN_DECL void take(std::span<item_data> data, staging_arena* from);
    /// Gives the memory back; nothing may refer to it any more.
    void release() noexcept {
        memory_.end_operation();
        heap_.reset();
    }

private:
    arena_lease memory_{};
    std::unique_ptr<std::byte[]> heap_{};
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/save/impl/snapshot.ipp>
#endif

#endif
