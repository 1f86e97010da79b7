// SPDX-License-Identifier: Apache-2.0
// Names and str values that are not UTF-8 are refused at save: Python could read nothing of them.
#include <cairn/detail/utf8.hpp>
#include <cairn/planner/check_text.hpp>
#include <cairn/printable.hpp>

#include <cairn/cairn.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

BOOST_AUTO_TEST_SUITE(utf8)

namespace {

using cairn::errc;
using cairn::value;
using cairn::detail::find_not_utf8;

constexpr auto fine = std::string_view::npos;

std::string encoded(std::uint32_t c) {
    auto const byte = [](std::uint32_t b) { return static_cast<char>(b); };
    if (c < 0x80) return {byte(c)};
    if (c < 0x800) return {byte(0xc0 | c >> 6), byte(0x80 | (c & 63))};
    if (c < 0x10000)
        return {byte(0xe0 | c >> 12), byte(0x80 | (c >> 6 & 63)), byte(0x80 | (c & 63))};
    return {byte(0xf0 | c >> 18), byte(0x80 | (c >> 12 & 63)), byte(0x80 | (c >> 6 & 63)),
            byte(0x80 | (c & 63))};
}

/// What a save on two ranks says, of which rank 1 alone has the bad text; nothing is written.
void refused(const std::function<void(cairn::state_dict&)>& add, const std::string& tensor,
             std::vector<std::string> says, const cairn::save_options& o = {}) {
    cairn::memory_store store;
    std::vector<int> failed(2, 0);
    cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
        std::vector<float> w(3);
        cairn::state_dict sd{{"w", w}};
        if (me.rank() == 1) add(sd);
        try {
            cairn::save(sd, "c", o, me, store);
        } catch (const cairn::error& e) {
            std::string const what = e.what();
            bool good = e.code() == cairn::make_error_code(errc::invalid_state) &&
                        e.context().rank == 1 && e.context().fqn == tensor;
            for (auto const& s : says) good = good && what.find(s) != what.npos;
            failed[static_cast<std::size_t>(me.rank())] = good ? 1 : -1;
            if (!good && me.rank() == 0) BOOST_ERROR(what);
        }
    });
    BOOST_TEST((failed == std::vector<int>{1, 1}));
    BOOST_TEST(store.list().empty());
}

void refused_value(value v, const std::string& found) {
    refused([&](cairn::state_dict& sd) { sd["name"] = cairn::node(value(v)); }, "name",
            {"'name'", found, "as bytes"});
}

}  // namespace

BOOST_AUTO_TEST_CASE(utf8_is_told_from_what_is_not_as_unicode_says) {
    // Every character there is; surrogates are none.
    for (std::uint32_t c = 0; c <= 0x110000; c += c < 0x900 ? 1 : 7) {
        bool const is_one = c <= 0x10ffff && (c < 0xd800 || c > 0xdfff);
        auto const s = "ab" + encoded(c) + "cd";
        if (find_not_utf8(s) != (is_one ? fine : 2)) BOOST_ERROR("character " << c);
    }
    for (std::uint32_t c : {0x7ffu, 0x800u, 0xd7ffu, 0xe000u, 0xffffu, 0x10000u, 0x10ffffu})
        BOOST_TEST(find_not_utf8(encoded(c)) == fine);
    for (std::uint32_t c : {0xd800u, 0xdbffu, 0xdc00u, 0xdfffu, 0x110000u})
        BOOST_TEST(find_not_utf8(encoded(c)) == 0u);
    // Overlong forms, of '/' and of the first characters that need 3 and 4 bytes fewer.
    for (std::string_view s : {"\xc0\xaf", "\xc1\xbf", "\xe0\x80\xaf", "\xe0\x9f\xbf",
                               "\xf0\x80\x80\xaf", "\xf0\x8f\xbf\xbf"})
        BOOST_TEST(find_not_utf8(s) == 0u);
    // Bytes that begin nothing, ends that are missing, ends that are none.
    for (std::string_view s : {"\x80", "\xbf", "\xfe", "\xff", "\xf5\x80\x80\x80", "\xc3",
                               "\xe2\x82", "\xf0\x9f\x98", "\xc3(", "\xe2\x28\xa1", "\xe2\x82\x28"})
        BOOST_TEST(find_not_utf8("12345678" + std::string(s)) == 8u);
    BOOST_TEST(find_not_utf8("") == fine);
    BOOST_TEST(find_not_utf8(std::string("a\0b", 3)) == fine);
}

