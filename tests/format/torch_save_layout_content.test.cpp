// SPDX-License-Identifier: Apache-2.0
// What files of torch.save that are laid out hold, as cairn's own reader reads it.
#include "support/laid_out.hpp"
#include "torch_save_file.hpp"

#include <cairn/format/torch/value_item.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

BOOST_AUTO_TEST_SUITE(torch_save_layout_content)

namespace {

using cairn::dtype;
using cairn::value;
using laid_out::fill;
using laid_out::state;
using torch_save_file::opened;
namespace ts = cairn::format::torch_save;

bool is_in_a_list(const cairn::key_path& path) {
    return std::any_of(path.begin(), path.end(),
                       [](auto const& step) { return std::holds_alternative<std::int64_t>(step); });
}
/// Checks that a file holds exactly what it was made of, under the same names and paths.
/// @param lists  Whether lists may have empty positions, which are None, and may be of nothing but
///               plain values: then the list is the value.
void has_all(const state& s, const opened& o, bool lists = false) {
    auto const l = s.file("x.pt");
    if (!lists) BOOST_TEST(o.all.entries().size() == s.entries.size());
    for (auto const& e : s.entries) {
        if (lists && std::holds_alternative<value>(e.what) && is_in_a_list(s.paths.at(e.fqn)))
            continue;
        BOOST_TEST_CONTEXT(e.fqn) {
            auto const found = o.all.entries().find(e.fqn);
            BOOST_TEST_REQUIRE((found != o.all.entries().end()));
            BOOST_TEST((found->second.path == s.paths.at(e.fqn)));
            auto const* t = std::get_if<ts::new_tensor>(&e.what);
            if (t == nullptr) {
                BOOST_TEST((o.at(e.fqn) == std::get<value>(e.what)));
                continue;
            }
            auto const& stored = o.tensor(e.fqn);
            BOOST_TEST((stored.type == t->type));
            BOOST_TEST((stored.shape == t->shape));
            BOOST_TEST((stored.strides == cairn::row_major_strides(t->shape)));
            BOOST_TEST(stored.requires_grad == t->requires_grad);
            auto const& owner = t->tied_to.empty() ? e.fqn : t->tied_to;
            for (auto const& place : l.file().tensors)
                if (place.fqn == owner) {
                    BOOST_TEST(stored.at.offset == place.offset);
                    auto const elements = laid_out::pattern(place);
                    BOOST_TEST((o.file.substr(stored.at.offset, stored.at.length) == elements));
                    BOOST_TEST(stored.at.crc == laid_out::crc_of(elements));
                }
        }
    }
}

std::vector<std::byte> as_item(const std::string& zip) {
    auto const b = std::as_bytes(std::span(zip));
    return {b.begin(), b.end()};
}
/// A value as DCP stores it.
value stored(const std::string& zip) {
    return value::opaque_t(as_item(zip), "stored");
}

/// A dict {"n": 7} of a class.
std::string of_class(const char* module, const char* name) {
    torch_save_file::pickled p;
    p.w.global(module, name);
    p.w.op(')');
    p.w.op('R');
    p.key("n");
    p.w.integer(7);
    p.w.op('s');
    return p.zip({});
}
/// A tuple of a tensor of 4 elements, its first half, and another one.
torch_save_file::pickled tuple_of_tensors() {
    torch_save_file::pickled p;
    p.tensor("a", 4, 0, {4}, {1});
    p.tensor("a", 4, 0, {2}, {1});
    p.tensor("b", 1, 0, {}, {});
    p.w.op(0x87);
    return p;
}
std::string const four(16, 'a'), one(4, 'b');

}  // namespace

BOOST_AUTO_TEST_CASE(tensors_of_each_dtype_and_values_of_each_kind_are_read_again) {
    state s = laid_out::simple();
    for (int i = 0; i < cairn::dtype_count; ++i) {
        auto const type = static_cast<dtype>(i);
        auto const name = std::string(cairn::name_of(type));
        s.tensor({"dtypes", name, "matrix"}, type, {3, 2})
            .tensor({"dtypes", name, "scalar"}, type, {})
            .tensor({"dtypes", name, "empty"}, type, {2, 0, 3});
    }
    s.value({"big"}, cairn::big_int(std::vector<std::uint8_t>(20, 1)))
        .value({"least"}, INT64_MIN)
        .value({"real"}, -0.5)
        .value({"text"}, "h\xc3\xa9llo\n")
        .value({"nothing"}, laid_out::bytes(""))
        .value({"bytes"}, laid_out::bytes("\x01\xff"))
        .value({"tuple"}, value::tuple({1, "a", value::tuple({}), value::list({2, value()})}))
        .value({"dicts"}, value::tuple({value::dict({{"k", 1}, {2, value::dict({})}})}))
        .value({"pairs"}, value::dict({{value::tuple({1, 2}), "x"}}))
        .value({"within", "it"}, value::dict({}))
        .value({"empty"}, value::list({}));
    auto const file = fill(s.file("x.pt"));
    // torch.load does not accept the class of bytes, by which torch.save writes an empty one.
    BOOST_TEST(file.find("c__builtin__\n") == file.npos);
    has_all(s, opened(file));
}

