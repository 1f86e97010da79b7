// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_CLAIM_HPP
#define CAIRN_STORAGE_DETAIL_CLAIM_HPP

#include <cairn/activity.hpp>
#include <cairn/detail/damage.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/detail/exists.hpp>
#include <cairn/storage/detail/checkpoint_files.hpp>
#include <cairn/storage/detail/data_file_proof.hpp>
#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/leftovers.hpp>
#include <cairn/storage/detail/own_intent.hpp>
#include <cairn/storage/detail/save_intent.hpp>

#include <algorithm>
#include <exception>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The coordinator's claim on the place of one checkpoint, from the first check to the last
/// removal.
///
/// Rules (docs/decisions/0004-commit.md): data files are always new; an existing checkpoint stays
/// complete until the new metadata has replaced its own; files that may be left over are listed in
/// an intent until they are known to be removed.
template <ObjectStore Store>
class claim {
public:
    /// First removes files that ended saves have left there: together with the existing checkpoint
    /// and the new one, they would take the space of a third.
    /// @param names     The names of the save's files; each contains the save id.
    /// @param activity  Advanced for each file that is removed; may be null.
    /// @throws error errc::already_exists if `overwrite` is off and the place contains a
    /// checkpoint.
    void take(Store& store, const std::string& save_id, std::vector<std::string> names,
              bool overwrite, cairn::activity* activity = nullptr) {
        // Before the metadata is read: saves that have ended by now can no longer publish.
        leftovers<Store> ended(store, {}, activity);
        ended.find_ended();
        start_ = store.tag(metadata_name);
        if (!overwrite && !start_.text.empty()) {
            throw error(errc::already_exists,
                        {.file = store.describe(metadata_name),
                         .expected = "no checkpoint here, because overwrite is off",
                         .remedy = "choose another checkpoint id, or allow overwriting"});
        }
        // A server that cannot replace it in one step is refused before anything is written, and
        // what may take long is not between the last look at the intent and the commit.
        prepare_publish(store, metadata_name);
        intent_.save_id = save_id;
        intent_.began = save_intent::now();
        intent_.owner = record_owner::this_one();
        if (!start_.text.empty()) read_old(store);
        if (old_problem_.empty()) ended.remove_found();
        early_warnings_ = ended.take_warnings();
        intent_.names = std::move(names);
        own_.publish(store, intent_);
    }

    /// Replaces the metadata, durably and only if it has not changed since `take`; from then on the
    /// checkpoint exists.
    /// @throws error errc::outcome_unknown if the new metadata may be in place; any other error
    /// means that it is not, and never will be.
    void publish(Store& store, byte_span bytes) {
        // Where another process has removed the directory, publishing would make it again.
        if constexpr (requires { store.renames(); })
            if (store.renames()) definite([&] { own_.expect_mine(store); });
        bool looked = false;
        auto const look = [&] {
            own_.expect_mine(store);
            looked = true;
        };
        try {
            publish_after(look, store, metadata_name, bytes, start_);
        } catch (...) {
            auto const why = std::current_exception();
            if (looked && !is_untouched(store, why)) throw doubt(store, why);
            definite([&] { std::rethrow_exception(why); });
        }
    }

    /// Whether this is the metadata that `take` found for this save, i.e. it has not been replaced
    /// since.
    bool found(const object_tag& now, const std::string& save_id) const {
        return intent_.save_id == save_id && now == start_;
    }

    /// After `publish`: removes files that are no longer referenced.
    /// @param standing  The files of the published checkpoint.
    /// @return Warnings about files that could not be removed.
    std::vector<std::string> sweep(Store& store, const std::set<std::string>& standing,
                                   cairn::activity* activity) {
        leftovers<Store> old(store, standing, activity);
        if (!old_problem_.empty()) old.warn(old_problem_);
        for (auto& w : early_warnings_) old.warn(std::move(w));
        old.collect(own_.name(), intent_.replaced_id);
        if (is_mine(store, old) && old.remove_replaced(intent_.replaced, intent_.replaced_id))
            old.forget(own_.name());
        if (old_problem_.empty()) old.remove_strays();  // otherwise they may be the files that stay
        own_.clear();
        return old.take_warnings();
    }

    /// Ends a failed save whose files have been removed by every rank.
    std::vector<std::string> release(Store& store) {
        leftovers<Store> own(store, {}, nullptr);
        own.note_removals();
        if (!own_.name().empty() && is_mine(store, own)) own.forget(own_.name());
        own_.clear();
        return own.take_warnings();
    }

    /// Ends a failed save of which some ranks may not have removed their files, or may still write.
    /// Existing files are removed; the intent stays, for files still to be written.
    std::vector<std::string> remove_planned(Store& store, cairn::activity* activity) {
        leftovers<Store> own(store, {}, activity);
        if (!own_.name().empty()) {
            (void)own.remove_planned(intent_.names, intent_.save_id);
            (void)own.sync();
        }
        own_.clear();
        return own.take_warnings();
    }

    /// Runs steps that precede any publishing; converts every exception to an @ref error, which
    /// implies that nothing was published.
    template <class F>
    static void definite(F&& f) {
        try {
            f();
        } catch (const error&) {
            throw;
        } catch (...) {
            auto const why = failure_from(std::current_exception(), 0);
            throw error(why.code, {.found = text_of(std::current_exception())});
        }
    }

private:
    /// An intent that cannot be read counts as another process's.
    bool is_mine(Store& store, leftovers<Store>& rest) const {
        bool mine = false;
        rest.attempt([&] { mine = own_.is_mine(store); });
        return mine;
    }
    /// Whether a `publish` that threw has changed nothing. Only the store's error code, or the old
    /// tag, proves that. The tag does not if the store has an answer to come, nor if another
    /// process presumed this one dead: it may have removed what was published.
    bool is_untouched(Store& store, const std::exception_ptr& why) const {
        try {
            std::rethrow_exception(why);
        } catch (const error& e) {
            if (e.code() == make_error_code(errc::concurrent_save)) return true;
            if (e.code() == make_error_code(errc::outcome_unknown)) return false;
        } catch (...) {
        }
        try {
            return store.tag(metadata_name) == start_ && own_.is_mine(store);
        } catch (...) {
            return false;
        }
    }
    static error doubt(Store& store, const std::exception_ptr& why) {
        std::string name(metadata_name);
        try {
            name = store.describe(metadata_name);
        } catch (...) {  // the plain name is sufficient
        }
        return error(errc::outcome_unknown, {.file = std::move(name),
                                             .found = text_of(why),
                                             .remedy = "load it to find out; no file was removed"});
    }

    void read_old(Store& store) {
        try {
            auto const old = read_checkpoint_files(store);
            intent_.replaced_id = old.save_id;
            intent_.replaced.assign(old.names.begin(), old.names.end());
        } catch (const error& e) {
            // A broken checkpoint can be overwritten; one that storage fails to read might be
            // complete, and its files would never be removed.
            if (!is_damage(e.code()) && e.code() != make_error_code(errc::unsupported)) throw;
            intent_.replaced.clear();
            old_problem_ = std::string(
                               "the files of the replaced checkpoint stay, because its "
                               "metadata cannot be read: ") +
                           e.what();
        }
    }

    save_intent intent_{};
    own_intent own_{};
    object_tag start_{};
    std::string old_problem_{};
    std::vector<std::string> early_warnings_{};  ///< Of `take`, for `sweep`.
};

}  // namespace cairn::detail

#endif
