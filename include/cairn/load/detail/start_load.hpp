// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_DETAIL_START_LOAD_HPP
#define CAIRN_LOAD_DETAIL_START_LOAD_HPP

#include <cairn/comm/deadline.hpp>
#include <cairn/detail/or_cancel.hpp>
#include <cairn/load/detail/background_load.hpp>
#include <cairn/load/detail/run_load.hpp>
#include <cairn/verb/detail/given_devices.hpp>
#include <cairn/verb/detail/lane.hpp>
#include <cairn/verb/detail/lent_parts.hpp>
#include <cairn/verb/detail/stored_handler.hpp>
#include <cairn/verb/detail/token_last.hpp>

#include <exception>
#include <memory>
#include <tuple>
#include <utility>

namespace cairn::detail {

/// The parts of a load in the background, and their lanes. Borrowed parts are only referred to.
template <class... Parts>
struct background_load_parts {
    explicit background_load_parts(std::tuple<Parts...> p) : given(std::move(p)) {}
    background_load_parts(background_load_parts&&) = delete;

    given_load_parts<Parts...> given;
    load_parts erased{};
    lane_of<communicator_part, communicator_ref, Parts...> lane{};
    lane_of<data_plane_part, data_plane_ref, Parts...> plane{};
};

/// Returns a handler that first calls `load_state_dict`, where the given handler is to run.
template <class Handler>
auto notifying(std::shared_ptr<flattened_or_error> flat, Handler handler) {
    return adapted(std::move(handler),
                   [flat = std::move(flat)](Handler h, std::exception_ptr e, load_report r) {
                       if (!e) {
                           try {
                               flat->flat->notify_loaded();
                           } catch (...) {
                               e = std::current_exception();
                           }
                       }
                       std::move(h)(std::move(e), std::move(r));
                   });
}

/// Starts a load in the background. Communicator and data plane are duplicated inside this call.
template <class Handler, class... Parts>
void start_load(std::shared_ptr<flattened_or_error> flat, const checkpoint_id& id,
                load_options options, std::tuple<Parts...>&& parts, Handler&& handler) {
    auto const by = deadline_after(options.exchange_timeout);
    auto const load = or_cancel_lent(parts, [&] {
        auto made = std::make_shared<background_load>(
            executor_in(parts), id, std::move(options),
            background_load::handler(notifying(flat, std::move(handler))));
        made->heed_slot();
        return made;
    });
    try {
        auto const held = or_cancel_lent(parts, [&] {
            return std::make_shared<background_load_parts<Parts...>>(std::move(parts));
        });
        or_cancel(held->given.ranks(), [&] {
            // Now: stores and sinks are copied.
            held->erased = held->given.erased();
            add_default_store(held->erased);
            held->erased.devices =
                devices_of<space_holder::operation>(flat->leaves(), held->given.parts());
            held->erased.verb = "async_load";
            auto begin = [load, flat, held](const std::exception_ptr& e) {
                auto erased = std::move(held->erased);
                if (held->lane.erased() != nullptr) erased.ranks = held->lane.erased();
                if (held->plane.erased() != nullptr) erased.plane = held->plane.erased();
                erased.owner = held;
                load->start(e, flat, std::move(erased));
            };
            open_lane<communicator_part>(
                held->lane, held->given.parts(), load->executor(), by,
                [load, held, by, begin = std::move(begin)](std::exception_ptr e) {
                    if (e) return load->end(std::move(e), {});
                    try {
                        open_lane<data_plane_part>(held->plane, held->given.parts(),
                                                   load->executor(), by, begin);
                    } catch (...) {
                        begin(std::current_exception());
                    }
                });
        });
    } catch (...) {
        load->end(std::current_exception(), {});
    }
}

}  // namespace cairn::detail

#endif