BOOST_AUTO_TEST_CASE(tied_tensors_have_one_storage) {
    state s;
    s.tensor({"first"}, dtype::f32, {2, 3}, "whole")
        .tensor({"whole"}, dtype::f32, {6})
        .tensor({"last"}, dtype::f32, {6}, "whole")
        .tensor({"other"}, dtype::f32, {6});
    auto const l = s.file("x.pt");
    BOOST_TEST(l.file().tensors.size() == 2u);
    BOOST_TEST(l.file().tensors[0].fqn == "whole");
    opened const o(fill(l));
    has_all(s, o);
    BOOST_TEST(o.tensor("first").storage == "0");
    BOOST_TEST(o.tensor("last").storage == "0");
    BOOST_TEST(o.tensor("other").storage == "1");
}

BOOST_AUTO_TEST_CASE(storages_are_in_the_order_of_the_pickle) {
    state s;
    s.tensor({"a", "1"}, dtype::u8, {1})
        .tensor({"b"}, dtype::u8, {2})
        .tensor({"list", 1}, dtype::u8, {3})
        .tensor({"list", 0}, dtype::u8, {4})
        .tensor({"a", "2"}, dtype::u8, {5});
    auto const l = s.file("x.pt");
    std::string order;
    std::uint64_t end = 0;
    for (auto const& t : l.file().tensors) {
        order += t.fqn + " ";
        BOOST_TEST(t.offset >= end);
        BOOST_TEST(t.offset % 64 == 0u);
        end = t.offset + laid_out::length_of(t);
    }
    BOOST_TEST(order == "a.1 a.2 b list.0 list.1 ");
    has_all(s, opened(fill(l)));
}

BOOST_AUTO_TEST_CASE(a_position_that_no_path_leads_to_is_none) {
    state s;
    s.tensor({"list", 2}, dtype::u8, {3});
    opened const o(fill(s.file("x.pt")));
    BOOST_TEST(o.all.entries().size() == 3u);
    BOOST_TEST(o.at("list.0").is_none());
    BOOST_TEST(o.at("list.1").is_none());
    BOOST_TEST((o.tensor("list.2").shape == cairn::index_vector{3}));
}

BOOST_AUTO_TEST_CASE(keys_that_were_no_text_are_none_again) {
    state s;
    s.tensor({"state", "0", "m"}, dtype::u8, {3}).value({"state", "-12"}, 1);
    s.value({"list", 0, "True"}, 1).value({"list", 0, "None"}, 2).value({"list", 0, "1"}, 3);
    std::set<cairn::key_path> const keys{
        {"state", "0"}, {"state", "-12"}, {"list", 0, "True"}, {"list", 0, "None"}};
    opened const o(fill(ts::layout("x.pt", s.entries, s.paths, keys)));
    BOOST_TEST((o.all.text_keys() == keys));
    BOOST_TEST(o.all.entries().size() == s.entries.size());
    BOOST_TEST((o.tensor("state.0.m").shape == cairn::index_vector{3}));
    BOOST_TEST((o.at("state.-12") == cairn::value(1)));
    BOOST_TEST((o.at("list.0.None") == cairn::value(2)));
    opened const text(fill(s.file("x.pt")));
    BOOST_TEST(text.all.text_keys().empty());
}

BOOST_AUTO_TEST_CASE(names_without_paths_are_the_keys_of_one_dict) {
    state s;
    s.tensor({"a", "b"}, dtype::u8, {3}).value({"c", 0}, 1);
    s.paths.clear();
    opened const o(fill(s.file("x.pt")));
    BOOST_TEST((o.all.entries().at("a.b").path == cairn::key_path{"a.b"}));
    BOOST_TEST((o.all.entries().at("c.0").path == cairn::key_path{"c.0"}));
}

