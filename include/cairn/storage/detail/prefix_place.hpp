// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_PREFIX_PLACE_HPP
#define CAIRN_STORAGE_DETAIL_PREFIX_PLACE_HPP

#include <cairn/activity.hpp>
#include <cairn/detail/damage.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/detail/exists.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/found_intent.hpp>
#include <cairn/storage/detail/own_intent.hpp>
#include <cairn/storage/detail/record_owner.hpp>
#include <cairn/storage/detail/save_intent.hpp>
#include <cairn/storage/detail/target_place.hpp>
#include <cairn/storage/file_adder.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

/// What a format says about directories of its files.
struct target_format {
    std::string_view index{};  ///< Names the files; is written last. Empty: there is none.
    std::function<std::string(any_store&)> recorded_save{};          ///< In the index.
    std::function<std::set<std::string>(any_store&)> named_files{};  ///< By the index.
    std::function<bool(std::string_view)> is_target_name{};
};

/// A target in a store that cannot rename, e.g. in a bucket. Its files are written where they stay.
/// If it is one file, this exists when its upload is complete. If there are several, or if another
/// target is replaced, they have names with the save id, and the index is published last, on the
/// condition that it is still the one that was there. Beside it, `.NAME.saving/` has
///
///     .saving.<save id>   who is writing, the files, and those that are replaced (save_intent)
///     <save id>/          what the ranks need meanwhile; its age is a sign of life
class prefix_place final : public target_place {
public:
    prefix_place(const any_store& base, checkpoint_id id, const std::string& save_id, bool is_file,
                 target_format f)
        : target_(target_of(base, std::move(id))), format_(std::move(f)), save_id_(save_id),
          is_file_(is_file), intents_(target_.in.at(beside())),
          hidden_(target_.in.at(beside() + "/" + save_id)),
          fresh_(is_file ? target_.in : target_.in.at(target_.name)) {}

    any_store& hidden() noexcept override { return hidden_; }
    any_store& fresh() noexcept override { return fresh_; }
    const std::string& name() const noexcept override { return target_.name; }
    any_store target() override { return fresh_; }
    void sync() override { fresh_.sync(); }

    void take(bool overwrite, cairn::activity* activity) override {
        if (is_file_) return take_file();
        if (exists(target_.in, target_.name))
            throw taken("nothing, or a directory", "a file", "choose another name, or remove it");
        index_tag_ = fresh_.tag(format_.index);
        auto there = existing();
        for (auto const& info : there)
            if (info.name == metadata_name || is_intent_name(info.name))
                throw taken("no checkpoint of another format", "'" + info.name + "'",
                            "choose another name, or remove the checkpoint");
        if (!overwrite && !there.empty()) {  // what killed exports have left does not count
            publish_intent({});
            remove_ended(activity);
            there = existing();
        }
        if (!overwrite && !there.empty())
            throw taken("nothing here, because overwrite is off", "'" + there.front().name + "'",
                        "choose another checkpoint id, or allow overwriting");
        auto old = index_tag_.text.empty() ? std::set<std::string>() : named_files();
        for (auto const& info : there)
            if (format_.is_target_name(info.name)) old.insert(info.name);
        if (!index_tag_.text.empty()) add_unremoved(old);
        // An index may name anything.
        for (auto const& name : old)
            if (is_weight(name)) replaced_.push_back(name);
    }
    bool needs_unique_names(std::size_t files) const override {
        return !is_file_ && (files > 1 || !replaced_.empty() || !index_tag_.text.empty());
    }
    void announce(const std::vector<std::string>& files, cairn::activity* activity) override {
        unique_ = std::all_of(files.begin(), files.end(),
                              [this](const std::string& n) { return n.find(save_id_) != n.npos; });
        // Not between the last look at the intent and the commit.
        if (unique_) fresh_.prepare_publish(format_.index);
        publish_intent(files);
        remove_ended(activity);
    }
    bool in_order() const noexcept override { return true; }
    bool shows_life() const noexcept override { return false; }
    bool owns_files() const noexcept override { return unique_; }
    /// It replaces what is there only once this export is about to exist.
    void put(std::string_view name, std::uint64_t size, const file_adder::read_piece& read,
             bool) override {
        check_added(fresh_, name, true);
        auto const most = file_adder::most_in_memory;
        std::uint64_t held = 0;
        for (auto const& [other, bytes] : small_) held += other == name ? 0 : bytes.size();
        if (name != format_.index && (held > most || size > most - held))
            throw error(errc::unsupported,
                        {.file = fresh_.describe(name),
                         .expected = "files beside the weights of at most " + std::to_string(most) +
                                     " bytes together, which stay in memory until these exist",
                         .found = "one of " + std::to_string(size) + " more",
                         .remedy = "add it to the export when that is complete"});
        byte_vector bytes(static_cast<std::size_t>(size));
        read(0, bytes);
        small_.insert_or_assign(std::string(name), std::move(bytes));
    }
    /// What is there stays there.
    void keep(const std::function<bool(std::string_view)>&, cairn::activity*) override {}
    void complete(const std::string& file, std::uint64_t size,
                  const std::function<void()>& finish) override {
        if (unique_) return settled(finish);
        // Before files beside it replace those of another export. Some servers look at this only
        // when an upload begins.
        if (exists(fresh_, file))
            throw taken("nothing, as when this save began", "another export",
                        "choose another name, or remove it first");
        settled([this] { put_small(); });
        file_ = file;
        size_ = size;
        tried_ = true;
        try {
            finish();
        } catch (const error& e) {
            if (e.code() == make_error_code(errc::already_exists)) tried_ = false;  // another's
            throw;
        }
        committed_ = true;
    }
    void commit(const std::string&) override {
        if (unique_) {
            settled([this] { put_small(); });
            fresh_.publish(format_.index, small_.at(std::string(format_.index)), index_tag_,
                           [this] {
                               own_.expect_mine(intents_);
                               tried_ = true;
                           });
        }
        fresh_.sync();
        committed_ = true;
    }
    /// @throws error errc::outcome_unknown for a file that may be this export's or another's
    bool committed() override {
        if (!tried_ || committed_) return committed_;
        if (unique_) return committed_ = format_.recorded_save(fresh_) == save_id_;
        auto const size = if_there([&] { return fresh_.open(file_).size(); });
        if (size != size_) return false;
        throw error(errc::outcome_unknown, {.file = fresh_.describe(file_),
                                            .expected = "a file that this save has completed",
                                            .found = "one that another may have",
                                            .remedy = "load it to find out"});
    }

