// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_ANY_STORE_HPP
#define CAIRN_OBJECT_STORE_ANY_STORE_HPP

#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/detail/names.hpp>
#include <cairn/object_store/prefixed.hpp>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

/// A store of any type, which is known only when the program runs: a type-erased ObjectStore, one
/// virtual call per operation. The formats above it are compiled once for all stores. Copies share
/// one store.
class any_store {
    struct writer_interface {
        virtual ~writer_interface() = default;
        virtual void write(std::uint64_t at, byte_span) = 0;
        virtual void finish(bool durable) = 0;
    };
    struct reader_interface {
        virtual ~reader_interface() = default;
        virtual void read(std::uint64_t at, std::span<std::byte> into) = 0;
        virtual std::uint64_t size() = 0;
        virtual std::size_t read_size() = 0;
        virtual object_tag tag() = 0;
        virtual std::size_t read_uncached(std::uint64_t at, std::span<std::byte> into) = 0;
        virtual bool read_cached(std::uint64_t at, std::span<std::byte> into) = 0;
    };
    struct store_interface {
        virtual ~store_interface() = default;
        virtual std::unique_ptr<writer_interface> create(std::string_view, std::uint64_t size,
                                                         bool durable) = 0;
        virtual void publish(std::string_view, byte_span, std::optional<object_tag>,
                             const std::function<void()>& look) = 0;
        virtual void prepare_publish(std::string_view) = 0;
        virtual std::unique_ptr<reader_interface> open(std::string_view) = 0;
        virtual object_tag tag(std::string_view) = 0;
        virtual std::vector<object_info> list() = 0;
        virtual std::vector<object_info> list_finished() = 0;
        virtual void remove(std::string_view) = 0;
        virtual void remove(std::string_view, const object_tag& version) = 0;
        virtual void sync() = 0;
        virtual std::string describe(std::string_view) = 0;
        virtual std::shared_ptr<store_interface> at(const std::string& id) const = 0;
        virtual bool browsable() const = 0;
        virtual std::vector<std::string> places() = 0;
        virtual std::vector<place_info> all_places() = 0;
        virtual std::vector<place_info> places_with(std::string_view) = 0;
        virtual std::optional<std::vector<object_info>> list_tree() = 0;
        virtual std::string place_id(const std::string& id) const = 0;
        virtual void remove_place(const std::string& id) = 0;
        virtual void remove_trials() = 0;
        virtual void end_uploads(std::string_view) = 0;
        virtual std::shared_ptr<store_interface> without_sync() const = 0;
        virtual std::vector<std::string> take_warnings() = 0;
        virtual std::size_t requests_in_flight() const = 0;
        virtual std::chrono::milliseconds lag() const = 0;
        virtual bool shares_writes() const = 0;
        virtual std::unique_ptr<writer_interface> reopen(std::string_view) = 0;
        virtual bool renames() const = 0;
        virtual name_kind kind_of(std::string_view) = 0;
        virtual void move(std::string_view from, std::string_view to) = 0;
        virtual void exchange(std::string_view a, std::string_view b) = 0;
        virtual void adopt_permissions(std::string_view from, std::string_view to,
                                       bool only_fewer) = 0;
        virtual std::vector<std::string> hidden_places() = 0;
        virtual std::vector<std::string> others() = 0;
        virtual void remove_tree(std::string_view) = 0;
    };
    template <class Handle>
    struct writer_of final : writer_interface {
        explicit writer_of(Handle h) : h_(std::move(h)) {}
        void write(std::uint64_t at, byte_span b) override { h_.write(at, b); }
        void finish(bool durable) override { h_.finish(durable); }
        Handle h_;
    };
    template <class Handle>
    struct reader_of final : reader_interface {
        explicit reader_of(Handle h) : h_(std::move(h)) {}
        void read(std::uint64_t at, std::span<std::byte> into) override { h_.read(at, into); }
        std::uint64_t size() override { return h_.size(); }
        std::size_t read_size() override { return detail::read_size_of(h_); }
        object_tag tag() override { return detail::version_of(h_); }
        std::size_t read_uncached(std::uint64_t at, std::span<std::byte> into) override {
            return detail::read_uncached_of(h_, at, into);
        }
        bool read_cached(std::uint64_t at, std::span<std::byte> into) override {
            return detail::read_cached_of(h_, at, into);
        }
        Handle h_;
    };
    template <ObjectStore Store>
    struct store_of final : store_interface {
        explicit store_of(Store s) : s_(std::move(s)) {}
        std::unique_ptr<writer_interface> create(std::string_view name, std::uint64_t size,
                                                 [[maybe_unused]] bool durable) override {
            auto const begin = [&] {
                if constexpr (WriteBackStore<Store>)
                    return s_.create(name, size, durable);
                else
                    return s_.create(name, size);
            };
            return std::make_unique<writer_of<decltype(begin())>>(begin());
        }
        void publish(std::string_view name, byte_span b, std::optional<object_tag> match,
                     const std::function<void()>& look) override {
            detail::publish_after(look, s_, name, b, std::move(match));
        }
        void prepare_publish(std::string_view name) override { detail::prepare_publish(s_, name); }
        std::unique_ptr<reader_interface> open(std::string_view name) override {
            return std::make_unique<reader_of<decltype(s_.open(name))>>(s_.open(name));
        }
        object_tag tag(std::string_view name) override { return s_.tag(name); }
        std::vector<object_info> list() override { return s_.list(); }
        std::vector<object_info> list_finished() override { return detail::list_finished(s_); }
        void remove(std::string_view name) override { s_.remove(name); }
        void remove(std::string_view name, const object_tag& version) override {
            detail::remove_version(s_, name, version);
        }
        void sync() override { s_.sync(); }
        std::string describe(std::string_view name) override { return s_.describe(name); }
        std::shared_ptr<store_interface> at([[maybe_unused]] const std::string& id) const override {
            if constexpr (RelocatableStore<Store>)
                return std::make_shared<store_of>(s_.at(id));
            else
                return nullptr;
        }
        bool browsable() const override { return BrowsableStore<Store>; }
        std::vector<std::string> places() override {
            if constexpr (BrowsableStore<Store>)
                return s_.places();
            else
                throw error(errc::unsupported,
                            {.file = s_.describe("."),
                             .expected = "a store that can list its places (BrowsableStore)",
                             .found = "one without places()"});
        }
        std::vector<place_info> all_places() override {
            if constexpr (requires {
                              { s_.all_places() } -> std::same_as<std::vector<place_info>>;
                          })
                return s_.all_places();
            std::vector<place_info> out;
            for (auto& id : places()) out.push_back({std::move(id)});
            return out;
        }
        std::vector<place_info> places_with([[maybe_unused]] std::string_view name) override {
            if constexpr (requires {
                              { s_.places_with(name) } -> std::same_as<std::vector<place_info>>;
                          })
                return s_.places_with(name);
            return all_places();
        }
        std::optional<std::vector<object_info>> list_tree() override {
            if constexpr (requires {
                              { s_.list_tree() } -> std::same_as<std::vector<object_info>>;
                          })
                return s_.list_tree();
            return {};
        }
        std::string place_id(const std::string& id) const override {
            if constexpr (requires {
                              { s_.place_id(id) } -> std::same_as<std::string>;
                          })
                return s_.place_id(id);
            return detail::plain_place_id(id);
        }
        void remove_place([[maybe_unused]] const std::string& id) override {
            if constexpr (BrowsableStore<Store>) s_.remove_place(id);
        }
        void remove_trials() override { detail::remove_trials(s_); }
        void end_uploads(std::string_view name) override { detail::end_uploads(s_, name); }
        std::shared_ptr<store_interface> without_sync() const override {
            if constexpr (UnsyncedStore<Store>)
                return std::make_shared<store_of>(s_.without_sync());
            else
                return nullptr;
        }
        std::vector<std::string> take_warnings() override {
            if constexpr (WarningStore<Store>)
                return s_.take_warnings();
            else
                return {};
        }
        std::size_t requests_in_flight() const override {
            return detail::requests_in_flight_of(s_);
        }
        std::chrono::milliseconds lag() const override { return detail::lag_of(s_); }
        bool shares_writes() const override { return SharedWriteStore<Store>; }
        std::unique_ptr<writer_interface> reopen([[maybe_unused]] std::string_view name) override {
            if constexpr (SharedWriteStore<Store>)
                return std::make_unique<writer_of<decltype(s_.reopen(name))>>(s_.reopen(name));
            else
                throw error(errc::unsupported,
                            {.file = s_.describe(name),
                             .expected = "a store whose objects several processes can write "
                                         "(SharedWriteStore)",
                             .found = "one without reopen()"});
        }
        bool renames() const override { return RenamingStore<Store>; }
        name_kind kind_of(std::string_view n) override {
            if constexpr (RenamingStore<Store>) return s_.kind_of(n);
            throw cannot_rename();
        }
        void move(std::string_view from, std::string_view to) override {
            if constexpr (RenamingStore<Store>) return s_.move(from, to);
            throw cannot_rename();
        }
        void exchange(std::string_view a, std::string_view b) override {
            if constexpr (RenamingStore<Store>) return s_.exchange(a, b);
            throw cannot_rename();
        }
        void adopt_permissions(std::string_view from, std::string_view to,
                               bool only_fewer) override {
            detail::adopt_permissions(s_, from, to, only_fewer);
        }
        std::vector<std::string> hidden_places() override {
            if constexpr (RenamingStore<Store>) return s_.hidden_places();
            throw cannot_rename();
        }
        std::vector<std::string> others() override {
            if constexpr (RenamingStore<Store>) return s_.others();
            throw cannot_rename();
        }
        void remove_tree(std::string_view n) override {
            if constexpr (RenamingStore<Store>) return s_.remove_tree(n);
            throw cannot_rename();
        }
        error cannot_rename() {
            return error(errc::unsupported,
                         {.file = s_.describe("."),
                          .expected = "a store that can rename its places (RenamingStore)",
                          .found = "one without move() and exchange()",
                          .remedy = "use e.g. a file_store"});
        }
        Store s_;
    };

public:
    /// An object that is being written. Threads: any, for disjoint ranges.
    class writer {
    public:
        explicit writer(std::unique_ptr<writer_interface> w) : w_(std::move(w)) {}
        void write(std::uint64_t at, byte_span b) { w_->write(at, b); }
        void finish(bool durable) { w_->finish(durable); }

