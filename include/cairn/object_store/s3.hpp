// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_S3_HPP
#define CAIRN_OBJECT_STORE_S3_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/s3_options.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {
namespace detail::s3 {
class shared;
}

/// Stores objects in a bucket of an S3 service: AWS's, or another one's with its interface. Needs
/// libcurl 7.88 and OpenSSL 3.
///
/// Copies, and what `at` returns, are one store: they share connections, threads, memory for what
/// is sent, and what was learned of the server. A forked child has its own of these, and can use
/// the store; handles that are open at the fork belong to the parent.
///
/// - *Requests* are signed by AWS's Signature Version 4, and tried again as the options say. Each
///   takes a thread of the caller's while it lasts; parts of larger objects are sent by threads of
///   the store, which end with it.
/// - *Exclusive*: the first `publish` with a tag tries whether the server heeds conditions, with a
///   small object `.cairn-trial.*` beside the one that is published; the others rely on it. An
///   object of at most one part is made only if there is none; where larger ones are made by
///   several processes at the same moment, the last one stays.
/// - *Unfinished uploads* of this store and of others are listed as objects of size 0, and
///   `remove` ends them; `open` does not find them.
/// - *Durable*: what S3 has confirmed is durable; `sync` has nothing to do.
class s3_store {
public:
    /// @throws error errc::invalid_argument for options that cannot be
    explicit s3_store(s3_options options);
    /// @param url  `s3://bucket/prefix`, instead of those of the options.
    explicit s3_store(std::string_view url, s3_options options = {});

    /// Returns the store of another place: a relative `id` is within this one, unless `..` leads
    /// out of it; `s3://bucket/…` is another place of the bucket.
    /// @throws error errc::invalid_argument for a place that is not in the bucket
    s3_store at(const std::string& id) const;

    /// An object that is being written. Bytes are gathered in memory, and sent as soon as there are
    /// enough for a part; each is written once, best front to back. Bytes that nobody has written
    /// are zeros. After a failed call, `finish` fails too.
    class writer {
    public:
        writer(writer&&) noexcept;
        writer& operator=(writer&&) noexcept;
        /// Waits until nothing of it is being sent.
        ~writer();

        /// May wait for memory, i.e. until parts have been sent.
        void write(std::uint64_t at, byte_span b);
        /// @throws error errc::already_exists if another one has made the object meanwhile;
        /// errc::io also if it was removed; errc::outcome_unknown if it may appear yet
        void finish(bool durable);

    private:
        friend s3_store;
        struct state;
        explicit writer(std::unique_ptr<state> s);
        std::unique_ptr<state> s_;
    };

    class reader {
    public:
        reader(reader&&) noexcept;
        reader& operator=(reader&&) noexcept;
        ~reader();

        /// One request, whatever the size.
        /// @throws error errc::not_found if the object was replaced or removed
        void read(std::uint64_t at, std::span<std::byte> into) const;
        std::uint64_t size() const noexcept;
        /// As @ref s3_store::tag: the version that was opened.
        object_tag tag() const;
        std::size_t read_size() const noexcept { return std::size_t{8} << 20; }

    private:
        friend s3_store;
        struct state;
        explicit reader(std::unique_ptr<state> s);
        std::unique_ptr<state> s_;
    };

    writer create(std::string_view name, std::uint64_t size);

    /// A request whose outcome is not known is repeated or looked after until it is.
    /// @throws error errc::outcome_unknown with `if_match`, if the object may have been replaced,
    /// or may still be; errc::unsupported if the server does not heed conditions
    void publish(std::string_view name, byte_span b, std::optional<object_tag> if_match);

    /// Tries whether the server heeds conditions, unless that is known: `publish` with a tag relies
    /// on it, and then does nothing but publish.
    /// @throws error errc::unsupported if it does not
    void prepare_publish(std::string_view name);

    reader open(std::string_view name);

    /// The object's ETag.
    object_tag tag(std::string_view name);

    std::vector<object_info> list();
    /// Without unfinished uploads, which are another request to list, and another right.
    std::vector<object_info> list_finished();

    /// Except hidden ones.
    std::vector<std::string> places();
    /// One request for each 500 places whose data files have names that begin with `_`, and for
    /// each 1000 other objects below this one.
    std::vector<place_info> places_with(std::string_view name);
    /// One request for each 1000 objects.
    std::vector<object_info> list_tree();
    /// An absolute id of a place within this one becomes relative.
    std::string place_id(const std::string& id) const;
    void remove_place(const std::string& id);
    /// Removes what trials of processes that have ended have left in it.
    void remove_trials();
    /// Also ends the uploads of this name that this store has begun, or has listed.
    /// @throws error errc::io, although it was removed, if this store has given up a request to
    /// make it: it may appear yet, and is to be removed again later. The first time, and until
    /// `retry_for` has passed since.
    void remove(std::string_view name);
    /// If the answer is lost, looks whether this version is there before it removes what is there.
    void remove(std::string_view name, const object_tag& version);
    /// Ends the uploads of this name that this store has begun, or has listed; all, if the name has
    /// a save id, so that no other job uses it.
    void end_uploads(std::string_view name);
    void sync() {}
    /// `s3://bucket/prefix/name`
    std::string describe(std::string_view name) const;

    std::size_t requests_in_flight() const noexcept;
    std::vector<std::string> take_warnings();
    s3_statistics statistics() const;

private:
    struct impl;

    s3_store(std::shared_ptr<detail::s3::shared> s, std::string prefix);

    std::shared_ptr<detail::s3::shared> s_;
    std::string prefix_;  ///< Of keys: empty, or with `/` at its end.
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/s3/store.ipp>
#endif

#endif
