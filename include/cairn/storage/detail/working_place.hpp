// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_WORKING_PLACE_HPP
#define CAIRN_STORAGE_DETAIL_WORKING_PLACE_HPP

#include <cairn/activity.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/ended_places.hpp>
#include <cairn/storage/detail/record_owner.hpp>
#include <cairn/storage/detail/save_intent.hpp>
#include <cairn/storage/detail/target_place.hpp>
#include <cairn/storage/file_adder.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

/// A target in a store that can rename: until all of it appears in one step, it is written in a
/// hidden place beside it, `.NAME.saving-<save id>`, with
///
///     .saving.<save id>   who is writing it (save_intent)
///     new/                what will be the target, or the file that will be
///
/// and whatever else the ranks need. After the commit `new/` is what was replaced. A place whose
/// writer has ended is renamed before it is removed, so that the writer, if it runs nevertheless,
/// cannot commit what is left of it.
class working_place final : public target_place {
public:
    /// @param id  Of the target, whose last part is its name.
    /// @throws error errc::invalid_argument if it has no name, or one that is too long for its
    /// place, which `remove_working_place` renames
    working_place(const any_store& base, checkpoint_id id, const std::string& save_id, bool is_file)
        : target_(target_of(base, std::move(id))), save_id_(save_id), is_file_(is_file),
          hidden_name_(working_name(target_.name, save_id)), hidden_(target_.in.at(hidden_name_)),
          fresh_(target_.in.at(hidden_name_ + "/" + std::string(fresh_name))) {
        auto const added = hidden_name_.size() - target_.name.size() + over_suffix.size();
        if (target_.name.size() + added > most_name_bytes)
            throw error(errc::invalid_argument,
                        {.file = describe_target(),
                         .expected = "a name of at most " +
                                     std::to_string(most_name_bytes - added) + " bytes",
                         .found = std::to_string(target_.name.size()),
                         .remedy = "choose a shorter name: while it is being written, a longer one "
                                   "stands beside it"});
    }

    any_store& hidden() noexcept override { return hidden_; }
    /// The place that will be the target; of a file, the place of that file.
    any_store& fresh() noexcept override { return fresh_; }
    const std::string& name() const noexcept override { return target_.name; }
    std::string describe_target() { return target_.in.describe(target_.name); }

    /// Checks that the target may be replaced, makes the place, and removes those of saves that
    /// have ended. The coordinator calls it, as all that follow.
    void take(bool overwrite, cairn::activity* activity) override {
        before_ = look();
        if (before_.kind != name_kind::none && !overwrite)
            throw error(errc::already_exists,
                        {.file = describe_target(),
                         .expected = "nothing here, because overwrite is off",
                         .remedy = "choose another checkpoint id, or allow overwriting"});
        save_intent intent;
        intent.save_id = save_id_;
        intent.began = save_intent::now();
        intent.owner = record_owner::this_one();
        taken_ = true;
        hidden_.publish(intent_name(save_id_), intent.encode(), std::nullopt);
        if (before_.kind != name_kind::none) {
            // Who may not read what is replaced may not read what is written here, either; and
            // nobody else may write here, whoever may write there.
            attempt([&] { target_.in.adopt_permissions(target_.name, hidden_name_, true); });
            try_exchange();
        }
        remove_ended(activity);
    }
    bool needs_unique_names(std::size_t) const override { return false; }
    void announce(const std::vector<std::string>&, cairn::activity*) override {}
    bool in_order() const noexcept override { return false; }
    bool shows_life() const noexcept override { return true; }
    bool owns_files() const noexcept override { return true; }
    void put(std::string_view name, std::uint64_t size, const file_adder::read_piece& read,
             bool sync) override {
        check_added(fresh_, name, false);
        constexpr std::uint64_t piece = std::uint64_t{8} << 20;
        auto out = fresh_.create(name, size, sync);
        byte_vector b(static_cast<std::size_t>(std::min(size, piece)));
        for (std::uint64_t at = 0; at < size; at += b.size()) {
            b.resize(static_cast<std::size_t>(std::min(size - at, piece)));
            read(at, b);
            out.write(at, b);
        }
        out.finish(sync);
    }
    void complete(const std::string&, std::uint64_t, const std::function<void()>& finish) override {
        finish();
    }
    /// Copies objects of the directory that is replaced into the new one; `commit` does that again
    /// for those that others have made or changed since, e.g. a log.
    /// @param is_kept  Whether an object stays; one that is in the new place already does not.
    void keep(const std::function<bool(std::string_view)>& is_kept,
              cairn::activity* activity) override {
        if (is_file_) return;
        is_kept_ = is_kept;
        activity_ = activity;
        for (auto const& info : fresh_.list()) written_.insert(info.name);
        (void)copy_kept(before_, false);
    }

