// SPDX-License-Identifier: Apache-2.0
// What an export as safetensors files does on request: other dtypes, other names of tied weights,
// checksums in the files.
#include "safetensors_exports.hpp"
#include "support/scratch.hpp"
#include "support/whole.hpp"

#include <cairn/catalog/verify.hpp>
#include <cairn/convert.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/format/safetensors/header.hpp>
#include <cairn/format/safetensors/layout.hpp>
#include <cairn/storage/safetensors_reader.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(safetensors_options)

using namespace safetensors_exports;
namespace st = cairn::format::safetensors;

namespace {

/// An export to one file with checksums in it.
struct single_file {
    support::scratch s{};
    std::string id = (s.dir / "m.safetensors").string();
    std::vector<part_of_state> parts{{"large \"\xc3\xa9\"", dtype::float32, {5, 1 << 20}},
                                     {"small", dtype::int16, {3, 7}, held::whole},
                                     {"empty", dtype::float64, {0, 2}, held::whole}};

    single_file() {
        cairn::safetensors_writer_options o;
        o.checksums_in_files = true;
        o.text["note"] = "of mine";
        save_on(cairn::file_store(), parts, 2, id, o);
    }
    /// @param from_end  Of the file: its last byte is 1.
    void flip(std::size_t from_end) const {
        std::fstream f(id, std::ios::in | std::ios::out | std::ios::binary);
        f.seekg(-static_cast<std::streamoff>(from_end), std::ios::end);
        auto const c = static_cast<char>(f.get() ^ 4);
        f.seekp(-static_cast<std::streamoff>(from_end), std::ios::end);
        f.put(c);
    }
    cairn::load_report load() const {
        cairn::safetensors_reader reader{cairn::file_store()};
        reader.reset(id);
        auto w = support::room_for(reader.read_metadata());
        auto sd = support::views(w);
        return cairn::load(sd, id, cairn::safetensors_reader(cairn::file_store()));
    }
};

st::header header_of(cairn::byte_span file) {
    auto const n = st::header_length(file.first<st::length_bytes>(), file.size());
    bool first = true;
    return st::read_header(
        [&] {
            return std::exchange(first, false)
                       ? file.subspan(st::length_bytes, static_cast<std::size_t>(n))
                       : cairn::byte_span();
        },
        n, file.size());
}

}  // namespace

BOOST_AUTO_TEST_CASE(floats_become_another_dtype_on_any_number_of_ranks_as_in_a_conversion) {
    for (auto const type : {dtype::bfloat16, dtype::float64, dtype::float8_e5m2}) {
        cairn::memory_store store;
        cairn::convert_options how;
        how.floats_as = type;
        save_on(store, many_kinds(held::whole), 1, "as it is");
        (void)cairn::convert({store, "as it is"}, "converted", how,
                             cairn::safetensors_writer(store));
        auto const wanted = contents_of(store.at("converted"));
        cairn::safetensors_writer_options o;
        o.floats_as = type;
        for (auto const held : {held::rows, held::columns})
            for (int const ranks : {1, 3}) {
                save_on(store, many_kinds(held), ranks, "m", o);
                BOOST_TEST((contents_of(store.at("m")) == wanted), cairn::name_of(type)
                                                                       << " on " << ranks);
            }
        cairn::safetensors_reader reader(store);
        reader.reset("m");
        auto const m = reader.read_metadata();
        for (auto const& p : many_kinds(held::whole)) {
            bool const is_float = cairn::info(p.type).kind == cairn::dtype_class::floating;
            BOOST_TEST((m.tensor(p.fqn)->type == (is_float ? type : p.type)), p.fqn);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_float_is_rounded_to_the_nearest_and_a_tie_to_even) {
    cairn::memory_store store;
    std::vector<float> w{1.0f, 1.00390625f, 1.01171875f, -3.0e38f, 3.4e38f};
    std::vector<std::int64_t> n{(std::int64_t{1} << 40) + 1};
    cairn::safetensors_writer_options o;
    o.floats_as = dtype::bfloat16;
    cairn::save(cairn::state_dict{{"w", w}, {"n", n}}, "m", cairn::safetensors_writer(store, o));
    std::vector<std::uint16_t> got(w.size());
    std::vector<std::int64_t> m(1);
    cairn::tensor_view const view(dtype::bfloat16, {5}, got.data());
    cairn::load(cairn::state_dict{{"w", view}, {"n", m}}, "m", store);
    BOOST_TEST((got == std::vector<std::uint16_t>{0x3f80, 0x3f80, 0x3f82, 0xff62, 0x7f80}));
    BOOST_TEST((m == n));
    o.floats_as = dtype::int32;
    BOOST_TEST(
        says(failure_of([&] {
                 cairn::save(cairn::state_dict{{"w", w}}, "m", cairn::safetensors_writer(store, o));
             }),
             "int32"));
}

BOOST_AUTO_TEST_CASE(of_tied_names_the_preferred_one_is_stored_by_saves_and_conversions) {
    cairn::memory_store store;
    std::vector<float> w{1, 2, 3, 4, 5}, other{4};
    auto const is = [](std::string_view want) {
        return [want](std::string_view fqn) { return fqn == want; };
    };
    cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
        cairn::state_dict const sd{{"a.head", w}, {"b.embed", w}, {"c", w}, {"other", other}};
        cairn::save(sd, "dcp", me, store);
        cairn::safetensors_writer_options o;
        o.prefers = is("b.embed");
        auto const r = cairn::save(sd, "saved", me, cairn::safetensors_writer(store, o));
        if (me.rank() != 0) return;
        BOOST_TEST_REQUIRE(r.warnings.size() == 2u);
        BOOST_TEST(says(r.warnings[0], "'a.head' is not stored: it is tied to 'b.embed'"));
        BOOST_TEST(says(r.warnings[1], "'c' is not stored: it is tied to 'b.embed'"));
    });
    cairn::run_ranks(3, [&](cairn::thread_group::member& me) {
        cairn::safetensors_writer_options o;
        o.prefers = is("b.embed");
        (void)cairn::convert({store, "dcp"}, "converted", me, cairn::safetensors_writer(store, o));
    });
    BOOST_TEST((contents_of(store.at("saved")) == contents_of(store.at("converted"))));
    cairn::safetensors_reader reader(store);
    reader.reset("saved");
    auto const m = reader.read_metadata();
    BOOST_TEST(m.entries.size() == 2u);
    BOOST_TEST(m.entries.contains("b.embed"));
    std::vector<float> got(5);
    cairn::load(cairn::state_dict{{"b.embed", got}}, "saved", store);
    BOOST_TEST((got == w));
    cairn::safetensors_writer_options o;
    o.prefers = is("of no tensor");
    cairn::save(cairn::state_dict{{"a", w}, {"b", w}}, "m", cairn::safetensors_writer(store, o));
    cairn::load(cairn::state_dict{{"a", got}}, "m", store);
}

