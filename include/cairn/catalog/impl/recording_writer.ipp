// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_IMPL_RECORDING_WRITER_IPP
#define CAIRN_CATALOG_IMPL_RECORDING_WRITER_IPP

#include <cairn/catalog/detail/recording_writer.hpp>

#include <cairn/catalog/detail/committed.hpp>
#include <cairn/catalog/detail/record_list.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/detail/time_limit.hpp>
#include <cairn/storage/detail/data_names.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

namespace cairn::detail {

CAIRN_DECL void run_catalog::note_read(const commit_record& record, std::uint64_t beyond) {
    std::lock_guard const lock(reads_m_);
    noted_read const read{record.sequence, record.committed, beyond};
    std::erase(reads_, read);  // a process that never saves may read one again and again
    reads_.push_back(read);
}
/// @pre `m_` is locked.
CAIRN_DECL void run_catalog::take_reads() {
    std::lock_guard const lock(reads_m_);
    for (auto const& r : reads_) {
        run_.read[{r.sequence, r.committed}] = {++run_.reads, run_.saves.size()};
        highest_ = std::max(highest_, r.sequence + r.beyond);
    }
    reads_.clear();
}
CAIRN_DECL void run_catalog::look_again() {
    std::lock_guard const lock(m_);
    asks_also_ = true;
}

CAIRN_DECL void run_catalog::note_save(const checkpoint_id& id, const std::string& save_id) {
    std::lock_guard const lock(m_);
    take_reads();
    run_.saves.push_back({id, save_id});
    run_.known.erase(id);
}

CAIRN_DECL void run_catalog::note_left(const checkpoint_id& id) {
    std::lock_guard const lock(m_);
    run_.left.insert(id);
    run_.uncertain.insert(id);
}

CAIRN_DECL void run_catalog::hold(const std::string& save_id) {
    std::lock_guard const lock(m_);
    run_.held.insert(save_id);
}
CAIRN_DECL void run_catalog::release(const std::string& save_id) {
    std::lock_guard const lock(m_);
    run_.held.erase(save_id);
}

CAIRN_DECL std::vector<std::string> run_catalog::take_removed() {
    std::lock_guard const lock(m_);
    return std::exchange(run_.removed, {});
}

CAIRN_DECL bool run_catalog::note_numbers(const any_store& root, bool first, known_records* known,
                                          std::vector<std::string>& warnings,
                                          cairn::activity* activity,
                                          std::optional<std::chrono::milliseconds> longest) {
    if (!root.browsable()) return true;
    std::optional<time_limit> limit;
    try {
        if (longest) limit.emplace(*longest);
        auto const found = find_places(root, activity, known);
        for (auto const& c : found.committed)
            if (c.record) highest_ = std::max(highest_, c.record->sequence);
        if (limit && limit->has_passed())
            throw error(errc::io, {.found = "not all records were read"});
        bool all = true;
        for (auto const& c : found.committed) {
            all = all && (c.problem.empty() || c.damaged);
            if (first && !c.problem.empty())
                warnings.push_back("the order of this checkpoint and '" + c.id +
                                   "' is not known, because the latter's record cannot be "
                                   "read: " +
                                   c.problem);
        }
        for (auto const& c : found.denied)
            if (run_.told.insert(c.id).second)
                warnings.push_back("'" + root.at(c.id).describe(".") +
                                   "' is ignored: " + c.problem);
        return all;
    } catch (...) {
        warnings.push_back(
            "the order of this checkpoint among those of earlier runs is not known, because "
            "they cannot be listed: " +
            text_of(std::current_exception()) +
            (limit && limit->has_passed()
                 ? "; not waited for longer than " + std::to_string(longest->count()) + " ms"
                 : ""));
        return false;
    }
}
CAIRN_DECL std::uint64_t run_catalog::next_sequence(const any_store& root,
                                                    std::vector<std::string>& warnings,
                                                    cairn::activity* activity) {
    std::lock_guard const lock(m_);
    take_reads();
    bool const first = highest_ == 0;
    // Asked once in a group: each save would wait for a bucket that is away.
    bool const is_unseen = also_ && std::exchange(asks_also_, false) &&
                           !note_numbers(*also_, true, nullptr, warnings, activity, longest_);
    // Each time: other jobs may save here too.
    note_numbers(root, first, &run_.known, warnings, activity);
    highest_ = std::max(highest_, least_);
    if (is_unseen) highest_ += beyond_known;
    if (highest_ >= most_commits) throw no_higher_number(root);
    return ++highest_;
}
/// What this run saved would count as older than all others, and never be removed.
CAIRN_DECL error run_catalog::no_higher_number(const any_store& root) const {
    auto const number = [](auto const& k) {
        return k.second.record ? k.second.record->sequence : 0;
    };
    auto const at =
        std::max_element(run_.known.begin(), run_.known.end(),
                         [&](auto const& a, auto const& b) { return number(a) < number(b); });
    bool const is_there = at != run_.known.end() && number(*at) == highest_;
    auto place = is_there ? root.at(at->first) : root;
    return {errc::corrupt,
            {.file = place.describe(is_there ? metadata_name : "."),
             .expected = "a number in the order of commits below 2^62",
             .found = std::to_string(highest_) + ", which no run reaches",
             .remedy = "remove the checkpoint that has it, here or where it is uploaded to, and "
                       "start the run again"}};
}

CAIRN_DECL void run_catalog::note_warnings(std::vector<std::string> warnings) {
    std::lock_guard const lock(m_);
    for (auto& w : warnings)
        if (std::find(warnings_.begin(), warnings_.end(), w) == warnings_.end())
            warnings_.push_back(std::move(w));
}
CAIRN_DECL std::vector<std::string> run_catalog::take_warnings() {
    std::lock_guard const lock(m_);
    return std::exchange(warnings_, {});
}

CAIRN_DECL std::vector<std::string> run_catalog::retain(const any_store& root,
                                                        const std::string& own,
                                                        cairn::activity* activity) {
    if (!root.browsable()) return {};
    std::lock_guard const lock(m_);
    take_reads();
    if (keep_.keeps_all() && run_.collected && run_.left.empty()) return {};
    return detail::retain(root, keep_, run_, own, activity);
}

CAIRN_DECL void run_catalog::make_room(const any_store& root, cairn::activity* activity) {
    if (!root.browsable()) return;
    std::lock_guard const lock(m_);
    if (run_.collected) return;
    take_reads();
    auto told = run_.told;
    auto left = run_.left, uncertain = run_.uncertain;
    try {
        (void)detail::retain(root, keep_, run_, {}, activity);
    } catch (...) {  // as what it returns: it is tried again, and told, after the commit
    }
    run_.told.swap(told);
    run_.left.merge(left);
    run_.uncertain.merge(uncertain);
    run_.collected = false;
}

/// Takes the place of this save in the order of commits, before it can commit: a coordinator that
/// stops for hours in between, and commits then, must not count as newer than what the others have
/// saved without it.
CAIRN_DECL void recording_writer::take_number() {
    if (!is_coordinator_ || record_.sequence != 0) return;
    std::vector<std::string> warnings;
    record_.sequence = catalog_->next_sequence(root_, warnings, activity_.get());
    catalog_->note_warnings(std::move(warnings));  // this save may fail
    record_.committed = std::chrono::duration_cast<std::chrono::milliseconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count();
}
CAIRN_DECL completion<write_results> recording_writer::noted(const save_plan& plan,
                                                             completion<write_results> done) {
    if (!part_) return done;
    part_->plan = plan;
    auto const to = std::make_shared<completion<write_results>>(std::move(done));
    return completion<write_results>(
        [part = part_, to](std::exception_ptr e, std::optional<write_results> r) {
            if (e) return to->fail(std::move(e));
            try {
                part->results = *r;
            } catch (...) {  // no memory
                return to->fail(std::current_exception());
            }
            (*to)(std::move(*r));
        });
}

CAIRN_DECL void run_catalog::list_records(const any_store& root) noexcept {
    std::lock_guard const lock(m_);
    write_record_list(root, run_.known);
}

CAIRN_DECL void recording_writer::finish(const metadata& m, completion<commit_result> done) {
    std::vector<std::string> warnings;
    catalog_->note_save(id_, save_id_);
    if (part_) {
        part_->record = record_;
        if (part_->held) catalog_->hold(save_id_);
    }
    for (auto const& rule : catalog_->keep().rules()) {
        auto const* best = std::get_if<keep_best>(&rule);
        if (best != nullptr && record_.metrics.count(best->metric) == 0)
            warnings.push_back("checkpointer_options::keep has best(\"" + best->metric +
                               "\"), but no such metric was passed with step " +
                               std::to_string(record_.step) + " (save_notes::metrics)");
    }
    // It completes inside the call.
    auto result = await_completion<commit_result>(
        [&](auto then) { inner_.finish(m, record_, std::move(then)); });
    for (auto& w : catalog_->take_warnings()) result.warnings.push_back(std::move(w));
    for (auto& w : warnings) result.warnings.push_back(std::move(w));
    done(std::move(result));
}

CAIRN_DECL void recording_writer::sweep(save_end end, completion<sweep_result> done) {
    auto result =
        await_completion<sweep_result>([&](auto then) { inner_.sweep(end, std::move(then)); });
    if (end == save_end::committed)
        for (auto& w : catalog_->retain(root_, save_id_, activity_.get()))
            result.warnings.push_back(std::move(w));
    if (end == save_end::committed) catalog_->list_records(root_);
    if (end == save_end::uncertain) catalog_->note_left(root_.place_id(id_));
    // The save may have made the place, in which nothing is left now.
    if (end == save_end::abandoned && is_step_name(id_)) {
        try {
            root_.remove_place(id_);
        } catch (...) {
            result.warnings.push_back("the directory of a failed save may be left: " +
                                      text_of(std::current_exception()));
        }
    }
    done(std::move(result));
}

}  // namespace cairn::detail

#endif
