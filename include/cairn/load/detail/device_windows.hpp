// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_DETAIL_DEVICE_WINDOWS_HPP
#define CAIRN_LOAD_DETAIL_DEVICE_WINDOWS_HPP

#include <cairn/detail/config.hpp>
#include <cairn/memory/arena.hpp>
#include <cairn/memory/detail/device_copy.hpp>
#include <cairn/planner/erased_planner.hpp>
#include <cairn/verb/detail/state_devices.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The windows of a planner, all in host memory unless they are filled in place. The content of
/// windows that the planner has on devices is copied there once they are filled, and not before:
/// memory that the load does not fill is not changed.
///
/// Threads: as the planner's own functions; `advance` and `clear` on the executor.
class device_windows {
public:
    /// Both must outlive this.
    device_windows(erased_load_planner& planner, state_devices& devices)
        : to_(planner), devices_(devices) {}

    CAIRN_DECL tensor_view resolve_tensor(const read_item& i);
    /// Returns the planner's own window, even on a device, if `suits(window)` and no work that was
    /// enqueued before the load uses it any more; otherwise as `resolve_tensor`.
    CAIRN_DECL tensor_view resolve_in_place(const read_item& i,
                                            const std::function<bool(const tensor_view&)>& suits);
    CAIRN_DECL void commit_tensor(const read_item& i, tensor_view v);

    /// Whether devices may be copying.
    CAIRN_DECL bool in_use();
    /// Continues, and returns whether all copies have completed. Never blocks, unless staging
    /// memory could not be pinned.
    CAIRN_DECL bool advance() noexcept;
    /// Describes what is being copied, for an error.
    CAIRN_DECL error_context late();
    /// Called when `advance` has returned true: commits the windows that were copied.
    /// @throws the failure of a device, or of the planner
    CAIRN_DECL void finish();
    /// Discards the windows that a failed or restarted load has not closed.
    CAIRN_DECL void clear() noexcept;

private:
    struct window {
        read_item item;
        tensor_view target;  ///< The planner's.
        state_device* on;
        staging_block memory;
    };

    /// Whether all work that was enqueued on a tensor before the load has ended. A copy that waited
    /// for it on the device could change the tensor after the load has failed by its timeout.
    static bool may_write(state_device& on, const std::string& fqn) {
        return on.naming(fqn, [&] { return on.queue.reached(on.fenced); });
    }
    tensor_view stage(const read_item& i, const tensor_view& target, state_device& on);
    staging_block take(state_device& d, std::uint64_t bytes);
    static void start(window& w, const tensor_view& from);
    /// Starts a copy, and keeps the window even if that fails.
    void add(window w, const tensor_view& from);
    /// Gives back the memory of copies that have completed. `m_` is locked.
    void reap() noexcept;

    erased_load_planner& to_;
    state_devices& devices_;
    std::mutex m_{};  ///< Protects all that follows.
    std::optional<staging_arena> arena_{};
    std::map<const std::byte*, window> open_{};              ///< By memory that the reader fills.
    std::vector<std::pair<window, tensor_view>> waiting_{};  ///< For `may_write`.
    std::deque<window> copying_{};  ///< In the order in which they were begun.
    std::vector<window> copied_{};  ///< Not committed; their memory is given back.
    std::exception_ptr failure_{};
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/load/impl/device_windows.ipp>
#endif

#endif
