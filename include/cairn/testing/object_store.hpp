// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTING_OBJECT_STORE_HPP
#define CAIRN_TESTING_OBJECT_STORE_HPP

#include <cairn/object_store/concepts.hpp>
#include <cairn/testing/detail/browsable_store_checks.hpp>
#include <cairn/testing/detail/run_check.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

/// Checks the semantics of an ObjectStore, for models of your own. Needs no test framework.
namespace cairn::testing {
namespace detail {

template <class Make>
class object_store_checks {
public:
    using store = std::remove_cvref_t<decltype(std::declval<Make&>()())>;

    explicit object_store_checks(Make& make) : make_(make) {}

    void what_was_written_is_read() {
        store s = make_();
        for (std::size_t n :
             {std::size_t{0}, std::size_t{1}, std::size_t{4097}, std::size_t{5} << 20}) {
            auto const name = "n" + std::to_string(n);
            put(s, name, pattern(n));
            expect_content(s, name, pattern(n));
        }
        auto r = s.open("n4097");
        byte_vector part(100);
        auto const last = std::span(part).first(97);
        r.read(4000, last);
        expect(std::equal(last.begin(), last.end(), pattern(4097).begin() + 4000),
               "read returns bytes of another offset");
        expect_error(errc::corrupt, "read beyond the end must throw errc::corrupt",
                     [&] { r.read(4000, part); });
        auto const all = s.list();
        expect(all.size() == 4, "list names " + std::to_string(all.size()) + " of 4 objects");
        expect(std::any_of(all.begin(), all.end(),
                           [](auto const& i) { return i.name == "n4097" && i.size == 4097; }),
               "list does not name an object with its size");
        auto const finished = cairn::detail::list_finished(s);
        expect(std::is_permutation(finished.begin(), finished.end(), all.begin(), all.end()),
               "list_finished names other objects than list");
    }
    void uncached_reads_give_a_beginning()
        requires UncachedReadStore<store>
    {
        constexpr auto block = uncached_block_bytes;
        store s = make_();
        auto const b = pattern(3 * block + 100);
        put(s, "o", b);
        auto r = s.open("o");
        byte_vector memory(5 * block);
        auto const skip = (block - reinterpret_cast<std::uintptr_t>(memory.data()) % block) % block;
        auto const into = std::span(memory).subspan(skip, 4 * block);
        for (std::size_t at = 0; at < 6 * block; at += block)
            for (std::size_t n = block; n <= 4 * block; n += block) {
                auto const got = r.read_uncached(at, into.first(n));
                auto const rest = std::span(b).subspan(std::min(at, b.size()));
                expect(got <= std::min(n, rest.size()), "more bytes than there are");
                expect(std::equal(into.begin(), into.begin() + static_cast<std::ptrdiff_t>(got),
                                  rest.begin()),
                       "read_uncached returns other bytes");
            }
        for (auto const at : {std::uint64_t{1} << 40, UINT64_MAX - block + 1})
            expect(r.read_uncached(at / block * block, into) == 0, "bytes far beyond the end");
    }
    void cached_reads_give_all_or_say_no()
        requires CachedReadStore<store>
    {
        store s = make_();
        auto const b = pattern(10'000);
        put(s, "o", b);
        auto r = s.open("o");
        byte_vector into(5000);
        constexpr std::size_t some[] = {1, 1000, 4096, 5000};
        for (auto const at : some)
            for (auto const n : some)
                if (r.read_cached(at, std::span(into).first(n)))
                    expect(std::equal(into.begin(), into.begin() + static_cast<std::ptrdiff_t>(n),
                                      b.begin() + static_cast<std::ptrdiff_t>(at)),
                           "read_cached returns other bytes");
        for (auto const at :
             {std::uint64_t{5001}, std::uint64_t{1} << 40, UINT64_MAX - 5000, UINT64_MAX})
            expect(!r.read_cached(at, into), "bytes beyond the end");
    }
    void handles_say_their_version()
        requires VersionedReadStore<store>
    {
        store s = make_();
        s.publish("o", pattern(10), std::nullopt);
        auto first = s.open("o"), same = s.open("o");
        object_tag const before = first.tag();
        expect(before == object_tag(same.tag()), "two tags of one version");
        s.publish("o", pattern(20), std::nullopt);
        auto other = s.open("o");
        expect(before.text.empty() || !(before == object_tag(other.tag())),
               "one tag of two versions");
        // The handle may read what has the name: its tag then says so.
        object_tag const now = first.tag();
        expect(now == before || now == object_tag(other.tag()), "an open handle has another tag");
        std::optional<std::uint64_t> size;
        try {
            size = first.size();
        } catch (const error& e) {  // what was opened is gone
            if (e.code() != make_error_code(errc::not_found)) throw;
        }
        expect(!size || before.text.empty() || (*size == 10) == (now == before),
               "an open handle has the tag of a version that it does not read");
    }
    void times_are_of_one_clock() {
        store s = make_();
        auto const publish = [&](std::size_t n) {
            s.publish("o", pattern(n), std::nullopt);
            auto const all = s.list();
            expect(all.size() == 1, "list does not name the only object");
            return all[0].modified;
        };
        auto const first = publish(1), second = publish(2);
        expect(second >= first, "a later change has an earlier time");
        expect((first == 0) == (second == 0),
               "the time of a change is known for some changes only");
    }
    void threads_write_one_object() {
        store s = make_();
        constexpr std::size_t piece = 65536;
        auto const want = pattern(8 * piece);
        auto h = s.create("o", want.size());
        on_threads(8, [&](std::size_t t) {
            h.write(t * piece, std::span(want).subspan(t * piece, piece));
        });
        h.finish(true);
        expect_content(s, "o", want);
    }
    void create_is_exclusive() {
        store s = make_();
        put(s, "o", pattern(10));
        expect_error(errc::already_exists,
                     "a second create of a name must throw errc::already_exists",
                     [&] { put(s, "o", pattern(11)); });
        expect_content(s, "o", pattern(10));
        std::atomic<int> winners{0};
        on_threads(8, [&](std::size_t) {
            try {
                put(s, "raced", pattern(3));
                ++winners;
            } catch (const error&) {  // another thread's create was first
            }
        });
        expect(winners == 1,
               std::to_string(winners) + " of 8 concurrent creates of one name succeed");
    }
    /// The second `create` fails, or one `finish` does.
    void one_of_two_handles_finishes() {
        store s = make_();
        auto const succeeds = [](auto f) {
            try {
                f();
                return true;
            } catch (const error& e) {
                if (e.code() != make_error_code(errc::already_exists)) throw;
                return false;
            }
        };
        bool second = false;
        {
            auto first = s.create("o", 4);
            first.write(0, pattern(4));
            second = succeeds([&] { put(s, "o", pattern(5)); });
            bool const earlier = succeeds([&] { first.finish(false); });
            expect(!second || !earlier, "two objects of one name are finished");
            expect(second || earlier, "of two objects of one name, none can be finished");
        }
        // A handle that could not be finished removes its object, and no other.
        expect_content(s, "o", pattern(second ? 5 : 4));
    }
    void names_may_have_a_slash() {
        store s = make_();
        put(s, "a/b", pattern(9));
        put(s, "a/c", pattern(8));
        expect_content(s, "a/b", pattern(9));
        auto const all = s.list();
        expect(RelocatableStore<store> || all.size() == 2, "list omits names with a slash");
        for (auto const& info : all)
            expect(info.name.starts_with("a/"), "list names '" + info.name + "'");
    }
    void an_unfinished_object_goes() {
        store s = make_();
        {
            auto h = s.create("o", 10);
            h.write(0, pattern(10));
        }
        put(s, "o", pattern(5));
        expect_content(s, "o", pattern(5));
    }
    void publish_replaces_one_version() {
        store s = make_();
        expect(s.tag("m").text.empty(), "an absent object has a tag");
        s.publish("m", pattern(3), object_tag{});
        auto const first = s.tag("m");
        expect(!first.text.empty(), "a published object has no tag");
        s.publish("m", pattern(4), first);
        expect_content(s, "m", pattern(4));
        expect(s.tag("m") != first, "two versions have one tag");
        for (auto const& match : {first, object_tag{}})
            expect_error(
                errc::concurrent_save,
                "publish over a version other than the given one must throw errc::concurrent_save",
                [&] { s.publish("m", pattern(5), match); });
        expect_content(s, "m", pattern(4));
        s.publish("m", pattern(6), std::nullopt);
        if constexpr (cairn::detail::LooksLast<store>) {
            std::function<void()> const look = [] { throw error(errc::cancelled, {}); };
            expect_error(errc::cancelled, "publish must pass on what its last look throws",
                         [&] { s.publish("m", pattern(7), std::nullopt, look); });
            bool looked = false;
            std::function<void()> const ask = [&] {
                looked = true;
                expect_content(s, "m", pattern(6));
                expect(!s.tag("m").text.empty(), "a last look finds no object");
                (void)s.describe("m");
            };
            s.publish("m", pattern(6), s.tag("m"), ask);
            expect(looked, "publish must call its last look");
        }
        expect_content(s, "m", pattern(6));
        auto const before = s.tag("m");
        std::atomic<int> winners{0};
        on_threads(8, [&](std::size_t t) {
            try {
                s.publish("m", pattern(100 + t), before);
                ++winners;
            } catch (const error&) {  // another thread's publish was first
            }
        });
        expect(winners == 1,
               std::to_string(winners) + " of 8 concurrent publishes over one version succeed");
    }
    void readers_see_one_version() {
        store s = make_();
        constexpr std::size_t size = 100'000;
        auto const version = [](std::size_t n) { return byte_vector(size, std::byte(n)); };
        s.publish("m", version(0), std::nullopt);
        std::atomic<bool> done{false};
        on_threads(2, [&](std::size_t t) {
            if (t == 0) {
                auto const why = why_not([&] {
                    for (std::size_t n = 1; n <= 20; ++n) s.publish("m", version(n), std::nullopt);
                });
                done = true;
                return expect(why.empty(), why);
            }
            for (bool last = false; !last;) {
                last = done;
                try {
                    auto const b = get(s, "m");
                    expect(b.size() == size && std::equal(b.begin() + 1, b.end(), b.begin()),
                           "a reader sees a mix of two versions");
                } catch (const error& e) {  // replaced after it was opened
                    if (last || e.code() != make_error_code(errc::not_found)) throw;
                }
            }
        });
    }
    void handles_share_an_object()
        requires SharedWriteStore<store>
    {
        store s = make_();
        constexpr std::size_t piece = 65536;
        auto const want = pattern(4 * piece);
        put(s, "o", byte_vector(want.size()));
        on_threads(4, [&](std::size_t t) {
            auto h = s.reopen("o");
            h.write(t * piece, std::span(want).subspan(t * piece, piece));
            if (t % 2 == 0) h.finish(true);
        });
        expect_content(s, "o", want);
        expect_error(errc::not_found, "reopen of an absent object must throw errc::not_found",
                     [&] { (void)s.reopen("none"); });
        expect_error(errc::invalid_argument, "a write beyond the end must fail",
                     [&] { s.reopen("o").write(want.size(), pattern(1)); });
    }
    void without_sync_is_the_same_place()
        requires UnsyncedStore<store>
    {
        store s = make_();
        auto unsynced = std::as_const(s).without_sync();
        put(unsynced, "o", pattern(3));
        unsynced.publish("m", pattern(4), object_tag{});
        unsynced.sync();
        expect_content(s, "o", pattern(3));
        expect(s.tag("m") == unsynced.tag("m"), "one object has two tags");
    }
    void a_warning_is_told_once()
        requires WarningStore<store>
    {
        store s = make_();
        s.publish("m", pattern(1), std::nullopt);
        (void)s.take_warnings();
        s.publish("m", pattern(2), std::nullopt);
        expect(s.take_warnings().empty(), "a warning is reported twice");
    }
    void absent_objects_are_errors() {
        store s = make_();
        expect_error(errc::not_found, "open of an absent object must throw errc::not_found",
                     [&] { (void)get(s, "none"); });
        s.remove("none");
        put(s, "o", pattern(1));
        s.remove("o");
        s.sync();
        expect(s.list().empty(), "list names an object that was removed");
        expect_error(errc::not_found,
                     "open of an object that was removed must throw errc::not_found",
                     [&] { (void)get(s, "o"); });
        expect(!s.describe("o").empty(), "describe returns an empty text");
        if constexpr (requires { s.remove("o", object_tag()); }) {
            put(s, "o", pattern(1));
            s.remove("o", s.tag("o"));
            expect(s.tag("o").text.empty(), "an object is there whose version was removed");
        }
    }

private:
    static byte_vector pattern(std::size_t n) {
        byte_vector b(n);
        for (std::size_t i = 0; i < n; ++i) b[i] = static_cast<std::byte>(i * 31 + n);
        return b;
    }
    template <class S>
    static void put(S& s, std::string_view name, const byte_vector& b) {
        auto h = s.create(name, b.size());
        h.write(0, b);
        h.finish(true);
    }
    static byte_vector get(store& s, std::string_view name) {
        auto r = s.open(name);
        std::uint64_t const size = r.size();
        byte_vector b(static_cast<std::size_t>(size));
        r.read(0, b);
        return b;
    }
    static void expect_content(store& s, const std::string& name, const byte_vector& want) {
        expect(get(s, name) == want, "'" + name + "' has other bytes than were written");
    }

    Make& make_;
};

}  // namespace detail

/// Runs all checks, also of optional members: `list_finished`, `remove` of a version, and those of
/// UncachedReadStore, CachedReadStore, VersionedReadStore, SharedWriteStore, UnsyncedStore and
/// WarningStore. Of a store that has others, e.g. `end_uploads`, `prepare_publish` or `lag`, they
/// are not called. Places have a suite of their own: @ref browsable_store_suite.
/// @param make  Returns a store of an empty place, a different one at each call.
/// @return Descriptions of the failures; empty if there are none.
template <class Make>
    requires ObjectStore<std::remove_cvref_t<decltype(std::declval<Make&>()())>>
std::vector<std::string> object_store_suite(Make make) {
    using checks_t = detail::object_store_checks<Make>;
    using store = typename checks_t::store;
    std::vector<std::string> failures;
    checks_t checks(make);
    auto const run = [&](const char* name, auto check) {
        detail::run_check(failures, name, check);
    };
    run("write and read", [&] { checks.what_was_written_is_read(); });
    if constexpr (UncachedReadStore<store>)
        run("uncached reads", [&] { checks.uncached_reads_give_a_beginning(); });
    if constexpr (CachedReadStore<store>)
        run("cached reads", [&] { checks.cached_reads_give_all_or_say_no(); });
    if constexpr (VersionedReadStore<store>)
        run("versions of handles", [&] { checks.handles_say_their_version(); });
    run("times", [&] { checks.times_are_of_one_clock(); });
    run("several threads", [&] { checks.threads_write_one_object(); });
    if constexpr (SharedWriteStore<store>) run("reopen", [&] { checks.handles_share_an_object(); });
    run("create", [&] { checks.create_is_exclusive(); });
    run("create, twice", [&] { checks.one_of_two_handles_finishes(); });
    run("names with a slash", [&] { checks.names_may_have_a_slash(); });
    run("an unfinished object", [&] { checks.an_unfinished_object_goes(); });
    run("publish", [&] { checks.publish_replaces_one_version(); });
    run("readers beside publish", [&] { checks.readers_see_one_version(); });
    if constexpr (UnsyncedStore<store>)
        run("without_sync", [&] { checks.without_sync_is_the_same_place(); });
    if constexpr (WarningStore<store>) run("warnings", [&] { checks.a_warning_is_told_once(); });
    run("absent objects", [&] { checks.absent_objects_are_errors(); });
    return failures;
}

/// Runs the checks of what a BrowsableStore has beyond an ObjectStore. Parameter and result are
/// those of @ref object_store_suite.
template <class Make>
    requires BrowsableStore<std::remove_cvref_t<decltype(std::declval<Make&>()())>>
std::vector<std::string> browsable_store_suite(Make make) {
    using checks_t = detail::browsable_store_checks<Make>;
    using store = typename checks_t::store;
    std::vector<std::string> failures;
    checks_t checks(make);
    auto const run = [&](const char* name, auto check) {
        detail::run_check(failures, name, check);
    };
    run("places", [&] { checks.places_are_those_directly_within(); });
    if constexpr (requires(store& s) { s.all_places(); })
        run("all_places", [&] { checks.all_places_are_these(); });
    if constexpr (requires(checks_t& c) { c.tags_are_those_of_one_object(); })
        run("places_with", [&] { checks.tags_are_those_of_one_object(); });
    if constexpr (requires(checks_t& c) { c.a_tree_has_all_objects(); })
        run("list_tree", [&] { checks.a_tree_has_all_objects(); });
    if constexpr (requires(const store& s, const std::string& id) { s.place_id(id); })
        run("place_id", [&] { checks.an_id_is_a_place(); });
    run("remove_place", [&] { checks.a_place_goes_when_it_has_no_objects(); });
    return failures;
}

}  // namespace cairn::testing

#endif
