// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_DETAIL_ARENA_CORE_HPP
#define CAIRN_MEMORY_DETAIL_ARENA_CORE_HPP

#include <cairn/detail/forks.hpp>
#include <cairn/detail/parallel.hpp>
#include <cairn/detail/usable_cpus.hpp>
#include <cairn/error.hpp>
#include <cairn/memory/any_memory_space.hpp>
#include <cairn/memory/arena_options.hpp>
#include <cairn/memory/detail/pinned_slab.hpp>
#include <cairn/memory/detail/poison.hpp>
#include <cairn/memory/detail/range_allocator.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The state that an arena and its blocks share; it lives as long as the last of them.
class arena_core {
public:
    explicit arena_core(const arena_options& o) : options_(o), limit_(o.budget / page * page) {
        if (o.alignment < 64 || o.alignment > page || (o.alignment & (o.alignment - 1)) != 0)
            throw error(errc::invalid_argument,
                        {.expected = "an alignment that is a power of two from 64 to 4096",
                         .found = std::to_string(o.alignment)});
    }
    arena_core(arena_core&&) = delete;
    ~arena_core() {
        for (auto& [begin, s] : slabs_) {
            if (!in_this_process() || s.abandoned)
                s.slab.leak();
            else
                unpoison(s.slab.memory().data(), s.slab.memory().size());
        }
    }

    /// False after a fork: the memory is the parent's, and its threads may have held the locks.
    bool in_this_process() const noexcept { return home_.is_this(); }
    bool persists() const noexcept { return options_.persist; }
    std::uint64_t budget() const noexcept { return limit_; }

    void pin_for(const any_memory_space& space, device_id d) {
        std::lock_guard const growth(growth_);
        for (auto& known : spaces_) {
            if (known.space.type() != space.type()) continue;
            known = {space, d};  // an earlier one may refer to a stream that has ended
            return;
        }
        spaces_.push_back({space, d});
        {
            std::lock_guard const state(state_);
            for (auto& [begin, s] : slabs_) s.pinned = false;
        }
        for (auto& [begin, s] : slabs_) {
            auto failure = s.slab.pin(spaces_.back(), options_.pinned_limit);
            std::lock_guard const state(state_);
            count(s, std::move(failure));
        }
    }
    arena_need need(std::uint64_t bytes) const {
        std::lock_guard const growth(growth_);
        auto const more = missing(bytes, true);
        return {more, spaces_.empty() ? 0 : more};
    }
    reserve_result reserve(std::uint64_t bytes) {
        std::lock_guard const growth(growth_);
        if (missing(bytes, true) == 0) return {};
        release_free_slabs(0);
        // Other threads may have taken from slabs that were free, or given back what remains.
        auto const more = missing(bytes, false);
        return more == 0 ? reserve_result{} : add_slab(more);
    }
    std::uint64_t bytes_held() const {
        std::lock_guard const state(state_);
        return stats_.bytes_mapped;
    }
    struct place {
        std::byte* at;
        bool pinned;
    };
    /// @pre `0 < bytes <= budget()`
    std::optional<place> take(std::size_t bytes) {
        auto const all = rounded(bytes);
        if (auto p = take_mapped(all, bytes)) return p;
        std::lock_guard const growth(growth_);
        for (;;) {  // other threads may have made room meanwhile, or take what is made here
            if (auto p = take_mapped(all, bytes)) return p;
            if (!make_room(all)) return std::nullopt;
        }
    }
    void give_back(std::byte* at, std::size_t bytes) noexcept {
        if (!in_this_process()) return;
        std::lock_guard const state(state_);
        poison(at, rounded(bytes));
        ranges_.give_back(reinterpret_cast<std::uintptr_t>(at));
        stats_.bytes_in_use -= rounded(bytes);
    }
    void abandon(std::byte* at, std::size_t bytes) noexcept {
        if (!in_this_process()) return;
        std::lock_guard const state(state_);
        slab_of(at).abandoned = true;
        stats_.bytes_abandoned += rounded(bytes);
    }
    void release_unused() noexcept {
        if (!in_this_process()) return;
        std::lock_guard const growth(growth_);
        release_free_slabs(0);
    }
    arena_stats stats() const {
        std::lock_guard const state(state_);
        return stats_;
    }

    /// Returns what an arena with this budget maps for one lease if it has nothing else.
    static std::uint64_t mapped_for(std::uint64_t bytes, const arena_options& o) noexcept {
        auto const limit = o.budget / page * page;
        return bytes == 0 ? 0 : slab_for(std::min(bytes, limit), o.slab_bytes, limit);
    }

private:
    static constexpr std::size_t page = 4096;
    static std::uint64_t up(std::uint64_t bytes, std::uint64_t unit) noexcept {
        return bytes > std::numeric_limits<std::uint64_t>::max() - unit
                   ? bytes / unit * unit
                   : (bytes + unit - 1) / unit * unit;
    }
    /// Returns a size in whole huge pages if there is room. @pre `least <= room`
    static std::uint64_t slab_size(std::uint64_t least, std::uint64_t room) noexcept {
        auto const huge = up(least, huge_page);
        return huge <= room ? huge : up(least, page);
    }
    static std::uint64_t slab_for(std::uint64_t bytes, std::uint64_t usual,
                                  std::uint64_t room) noexcept {
        return std::max(slab_size(bytes, room), std::min(room, up(usual, page)));
    }

