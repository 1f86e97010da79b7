// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CHECKPOINTER_IMPL_CORE_UPLOADS_IPP
#define CAIRN_CHECKPOINTER_IMPL_CORE_UPLOADS_IPP

#include <cairn/checkpointer/detail/core.hpp>

#include <cairn/checkpointer/detail/recovery.hpp>
#include <cairn/checkpointer/impl/core.ipp>
#include <cairn/comm/deadline.hpp>
#include <cairn/completion.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/detail/host_name.hpp>
#include <cairn/detail/identity.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/object_store/detail/exists.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/file_names.hpp>
#include <cairn/storage/detail/other_formats.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The coordinator writes a file, and each rank looks for it. Where that fails, any rank may have a
/// disk of its own: a run that only loads may be in a place where nothing can be written.
CAIRN_DECL void checkpointer_core::compare_disks(group& g) {
    if (!options_.upload) return;
    struct own_file {
        any_store& at;
        std::string name{};
        ~own_file() {
            try {
                if (!name.empty()) at.remove(name);
            } catch (...) {  // it is empty
            }
        }
    } file{parts_.store};
    auto mark = g.ranks.attempt([&] {
        std::string name;
        if (g.ranks.coordinator()) name = ".cairn-trial." + new_save_id();
        file.name = name;
        try {
            if (!name.empty()) parts_.store.publish(name, {}, std::nullopt);
        } catch (...) {
            name.clear();
        }
        wire_writer w;
        w.string(name);
        return w.take();
    });
    mark = g.ranks.broadcast(mark);
    throw_failures({mark});
    auto const name = g.ranks.alone([&] { return wire_reader(mark.payload).string(); });
    auto const seen = g.ranks.all_gather(g.ranks.attempt([&] {
        bool there = false;
        try {
            there = !name.empty() &&
                    changes_within_lag(parts_.store, [&] { return exists(parts_.store, name); });
        } catch (...) {  // whatever prevents it
        }
        wire_writer w;
        w.u8(there ? 1 : 0);
        w.string(host_name());
        return w.take();
    }));
    throw_failures(seen);
    g.ranks.alone([&] {
        if (name.empty()) {
            apart_warning_ = "whether all ranks see what rank " +
                             std::to_string(options_.save.coordinator) + " writes to '" +
                             parts_.store.describe(".") +
                             "' is not known, because nothing could be written there at first: "
                             "files that are missing are not noticed before a commit";
            return;
        }
        g.apart.emplace();
        std::string first;
        for (std::size_t rank = 0; rank < seen.size(); ++rank) {
            wire_reader its(seen[rank].payload);
            if (its.u8() != 0) continue;
            if (g.apart->empty()) first = its.string();
            g.apart->push_back(static_cast<int>(rank));
        }
        if (g.apart->empty()) return;
        apart_warning_ = std::to_string(g.apart->size()) + " ranks, the first of which is rank " +
                         std::to_string(g.apart->front()) + " on host '" + first +
                         "', do not see what rank " + std::to_string(options_.save.coordinator) +
                         " writes to '" + parts_.store.describe(".") +
                         "': checkpoints there cannot be loaded, and serve to upload from; if "
                         "all ranks should see it, see whether it is mounted there";
    });
}
CAIRN_DECL bool checkpointer_core::is_apart(const group& g) const {
    return g.apart && std::find(g.apart->begin(), g.apart->end(), ranks().rank()) != g.apart->end();
}

CAIRN_DECL void checkpointer_core::reopen_uploads() noexcept {
    if (!group_->uploads || open_uploads() != 0) return;
    try {
        open_uploads(*group_);
    } catch (...) {  // as the next exchange of each rank says
        group_->lane.cancel();
    }
}
CAIRN_DECL void checkpointer_core::open_uploads(group& g) {
    if (!options_.upload) return;
    auto lane = await_completion<any_communicator>([&](auto done) {
        g.lane.duplicate(deadline_after(options_.save.exchange_timeout), std::move(done));
    });
    auto options = options_.save;
    options.storage = options_.upload->storage;
    options.planner = {};
    options.replicas = replica_policy::trust;  // one rank has each item
    options.replicas_of = nullptr;
    options.detect_changes = false;
    // Each failure is taken from the upload.
    options.on_unclaimed_error = [](const std::exception_ptr&) {};
    g.uploads = std::make_shared<detail::uploads>(
        std::move(lane), g.alone,
        detail::uploads::places{parts_.store, options_.upload->to, catalog_, upload_catalog_},
        std::move(options), parts_.sinks);
}