    /// Puts the new place where the target is, durably.
    /// @param marker  An object of the new place, by which `committed` recognizes it.
    /// @throws error errc::concurrent_save if what it replaces is no longer what `take` found
    void commit(const std::string& marker) override {
        auto now = look();
        marker_ = marker;
        for (int again = 8; again != 0; --again) {  // it may change all the time
            check_same(now);
            bool const changed = copy_kept(now, again == 1);
            if (!changed && marker_tag_) break;
            adopt_permissions(now);
            marker_tag_ = fresh_.tag(marker);
            fresh_.sync();
            if (again != 1) now = look();
        }
        auto const from = hidden_name_ + "/" + std::string(fresh_name) +
                          (is_file_ ? "/" + target_.name : std::string());
        tried_ = true;
        if (now.kind == name_kind::none)
            target_.in.move(from, target_.name);
        else
            exchange(from, now);
        sync();
        if (now.kind == name_kind::place) attempt([&] { warn_of_changes(now); });
    }
    /// Whether `commit` has done it, although it threw.
    bool committed() override {
        if (!tried_) return false;
        auto at = is_file_ ? target_.in : target_.in.at(target_.name);
        if (at.tag(marker_) != marker_tag_) return false;
        sync();
        return true;
    }
    any_store target() override { return target_.in.at(target_.name); }
    void sync() override {
        target_.in.sync();
        hidden_.sync();
    }

    /// Removes the hidden place, with what was replaced. @return Warnings.
    std::vector<std::string> remove() override {
        attempt([&] {
            if (taken_) remove_working_place(target_.in, hidden_name_);
        });
        return take_warnings();
    }
    /// Removes what is there, but not what says whose the place is: others may still write.
    std::vector<std::string> clear() override {
        attempt([&] {
            if (!taken_) return;
            target_.in.remove_tree(hidden_name_ + "/" + std::string(fresh_name));
            for (auto const& info : hidden_.list())
                if (!is_intent_name(info.name)) hidden_.remove(info.name);
        });
        return take_warnings();
    }
    std::vector<std::string> take_warnings() override {
        for (auto* s : {&target_.in, &hidden_, &fresh_})
            for (auto& w : s->take_warnings()) warnings_.push_back(std::move(w));
        return std::exchange(warnings_, {});
    }

private:
    static constexpr std::size_t most_name_bytes = 255;  ///< Of file systems.

    struct found_target {
        name_kind kind = name_kind::none;
        object_tag tag{};                    ///< Of a file.
        std::vector<object_info> objects{};  ///< Of a directory.
        friend bool operator==(const found_target&, const found_target&) = default;
    };

