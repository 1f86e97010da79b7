// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_CONFORMANCE_OBJECT_STORE_HPP
#define CAIRN_TEST_CONFORMANCE_OBJECT_STORE_HPP

#include <cairn/object_store/concepts.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace cairn::conformance {

/// What an ObjectStore promises beyond its syntax. Call it from a Boost.Test case of your own:
///
///     BOOST_AUTO_TEST_CASE(my_store_keeps_its_word) {
///         cairn::conformance::check_object_store([] { return my_store(...); });
///     }
///
/// @param make  Returns a store of an empty place, a new one at each call.
template <class Make>
void check_object_store(Make make) {
    auto const pattern = [](std::size_t n) {
        byte_vector b(n);
        for (std::size_t i = 0; i < n; ++i) b[i] = static_cast<std::byte>(i * 31 + n);
        return b;
    };
    auto const put = [](auto& s, const char* name, const byte_vector& b) {
        auto h = s.create(name, b.size());
        h.write(0, b);
        h.finish(true);
    };
    auto const get = [](auto& s, const char* name) {
        auto r = s.open(name);
        byte_vector b(static_cast<std::size_t>(r.size()));
        r.read(0, b);
        return b;
    };
    auto const code_is = [](errc e) {
        return [e](const error& x) { return x.code() == make_error_code(e); };
    };

    BOOST_TEST_CONTEXT("what was written is read") {
        auto s = make();
        for (std::size_t n :
             {std::size_t{0}, std::size_t{1}, std::size_t{4097}, std::size_t{5} << 20}) {
            auto const name = "n" + std::to_string(n);
            put(s, name.c_str(), pattern(n));
            BOOST_TEST((get(s, name.c_str()) == pattern(n)));
        }
        auto r = s.open("n4097");
        byte_vector part(100);
        r.read(4000, std::span(part).first(97));
        BOOST_TEST(std::equal(part.begin(), part.begin() + 97, pattern(4097).begin() + 4000));
        BOOST_CHECK_EXCEPTION(r.read(4000, part), error, code_is(errc::corrupt));
        auto const all = s.list();
        BOOST_TEST(all.size() == 4u);
        BOOST_TEST(std::count_if(all.begin(), all.end(), [](const object_info& i) {
                       return i.name == "n4097" && i.size == 4097;
                   }) == 1);
    }
    if constexpr (UncachedReadStore<decltype(make())>) {
        BOOST_TEST_CONTEXT("uncached reads are a beginning of what is asked for, or none") {
            constexpr auto block = uncached_block_bytes;
            auto s = make();
            auto const b = pattern(3 * block + 100);
            put(s, "o", b);
            auto r = s.open("o");
            byte_vector memory(5 * block);
            auto const skip =
                (block - reinterpret_cast<std::uintptr_t>(memory.data()) % block) % block;
            auto const into = std::span(memory).subspan(skip, 4 * block);
            for (std::size_t at = 0; at < 6 * block; at += block)
                for (std::size_t n = block; n <= 4 * block; n += block) {
                    auto const got = r.read_uncached(at, into.first(n));
                    BOOST_TEST_REQUIRE(got <= (at < b.size() ? std::min(n, b.size() - at) : 0));
                    BOOST_TEST(std::equal(
                        into.begin(), into.begin() + static_cast<std::ptrdiff_t>(got),
                        b.begin() + static_cast<std::ptrdiff_t>(std::min(at, b.size()))));
                }
            for (auto const at : {std::uint64_t{1} << 40, UINT64_MAX - block + 1})
                BOOST_TEST(r.read_uncached(at / block * block, into) == 0u);
        }
    }
    BOOST_TEST_CONTEXT("times are of one clock, or not known") {
        auto s = make();
        auto const time = [&] { return s.list().at(0).modified; };
        s.publish("o", pattern(1), std::nullopt);
        auto const first = time();
        s.publish("o", pattern(2), std::nullopt);
        BOOST_TEST(time() >= first);
        BOOST_TEST((time() == 0) == (first == 0));
    }
    BOOST_TEST_CONTEXT("disjoint ranges from several threads") {
        auto s = make();
        auto const want = pattern(8 * 65536);
        auto h = s.create("o", want.size());
        std::vector<std::thread> threads;
        for (std::size_t t = 0; t < 8; ++t)
            threads.emplace_back(
                [&, t] { h.write(t * 65536, std::span(want).subspan(t * 65536, 65536)); });
        for (auto& t : threads) t.join();
        h.finish(true);
        BOOST_TEST((get(s, "o") == want));
    }
    BOOST_TEST_CONTEXT("create is exclusive") {
        auto s = make();
        put(s, "o", pattern(10));
        auto const again = [&] { put(s, "o", pattern(11)); };
        BOOST_CHECK_EXCEPTION(again(), error, code_is(errc::already_exists));
        BOOST_TEST((get(s, "o") == pattern(10)));
        std::atomic<int> winners{0};
        std::vector<std::thread> threads;
        for (int t = 0; t < 8; ++t) {
            threads.emplace_back([&] {
                try {
                    put(s, "raced", pattern(3));
                    ++winners;
                } catch (const error&) {  // somebody else won
                }
            });
        }
        for (auto& t : threads) t.join();
        BOOST_TEST(winners == 1);
    }
    BOOST_TEST_CONTEXT("create is exclusive from the start") {
        auto s = make();
        put(s, "there", pattern(2));
        BOOST_CHECK_EXCEPTION((void)s.create("there", 3), error, code_is(errc::already_exists));
        auto first = s.create("o", 4);
        BOOST_CHECK_EXCEPTION((void)s.create("o", 5), error, code_is(errc::already_exists));
        first.write(0, pattern(4));
        first.finish(false);
        BOOST_TEST((get(s, "o") == pattern(4)));
    }
    BOOST_TEST_CONTEXT("names with a slash") {
        auto s = make();
        put(s, "a/b", pattern(9));
        put(s, "a/c", pattern(8));
        BOOST_TEST((get(s, "a/b") == pattern(9)));
        auto const all = s.list();
        if constexpr (!RelocatableStore<decltype(s)>) BOOST_TEST(all.size() == 2u);
        for (auto const& info : all) BOOST_TEST(info.name.starts_with("a/"));
    }
    BOOST_TEST_CONTEXT("an unfinished object goes") {
        auto s = make();
        {
            auto h = s.create("o", 10);
            h.write(0, pattern(10));
        }
        BOOST_CHECK_NO_THROW(put(s, "o", pattern(5)));
        BOOST_TEST((get(s, "o") == pattern(5)));
    }
    BOOST_TEST_CONTEXT("publish replaces one version") {
        auto s = make();
        BOOST_TEST(s.tag("m").text.empty());
        s.publish("m", pattern(3), object_tag{});
        auto const first = s.tag("m");
        BOOST_TEST(!first.text.empty());
        s.publish("m", pattern(4), first);
        BOOST_TEST((get(s, "m") == pattern(4)));
        BOOST_TEST((s.tag("m") != first));
        BOOST_CHECK_EXCEPTION(s.publish("m", pattern(5), first), error,
                              code_is(errc::concurrent_save));
        BOOST_CHECK_EXCEPTION(s.publish("m", pattern(5), object_tag{}), error,
                              code_is(errc::concurrent_save));
        BOOST_TEST((get(s, "m") == pattern(4)));
        s.publish("m", pattern(6), std::nullopt);
        auto const before = s.tag("m");
        std::atomic<int> winners{0};
        std::vector<std::thread> threads;
        for (int t = 0; t < 8; ++t) {
            threads.emplace_back([&, t] {
                try {
                    s.publish("m", pattern(static_cast<std::size_t>(100 + t)), before);
                    ++winners;
                } catch (const error&) {  // somebody else won
                }
            });
        }
        for (auto& t : threads) t.join();
        BOOST_TEST(winners == 1);
    }
    if constexpr (UnsyncedStore<decltype(make())>) {
        BOOST_TEST_CONTEXT("without syncing it is the same place") {
            auto s = make();
            auto unsynced = std::as_const(s).without_sync();
            put(unsynced, "o", pattern(3));
            unsynced.publish("m", pattern(4), object_tag{});
            unsynced.sync();
            BOOST_TEST((get(s, "o") == pattern(3)));
            BOOST_TEST((s.tag("m") == unsynced.tag("m")));
        }
    }
    if constexpr (WarningStore<decltype(make())>) {
        BOOST_TEST_CONTEXT("a warning is told once") {
            auto s = make();
            s.publish("m", pattern(1), std::nullopt);
            (void)s.take_warnings();
            s.publish("m", pattern(2), std::nullopt);
            BOOST_TEST(s.take_warnings().empty());
        }
    }
    BOOST_TEST_CONTEXT("absent objects") {
        auto s = make();
        BOOST_CHECK_EXCEPTION((void)s.open("none").size(), error, code_is(errc::not_found));
        BOOST_CHECK_NO_THROW(s.remove("none"));
        put(s, "o", pattern(1));
        s.remove("o");
        s.sync();
        BOOST_TEST(s.list().empty());
        BOOST_TEST(!s.describe("o").empty());
    }
}

