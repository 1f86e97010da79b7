// SPDX-License-Identifier: Apache-2.0
// What a save as safetensors files writes, from any number of ranks.
#include "safetensors_exports.hpp"
#include "support/no_failures.hpp"
#include "support/scratch.hpp"

#include <cairn/format/crc.hpp>
#include <cairn/format/safetensors/layout.hpp>
#include <cairn/storage/safetensors_reader.hpp>
#include <cairn/testing/storage.hpp>

#include <boost/test/unit_test.hpp>

#include <complex>
#include <cstdint>
#include <filesystem>
#include <list>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace safetensors_exports {

namespace st = cairn::format::safetensors;

template <class Store>
struct export_place {
    Store base;
    std::string id() const { return "run"; }
    auto writer() { return cairn::safetensors_writer(base); }
    auto reader() { return cairn::safetensors_reader(base); }
    std::set<std::string> names() {
        std::set<std::string> out;
        add_names(base, "", out);
        return out;
    }
    static void add_names(Store at, const std::string& path, std::set<std::string>& out) {
        for (auto const& info : at.list()) out.insert(path + info.name);
        auto below = at.places();
        for (auto const& p : at.hidden_places()) below.push_back(p);
        for (auto const& p : below) add_names(at.at(p), path + p + "/", out);
    }
};

}  // namespace safetensors_exports

BOOST_AUTO_TEST_SUITE(safetensors_writing)

using namespace safetensors_exports;

BOOST_AUTO_TEST_CASE(the_safetensors_format_keeps_its_word_in_memory) {
    support::no_failures(cairn::testing::storage_suite(
        [] { return export_place<cairn::memory_store>{cairn::memory_store()}; },
        {.values = false}));
}

BOOST_AUTO_TEST_CASE(the_safetensors_format_keeps_its_word_in_files) {
    std::list<support::scratch> all;
    support::no_failures(cairn::testing::storage_suite(
        [&] { return export_place<cairn::file_store>{cairn::file_store(all.emplace_back().dir)}; },
        {.values = false}));
}

BOOST_AUTO_TEST_CASE(the_bytes_do_not_depend_on_the_ranks_nor_on_what_they_hold) {
    support::scratch s;
    cairn::file_store const files(s.dir);
    for (std::uint64_t const size : {std::uint64_t{5'000'000'000}, std::uint64_t{50'000}}) {
        cairn::safetensors_writer_options o;
        o.max_file_size = size;
        contents want;
        for (auto const how : {held::whole, held::rows, held::columns})
            for (int const ranks : {1, 3, 4}) {
                cairn::memory_store memory;
                BOOST_TEST_CONTEXT(static_cast<int>(how) << " on " << ranks << " ranks") {
                    save_on(memory, many_kinds(how), ranks, "m", o);
                    auto const found = without_ids(contents_of(memory.at("m")));
                    if (want.empty()) want = found;
                    BOOST_TEST(names_in(found) == names_in(want));
                    BOOST_TEST((found == want));
                    save_on(files, many_kinds(how), ranks, "m", o);
                    BOOST_TEST((without_ids(contents_of(files.at("m"))) == want));
                }
            }
        BOOST_TEST(want.size() == (size > 1'000'000 ? 1u : 5u), names_in(want));
    }
    BOOST_TEST(entries_of(s.dir) == std::set<std::string>{"m"});
}

