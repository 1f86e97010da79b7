// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_OWN_INTENT_HPP
#define CAIRN_STORAGE_DETAIL_OWN_INTENT_HPP

#include <cairn/error.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/detail/exists.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/save_intent.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace cairn::detail {

/// The intent that this process has published in a place.
///
/// A process that presumes this one dead adopts the intent, i.e. replaces it by its own
/// (docs/decisions/0017-who-has-ended.md). From then on, this process changes nothing there that
/// the other one relies on.
class own_intent {
public:
    /// @throws error errc::concurrent_save if another process has adopted it meanwhile. Nothing is
    /// left to forget then.
    template <ObjectStore Store>
    void publish(Store& store, const save_intent& what) {
        auto const bytes = what.encode();
        name_ = intent_name(what.save_id);
        // Whatever fails after this, the intent there is this process's.
        tag_ = {};
        store.publish(name_, bytes, std::nullopt);
        // The tag alone would not show it: if this process was stopped in between, it may be that
        // of another process's intent.
        auto tag = store.tag(name_);
        auto const there = read_existing(store, name_);
        if (!there || !std::ranges::equal(*there, bytes)) {
            auto lost = presumed_dead(store, there.has_value());
            name_.clear();
            throw lost;
        }
        tag_ = std::move(tag);
    }

    /// Returns its name once it may exist; empty before that.
    const std::string& name() const noexcept { return name_; }
    void clear() noexcept { name_.clear(); }

    /// Whether it is there, and still this process's. If another process has adopted it, or removed
    /// it after its files, the names that it lists may be another save's by now.
    /// @throws what the store throws
    template <ObjectStore Store>
    bool is_mine(Store& store) const {
        // A publish that failed may have taken effect.
        return tag_.text.empty() || store.tag(name_) == tag_;
    }
    /// @throws error errc::concurrent_save if it is no longer this process's.
    template <ObjectStore Store>
    void expect_mine(Store& store) const {
        auto const now = store.tag(name_);
        if (now != tag_) throw presumed_dead(store, !now.text.empty());
    }

private:
    template <ObjectStore Store>
    error presumed_dead(Store& store, bool there_is_another) const {
        return error(errc::concurrent_save,
                     {.file = store.describe(name_),
                      .expected = "this save's intent",
                      .found = std::string(there_is_another ? "another" : "none") +
                               ": another process presumed this one dead",
                      .remedy = "save again"});
    }

    std::string name_{};
    object_tag tag_{};  ///< Nobody else has adopted it.
};

}  // namespace cairn::detail

#endif