BOOST_AUTO_TEST_CASE(a_file_may_hold_nothing_or_one_thing) {
    opened const nothing(fill(state().file("x.pt")));
    BOOST_TEST(nothing.all.entries().empty());
    ts::new_entries const alone{{"", ts::new_tensor{dtype::f32, {2}}}};
    opened const one_tensor(fill(ts::layout("x.pt", alone, {})));
    BOOST_TEST(one_tensor.all.entries().begin()->second.path.empty());
    BOOST_TEST((one_tensor.tensor("").shape == cairn::index_vector{2}));
    opened const named(fill(ts::layout("x.pt", alone, {{"", {""}}})));
    BOOST_TEST((named.all.entries().begin()->second.path == cairn::key_path{""}));
}

BOOST_AUTO_TEST_CASE(a_stored_value_stays_what_it_is) {
    state s;
    s.tensor({"before"}, dtype::u8, {5})
        .value({"ordered"}, value::tuple({1}))
        .value({"unknown"}, value())
        .tensor({"after"}, dtype::u8, {6})
        .value({"frozen"}, value());
    torch_save_file::pickled frozen;
    frozen.w.mark();
    frozen.w.op(0x91);
    s.entries[4].what = stored(frozen.zip({}));
    s.entries[1].what = stored(of_class("collections", "OrderedDict"));
    s.entries[2].what = stored(of_class("some.module", "Class"));
    auto const l = s.file("x.pt");
    BOOST_TEST(l.to_trust().size() == 2u);
    BOOST_TEST((l.to_trust().at("unknown") == std::set<std::string>{"some.module.Class"}));
    BOOST_TEST((l.to_trust().at("frozen") == std::set<std::string>{"__builtin__.frozenset"}));
    auto const file = fill(l);
    std::string const ordered = "ccollections\nOrderedDict\n";
    BOOST_TEST(file.rfind(ordered) > file.find(ordered));  // one is of a tensor
    opened const o(file);
    BOOST_TEST((o.at("ordered.n") == value(7)));
    BOOST_TEST(o.at("unknown").get_if<value::opaque_t>()->what() == "class some.module.Class");
    BOOST_TEST((o.tensor("after").shape == cairn::index_vector{6}));
}

BOOST_AUTO_TEST_CASE(storages_of_a_value_are_in_the_order_of_the_pickle_too) {
    state s;
    s.tensor({"first"}, dtype::u8, {5}).value({"tuple"}, value()).tensor({"last"}, dtype::u8, {6});
    s.entries[1].what = stored(tuple_of_tensors().zip({{"b", one}, {"a", four}}));
    auto const l = s.file("x.pt");
    BOOST_TEST(l.to_trust().empty());
    BOOST_TEST(l.file().tensors.size() == 2u);
    opened const o(fill(l));
    BOOST_TEST(o.tensor("last").storage == "3");
    auto const& storages = o.all.parts().storages;
    BOOST_TEST(storages.size() == 4u);
    BOOST_TEST((o.file.substr(storages.at("1").offset, 16) == four));
    BOOST_TEST((o.file.substr(storages.at("2").offset, 4) == one));
    for (auto const& [key, at] : storages)
        BOOST_TEST(at.crc == laid_out::crc_of(o.file.substr(at.offset, at.length)));
}

BOOST_AUTO_TEST_CASE(a_tensor_of_an_old_file_within_a_value_is_written_as_today) {
    torch_save_file::pickled p;
    p.tensor("a", 4, 1, {2}, {1}, "FloatStorage", true);
    p.w.op(0x85);
    state s;
    s.value({"tuple"}, value());
    s.entries[0].what = stored(p.zip({{"a", four}}));
    auto const file = fill(s.file("x.pt"));
    BOOST_TEST(file.find("K\4tq") != file.npos);  // the count is the last member of the id
    BOOST_TEST(file.find("K\4Nt") == file.npos);
}

namespace {

/// The words of a refusal.
std::string refusal(const state& s, cairn::errc code = cairn::errc::corrupt) {
    try {
        (void)s.file("x.pt");
    } catch (const cairn::error& e) {
        BOOST_TEST(e.code() == make_error_code(code), e.what());
        BOOST_TEST(!e.context().remedy.empty(), e.what());
        return e.context().fqn + ": " + e.context().found;
    }
    return "no refusal";
}
state leaf(cairn::key_path path) {
    state s;
    s.value({"x"}, 1).value(std::move(path), 2);
    return s;
}
std::string refused(value v, cairn::errc code = cairn::errc::invalid_state) {
    state s;
    s.value({"good"}, 1).value({"a", "bad"}, std::move(v));
    return refusal(s, code);
}

}  // namespace

