// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_LEFTOVERS_HPP
#define CAIRN_STORAGE_DETAIL_LEFTOVERS_HPP

#include <cairn/activity.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/detail/parallel.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/detail/exists.hpp>
#include <cairn/storage/detail/checkpoint_files.hpp>
#include <cairn/storage/detail/data_file_proof.hpp>
#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/found_intent.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Removes files that no checkpoint needs any more, and nothing else; exceptions of the store
/// become warnings.
///
/// Another save may commit at any time. Therefore this first determines which saves have ended and
/// which files the others may need, and only then reads the current metadata: a save that committed
/// and ended before the first step is in that metadata; one that ends later was seen to need its
/// files.
template <ObjectStore Store>
class leftovers {
public:
    /// @param standing  The files that the current metadata names.
    /// @param activity  Advanced for each file; may be null.
    leftovers(Store& store, std::set<std::string> standing, cairn::activity* activity)
        : store_(store), standing_(std::move(standing)), activity_(activity) {}

    /// Removes the files of a checkpoint that was replaced.
    /// @return Whether nothing is left of them that a later save could still remove.
    bool remove_replaced(const std::vector<std::string>& names, const std::string& save_id) {
        return remove(names, save_id, true);
    }
    /// Removes the files planned by a save that will no longer commit.
    bool remove_planned(const std::vector<std::string>& names, const std::string& save_id) {
        return remove(names, save_id, false);
    }

    /// Removes the files that ended saves have left. Called first, because it also finds files that
    /// are still needed.
    /// @param own          The intent to skip, which was published just now: its time is the
    ///                     storage's. Empty: leftovers that only their age identifies are left for
    ///                     later.
    /// @param replaced_id  The save whose metadata was just replaced: it was published.
    void collect(const std::string& own, const std::string& replaced_id) {
        if (attempt([&] { find(own, replaced_id); })) remove_found();
    }
    /// Files that they list may appear after they were removed: a later collection looks again.
    void keep_intents() noexcept { keeps_intents_ = true; }
    /// The first half of `collect`: saves that are found to have ended can no longer publish.
    /// @throws what the store throws as it lists its objects
    void find(const std::string& own, const std::string& replaced_id) {
        find(own, replaced_id, false);
    }
    /// As `find`, but only for saves whose process has certainly ended.
    void find_ended() { find({}, {}, true); }
    /// Returns the objects in the place at the last `find`.
    const std::vector<object_info>& there() const noexcept { return there_; }
    /// Whether there is a save of which only time can show that it has ended.
    bool is_unsure() const noexcept { return unsure_; }
    /// Reads which files the metadata names, unless it has not changed since the last time.
    /// @throws error if it cannot be read
    void look_at_what_stands() {
        auto const tag = store_.tag(metadata_name);
        if (tag == standing_tag_) return;
        auto found =
            unless_removed(store_, metadata_name, [&] { return read_checkpoint_files(store_); });
        standing_ = found ? std::move(found->names) : std::set<std::string>();
        standing_tag_ = tag;
    }
    /// Whether there are data files of cairn's that nothing named at the last `find` and
    /// `look_at_what_stands`, whatever their age, beside a checkpoint or where one was removed:
    /// elsewhere another program may be copying one.
    bool has_strays() const { return had_checkpoint() && !strays(0).empty(); }
    /// Removes strays that have not changed for so long that they are presumed to be left over:
    /// PyTorch removes nothing when it saves over a checkpoint of cairn's. Called last.
    void remove_strays() {
        if (now_ == 0 || strays(now_).empty()) return;
        // The files that the current metadata has replaced are needed until that metadata is
        // durable.
        if (!attempt([&] { store_.sync(); }) || !attempt([&] { look_at_what_stands(); }) ||
            !had_checkpoint())
            return;
        std::map<std::string, std::vector<std::string>> by_id;
        for (auto& name : strays(now_)) by_id[std::string(id_in(name))].push_back(std::move(name));
        for (auto const& [id, names] : by_id)
            if (remove(names, id, false)) gone_.insert(names.begin(), names.end());
    }
    /// Ends a removal of this process, after `remove_replaced`: its intent stays as long as there
    /// are strays, because nothing else identifies them as such.
    void end_removal(const std::string& intent) {
        removed_here_ = true;
        remove_strays();
        if (!has_strays()) forget(intent);
    }
    void remove_found() {
        // The process that published the current metadata, or removed the previous one, may have
        // died before that was durable; the replaced files are needed until then.
        if (over_.empty() || !attempt([&] { store_.sync(); })) return;
        if (!attempt([&] { look_at_what_stands(); })) return;
        auto const by_id = files_by_id();
        for (auto& i : std::exchange(over_, {})) {
            if (!i.readable)  // its files can still be recognized by the id in their names
                if (auto const its = by_id.find(i.save_id); its != by_id.end())
                    i.what.names.assign(its->second.begin(), its->second.end());
            bool const planned_gone = remove_planned(i.what.names, i.save_id);
            bool const replaced_gone = remove_replaced(i.what.replaced, i.what.replaced_id);
            if (i.removes() && standing_tag_.text.empty()) remove_strays();
            bool const needed = i.removes() && has_strays() && standing_tag_.text.empty();
            if (planned_gone && replaced_gone && !i.stays && !needed && !keeps_intents_)
                forget(i.name);
        }
    }
    /// Removes an intent, after the files that it lists, and only once they are certainly removed.
    void forget(const std::string& intent) {
        if (sync()) attempt([&] { store_.remove(intent); });
    }

