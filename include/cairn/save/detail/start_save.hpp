// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_DETAIL_START_SAVE_HPP
#define CAIRN_SAVE_DETAIL_START_SAVE_HPP

#include <cairn/comm/deadline.hpp>
#include <cairn/detail/or_cancel.hpp>
#include <cairn/memory/arena.hpp>
#include <cairn/memory/stager.hpp>
#include <cairn/save/detail/background_save.hpp>
#include <cairn/save/detail/mapped_state.hpp>
#include <cairn/save/detail/run_save.hpp>
#include <cairn/save/pending_save.hpp>
#include <cairn/verb/detail/given_devices.hpp>
#include <cairn/verb/detail/lane.hpp>
#include <cairn/verb/detail/lent_parts.hpp>
#include <cairn/verb/detail/token_last.hpp>

#include <exception>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn {
namespace detail {

inline constexpr auto stager_part = []<class T>(of_type<T>) { return Stager<T>; };
inline constexpr auto background_save_part_check = []<class T>(of_type<T>) {
    return SavePart<T> || Stager<std::remove_cvref_t<T>>;
};

/// Whether a save uses a part of the caller's until its end, so that its handle has to wait. Of an
/// executor and a plan cache the save has a copy. An arena's memory outlives it; with any other
/// stager, tensors may be frozen.
template <class Part>
constexpr bool is_used_to_the_end() {
    using part = std::remove_cvref_t<Part>;
    if constexpr (Stager<part>)
        return !std::is_same_v<part, staging_arena>;
    else if constexpr (std::is_same_v<part, plan_cache>)
        return false;
    else
        return is_borrowed<Part>() && !executor_part(of_type<part>());
}
template <class... Parts>
inline constexpr bool borrows = (false || ... || is_used_to_the_end<Parts>());

/// The parts of a save in the background, and its lane. Borrowed parts are only referred to.
template <class... Parts>
struct background_save_parts {
    explicit background_save_parts(std::tuple<Parts...> p) : given(std::move(p)) {}
    background_save_parts(background_save_parts&&) = delete;

    static_assert(count_of<stager_part, Parts...> <= 1, "async_save: two stagers");

    given_save_parts<Parts...> given;
    part_ref<stager_part, stager_ref, Parts...> stager{given.parts()};
    save_parts erased{};
    lane_of<communicator_part, communicator_ref, Parts...> lane{};
};

/// What a `checkpointer` adds to the parts of its saves.
struct checkpointer_parts {
    std::vector<any_memory_space> spaces{};
    erased_sinks sinks{};
    std::shared_ptr<overlap_gate> gate{};
    std::shared_ptr<plan_slot> plans{};
    std::shared_ptr<const mapping> names{};
    /// See `background_save::when_ended`.
    background_save::end_handler ended{};
    const char* verb = "async_save";
    bool notes_environment = true;  ///< See `background_save`.
};

/// Starts a save in the background. The communicator is duplicated inside this call.
template <class Handler, class... Parts>
void start_save(std::shared_ptr<flattened_or_error> flat, const checkpoint_id& id,
                save_options options, std::tuple<Parts...>&& parts, Handler&& handler,
                const checkpointer_parts& more = {}) {
    auto const timeout = options.exchange_timeout;
    auto const save = or_cancel_lent(parts, [&] {
        auto made = std::make_shared<background_save>(
            executor_in(parts), id, std::move(options), borrows<Parts...>,
            background_save::staged_handler(giving_handle(std::move(handler))),
            more.notes_environment);
        made->heed_slot();
        made->when_ended(more.ended);
        return made;
    });
    try {
        auto const held = or_cancel_lent(parts, [&] {
            return std::make_shared<background_save_parts<Parts...>>(std::move(parts));
        });
        or_cancel(held->given.ranks(), [&] {
            // Now: stores and sinks are copied; nothing of the caller's is accessed later.
            auto& erased = held->erased = held->given.erased();
            add_default_store(erased);
            erased.stager = held->stager.get();
            if (more.names) erased.names = more.names;
            // They are compared before this returns: the caller's memory spaces do.
            auto const of_numbers = [&](const flat_state& some) {
                return devices_of<space_holder::caller>(some, held->given.parts(), more.spaces);
            };
            map_names(*flat, erased.names, erased.ranks, {of_numbers, deadline_after(timeout)});
            erased.devices = devices_of<space_holder::operation>(flat->leaves(),
                                                                 held->given.parts(), more.spaces);
            erased.sinks.insert(erased.sinks.end(), more.sinks.begin(), more.sinks.end());
            erased.gate = more.gate;
            if (more.plans) erased.plans = more.plans;
            note_content(erased, flat->leaves(), save->options());
            erased.verb = more.verb;
            open_lane<communicator_part>(
                held->lane, held->given.parts(), save->executor(), deadline_after(timeout),
                [save, flat = std::move(flat), held](std::exception_ptr e) {
                    if (e) return save->end(std::move(e), {});
                    auto to_use = std::move(held->erased);
                    if (held->lane.erased() != nullptr) to_use.ranks = held->lane.erased();
                    to_use.owner = held;
                    save->start(flat, std::move(to_use));
                });
        });
    } catch (...) {
        save->end(std::current_exception(), {});
    }
}

}  // namespace detail
}  // namespace cairn

#endif
