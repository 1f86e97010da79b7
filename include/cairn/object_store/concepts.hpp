// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_CONCEPTS_HPP
#define CAIRN_OBJECT_STORE_CONCEPTS_HPP

#include <cairn/error.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

using byte_span = std::span<const std::byte>;
using byte_vector = std::vector<std::byte>;

/// Identifies one published version of an object; equal tags mean equal bytes.
struct object_tag {
    std::string text{};  ///< Empty: no such object exists.
    friend bool operator==(const object_tag&, const object_tag&) = default;
};

struct object_info {
    std::string name{};
    std::uint64_t size = 0;
    /// When it was last changed, in nanoseconds since any fixed point, by the storage's clock if
    /// that differs from this machine's. 0: not known; leftovers of others are then never removed
    /// because of their age.
    std::int64_t modified = 0;
    /// When it was last changed in any way, including changes that keep or set `modified`, e.g. a
    /// copy that keeps times. 0: not known.
    std::int64_t changed = 0;
    friend bool operator==(const object_info&, const object_info&) = default;
};

/// A *place*: named objects of bytes under one prefix (a directory, a bucket).
///
/// Given `s` of type `S&`, `name` a `std::string_view` (relative, no `/` at the ends, never
/// `..`), `bytes` a `byte_span`, `into` a `std::span<std::byte>`, `at` a `std::uint64_t`:
///
/// | Expression                         | Type                       | Meaning                    |
/// |------------------------------------|----------------------------|----------------------------|
/// | `s.create(name, size)`             | movable handle `h`         | new object, `size` bytes   |
/// | `h.write(at, bytes)`               | `void`                     | puts bytes at an offset    |
/// | `h.finish(durable)`                | `void`                     | completes the object       |
/// | `s.publish(name, bytes, if_match)` | `void`                     | replaces a small object    |
/// | `s.open(name)`                     | movable handle `r`         | for reading                |
/// | `r.read(at, into)`                 | `void`                     | exactly `into.size()` bytes|
/// | `r.size()`                         | `std::uint64_t`            |                            |
/// | `s.tag(name)`                      | `object_tag`               | empty if there is none     |
/// | `s.list()`                         | `std::vector<object_info>` | objects, see below         |
/// | `s.remove(name)`                   | `void`                     | no error if there is none  |
/// | `s.sync()`                         | `void`                     | makes names durable        |
/// | `s.describe(name)`                 | `std::string`              | for users: a path, a URL   |
///
/// **Semantics**
/// - *Blocking and thread-safe*: every call may block; different calls, including calls on one
///   handle with disjoint ranges, may run concurrently on several threads.
/// - *Exclusive*: `create` or `finish` fails with @ref errc::already_exists if the name is taken;
///   of two objects that are created under one name, anywhere, at most one is finished. A store
///   whose service cannot finish a large object so (multipart uploads of S3) ensures that for those
///   that one request can hold, and among the handles of one process: cairn gives large objects
///   names that nobody else has, and makes everything else with `publish`.
/// - *Visibility*: an object under `create` need not be visible before `finish`. A handle that is
///   destroyed unfinished removes its object, as far as possible. What may be left of one, in any
///   process, is listed, so that `remove` can be called for it; whether `open` finds it is the
///   store's affair.
/// - *Reading*: `open` fails with @ref errc::not_found only if there is no such object, `read`
///   beyond the end with @ref errc::corrupt. `read` and `size` may fail with errc::not_found if
///   the object was replaced or removed after `open`: the caller opens it again.
/// - *Names*: may contain `/`. `list` includes those too, except that a store with `at` may omit
///   objects that belong to places within it.
/// - *publish*: atomic and durable. With `if_match` set, replaces only the version of that tag and
///   fails with @ref errc::concurrent_save otherwise. Readers see the old or the new bytes, never a
///   mix. @ref errc::outcome_unknown says that the object may be replaced even after the call.
/// - *A last look*: where `publish` takes time before the step that replaces the object, e.g. to
///   write and sync a temporary file, an optional `s.publish(name, bytes, if_match, look)`, with a
///   `std::function<void()>`, calls `look` immediately before that step. It calls `tag`, `open` and
///   `describe` of the store. What it throws is passed on, and nothing has changed. Without this
///   member, a save looks before it calls `publish`.
/// - *Conditions* that only some servers heed may be tried by an optional member,
///   `s.prepare_publish(name)`: when a save begins, so that nothing is between its last look at
///   whether its place is still its own and the `publish` of `.metadata`. What a trial may leave is
///   not listed; `s.remove_trials()`, which goes with it, removes it when it is old.
/// - *remove* may be repeated by a store that does not learn how it has ended. So it is for names
///   that nobody makes again. For others there is an optional member, `s.remove(name, tag)`, which
///   removes an object of which the caller has seen that version just now: in doubt nothing else.
///   @ref errc::outcome_unknown says that the object may be removed even after the call.
///   Where an object exists only once it is finished, an optional `s.end_uploads(name)` ends what
///   killed processes have begun to write, if possible also what is not listed, and leaves an
///   object of that name. Where what is unfinished takes requests of its own to list, an optional
///   `s.list_finished()`, a `std::vector<object_info>`, omits it: a load has no use for it.
/// - *Durability*: an object survives a crash after `finish(true)`, and names created or removed so
///   far after `sync`.
/// - *Failed writes are final*: after a failed `write` or `finish`, no `finish` of that handle
///   succeeds. @ref errc::outcome_unknown from `finish` says that the object may be there, or may
///   appear even after the call; then a first `remove` fails, even if it removes the object.
/// - *Errors*: @ref error with @ref errc::io, or @ref errc::permission_denied where access is
///   refused (the system's text in `found`), and the object named by `describe`; other exceptions
///   are passed on too. A call that throws may have had its effect.
///
/// Not guaranteed: directories, partial overwrite, append.
/// **Models**: `file_store`, `memory_store`, `s3_store`. **Archetype**: `archetype::object_store`.
/// **Conformance**: `cairn/testing/object_store.hpp`.
template <class S>
concept ObjectStore = std::movable<S> && requires(S& s, std::string_view name, byte_span bytes,
                                                  std::span<std::byte> into, std::uint64_t n,
                                                  std::optional<object_tag> match) {
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

/// An ObjectStore that accepts at creation whether an object will be made durable: `s.create(name,
/// size, durable)`. With `durable`, or without the argument, it may start early to make the bytes
/// durable, so that `finish(true)` does not take as long as all writes together.
template <class S>
concept WriteBackStore = ObjectStore<S> && requires(S& s, std::string_view name, std::uint64_t n,
                                                    byte_span bytes, bool durable) {
    { s.create(name, n, durable).write(n, bytes) } -> std::same_as<void>;
};

/// An ObjectStore that can omit syncing, for saves with `sync_files` off: `s.without_sync()`
/// returns an `S` of the same place that makes nothing durable, and works where nothing can be
/// synced.
///
/// **Models**: `file_store`. **Archetype**: `archetype::unsynced_store`.
template <class S>
concept UnsyncedStore = ObjectStore<S> && requires(const S& s) {
    { s.without_sync() } -> std::same_as<S>;
};

/// An ObjectStore that gives warnings: `s.take_warnings()` returns a `std::vector<std::string>`
/// with those that are new since the last call. A save adds them to its report.
///
/// **Models**: `file_store`, `s3_store`. **Archetype**: `archetype::warning_store`.
template <class S>
concept WarningStore = ObjectStore<S> && requires(S& s) {
    { s.take_warnings() } -> std::same_as<std::vector<std::string>>;
};

/// An ObjectStore that wants several requests of one process at once: `s.requests_in_flight()`, a
/// `std::size_t`, at most 256. The files of a checkpoint are removed by that many threads (in other
/// stores one after the other), and a rank opens and reads with that many threads. It reads with
/// more if it has more cores; `thread_count` limits both.
///
/// **Models**: `s3_store`. **Archetype**: `archetype::many_requests_store`.
template <class S>
concept ManyRequestsStore = ObjectStore<S> && requires(const S& s) {
    { s.requests_in_flight() } -> std::same_as<std::size_t>;
};

/// An ObjectStore of which a host may see an old version for a while after another host has
/// replaced or removed an object: `s.lag()`, a `std::chrono::milliseconds`, says how long; 0:
/// never. What misses a file of a checkpoint looks for that long whether `.metadata` is another one
/// by now, before it says that the file is missing.
///
/// **Models**: `file_store`. **Archetype**: `archetype::lagging_store`.
template <class S>
concept LaggingStore = ObjectStore<S> && requires(const S& s) {
    { s.lag() } -> std::same_as<std::chrono::milliseconds>;
};

/// An ObjectStore whose handles for reading say how much one read should request, if that much is
/// wanted contiguously: `s.open(name).read_size()`, a `std::size_t`, which is called once, after
/// `open`. Payloads are read in pieces of that size, between 256 KiB, the size for other stores,
/// and 16 MiB. Each thread that reads may need twice that much memory: what is read ahead, and a
/// piece whose elements are scattered.
///
/// **Models**: `s3_store`. **Archetype**: `archetype::read_size_store`.
template <class S>
concept ReadSizeStore = ObjectStore<S> && requires(S& s, std::string_view name) {
    { s.open(name).read_size() } -> std::same_as<std::size_t>;
};

/// An ObjectStore whose handles for reading can read past the caches of the host:
/// `s.open(name).read_uncached(at, into)`, a `std::size_t`. A load calls it for what no other rank
/// is likely to read, with some 4 MiB at a time.
///
/// - `at`, the address of `into` and its size are multiples of 4096 (`uncached_block_bytes`); it
///   may reach beyond the end of the object.
/// - Returns how many bytes it has read to the beginning of `into`. 0 if it cannot do that here, if
///   caches have these bytes anyway, or if it failed: they are then read with `read`, which reports
///   the failure. After 0 the memory may have changed.
/// - Throws nothing. Calls may run concurrently, with each other and with `read`.
///
/// **Models**: `file_store`. **Archetype**: `archetype::uncached_read_store`.
template <class S>
concept UncachedReadStore =
    ObjectStore<S> &&
    requires(S& s, std::string_view name, std::uint64_t at, std::span<std::byte> into) {
        { s.open(name).read_uncached(at, into) } -> std::same_as<std::size_t>;
    };

/// An ObjectStore whose handles for reading can read what takes no wait for storage:
/// `s.open(name).read_cached(at, into)`, a `bool`. A load calls it for short runs of bytes, as
/// columns are, with gaps of 4 KiB or more between them; if one cannot be read in this way, a long
/// stretch with its gaps is read with `read` instead, because each request to storage takes long.
///
/// - True: all of these bytes were read, from memory of this host. False: it has not all of them,
///   they are not there, or it cannot tell; the memory may have changed.
/// - Throws nothing. Calls may run concurrently, with each other and with `read`.
///
/// **Models**: `file_store`. **Archetype**: `archetype::cached_read_store`.
template <class S>
concept CachedReadStore = ObjectStore<S> && requires(S& s, std::string_view name, std::uint64_t at,
                                                     std::span<std::byte> into) {
    { s.open(name).read_cached(at, into) } -> std::same_as<bool>;
};

/// An ObjectStore whose handles for reading say which version they read: `s.open(name).tag()`, an
/// `object_tag`, which takes no request of its own and throws nothing but `std::bad_alloc`. Handles
/// with different tags read different versions; equal tags mean equal bytes as far as the store can
/// tell. The tag of a handle changes if what it reads does, e.g. a file that is written in place.
/// Empty: not known. It need not be what `s.tag(name)` returns. A load or a conversion of files
/// without a save id calls it when it reads the metadata, before and after it reads a file, and on
/// the coordinator at the end, to notice that a file was replaced or written.
///
/// **Models**: `file_store`, `memory_store`, `s3_store`, `https_store`. **Archetype**:
/// `archetype::versioned_read_store`.
template <class S>
concept VersionedReadStore = ObjectStore<S> && requires(S& s, std::string_view name) {
    { s.open(name).tag() } -> std::same_as<object_tag>;
};

/// The alignment of uncached reads.
inline constexpr std::size_t uncached_block_bytes = 4096;

namespace detail {

/// A size that stays in the L2 cache until its checksum is computed.
inline constexpr std::size_t usual_read_size = std::size_t{256} << 10;
inline constexpr std::size_t largest_read_size = std::size_t{16} << 20;

constexpr std::size_t within(std::size_t n, std::size_t least, std::size_t most) noexcept {
    return n < least ? least : n > most ? most : n;
}

/// The size of the pieces that a handle is read in: a multiple of 256 KiB.
template <class Handle>
std::size_t read_size_of([[maybe_unused]] Handle& h) {
    if constexpr (requires {
                      { h.read_size() } -> std::same_as<std::size_t>;
                  })
        return within(h.read_size() / usual_read_size * usual_read_size, usual_read_size,
                      largest_read_size);
    else
        return usual_read_size;
}

/// Returns which version a handle reads, if it says that.
template <class Handle>
object_tag version_of([[maybe_unused]] Handle& h) {
    if constexpr (requires {
                      { h.tag() } -> std::same_as<object_tag>;
                  })
        return h.tag();
    else
        return {};
}

/// Returns how many requests of this process a store wants at once.
template <ObjectStore Store>
std::size_t requests_in_flight_of([[maybe_unused]] const Store& s) {
    if constexpr (ManyRequestsStore<Store>)
        return within(s.requests_in_flight(), 1, 256);
    else
        return 1;
}

/// Returns how long a host may see an old version of a store's object.
template <ObjectStore Store>
std::chrono::milliseconds lag_of([[maybe_unused]] const Store& s) {
    if constexpr (LaggingStore<Store>)
        return s.lag();
    else
        return {};
}

/// Lets a store do now what `publish` with a tag would do first.
template <ObjectStore Store>
void prepare_publish([[maybe_unused]] Store& s, [[maybe_unused]] std::string_view name) {
    if constexpr (requires { s.prepare_publish(name); }) s.prepare_publish(name);
}

/// An ObjectStore whose `publish` has a last look.
template <class S>
concept LooksLast =
    requires(S& s, std::string_view name, byte_span bytes, std::optional<object_tag> match,
             const std::function<void()>& look) { s.publish(name, bytes, match, look); };

/// Replaces an object after a look at whether that may still happen, as late as the store can.
/// @param look  Throws if not; may be empty.
template <ObjectStore Store>
void publish_after(const std::function<void()>& look, Store& s, std::string_view name,
                   byte_span bytes, std::optional<object_tag> match) {
    if constexpr (LooksLast<Store>) {
        if (look) return s.publish(name, bytes, std::move(match), look);
    } else if (look) {
        look();
    }
    s.publish(name, bytes, std::move(match));
}

/// Gives an object or a place the permissions of another one, in a store that has some.
/// @param only_fewer  Only takes away, so that nobody but the owner may write.
template <ObjectStore Store>
void adopt_permissions([[maybe_unused]] Store& s, [[maybe_unused]] std::string_view from,
                       [[maybe_unused]] std::string_view to, [[maybe_unused]] bool only_fewer) {
    if constexpr (requires { s.adopt_permissions(from, to, only_fewer); })
        s.adopt_permissions(from, to, only_fewer);
}

/// Removes what trials have left, in a store that tries its server.
template <ObjectStore Store>
void remove_trials([[maybe_unused]] Store& s) {
    if constexpr (requires { s.remove_trials(); }) s.remove_trials();
}

/// Lists objects without those that are unfinished, if the store can tell.
template <ObjectStore Store>
std::vector<object_info> list_finished(Store& s) {
    if constexpr (requires {
                      { s.list_finished() } -> std::same_as<std::vector<object_info>>;
                  })
        return s.list_finished();
    else
        return s.list();
}

/// Ends what is being written under a name, in a store that can. An object of that name stays.
template <ObjectStore Store>
void end_uploads([[maybe_unused]] Store& s, [[maybe_unused]] std::string_view name) {
    if constexpr (requires { s.end_uploads(name); }) s.end_uploads(name);
}

/// Removes an object under a name that others may use again, of which this version was seen just
/// now.
template <ObjectStore Store>
void remove_version(Store& s, std::string_view name, [[maybe_unused]] const object_tag& version) {
    if constexpr (requires { s.remove(name, version); })
        s.remove(name, version);
    else
        s.remove(name);
}

/// Reads a prefix of these bytes past the caches of the host, if the handle can do that.
template <class Handle>
std::size_t read_uncached_of([[maybe_unused]] Handle& h, [[maybe_unused]] std::uint64_t at,
                             [[maybe_unused]] std::span<std::byte> into) {
    if constexpr (requires {
                      { h.read_uncached(at, into) } -> std::same_as<std::size_t>;
                  })
        return within(h.read_uncached(at, into), 0, into.size());
    else
        return 0;
}

/// Reads bytes that memory of this host has, if the handle can do that.
template <class Handle>
bool read_cached_of([[maybe_unused]] Handle& h, [[maybe_unused]] std::uint64_t at,
                    [[maybe_unused]] std::span<std::byte> into) {
    if constexpr (requires {
                      { h.read_cached(at, into) } -> std::same_as<bool>;
                  })
        return h.read_cached(at, into);
    else
        return false;
}

}  // namespace detail

/// An ObjectStore that can be relocated: `s.at(id)` is the store of that checkpoint. Required by
/// `checkpoint_id`. A relative id is a place within the store's own.
template <class S>
concept RelocatableStore = ObjectStore<S> && requires(const S& s, const std::string& id) {
    { s.at(id) } -> std::same_as<S>;
};

/// A place within a store.
struct place_info {
    std::string id{};           ///< For `at`.
    std::int64_t modified = 0;  ///< When its objects were last made or removed; 0: not known.
    bool linked = false;        ///< It is a link to a place elsewhere, where nothing is removed.
    /// Of one of its objects, by `places_with`; empty text: there is none. Not set: not known.
    std::optional<object_tag> tag{};
};

/// A RelocatableStore that can list the places directly within its own:
///
/// | Expression           | Type                       | Meaning                                |
/// |----------------------|----------------------------|----------------------------------------|
/// | `s.places()`         | `std::vector<std::string>` | their ids, for `at`, in order; may omit those without objects |
/// | `s.remove_place(id)` | `void`                     | removes what is left of a place without objects, durably |
///
/// `remove_place` does nothing if there is no such place, or if it has objects.
///
/// More is optional. `s.all_places()`, a `std::vector<place_info>`, returns these and links
/// to places elsewhere, but none to one that is listed anyway; a `checkpointer` then notices
/// changes that others make in a place. `s.place_id(id)`, a `std::string`, returns the id under
/// which a place is listed, given any of its names; without this member, `./a` and `a/` are `a`.
/// Where each request costs much, two more spare one for each place: `s.places_with(name)`, a
/// `std::vector<place_info>` whose tags are those of the object `name` in each place, and equal
/// ones of its calls mean equal bytes; and `s.list_tree()`, a `std::vector<object_info>` with all
/// objects of the store and of the places within it, with names such as `step_1/.metadata`.
/// **Models**: `file_store`, `memory_store`, `s3_store`, `prefixed_store` over most stores.
/// **Archetype**: `archetype::browsable_store`.
template <class S>
concept BrowsableStore = RelocatableStore<S> && requires(S& s, const std::string& id) {
    { s.places() } -> std::same_as<std::vector<std::string>>;
    { s.remove_place(id) } -> std::same_as<void>;
};

/// An ObjectStore whose objects several processes can write, each other bytes: `s.reopen(name)`
/// returns a handle like that of `create`, for an object that is finished. Its `finish(true)` makes
/// durable what was written with it; destroyed unfinished, it leaves the object. Handles of several
/// hosts must not write bytes of one page of their memory: of 4096 bytes, or 65536 on some hosts.
///
/// **Models**: `file_store`. **Archetype**: `archetype::shared_write_store`.
template <class S>
concept SharedWriteStore =
    ObjectStore<S> && requires(S& s, std::string_view name, std::uint64_t n, byte_span bytes) {
        { s.reopen(name).write(n, bytes) } -> std::same_as<void>;
        { s.reopen(name).finish(true) } -> std::same_as<void>;
    };

/// What has a name in a store.
enum class name_kind {
    none,
    object,
    place,
    mount,  ///< An object or place that cannot get another name: a file system is mounted there.
    other,  ///< E.g. a link, which stays as it is.
};

/// A BrowsableStore that can give a place, or an object, another name in one step: formats whose
/// files have fixed names are written aside and then put where they belong.
///
/// Given `a` and `b` of type `std::string_view`, names of objects or places within the store's own,
/// as those of objects:
///
/// | Expression          | Type                       | Meaning                                   |
/// |---------------------|----------------------------|-------------------------------------------|
/// | `s.kind_of(a)`      | `name_kind`                | what has the name                         |
/// | `s.move(a, b)`      | `void`                     | `a` gets the name `b`                     |
/// | `s.exchange(a, b)`  | `void`                     | each gets the name of the other           |
/// | `s.hidden_places()` | `std::vector<std::string>` | those directly within whose names begin with `.`, in order; `places` omits them |
/// | `s.others()`        | `std::vector<std::string>` | names directly within, in order, of what is neither object nor place, e.g. of links to places |
/// | `s.remove_tree(a)`  | `void`                     | removes a place with all that is in it; no error if there is none |
///
/// **Semantics**
/// - `move` and `exchange` are atomic: whoever opens an object by its name sees it before the step
///   or after it. They are durable after `sync`, of this store and of the place of the other name.
/// - `move` fails with @ref errc::already_exists if there is a `b`; both fail with
///   @ref errc::not_found if one that must exist does not, and with @ref errc::unsupported if the
///   storage cannot do such a step; nothing has changed then.
/// - `remove_tree` follows no links. It is not atomic.
/// - Where objects and places have permissions, an optional `s.adopt_permissions(from, to, fewer)`
///   gives `to` those of `from`, before it takes the name of that, but not its owner. If `fewer`,
///   nobody gets more than before, and nobody but the owner may write.
///
/// **Models**: `file_store`, `memory_store`, `prefixed_store` over these. **Archetype**:
/// `archetype::renaming_store`. **Conformance**: `cairn/testing/renaming_store.hpp`.
template <class S>
concept RenamingStore = BrowsableStore<S> && requires(S& s, std::string_view a) {
    { s.kind_of(a) } -> std::same_as<name_kind>;
    { s.move(a, a) } -> std::same_as<void>;
    { s.exchange(a, a) } -> std::same_as<void>;
    { s.hidden_places() } -> std::same_as<std::vector<std::string>>;
    { s.others() } -> std::same_as<std::vector<std::string>>;
    { s.remove_tree(a) } -> std::same_as<void>;
};

}  // namespace cairn

#endif
