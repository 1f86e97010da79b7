// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_CONCEPTS_HPP
#define CAIRN_OBJECT_STORE_CONCEPTS_HPP

#include <cairn/error.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

using byte_span = std::span<const std::byte>;
using byte_vector = std::vector<std::byte>;

/// Identifies one published version of an object; equal tags mean equal bytes.
struct object_tag {
    std::string text{};  ///< Empty: there is no such object.
    friend bool operator==(const object_tag&, const object_tag&) = default;
};

struct object_info {
    std::string name{};
    std::uint64_t size = 0;
    friend bool operator==(const object_info&, const object_info&) = default;
};

/// Named objects of bytes under one prefix (a directory, a bucket): a *place*.
///
/// Given `s` of type `S&`, `name` a `std::string_view` (relative, no `/` at the ends, never
/// `..`), `bytes` a `byte_span`, `into` a `std::span<std::byte>`, `at` a `std::uint64_t`:
///
/// | Expression                         | Type              | Meaning |
/// |------------------------------------|-------------------|--------------------------------------|
/// | `s.create(name, size)`             | movable handle `h`| new object of `size` bytes,
/// exclusively: @ref errc::already_exists if the name is taken | | `h.write(at, bytes)` | `void` |
/// puts bytes at an offset              | | `h.finish(durable)`                | `void` | complete;
/// if `durable`, survives a crash | | `s.publish(name, bytes, if_match)` | `void`            |
/// atomically and durably replaces a small object | | `s.open(name)`                     | movable
/// handle `r`| for reading; @ref errc::not_found    | | `r.read(at, into)`                 | `void`
/// | exactly `into.size()` bytes; @ref errc::corrupt at the end | | `r.size()` | `std::uint64_t` |
/// | | `s.tag(name)`                      | `object_tag`      | empty when there is none | |
/// `s.list()`                         | `std::vector<object_info>` | finished objects            |
/// | `s.remove(name)`                   | `void`            | gone; no error when there was none |
/// | `s.sync()`                         | `void`            | names created or removed so far
/// survive a crash | | `s.describe(name)`                 | `std::string`     | what people call
/// it: a path, a URL   |
///
/// **Semantics**
/// - *Blocking and thread-safe*: every call may block; different calls, also on one handle with
///   ranges that do not meet, may run at once from several threads.
/// - *Exclusive*: of two `create` calls on one name, anywhere, at most one succeeds.
/// - *Visibility*: an object under `create` need not be visible before `finish`. A handle that is
///   destroyed unfinished removes what it began, as far as it can.
/// - *Names*: may contain `/`. `list` gives those too, except that a store with `at` may leave them
///   to the places that they lie in.
/// - *publish*: with `if_match` set, replaces only the version of that tag and fails with
///   @ref errc::concurrent_save otherwise. Readers see the old or the new bytes, never a mix.
/// - *Failed writes are final*: after a `write` or `finish` that failed, no `finish` of that handle
///   succeeds.
/// - *Errors*: @ref error with @ref errc::io (the system's text in `found`) and the object named
///   by `describe`; other exceptions are passed on too. A call that throws may have had its effect.
///
/// Not promised: directories, partial overwrite, append.
/// **Models**: `file_store`, `memory_store`. **Archetype**: `archetype::object_store`.
template <class S>
concept ObjectStore = std::movable<S> &&
    requires(S& s, std::string_view name, byte_span bytes, std::span<std::byte> into,
             std::uint64_t n, std::optional<object_tag> match) {
    { s.create(name, n).write(n, bytes) } -> std::same_as<void>;
    { s.create(name, n).finish(true) } -> std::same_as<void>;
    { s.publish(name, bytes, match) } -> std::same_as<void>;
    { s.open(name).read(n, into) } -> std::same_as<void>;
    { s.open(name).size() } -> std::convertible_to<std::uint64_t>;
    { s.tag(name) } -> std::same_as<object_tag>;
    { s.list() } -> std::same_as<std::vector<object_info>>;
    { s.remove(name) } -> std::same_as<void>;
    { s.sync() } -> std::same_as<void>;
    { s.describe(name) } -> std::same_as<std::string>;
};

/// An ObjectStore that can be told at the beginning whether an object will be made durable:
/// `s.create(name, size, durable)`. With `durable`, as without the argument, it may begin early to
/// make the bytes durable, so that `finish(true)` does not take as long as all writes together.
template <class S>
concept WriteBackStore = ObjectStore<S> &&
    requires(S& s, std::string_view name, std::uint64_t n, byte_span bytes, bool durable) {
    { s.create(name, n, durable).write(n, bytes) } -> std::same_as<void>;
};

/// An ObjectStore that can be pointed at another place: `s.at(id)` is the store of that
/// checkpoint. What `checkpoint_id` needs. A relative id is a place within the store's own.
template <class S>
concept RelocatableStore = ObjectStore<S> && requires(const S& s, const std::string& id) {
    { s.at(id) } -> std::same_as<S>;
};

}  // namespace cairn

#endif
