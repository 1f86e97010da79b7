// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_DETAIL_PARTS_HPP
#define CAIRN_VERB_DETAIL_PARTS_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/data_plane.hpp>
#include <cairn/memory/concepts.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/observe/detail/erased_sink.hpp>
#include <cairn/planner/concepts.hpp>
#include <cairn/storage/concepts.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace cairn {
class mapping;
}

namespace cairn::detail {

template <class T>
using of_type = std::type_identity<T>;

// The kinds of parts: concepts cannot be passed to templates.
inline constexpr auto communicator_part = []<class T>(of_type<T>) { return Communicator<T>; };
inline constexpr auto data_plane_part = []<class T>(of_type<T>) { return DataPlane<T>; };
inline constexpr auto save_planner_part = []<class T>(of_type<T>) { return SavePlanner<T>; };
inline constexpr auto load_planner_part = []<class T>(of_type<T>) { return LoadPlanner<T>; };
inline constexpr auto writer_part = []<class T>(of_type<T>) { return StorageWriter<T>; };
inline constexpr auto reader_part = []<class T>(of_type<T>) { return StorageReader<T>; };
inline constexpr auto store_part = []<class T>(of_type<T>) { return ObjectStore<T>; };
inline constexpr auto sink_part = []<class T>(of_type<T>) { return EventSink<T>; };
inline constexpr auto mapping_part = []<class T>(of_type<T>) { return std::is_same_v<T, mapping>; };

template <class T, class... Parts>
inline constexpr bool has_type = (false || ... || std::is_same_v<T, std::remove_cvref_t<Parts>>);

template <const auto& Is, class... Parts>
inline constexpr std::size_t count_of =
    (std::size_t{0} + ... + (Is(of_type<std::remove_cvref_t<Parts>>()) ? 1 : 0));

template <const auto& Is, class... Parts>
constexpr std::size_t index_of() {
    std::size_t i = 0, found = sizeof...(Parts);
    ((Is(of_type<std::remove_cvref_t<Parts>>()) ? (found = i < found ? i : found, ++i) : ++i), ...);
    return found;
}

/// The type of the part of a kind, as it was passed; void if there is none.
template <const auto& Is, class... Parts>
using part_of = std::tuple_element_t<index_of<Is, Parts...>(), std::tuple<Parts..., void>>;

/// Whether a part may be used concurrently with the caller's own work.
template <class Part>
constexpr bool in_background() {
    using part = std::remove_cvref_t<Part>;
    constexpr bool communicator = !Communicator<part> || BackgroundCommunicator<part>;
    constexpr bool data_plane = !DataPlane<part> || BackgroundDataPlane<part>;
    return communicator && data_plane;
}
template <class... Parts>
inline constexpr bool all_in_background = (true && ... && in_background<Parts>());

/// Makes an object that `owner` keeps, besides what it kept before, which the object may refer to.
template <class T, class... Args>
T* own(std::shared_ptr<void>& owner, Args&&... args) {
    struct kept {
        kept(std::shared_ptr<void> b, Args&&... a)
            : before(std::move(b)), object(std::forward<Args>(a)...) {}
        std::shared_ptr<void> before;
        T object;
    };
    auto k = std::make_shared<kept>(std::move(owner), std::forward<Args>(args)...);
    auto* const object = std::addressof(k->object);
    owner = std::move(k);
    return object;
}
/// Makes a part that the caller did not pass, and its erased form; `owner` keeps both.
/// @tparam Ref  `communicator_ref<…>` or another of its kind.
template <class Ref, class Part>
Ref* own_part(std::shared_ptr<void>& owner, Part part) {
    return own<Ref>(owner, *own<Part>(owner, std::move(part)));
}

/// The erased form of the part of a kind, for the verb's untyped implementation.
/// @tparam Ref  `communicator_ref` or another of its kind.
template <const auto& Is, template <class> class Ref, class... Parts>
class part_ref {
public:
    /// @param parts  Outlive this.
    explicit part_ref(std::tuple<Parts...>& parts)
        : ref_(std::get<index_of<Is, Parts...>()>(parts)) {}
    auto* get() noexcept { return std::addressof(ref_); }

private:
    Ref<std::remove_cvref_t<part_of<Is, Parts...>>> ref_;
};
/// There is no such part.
template <const auto& Is, template <class> class Ref, class... Parts>
    requires(count_of<Is, Parts...> == 0)
class part_ref<Is, Ref, Parts...> {
public:
    explicit part_ref(std::tuple<Parts...>&) {}
    static std::nullptr_t get() noexcept { return nullptr; }
};

/// Whether a part stays the caller's after an asynchronous verb has begun: an lvalue, unless the
/// verb keeps a copy (memory spaces, sinks, mappings, and stores whose copies share the place), or
/// a duplicate (communicators, data planes).
template <class Part>
constexpr bool is_borrowed() {
    using part = std::remove_cvref_t<Part>;
    constexpr bool duplicated = Communicator<part> || DataPlane<part>;
    constexpr bool may_copy = MemorySpace<part> || EventSink<part> ||
                              std::is_same_v<part, mapping> ||
                              (ObjectStore<part> && RelocatableStore<part>);
    constexpr bool copied = may_copy && std::copy_constructible<part>;
    return std::is_lvalue_reference_v<Part> && !duplicated && !copied;
}

/// Returns the store among the parts, if there is one.
template <class... Parts>
std::optional<any_store> store_in(std::tuple<Parts...>& parts) {
    constexpr auto i = index_of<store_part, Parts...>();
    if constexpr (i < sizeof...(Parts))
        return any_store::share(std::get<i>(parts));
    else
        return std::nullopt;
}

/// Returns a copy of the mapping among the parts; null if there is none.
template <class... Parts>
std::shared_ptr<const mapping> mapping_in([[maybe_unused]] const std::tuple<Parts...>& parts) {
    constexpr auto i = index_of<mapping_part, Parts...>();
    if constexpr (i < sizeof...(Parts))
        return std::make_shared<const mapping>(std::get<i>(parts));
    else
        return nullptr;
}

/// Returns copies of the sinks among the parts.
template <class... Parts>
erased_sinks sinks_in([[maybe_unused]] const std::tuple<Parts...>& parts) {
    erased_sinks sinks;
    if constexpr (count_of<sink_part, Parts...> != 0)
        std::apply([&](const auto&... part) { (add_sink(sinks, part), ...); }, parts);
    return sinks;
}

}  // namespace cairn::detail

#endif
