// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_DETAIL_READ_ONCE_BROADCAST_PARTS_HPP
#define CAIRN_LOAD_DETAIL_READ_ONCE_BROADCAST_PARTS_HPP

#include <cairn/activity.hpp>
#include <cairn/comm/detail/erased_data_plane.hpp>
#include <cairn/completion.hpp>
#include <cairn/load/detail/device_windows.hpp>
#include <cairn/load/detail/read_once/pieces.hpp>
#include <cairn/load/detail/read_once/plane_groups.hpp>
#include <cairn/load/detail/read_once/shared_reads.hpp>
#include <cairn/load/detail/stored_windows.hpp>
#include <cairn/memory/memory_span.hpp>
#include <cairn/tensor/convert.hpp>
#include <cairn/tensor/layout.hpp>
#include <cairn/verb/detail/part_call.hpp>
#include <cairn/verb/detail/surroundings.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Broadcasts data that one rank has read: row-major, many small parts together, large ones in
/// pieces; without a copy where the memory layout permits, and to devices if the plane serves them.
/// All ranks of the plane make the same broadcasts even if one of them fails, unless the plane
/// itself fails.
class part_broadcaster {
public:
    static constexpr std::uint64_t batch_bytes = std::uint64_t{16} << 20;
    /// Parts of this size are sent alone, so that they need no copy.
    static constexpr std::uint64_t large_bytes = std::uint64_t{4} << 20;

    using then = std::function<void(std::exception_ptr)>;
    /// Items, or pieces of them, and the memory for their stored form.
    using reread = std::vector<std::pair<read_item, tensor_view>>;
    using reading = std::function<void(reread, then)>;

    /// All arguments must outlive this.
    /// @param again    Reads again what the reader of a part has not kept.
    /// @param timeout  For each broadcast.
    /// @param whole    Whether the plane has all ranks of the job, numbered alike, so that
    ///                 its errors name the right ones.
    part_broadcaster(const surroundings& in, erased_data_plane& plane, stored_windows& windows,
                     device_windows& on_host, const load_plan& plan, reading again,
                     cairn::activity& activity, std::chrono::milliseconds timeout, bool whole)
        : in_(in), plane_(plane), windows_(windows), on_host_(on_host), plan_(plan),
          again_(std::move(again)), activity_(activity), timeout_(timeout), whole_(whole) {}
    part_broadcaster(part_broadcaster&&) = delete;

    /// Calls `f`, on the executor or inside this call, after all broadcasts, even if this rank has
    /// failed. `f` keeps this alive.
    void run(const std::vector<shared_part*>& parts, then f) noexcept {
        try {
            for (auto* p : parts) {
                for_pieces(p->shape, size_of(p->type), batch_bytes,
                           [&](const box& b, std::uint64_t bytes, bool last) {
                               if (batches_.empty() || is_large(*p) ||
                                   batches_.back().bytes + bytes > batch_bytes ||
                                   is_large(*batches_.back().pieces.front().part) ||
                                   batches_.back().pieces.front().part->reader != p->reader)
                                   batches_.emplace_back();
                               batches_.back().pieces.push_back({p, b, bytes, last});
                               batches_.back().bytes += bytes;
                           });
            }
        } catch (...) {
            return broken(std::current_exception(), f);
        }
        next(std::move(f));
    }

private:
    struct piece {
        shared_part* part;
        box region;
        std::uint64_t bytes;
        bool last;
    };

    struct batch {
        std::vector<piece> pieces{};
        std::uint64_t bytes = 0;
    };

    static bool is_large(const shared_part& p) noexcept { return p.bytes >= large_bytes; }

