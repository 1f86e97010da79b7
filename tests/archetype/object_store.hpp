// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_ARCHETYPE_OBJECT_STORE_HPP
#define CAIRN_TESTS_ARCHETYPE_OBJECT_STORE_HPP

#include "stingy.hpp"

#include <cairn/object_store/memory.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The least that `ObjectStore` asks for, and types that miss one requirement each.
namespace cairn::archetype {

/// A size that only converts.
class byte_count : stingy {
public:
    explicit byte_count(std::uint64_t n) : n_(n) {}
    operator std::uint64_t() const { return n_; }

private:
    std::uint64_t n_;
};

/// Movable once made, and nothing else: handles are never assigned.
class write_handle : stingy {
public:
    explicit write_handle(memory_store::writer w) : inner_(std::move(w)) {}
    void write(std::uint64_t at, byte_span b) { inner_.write(at, b); }
    void finish(bool durable) { inner_.finish(durable); }

private:
    memory_store::writer inner_;
};
class read_handle : stingy {
public:
    explicit read_handle(memory_store::reader r) : inner_(std::move(r)) {}
    void read(std::uint64_t at, std::span<std::byte> into) { inner_.read(at, into); }
    byte_count size() { return byte_count(inner_.size()); }

private:
    memory_store::reader inner_;
};

/// Objects in memory that somebody else may share. Cannot be copied or pointed elsewhere.
class object_store : stingy_part {
public:
    explicit object_store(memory_store s) : stingy_part(0), inner_(std::move(s)) {}

