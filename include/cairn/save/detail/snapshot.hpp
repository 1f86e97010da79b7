// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_DETAIL_SNAPSHOT_HPP
#define CAIRN_SAVE_DETAIL_SNAPSHOT_HPP

#include <cairn/activity.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/memory/copy_to_host.hpp>
#include <cairn/memory/detail/device_copy.hpp>
#include <cairn/memory/stager.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/verb/detail/state_devices.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// A copy, in host memory, of what one rank writes: of tensors on devices and, in the background,
/// of all others too, so that they may change meanwhile.
class snapshot {
public:
    /// Copies host memory, and begins to copy that of devices. Memory that several items share,
    /// such as tied weights, is copied once. Dense tensors keep their strides, all others become
    /// row-major. After an exception copies may have begun: `advance` must still be called.
    /// @param data     For each item; outlives the copies.
    /// @param from     Null: memory for this snapshot only, from the heap if it is little.
    /// @param host     Whether tensors in host memory are copied, unless they are frozen: as many
    ///                 as the stager has room for.
    /// @param devices  Outlives this, or `release`; likewise `progress`, which is told of copies.
    /// @throws error naming the tensor, or the bytes that the stager lacks for devices
    CAIRN_DECL void begin(const std::vector<write_item>& items, std::span<item_data> data,
                          erased_stager* from, bool host, state_devices& devices,
                          cairn::activity& progress);
    /// Continues, and returns whether all copies have completed. Never blocks, unless staging
    /// memory could not be pinned.
    CAIRN_DECL bool advance() noexcept;
    /// Whether all copies are enqueued.
    bool enqueued() const noexcept {
        return std::none_of(groups_.begin(), groups_.end(),
                            [](const group& g) { return g.is == group::state::waiting; });
    }
    /// How many of its copies, of a device each, have completed.
    std::ptrdiff_t copied() const noexcept {
        return std::count_if(groups_.begin(), groups_.end(),
                             [](const group& g) { return g.is == group::state::copied; });
    }
    /// Begins no more copies.
    CAIRN_DECL void stop() noexcept;
    /// Returns a device and one of its tensors, if it is still copying.
    CAIRN_DECL std::pair<const state_device*, std::string> unfinished() const;
    /// Makes the data refer to the copies.
    /// @throws the failure of a device; the data is then unchanged
    CAIRN_DECL void finish();
    /// The items that were not copied for lack of room.
    const std::vector<std::uint32_t>& left_out() const noexcept { return left_out_; }
    /// Gives the memory back; nothing may still refer to it. Memory that a device may still write
    /// to is never used again.
    void release() noexcept {
        groups_.clear();
        copied_.clear();
        heap_.reset();
    }

private:
    /// The copies from one device, or within the host.
    struct group {
        enum class state { waiting, copying, copied };

        state_device* from;  ///< Null: the host.
        staging_block memory{};
        std::byte* begin = nullptr;
        std::uint64_t bytes = 0;
        std::uint64_t left_out = 0;  ///< The first of these bytes.
        std::vector<std::pair<host_copy, const std::string*>> copies{};
        state is = state::copied;
    };
    struct copied_item {
        const_tensor_view* view;
        const group* in;
        std::uint64_t offset;
        std::uint32_t item;
    };

    group& group_of(state_device* from);
    void take_memory(group& g, erased_stager* from);
    /// Leaves out copies until the remaining ones fit into `room`.
    void leave_out(group& g, std::uint64_t room);
    void start(group& g);
    /// @return Whether all copies of the group have completed.
    bool advance(group& g);
    static tensor_view copy_of(const const_tensor_view& v, std::byte* at);

    cairn::activity* progress_ = nullptr;
    std::deque<group> groups_{};
    std::vector<copied_item> copied_{};
    std::unique_ptr<std::byte[]> heap_{};
    std::vector<std::uint32_t> left_out_{};
    std::exception_ptr failure_{};
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/save/impl/snapshot.ipp>
#endif

#endif