    found_target look() {
        found_target found{target_.in.kind_of(target_.name)};
        auto const refuse = [&](std::string expected, std::string what, std::string remedy) {
            throw error(errc::already_exists, {.file = describe_target(),
                                               .expected = std::move(expected),
                                               .found = std::move(what),
                                               .remedy = std::move(remedy)});
        };
        if (found.kind == name_kind::none) return found;
        if (found.kind == name_kind::mount)
            refuse("a name that can be given to something else", "a mount point",
                   is_file_ ? "choose another name" : "name a directory below it");
        auto const usual = is_file_ ? name_kind::object : name_kind::place;
        if (found.kind != usual)
            refuse(is_file_ ? "nothing, or a file" : "nothing, or a directory",
                   found.kind == name_kind::place    ? "a directory"
                   : found.kind == name_kind::object ? "a file"
                                                     : "a link, or something else",
                   "choose another name, or remove it");
        if (is_file_) {
            found.tag = target_.in.tag(target_.name);
            return found;
        }
        auto there = target_.in.at(target_.name);
        found.objects = there.list();
        for (auto const& info : found.objects)
            if (info.name == metadata_name || is_intent_name(info.name))
                refuse("no checkpoint of another format", "'" + info.name + "'",
                       "choose another name, or remove the checkpoint");
        std::vector<std::string> below = there.hidden_places();
        for (auto& p : there.places()) below.push_back(std::move(p));
        for (auto& name : there.others()) below.push_back(std::move(name));
        if (!below.empty())
            refuse("a directory of files, because it is replaced as a whole",
                   "'" + below[0] + "' in it, a directory, or a link that leads to no file",
                   "choose another name, or move that elsewhere");
        return found;
    }

    /// Finds out before anything is written whether the storage can do it.
    void try_exchange() {
        auto const within = [&](std::string_view name) {
            return hidden_name_ + "/" + std::string(name);
        };
        hidden_.publish(".a", {}, std::nullopt);
        hidden_.publish(".b", {}, std::nullopt);
        target_.in.exchange(within(".a"), within(".b"));
        hidden_.remove(".a");
        hidden_.remove(".b");
    }

    /// Undoes it if others have replaced the target since `now`: theirs is committed.
    void exchange(const std::string& from, const found_target& now) {
        target_.in.exchange(from, target_.name);
        bool others = false;
        attempt([&] {
            // What is gone may be a relative link, which leads nowhere from here.
            auto const is_new = [&](auto const& o) {
                return !is_copied(o) && std::ranges::find(now.objects, o) == now.objects.end();
            };
            others = is_file_ ? fresh_.tag(target_.name) != now.tag
                              : std::ranges::any_of(fresh_.list(), is_new);
        });
        if (!others) return;
        target_.in.exchange(from, target_.name);
        attempt([&] { sync(); });
        throw replaced();
    }

