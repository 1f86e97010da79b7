// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_DETAIL_REPLICA_HASHES_HPP
#define CAIRN_SAVE_DETAIL_REPLICA_HASHES_HPP

#include <cairn/activity.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/memory/detail/device_copy.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/save/detail/replica_hash.hpp>
#include <cairn/save/detail/replicas.hpp>
#include <cairn/state/flat_state.hpp>
#include <cairn/verb/detail/state_devices.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Hashes the items that the coordinator requested; 0 for an item that cannot be hashed. Of tensors
/// on devices, the blocks that are hashed are copied to the host, a few MiB at a time.
class replica_hashes {
public:
    /// Hashes the items that are in host memory.
    /// @param devices  Outlives this, or `release`; likewise `progress`, which is told of hashes.
    CAIRN_DECL void begin(const std::vector<held_replica>& held, const save_plan& local,
                          const flat_state& state, std::string_view save_id, state_devices& devices,
                          cairn::activity& progress);
    /// Continues, and returns whether everything is hashed. See @ref snapshot::advance.
    CAIRN_DECL bool advance() noexcept;
    /// As `snapshot::enqueued`.
    bool enqueued() const noexcept {
        return std::all_of(left_.begin(), left_.end(),
                           [](const on_device& d) { return d.blocks.over(); });
    }
    /// How often copies have completed.
    std::uint64_t rounds() const noexcept { return rounds_; }
    /// Begins no more copies.
    void stop() noexcept { left_.clear(); }
    /// As `snapshot::unfinished`.
    std::pair<const state_device*, std::string> unfinished() const {
        if (left_.empty()) return {nullptr, {}};
        return {left_.back().from, *left_.back().fqn};
    }
    /// Returns the message to the coordinator.
    /// @throws the failure of a device
    CAIRN_DECL std::vector<std::byte> take();
    /// As `snapshot::release`.
    void release() noexcept {
        left_.clear();
        round_.clear();
        memory_.release();
    }

private:
    struct on_device {
        std::size_t index;  ///< In `hashes_`.
        const_tensor_view view;
        state_device* from;
        const std::string* fqn;
        sampled_blocks blocks;
        block_hash hash{};
    };
    static constexpr std::size_t round_bytes = std::size_t{2} << 20;

    /// Enqueues the next copies, from one device. @return Whether they have begun.
    bool begin_round();
    void end_round();

    cairn::activity* progress_ = nullptr;
    std::vector<std::uint64_t> hashes_{};
    std::vector<on_device> left_{};             ///< From the last one on; by device.
    staging_block memory_{};                    ///< Of a round …
    const state_device* memory_for_ = nullptr;  ///< … and whose.
    /// The blocks that are being copied: whose in `left_`, and their sizes.
    std::vector<std::pair<std::size_t, std::size_t>> round_{};
    std::uint64_t rounds_ = 0;
    std::exception_ptr failure_{};
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/save/impl/replica_hashes.ipp>
#endif

#endif