BOOST_AUTO_TEST_CASE(a_file_has_the_checksum_of_each_of_its_tensors_on_request) {
    single_file const e;
    auto const b = content_of(e.id);
    auto const header = header_of(b);
    BOOST_TEST(header.text.at("format") == "pt");
    BOOST_TEST(header.text.at("note") == "of mine");
    auto const crcs = st::checksums_in(header.text);
    BOOST_TEST(crcs.size() == 3u);
    for (auto const& t : header.tensors)
        BOOST_TEST(crcs.at(t.name) ==
                   cairn::format::crc32(cairn::byte_span(b).subspan(
                       static_cast<std::size_t>(t.offset), static_cast<std::size_t>(t.length))));
    auto const r = e.load();
    for (auto const& line : r.unverified) BOOST_ERROR(line);
    auto const v = cairn::verify(cairn::file_store(e.s.dir), {}, "m.safetensors");
    BOOST_TEST(v.whole());
    for (auto const& line : v.unverified) BOOST_ERROR(line);
}

BOOST_AUTO_TEST_CASE(a_flipped_byte_of_a_file_with_checksums_is_found) {
    for (bool const large : {false, true}) {
        single_file const e;
        e.flip(large ? 100 : 1);
        auto const* const name = large ? "'large" : "'small'";
        BOOST_TEST(says(failure_of([&] { (void)e.load(); }), name));
        auto const v = cairn::verify(cairn::file_store(e.s.dir), {}, "m.safetensors");
        BOOST_REQUIRE(v.findings.size() == 1u);
        BOOST_TEST(says(v.findings[0], name));
        BOOST_TEST(says(
            failure_of([&] { (void)cairn::convert(e.id, "dcp", cairn::memory_store()); }), name));
    }
}

BOOST_AUTO_TEST_CASE(files_of_a_directory_have_checksums_with_and_without_their_index) {
    cairn::memory_store store;
    cairn::safetensors_writer_options o;
    o.checksums_in_files = true;
    o.max_file_size = 50'000;
    save_on(store, many_kinds(held::columns), 3, "m", o);
    auto place = store.at("m");
    for (bool const has_index : {true, false}) {
        if (!has_index) place.remove(std::string(st::index_name));
        auto const v = cairn::verify(place);
        BOOST_TEST(v.whole());
        for (auto const& line : v.unverified) BOOST_ERROR(line);
    }
}

BOOST_AUTO_TEST_CASE(checksums_that_are_none_are_refused_with_the_name_of_the_file) {
    support::scratch s;
    auto const id = (s.dir / "x.safetensors").string();
    std::string const header = R"({"__metadata__":{"cairn_crc32":"{\"w\":-1}"},)"
                               R"("w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
    std::uint64_t const n = header.size();
    std::ofstream(id, std::ios::binary)
        .write(reinterpret_cast<const char*>(&n), 8)
        .write(header.data(), static_cast<std::streamsize>(n))
        .put('x');
    std::vector<std::uint8_t> w(1);
    auto const why = failure_of([&] { cairn::load(cairn::state_dict{{"w", w}}, id); });
    BOOST_TEST(says(why, "CRC-32"));
    BOOST_TEST(says(why, "x.safetensors"));
    cairn::safetensors_writer_options o;
    o.text["cairn_crc32"] = "{}";
    BOOST_TEST(says(failure_of([&] {
                        cairn::save(cairn::state_dict{{"w", w}}, id, cairn::safetensors_writer(o));
                    }),
                    "cairn_crc32"));
}

BOOST_AUTO_TEST_SUITE_END()
