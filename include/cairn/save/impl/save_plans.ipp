// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_IMPL_SAVE_PLANS_IPP
#define CAIRN_SAVE_IMPL_SAVE_PLANS_IPP

#include <cairn/save/detail/save_plans.hpp>

#include <cairn/detail/wire.hpp>
#include <cairn/planner/check_plan.hpp>
#include <cairn/planner/detail/tabled_plans.hpp>
#include <cairn/planner/plan_codec.hpp>
#include <cairn/save/detail/item_sources.hpp>
#include <cairn/storage/detail/file_layout.hpp>

#include <cstdint>
#include <tuple>

namespace cairn::detail {

/// The form of a local plan in a message.
enum class told_plan : std::uint8_t { whole = 1, unchanged = 2 };
/// The form of the joint plan in a message, besides the names of files.
enum class answered_plan : std::uint8_t {
    selection = 1,  ///< Which items of its local plan a rank carries out.
    whole = 2,      ///< A plan, which a planner or writer may have changed.
    reused = 3,     ///< Nothing: the plan is that of the generation that was offered.
};

CAIRN_DECL std::optional<std::string> plan_key(erased_save_planner& planner,
                                               const save_options& options, int rank, int size) {
    if (options.replicas_of) return {};  // two functions cannot be compared
    auto const planners = planner.plan_key();
    if (!planners) return {};
    wire_writer w;
    for (int const n : {rank, size, options.coordinator}) w.svarint(n);
    w.u8(static_cast<std::uint8_t>(options.replicas));
    w.string(*planners);
    auto const bytes = w.written();
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

CAIRN_DECL std::vector<std::byte> save_plans::send_local(save_plan local,
                                                         std::optional<std::string> key,
                                                         item_sources sources) {
    local_ = std::move(local);
    key_ = std::move(key);
    auto const values = take_value_numbers(local_);
    encoded_ = encode_save_plan(local_);
    give_value_numbers(local_, values);
    unchanged_ = key_ && kept_ && kept_->generation == offered_ && kept_->key == *key_ &&
                 kept_->local == encoded_;
    wire_writer w;
    w.u8(static_cast<std::uint8_t>(unchanged_ ? told_plan::unchanged : told_plan::whole));
    put(w, values);
    put(w, sources);
    if (!unchanged_) w.raw(encoded_);
    return w.take();
}

CAIRN_DECL void save_plans::join(std::span<outcome> told, erased_save_planner& planner,
                                 erased_storage_writer& writer, const save_options& options) {
    auto const ranks = told.size();
    std::vector<local_message> locals(ranks);  // empty: unchanged
    values_by_rank values(ranks);
    sources_by_rank sources(ranks);
    bool all_unchanged = true;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        wire_reader r(told[rank].payload);
        auto const what = static_cast<told_plan>(r.u8());
        values[rank] = get_value_numbers(r);
        sources[rank] = get_item_sources(r);
        if (what == told_plan::whole) {
            locals[rank].begin = r.position();
            locals[rank].bytes = std::move(told[rank].payload);
            all_unchanged = false;
        } else if (what != told_plan::unchanged || offer().empty() || r.left() != 0) {
            wire_reader::fail("neither a plan nor one that is unchanged");
        }
    }
    mapped_ = any_mapped(sources);
    reused_ = all_unchanged && writer.names_files() && values_agree(values) &&
              (kept_->joint->table || !mapped_);
    if (reused_) {
        if (kept_->joint->table) check_sources(*kept_->joint->table, sources);  // of new numbers
        joint_ = kept_->joint;
        return name_files(writer);
    }
    joint_ = made_ = std::make_shared<joint_plan>();
    std::size_t bytes = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        if (locals[rank].bytes.empty()) {
            auto const kept = kept_->joint->locals.at(rank).plan();
            locals[rank] = {{kept.begin(), kept.end()}, 0};
        }
        bytes += locals[rank].plan().size();
    }
    made_->locals = std::move(locals);
    plan_table t(bytes);
    for (std::size_t rank = 0; rank < ranks; ++rank)
        t.add(made_->locals[rank].plan(), values[rank]);
    t.number_items();
    made_->replicas = replica_table(t, options);
    keeps_ = slot_ && key_ && writer.names_files();
    for (std::size_t rank = 0; keeps_ && rank < ranks; ++rank)
        made_->values.push_back(t.value_names(rank));
    auto const by = planner.joins();
    if (by) {
        made_->stored = t.assign(*by);
        t.check();
    }
    check_sources(t, sources);
    if (by && writer.names_files())
        made_->table = std::move(t);
    else
        make_plans(t, by.has_value(), values, planner, writer);
    name_files(writer);
}
CAIRN_DECL void save_plans::name_files(erased_storage_writer& writer) {
    if (!writer.names_files()) return;
    file_names_ = writer.name_files(joint_->stored);
    check_one_per_rank(file_names_.size(), joint_->stored.size(), "names", "writer");
}