    write_handle create(std::string_view n, std::uint64_t size) {
        return write_handle(inner_.create(flat(n), size));
    }
    void publish(std::string_view n, byte_span b, std::optional<object_tag> match) {
        inner_.publish(flat(n), b, std::move(match));
    }
    read_handle open(std::string_view n) { return read_handle(inner_.open(flat(n))); }
    object_tag tag(std::string_view n) { return inner_.tag(flat(n)); }
    std::vector<object_info> list() {
        auto all = inner_.list();
        for (auto& info : all) std::replace(info.name.begin(), info.name.end(), '|', '/');
        return all;
    }
    void remove(std::string_view n) { inner_.remove(flat(n)); }
    void sync() { inner_.sync(); }
    std::string describe(std::string_view n) { return inner_.describe(n); }

private:
    /// A store that cannot be pointed elsewhere lists all its names, those with a slash too.
    static std::string flat(std::string_view n) {
        std::string s(n);
        std::replace(s.begin(), s.end(), '/', '|');
        return s;
    }
    memory_store inner_;
};
static_assert(ObjectStore<object_store> && !RelocatableStore<object_store>);

/// The same, which can be pointed at a place: the least `RelocatableStore`.
class relocatable_store : public object_store {
public:
    explicit relocatable_store(memory_store s) : object_store(s), base_(std::move(s)) {}
    relocatable_store at(const_lvalue<std::string> id) const {
        return relocatable_store(base_.at(id.get()));
    }

private:
    memory_store base_;
};
static_assert(RelocatableStore<relocatable_store> && !BrowsableStore<relocatable_store>);

/// The same, whose places can be listed: the least `BrowsableStore`.
class browsable_store : public object_store {
public:
    explicit browsable_store(memory_store s) : object_store(s), base_(std::move(s)) {}
    browsable_store at(const_lvalue<std::string> id) const {
        return browsable_store(base_.at(id.get()));
    }
    std::vector<std::string> places() { return base_.places(); }
    void remove_place(const_lvalue<std::string> id) { base_.remove_place(id.get()); }

private:
    memory_store base_;
};
static_assert(BrowsableStore<browsable_store>);

/// The same, whose places can be renamed: the least `RenamingStore`.
class renaming_store : public object_store {
public:
    explicit renaming_store(memory_store s) : object_store(s), base_(std::move(s)) {}
    renaming_store at(const_lvalue<std::string> id) const {
        return renaming_store(base_.at(id.get()));
    }
    std::vector<std::string> places() { return base_.places(); }
    void remove_place(const_lvalue<std::string> id) { base_.remove_place(id.get()); }
    name_kind kind_of(std::string_view n) { return base_.kind_of(n); }
    void move(std::string_view from, std::string_view to) { base_.move(from, to); }
    void exchange(std::string_view a, std::string_view b) { base_.exchange(a, b); }
    std::vector<std::string> hidden_places() { return base_.hidden_places(); }
    std::vector<std::string> others() { return base_.others(); }
    void remove_tree(std::string_view n) { base_.remove_tree(n); }

private:
    memory_store base_;
};
static_assert(RenamingStore<renaming_store> && !RenamingStore<browsable_store>);

/// The same, whose objects several processes can write: the least `SharedWriteStore`.
class shared_write_store : public object_store {
public:
    using object_store::object_store;
    write_handle reopen(std::string_view n) { return create(n, 0); }
};
static_assert(SharedWriteStore<shared_write_store> && !SharedWriteStore<object_store>);

/// The same, which can do without syncing: the least `UnsyncedStore`.
class unsynced_store : public object_store {
public:
    explicit unsynced_store(memory_store s) : object_store(s), base_(std::move(s)) {}
    unsynced_store without_sync() const { return unsynced_store(base_); }

private:
    memory_store base_;
};
static_assert(UnsyncedStore<unsynced_store> && !UnsyncedStore<object_store>);

/// The same, which tells what it has met: the least `WarningStore`.
class warning_store : public object_store {
public:
    using object_store::object_store;
    std::vector<std::string> take_warnings() { return {}; }
};
static_assert(WarningStore<warning_store> && !WarningStore<object_store>);

/// The same, which wants several requests at once: the least `ManyRequestsStore`.
class many_requests_store : public object_store {
public:
    using object_store::object_store;
    std::size_t requests_in_flight() const { return 16; }
};
static_assert(ManyRequestsStore<many_requests_store> && !ManyRequestsStore<object_store>);

/// The same, of which hosts may see an old version for a while: the least `LaggingStore`.
class lagging_store : public object_store {
public:
    using object_store::object_store;
    std::chrono::milliseconds lag() const { return {}; }
};
static_assert(LaggingStore<lagging_store> && !LaggingStore<object_store>);

/// The same, whose handles say how much one read should ask for: the least `ReadSizeStore`.
class read_size_handle : public read_handle {
public:
    using read_handle::read_handle;
    std::size_t read_size() { return std::size_t{1} << 20; }
};
class read_size_store : public object_store {
public:
    explicit read_size_store(memory_store s) : object_store(s), base_(std::move(s)) {}
    read_size_handle open(std::string_view n) { return read_size_handle(base_.open(n)); }

private:
    memory_store base_;
};
static_assert(ReadSizeStore<read_size_store> && !ReadSizeStore<object_store>);

/// The same, whose handles read past the caches of the host: the least `UncachedReadStore`.
class uncached_read_handle : public read_handle {
public:
    using read_handle::read_handle;
    std::size_t read_uncached(std::uint64_t, std::span<std::byte>) { return 0; }
};
class uncached_read_store : public object_store {
public:
    explicit uncached_read_store(memory_store s) : object_store(s), base_(std::move(s)) {}
    uncached_read_handle open(std::string_view n) { return uncached_read_handle(base_.open(n)); }

private:
    memory_store base_;
};
static_assert(UncachedReadStore<uncached_read_store> && !UncachedReadStore<object_store>);

/// The same, whose handles read what memory of the host has: the least `CachedReadStore`.
class cached_read_handle : public read_handle {
public:
    using read_handle::read_handle;
    bool read_cached(std::uint64_t, std::span<std::byte>) { return false; }
};
class cached_read_store : public object_store {
public:
    explicit cached_read_store(memory_store s) : object_store(s), base_(std::move(s)) {}
    cached_read_handle open(std::string_view n) { return cached_read_handle(base_.open(n)); }

private:
    memory_store base_;
};
static_assert(CachedReadStore<cached_read_store> && !CachedReadStore<object_store>);

/// The same, whose handles say which version they read: the least `VersionedReadStore`.
class versioned_read_handle : public read_handle {
public:
    using read_handle::read_handle;
    object_tag tag() { return {}; }
};
class versioned_read_store : public object_store {
public:
    explicit versioned_read_store(memory_store s) : object_store(s), base_(std::move(s)) {}
    versioned_read_handle open(std::string_view n) { return versioned_read_handle(base_.open(n)); }

private:
    memory_store base_;
};
static_assert(VersionedReadStore<versioned_read_store> && !VersionedReadStore<object_store>);

// Each hides one member: it is missing there, or of another type.
struct handle_without_write {
    void finish(bool);
};
struct handle_write_returns {
    std::size_t write(std::uint64_t, byte_span);
    void finish(bool);
};
struct handle_without_finish {
    void write(std::uint64_t, byte_span);
};
struct handle_finish_without_durable {
    void write(std::uint64_t, byte_span);
    void finish();
};
struct handle_without_read {
    std::uint64_t size();
};
struct handle_without_size {
    void read(std::uint64_t, std::span<std::byte>);
};
struct store_without_sync_returns_nothing : object_store {
    void without_sync() const;
};
struct store_requests_in_flight_is_int : object_store {
    int requests_in_flight() const;
};
struct store_lag_is_int : object_store {
    int lag() const;
};
struct store_take_warnings_is_text : object_store {
    std::string take_warnings();
};
struct handle_read_size_is_short : read_handle {
    std::uint32_t read_size();
};
struct handle_tag_is_text : read_handle {
    std::string tag();
};
struct handle_read_uncached_says_only_whether : read_handle {
    bool read_uncached(std::uint64_t, std::span<std::byte>);
};
struct handle_read_cached_says_how_much : read_handle {
    std::size_t read_cached(std::uint64_t, std::span<std::byte>);
};
struct handle_size_is_text {
    void read(std::uint64_t, std::span<std::byte>);
    std::string size();
};
template <class Handle>
struct store_that_creates : object_store {
    Handle create(std::string_view, std::uint64_t);
};
template <class Handle>
struct store_that_opens : object_store {
    Handle open(std::string_view);
};
struct store_immovable : object_store {
    store_immovable(store_immovable&&) = delete;
};
struct store_without_create : object_store {
    void create() = delete;
};
struct store_without_publish : object_store {
    void publish() = delete;
};
struct store_publish_without_match : object_store {
    void publish(std::string_view, byte_span);
};
struct store_without_open : object_store {
    void open() = delete;
};
struct store_without_tag : object_store {
    void tag() = delete;
};
struct store_tag_is_text : object_store {
    std::string tag(std::string_view);
};
struct store_without_list : object_store {
    void list() = delete;
};
struct store_list_of_names : object_store {
    std::vector<std::string> list();
};
struct store_without_remove : object_store {
    void remove() = delete;
};
struct store_remove_returns : object_store {
    bool remove(std::string_view);
};
struct store_without_sync : object_store {
    void sync() = delete;
};
struct store_without_describe : object_store {
    void describe() = delete;
};
struct store_describe_is_view : object_store {
    std::string_view describe(std::string_view);
};
struct store_at_not_const : object_store {
    store_at_not_const at(std::string);
};
struct store_at_another : object_store {
    object_store at(std::string) const;
};
struct store_without_places : relocatable_store {
    store_without_places at(std::string) const;
    void remove_place(const std::string&);
};
struct store_places_of_views : store_without_places {
    store_places_of_views at(std::string) const;
    std::vector<std::string_view> places();
};
struct store_without_remove_place : relocatable_store {
    store_without_remove_place at(std::string) const;
    std::vector<std::string> places();
};
struct store_remove_place_returns : store_without_remove_place {
    store_remove_place_returns at(std::string) const;
    bool remove_place(const std::string&);
};

struct store_reopens_for_reading : object_store {
    read_handle reopen(std::string_view);
};
static_assert(!SharedWriteStore<store_reopens_for_reading>);
struct store_kind_is_bool : renaming_store {
    store_kind_is_bool at(std::string) const;
    bool kind_of(std::string_view);
};
struct store_without_exchange : renaming_store {
    store_without_exchange at(std::string) const;
    void exchange(std::string_view) = delete;
};
struct store_move_returns : renaming_store {
    store_move_returns at(std::string) const;
    bool move(std::string_view, std::string_view);
};
struct store_without_hidden_places : renaming_store {
    store_without_hidden_places at(std::string) const;
    void hidden_places() = delete;
};
struct store_without_others : renaming_store {
    store_without_others at(std::string) const;
    void others() = delete;
};
struct store_without_remove_tree : renaming_store {
    store_without_remove_tree at(std::string) const;
    void remove_tree() = delete;
};

static_assert(ObjectStore<store_that_creates<write_handle>>);
static_assert(ObjectStore<store_that_opens<read_handle>>);
static_assert(!ObjectStore<store_that_creates<handle_without_write>>);
static_assert(!ObjectStore<store_that_creates<handle_write_returns>>);
static_assert(!ObjectStore<store_that_creates<handle_without_finish>>);
static_assert(!ObjectStore<store_that_creates<handle_finish_without_durable>>);
static_assert(!ObjectStore<store_that_opens<handle_without_read>>);
static_assert(!ObjectStore<store_that_opens<handle_without_size>>);
static_assert(!ObjectStore<store_that_opens<handle_size_is_text>>);
static_assert(!ObjectStore<store_immovable> && !ObjectStore<store_without_create>);
static_assert(!ObjectStore<store_without_publish> && !ObjectStore<store_publish_without_match>);
static_assert(!ObjectStore<store_without_open> && !ObjectStore<store_without_tag>);
static_assert(!ObjectStore<store_tag_is_text> && !ObjectStore<store_without_list>);
static_assert(!ObjectStore<store_list_of_names> && !ObjectStore<store_without_remove>);
static_assert(!ObjectStore<store_remove_returns> && !ObjectStore<store_without_sync>);
static_assert(!ObjectStore<store_without_describe> && !ObjectStore<store_describe_is_view>);
static_assert(ObjectStore<store_at_not_const> && !RelocatableStore<store_at_not_const>);
static_assert(ObjectStore<store_at_another> && !RelocatableStore<store_at_another>);
static_assert(!BrowsableStore<store_without_places> && !BrowsableStore<store_places_of_views>);
static_assert(!BrowsableStore<store_without_remove_place>);
static_assert(!BrowsableStore<store_remove_place_returns>);
static_assert(BrowsableStore<store_kind_is_bool> && !RenamingStore<store_kind_is_bool>);
static_assert(!RenamingStore<store_without_exchange> && !RenamingStore<store_move_returns>);
static_assert(!RenamingStore<store_without_hidden_places> && !RenamingStore<store_without_others>);
static_assert(!RenamingStore<store_without_remove_tree>);
static_assert(!UnsyncedStore<store_without_sync_returns_nothing>);
static_assert(!WarningStore<store_take_warnings_is_text>);
static_assert(!ManyRequestsStore<store_requests_in_flight_is_int>);
static_assert(!LaggingStore<store_lag_is_int>);
static_assert(ObjectStore<store_that_opens<handle_read_size_is_short>> &&
              !ReadSizeStore<store_that_opens<handle_read_size_is_short>>);
static_assert(ObjectStore<store_that_opens<handle_tag_is_text>> &&
              !VersionedReadStore<store_that_opens<handle_tag_is_text>>);
static_assert(ObjectStore<store_that_opens<handle_read_uncached_says_only_whether>> &&
              !UncachedReadStore<store_that_opens<handle_read_uncached_says_only_whether>>);
static_assert(ObjectStore<store_that_opens<handle_read_cached_says_how_much>> &&
              !CachedReadStore<store_that_opens<handle_read_cached_says_how_much>>);

}  // namespace cairn::archetype

#endif
