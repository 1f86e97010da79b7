// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CHECKPOINTER_IMPL_RECOVERY_IPP
#define CAIRN_CHECKPOINTER_IMPL_RECOVERY_IPP

#include <cairn/checkpointer/detail/recovery.hpp>

#include <cairn/checkpointer/detail/shown_phase.hpp>
#include <cairn/detail/damage.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/detail/fold_failures.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/format/native/index.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace cairn::detail {

CAIRN_DECL bool tells_of_this_copy(const rank_failure& f) {
    return tells_of_damage(f) || f.code == make_error_code(errc::io) ||
           f.code == make_error_code(errc::permission_denied);
}
CAIRN_DECL bool tells_of_damage(const rank_failure& f) {
    if (f.code == make_error_code(errc::invalid_plan)) return false;  // the load's own, it may be
    return is_damage(f.code) || f.code == make_error_code(errc::not_found);
}

CAIRN_DECL bool has_modified(const std::exception_ptr& e) {
    try {
        std::rethrow_exception(e);
    } catch (const error& x) {
        return x.state_modified();
    } catch (...) {
        return false;
    }
}
CAIRN_DECL void rethrow_after(const std::exception_ptr& e, bool modified, int rank) {
    if (!modified || has_modified(e)) std::rethrow_exception(e);
    throw error(failures_of(e, rank), true);
}

CAIRN_DECL bool is_copy(const std::optional<commit_record>& a,
                        const std::optional<commit_record>& b) {
    return a && b && std::tie(a->sequence, a->committed) == std::tie(b->sequence, b->committed);
}
inline bool is_newer(const committed_checkpoint& b, const committed_checkpoint& a) {
    return is_before_by_commit(a, b) && !is_copy(a.record, b.record);
}

/// Leaves the current candidate, which cannot be read, for a copy of it in a later store.
/// @return whether there is one
CAIRN_DECL bool recovery::leave_for_copy(const error& why) {
    bool const copied = record_ && !unread_ &&
                        std::any_of(left_.begin() + static_cast<std::ptrdiff_t>(current_) + 1,
                                    left_.end(), [&](const candidates& later) {
                                        auto const* c = later.newest();
                                        return c != nullptr && is_copy(c->record, record_);
                                    });
    if (!copied) return false;
    checkpoint_problem p;
    p.text = why.what();
    left_[current_].skip(p, false, options_.verify);
    unread_ = why;
    return true;
}
CAIRN_DECL bool recovery::leave_for_copy(const std::vector<rank_failure>& why) {
    return !why.empty() && std::all_of(why.begin(), why.end(), tells_of_this_copy) &&
           leave_for_copy(error(why, false));
}

/// @throws error if there are none left, and some were skipped; or why one could not be read whose
/// copy is damaged: it may be whole
CAIRN_DECL std::optional<candidates::candidate> recovery::next_candidate() {
    for (;;) {
        const committed_checkpoint* newest = nullptr;
        for (std::size_t i = 0; i < left_.size(); ++i) {
            auto const* c = left_[i].newest();
            if (c == nullptr || (newest != nullptr && !is_newer(*c, *newest))) continue;
            newest = c;
            current_ = i;
        }
        if (unread_ && (newest == nullptr || !is_copy(newest->record, record_))) throw *unread_;
        if (newest == nullptr) break;
        record_ = newest->record;
        try {
            if (auto c = left_[current_].next_one()) return c;
        } catch (const error& e) {
            if (e.code() != make_error_code(errc::io) || !leave_for_copy(e)) throw;
        }
    }
    for (auto& l : left_) l.check_none_skipped();
    return {};
}

/// On the coordinator: whether there is one, its id and its metadata, and how to examine it.
CAIRN_DECL std::vector<std::byte> recovery::candidate() {
    for (std::size_t i = left_.size(); i < tiers_.size(); ++i) {
        auto how = options_;
        // Hosts with disks of their own all miss files of the others.
        if (i + 1 < tiers_.size()) how.quarantine = false;
        try {
            left_.emplace_back(tiers_[i], std::move(how), activity_);
        } catch (const error& e) {
            if (tiers_.size() == 1) throw;
            auto why = e.context();
            if (why.remedy.empty())
                why.remedy = i == 0 ? "to go on from what the second place has, make it the "
                                      "checkpointer's store for this start"
                                    : "to go on from what the first place has, leave "
                                      "checkpointer_options::upload out for this start";
            throw error(e.code(), std::move(why));
        }
    }
    wire_writer w;
    auto const c = next_candidate();
    w.u8(c ? 1 : 0);
    if (!c) return w.take();
    w.varint(current_);
    w.string(c->id);
    w.u8(static_cast<std::uint8_t>(options_.verify));
    w.bytes(format::native::encode_metadata(c->meta));
    return w.take();
}