CAIRN_DECL bool checkpointer_core::upload_due(bool asked, bool busy) {
    ++saves_since_upload_;
    if (!asked && (busy || saves_since_upload_ < options_.upload->every)) return false;
    saves_since_upload_ = 0;
    return true;
}
CAIRN_DECL uploaded_checkpoint checkpointer_core::note_upload(uploads::result u) {
    uploaded_checkpoint done{u.id, u.step, std::move(*u.report)};
    auto meta = std::exchange(done.report.meta, {});  // it may be large
    uploaded_ = done;
    done.report.meta = std::move(meta);
    return done;
}
CAIRN_DECL void checkpointer_core::settle_upload(checkpointer_call call, agreement& all) {
    auto u = ranks().alone([&] { return group_->uploads->take_oldest(); });
    if (all.answer.uploaded == earlier_save::completed) {
        failed_uploads_ = 0;
        untold_upload_ = false;
        all.uploaded = note_upload(std::move(u));
        return;
    }
    reopen_uploads();
    auto& failures = all.answer.upload_failures;
    bool const on = goes_on(call, all.answer, failures, failed_uploads_);
    ++failed_uploads_;
    untold_upload_ = on;
    if (!on) throw all_failures(call, std::move(failures));
    tolerate("upload", u.step, failures);
    for (auto& f : failures) all.tolerated.push_back(std::move(f));
}
/// A program calls save_now once, at its end, or is told to end by a signal: its current state
/// must not be lost.
CAIRN_DECL bool checkpointer_core::goes_on(checkpointer_call call, const rendezvous_answer& a,
                                           const std::vector<rank_failure>& failures,
                                           std::int64_t failed) const {
    return call == checkpointer_call::save_now || a.signals != 0 ||
           tolerates(call, failures, failed);
}
CAIRN_DECL void checkpointer_core::drop_upload() {
    if (!std::exchange(uploads_earlier_, false)) return;
    upload_ = {};
    group_->uploads->drop_newest();
    reopen_uploads();
    saves_since_upload_ = options_.upload->every;
}
CAIRN_DECL void checkpointer_core::note_local(const std::vector<std::string>& removed) noexcept {
    auto const part = std::exchange(part_, nullptr);
    try {
        if (part && may_be_apart(*group_)) {
            auto const id = place_of(saving_step_);
            for (auto& [save, files] : local_)
                files.unneeded = files.unneeded || files.place == id ||  // it was replaced
                                 std::find(removed.begin(), removed.end(), save) != removed.end();
            add_local(*part, false);
        }
        remove_unneeded();  // also what an earlier group has left
    } catch (...) {
        note_unremoved(std::current_exception());
    }
}
CAIRN_DECL void checkpointer_core::add_local(const written_part& part, bool failed) {
    if (part.plan.storage_data.empty()) return;  // it has not begun to write
    auto names = decode_file_names(part.plan.storage_data);
    if (names.empty()) return;
    auto& own = local_[part.save_id];
    own.place = place_of(saving_step_);
    own.unneeded = own.unless_whole = failed;
    own.names = std::move(names);
}
CAIRN_DECL void checkpointer_core::remove_all_local() noexcept {
    auto const part = std::exchange(part_, nullptr);
    try {
        if (part && may_be_apart(*group_)) add_local(*part, true);
        for (auto& [save, files] : local_)
            if (!files.unneeded) files.unneeded = files.unless_whole = true;
        try {
            (void)changes_within_lag(parts_.store, [&] {
                return std::all_of(local_.begin(), local_.end(),
                                   [&](auto const& own) { return has_metadata(own.second.place); });
            });
        } catch (...) {  // it fails again below, where the others are removed all the same
        }
        remove_unneeded();
    } catch (...) {
        note_unremoved(std::current_exception());
    }
}
CAIRN_DECL bool checkpointer_core::has_metadata(const checkpoint_id& id) {
    auto place = parts_.store.at(id);
    return exists(place, metadata_name);
}
/// What cannot be removed is tried again after the next save. On a disk that refuses for good, that
/// is only a few attempts each time, after those that have not been refused as often; one that does
/// not respond keeps the other ranks waiting.
CAIRN_DECL void checkpointer_core::remove_unneeded() {
    std::vector<std::map<std::string, own_files>::iterator> all;
    for (auto it = local_.begin(); it != local_.end(); ++it)
        if (it->second.unneeded) all.push_back(it);
    std::stable_sort(all.begin(), all.end(), [](auto const& a, auto const& b) {
        return a->second.failed < b->second.failed;
    });
    std::exception_ptr failure;
    auto const until = activity::clock::now() + std::chrono::seconds(10);
    int left = 8;
    for (auto const& it : all) {
        if (left == 0 || (failure && activity::clock::now() > until)) break;
        activity_->advance();
        auto& files = it->second;
        try {
            if (!files.unless_whole || !has_metadata(files.place)) {
                files.unless_whole = false;
                auto place = parts_.store.at(files.place);
                for (auto const& name : files.names) place.remove(name);
                parts_.store.remove_place(files.place);
            }
            local_.erase(it);
        } catch (...) {
            failure = std::current_exception();
            ++files.failed;
            --left;
        }
    }
    if (failure) std::rethrow_exception(failure);
}
/// The report of this rank says so: only it knows its disk. There may be no next one.
CAIRN_DECL void checkpointer_core::note_unremoved(const std::exception_ptr& why) noexcept {
    try {
        auto what = "rank " + std::to_string(ranks().rank()) +
                    " could not remove what it has written to its own disk: " + text_of(why);
        if (unreported_)
            unreported_->warnings.push_back(std::move(what));
        else
            unremoved_warning_ = std::move(what);
    } catch (...) {  // no memory: the next one says so
    }
}
CAIRN_DECL void checkpointer_core::await_uploads(
    const std::function<void(uploads&, const uploads::pulse&)>& wait) {
    if (open_uploads() == 0) return;
    while_shown("upload", [&] {
        wait(*group_->uploads, uploads::pulse{pulse(), [this] { activity_->advance(); }});
    });
}
CAIRN_DECL void checkpointer_core::finish_all() {
    finish_earlier();
    upload_ = {};  // of a save that has not begun
    // Those that join the next group wait for this rank meanwhile.
    auto const by = deadline_after(options_.save.exchange_timeout / 2);
    if (group_->uploads && !group_->uploads->finish(by)) {
        group_->uploads->cancel();
        (void)group_->uploads->finish();
    }
}
CAIRN_DECL void checkpointer_core::end_uploads(bool cancelled) {
    if (!group_->uploads) return;
    if (cancelled) group_->uploads->cancel();
    (void)group_->uploads->finish();
    while (open_uploads() != 0) {
        auto const u = group_->uploads->take_oldest();
        if (!u.saved) continue;  // the failure of its save is told
        untold_upload_ = untold_upload_ && u.failure;
        if (!u.failure) continue;
        bool asked = cancelled;
        try {
            for (auto const& f : failures_of(u.failure, ranks().rank()))
                asked = asked && f.code == make_error_code(errc::cancelled);
        } catch (...) {  // no memory: the destructor must end all the same
            asked = false;
        }
        if (!asked) report_unclaimed(options_.save.on_unclaimed_error, u.failure);
    }
}