    /// Notes that others have removed files too: an intent is forgotten only once that is durable.
    void note_removals() noexcept { removed_ = true; }
    /// Makes the removals durable. @return Whether that succeeded.
    bool sync() {
        if (removed_ && attempt([&] { store_.sync(); })) removed_ = false;
        return !removed_;
    }
    /// @return Whether `f` returned.
    template <class F>
    bool attempt(F&& f) {
        try {
            f();
            return true;
        } catch (...) {
            warn(text_of(std::current_exception()));
            return false;
        }
    }
    /// Adds a warning, unless there are too many already or it is a repetition.
    void warn(std::string what) {
        if (std::find(warnings_.begin(), warnings_.end(), what) != warnings_.end()) return;
        if (warnings_.size() < most_warnings)
            warnings_.push_back(std::move(what));
        else
            ++unsaid_;
    }
    std::vector<std::string> take_warnings() {
        if (unsaid_ != 0)
            warnings_.push_back("and " + std::to_string(unsaid_) + " more warnings of this kind");
        return std::move(warnings_);
    }

private:
    void find(const std::string& own, const std::string& replaced_id, bool certain) {
        listed_.clear();
        there_ = store_.list();
        for (auto const& info : there_) listed_.insert(info.name);
        over_.clear();
        needed_.clear();
        named_.clear();
        gone_.clear();
        replaced_id_ = replaced_id;
        unsure_ = removed_here_ = false;
        // It was written recently.
        modification_times const times(there_);
        now_ = times.of(own);
        all_known_ = true;
        for (auto const& info : there_) {
            if (info.name == quarantined_name) all_known_ = false;
            if (!is_intent_name(info.name) || info.name == own) continue;
            if (activity_ != nullptr) activity_->advance();
            bool const looked = attempt([&] { look_at(info, replaced_id, certain, times); });
            all_known_ = all_known_ && looked;
        }
    }
    /// The data files whose names have an id, and that neither the metadata that stands nor an
    /// intent names.
    /// @param now  By the storage's clock: only those that have expired. 0: all.
    std::vector<std::string> strays(std::int64_t now) const {
        std::vector<std::string> all;
        if (!all_known_) return all;
        for (auto const& o : there_) {
            auto const id = id_in(o.name);
            if (id.empty() || !is_data_name(o.name) || id == replaced_id_) continue;
            if (gone_.count(o.name) != 0) continue;
            if (standing_.count(o.name) != 0 || named_.count(o.name) != 0) continue;
            if (now == 0 || is_expired(std::max(o.modified, o.changed), now)) all.push_back(o.name);
        }
        return all;
    }
    /// The data files whose names say which save wrote them.
    std::map<std::string_view, std::vector<std::string>> files_by_id() const {
        std::map<std::string_view, std::vector<std::string>> all;
        for (auto const& info : there_)
            if (auto const id = id_in(info.name); !id.empty() && is_data_name(info.name))
                all[id].push_back(info.name);
        return all;
    }
    bool had_checkpoint() const { return !standing_tag_.text.empty() || removed_here_; }
    /// Records whether an intent's save has ended, or which files it may still need.
    void look_at(const object_info& info, const std::string& replaced_id, bool certain,
                 const modification_times& times) {
        auto i = read_intent(store_, info);
        if (!i) return;
        named_.insert(i->what.names.begin(), i->what.names.end());
        named_.insert(i->what.replaced.begin(), i->what.replaced.end());
        if (!i->readable) all_known_ = false;
        if (i->newer) return;
        i->judge_age(times, now_);
        bool const sure = i->ended || i->save_id == replaced_id;
        unsure_ = unsure_ || (i->readable && !sure && !i->own_process);
        // Adopted even if its process has certainly ended: after it has changed a place itself, a
        // host sees the current names there (NFS).
        bool const over = certain ? i->ended : sure || i->over();
        if (i->readable ? over && is_adopted(*i) : !certain) {
            removed_here_ = removed_here_ || i->removes();
            over_.push_back(std::move(*i));
        } else
            needed_.insert(i->what.names.begin(), i->what.names.end());
    }
    /// A full disk must not prevent the removal of files that fill it: if an intent cannot be
    /// replaced, the files of a save that has certainly ended are removed nevertheless, and the
    /// intent stays for later.
    bool is_adopted(found_intent& i) {
        try {
            return adopt(store_, i);
        } catch (const error& e) {
            if (e.code() != make_error_code(errc::io) || !i.ended) throw;
            warn(std::string("an intent stays for now, because it cannot be replaced: ") +
                 e.what());
            return i.stays = true;
        }
    }

