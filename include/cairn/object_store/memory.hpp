// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_MEMORY_HPP
#define CAIRN_OBJECT_STORE_MEMORY_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/concepts.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

/// Stores objects in memory: for tests, and to pass state to another job of this process.
///
/// Copies, and the stores that `at` returns, share the same objects.
class memory_store {
    struct object {
        byte_vector bytes;
        std::uint64_t version = 0;
        std::int64_t modified = 0;
    };
    struct state;

public:
    memory_store();

    /// The place `id` within this one: its object `x` is this store's `id/x`.
    memory_store at(std::string id) const;

    /// An object that is being written; not visible before `finish`.
    class writer {
    public:
        writer(std::shared_ptr<state> s, std::string key, std::uint64_t number, byte_vector bytes);
        writer(writer&& other) noexcept;
        writer& operator=(writer&& other) noexcept;
        ~writer();

        /// Disjoint ranges of one object may be written from several threads.
        void write(std::uint64_t at, byte_span b);
        /// @throws error errc::io if the object was removed in the meantime.
        void finish(bool);

    private:
        void discard() noexcept;

        std::shared_ptr<state> s_;
        std::string key_;
        std::uint64_t number_;
        byte_vector bytes_;
    };

    class reader {
    public:
        reader(std::shared_ptr<const object> o, std::string name);
        void read(std::uint64_t at, std::span<std::byte> into) const;
        std::uint64_t size() const noexcept { return o_->bytes.size(); }
        /// As @ref memory_store::tag: the version that was opened.
        object_tag tag() const { return {std::to_string(o_->version)}; }

    private:
        std::shared_ptr<const object> o_;
        std::string name_;
    };

    writer create(std::string_view name, std::uint64_t size);
    /// An unfinished object with this name loses it, as a file would.
    void publish(std::string_view name, byte_span b, std::optional<object_tag> if_match);
    reader open(std::string_view name);
    object_tag tag(std::string_view name);
    std::vector<object_info> list();
    /// Except hidden ones.
    std::vector<std::string> places();
    /// Nothing is left of a place without objects.
    void remove_place(const std::string&) {}
    void remove(std::string_view name);
    /// See @ref RenamingStore.
    name_kind kind_of(std::string_view name);
    void move(std::string_view from, std::string_view to);
    void exchange(std::string_view a, std::string_view b);
    std::vector<std::string> hidden_places();
    std::vector<std::string> others() { return {}; }
    void remove_tree(std::string_view name);
    void sync() {}
    std::string describe(std::string_view name);

private:
    struct named;

    std::vector<std::string> places_that(bool hidden);
    void rename(std::string_view from, std::string_view to, bool both);
    std::string key(std::string_view name) const;
    error no_room(std::string_view name, std::uint64_t size);
    static std::string words(const object_tag& t);
    object_tag tag_of(const std::string& full) const;

    std::shared_ptr<state> s_;
    std::string prefix_;
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/memory.ipp>
#endif

#endif
