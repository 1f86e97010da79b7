// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_IMPL_LATEST_IPP
#define CAIRN_CATALOG_IMPL_LATEST_IPP

#include <cairn/catalog/latest.hpp>

#include <cairn/detail/damage.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/detail/exists.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/printable.hpp>
#include <cairn/storage/detail/data_names.hpp>

#include <cstdio>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

namespace cairn {
namespace detail {

CAIRN_DECL candidates::candidates(any_store root, latest_options options,
                                  std::shared_ptr<cairn::activity> activity)
    : root_(std::move(root)), options_(std::move(options)), activity_(std::move(activity)),
      left_(find_places(root_, activity_.get())) {
    name_denied();
}

/// Other directories may be beside the checkpoints, but no checkpoint may be overlooked.
CAIRN_DECL void candidates::name_denied() {
    for (auto const& c : left_.denied) {
        if (is_step_name(c.id))
            throw error(
                errc::permission_denied,
                {.file = root_.describe(c.id),
                 .expected = "access, because a checkpointer gives this name, and it may be "
                             "the newest checkpoint",
                 .found = c.problem,
                 .remedy = "make it readable, or move it out of the directory"});
        tell("'" + root_.describe(c.id) + "' is skipped: " + c.problem);
    }
}
CAIRN_DECL void candidates::tell(const std::string& text) const {
    if (options_.on_skipped)
        options_.on_skipped(text);
    else
        std::fprintf(stderr, "cairn: %s\n", terminal_text(text).c_str());
}

/// Reads a record again that could not be read, and sorts the checkpoint in: it was taken for the
/// newest while storage failed.
CAIRN_DECL void candidates::look_again(committed_checkpoint c) {
    auto place = root_.at(c.id);
    auto read = once_more_if_damaged([&] {
        return unless_removed(place, metadata_name, [&] { return read_commit_record(place); });
    });
    if (!read) return;
    c.record = std::move(*read);
    c.problem.clear();
    left_.committed.push_back(std::move(c));
    sort_by_commit(left_.committed);
}

/// Refuses checkpoints that PyTorch's ranks saved each for itself, because no group can load one.
/// @param next  The next candidate; empty: there is none.
CAIRN_DECL void candidates::refuse_newer_of_ranks(const checkpoint_id& next) {
    constexpr std::string_view of_rank_0 = "__0.metadata";
    for (auto const& at : left_.others) {
        if (!is_step_name(at.id) || (!next.empty() && !is_before_by_number(next, at.id))) continue;
        auto place = root_.at(at.id);
        if (exists(place, of_rank_0))
            throw error(errc::unsupported,
                        {.file = place.describe(of_rank_0),
                         .expected = "a checkpoint of all ranks, because it may be the newest",
                         .found = "one of PyTorch's ranks, each of which has its own metadata",
                         .remedy = "load the part of each rank by name, without a communicator, as "
                                   "'PLACE/__R.metadata', or move it out of the directory"});
    }
}

CAIRN_DECL auto candidates::next() -> std::optional<candidate> {
    while (newest() != nullptr)
        if (auto c = next_one()) return c;
    check_none_skipped();
    return {};
}
CAIRN_DECL auto candidates::next_one() -> std::optional<candidate> {
    auto& all = left_.committed;
    if (activity_) activity_->advance();
    auto c = std::move(all.back());
    all.pop_back();
    refuse_newer_of_ranks(c.id);
    current_ = c.id;
    linked_ = c.linked;
    try {
        auto place = root_.at(current_);
        examined_ = place.tag(metadata_name);
        if (!c.problem.empty()) {
            look_again(std::move(c));
            return {};
        }
        auto m = once_more_if_damaged([&] {
            return unless_removed(place, metadata_name,
                                  [&] { return read_checked_metadata(place); });
        });
        if (!m) return {};
        return candidate{current_, std::move(*m)};
    } catch (const error& e) {
        auto const why = current_problem();
        if (!why.damaged) {  // it may be whole: no older step is resumed in its place
            error_context more{.file = root_.at(current_).describe(metadata_name)};
            if (e.code() == make_error_code(errc::unsupported))
                more.remedy = "use a version of cairn that knows it, or load an older one by name";
            throw completed(e, std::move(more));
        }
        skip(why, false, verify_level::metadata);
        return {};
    }
}
CAIRN_DECL void candidates::check_none_skipped() {
    refuse_newer_of_ranks({});
    if (skipped_ == 0) return fail_if_quarantined();
    throw error(errc::corrupt,
                {.file = root_.describe(newest_),
                 .expected = "a checkpoint that is whole",
                 .found = "none of " + std::to_string(skipped_) + "; the newest: " + its_problem_,
                 .remedy = "to start anew, remove them or use another directory"});
}

/// Otherwise training would start from scratch after all its checkpoints were put aside.
CAIRN_DECL void candidates::fail_if_quarantined() {
    for (auto const& at : left_.others) {
        auto place = root_.at(at.id);
        if (activity_) activity_->advance();
        if (exists(place, quarantined_name))
            throw error(errc::corrupt,
                        {.file = place.describe(quarantined_name),
                         .expected = "a checkpoint that is whole",
                         .found = "only quarantined ones, which are damaged",
                         .remedy = "to start anew, remove them or use another directory"});
    }
}

/// @throws error that says why not
CAIRN_DECL void candidates::put_aside(bool for_all, verify_level level) {
    if (linked_)
        throw error(errc::invalid_argument,
                    {.expected = "a place of this directory", .found = "a link to another"});
    auto place = root_.at(current_);
    checkpoint_problem again;
    try {
        storage_setup alone;
        alone.activity = activity_;
        again = problem_of(place, read_checked_metadata(place), level, alone);
    } catch (...) {
        again = current_problem();
        again.in_content = true;
    }
    if (!again.damaged)
        throw error(errc::invalid_argument,
                    {.expected = "damage that the coordinator finds too",
                     .found = again ? again.text : "a whole checkpoint, when it looked again"});
    if (!again.in_content && !for_all)
        throw error(errc::invalid_argument, {.expected = "damage that all ranks find",
                                             .found = "files that other ranks find intact"});
    quarantine(place, examined_);
}

CAIRN_DECL void candidates::skip(const checkpoint_problem& why, bool for_all, verify_level level) {
    if (skipped_++ == 0) {
        newest_ = current_;
        its_problem_ = why.text;
    }
    auto text = "checkpoint '" + root_.at(current_).describe(".") + "' is skipped: " + why.text;
    if (options_.quarantine) {
        try {
            put_aside(for_all, level);
        } catch (...) {
            text += "; it was not quarantined: " + current_problem().text;
        }
    }
    tell(text);
}

CAIRN_DECL std::optional<checkpoint_id> latest(any_store root, const latest_options& options) {
    candidates all(root, options);
    while (auto const c = all.next()) {
        auto const why = problem_of(root.at(c->id), c->meta, options.verify, {});
        if (!why) return c->id;
        if (!why.damaged) std::rethrow_exception(why.error);
        all.skip(why, true, options.verify);
    }
    return {};
}

}  // namespace detail

CAIRN_DECL std::optional<checkpoint_id> latest(const std::string& directory,
                                               const latest_options& options) {
    auto const store = file_store(directory).syncing_where_it_can();
    auto id = detail::latest(any_store(store), options);
    if (id) id = store.at(*id).directory();
    return id;
}

}  // namespace cairn

#endif