BOOST_AUTO_TEST_CASE(long_stretches_are_written_once_in_whole_pages_that_nobody_else_writes) {
    support::scratch s;
    cairn::file_store const files(s.dir);
    std::vector<part_of_state> const parts{{"rows", dtype::uint8, {4, 100'000}, held::rows},
                                           {"wide", dtype::uint8, {3, 400'000}, held::columns},
                                           {"short", dtype::uint8, {4, 65'000}, held::rows}};
    cairn::safetensors_writer_options o;
    std::map<std::string, std::uintmax_t> aside;
    o.add_files = [&](auto const&) {
        for (auto const& e : fs::recursive_directory_iterator(s.dir))
            if (auto const name = e.path().filename().string(); name.starts_with("side."))
                aside[name] = fs::file_size(e.path());
    };
    save_on(files, parts, 4, "m", o);
    BOOST_TEST_REQUIRE(aside.size() == 4u);
    BOOST_TEST(aside.at("side.0") == 9u * 4);  // checksums
    for (auto const* name : {"side.1", "side.2", "side.3"}) {
        // The short run, and of four runs of 100'000 bytes what is in no whole page.
        auto const in_no_page = aside.at(name) - 65'000 - 9 * 4;
        BOOST_TEST(in_no_page < 4u * 2 * 4096);
        BOOST_TEST(in_no_page % 4096 == 4u * 100'000 % 4096);
    }
}

BOOST_AUTO_TEST_CASE(a_file_of_the_reference_implementation_is_written_as_it_is) {
    auto const golden = fs::path(CAIRN_GOLDEN) / "formats";
    for (auto const* name : {"safetensors/torch_kinds/kinds.safetensors",
                             "hf/quantised_blocks/model-00001-of-00001.safetensors",
                             "hf/transformers_sharded/model-00002-of-00003.safetensors"}) {
        auto const tree = cairn::load_tree((golden / name).string(), {}, cairn::file_store());
        support::scratch s;
        cairn::safetensors_writer_options o;
        if (std::string(name).find("kinds") != std::string::npos)
            o.text["note"] = "h\xc3\xa9llo \xe2\x9c\x93";
        auto const id = (s.dir / "x.safetensors").string();
        cairn::save(tree, id, cairn::safetensors_writer(o));
        BOOST_TEST((content_of(id) == content_of(golden / name)), name);
        BOOST_TEST(entries_of(s.dir) == std::set<std::string>{"x.safetensors"});
    }
}

BOOST_AUTO_TEST_CASE(an_index_has_the_checksum_of_each_tensor) {
    for (auto const how : {held::rows, held::columns}) {
        cairn::memory_store store;
        cairn::safetensors_writer_options o;
        o.max_file_size = 100'000;
        auto const report = save_on(store, many_kinds(how), 3, "m", o);
        auto place = store.at("m");
        auto const index = cairn::read_whole(place, st::index_name);
        auto const notes = st::decode_notes(index);
        BOOST_TEST(notes.save_id == report.save_id);
        state_part const all(many_kinds(held::whole), 0, 1);
        BOOST_TEST(notes.crcs.size() == all.dict().size());
        for (auto const& [fqn, entry] : all.dict()) {
            auto const& v = entry.as_tensor().shards.at(0).view;
            cairn::byte_span const bytes(v.data, static_cast<std::size_t>(v.bytes()));
            BOOST_TEST(notes.crcs.at(fqn) == cairn::format::crc32(bytes), fqn);
        }
    }
}

BOOST_AUTO_TEST_CASE(tied_weights_are_stored_under_one_name_and_the_report_says_so) {
    cairn::memory_store store;
    std::vector<float> w{1, 2, 3}, other{4};
    cairn::run_ranks(3, [&](cairn::thread_group::member& me) {
        cairn::state_dict const sd{{"embed", w}, {"head", w}, {"other", other}};
        auto const r = cairn::save(sd, "m", me, cairn::safetensors_writer(store));
        if (me.rank() != 0) return;
        BOOST_TEST_REQUIRE(r.warnings.size() == 1u);
        BOOST_TEST(says(r.warnings[0], "'head' is not stored: it is tied to 'embed'"));
    });
    std::vector<float> got(3), rest(1);
    cairn::load(cairn::state_dict{{"embed", got}, {"other", rest}}, "m", store);
    BOOST_TEST((got == w && rest == other));
    BOOST_TEST(says(failure_of([&] {
                        cairn::load(cairn::state_dict{{"head", got}}, "m", store);
                    }),
                    "'head'"));
}

/// On rank 0 the two differ.
BOOST_AUTO_TEST_CASE(what_is_tied_on_some_ranks_only_is_stored_under_both_names) {
    cairn::memory_store store;
    cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
        std::vector<float> a(2, 1.0f + static_cast<float>(me.rank())), b(2, 7.0f);
        auto const rows = [&](std::vector<float>& v) {
            return cairn::shard_by_mesh(cairn::tensor_view(dtype::f32, {1, 2}, v.data()), {2, 2},
                                        cairn::device_mesh::line(2), {cairn::shard_along{0}},
                                        me.rank());
        };
        cairn::state_dict const sd{{"a", rows(a)}, {"b", rows(me.rank() == 1 ? a : b)}};
        auto const r = cairn::save(sd, "m", me, cairn::safetensors_writer(store));
        BOOST_TEST(r.warnings.empty());
    });
    std::vector<float> got(4);
    cairn::load(cairn::state_dict{{"b", cairn::tensor_view(dtype::f32, {2, 2}, got.data())}}, "m",
                store);
    BOOST_TEST((got == std::vector<float>{7, 7, 2, 2}));
}

BOOST_AUTO_TEST_CASE(columns_of_a_large_tensor_are_gathered_in_pieces) {
    std::vector<part_of_state> const parts{{"x", dtype::int16, {1200, 4000}, held::columns}};
    cairn::memory_store one, three;
    auto const told = save_on(three, parts, 3, "m").warnings;
    BOOST_TEST_REQUIRE(told.size() == 1u);
    BOOST_TEST(says(told[0], "9600000 bytes were written twice, because shards like those of 'x'"));
    BOOST_TEST(save_on(one, parts, 1, "m").warnings.empty());
    BOOST_TEST((contents_of(one.at("m")) == contents_of(three.at("m"))));
}

BOOST_AUTO_TEST_CASE(what_the_format_does_not_have_is_refused_by_name_or_left_out) {
    cairn::memory_store store;
    std::vector<float> w{1, 2};
    int step = 3;
    cairn::state_dict const sd{{"w", w}, {"step", std::ref(step)}};
    auto const why = failure_of([&] { cairn::save(sd, "m", cairn::safetensors_writer(store)); });
    BOOST_TEST((says(why, "'step'") && says(why, "skip_values")));
    cairn::safetensors_writer_options o;
    o.skip_values = true;
    auto const r = cairn::save(sd, "m", cairn::safetensors_writer(store, o));
    BOOST_TEST_REQUIRE(r.warnings.size() == 1u);
    BOOST_TEST(says(r.warnings[0], "1 values are not stored, e.g. 'step'"));
    BOOST_TEST(says(failure_of([&] {
                        cairn::save(cairn::state_dict{{"step", std::ref(step)}}, "m",
                                    cairn::safetensors_writer(store, o));
                    }),
                    "only values, e.g. 'step'"));
    std::vector<float> got(2);
    cairn::load(cairn::state_dict{{"w", got}}, "m", store);
    BOOST_TEST((got == w));
    std::vector<std::complex<double>> z(2);
    BOOST_TEST(
        says(failure_of([&] {
                 cairn::save(cairn::state_dict{{"z", z}}, "m", cairn::safetensors_writer(store));
             }),
             "complex128"));
    BOOST_TEST(contents_of(store.at("m")).size() == 1u);
}

/// The one who began first finds at the end that it is no longer what it was.
/// Every operation of the store fails in turn, before or after its effect.
BOOST_AUTO_TEST_SUITE_END()
