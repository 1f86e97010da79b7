// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTING_DETAIL_BROWSABLE_STORE_CHECKS_HPP
#define CAIRN_TESTING_DETAIL_BROWSABLE_STORE_CHECKS_HPP

#include <cairn/object_store/concepts.hpp>
#include <cairn/testing/detail/run_check.hpp>

#include <algorithm>
#include <concepts>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn::testing::detail {

/// The checks of what a BrowsableStore has beyond an ObjectStore.
template <class Make>
class browsable_store_checks {
public:
    using store = std::remove_cvref_t<decltype(std::declval<Make&>()())>;

    explicit browsable_store_checks(Make& make) : make_(make) {}

    void places_are_those_directly_within() {
        store s = make_();
        expect_places(s, {});
        for (std::string const id : {"step_2", "step_10", "a"}) put(s.at(id), "o");
        std::string const a = "a", deeper = "deeper";
        auto within = s.at(a);
        put(within.at(deeper), "o");
        put(s, "an_object");
        expect_places(s, {"a", "step_10", "step_2"});
        expect_places(within, {deeper});
    }
    void all_places_are_these()
        requires requires(store& s) { s.all_places(); }
    {
        store s = make_();
        for (std::string const id : {"step_2", "a"}) put(s.at(id), "o");
        std::vector<std::string> found;
        for (auto const& p : s.all_places()) {
            found.push_back(p.id);
            expect(!p.linked, "'" + p.id + "' is reported as a link");
        }
        expect(found == s.places(), "all_places and places differ");
    }
    void tags_are_those_of_one_object()
        requires requires(store& s) {
            { s.places_with("m") } -> std::same_as<std::vector<place_info>>;
        }
    {
        store s = make_();
        std::string const a = "a", b = "b", without = "c";
        s.at(a).publish("m", byte_vector(1), std::nullopt);
        s.at(b).publish("m", byte_vector(2), std::nullopt);
        put(s.at(without), "o");
        auto const look = [&] {
            auto const all = s.places_with("m");
            std::vector<std::string> found;
            for (auto const& p : all) {
                found.push_back(p.id);
                expect(!p.tag || p.tag->text.empty() == (p.id == without),
                       "places_with says incorrectly whether '" + p.id + "' has the object");
            }
            expect(found == s.places(), "places_with and places differ");
            return all;
        };
        auto const before = look();
        s.at(a).publish("m", byte_vector(3), std::nullopt);
        auto const after = look();
        for (auto const& now : after)
            for (auto const& was : before)
                expect(now.id != a || !now.tag || was.tag != now.tag, "one tag of two objects");
    }
    void a_tree_has_all_objects()
        requires requires(store& s) {
            { s.list_tree() } -> std::same_as<std::vector<object_info>>;
        }
    {
        store s = make_();
        std::string const a = "a", deeper = "deeper";
        put(s, "an_object");
        put(s.at(a), "o");
        put(s.at(a).at(deeper), "o");
        auto const all = s.list_tree();
        for (std::string const name : {"an_object", "a/o", "a/deeper/o"})
            expect(std::count_if(all.begin(), all.end(),
                                 [&](auto const& o) { return o.name == name; }) == 1,
                   "list_tree does not name '" + name + "' once");
    }
    void an_id_is_a_place()
        requires requires(const store& s, const std::string& id) { s.place_id(id); }
    {
        store s = make_();
        std::string const a = "a";
        put(s.at(a), "o");
        for (std::string const id : {"a", "./a", "a/", "b/../a"})
            expect(s.place_id(id) == a, "'" + id + "' is '" + s.place_id(id) + "'");
    }
    void a_place_goes_when_it_has_no_objects() {
        store s = make_();
        std::string const a = "a", never = "never_was";
        auto place = s.at(a);
        put(place, "o");
        s.remove_place(a);
        expect(place.list().size() == 1, "a place with an object was removed");
        place.remove("o");
        place.sync();
        s.remove_place(a);
        expect_places(s, {});
        s.remove_place(a);
        s.remove_place(never);
        put(s.at(a), "again");
        expect_places(s, {a});
    }

private:
    template <class S>
    static void put(S&& s, const char* name) {
        auto h = s.create(name, 0);
        h.finish(true);
        s.sync();
    }
    static void expect_places(store& s, const std::vector<std::string>& want) {
        auto const found = s.places();
        std::string names;
        for (auto const& id : found) names += " '" + id + "'";
        expect(found == want, "wrong places, or in the wrong order:" + names);
    }

    Make& make_;
};

}  // namespace cairn::testing::detail

#endif
