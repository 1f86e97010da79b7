// SPDX-License-Identifier: Apache-2.0
// Files of torch.save, as bytes: what PyTorch wrote, against what it holds.
#include "torch_save_file.hpp"

#include "support/sha256.hpp"

#include <cairn/format/torch/value_item.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <variant>
#include <vector>

BOOST_AUTO_TEST_SUITE(torch_save_samples)

namespace {

using namespace torch_save_file;
using namespace std::string_literals;
using cairn::value;

/// The elements in row-major order.
std::vector<std::byte> elements(const std::string& file, const ts::stored_tensor& t) {
    std::vector<std::byte> out;
    auto const size = cairn::size_of(t.type);
    cairn::index_vector at(t.shape.size(), 0);
    for (std::int64_t n = t.shape.product(); n > 0; --n) {
        auto from = t.storage_offset;
        for (std::size_t d = 0; d < at.size(); ++d)
            from += static_cast<std::uint64_t>(at[d] * t.strides[d]);
        auto const* p = reinterpret_cast<const std::byte*>(file.data()) + t.at.offset + from * size;
        out.insert(out.end(), p, p + size);
        for (auto d = at.size(); d-- > 0 && ++at[d] == t.shape[d];) at[d] = 0;
    }
    if (t.conjugate)  // of complex64, in the only sample
        for (std::size_t i = 7; i < out.size(); i += 8) out[i] ^= std::byte{0x80};
    return out;
}
/// How expected.json describes a tensor.
std::string described(const std::string& name, const ts::stored_tensor& t,
                      const std::string& file) {
    std::string shape = "[";
    for (std::size_t d = 0; d < t.shape.size(); ++d)
        shape += (d == 0 ? "\n    " : ",\n    ") + std::to_string(t.shape[d]);
    shape += t.shape.empty() ? "]" : "\n   ]";
    return "\"" + name + "\": {\n   \"dtype\": \"" + std::string(cairn::name_of(t.type)) +
           "\",\n   \"shape\": " + shape + ",\n   \"sha256\": \"" +
           support::sha256(elements(file, t)) + "\"\n";
}
std::size_t count(const std::string& text, const std::string& what) {
    std::size_t n = 0;
    for (auto at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
    return n;
}

}  // namespace

BOOST_AUTO_TEST_CASE(tensors_of_all_samples_have_their_shapes_and_elements) {
    std::size_t files = 0;
    for (auto const& dir : fs::directory_iterator(samples / "pt")) {
        auto const expected = slurp(dir.path() / "expected.json");
        for (auto const& e : fs::directory_iterator(dir.path())) {
            if (e.path().filename() == "expected.json") continue;
            ++files;
            opened const o(slurp(e.path()));
            std::size_t tensors = 0;
            for (auto const& [name, entry] : o.all.entries()) {
                BOOST_TEST_CONTEXT(dir.path() << " " << name) {
                    auto const* t = std::get_if<ts::stored_tensor>(&entry.what);
                    BOOST_TEST(!std::holds_alternative<ts::refused>(entry.what));
                    if (t == nullptr) continue;
                    ++tensors;
                    auto const text = described(name, *t, o.file);
                    BOOST_TEST(count(expected, text) == 1u, text);
                }
            }
            BOOST_TEST(tensors == count(expected, "\"sha256\""));
        }
    }
    BOOST_TEST(files == 5u);
}

BOOST_AUTO_TEST_CASE(headers_of_records_are_read_by_several_threads) {
    auto const file = slurp(samples / "pt/zip_kinds/state.pt");
    auto const source = reads(file);
    std::mutex m;
    std::set<std::thread::id> readers;
    ts::content const all(
        [&](std::uint64_t at, std::span<std::byte> into) {
            if (into.size() == 30) {  // a local header
                std::this_thread::sleep_for(std::chrono::milliseconds(2));
                std::lock_guard const lock(m);
                readers.insert(std::this_thread::get_id());
            }
            source(at, into);
        },
        file.size(), 4);
    BOOST_TEST(all.entries().size() == opened(file).all.entries().size());
    BOOST_TEST(readers.size() > 1u);
}

BOOST_AUTO_TEST_CASE(values_of_both_forms_are_plain) {
    for (auto const* form : {"zip_kinds", "legacy_kinds"}) {
        BOOST_TEST_CONTEXT(form) {
            opened const o(slurp(samples / "pt" / form / "state.pt"));
            BOOST_TEST((o.at("step") == value(12345)));
            BOOST_TEST(
                (o.at("huge").as<cairn::big_int>().to_string() == "1208925819614629174706176"));
            BOOST_TEST((o.at("negative") == value(-1)));
            BOOST_TEST((o.at("ratio") == value(1.5)));
            BOOST_TEST((o.at("name") == value("h\xc3\xa9llo")));
            BOOST_TEST((o.at("list") == value::list({1, 2, 3})));
            BOOST_TEST((o.at("mixed.1") == value(5)));
            BOOST_TEST(o.at("bytes").as<value::bytes_t>().size() == 5u);
            BOOST_TEST(o.at("none").is_none());
            BOOST_TEST((o.at("tuple") == value::tuple({1, "a", value::tuple({2.5, nullptr})})));
            BOOST_TEST((o.at("7.int key") == value(true)));
            BOOST_TEST(
                (o.all.entries().at("mixed.1").path == cairn::key_path{"mixed", std::int64_t{1}}));
            BOOST_TEST((o.all.entries().at("7.int key").path == cairn::key_path{"7", "int key"}));
        }
    }
}

BOOST_AUTO_TEST_CASE(values_of_other_classes_are_items_of_their_own) {
    pickled p;
    p.begin_dict();
    p.key("pair");  // a tuple of tensors, one of them twice
    p.tensor("0", 4, 0, {4}, {1});
    auto const tensor = p.w.put();
    p.w.get(tensor);
    p.w.op(0x86);
    p.key("made");  // by a call
    p.w.global("datetime", "date");
    p.w.string("x");
    p.w.op(0x85);
    p.w.op('R');
    p.key("created");  // by __new__, with a state
    p.w.global("mine", "Thing");
    p.w.op(')');
    p.w.op(0x81);
    p.begin_dict();
    p.key("member");
    p.w.bytes("abc");
    p.end_dict();
    p.w.op('b');
    p.key("keywords");  // protocol 4: they are not kept
    p.w.global("mine", "Thing");
    p.w.op(')');
    p.begin_dict();
    p.key("member");
    p.w.integer(1);
    p.end_dict();
    p.w.op(0x92);
    p.end_dict();
    std::string const content = "0123456789abcdef";
    opened const o(p.zip({{"0", content}}, {}, "big"));

    auto const item_of = [&](const std::string& name, const std::string& what) {
        auto const v = o.at(name);
        BOOST_REQUIRE(v.is<value::opaque_t>());
        BOOST_TEST(v.get_if<value::opaque_t>()->what() == what);
        return v.get_if<value::opaque_t>()->item();
    };
    auto const pair = item_of("pair", "a tensor inside a value");
    auto const decoded = cairn::format::torch::decode_value(pair);
    BOOST_TEST(decoded.is<value::opaque_t>());
    auto const text = std::string(reinterpret_cast<const char*>(pair.data()), pair.size());
    BOOST_TEST(text.find(content) != text.npos);
    BOOST_TEST(text.find("byteorder") != text.npos);
    BOOST_TEST(text.find("big") != text.npos);

    auto const made = item_of("made", "class datetime.date");
    auto const again = cairn::format::torch::decode_value(made);
    BOOST_TEST(again.get_if<value::opaque_t>()->what() == "class datetime.date");
    auto const created = item_of("created", "class mine.Thing");
    auto const shown = std::string(reinterpret_cast<const char*>(created.data()), created.size());
    BOOST_TEST(shown.find("\x80\x02"
                          "cmine\nThing\nq") != shown.npos);
    BOOST_TEST(shown.find(")\x81q\x01}q\x02(X\x06") != shown.npos);
    BOOST_TEST(std::get<ts::refused>(o.all.entries().at("keywords").what).why ==
               "mine.Thing (keyword arguments of class mine.Thing)");
}

BOOST_AUTO_TEST_CASE(a_value_keeps_the_items_of_its_class) {
    pickled p;
    p.begin_dict();
    p.key("set");  // of protocol 4, within a set that does not change
    p.w.mark();
    p.w.op(0x8f);
    p.w.mark();
    p.w.integer(1);
    p.w.op(0x90);
    p.w.op(0x91);
    p.key("deque");
    p.w.global("collections", "deque");
    p.w.op(')');
    p.w.op('R');
    for (int i = 1; i < 4; ++i) {
        p.w.integer(i);
        p.w.op('a');
    }
    p.key("list");  // a subclass with items, keys and a state
    p.w.global("mine", "Names");
    p.w.op(')');
    p.w.op(0x81);
    p.w.mark();
    p.w.integer(1);
    p.w.integer(2);
    p.w.op('e');
    p.w.integer(3);
    p.w.integer(4);
    p.w.op('s');
    p.begin_dict();
    p.end_dict();
    p.w.op('b');
    p.end_dict();
    opened const o(p.zip({}));
    auto const copy = [&](const std::string& name) {
        auto const v = o.at(name);
        BOOST_REQUIRE(v.is<value::opaque_t>());
        auto const& item = v.get_if<value::opaque_t>()->item();
        std::string const text(reinterpret_cast<const char*>(item.data()), item.size());
        auto const begin = text.find("\x80\x02");
        return text.substr(begin + 2, text.find("PK\7\10", begin) - begin - 2);
    };
    BOOST_TEST(copy("set") ==
               "c__builtin__\nfrozenset\n](c__builtin__\nset\n](K\1e\x85Rq\0e\x85Rq\1."s);
    BOOST_TEST(copy("deque") == "ccollections\ndeque\nq\0)Rq\1(K\1K\2K\3e."s);
    BOOST_TEST(copy("list") == "cmine\nNames\nq\0)\x81q\1(K\1K\2e(K\3K\4u}q\2b."s);
}

BOOST_AUTO_TEST_CASE(a_view_of_a_storage_in_an_old_file_begins_where_it_says) {
    pickled p;
    p.views = true;
    p.begin_dict();
    p.key("t");
    p.tensor("0", 4, 1, {2}, {1}, "FloatStorage", true);
    p.end_dict();
    opened const o(p.legacy({"0"}, {{"0", "aaaabbbbccccdddd"}}));
    BOOST_TEST(o.tensor("t").storage_offset == 2u);
}

BOOST_AUTO_TEST_CASE(a_tensor_within_a_value_of_an_old_file_is_stored_as_in_a_new_one) {
    auto const pair = [](std::string_view storage, bool legacy, bool views = false) {
        pickled p;
        p.views = views;
        p.begin_dict();
        p.key("pair");
        p.tensor(storage, 4, 0, {4}, {1}, "FloatStorage", legacy);
        p.tensor(storage, 4, 1, {2}, {1}, "FloatStorage", legacy);
        p.w.op(0x86);
        p.key("t");
        p.tensor(storage, 4, 1, {2}, {1}, "FloatStorage", legacy);
        p.end_dict();
        return p;
    };
    std::string const content = "aaaabbbbccccdddd";
    auto const item = [](const opened& o) {
        auto const v = o.at("pair");
        auto const& bytes = v.get_if<value::opaque_t>()->item();
        return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    };
    opened const old(pair("93876", true).legacy({"93876"}, {{"93876", content}}));
    opened const today(pair("5", false).zip({{"5", content}}));
    BOOST_TEST((item(old) == item(today)));
    BOOST_TEST(item(old).find("archive/data/0") != std::string::npos);

    // Offsets count from the beginning of the view, and the item would have the whole storage.
    opened const views(pair("0", true, true).legacy({"0"}, {{"0", content}}));
    BOOST_TEST(std::get<ts::refused>(views.all.entries().at("pair").what).why ==
               "torch._utils._rebuild_tensor_v2 (a view of a storage, in an old file)");
    BOOST_TEST(views.tensor("t").storage_offset == 2u);
}

BOOST_AUTO_TEST_CASE(a_bytearray_of_protocol_5_stays_one) {
    for (std::string const content : {"", "a\xff"}) {
        pickled p;
        p.begin_dict();
        p.key("ba");
        for (int const x : {0x96, static_cast<int>(content.size()), 0, 0, 0, 0, 0, 0, 0})
            p.w.op(static_cast<std::uint8_t>(x));
        for (char const c : content) p.w.op(static_cast<std::uint8_t>(c));
        p.end_dict();
        auto const v = opened(p.zip({})).at("ba");
        auto const& o = v.as<value::opaque_t>();
        BOOST_TEST(o.what() == "class __builtin__.bytearray");
        std::string const item(reinterpret_cast<const char*>(o.item().data()), o.item().size());
        BOOST_TEST(item.find("c__builtin__\nbytearray\n") != item.npos);
        BOOST_TEST((item.find("a\xc3\xbf") != item.npos) == !content.empty());
    }
}

/// `t[3:, 1:]` of three rows has an offset of 13 elements.
BOOST_AUTO_TEST_CASE(an_empty_view_may_begin_beyond_its_storage) {
    for (bool const legacy : {false, true}) {
        pickled p;
        p.begin_dict();
        p.key("t");
        p.tensor("0", 12, 13, {0, 3}, {4, 1}, "FloatStorage", legacy);
        p.end_dict();
        std::string const storage(48, 'x');
        opened const o(legacy ? p.legacy({"0"}, {{"0", storage}}) : p.zip({{"0", storage}}));
        BOOST_TEST((o.tensor("t").shape == cairn::index_vector{0, 3}));
        auto const m = ts::describe(o.all, "f.pt", o.file.size());
        auto const c = m.tensor("t")->chunks[0];
        BOOST_TEST(c.at.layout->payload_offset == 0u);
        BOOST_TEST(c.at.layout->payload_length == 0u);
    }
}

BOOST_AUTO_TEST_CASE(many_small_values_in_nested_containers_are_read) {
    constexpr int n = 30'000;
    pickled p;
    p.begin_dict();
    p.key("hyper_parameters");
    p.begin_dict();
    p.key("counts");
    p.begin_dict();
    for (int i = 0; i < n; ++i) {
        p.w.integer(i);
        p.w.integer(i % 200);
    }
    p.end_dict();
    p.key("history");
    p.w.op(']');
    p.w.mark();
    std::vector<std::uint32_t> keys;
    for (int i = 0; i < n; ++i) {
        p.begin_dict();
        for (std::size_t k = 0; k < 2; ++k) {
            if (i == 0) {
                p.key(k == 0 ? "epoch" : "loss");
                keys.push_back(p.w.put());
            } else {
                p.w.get(keys[k]);
            }
            k == 0 ? p.w.integer(i) : p.w.real(0.5);
        }
        p.end_dict();
    }
    p.w.op('e');
    p.end_dict();
    p.end_dict();
    opened const o(p.zip({}));
    BOOST_TEST(o.all.entries().size() == 3u * n);
    BOOST_TEST((o.at("hyper_parameters.counts.201") == cairn::value(1)));
    BOOST_TEST((o.at("hyper_parameters.history.7.epoch") == cairn::value(7)));
}

BOOST_AUTO_TEST_CASE(a_tensor_alone_has_the_empty_name) {
    pickled p;
    p.tensor("0", 4, 1, {3}, {1});
    opened const o(p.zip({{"0", std::string(16, 'x')}}));
    BOOST_TEST(o.tensor("").storage_offset == 1u);
    BOOST_TEST(o.all.entries().size() == 1u);
}

BOOST_AUTO_TEST_CASE(metadata_say_where_elements_are_and_what_is_to_be_done_to_them) {
    pickled p;
    p.begin_dict();
    p.key("n");
    p.begin_dict();
    p.key("t");
    p.tensor("0", 4, 1, {2}, {2}, "FloatStorage", false, "neg");
    p.end_dict();
    p.end_dict();
    opened const o(p.zip({{"0", std::string(16, 'x')}}, {}, "big"));
    auto const m = ts::describe(o.all, "f.pt", o.file.size());
    auto const c = m.tensor("n.t")->chunks[0];
    BOOST_TEST(c.at.offset == o.file.find(std::string(16, 'x')));
    BOOST_TEST(c.at.length == 16u);
    BOOST_TEST((c.at.transforms == std::vector<std::string>{"big_endian", "negative"}));
    BOOST_TEST(c.at.layout->payload_offset == 4u);
    BOOST_TEST(c.at.layout->payload_length == 12u);
    BOOST_TEST((c.at.layout->strides == cairn::index_vector{2}));
    BOOST_TEST(c.at.layout->payload_crc != 0u);
    BOOST_TEST((m.paths.at("n.t") == cairn::key_path{"n", "t"}));
    BOOST_TEST(m.file_sizes.at("f.pt") == o.file.size());
}

BOOST_AUTO_TEST_SUITE_END()