/// Python writes lone surrogates, and reads them.
BOOST_AUTO_TEST_CASE(utf8_with_lone_surrogates_is_a_str) {
    using cairn::detail::find_not_str;
    for (std::uint32_t c = 0xd800; c <= 0xdfff; ++c)
        if (find_not_str("ab" + encoded(c) + encoded(c) + "cd") != fine)
            BOOST_ERROR("character " << c);
    BOOST_TEST(find_not_str("a\xed\xa0\x80"
                            "b\xff") == 5u);
    BOOST_TEST(find_not_str("\xed\xa0") == 0u);
    BOOST_TEST(find_not_str("\xed\xa0\x41") == 0u);

    auto const name = "w" + encoded(0xdc80), text = encoded(0xd83d) + "x";
    std::vector<float> w{1, 2, 3}, again(3);
    cairn::memory_store store;
    cairn::save(cairn::state_dict{{name, w}, {"s", text}}, "c", store);
    std::string loaded;
    cairn::state_dict to{{name, again}, {"s", std::ref(loaded)}};
    cairn::load(to, "c", store);
    BOOST_TEST(again == w);
    BOOST_TEST(loaded == text);
}

BOOST_AUTO_TEST_CASE(what_is_not_plain_text_is_escaped_where_it_is_printed) {
    using cairn::json_string;
    using cairn::terminal_text;
    BOOST_TEST(terminal_text("h\xc3\xa9\xff.\xed\xa0\x80\xed\xbf\xbf") ==
               "h\xc3\xa9\\xff.\\ud800\\udfff");
    // ESC, DEL, and the CSI of 8 bits; a no-break space and quotes are none.
    BOOST_TEST(terminal_text("\x1b[2J\x7f\xc2\x9b"
                             "2J\xc2\xa0\"\\") == "\\u001b[2J\\u007f\\u009b2J\xc2\xa0\"\\");
    BOOST_TEST(json_string("\"\\\n\xc2\x85\xed\xa0\x80\xff") == R"("\"\\\u000a\u0085\ud800\\xff")");
    // What changes the direction of a text, U+061C, U+200F, U+202E and U+2066, and U+2028.
    BOOST_TEST(terminal_text("a\xd8\x9c\xe2\x80\x8f\xe2\x80\xae\xe2\x81\xa6\xe2\x80\xa8"
                             ".\xe2\x80\xa6") ==
               "a\\u061c\\u200f\\u202e\\u2066\\u2028.\xe2\x80\xa6");
    auto const inner = cairn::error(errc::corrupt, {.found = "\x1b[31m"});
    cairn::error const e(errc::io, {.fqn = "a\x1b[2J",
                                    .file = "b\r",
                                    .expected = "c\x07",
                                    .found = inner.what(),
                                    .remedy = "\xc2\x9b"});
    BOOST_TEST(std::string(e.what()) ==
               "'a\\u001b[2J' in 'b\\u000d': storage failed; expected "
               "c\\u0007, found malformed or truncated data; "
               "\\u001b[31m; \\u009b");
    cairn::error const of_others({{cairn::make_error_code(errc::io), {.rank = 1}, "x\x1b[2J"}},
                                 false);
    BOOST_TEST(std::string(of_others.what()) == "x\\u001b[2J");
    BOOST_TEST(e.context().fqn == "a\x1b[2J");  // programs get it as it is
}

BOOST_AUTO_TEST_CASE(a_wide_character_takes_two_columns_and_an_accent_none) {
    using cairn::terminal_columns;
    BOOST_TEST(terminal_columns("") == 0u);
    BOOST_TEST(terminal_columns("h\xc3\xa9") == 2u);
    BOOST_TEST(terminal_columns("\xe6\xa8\xa1\xe5\x9e\x8b.\xf0\x9f\x98\x80") == 7u);
    BOOST_TEST(terminal_columns("e\xcc\x81") == 1u);
}

BOOST_AUTO_TEST_CASE(every_name_must_be_utf8) {
    std::string const bad = "caf\xe9";
    std::vector<std::string> const says{"0xe9", "offset 3", "caf\\xe9"};
    auto const inner = [&] {
        cairn::state_dict d;
        d[bad] = 7;
        return d;
    };
    refused([&](auto& sd) { sd[bad] = 7; }, "caf\\xe9", says);
    refused([&](auto& sd) { sd[bad] = std::vector<float>{1, 2}; }, "caf\\xe9", says);
    refused([&](auto& sd) { sd["a"] = inner(); }, "a.caf\\xe9", {"offset 5"});
    refused([&](auto& sd) { sd["a"] = value::dict({{bad, 7}}); }, "a.caf\\xe9", {"offset 5"});
    refused([&](auto& sd) { sd[bad] = value::dict({{"x", 7}}); }, "caf\\xe9.x", says);
    refused([&](auto& sd) { sd[bad] = cairn::per_rank(value(7)); }, "caf\\xe9.1", says);
    static std::vector<float> tied(5);
    refused(
        [&](auto& sd) {
            sd["a"] = tied;
            sd[bad] = tied;
        },
        "caf\\xe9", says);
    cairn::save_options o;
    o.planner.create_items = [&](const cairn::flat_leaf& leaf,
                                 std::vector<cairn::write_item> usual) {
        if (leaf.fqn == "x") usual.front().fqn = bad;
        return usual;
    };
    refused([&](auto& sd) { sd["x"] = 7; }, "caf\\xe9", says, o);
}

