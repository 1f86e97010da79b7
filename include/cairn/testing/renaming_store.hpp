// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTING_RENAMING_STORE_HPP
#define CAIRN_TESTING_RENAMING_STORE_HPP

#include <cairn/object_store/concepts.hpp>
#include <cairn/testing/detail/run_check.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

/// Checks the semantics of a RenamingStore, for models of your own. Needs no test framework.
namespace cairn::testing {
namespace detail {

template <class Make>
class renaming_store_checks {
public:
    using store = std::remove_cvref_t<decltype(std::declval<Make&>()())>;

    explicit renaming_store_checks(Make& make) : make_(make) {}

    void names_have_a_kind() {
        store s = make_();
        put_at(s, "p/q", "o");
        put(s, "x");
        expect(s.kind_of("x") == name_kind::object && s.kind_of("p") == name_kind::place &&
                   s.kind_of("p/q") == name_kind::place && s.kind_of("none") == name_kind::none,
               "kind_of is wrong");
        expect(s.kind_of("p/q/o") == name_kind::object, "kind_of is wrong for a name with '/'");
    }
    void move_replaces_nothing() {
        store s = make_();
        put_at(s, "p/q", "o");
        put(s, "x");
        s.move("p/q", "r");
        s.move("x", "r/x");
        expect(has(s, "r", "o") && has(s, "r", "x"), "what was moved is not there");
        expect(s.kind_of("p/q") == name_kind::none && s.kind_of("x") == name_kind::none,
               "what was moved has its old name too");
        put(s, "y");
        for (auto const* to : {"r", "r/x"})
            expect_error(errc::already_exists,
                         "move to a name that is taken must throw errc::already_exists",
                         [&] { s.move("y", to); });
        put_at(s, "t", "o");
        expect_error(errc::already_exists,
                     "move to a name that is taken must throw errc::already_exists",
                     [&] { s.move("r", "t"); });
        expect_error(errc::not_found, "move of nothing must throw errc::not_found",
                     [&] { s.move("none", "other"); });
        expect(has(s, "r", "o") && s.kind_of("y") == name_kind::object,
               "a move that fails changes something");
    }
    void exchange_gives_each_the_others_name() {
        store s = make_();
        put_at(s, "a", "of_a");
        put_at(s, "p/b", "of_b");
        s.exchange("a", "p/b");
        expect(has(s, "a", "of_b") && has(s, "p/b", "of_a"), "two places were not exchanged");
        expect(!has(s, "a", "of_a") && !has(s, "p/b", "of_b"), "two places were merged");
        put(s, "x", 1);
        put(s, "y", 2);
        s.exchange("x", "y");
        std::uint64_t const size = s.open("x").size();
        expect(size == 2, "two objects were not exchanged");
        expect_error(errc::not_found, "exchange with nothing must throw errc::not_found",
                     [&] { s.exchange("a", "none"); });
        expect(has(s, "a", "of_b"), "an exchange that fails changes something");
    }
    void hidden_places_are_listed_apart() {
        store s = make_();
        for (auto const* name : {".h2", "p", ".h1"}) put_at(s, name, "o");
        put(s, ".o");
        expect(s.hidden_places() == std::vector<std::string>{".h1", ".h2"},
               "hidden_places are others");
        expect(s.others().empty(), "an object or a place is among the others");
        if constexpr (BrowsableStore<store>)
            expect(s.places() == std::vector<std::string>{"p"}, "places has hidden ones");
    }
    void a_tree_is_removed() {
        store s = make_();
        put_at(s, "p/q", "o");
        put_at(s, "p", "o");
        put_at(s, "pp", "o");
        s.remove_tree("p");
        s.remove_tree("none");
        expect(s.kind_of("p") == name_kind::none, "a place is there after remove_tree");
        expect(has(s, "pp", "o"), "another place was removed");
    }

private:
    static void put_at(store& s, const std::string& place, const char* name) {
        put(s.at(place), name);
    }
    template <class S>
    static void put(S&& s, const char* name, std::uint64_t size = 0) {
        auto h = s.create(name, size);
        h.finish(true);
    }
    static bool has(store& s, const std::string& place, const char* name) {
        auto there = std::as_const(s).at(place);
        auto const all = there.list();
        return std::any_of(all.begin(), all.end(), [&](auto const& i) { return i.name == name; });
    }

    Make& make_;
};

}  // namespace detail

/// Runs the checks of what a RenamingStore has beyond an ObjectStore.
/// @param make  Returns a store of an empty place, a different one at each call.
/// @return Descriptions of the failures; empty if there are none.
template <class Make>
    requires RenamingStore<std::remove_cvref_t<decltype(std::declval<Make&>()())>>
std::vector<std::string> renaming_store_suite(Make make) {
    std::vector<std::string> failures;
    detail::renaming_store_checks<Make> checks(make);
    auto const run = [&](const char* name, auto check) {
        detail::run_check(failures, name, check);
    };
    run("kind_of", [&] { checks.names_have_a_kind(); });
    run("move", [&] { checks.move_replaces_nothing(); });
    run("exchange", [&] { checks.exchange_gives_each_the_others_name(); });
    run("hidden_places", [&] { checks.hidden_places_are_listed_apart(); });
    run("remove_tree", [&] { checks.a_tree_is_removed(); });
    return failures;
}

}  // namespace cairn::testing

#endif
