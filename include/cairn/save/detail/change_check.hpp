// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_DETAIL_CHANGE_CHECK_HPP
#define CAIRN_SAVE_DETAIL_CHANGE_CHECK_HPP

#include <cairn/comm/deadline.hpp>
#include <cairn/comm/detail/patient_deadline.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/state/flat_state.hpp>
#include <cairn/tensor/view.hpp>
#include <cairn/verb/detail/state_devices.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace cairn::detail {

/// Finds tensors that changed while a save used them: compares the bytes written with the content
/// when the verb was called. Every byte is read two more times: see `save_options::detect_changes`.
class change_check {
public:
    /// Hashes all tensors. Called inside the verb's initiating call, after `fence`; blocks until
    /// devices have copied theirs. `expect` throws a failure of this, so that this rank can report
    /// it to the others.
    /// @param devices  Outlives this.
    CAIRN_DECL change_check(const flat_state& state, std::shared_ptr<state_devices> devices,
                            deadline until) noexcept;
    change_check(change_check&&) = delete;

    /// Notes the content to be written for each item, while `data` still refers to the tensors.
    /// Memory that is not a whole tensor of the state, but a part of one, is hashed now.
    CAIRN_DECL void expect(const std::vector<write_item>& items, std::span<const item_data> data);
    /// Compares the bytes written for an item, in host memory. `finish` throws a difference. Any
    /// thread.
    CAIRN_DECL void compare(const write_item& item, std::size_t index,
                            const item_data& data) noexcept;
    /// @throws error errc::state_changed with the first tensor that differed
    CAIRN_DECL void finish() const;

private:
    using place = std::tuple<memory_kind, int, const std::byte*, dtype, index_vector, index_vector>;
    static place place_of(const const_tensor_view& v) {
        return {v.device.kind, v.device.index, v.data, v.type, v.shape, v.strides};
    }
    std::uint64_t hash_of(const const_tensor_view& v, const std::string& fqn);

    std::shared_ptr<state_devices> devices_;
    patient_deadline until_;
    std::map<place, std::uint64_t> at_call_{};
    std::vector<std::uint64_t> expected_{};  ///< For each item.
    mutable std::mutex m_{};
    std::exception_ptr failure_{};
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/save/impl/change_check.ipp>
#endif

#endif