    private:
        std::unique_ptr<writer_interface> w_;
    };
    class reader {
    public:
        explicit reader(std::unique_ptr<reader_interface> r) : r_(std::move(r)) {}
        /// Erases the handle of a store that is not erased.
        template <class Handle>
        static reader of(Handle h) {
            return reader(std::make_unique<reader_of<Handle>>(std::move(h)));
        }
        void read(std::uint64_t at, std::span<std::byte> into) { r_->read(at, into); }
        std::uint64_t size() { return r_->size(); }
        std::size_t read_size() { return r_->read_size(); }
        /// Empty if the store is no VersionedReadStore.
        object_tag tag() { return r_->tag(); }
        std::size_t read_uncached(std::uint64_t at, std::span<std::byte> into) {
            return r_->read_uncached(at, into);
        }
        bool read_cached(std::uint64_t at, std::span<std::byte> into) {
            return r_->read_cached(at, into);
        }

    private:
        std::unique_ptr<reader_interface> r_;
    };

    // The order matters: this constructor is also considered when the store is checked to be
    // movable.
    template <class Store>
        requires(!std::same_as<Store, any_store> && ObjectStore<Store>)
    explicit any_store(Store s) : s_(std::make_shared<store_of<Store>>(std::move(s))) {}

    /// Erases a store that the caller keeps: by copy if copies share the place, otherwise by
    /// reference.
    template <ObjectStore Store>
    static any_store share(Store& store) {
        if constexpr (RelocatableStore<Store> && std::copy_constructible<Store>)
            return any_store(Store(store));
        else
            return any_store(prefixed_store<Store>(store));
    }