CAIRN_DECL std::size_t checkpointer_core::tier_of(const checkpoint_id& id, std::string& unseen) {
    if (!options_.upload) return 0;
    if (latest_ && latest_->id == id) return latest_->tier;
    auto const told = ranks().answered([&] {
        // @param unknown  What to return if the second place cannot say so.
        auto const is_uploaded = [&](bool unknown) {
            try {
                auto place = options_.upload->to.at(in_tier(1, id));
                return exists(place, metadata_name);
            } catch (const error& e) {  // an id of the first place may be none of the second
                return unknown && e.code() != make_error_code(errc::invalid_argument);
            } catch (...) {
                return unknown;
            }
        };
        // One that does not name the first place.
        auto const first = parts_.store.describe("");
        auto const is_url = id.find("://") != id.npos && (first.empty() || !id.starts_with(first));
        wire_writer w;
        std::string why;
        try {
            auto place = parts_.store.at(in_tier(0, id));
            // In the first place there may also be a checkpoint of another format, for which no
            // second place that is away is needed.
            w.u8(!exists(place, metadata_name) && (is_url || is_uploaded(!other_format(place)))
                     ? 1
                     : 0);
        } catch (const error& e) {
            // A directory, or a bucket, refuses the URL of another place.
            bool const is_none = is_url && e.code() == make_error_code(errc::invalid_argument);
            if (!is_none &&
                (!tells_of_this_copy(e.as_failure(ranks().rank())) || !is_uploaded(false)))
                throw;
            w.u8(1);
            if (!is_none)
                why = "loaded from '" + options_.upload->to.describe(id) +
                      "', because the first place cannot be read: " + e.what();
        }
        w.string(why);
        return w.take();
    });
    return ranks().alone([&] {
        wire_reader r(told.payload);
        std::size_t const tier = r.u8();
        unseen = r.string();
        return tier;
    });
}

}  // namespace cairn::detail

#endif
