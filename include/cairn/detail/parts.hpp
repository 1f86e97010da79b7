// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_PARTS_HPP
#define CAIRN_DETAIL_PARTS_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/data_plane.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/planner/concepts.hpp>
#include <cairn/storage/concepts.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn {

/// What a save can be composed of besides its state, in any order.
template <class T>
concept SavePart =
    Communicator<std::remove_cvref_t<T>> || SavePlanner<std::remove_cvref_t<T>> ||
    StorageWriter<std::remove_cvref_t<T>> || ObjectStore<std::remove_cvref_t<T>>;

/// What a load can be composed of besides its state, in any order.
template <class T>
concept LoadPart =
    Communicator<std::remove_cvref_t<T>> || LoadPlanner<std::remove_cvref_t<T>> ||
    StorageReader<std::remove_cvref_t<T>> || ObjectStore<std::remove_cvref_t<T>> ||
    DataPlane<std::remove_cvref_t<T>>;

namespace detail {

// Concepts cannot be passed to templates: one tag each.
struct communicator_part {
    template <class T>
    static constexpr bool is = Communicator<T>;
};
struct data_plane_part {
    template <class T>
    static constexpr bool is = DataPlane<T>;
};
struct save_planner_part {
    template <class T>
    static constexpr bool is = SavePlanner<T>;
};
struct load_planner_part {
    template <class T>
    static constexpr bool is = LoadPlanner<T>;
};
struct writer_part {
    template <class T>
    static constexpr bool is = StorageWriter<T>;
};
struct reader_part {
    template <class T>
    static constexpr bool is = StorageReader<T>;
};
struct save_part_check {
    template <class T>
    static constexpr bool is = SavePart<T>;
};
struct load_part_check {
    template <class T>
    static constexpr bool is = LoadPart<T>;
};
struct store_part {
    template <class T>
    static constexpr bool is = ObjectStore<T>;
};

template <class Tag, class... Parts>
inline constexpr std::size_t count_of =
    (std::size_t{0} + ... + (Tag::template is<std::remove_cvref_t<Parts>> ? 1 : 0));

template <class Tag, class... Parts>
constexpr std::size_t index_of() {
    std::size_t i = 0, found = sizeof...(Parts);
    ((Tag::template is<std::remove_cvref_t<Parts>> ? (found = i < found ? i : found, ++i) : ++i),
     ...);
    return found;
}

/// Whether a part may be used beside the caller's own work.
template <class Part>
constexpr bool in_background() {
    using part = std::remove_cvref_t<Part>;
    return (!communicator_part::is<part> || BackgroundCommunicator<part>) &&
           (!data_plane_part::is<part> || BackgroundDataPlane<part>);
}
template <class... Parts>
inline constexpr bool all_in_background = (true && ... && in_background<Parts>());

/// The part of a kind, or what `fallback()` makes. The fallback's result is returned by value.
template <class Tag, class Fallback, class... Parts>
decltype(auto) part_or(std::tuple<Parts...>& parts, Fallback&& fallback) {
    constexpr auto i = index_of<Tag, Parts...>();
    if constexpr (i < sizeof...(Parts))
        return (std::get<i>(parts));
    else
        return std::forward<Fallback>(fallback)();
}

/// Reaches an ObjectStore that somebody else owns, at the place of one checkpoint: the store's own
/// `at` where it has one, else a prefix to every name.
template <ObjectStore Store>
class placed_store {
public:
    explicit placed_store(Store& base) : base_(std::addressof(base)) {}

    placed_store at(std::string id) const {
        placed_store p(*base_);
        p.prefix_ = std::move(id) + "/";
        return p;
    }
    auto create(std::string_view name, std::uint64_t size) {
        return base_->create(full(name), size);
    }
    void publish(std::string_view name, byte_span b, std::optional<object_tag> match) {
        base_->publish(full(name), b, std::move(match));
    }
    auto open(std::string_view name) { return base_->open(full(name)); }
    object_tag tag(std::string_view name) { return base_->tag(full(name)); }
    std::vector<object_info> list() {
        std::vector<object_info> mine;
        for (auto& info : base_->list()) {
            if (!info.name.starts_with(prefix_)) continue;
            info.name.erase(0, prefix_.size());
            mine.push_back(std::move(info));
        }
        return mine;
    }
    void remove(std::string_view name) { base_->remove(full(name)); }
    void sync() { base_->sync(); }
    std::string describe(std::string_view name) { return base_->describe(full(name)); }

private:
    std::string full(std::string_view name) const { return prefix_ + std::string(name); }
    Store* base_;
    std::string prefix_;
};

/// A store to hand to a writer or reader, which points it at a checkpoint: a copy where copies
/// share the place, else a window on the caller's own.
template <ObjectStore Store>
auto share_store(Store& store) {
    if constexpr (RelocatableStore<Store> && std::copy_constructible<Store>)
        return Store(store);
    else
        return placed_store<Store>(store);
}

}  // namespace detail
}  // namespace cairn

#endif