    void next(const then& f) noexcept {
        if (at_ == batches_.size()) return f(failure_);
        try {
            begin_batch(f);
        } catch (...) {
            broken(std::current_exception(), f);
        }
    }
    void begin_batch(const then& f) {
        auto const& now = batches_[at_];
        int const root = now.pieces.front().part->reader;
        bool const mine = root == plane_.rank();
        for (auto const& p : now.pieces) attempt([&] { open(*p.part, mine); });
        auto bytes = in_place();
        staged_ = bytes.empty();
        if (staged_) {
            if (staging_.size() < now.bytes) staging_.resize(static_cast<std::size_t>(now.bytes));
            bytes = std::span(staging_).first(static_cast<std::size_t>(now.bytes));
            if (mine)
                each_window([](const tensor_view& staged, const tensor_view& w) {
                    copy_elements(w, staged);
                });
        }
        again_bytes_ = 0;
        auto pieces = mine && staged_ && !failure_ ? not_kept() : reread();
        if (pieces.empty()) return send(bytes, root, f);
        again_(std::move(pieces), [this, bytes, root, f](std::exception_ptr e) {
            // The other ranks wait for it nevertheless.
            if (e && !failure_) failure_ = std::move(e);
            try {
                send(bytes, root, f);
            } catch (...) {
                broken(std::current_exception(), f);
            }
        });
    }
    /// Returns the items of a batch that this rank has not kept, and the memory they are sent from.
    reread not_kept() {
        reread out;
        std::byte* at = staging_.data();
        for (auto const& p : batches_[at_].pieces) {
            if (p.part->again) {
                out.emplace_back(piece_of(plan_.items[p.part->items.front()], p.region),
                                 tensor_view(p.part->type, p.region.shape, at));
                again_bytes_ += p.bytes;
            }
            at += p.bytes;
        }
        return out;
    }
    void send(memory_span bytes, int root, const then& f) {
        bool const mine = root == plane_.rank();
        call_part<done_t>(
            in_.executor,
            [&](auto done) {
                plane_.broadcast(bytes, root, deadline_after(timeout_, in_.now()), std::move(done));
            },
            [this, mine, f](call_result<done_t> r) {
                if (r.failure) return broken(std::move(r.failure), f);
                activity_.advance(batches_[at_].bytes - again_bytes_);
                try {
                    end_batch(mine);
                } catch (...) {
                    return broken(std::current_exception(), f);
                }
                ++at_;
                next(f);
            });
    }
    void end_batch(bool mine) {
        if (staged_ && !mine)
            each_window([](const tensor_view& staged, const tensor_view& w) {
                convert_elements(staged, w);
            });
        for (auto const& p : batches_[at_].pieces)
            if (p.last) attempt([&] { close(*p.part); });
    }
    /// Called when the plane has failed, or this rank can no longer take part in it.
    void broken(std::exception_ptr e, const then& f) noexcept {
        plane_.cancel();
        if (failure_) return f(failure_);  // it occurred first, and may be the cause
        try {
            std::rethrow_exception(e);
        } catch (const error& x) {
            if (!whole_) try {
                    e = std::make_exception_ptr(
                        error(x.code(),
                              {.found = "as " + to_string(place_in(&plane_)) + ": " + x.what()}));
                } catch (...) {  // no memory: as it was
                }
        } catch (...) {
        }
        f(std::move(e));
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
        if (mine ? p.again : failure_ || !p.held.empty()) return;
        try {
            if (!mine)
                for (auto const i : p.items)
                    p.held.emplace_back(plan_.items[i], resolve(p, plan_.items[i]));
            check(p);
        } catch (...) {
            p.held.clear();
            throw;
        }
    }
    /// A window on a device only if no piece of it needs a copy.
    tensor_view resolve(const shared_part& p, const read_item& i) {
        if (!is_large(p) || p.items.size() != 1) return on_host_.resolve_tensor(i);
        return on_host_.resolve_in_place(i, [&](const tensor_view& w) {
            return plane_.serves(w.device) && w.type == p.type && w.shape == p.shape &&
                   is_row_major(w);
        });
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
                             .remedy = "let the planner's resolve_tensor return such a window"});
    }
    void close(shared_part& p) {
        if (!failure_)
            for (auto const& [item, view] : p.held) windows_.close(item, view);
        p.held.clear();
    }
    /// Returns the user's own memory, if the batch is one piece whose layout there is that of the
    /// wire.
    memory_span in_place() const {
        auto const& [pieces, bytes] = batches_[at_];
        if (pieces.size() != 1 || pieces.front().part->held.size() != 1) return {};
        auto const w = subview(pieces.front().part->held.front().second, pieces.front().region);
        if (w.type != pieces.front().part->type || !is_row_major(w)) return {};
        return {w.data, static_cast<std::size_t>(bytes), w.device};
    }
    template <class Copy>
    void each_window(Copy copy) {
        std::byte* at = staging_.data();
        for (auto const& p : batches_[at_].pieces) {
            attempt([&] {
                tensor_view const staged(p.part->type, p.region.shape, at);
                for (auto const& [item, view] : p.part->held) copy(staged, subview(view, p.region));
            });
            at += p.bytes;
        }
    }
    const surroundings& in_;
    erased_data_plane& plane_;
    stored_windows& windows_;
    device_windows& on_host_;
    const load_plan& plan_;
    reading again_;
    cairn::activity& activity_;
    std::chrono::milliseconds timeout_;
    bool whole_;
    std::vector<batch> batches_{};
    std::size_t at_ = 0;             ///< The current batch.
    bool staged_ = false;            ///< It goes through `staging_`.
    std::uint64_t again_bytes_ = 0;  ///< Of the batch: bytes that their reader has counted.
    std::vector<std::byte> staging_{};
    std::exception_ptr failure_{};
};

}  // namespace cairn::detail

#endif