    struct held_slab {
        pinned_slab slab;
        bool pinned = false;  ///< For all spaces that asked for it.
        std::uint64_t pinned_bytes = 0;
        bool abandoned = false;
    };
    using slab_map = std::map<std::uintptr_t, held_slab>;

    static constexpr std::uint64_t least_shared = std::uint64_t{32} << 20;

    std::size_t rounded(std::size_t bytes) const noexcept {
        return static_cast<std::size_t>(up(bytes, options_.alignment));
    }
    /// Starting threads takes longer than touching a small slab.
    unsigned threads_for(std::uint64_t bytes) const {
        if (bytes < least_shared) return 1;
        auto const told = options_.prefault_threads;
        return told != 0 ? told : std::min(usable_cpus::of_process().count, 4u);
    }

    // With `state_` locked.

    held_slab& slab_of(const std::byte* at) noexcept {
        return std::prev(slabs_.upper_bound(reinterpret_cast<std::uintptr_t>(at)))->second;
    }
    /// Counts what is pinned.
    void count(held_slab& s, std::string failure) noexcept {
        s.pinned = !spaces_.empty() && s.slab.pinned_for() == spaces_.size();
        stats_.bytes_pinned += s.slab.pinned_bytes() - s.pinned_bytes;
        s.pinned_bytes = s.slab.pinned_bytes();
        if (!failure.empty()) stats_.pin_failure = std::move(failure);
    }

    std::optional<place> take_mapped(std::size_t all, std::size_t bytes) {
        std::lock_guard const state(state_);
        auto const found = ranges_.take(all);
        if (!found) return std::nullopt;
        auto* const at = reinterpret_cast<std::byte*>(*found);
        unpoison(at, bytes);
        stats_.bytes_in_use += all;
        stats_.peak_in_use = std::max(stats_.peak_in_use, stats_.bytes_in_use);
        return place{at, slab_of(at).pinned};
    }

    // With `growth_` locked: no other thread adds or removes slabs, nor changes `bytes_mapped`.

    std::uint64_t room() const noexcept { return limit_ - stats_.bytes_mapped; }
    /// What `reserve(bytes)` would map.
    /// @param free_go  Whether the slabs that are free now do not count: they would be returned.
    std::uint64_t missing(std::uint64_t bytes, bool free_go) const noexcept {
        std::lock_guard const state(state_);
        auto const wanted = std::min(bytes, limit_);
        std::uint64_t kept = 0;
        for (auto const& [begin, s] : slabs_) {
            auto const size = s.slab.memory().size();
            if (size >= wanted) return 0;
            if (!free_go || !ranges_.is_free(begin, size)) kept += size;
        }
        return slab_size(std::min(wanted, limit_ - kept), limit_ - kept);
    }
    /// Maps a slab that `bytes` fit into; returns false if the budget has no room for it now. Free
    /// slabs, which are too small, are returned to the system: a growing arena would otherwise keep
    /// a slab of every size.
    bool make_room(std::size_t bytes) {
        if (!release_free_slabs(bytes)) return false;
        add_slab(slab_for(bytes, options_.slab_bytes, room()));
        return true;
    }
    reserve_result add_slab(std::uint64_t bytes) {
        held_slab made{pinned_slab(static_cast<std::size_t>(bytes), threads_for(bytes))};
        std::string failure;
        for (auto const& s : spaces_) {
            auto why = made.slab.pin(s, options_.pinned_limit);
            if (!why.empty()) failure = std::move(why);
        }
        auto const memory = made.slab.memory();
        auto const begin = reinterpret_cast<std::uintptr_t>(memory.data());
        std::lock_guard const state(state_);
        auto const added = slabs_.emplace(begin, std::move(made)).first;
        try {
            ranges_.add_slab(begin, memory.size());
        } catch (...) {
            slabs_.erase(added);
            throw;
        }
        poison(memory.data(), memory.size());
        stats_.bytes_mapped += memory.size();
        stats_.peak_mapped = std::max(stats_.peak_mapped, stats_.bytes_mapped);
        stats_.page_faults += added->second.slab.faults();
        ++stats_.slabs;
        reserve_result taken{memory.size(), added->second.slab.pinned_bytes(), failure};
        count(added->second, std::move(failure));
        return taken;
    }
    /// Returns free slabs to the system; none, and false, if `bytes` could not be mapped then.
    bool release_free_slabs(std::uint64_t bytes) noexcept {
        slab_map gone;
        std::lock_guard const state(state_);
        std::uint64_t free = 0;
        for (auto const& [begin, s] : slabs_)
            if (ranges_.is_free(begin, s.slab.memory().size())) free += s.slab.memory().size();
        if (room() + free < bytes) return false;
        for (auto s = slabs_.begin(); s != slabs_.end();) {
            auto const here = s++;
            auto const memory = here->second.slab.memory();
            if (!ranges_.is_free(here->first, memory.size())) continue;
            ranges_.remove_slab(here->first);
            unpoison(memory.data(), memory.size());
            stats_.bytes_mapped -= memory.size();
            stats_.bytes_pinned -= here->second.pinned_bytes;
            --stats_.slabs;
            gone.insert(slabs_.extract(here));
        }
        return true;
    }

    arena_options const options_;
    std::uint64_t const limit_;
    home_process const home_{};
    mutable std::mutex growth_{};  ///< Locked while slabs are made, which takes long.
    mutable std::mutex state_{};   ///< Locked for moments, after `growth_` where both are.
    std::vector<pinning> spaces_{};
    slab_map slabs_{};
    range_allocator ranges_{};
    arena_stats stats_{};
};

}  // namespace cairn::detail

#endif