/// Whether ranks that save a value of the same name have the same one. If not, the planner decides
/// what follows.
CAIRN_DECL bool save_plans::values_agree(const values_by_rank& all) const {
    std::vector<std::optional<std::uint64_t>> hashes;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        auto const& names = kept_->joint->values.at(rank);
        auto const& values = all[rank];
        if (names.size() != values.size()) wire_reader::fail("values of another plan");
        for (std::size_t k = 0; k < values.size(); ++k) {
            if (names[k] >= hashes.size()) hashes.resize(names[k] + std::size_t{1});
            auto& first = hashes[names[k]];
            if (!first) first = values[k].hash;
            if (*first != values[k].hash) return false;
        }
    }
    return true;
}

/// Decodes the local plans for a planner, or a writer, that asks for plans.
/// @param joined  By the table; otherwise by the planner.
CAIRN_DECL void save_plans::make_plans(const plan_table& t, bool joined,
                                       const values_by_rank& values, erased_save_planner& planner,
                                       erased_storage_writer& writer) {
    auto& to = *made_;
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
        to.plans.push_back(decode_save_plan(to.locals[rank].plan()));
        give_value_numbers(to.plans.back(), values[rank]);
    }
    if (joined) {
        select_of(t, to.plans);
        to.meta = t.make_metadata();
    } else {
        std::tie(to.plans, to.meta) = planner.create_global_save_plan(std::move(to.plans));
        check_planned_metadata(to.meta);
    }
    if (!writer.names_files()) to.plans = writer.prepare_global_save_plan(std::move(to.plans));
    check_one_per_rank(to.plans.size(), values.size(), "plans", "planner or writer");
    if (writer.names_files())
        for (auto const& plan : to.plans) to.stored.push_back(stored_amount_of(plan));
    if (!keeps_) to.locals = {};
}

CAIRN_DECL std::vector<std::byte> save_plans::answer(std::size_t rank) const {
    wire_writer w;
    auto const what = reused_         ? answered_plan::reused
                      : joint_->table ? answered_plan::selection
                                      : answered_plan::whole;
    w.u8(static_cast<std::uint8_t>(what));
    w.string(file_names(rank));
    if (reused_) return w.take();
    w.u8(keeps_);
    joint_->replicas.put(w, rank);
    if (joint_->table)
        put(w, joint_->table->selection_of(rank));
    else
        w.raw(encode_save_plan(joint_->plans.at(rank)));
    return w.take();
}
CAIRN_DECL metadata save_plans::take_metadata() {
    if (joint_->table) return joint_->table->make_metadata();
    return keeps_ || reused_ ? joint_->meta : std::move(made_->meta);
}
CAIRN_DECL void save_plans::place(result_placer& placer, std::span<const std::byte> results,
                                  std::size_t rank) const {
    auto const who = static_cast<int>(rank);
    if (joint_->table)
        placer.place(*joint_->table, results, who);
    else
        placer.place(joint_->plans.at(rank), results, who);
}

CAIRN_DECL void save_plans::receive(std::span<const std::byte> message) {
    wire_reader r(message);
    auto const what = static_cast<answered_plan>(r.u8());
    auto names = r.string();
    if (what == answered_plan::reused) {
        if (!unchanged_) wire_reader::fail("a plan that this rank has not kept");
        sent_ = kept_->sent;
        held_ = kept_->held;
        reused_ = true;
    } else {
        keeps_ = r.u8() != 0;
        held_ = decode_held(r);
        if (what == answered_plan::selection)
            sent_ = selected(local_, get_selection(r, local_.items.size()));
        else if (what == answered_plan::whole)
            sent_ = decode_save_plan(r.raw(r.left()));
        else
            wire_reader::fail("neither a plan nor a selection of one");
    }
    if (r.left() != 0) wire_reader::fail("bytes after the plan");
    sent_.storage_data = std::move(names);
    if (what != answered_plan::selection) copy_value_numbers(local_, sent_);  // they are not sent
}

CAIRN_DECL void save_plans::keep(const std::string& save_id) noexcept {
    if (reused_ || !keeps_ || !slot_ || !key_) return;
    try {
        auto const k = std::make_shared<kept_plan>();
        k->generation = save_id;
        k->key = std::move(*key_);
        k->local = std::move(encoded_);
        k->local.shrink_to_fit();
        k->sent = std::move(sent_);
        k->sent.storage_data.clear();
        k->held = std::move(held_);
        k->joint = std::move(joint_);
        slot_->keep(k, times_cleared_);
    } catch (...) {  // no memory: the next save is planned anew
    }
}

}  // namespace cairn::detail

#endif