/// What a `BrowsableStore` promises beside that.
/// @param make  As for @ref check_object_store.
template <class Make>
void check_browsable_store(Make make) {
    using ids = std::vector<std::string>;
    ids const none;
    std::string const a = "a", deeper = "deeper", never = "never_was";
    auto const put = [](auto&& s, const char* name) {
        auto h = s.create(name, 0);
        h.finish(true);
        s.sync();
    };
    BOOST_TEST_CONTEXT("places are those directly within, in order") {
        auto s = make();
        BOOST_TEST(s.places() == none, boost::test_tools::per_element());
        for (ids const all{"step_2", "step_10", "a"}; auto const& id : all) put(s.at(id), "o");
        auto within = s.at(a);
        put(within.at(deeper), "o");
        put(s, "an_object");
        ids const want{"a", "step_10", "step_2"};
        BOOST_TEST(s.places() == want, boost::test_tools::per_element());
        BOOST_TEST(within.places() == ids{deeper}, boost::test_tools::per_element());
    }
    if constexpr (requires(decltype(make())& s) { s.all_places(); }) {
        BOOST_TEST_CONTEXT("all places are these where nothing is a link") {
            auto s = make();
            for (ids const all{"step_2", "a"}; auto const& id : all) put(s.at(id), "o");
            ids found;
            for (auto const& p : s.all_places()) {
                found.push_back(p.id);
                BOOST_TEST(!p.linked);
            }
            BOOST_TEST(found == s.places(), boost::test_tools::per_element());
        }
    }
    if constexpr (requires(const decltype(make())& s) { s.place_id(a); }) {
        BOOST_TEST_CONTEXT("an id is a place, however it is written") {
            auto s = make();
            put(s.at(a), "o");
            for (ids const ways{"a", "./a", "a/", "b/../a"}; auto const& id : ways)
                BOOST_TEST(s.place_id(id) == a, id);
        }
    }
    BOOST_TEST_CONTEXT("a place goes when it has no objects") {
        auto s = make();
        auto place = s.at(a);
        put(place, "o");
        s.remove_place(a);
        BOOST_TEST(place.list().size() == 1u);
        place.remove("o");
        place.sync();
        s.remove_place(a);
        BOOST_TEST(s.places() == none, boost::test_tools::per_element());
        BOOST_CHECK_NO_THROW(s.remove_place(a));
        BOOST_CHECK_NO_THROW(s.remove_place(never));
        put(s.at(a), "again");
        BOOST_TEST(s.places().size() == 1u);
    }
}

}  // namespace cairn::conformance

#endif