BOOST_AUTO_TEST_CASE(paths_that_make_no_tree_are_refused) {
    BOOST_TEST(refusal(leaf({"x", "y"})) == "x.y: a tensor or value above it");
    BOOST_TEST(refusal(leaf({"x", 0})) == "x.0: a tensor or value above it");
    BOOST_TEST(refusal(leaf({"l", -1})) == "l.-1: -1");
    auto both = leaf({"c", "y"});
    both.value({"c"}, 3);
    BOOST_TEST(refusal(both) == "c: one to a dict or list of others");
    BOOST_TEST(refusal(leaf({"c", "y"}).value({"c", 0}, 3)) == "c.0: a dict");
    BOOST_TEST(refusal(leaf({"c", 0}).value({"c", "y"}, 3)) == "c.y: a list");
    auto same = leaf({"y"});
    same.paths["y"] = {"x"};
    BOOST_TEST(refusal(same) == "y: that of another tensor or value");
    BOOST_TEST(refusal(leaf({"l", 5000}), cairn::errc::unsupported) == "l.5000: 5000");
    auto deep = leaf({"y"});
    deep.paths["y"] = cairn::key_path(257, "k");
    BOOST_TEST(refusal(deep, cairn::errc::unsupported) == "y: 257");
    deep.paths["y"] = cairn::key_path(256, "k");
    BOOST_TEST(refusal(deep) == "no refusal");
}

BOOST_AUTO_TEST_CASE(names_shapes_and_ties_that_cannot_be_are_refused) {
    auto const tied = [](std::string to, cairn::index_vector shape) {
        state s;
        s.tensor({"w"}, dtype::f32, {2, 3})
            .tensor({"v"}, dtype::f32, {6}, "w")
            .value({"x"}, 1)
            .tensor({"t"}, dtype::f32, std::move(shape), std::move(to));
        return refusal(s, cairn::errc::invalid_state);
    };
    BOOST_TEST(tied("w", {3, 2}) == "no refusal");
    BOOST_TEST(tied("w", {3, 3}) == "t: float32 [3, 3]");
    for (auto const* to : {"x", "v", "t", "none"})
        BOOST_TEST(tied(to, {6}) == "t: a tie to '" + std::string(to) + "'");
    BOOST_TEST(tied("", {-1}) == "t: the shape [-1]");
    auto twice = leaf({"y"});
    twice.entries[1].fqn = "x";
    BOOST_TEST(refusal(twice, cairn::errc::invalid_state) == "x: two of this name");
    state large;
    for (int i = 0; i < 8; ++i)
        large.tensor({"t" + std::to_string(i)}, dtype::f64, {cairn::most_elements / 4});
    BOOST_TEST(refusal(large, cairn::errc::invalid_state) == "t7: more");
}

BOOST_AUTO_TEST_CASE(values_that_cannot_be_written_are_refused_by_name) {
    value deep;
    for (int i = 0; i < 201; ++i) deep = value::list({deep});
    BOOST_TEST(refused(deep).starts_with("a.bad: "));
    BOOST_TEST(refused(value::dict({{value::list({}), 1}})) == "a.bad: a list or dict in a key");
    BOOST_TEST(refused(value::list({stored(of_class("m", "C"))})) ==
               "a.bad: one within another value (stored)");
    for (auto const& [module, name] :
         std::vector<std::pair<const char*, const char*>>{{"posix", "system"},
                                                          {"os.path", "join"},
                                                          {"__builtin__", "eval"},
                                                          {"subprocess", "run"}})
        BOOST_TEST(refused(stored(of_class(module, name)), cairn::errc::unsupported) ==
                   "a.bad: a call of " + std::string(module) + "." + name);
    BOOST_TEST(refused(stored(of_class("builtins", "slice"))) == "no refusal");
    BOOST_TEST(refused(stored("no zip"), cairn::errc::corrupt).starts_with("a.bad: "));
    BOOST_TEST(refused(stored(tuple_of_tensors().zip({{"a", four}})), cairn::errc::corrupt) ==
               "a.bad: no record 'data/b' of 4 bytes");
    BOOST_TEST(refused(stored(tuple_of_tensors().zip({{"a", one}, {"b", one}})),
                       cairn::errc::corrupt) == "a.bad: no record 'data/a' of 16 bytes");
    BOOST_TEST(refused(stored(tuple_of_tensors().zip({{"a", four}, {"b", one}}, {}, "big")),
                       cairn::errc::unsupported) ==
               "a.bad: a tensor within a value of a big-endian one");
    torch_save_file::pickled view;
    view.views = true;
    view.tensor("a", 4, 1, {2}, {1}, "FloatStorage", true);
    BOOST_TEST(refused(stored(view.zip({{"a", four}})), cairn::errc::unsupported) ==
               "a.bad: a view of a storage, in an old file");
    auto damaged = tuple_of_tensors().zip({{"a", four}, {"b", one}});
    damaged[damaged.find(four)] = 'x';
    BOOST_TEST(refused(stored(damaged), cairn::errc::checksum_mismatch) == "a.bad: other bytes");
}