BOOST_AUTO_TEST_CASE(every_str_in_a_value_must_be_utf8) {
    std::string const bad = "ab\xff", overlong = "ab\xc0\x80";
    refused_value(bad, "byte 0xff at offset 2");
    refused_value(overlong, "byte 0xc0 at offset 2");
    refused_value(value::list({1, "fine", bad}), "offset 2 of the str at [2]");
    refused_value(value::tuple({1, value::list({value::tuple({bad})})}), "at [1][0][0]");
    // Dicts in lists make the list a tree of names; in tuples they are values.
    refused_value(value::tuple({value::dict({{"k", bad}})}), "at [0]['k']");
    refused_value(value::tuple({value::dict({{bad, 1}})}), "at [0].keys()");
    refused_value(value::tuple({value::dict({{value::tuple({bad}), 1}})}), "at [0].keys()[0]");
    refused([&](auto& sd) { sd["name"] = std::cref(bad); }, "name", {"offset 2"});
    refused([&](auto& sd) { sd["name"] = cairn::per_rank(value(bad)); }, "name.1", {"offset 2"});
}

BOOST_AUTO_TEST_CASE(bytes_need_not_be_utf8) {
    cairn::memory_store store;
    value::bytes_t const raw{std::byte{0xff}, std::byte{0xc0}};
    cairn::state_dict sd{{"h\xc3\xa9llo", 1}, {"raw", raw}, {"text", "h\xc3\xa9\xf0\x9f\x98\x80"}};
    cairn::save(sd, "c", store);
    value::bytes_t loaded;
    std::string text;
    cairn::state_dict back{{"raw", std::ref(loaded)}, {"text", std::ref(text)}};
    cairn::load(back, "c", store);
    BOOST_TEST((loaded == raw));
    BOOST_TEST(text == "h\xc3\xa9\xf0\x9f\x98\x80");
}

namespace {

/// Another mind about names and values, after the default planner had its say.
struct own_names {
    cairn::default_planner inner{};
    std::string name{}, global_name{};
    value data{};

    void set_up_save(const cairn::flat_state& s, int rank, bool c) {
        inner.set_up_save(s, rank, c);
    }
    cairn::save_plan create_local_save_plan() {
        auto p = inner.create_local_save_plan();
        if (!name.empty()) p.items.front().fqn = p.paths.front().first = name;
        return p;
    }
    std::pair<std::vector<cairn::save_plan>, cairn::metadata> create_global_save_plan(
        std::vector<cairn::save_plan> all) {
        auto out = inner.create_global_save_plan(std::move(all));
        if (!global_name.empty()) {
            auto node = out.second.entries.extract("x");
            node.key() = global_name;
            out.second.entries.insert(std::move(node));
            out.first.front().items.front().fqn = global_name;
        }
        return out;
    }
    cairn::save_plan finish_save_plan(cairn::save_plan p) { return p; }
    cairn::item_data resolve_data(const cairn::write_item&) { return &data; }
};

}  // namespace

BOOST_AUTO_TEST_CASE(names_and_values_must_be_utf8_whoever_plans) {
    auto const save = [](own_names planner) {
        cairn::memory_store store;
        cairn::state_dict sd{{"x", 7}};
        BOOST_CHECK_EXCEPTION(cairn::save(sd, "c", planner, store), cairn::error,
                              [](const cairn::error& e) {
                                  return e.code() == cairn::make_error_code(errc::invalid_state) &&
                                         std::string(e.what()).find("0xff") != std::string::npos;
                              });
        BOOST_TEST(store.list().empty());
    };
    own_names bad_name, bad_global, bad_value;
    bad_name.name = "\xff";
    bad_global.global_name = "\xff";
    bad_value.data = "\xff";
    save(std::move(bad_name));
    save(std::move(bad_global));
    save(std::move(bad_value));
}

BOOST_AUTO_TEST_CASE(the_names_of_files_must_be_utf8) {
    cairn::memory_store store;
    cairn::state_dict sd{{"x", 7}};
    cairn::save_options o;
    o.storage.file_name = [](int, int) { return std::string("caf\xe9.distcp"); };
    BOOST_CHECK_EXCEPTION(cairn::save(sd, "c", o, store), cairn::error, [](const cairn::error& e) {
        return e.code() == cairn::make_error_code(errc::invalid_argument) &&
               std::string(e.what()).find("offset 3") != std::string::npos;
    });
    BOOST_TEST(store.list().empty());
}

BOOST_AUTO_TEST_SUITE_END()
