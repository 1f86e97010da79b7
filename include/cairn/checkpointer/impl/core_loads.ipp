// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CHECKPOINTER_IMPL_CORE_LOADS_IPP
#define CAIRN_CHECKPOINTER_IMPL_CORE_LOADS_IPP

#include <cairn/checkpointer/detail/core.hpp>

#include <cairn/catalog/detail/committed.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/detail/host_name.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/load/detail/run_load.hpp>
#include <cairn/object_store/detail/exists.hpp>
#include <cairn/save/detail/mapped_state.hpp>
#include <cairn/storage/detail/data_names.hpp>
#include <cairn/verb/detail/given_devices.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace cairn::detail {

CAIRN_DECL void checkpointer_core::prepare_load() {
    finish_earlier();
    (void)agree(checkpointer_call::load, 0);
    last_step_.reset();
}
CAIRN_DECL load_report checkpointer_core::load(flattened_or_error& state, const checkpoint_id& id,
                                               const load_options& options) {
    load_report report;
    std::string unseen;
    auto const tier = tier_of(id, unseen);
    if (tier != 0 || !options_.upload) {
        report = load_from(tier, state, id, options);
        if (!unseen.empty()) report.warnings.push_back(std::move(unseen));
        return report;
    }
    std::exception_ptr mine;
    try {
        report = load_from(0, state, id, options);
    } catch (...) {
        mine = std::current_exception();
    }
    auto const copy = other_copy(id, mine);
    if (!copy) {
        if (mine) std::rethrow_exception(mine);
        return report;
    }
    try {
        report = load_from(1, state, *copy, options);
    } catch (...) {
        rethrow_after(std::current_exception(), !mine || has_modified(mine), ranks().rank());
    }
    report.warnings.push_back(
        "loaded from '" + options_.upload->to.describe(*copy) +
        "', because of what the first place has: " +
        (mine ? text_of(mine) : std::string("a load there failed on another rank")));
    return report;
}
/// After a load from the first place: the copy of the same commit in the second place, if the load
/// failed because of what the first one has.
/// @param mine  How it has failed on this rank; null: it has not.
/// @throws `mine` if the group has failed
CAIRN_DECL std::optional<checkpoint_id> checkpointer_core::other_copy(
    const checkpoint_id& id, const std::exception_ptr& mine) {
    auto const of_same_commit = [&](const std::vector<rank_failure>& failures) {
        checkpoint_id name;
        if (failures.empty() || !std::all_of(failures.begin(), failures.end(), tells_of_this_copy))
            return name;
        try {
            name = parts_.store.place_id(id);
            if (!is_object_name(name)) return checkpoint_id();
            auto here = parts_.store.at(name), there = options_.upload->to.at(name);
            if (!is_copy(read_commit_record(here), read_commit_record(there))) name.clear();
        } catch (...) {  // what cannot be compared may be another commit
            name.clear();
        }
        return name;
    };
    try {
        auto const all = ranks().gather(ranks().alone([&] {
            outcome o;
            if (mine) o.failures = failures_of(mine, ranks().rank());
            return o;
        }));
        auto const told = ranks().answered([&] {
            wire_writer w;
            w.string(of_same_commit(collect_failures(all)));
            return w.take();
        });
        auto name = ranks().alone([&] { return wire_reader(told.payload).string(); });
        if (name.empty()) return {};
        return name;
    } catch (...) {
        if (mine) std::rethrow_exception(mine);
        throw;
    }
}
/// The id of a checkpoint in one place. What is named by a path or URL of the first place may be in
/// the second one only.
CAIRN_DECL checkpoint_id checkpointer_core::in_tier(std::size_t tier, const checkpoint_id& named) {
    auto id = store_of(tier).place_id(named);
    if (tier != 0 && id == named)
        if (auto of_first = parts_.store.place_id(named); is_object_name(of_first)) return of_first;
    return id;
}

CAIRN_DECL load_report checkpointer_core::load_from(std::size_t tier, flattened_or_error& state,
                                                    const checkpoint_id& named,
                                                    const load_options& options) {
    load_parts given;
    checkpoint_id id;
    ranks().alone([&] {
        auto const& store = store_of(tier);
        id = in_tier(tier, named);
        given.ranks = &group_->ref;
        given.alone = group_->alone;
        given.store = store;
        given.sinks = parts_.sinks;
        given.names = parts_.names;
        std::tuple<> none;
        given.devices = devices_of<space_holder::operation>(state.leaves(), none, parts_.spaces);
    });
    struct shown {
        checkpointer_core& of;
        ~shown() { of.show(of.activity_); }
    } const again{*this};  // a load shows its own activity on this lane, and none when it ends
    auto report = run_load(state, id, options, std::move(given));
    note_read(tier, id, report.warnings);
    return report;
}
CAIRN_DECL void checkpointer_core::note_read(std::size_t tier, const checkpoint_id& id,
                                             std::vector<std::string>& warnings) noexcept {
    if (!ranks().coordinator()) return;
    try {
        auto place = store_of(tier).at(id);
        // A checkpoint of another format, which is never removed, has no metadata.
        auto const found = if_there([&] { return read_commit_record(place); });
        auto const record = found.value_or(std::nullopt);
        if (!record) return;
        // Disks of other hosts may have later ones of a branch that is given up here: what this run
        // saves from now on is newer than those.
        catalog_->note_read(*record, tier == 0 ? 0 : run_catalog::beyond_known);
        if (upload_catalog_) upload_catalog_->note_read(*record);
    } catch (...) {
        try {
            warnings.push_back("'" + id +
                               "' was loaded, but may be removed as an old checkpoint, "
                               "because its record could not be read again: " +
                               text_of(std::current_exception()));
        } catch (...) {  // no memory: the load was successful all the same
        }
    }
}

