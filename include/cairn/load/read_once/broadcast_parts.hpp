// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_READ_ONCE_BROADCAST_PARTS_HPP
#define CAIRN_LOAD_READ_ONCE_BROADCAST_PARTS_HPP

#include <cairn/activity.hpp>
#include <cairn/comm/erased_data_plane.hpp>
#include <cairn/completion.hpp>
#include <cairn/load/read_once/pieces.hpp>
#include <cairn/load/read_once/plane_groups.hpp>
#include <cairn/load/read_once/shared_reads.hpp>
#include <cairn/load/stored_windows.hpp>
#include <cairn/planner/erased_planner.hpp>
#include <cairn/tensor/convert.hpp>
#include <cairn/tensor/layout.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Broadcasts data that one rank has read: row-major, with many small parts together, and large
/// ones in pieces, without a copy where the memory layout permits. All ranks of the plane make the
/// same broadcasts even if one of them fails, unless the plane itself fails.
class part_broadcaster {
public:
    static constexpr std::uint64_t batch_bytes = std::uint64_t{16} << 20;

    /// All arguments must outlive this.
    /// @param timeout  For each broadcast.
    /// @param whole    Whether the plane has all ranks of the job, numbered alike, so that
    ///                 its errors name the right ones.
    part_broadcaster(erased_data_plane& plane, stored_windows& windows,
                     erased_load_planner& planner, const load_plan& plan, cairn::activity& activity,
                     std::chrono::milliseconds timeout, bool whole)
        : plane_(plane), windows_(windows), planner_(planner), plan_(plan), activity_(activity),
          timeout_(timeout), whole_(whole) {}

    /// @throws error; a failure of this rank alone only after all broadcasts
    void run(const std::vector<shared_part*>& parts) {
        try {
            for (auto* p : parts) {
                for_pieces(p->shape, size_of(p->type), batch_bytes,
                           [&](const box& b, std::uint64_t bytes, bool last) {
                               if (!batch_.empty() && (bytes_ + bytes > batch_bytes ||
                                                       batch_.front().part->reader != p->reader))
                                   flush();
                               batch_.push_back({p, b, bytes, last});
                               bytes_ += bytes;
                           });
            }
            if (!batch_.empty()) flush();
        } catch (const error& e) {
            plane_.cancel();
            if (whole_) throw;
            throw error(e.code(),
                        {.found = "as " + to_string(place_in(&plane_)) + ": " + e.what()});
        } catch (...) {
            plane_.cancel();
            throw;
        }
        if (failure_) std::rethrow_exception(failure_);
    }

private:
    struct piece {
        shared_part* part;
        box region;
        std::uint64_t bytes;
        bool last;
    };

    void flush() {
        int const root = batch_.front().part->reader;
        bool const mine = root == plane_.rank();
        for (auto const& p : batch_) attempt([&] { open(*p.part, mine); });
        if (auto const direct = in_place(); !direct.empty()) {
            broadcast(direct, root);
        } else {
            if (staging_.size() < bytes_) staging_.resize(static_cast<std::size_t>(bytes_));
            if (mine)
                each_window([](const tensor_view& staged, const tensor_view& w) {
                    copy_elements(w, staged);
                });
            broadcast({staging_.data(), static_cast<std::size_t>(bytes_)}, root);
            if (!mine)
                each_window([](const tensor_view& staged, const tensor_view& w) {
                    convert_elements(staged, w);
                });
        }
        for (auto const& p : batch_)
            if (p.last) attempt([&] { close(*p.part); });
        batch_.clear();
        bytes_ = 0;
    }

    /// Runs `f`; a failure must not keep this rank from taking part in later broadcasts: from then
    /// on it sends what it has and receives into its own memory.
    template <class F>
    void attempt(F&& f) {
        try {
            f();
        } catch (...) {
            if (!failure_) failure_ = std::current_exception();
        }
    }
    void open(shared_part& p, bool mine) {
        if (!mine && (failure_ || !p.held.empty())) return;
        try {
            if (!mine)
                for (auto const i : p.items)
                    p.held.emplace_back(plan_.items[i], planner_.resolve_tensor(plan_.items[i]));
            check(p);
        } catch (...) {
            p.held.clear();
            throw;
        }
    }
    /// @throws error errc::invalid_plan for windows that violate the concepts
    void check(const shared_part& p) const {
        if (p.held.size() != p.items.size())
            throw error(errc::invalid_plan, {.fqn = plan_.items[p.items.front()].fqn,
                                             .expected = "a reader that commits what it has read"});
        for (auto const& [item, view] : p.held)
            if (!can_convert(p.type, view.type) || !(view.shape == p.shape))
                throw error(errc::invalid_plan,
                            {.fqn = item.fqn,
                             .expected = "a window of " + to_string(p.shape) + " " +
                                         std::string(name_of(p.type)) +
                                         " elements, as stored, or what they convert to",
                             .found = to_string(view.shape) + " " + std::string(name_of(view.type)),
                             .remedy = "the planner's resolve_tensor gives another"});
    }
    void close(shared_part& p) {
        if (!failure_)
            for (auto const& [item, view] : p.held) windows_.close(item, view);
        p.held.clear();
    }
    /// Returns the user's own memory, if the batch is one piece that has the wire's layout there.
    std::span<std::byte> in_place() const {
        if (batch_.size() != 1 || batch_.front().part->held.size() != 1) return {};
        auto const w = subview(batch_.front().part->held.front().second, batch_.front().region);
        if (w.type != batch_.front().part->type || !is_row_major(w) || !is_host(w.device.kind))
            return {};
        return {w.data, static_cast<std::size_t>(bytes_)};
    }
    template <class Copy>
    void each_window(Copy copy) {
        std::byte* at = staging_.data();
        for (auto const& p : batch_) {
            attempt([&] {
                tensor_view const staged(p.part->type, p.region.shape, at);
                for (auto const& [item, view] : p.part->held) copy(staged, subview(view, p.region));
            });
            at += p.bytes;
        }
    }
    void broadcast(std::span<std::byte> bytes, int root) {
        auto const by = deadline_after(timeout_);
        (void)await_completion<done_t>(
            [&](auto done) { plane_.broadcast(bytes, root, by, std::move(done)); });
        activity_.advance();
    }

    erased_data_plane& plane_;
    stored_windows& windows_;
    erased_load_planner& planner_;
    const load_plan& plan_;
    cairn::activity& activity_;
    std::chrono::milliseconds timeout_;
    bool whole_;
    std::vector<piece> batch_{};
    std::uint64_t bytes_ = 0;
    std::vector<std::byte> staging_{};
    std::exception_ptr failure_{};
};

}  // namespace cairn::detail

#endif