    std::vector<std::string> remove() override {
        bool all_gone = false;
        attempt([&] {
            if (committed_)
                for (auto const& name : replaced_)
                    if (small_.count(name) == 0) fresh_.remove(name);
            if (!committed_) remove_small();
            all_gone = true;
        });
        attempt([&] {
            if (own_.name().empty()) return;
            remove_all(hidden_);
            // Otherwise the next one does.
            if (all_gone && own_.is_mine(intents_)) intents_.remove(own_.name());
        });
        return take_warnings();
    }
    std::vector<std::string> clear() override {
        attempt([&] {
            if (!own_.name().empty()) remove_all(hidden_);
        });
        return take_warnings();
    }
    std::vector<std::string> take_warnings() override {
        for (auto* s : {&target_.in, &intents_, &hidden_, &fresh_})
            for (auto& w : s->take_warnings()) warnings_.push_back(std::move(w));
        return std::exchange(warnings_, {});
    }

private:
    std::string beside() const { return "." + target_.name + ".saving"; }
    error taken(std::string expected, std::string found, std::string remedy) {
        return error(errc::already_exists, {.file = target_.in.describe(target_.name),
                                            .expected = std::move(expected),
                                            .found = std::move(found),
                                            .remedy = std::move(remedy)});
    }
    void take_file() {
        if (exists(target_.in, target_.name))
            throw taken("nothing, because this store cannot replace a file in one step", "a file",
                        "choose another name, or remove it first");
        if (!target_.in.at(target_.name).list().empty())
            throw taken("nothing, or a file", "a directory", "choose another name, or remove it");
    }
    /// What a damaged index names stays.
    std::set<std::string> named_files() {
        try {
            return format_.named_files(fresh_);
        } catch (const error& e) {
            if (!is_damage(e.code())) throw;
            warnings_.push_back(std::string("files of the replaced export stay: ") + e.what());
            return {};
        }
    }
    /// What the export that is replaced has replaced, and has not removed yet: once its index is
    /// gone, nothing shows that it has committed.
    void add_unremoved(std::set<std::string>& old) {
        attempt([&] {
            auto const intent = intent_name(format_.recorded_save(fresh_));
            for (auto const& info : intents_.list()) {
                if (info.name != intent) continue;
                if (auto const of = read_intent(intents_, info))
                    old.insert(of->what.replaced.begin(), of->what.replaced.end());
            }
        });
    }
    /// Without uploads that were not completed, which are listed with a size of 0.
    std::vector<object_info> existing() {
        auto all = fresh_.list();
        std::erase_if(all, [&](const object_info& info) {
            return info.size == 0 && !exists(fresh_, info.name);
        });
        return all;
    }
    void publish_intent(const std::vector<std::string>& files) {
        save_intent intent;
        intent.save_id = save_id_;
        intent.began = save_intent::now();
        intent.owner = record_owner::this_one();
        intent.names = files;
        intent.replaced = replaced_;
        own_.publish(intents_, intent);
    }
    /// The last step before the one that makes the export exist.
    /// @throws error errc::concurrent_save if that must not happen: another export has committed,
    /// or has presumed this one dead
    void put_small() {
        if (!is_file_ && fresh_.tag(format_.index) != index_tag_)
            throw error(errc::concurrent_save, {.file = fresh_.describe(format_.index),
                                                .expected = "what was here when this save began",
                                                .found = "something else",
                                                .remedy = "another job writes to the same place"});
        own_.expect_mine(intents_);
        for (auto const& [name, bytes] : small_) {
            if (name == format_.index) continue;
            if (fresh_.tag(name).text.empty()) added_.push_back(name);
            fresh_.publish(name, bytes, std::nullopt);
        }
        if (!unique_) own_.expect_mine(intents_);  // otherwise the index is published after a look
    }
    /// Of an export that has failed at the last moment. Those that it has replaced stay, and so do
    /// all where another one writes, or has committed.
    void remove_small() {
        if (added_.empty() || fresh_.tag(format_.index) != index_tag_) return;
        for (auto const& info : intents_.list())
            if (is_intent_name(info.name) && info.name != own_.name()) return;
        for (auto const& name : added_) {
            auto const tag = fresh_.tag(name);
            auto const there = read_existing(fresh_, name);
            if (there && *there == small_.at(name)) fresh_.remove(name, tag);
        }
    }
    static void remove_all(any_store& place) {
        for (auto const& info : place.list()) place.remove(info.name);
    }

