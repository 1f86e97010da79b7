// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_DETAIL_STATE_DEVICES_HPP
#define CAIRN_VERB_DETAIL_STATE_DEVICES_HPP

#include <cairn/detail/config.hpp>
#include <cairn/memory/memory_spaces.hpp>
#include <cairn/state/flat_state.hpp>

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// One device on which a state has tensors, and the queue of one operation for its copies.
struct state_device {
    any_copy_queue queue;
    any_memory_space space;
    bool kept;                             ///< The space may outlive the operation.
    std::string fqn;                       ///< The first tensor on it.
    any_copy_queue::ticket fenced = 0;     ///< Reached when the tensors have been produced.
    std::vector<const_tensor_view> all{};  ///< Its tensors, until they are fenced.
    /// The addresses of its tensors, begin and end of each range, in order and disjoint.
    std::vector<std::pair<std::uintptr_t, std::uintptr_t>> ranges{};

    /// Whether copies between its tensors and host memory may be enqueued now. If that memory is
    /// not pinned, they block the thread until they have completed: only once the tensors have been
    /// produced, so for no longer than the copies themselves take.
    bool may_copy(bool pinned) { return pinned || queue.reached(fenced); }
    /// Adds the device and the tensor to what its memory space throws.
    template <class F>
    decltype(auto) naming(const std::string& name, F&& f) const;
};

/// The devices that the tensors of one operation are on, and the memory spaces that it was given.
class state_devices {
public:
    /// @param kept  Whether the space is the operation's own, so that memory which is kept after it
    ///              may stay pinned.
    CAIRN_DECL void add(any_memory_space s, bool kept);

    /// Orders later copies after the work that produces the tensors. Called inside the initiating
    /// call of the verb, on the caller's thread. Failures are thrown by `check`, so that this rank
    /// can report them to the others.
    CAIRN_DECL void fence(const flat_state& state) noexcept;
    /// @param all  Whether every device needs a memory space. A planner of the user's may stage
    ///             tensors itself.
    void check(bool all) const {
        if (refused_) std::rethrow_exception(refused_);
        if (all && missing_) std::rethrow_exception(missing_);
    }
    /// Whether a view is of host memory, or there is a memory space for it.
    CAIRN_DECL bool serves(const const_tensor_view& v) const;
    /// Returns the device of a tensor; null for host memory, and for a view without elements.
    /// @throws error errc::unsupported without a memory space, and for memory that was not part of
    /// the state when the operation was started: nothing orders copies after the work that produces
    /// it
    CAIRN_DECL state_device* of(const const_tensor_view& v, const std::string& fqn);
    /// Lets the work that is enqueued on the stream from now on start after all copies that are
    /// enqueued already. False, and nothing has happened, if a queue takes streams of another type.
    template <class Stream>
    bool order(const Stream& stream) {
        for (auto const& d : devices_)
            if (!d.queue.template takes<Stream>()) return false;
        for (auto& d : devices_) d.naming(d.fqn, [&] { d.queue.make_wait(stream); });
        return true;
    }

private:
    void note(const const_tensor_view& v, const std::string& fqn);

    memory_spaces spaces_{};
    bool kept_ = true;                     ///< All of them.
    std::vector<state_device> devices_{};  ///< Stay where they are once they are fenced.
    std::exception_ptr refused_{};
    std::exception_ptr missing_{};  ///< The first tensor without a memory space.
};

CAIRN_DECL std::shared_ptr<state_devices> make_state_devices();
/// The devices of an operation without memory spaces: tensors on any are refused.
CAIRN_DECL std::shared_ptr<state_devices> no_memory_spaces(const flat_state& state);

[[noreturn]] CAIRN_DECL void rethrow_naming(device_id d, const std::string& fqn);

template <class F>
decltype(auto) state_device::naming(const std::string& name, F&& f) const {
    try {
        return f();
    } catch (...) {
        rethrow_naming(queue.device(), name);
    }
}

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/verb/impl/state_devices.ipp>
#endif

#endif
