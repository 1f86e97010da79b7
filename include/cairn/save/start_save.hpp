// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_START_SAVE_HPP
#define CAIRN_SAVE_START_SAVE_HPP

#include <cairn/comm/deadline.hpp>
#include <cairn/detail/lane.hpp>
#include <cairn/detail/token_last.hpp>
#include <cairn/detail/given_devices.hpp>
#include <cairn/save/background_save.hpp>
#include <cairn/save/pending_save.hpp>
#include <cairn/save/run_save.hpp>

#include <exception>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

namespace cairn {

class staging_arena;

namespace detail {

struct arena_part {
    template <class T>
    static constexpr bool is = std::is_same_v<T, staging_arena>;
};
struct background_save_part_check {
    template <class T>
    static constexpr bool is = SavePart<T> || arena_part::is<std::remove_cvref_t<T>>;
};

/// Whether the handle of a save has to wait for its end. An arena is used until it is staged; of an
/// executor the save has a copy.
template <class... Parts>
inline constexpr bool borrows =
    (false || ... ||
     (is_borrowed<Parts>() && !arena_part::is<std::remove_cvref_t<Parts>> &&
      !executor_part::is<std::remove_cvref_t<Parts>>));

/// The parts of a save in the background, and its lane: what is borrowed is only referred to.
template <class... Parts>
struct background_save_parts {
    explicit background_save_parts(std::tuple<Parts...> p) : given(std::move(p)) {}
    background_save_parts(background_save_parts&&) = delete;

    staging_arena* arena() {
        constexpr auto i = index_of<arena_part, Parts...>();
        if constexpr (i < sizeof...(Parts))
            return std::addressof(std::get<i>(given.parts()));
        else
            return nullptr;
    }

    given_save_parts<Parts...> given;
    save_parts erased{};
    lane_of<communicator_part, communicator_ref, Parts...> lane{};
};

/// Starts a save in the background. The communicator is duplicated inside this call.
template <class Handler, class... Parts>
void start_save(std::shared_ptr<const flattened_or_error> flat, const checkpoint_id& id,
                save_options options, std::tuple<Parts...> parts, Handler handler) {
    auto const timeout = options.exchange_timeout;
    auto const save = std::make_shared<background_save>(
        executor_in(parts), id, std::move(options), borrows<Parts...>,
        background_save::staged_handler(giving_handle(std::move(handler))));
    save->heed_slot();
    try {
        auto const held = std::make_shared<background_save_parts<Parts...>>(std::move(parts));
        // Now: stores and sinks are copied; nothing of the caller's is looked at after this call.
        held->erased = held->given.erased();
        held->erased.arena = held->arena();
        held->erased.devices =
            devices_of<space_holder::operation>(flat->leaves(), held->given.parts());
        held->erased.verb = "async_save";
        open_lane<communicator_part>(held->lane, held->given.parts(), save->executor(),
                                     deadline_after(timeout),
                                     [save, flat = std::move(flat), held](std::exception_ptr e) {
                                         if (e) return save->refuse(std::move(e));
                                         auto erased = std::move(held->erased);
                                         if (held->lane.erased() != nullptr)
                                             erased.ranks = held->lane.erased();
                                         erased.owner = held;
                                         save->start(flat, std::move(erased));
                                     });
    } catch (...) {
        save->refuse(std::current_exception());
    }
}

}  // namespace detail
}  // namespace cairn

#endif