BOOST_AUTO_TEST_CASE(what_could_not_be_read_again_is_refused) {
    state names;
    for (int i = 0; i < 10'000; ++i)
        names.value({std::string(4000, 'n'), std::to_string(i)}, std::int64_t{1});
    BOOST_CHECK_EXCEPTION((void)names.file("x.pt"), cairn::error, [](const cairn::error& e) {
        return e.code() == make_error_code(cairn::errc::unsupported) &&
               e.context().expected.find("bytes of names") != std::string::npos;
    });
    state large;
    large.value({"small"}, std::int64_t{1})
        .value({"a", "big"}, std::string(ts::most_pickle_bytes, 'x'));
    BOOST_CHECK_EXCEPTION((void)large.file("x.pt"), cairn::error, [](const cairn::error& e) {
        return e.code() == make_error_code(cairn::errc::unsupported) &&
               e.context().fqn == "a.big" &&
               e.context().expected.find(std::to_string(ts::most_pickle_bytes)) !=
                   std::string::npos;
    });
}

BOOST_AUTO_TEST_CASE(requires_grad_of_integers_is_not_written) {
    state s;
    s.tensor({"i"}, dtype::i32, {2}, {}, true).tensor({"f"}, dtype::f16, {2}, {}, true);
    opened const o(fill(s.file("x.pt")));
    BOOST_TEST(!o.tensor("i").requires_grad);
    BOOST_TEST(o.tensor("f").requires_grad);
}

namespace {

/// States whose paths are drawn from few names, so that many of them clash.
class random_state {
public:
    explicit random_state(std::uint32_t seed) : random_(seed) {
        for (auto n = draw(12); n > 0; --n) add();
    }
    state s{};

private:
    void add() {
        cairn::key_path path{std::string(1, static_cast<char>('a' + draw(4)))};
        for (auto n = draw(4); n > 0; --n) {
            if (draw(3) == 0)
                path.emplace_back(static_cast<std::int64_t>(draw(3)));
            else
                path.emplace_back(std::string(1, static_cast<char>('a' + draw(4))));
        }
        if (draw(3) == 0) {
            s.value(std::move(path), some_value(0));
            return;
        }
        auto const type = static_cast<dtype>(draw(cairn::dtype_count));
        cairn::index_vector shape;
        for (auto n = draw(4); n > 0; --n) shape.push_back(static_cast<std::int64_t>(draw(4)));
        auto const* last =
            s.entries.empty() ? nullptr : std::get_if<ts::new_tensor>(&s.entries.back().what);
        auto const tied = last != nullptr && draw(4) == 0;
        s.tensor(std::move(path), tied ? last->type : type, tied ? last->shape : shape,
                 tied ? s.entries.back().fqn : "");
    }
    /// One that is read as it is written: neither a dict with items nor a list of parts.
    value some_value(int depth) {
        switch (draw(depth < 3 ? 8 : 6)) {
            case 0: return {};
            case 1: return draw(2) == 0;
            case 2: return static_cast<std::int64_t>(random_()) << draw(33);
            case 3: return -1.0 / (1 + draw(9));
            case 4: return std::string(draw(300), 'x');
            case 5: return laid_out::bytes(std::string(draw(3), '\xfe'));
            default: {
                std::vector<value> items;
                for (auto n = draw(5); n > 0; --n) items.push_back(some_value(depth + 1));
                return value::tuple(std::move(items));
            }
        }
    }
    std::uint32_t draw(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

    std::mt19937 random_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(random_states_are_read_again_or_refused) {
    int written = 0, refused = 0;
    for (std::uint32_t seed = 0; seed < 600; ++seed) {
        BOOST_TEST_CONTEXT("seed " << seed) {
            random_state const r(seed);
            std::string file;
            try {
                file = fill(r.s.file("x.pt"));
            } catch (const cairn::error& e) {
                BOOST_TEST(!e.context().fqn.empty());
                ++refused;
                continue;
            }
            ++written;
            has_all(r.s, opened(file), true);
        }
    }
    BOOST_TEST(written > 100);
    BOOST_TEST(refused > 100);
    BOOST_TEST_MESSAGE(written << " written, " << refused << " refused");
}

BOOST_AUTO_TEST_SUITE_END()
