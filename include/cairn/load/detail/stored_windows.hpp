// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_DETAIL_STORED_WINDOWS_HPP
#define CAIRN_LOAD_DETAIL_STORED_WINDOWS_HPP

#include <cairn/error.hpp>
#include <cairn/load/detail/device_windows.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/tensor/convert.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace cairn::detail {

/// Windows of the stored dtype, for readers that do not convert and for ranks that forward what
/// they have read. The planner's own window is used if its dtype is the stored one; otherwise a
/// temporary one, whose content is converted when it is full.
///
/// Threads: any, for different items.
class stored_windows {
public:
    /// Both must outlive this.
    stored_windows(device_windows& on_host, const metadata& stored)
        : on_host_(on_host), stored_(stored) {}

    /// @throws error errc::invalid_plan for a window whose dtype the stored one does not convert to
    tensor_view open(const read_item& i) { return open(i, on_host_.resolve_tensor(i)); }
    /// Overload for a window that the planner has returned.
    tensor_view open(const read_item& i, const tensor_view& window) {
        auto const* t = stored_.tensor(i.fqn);
        if (t == nullptr || window.type == t->type) return window;  // the reader checks the rest
        if (!can_convert(t->type, window.type) || window.shape != i.shape)
            throw error(errc::invalid_plan,
                        {.fqn = i.fqn,
                         .expected = "a window of " + to_string(i.shape) + " elements that " +
                                     std::string(name_of(t->type)) + " converts to",
                         .found = to_string(window.shape) + " " + std::string(name_of(window.type)),
                         .remedy = "let the planner's resolve_tensor return such a window"});
        auto const bytes = static_cast<std::size_t>(i.shape.product()) * size_of(t->type);
        auto memory = std::make_unique<std::byte[]>(std::max<std::size_t>(1, bytes));
        tensor_view const beside(t->type, i.shape, memory.get());
        std::lock_guard const lock(m_);
        beside_.emplace(beside.data, std::pair(std::move(memory), window));
        return beside;
    }
    /// Called when `v`, from here or from the planner, is filled.
    void close(const read_item& i, const tensor_view& v) {
        std::unique_lock lock(m_);
        auto const found = beside_.extract(v.data);
        lock.unlock();
        if (found.empty()) return on_host_.commit_tensor(i, v);
        auto const& window = found.mapped().second;
        convert_elements(v, window);
        on_host_.commit_tensor(i, window);
    }
    /// Discards the windows that a failed or restarted load has not closed.
    void clear() {
        std::lock_guard const lock(m_);
        beside_.clear();
    }

private:
    device_windows& on_host_;
    const metadata& stored_;
    std::mutex m_{};
    std::map<const std::byte*, std::pair<std::unique_ptr<std::byte[]>, tensor_view>> beside_{};
};

}  // namespace cairn::detail

#endif
