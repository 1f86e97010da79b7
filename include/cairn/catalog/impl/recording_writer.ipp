// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_IMPL_RECORDING_WRITER_IPP
#define CAIRN_CATALOG_IMPL_RECORDING_WRITER_IPP

#include <cairn/catalog/recording_writer.hpp>

#include <cairn/catalog/committed.hpp>
#include <cairn/detail/failures.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

namespace cairn::detail {

CAIRN_DECL void run_catalog::note_read(const checkpoint_id& id, const std::string& save_id) {
    std::lock_guard const lock(m_);
    read_[id] = save_id;
}

CAIRN_DECL void run_catalog::note_read(const checkpoint_id& id, const commit_record& record) {
    std::lock_guard const lock(m_);
    read_[id] = record.save_id;
    highest_ = std::max(highest_, record.sequence);
}

CAIRN_DECL std::uint64_t run_catalog::next_sequence(const erased_store& root,
                                                    std::vector<std::string>& warnings,
                                                    cairn::activity* activity) {
    std::lock_guard const lock(m_);
    bool const first = highest_ == 0;
    // Each time: other jobs may save here too.
    if (root.browsable()) {
        try {
            for (auto const& c : find_places(root, activity).committed) {
                if (c.record) highest_ = std::max(highest_, c.record->sequence);
                if (first && !c.problem.empty())
                    warnings.push_back("the order of this checkpoint and '" + c.id +
                                       "' is not known, because the latter's record cannot be "
                                       "read: " +
                                       c.problem);
            }
        } catch (...) {
            warnings.push_back(
                "the order of this checkpoint among those of earlier runs is not known, because "
                "they cannot be listed: " +
                text_of(std::current_exception()));
        }
    }
    return ++highest_;
}

CAIRN_DECL std::vector<std::string> run_catalog::retain(const erased_store& root,
                                                        const std::string& own,
                                                        cairn::activity* activity) {
    if (keep_.keeps_all()) return {};
    std::unique_lock lock(m_);
    auto const read = read_;
    bool const collect = !collected_;
    lock.unlock();
    auto warnings = detail::retain(root, keep_, read, own, collect, activity);
    lock.lock();
    collected_ = warnings.empty();
    return warnings;
}

CAIRN_DECL void recording_writer::finish(const metadata& m, completion<commit_result> done) {
    std::vector<std::string> warnings;
    auto record = record_;
    record.sequence = catalog_->next_sequence(root_, warnings, activity_.get());
    record.committed = std::chrono::duration_cast<std::chrono::milliseconds>(
                           std::chrono::system_clock::now().time_since_epoch())
                           .count();
    for (auto const& rule : catalog_->keep().rules()) {
        auto const* best = std::get_if<keep_best>(&rule);
        if (best != nullptr && record.metrics.count(best->metric) == 0)
            warnings.push_back("checkpointer_options::keep has best(\"" + best->metric +
                               "\"), but no such metric was passed with step " +
                               std::to_string(record.step) + " (save_notes::metrics)");
    }
    // It completes inside the call.
    auto result = await_completion<commit_result>(
        [&](auto then) { inner_.finish(m, std::move(record), std::move(then)); });
    for (auto& w : warnings) result.warnings.push_back(std::move(w));
    done(std::move(result));
}

CAIRN_DECL void recording_writer::sweep(save_end end, completion<sweep_result> done) {
    auto result =
        await_completion<sweep_result>([&](auto then) { inner_.sweep(end, std::move(then)); });
    if (end == save_end::committed)
        for (auto& w : catalog_->retain(root_, save_id_, activity_.get()))
            result.warnings.push_back(std::move(w));
    done(std::move(result));
}

}  // namespace cairn::detail

#endif