CAIRN_DECL recovery checkpointer_core::search(const latest_options& options) {
    finish_earlier();
    (void)agree(checkpointer_call::latest, 0);
    return ranks().alone([&] {
        std::vector<any_store> tiers{parts_.store};
        if (options_.upload) tiers.push_back(options_.upload->to);
        return recovery(ranks(), std::move(tiers), options, activity_);
    });
}
CAIRN_DECL std::optional<checkpoint_id> checkpointer_core::latest(const latest_options& options) {
    auto f = search(options).next();
    latest_.reset();
    if (!f) return {};
    // Otherwise the checkpoint was only examined.
    std::vector<std::string> unsaid;
    if (options.verify == verify_level::full) note_read(f->tier, f->id, unsaid);
    f->meta = {};
    latest_ = std::move(f);
    return latest_->id;
}
/// Wraps an exception of the user's code, which says nothing about the checkpoint, whatever its
/// code.
inline std::exception_ptr no_damage(const std::exception_ptr& e, int rank) {
    auto const failures = failures_of(e, rank);
    if (std::none_of(failures.begin(), failures.end(), tells_of_this_copy)) return e;
    return std::make_exception_ptr(
        error(errc::invalid_state, {.expected = "a state to load into", .found = text_of(e)}));
}
CAIRN_DECL std::optional<load_report> checkpointer_core::try_load(
    flattened_or_error& state, recovery& search, const recovery::found& f,
    const load_options& options, const std::exception_ptr& damage) {
    std::optional<load_report> report;
    std::exception_ptr failure;
    try {
        ranks().alone([&] {
            if (damage)
                state.refused = damage;
            else if (state.refused)
                state.refused = no_damage(state.refused, ranks().rank());
        });
        report = load_from(f.tier, state, f.id, options);
    } catch (...) {
        failure = std::current_exception();
    }
    if (!search.loaded(f, failure)) return {};
    last_step_.reset();
    return report;
}
CAIRN_DECL void checkpointer_core::prepare_plan() {
    (void)agree(checkpointer_call::plan, 0);
}
CAIRN_DECL checkpoint_plan checkpointer_core::plan(flattened_or_error& state) {
    auto const& planner = options_.save.planner;
    auto const devices = [&](const flat_state& some) {
        std::tuple<> none;
        return devices_of<space_holder::operation>(some, none, parts_.spaces);
    };
    map_names(state, parts_.names, &group_->ref,
              {devices, deadline_after(options_.save.exchange_timeout)});
    auto const mine = ranks().attempt([&] {
        return encode_needs(state, planner, ranks().rank(), ranks().coordinator(), options_.arena,
                            parts_.directory, is_apart(*group_) ? host_name() : std::string());
    });
    auto const all = ranks().gather(mine);
    auto const told = ranks().answered([&] {
        throw_failures(all);
        std::vector<needs_report> needs;
        for (auto const& o : all) needs.push_back(decode_needs(o.payload));
        return encode(join_needs(needs, planner));
    });
    return ranks().alone([&] { return decode_checkpoint_plan(told.payload); });
}
CAIRN_DECL checkpoint_plan checkpointer_core::reserve(flattened_or_error& state) {
    auto p = plan(state);
    auto const mine = ranks().attempt([&] {
        reserve_for(state, p.ranks.at(static_cast<std::size_t>(ranks().rank())).staging_bytes);
        return std::vector<std::byte>();
    });
    auto const all = ranks().all_gather(mine);
    throw_failures(all);
    return p;
}
/// Pins it too, as the first save would.
CAIRN_DECL void checkpointer_core::reserve_for(const flattened_or_error& state,
                                               std::uint64_t bytes) {
    std::tuple<> none;
    auto const devices = devices_of<space_holder::operation>(state.leaves(), none, parts_.spaces);
    devices->check(true);
    const state_device* last = nullptr;
    for (auto const& leaf : state.leaves()) {
        auto const* tensor = leaf.tensor();
        if (tensor == nullptr) continue;
        for (auto const& s : tensor->shards) {
            auto* const d = devices->of(s.view, leaf.fqn);
            if (d == nullptr || d == last || !d->kept) continue;
            d->naming(leaf.fqn, [&] { arena_->pin_for(d->space, d->queue.device()); });
            last = d;
        }
    }
    (void)arena_->reserve(bytes);
}

}  // namespace cairn::detail

#endif