    bool is_kept(const object_info& o) const { return is_kept_ && is_kept_(o.name); }
    bool is_copied(const object_info& o) const { return is_kept(o) && !written_.contains(o.name); }
    /// Whether what is replaced is the same, whatever is kept.
    bool is_same(found_target a, found_target b) const {
        for (auto* all : {&a, &b})
            std::erase_if(all->objects, [this](auto const& o) { return is_copied(o); });
        return a == b;
    }
    error replaced() {
        return error(errc::concurrent_save, {.file = describe_target(),
                                             .expected = "what was here when this save began",
                                             .found = "something else",
                                             .remedy = "another job writes to the same place"});
    }
    /// @throws error errc::concurrent_save
    void check_same(const found_target& now) {
        if (!is_same(now, before_)) throw replaced();
    }
    /// Makes the copies of kept objects those of `now`. @return whether they were others
    /// @param last  An object that becomes shorter meanwhile is an error.
    bool copy_kept(const found_target& now, bool last) {
        auto before = std::exchange(copied_, {});
        bool changed = false;
        for (auto const& info : now.objects) {
            if (!is_copied(info)) continue;
            copied_.push_back(info);
            if (std::erase(before, info) != 0) continue;
            changed = true;
            auto old = target_.in.at(target_.name);
            fresh_.remove(info.name);
            adopted_.erase("/" + info.name);
            try {
                copy(old, info.name);
            } catch (const error& e) {
                bool const shorter = e.code() == make_error_code(errc::corrupt) && !last;
                if (!shorter && e.code() != make_error_code(errc::not_found)) throw;
                fresh_.remove(info.name);
                copied_.pop_back();  // the next look finds what it is then
            }
        }
        for (auto const& info : before) {
            auto const same = [&](auto const& o) { return o.name == info.name; };
            if (std::any_of(copied_.begin(), copied_.end(), same)) continue;
            changed = true;
            fresh_.remove(info.name);
        }
        return changed;
    }
    /// Gives what is new the permissions of what it replaces: a file those of the one that has its
    /// name, or else, as a weight, of another one. The directory first: what fails later leaves
    /// nothing open to others.
    void adopt_permissions(const found_target& now) {
        if (now.kind == name_kind::none) return;
        auto const fresh = hidden_name_ + "/" + std::string(fresh_name);
        auto const adopt = [&](const std::string& from, const std::string& to) {
            if (adopted_.insert(to).second)
                attempt(
                    [&] { target_.in.adopt_permissions(target_.name + from, fresh + to, false); });
        };
        if (is_file_) return adopt("", "/" + target_.name);
        adopt("", "");
        auto const& old = now.objects;
        for (auto const& info : fresh_.list()) {
            auto from = std::find_if(old.begin(), old.end(),
                                     [&](auto const& o) { return o.name == info.name; });
            if (from == old.end() && !is_kept(info))
                from = std::find_if(old.begin(), old.end(),
                                    [&](auto const& o) { return !is_kept(o); });
            if (from != old.end()) adopt("/" + from->name, "/" + info.name);
        }
    }
    /// Compares what was replaced with what the last look found.
    void warn_of_changes(const found_target& now) {
        std::string names;
        for (auto const& info : fresh_.list()) {
            auto const& seen = is_copied(info) ? copied_ : now.objects;
            if (std::find(seen.begin(), seen.end(), info) != seen.end()) continue;
            names += (names.empty() ? "'" : ", '") + info.name + "'";
        }
        if (!names.empty())
            warnings_.push_back("in '" + describe_target() + "', others have written to " + names +
                                " just when it was replaced: what they wrote last may be missing");
    }
    void copy(any_store& from, const std::string& name) {
        auto in = from.open(name);
        put(
            name, in.size(),
            [&](std::uint64_t at, std::span<std::byte> into) {
                in.read(at, into);
                if (activity_ != nullptr) activity_->advance();
            },
            true);
    }

    /// Removes places of saves to this target that have ended.
    void remove_ended(cairn::activity* activity) {
        std::vector<found_place> all;
        std::int64_t now = 0;
        attempt([&] {
            all = working_places(target_.in);
            now = modification_times(hidden_.list()).of(intent_name(save_id_));
        });
        for (auto& place : all) {
            if (place.target != target_.name || place.name == hidden_name_) continue;
            if (activity != nullptr) activity->advance();
            attempt([&] {
                judge(target_.in, place, now);
                if (place.over) remove_working_place(target_.in, place.name);
            });
        }
    }

    target_name target_;
    std::string save_id_;
    bool is_file_;
    std::string hidden_name_;
    any_store hidden_, fresh_;
    found_target before_{};
    std::string marker_{};
    std::optional<object_tag> marker_tag_{};
    bool taken_ = false, tried_ = false;
    std::function<bool(std::string_view)> is_kept_{};  ///< Set by `keep`.
    std::set<std::string> written_{};                  ///< Of the new place, before `keep`.
    std::vector<object_info> copied_{};                ///< Kept objects, as they were then.
    std::set<std::string> adopted_{};                  ///< Paths in `new` that it was tried for.
    cairn::activity* activity_ = nullptr;              ///< Set by `keep`; may be null.
};

}  // namespace cairn::detail

#endif