    /// Returns the store of that checkpoint, if the store can be relocated; otherwise this one.
    any_store at(const std::string& id) const {
        any_store other(*this);
        if (auto there = s_->at(id)) other.s_ = std::move(there);
        return other;
    }
    /// Returns a store that omits syncing, if the store can do that; otherwise this one.
    any_store without_sync() const {
        any_store other(*this);
        if (auto unsynced = s_->without_sync()) other.s_ = std::move(unsynced);
        return other;
    }
    std::vector<std::string> take_warnings() { return s_->take_warnings(); }
    std::size_t requests_in_flight() const { return s_->requests_in_flight(); }
    std::chrono::milliseconds lag() const { return s_->lag(); }
    writer create(std::string_view name, std::uint64_t size, bool durable = true) {
        return writer(s_->create(name, size, durable));
    }
    void publish(std::string_view name, byte_span b, std::optional<object_tag> match,
                 const std::function<void()>& look = {}) {
        s_->publish(name, b, std::move(match), look);
    }
    void prepare_publish(std::string_view name) { s_->prepare_publish(name); }
    reader open(std::string_view name) { return reader(s_->open(name)); }
    object_tag tag(std::string_view name) { return s_->tag(name); }
    std::vector<object_info> list() { return s_->list(); }
    /// Lists the same, perhaps without unfinished objects.
    std::vector<object_info> list_finished() { return s_->list_finished(); }
    /// Whether the store can list its places.
    bool browsable() const { return s_->browsable(); }
    /// @throws error errc::unsupported if it cannot
    std::vector<std::string> places() { return s_->places(); }
    /// Returns the places, and links to places if the store lists them.
    std::vector<place_info> all_places() { return s_->all_places(); }
    /// Returns the same, with the tags of one of their objects if the store lists them.
    std::vector<place_info> places_with(std::string_view name) { return s_->places_with(name); }
    /// Returns all objects in it and in places within it; nothing if that takes many requests.
    std::optional<std::vector<object_info>> list_tree() { return s_->list_tree(); }
    /// Returns the id in `places` of the place that an id names, however it is written.
    std::string place_id(const std::string& id) const { return s_->place_id(id); }
    void remove_place(const std::string& id) { s_->remove_place(id); }
    void remove_trials() { s_->remove_trials(); }
    void end_uploads(std::string_view name) { s_->end_uploads(name); }
    /// Whether the store is a SharedWriteStore; if not, the next function throws errc::unsupported.
    bool shares_writes() const { return s_->shares_writes(); }
    writer reopen(std::string_view name) { return writer(s_->reopen(name)); }
    /// Whether the store is a RenamingStore; if not, the next functions throw errc::unsupported.
    bool renames() const { return s_->renames(); }
    name_kind kind_of(std::string_view name) { return s_->kind_of(name); }
    void move(std::string_view from, std::string_view to) { s_->move(from, to); }
    void exchange(std::string_view a, std::string_view b) { s_->exchange(a, b); }
    void adopt_permissions(std::string_view from, std::string_view to, bool only_fewer) {
        s_->adopt_permissions(from, to, only_fewer);
    }
    std::vector<std::string> hidden_places() { return s_->hidden_places(); }
    std::vector<std::string> others() { return s_->others(); }
    void remove_tree(std::string_view name) { s_->remove_tree(name); }
    void remove(std::string_view name) { s_->remove(name); }
    /// In doubt removes only this version, if the store can tell.
    void remove(std::string_view name, const object_tag& version) { s_->remove(name, version); }
    void sync() { s_->sync(); }
    std::string describe(std::string_view name) { return s_->describe(name); }

private:
    std::shared_ptr<store_interface> s_;
};
static_assert(RenamingStore<any_store> && SharedWriteStore<any_store> && WriteBackStore<any_store>);

}  // namespace cairn

#endif
