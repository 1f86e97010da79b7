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
struct store_part {
    template <class T>
    static constexpr bool is = ObjectStore<T>;
};
struct sink_part {
    template <class T>
    static constexpr bool is = EventSink<T>;
};

struct memory_part {
    template <class T>
    static constexpr bool is = MemorySpace<T>;
};

struct mapping_part {
    template <class T>
    static constexpr bool is = std::is_same_v<T, mapping>;
};

template <class T, class... Parts>
inline constexpr bool has_type = (false || ... || std::is_same_v<T, std::remove_cvref_t<Parts>>);

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

/// The type of the part of a kind, as it was passed; void if there is none.
template <class Tag, class... Parts>
using part_of = std::tuple_element_t<index_of<Tag, Parts...>(), std::tuple<Parts..., void>>;

/// Whether a part may be used concurrently with the caller's own work.
template <class Part>
constexpr bool in_background() {
    using part = std::remove_cvref_t<Part>;
    constexpr bool communicator = !communicator_part::is<part> || BackgroundCommunicator<part>;
    constexpr bool data_plane = !data_plane_part::is<part> || BackgroundDataPlane<part>;
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
template <class Tag, template <class> class Ref, class... Parts>
class part_ref {
public:
    /// @param parts  Outlive this.
    explicit part_ref(std::tuple<Parts...>& parts)
        : ref_(std::get<index_of<Tag, Parts...>()>(parts)) {}
    auto* get() noexcept { return std::addressof(ref_); }

private:
    Ref<std::remove_cvref_t<part_of<Tag, Parts...>>> ref_;
};
/// There is no such part.
template <class Tag, template <class> class Ref, class... Parts>
    requires(count_of<Tag, Parts...> == 0)
class part_ref<Tag, Ref, Parts...> {
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
    constexpr bool duplicated = communicator_part::is<part> || data_plane_part::is<part>;
    constexpr bool may_copy = memory_part::is<part> || sink_part::is<part> ||
                              mapping_part::is<part> ||
                              (store_part::is<part> && RelocatableStore<part>);
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
