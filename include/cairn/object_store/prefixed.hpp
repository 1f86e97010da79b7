// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_PREFIXED_HPP
#define CAIRN_OBJECT_STORE_PREFIXED_HPP

#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/detail/names.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

/// Adds places to an ObjectStore that has none: each name is prefixed with the place's id.
///
/// Lifetime: borrows the store, which must outlive this and the results of `at`.
/// **Models**: `RelocatableStore`; `WriteBackStore`, `UnsyncedStore`, `WarningStore`,
/// `ManyRequestsStore`, `SharedWriteStore` and `RenamingStore` where the store is one; and
/// `BrowsableStore` unless the store has places that it cannot list.
template <ObjectStore Store>
class prefixed_store {
public:
    explicit prefixed_store(Store& base) : base_(std::shared_ptr<Store>(), std::addressof(base)) {}

    /// Returns the place `id` within this one: its object `x` is `id/x` here.
    prefixed_store at(std::string id) const {
        auto p = *this;
        if (!id.empty()) p.prefix_ += std::move(id) + "/";
        return p;
    }
    prefixed_store without_sync() const
        requires UnsyncedStore<Store>
    {
        auto p = *this;
        p.base_ = std::make_shared<Store>(std::as_const(*base_).without_sync());
        return p;
    }
    std::size_t requests_in_flight() const
        requires ManyRequestsStore<Store>
    {
        return std::as_const(*base_).requests_in_flight();
    }
    std::chrono::milliseconds lag() const
        requires LaggingStore<Store>
    {
        return std::as_const(*base_).lag();
    }
    std::vector<std::string> take_warnings()
        requires WarningStore<Store>
    {
        return base_->take_warnings();
    }
    name_kind kind_of(std::string_view name)
        requires RenamingStore<Store>
    {
        return base_->kind_of(full(name));
    }
    void move(std::string_view from, std::string_view to)
        requires RenamingStore<Store>
    {
        base_->move(full(from), full(to));
    }
    void exchange(std::string_view a, std::string_view b)
        requires RenamingStore<Store>
    {
        base_->exchange(full(a), full(b));
    }
    void adopt_permissions(std::string_view from, std::string_view to, bool only_fewer)
        requires RenamingStore<Store>
    {
        detail::adopt_permissions(*base_, full(from), full(to), only_fewer);
    }
    std::vector<std::string> hidden_places()
        requires RenamingStore<Store>
    {
        return in_place([&](auto& s) { return s.hidden_places(); });
    }
    std::vector<std::string> others()
        requires RenamingStore<Store>
    {
        return in_place([&](auto& s) { return s.others(); });
    }
    void remove_tree(std::string_view name)
        requires RenamingStore<Store>
    {
        base_->remove_tree(full(name));
    }
    auto create(std::string_view name, std::uint64_t size) {
        return base_->create(full(name), size);
    }
    auto create(std::string_view name, std::uint64_t size, bool durable)
        requires WriteBackStore<Store>
    {
        return base_->create(full(name), size, durable);
    }
    auto reopen(std::string_view name)
        requires SharedWriteStore<Store>
    {
        return base_->reopen(full(name));
    }
    void publish(std::string_view name, byte_span b, std::optional<object_tag> match,
                 const std::function<void()>& look = {}) {
        detail::publish_after(look, *base_, full(name), b, std::move(match));
    }
    void prepare_publish(std::string_view name) { detail::prepare_publish(*base_, full(name)); }
    void remove_trials() {
        if constexpr (RelocatableStore<Store>) in_place([](auto& s) { detail::remove_trials(s); });
    }
    auto open(std::string_view name) { return base_->open(full(name)); }
    object_tag tag(std::string_view name) { return base_->tag(full(name)); }
    std::vector<object_info> list() {
        return listed([](Store& s) { return s.list(); });
    }
    std::vector<object_info> list_finished() {
        return listed([](Store& s) { return detail::list_finished(s); });
    }
    /// A store without places of its own lists all names.
    std::vector<std::string> places()
        requires(BrowsableStore<Store> || !RelocatableStore<Store>)
    {
        std::vector<std::string> out;
        if constexpr (BrowsableStore<Store>) {
            return in_place([&](auto& s) { return s.places(); });
        } else {
            for (auto const& info : list())
                if (auto const slash = info.name.find('/'); slash != info.name.npos)
                    out.push_back(info.name.substr(0, slash));
            detail::keep_one_of_each(out);
            return out;
        }
    }
    std::vector<place_info> all_places()
        requires BrowsableStore<Store> && requires(Store& s) {
            { s.all_places() } -> std::same_as<std::vector<place_info>>;
        }
    {
        return in_place([&](auto& s) { return s.all_places(); });
    }
    std::vector<place_info> places_with(std::string_view name)
        requires BrowsableStore<Store> && requires(Store& s) {
            { s.places_with(name) } -> std::same_as<std::vector<place_info>>;
        }
    {
        return in_place([&](auto& s) { return s.places_with(name); });
    }
    std::vector<object_info> list_tree()
        requires BrowsableStore<Store> && requires(Store& s) {
            { s.list_tree() } -> std::same_as<std::vector<object_info>>;
        }
    {
        return in_place([&](auto& s) { return s.list_tree(); });
    }
    std::string place_id(const std::string& id) const
        requires BrowsableStore<Store> && requires(const Store& s, const std::string& i) {
            { s.place_id(i) } -> std::same_as<std::string>;
        }
    {
        return in_place([&](auto& s) { return s.place_id(id); });
    }
    void remove_place([[maybe_unused]] const std::string& id)
        requires(BrowsableStore<Store> || !RelocatableStore<Store>)
    {
        if constexpr (BrowsableStore<Store>) base_->remove_place(full(id));
    }
    void remove(std::string_view name) { base_->remove(full(name)); }
    void remove(std::string_view name, const object_tag& version) {
        detail::remove_version(*base_, full(name), version);
    }
    void end_uploads(std::string_view name) { detail::end_uploads(*base_, full(name)); }
    void sync() { base_->sync(); }
    std::string describe(std::string_view name) { return base_->describe(full(name)); }

private:
    std::string full(std::string_view name) const { return prefix_ + std::string(name); }
    /// @param list  Lists the objects of a store.
    template <class F>
    std::vector<object_info> listed(F list) {
        if constexpr (RelocatableStore<Store>)
            return in_place(list);  // it lists its own place only
        std::vector<object_info> mine;
        for (auto& info : list(*base_)) {
            if (!info.name.starts_with(prefix_)) continue;
            info.name.erase(0, prefix_.size());
            mine.push_back(std::move(info));
        }
        return mine;
    }
    /// Calls `f` with the base's store of this place.
    template <class F>
    auto in_place(F&& f) const
        requires RelocatableStore<Store>
    {
        if (prefix_.empty()) return f(*base_);
        auto const id = prefix_.substr(0, prefix_.size() - 1);
        auto there = std::as_const(*base_).at(id);
        return f(there);
    }

    std::shared_ptr<Store> base_;  ///< Borrowed, or that of `without_sync`.
    std::string prefix_{};
};

}  // namespace cairn

#endif