    /// Removes what exports to this target have left that have ended.
    void remove_ended(cairn::activity* activity) {
        // Of exports that were killed as they tried the conditions of a bucket, long ago: whatever
        // else they have left may be gone.
        attempt([&] {
            intents_.remove_trials();
            if (!is_file_) fresh_.remove_trials();
        });
        attempt([&] {
            auto const there = intents_.list();
            auto const now = modification_times(there).of(own_.name());
            // A bucket ends those uploads that were listed.
            std::vector<object_info> files;
            std::optional<modification_times> times;
            std::vector<found_intent> ended;
            for (auto const& info : there) {
                if (!is_intent_name(info.name) || info.name == own_.name()) continue;
                if (activity != nullptr) activity->advance();
                attempt([&] {
                    auto found = read_intent(intents_, info);
                    if (!found || found->newer) return;
                    auto last = info.modified;
                    for (auto const& s : sides_of(*found).list()) last = std::max(last, s.modified);
                    if (!times) times.emplace(files = fresh_.list());
                    for (auto const& n : found->what.names) last = std::max(last, times->of(n));
                    found->expired = !found->own_process && is_expired(last, now);
                    if (found->over()) ended.push_back(std::move(*found));
                });
            }
            if (ended.empty()) return;
            // Looked for after the uploads: each is of an export whose intent was there before it.
            bool const none_runs = std::ranges::all_of(intents_.list(), [&](auto const& info) {
                return !is_intent_name(info.name) || info.name == own_.name() ||
                       std::ranges::any_of(ended, [&](auto& e) { return e.name == info.name; });
            });
            for (auto& of : ended)
                attempt([&] {
                    bool const all_own = std::ranges::all_of(
                        of.what.names, [&](auto& name) { return is_own(of, name); });
                    if (!none_runs && !all_own) return;
                    // Its owner, if that runs nevertheless, then commits nothing.
                    if (!adopt(intents_, of)) return;
                    remove_left(of);
                });
        });
    }
    any_store sides_of(const found_intent& of) const {
        return target_.in.at(beside() + "/" + of.save_id);
    }
    /// Whether a name is certainly of one export's file: it has the save id.
    static bool is_own(const found_intent& of, const std::string& name) {
        return is_object_name(name) && name.find(of.save_id) != name.npos;
    }
    void remove_left(const found_intent& of) {
        std::set<std::string> named;
        if (!is_file_ && exists(fresh_, format_.index)) {
            named = format_.named_files(fresh_);
            // If it was killed between its commit and its removals.
            if (format_.recorded_save(fresh_) == of.what.save_id)
                for (auto const& name : of.what.replaced)
                    if (is_weight(name) && named.count(name) == 0) fresh_.remove(name);
        }
        for (auto const& name : of.what.names) {
            if (!is_own(of, name)) {
                // An object of that name may be of any export.
                if (is_object_name(name)) fresh_.end_uploads(name);
            } else if (named.count(name) == 0) {
                fresh_.end_uploads(name);
                fresh_.remove(name);
            }
        }
        auto sides = sides_of(of);
        remove_all(sides);
        intents_.remove(of.name);
    }

    /// Whether a file has a name that the format gives to weights, with or without a save id.
    bool is_weight(const std::string& name) const {
        return name != format_.index && format_.is_target_name(without_save_id(name));
    }

    target_name target_;
    target_format format_;
    std::string save_id_;
    bool is_file_;
    any_store intents_, hidden_, fresh_;
    object_tag index_tag_{};  ///< Of the index that is replaced.
    std::vector<std::string> replaced_{};
    std::map<std::string, byte_vector, std::less<>> small_{};  ///< The index, too.
    std::vector<std::string> added_{};  ///< Of these: those that are there because of this export.
    own_intent own_{};
    std::string file_{};
    std::uint64_t size_ = 0;
    bool unique_ = false, tried_ = false, committed_ = false;
};

}  // namespace cairn::detail

#endif