/// On the coordinator: whether no rank has found damage.
/// @throws error if none has, but some cannot tell: the checkpoint may be whole
CAIRN_DECL std::vector<std::byte> recovery::verdict(const std::vector<outcome>& all) {
    checkpoint_problem first;
    std::size_t more = 0, whole = 0;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        if (!all[rank].failures.empty()) continue;
        checkpoint_problem p;
        p.text = wire_reader(all[rank].payload).string();
        if (!p) {
            ++whole;
            continue;
        }
        if (first) {
            ++more;
            continue;
        }
        first = std::move(p);
        if (all.size() > 1) first.text = "on rank " + std::to_string(rank) + ": " + first.text;
    }
    if (more != 0) first.text += " (and on " + std::to_string(more) + " more ranks)";
    if (!first && !leave_for_copy(collect_failures(all))) throw_failures(all);
    if (first) left_[current_].skip(first, whole == 0, options_.verify);
    wire_writer w;
    w.u8(whole == all.size() ? 1 : 0);
    return w.take();
}

CAIRN_DECL auto recovery::next() -> std::optional<found> {
    shown_phase const shown(*activity_, "search");
    try {
        return search();
    } catch (...) {
        rethrow_after(std::current_exception(), modified_, ranks_.rank());
    }
}
CAIRN_DECL auto recovery::search() -> std::optional<found> {
    for (;;) {
        auto const told = ranks_.answered([&] { return candidate(); });
        found f;
        auto const mine = ranks_.alone([&]() -> std::optional<outcome> {
            wire_reader r(told.payload);
            if (r.u8() == 0) return {};
            f.tier = static_cast<std::size_t>(r.varint());
            f.id = r.string();
            auto const level = static_cast<verify_level>(r.u8());
            f.meta = format::native::decode_metadata(r.bytes());
            storage_setup me;
            me.rank = ranks_.rank();
            me.world_size = ranks_.size();
            me.activity = activity_;
            auto const p = problem_of(tiers_.at(f.tier).at(f.id), f.meta, level, me);
            if (p.error) return outcome{{failure_from(p.error, ranks_.rank())}, {}};
            wire_writer w;
            w.string(p.text);
            return outcome{{}, w.take()};
        });
        if (!mine) return {};
        auto const all = ranks_.gather(*mine);
        auto const agreed = ranks_.answered([&] { return verdict(all); });
        if (ranks_.alone([&] { return wire_reader(agreed.payload).u8() != 0; })) return f;
    }
}

/// Whether each rank is among those that failed, of which several may have failed alike.
inline bool are_all_ranks(const std::vector<rank_failure>& failures, std::size_t size) {
    std::vector<rank_range> ranks;
    for (auto const& f : failures) ranks.insert(ranks.end(), f.ranks.begin(), f.ranks.end());
    normalise(ranks);
    return ranks == std::vector<rank_range>{{0, static_cast<int>(size) - 1}};
}

CAIRN_DECL bool recovery::loaded(const found& f, const std::exception_ptr& mine) {
    shown_phase const shown(*activity_, "search");
    outcome o;
    if (mine) ranks_.alone([&] { o.failures = failures_of(mine, ranks_.rank()); });
    enum { success, damaged, other };
    outcome told;
    try {
        auto const all = ranks_.gather(o);
        told = ranks_.answered([&] {
            auto const failures = collect_failures(all);
            bool all_damage = std::all_of(failures.begin(), failures.end(), tells_of_damage);
            if (!failures.empty() && all_damage) {
                checkpoint_problem why;
                why.text = failures.front().text;
                why.damaged = true;
                left_[current_].skip(why, are_all_ranks(failures, all.size()), verify_level::full);
            }
            if (!all_damage) all_damage = leave_for_copy(failures);
            wire_writer w;
            w.u8(failures.empty() ? success : all_damage ? damaged : other);
            return w.take();
        });
    } catch (...) {
        // The load's own says why the group has failed.
        rethrow_after(mine ? mine : std::current_exception(), modified_, ranks_.rank());
    }
    auto const how = ranks_.alone([&] { return wire_reader(told.payload).u8(); });
    if (how == other) {
        auto const why = mine ? mine
                              : std::make_exception_ptr(error(
                                    errc::rank_failed,
                                    {.file = f.id, .found = "a load that failed on another rank"}));
        rethrow_after(why, modified_ || !mine, ranks_.rank());
    }
    if (how == damaged) modified_ = modified_ || !mine || has_modified(mine);
    return how == success;
}

}  // namespace cairn::detail

#endif