    /// The outcome of the removal of one file, and a warning about it, if any.
    struct removal {
        bool touched = false;  ///< It may have been removed, by this process or another.
        std::string warning{};
        std::exception_ptr failure{};
    };
    bool remove(const std::vector<std::string>& names, const std::string& save_id,
                bool must_be_its_own) {
        bool gone = true;
        std::vector<const std::string*> due;
        for (auto const& name : names) {
            if (standing_.count(name) != 0) continue;
            if (needed_.count(name) != 0)
                gone = false;
            else
                due.push_back(&name);
        }
        std::vector<removal> all(due.size());
        std::atomic<std::size_t> next{0};
        std::atomic<bool> is_away{false};  // a storage that fails each time after a minute, perhaps
        auto const most = std::min(requests_in_flight_of(store_), due.size());
        in_parallel(static_cast<unsigned>(most), [&] {
            using clock = std::chrono::steady_clock;
            for (auto i = next++; i < due.size() && !is_away; i = next++) {
                if (activity_ != nullptr) activity_->advance();
                auto const began = clock::now();
                try {
                    remove_one(*due[i], save_id, must_be_its_own, all[i]);
                } catch (...) {
                    all[i].failure = std::current_exception();
                    if (most > 1 && clock::now() - began > std::chrono::seconds(10)) is_away = true;
                }
            }
        });
        for (auto& one : all) {
            gone = gone && !one.failure;  // what was not tried, comes after a failure
            removed_ = removed_ || one.touched;
            if (one.failure) warn(text_of(one.failure));
            if (!one.warning.empty()) warn(std::move(one.warning));
        }
        return gone;
    }
    void remove_one(const std::string& name, const std::string& save_id, bool must_be_its_own,
                    removal& one) {
        // Before the proof, which is one of this version. PyTorch gives such names again.
        bool const has_id = !id_in(name).empty();
        auto const version = has_id || !is_data_name(name) ? object_tag() : store_.tag(name);
        auto whose_it_is = ownership::proven;
        try {
            whose_it_is = whose(store_, name, save_id);
        } catch (const error& e) {
            // Storage may have lost the content of a file whose name still shows whose it is.
            if (e.code() != make_error_code(errc::io) || id_in(name) != save_id) throw;
            one.warning = std::string("removed by its name alone: ") + e.what();
        }
        // The process that removed it may not have made that durable; `sync` covers only the
        // directory of the place.
        one.touched = whose_it_is == ownership::proven || whose_it_is == ownership::absent;
        // What is listed and cannot be opened has never been finished.
        bool const has_rest = name.find('/') != name.npos || listed_.count(name) != 0;
        if (whose_it_is == ownership::proven || (whose_it_is == ownership::absent && has_rest)) {
            try {
                if (has_id)
                    store_.remove(name);
                else
                    remove_version(store_, name, version);
            } catch (const error& e) {
                if (e.code() != make_error_code(errc::unsupported)) throw;
                one.warning = e.what();  // a link, which will never be removed
            }
        } else if (whose_it_is == ownership::absent && has_id && !must_be_its_own) {
            end_uploads(store_, name);  // which a bucket may have, and not list
        } else if (whose_it_is == ownership::unproven ||
                   (must_be_its_own && !has_id)) {  // otherwise a stray
            one.warning = "'" + store_.describe(name) +
                          "' stays: nothing shows that it is a data file of the checkpoint or save "
                          "that named it; remove it by hand if it is not needed";
        }
    }

    static constexpr std::size_t most_warnings = 64;
    Store& store_;
    std::set<std::string> standing_;
    object_tag standing_tag_{};  ///< Of the metadata that names them, if that was read.
    cairn::activity* activity_;
    std::vector<object_info> there_{};     ///< In the place, when `find` looked.
    std::set<std::string_view> listed_{};  ///< Their names.
    std::vector<found_intent> over_{};
    std::set<std::string> needed_{};  ///< By saves that may still commit.
    std::set<std::string> named_{};   ///< By any intent.
    std::set<std::string> gone_{};    ///< Strays that were removed.
    std::string replaced_id_{};       ///< Its files are removed anyway.
    std::int64_t now_ = 0;            ///< By the storage's clock; 0: not known.
    bool all_known_ = false;          ///< Whether all that is named there is known.
    std::vector<std::string> warnings_{};
    std::size_t unsaid_ = 0;
    bool removed_ = false;  ///< And not synced since.
    bool keeps_intents_ = false;
    bool unsure_ = false;
    bool removed_here_ = false;  ///< An intent shows that a checkpoint was removed.
};

}  // namespace cairn::detail

#endif
