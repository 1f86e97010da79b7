// SPDX-License-Identifier: Apache-2.0
#include <cairn/state/detail/key_index.hpp>

#include <cairn/state/state_dict.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(key_index)

using cairn::state_dict;

namespace {

std::vector<std::string> layer_names(int n) {
    std::vector<std::string> out;
    for (int i = 0; i < n; ++i)
        out.push_back("model.layers." + std::to_string(i) + ".self_attn.q_proj.weight");
    return out;
}
state_dict numbered(const std::vector<std::string>& keys) {
    state_dict d;
    for (auto const& k : keys) d[k] = cairn::value(static_cast<std::int64_t>(d.size()));
    return d;
}
bool holds(const state_dict& d, const std::vector<std::string>& keys) {
    if (d.size() != keys.size()) return false;
    std::size_t i = 0;
    for (auto const& [k, n] : d)
        if (k != keys[i++]) return false;
    for (i = 0; i < keys.size(); ++i) {
        auto const* n = d.find(std::string_view(keys[i]));
        if (n == nullptr || n->as_value().as<std::size_t>() != i) return false;
    }
    return !d.contains("model.layers") && !d.contains("");
}

}  // namespace

BOOST_AUTO_TEST_CASE(keys_are_compared_about_once) {
    auto const keys = layer_names(20000);
    cairn::detail::key_index index;
    std::size_t compared = 0;
    auto const find = [&](const std::string& key) {
        return index.find(cairn::detail::hash_of(key), [&](std::size_t i) {
            ++compared;
            return keys[i] == key;
        });
    };
    for (std::size_t i = 0; i < keys.size(); ++i) {
        BOOST_TEST_REQUIRE(find(keys[i]) == index.npos);
        index.add(cairn::detail::hash_of(keys[i]), i);
        BOOST_TEST_REQUIRE(find(keys[i]) == i);
    }
    // A few 32-bit hashes may be equal: 20000² / 2³³.
    BOOST_TEST(compared < keys.size() + 100);
}

BOOST_AUTO_TEST_CASE(keys_with_equal_hashes_are_told_apart) {
    cairn::detail::key_index index;
    for (std::size_t i = 0; i < 200; ++i) index.add(7, i);
    for (std::size_t i = 0; i < 200; ++i)
        BOOST_TEST(index.find(7, [&](std::size_t at) { return at == i; }) == i);
    BOOST_TEST(index.find(7, [](std::size_t) { return false; }) == index.npos);
    BOOST_TEST(index.find(8, [](std::size_t) { return true; }) == index.npos);
}

BOOST_AUTO_TEST_CASE(hashes_look_at_every_byte) {
    std::string const key = "a key of more than eight bytes";
    for (std::size_t i = 0; i < key.size(); ++i) {
        auto other = key;
        other[i] ^= 1;
        BOOST_TEST(cairn::detail::hash_of(other) != cairn::detail::hash_of(key));
    }
    BOOST_TEST(cairn::detail::hash_of(key + '\0') != cairn::detail::hash_of(key));
    BOOST_TEST(cairn::detail::hash_of("") == cairn::detail::hash_of(std::string()));
}

BOOST_AUTO_TEST_CASE(small_and_large_dicts_behave_alike) {
    for (int n : {0, 1, 15, 16, 17, 18, 31, 32, 33, 200}) {
        auto const keys = layer_names(n);
        BOOST_TEST(holds(numbered(keys), keys));
    }
}

// With a search from front to back this takes minutes.
BOOST_AUTO_TEST_CASE(a_hundred_thousand_keys_are_found_without_a_search) {
    auto const keys = layer_names(100000);
    auto const d = numbered(keys);
    BOOST_TEST(holds(d, keys));
    auto const copy = d;
    BOOST_TEST(holds(copy, keys));
}

// With a search from front to back this takes an hour.
BOOST_AUTO_TEST_CASE(a_million_keys_are_added_and_found) {
    constexpr std::size_t n = 1'000'000;
    state_dict d;
    for (std::size_t i = 0; i < n; ++i) (void)d["k" + std::to_string(i)];
    BOOST_TEST(d.size() == n);
    for (std::size_t i = 0; i < n; ++i) (void)d["k" + std::to_string(i)];
    BOOST_TEST(d.size() == n);
    BOOST_TEST((d.find("k999999") == &std::prev(d.end())->second));
}

BOOST_AUTO_TEST_CASE(copies_are_independent_and_moved_from_dicts_are_usable) {
    auto const keys = layer_names(40);
    auto d = numbered(keys);
    auto copy = d;
    copy["more"] = cairn::value(40);
    BOOST_TEST(!d.contains("more"));
    BOOST_TEST(copy.contains("more"));
    auto const taken = std::move(d);
    BOOST_TEST(holds(taken, keys));
    d = {};
    for (std::size_t i = 0; i < keys.size(); ++i)
        d[keys[i]] = cairn::value(static_cast<std::int64_t>(i));
    BOOST_TEST(holds(d, keys));
}

BOOST_AUTO_TEST_CASE(a_key_twice_in_a_list_is_refused) {
    using entry = state_dict::entry;
    BOOST_CHECK_THROW((state_dict{{"a", 1}, {"a", 2}}), cairn::error);
    BOOST_CHECK_THROW(
        (state_dict{entry("a", 1), entry("b", 1), entry("c", 1), entry("d", 1), entry("e", 1),
                    entry("f", 1), entry("g", 1), entry("h", 1), entry("i", 1), entry("j", 1),
                    entry("k", 1), entry("l", 1), entry("m", 1), entry("n", 1), entry("o", 1),
                    entry("p", 1), entry("q", 1), entry("r", 1), entry("b", 1)}),
        cairn::error);
}

BOOST_AUTO_TEST_SUITE_END()
