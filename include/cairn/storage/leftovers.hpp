// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_LEFTOVERS_HPP
#define CAIRN_STORAGE_LEFTOVERS_HPP

#include <cairn/activity.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/storage/data_file_proof.hpp>
#include <cairn/storage/found_intent.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Removes files that no checkpoint needs any more, and nothing else; exceptions of the store
/// become warnings.
template <ObjectStore Store>
class leftovers {
public:
    /// @param standing  The files that the current metadata names.
    /// @param activity  Advanced for each file; may be null.
    leftovers(Store& store, const std::set<std::string>& standing, cairn::activity* activity)
        : store_(store), standing_(standing), activity_(activity) {}

    /// Removes the files of a checkpoint that was replaced.
    /// @return Whether nothing is left of them that a later save could still remove.
    bool remove_replaced(const std::vector<std::string>& names, const std::string& save_id) {
        return remove(names, save_id, false, true);
    }
    /// Removes the files planned by a save that will no longer commit.
    bool remove_planned(const std::vector<std::string>& names, const std::string& save_id,
                        bool on_this_host) {
        return remove(names, save_id, on_this_host, false);
    }

    /// Removes what ended saves have left. Called first, because it also finds files that are still
    /// needed.
    /// @param own          The intent to skip, which was published just now: its time is the
    ///                     storage's. Empty: what only time can show is left for later.
    /// @param replaced_id  The save whose metadata was just replaced: it was published.
    void collect(const std::string& own, const std::string& replaced_id) {
        if (attempt([&] { find(own, replaced_id); })) remove_found();
    }
    /// The first half of `collect`. Where another save may have been publishing until it ended,
    /// `standing` is filled between the halves: what has ended here publishes no more.
    /// @throws what the store throws as it lists its objects
    void find(const std::string& own, const std::string& replaced_id) {
        find(own, replaced_id, false);
    }
    /// The same for saves of which it is certain that their process has ended.
    void find_ended() { find({}, {}, true); }
    bool found_any() const noexcept { return !over_.empty(); }
    /// Whether there is a save of which only time can show that it has ended.
    bool is_unsure() const noexcept { return unsure_; }
    void remove_found() {
        // Whoever published what stands, or removed what stood, may have died before that was
        // durable; what it replaced is needed until then.
        if (over_.empty() || !attempt([&] { store_.sync(); })) return;
        for (auto& i : std::exchange(over_, {})) {
            if (!i.readable)  // its files can still be recognized by the id in their names
                for (auto const& info : there_)
                    if (is_data_name(info.name) && has_id(info.name, i.save_id))
                        i.what.names.push_back(info.name);
            bool const planned_gone = remove_planned(i.what.names, i.save_id, i.on_this_host);
            bool const replaced_gone = remove_replaced(i.what.replaced, i.what.replaced_id);
            if (planned_gone && replaced_gone) forget(i.name);
        }
    }
    /// Removes an intent, after the files that it lists, and only once they are certainly removed.
    void forget(const std::string& intent) {
        if (sync()) attempt([&] { store_.remove(intent); });
    }

    /// Others have removed files too: an intent is forgotten only once that is durable.
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
    /// Limits the number of warnings, and repeats none.
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
        there_ = store_.list();
        over_.clear();
        needed_.clear();
        unsure_ = false;
        // It was written not long ago.
        auto const now = modified_at(there_, own);
        for (auto const& info : there_) {
            if (!is_intent_name(info.name) || info.name == own) continue;
            attempt([&] { look_at(info, replaced_id, certain, now); });
        }
    }
    /// Records whether an intent's save has ended, or which files it may still need.
    void look_at(const object_info& info, const std::string& replaced_id, bool certain,
                 std::int64_t now) {
        auto i = read_intent(store_, info);
        if (!i || i->newer) return;
        i->judge_age(there_, now);
        bool const sure = i->ended || i->save_id == replaced_id;
        unsure_ = unsure_ || (i->readable && !sure && !i->own_process);
        if (certain ? i->readable && i->ended
                    : !i->readable || sure || (i->over() && adopt(store_, *i)))
            over_.push_back(std::move(*i));
        else
            needed_.insert(i->what.names.begin(), i->what.names.end());
    }

    bool remove(const std::vector<std::string>& names, const std::string& save_id, bool planned,
                bool must_be_its_own) {
        bool gone = true;
        for (auto const& name : names) {
            if (activity_ != nullptr) activity_->advance();
            if (standing_.count(name) != 0) continue;
            if (needed_.count(name) != 0) {
                gone = false;
                continue;
            }
            auto const done = attempt([&] {
                auto const whose_it_is = whose(store_, name, save_id, planned);
                // Whoever removed it may have died before that was durable; `sync` reaches the
                // place's own directory only.
                if (whose_it_is == ownership::absent) {
                    if (name.find('/') != name.npos) remove_file(name);
                    return;
                }
                if (whose_it_is == ownership::proven) return remove_file(name);
                if (whose_it_is == ownership::unproven || must_be_its_own)
                    warn("'" + store_.describe(name) +
                         "' stays: nothing shows that it is a data "
                         "file of the checkpoint or save that named it; remove it by hand if it "
                         "is not needed");
            });
            gone = gone && done;
        }
        return gone;
    }
    void remove_file(const std::string& name) {
        removed_ = true;
        try {
            store_.remove(name);
        } catch (const error& e) {
            if (e.code() != make_error_code(errc::unsupported)) throw;
            warn(e.what());  // a link, which will never be removed
        }
    }

    static constexpr std::size_t most_warnings = 64;
    Store& store_;
    const std::set<std::string>& standing_;
    cairn::activity* activity_;
    std::vector<object_info> there_{};  ///< In the place, when `find` looked.
    std::vector<found_intent> over_{};
    std::set<std::string> needed_{};  ///< By saves that may still commit.
    std::vector<std::string> warnings_{};
    std::size_t unsaid_ = 0;
    bool removed_ = false;
    bool unsure_ = false;
};

}  // namespace cairn::detail

#endif
