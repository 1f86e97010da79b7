// SPDX-License-Identifier: Apache-2.0
// The checksums in an index of cairn's are compared by whoever reads whole tensors.
#include "safetensors_exports.hpp"
#include "support/counting_store.hpp"
#include "support/whole.hpp"

#include <cairn/catalog/verify.hpp>
#include <cairn/convert.hpp>
#include <cairn/storage/safetensors_reader.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(safetensors_checksums)

using namespace safetensors_exports;

namespace {

constexpr const char* index_name = "model.safetensors.index.json";

/// An export of two files: the larger tensor is read by several threads, 8 MiB each.
struct exported {
    cairn::memory_store store{};
    std::vector<part_of_state> parts{{"large", dtype::float32, {5, 1 << 20}, held::rows},
                                     {"small", dtype::int16, {3, 7}, held::whole}};
    exported() {
        cairn::safetensors_writer_options o;
        o.max_file_size = 100;
        save_on(store, parts, 1, "m", o);
    }
    cairn::memory_store place() const { return store.at("m"); }
    static std::string file_of(bool large) {
        return large ? "model-00001-of-00002.safetensors" : "model-00002-of-00002.safetensors";
    }
    void put(const std::string& name, cairn::byte_span b) const {
        auto at = place();
        at.remove(name);
        auto file = at.create(name, b.size());
        file.write(0, b);
        file.finish(true);
    }
    /// @param from_end  Of the file: its last byte is 1.
    void flip(bool large, std::size_t from_end) const {
        auto at = place();
        auto b = cairn::read_whole(at, file_of(large));
        b[b.size() - from_end] ^= std::byte{4};
        put(file_of(large), b);
    }
    void replace_in_index(const std::string& old, const std::string& by) const {
        auto at = place();
        auto const b = cairn::read_whole(at, index_name);
        std::string text(reinterpret_cast<const char*>(b.data()), b.size());
        BOOST_REQUIRE(text.find(old) != text.npos);
        text.replace(text.find(old), old.size(), by);
        put(index_name, std::as_bytes(std::span(text)));
    }
    template <class Store>
    cairn::load_report load(Store from, int threads) const {
        auto at = place();
        auto w = support::room_for(cairn::safetensors_reader(at).read_metadata());
        auto sd = support::views(w);
        auto r = cairn::load(sd, "m", cairn::safetensors_reader(std::move(from), threads));
        return r;
    }
    std::string failure(int threads) const {
        return failure_of([&] { (void)load(store, threads); });
    }
};

}  // namespace

BOOST_AUTO_TEST_CASE(an_export_with_an_index_is_loaded_with_nothing_unverified) {
    exported const e;
    for (int const threads : {1, 4}) {
        auto const r = e.load(e.store, threads);
        for (auto const& line : r.unverified) BOOST_ERROR(line);
    }
    auto const r = cairn::verify(e.place());
    BOOST_TEST(r.whole());
    for (auto const& line : r.unverified) BOOST_ERROR(line);
}

BOOST_AUTO_TEST_CASE(a_flipped_byte_of_an_export_is_found_by_whoever_reads_the_tensor) {
    for (bool const large : {false, true})
        for (std::size_t const from_end : {std::size_t{1}, std::size_t{20}}) {
            exported const e;
            e.flip(large, from_end);
            for (int const threads : {1, 4}) {
                auto const why = e.failure(threads);
                BOOST_TEST(says(why, large ? "'large'" : "'small'"));
                BOOST_TEST(says(why, e.file_of(large)));
                BOOST_TEST(says(why, "as they were written"));
            }
            auto const r = cairn::verify(e.place());
            BOOST_TEST(r.damaged);
            BOOST_REQUIRE(r.findings.size() == 1u);
            BOOST_TEST(says(r.findings[0], large ? "'large'" : "'small'"));
            BOOST_TEST(says(r.findings[0], e.file_of(large)));
            BOOST_TEST(says(failure_of([&] {
                                cairn::convert({e.store, "m"}, "dcp", cairn::memory_store());
                            }),
                            "as they were written"));
        }
}

BOOST_AUTO_TEST_CASE(a_rank_reads_no_more_than_its_rows_and_says_what_was_not_compared) {
    exported const e;
    e.flip(true, 1);
    auto place = e.place();
    auto const size = cairn::read_whole(place, e.file_of(true)).size();
    auto const data = std::size_t{5} << 22, half = data / 5 * 3;
    support::counting_store counted(e.store);
    std::vector<float> rows(std::size_t{3} << 20);
    cairn::state_dict sd;
    sd["large"] = cairn::sharded_view{
        {5, 1 << 20},
        dtype::float32,
        {cairn::shard(cairn::box({0, 0}, {3, 1 << 20}),
                      cairn::tensor_view(dtype::float32, {3, 1 << 20}, rows.data()))}};
    auto const r = cairn::load(sd, "m", cairn::safetensors_reader(counted, 4));
    // The first request for the header takes a little more.
    auto const first = size - data + (std::size_t{128} << 10), last = size - data + half;
    BOOST_TEST((counted.reads(e.file_of(true), first, last - first) == std::pair(1, 1)));
    BOOST_TEST((counted.reads(e.file_of(true), last, size - last) == std::pair(0, 0)));
    auto const part = std::count_if(r.unverified.begin(), r.unverified.end(), [](auto& line) {
        return line.find("parts of 1 item were read without the checksum") != line.npos;
    });
    BOOST_TEST(part == 1);
}

BOOST_AUTO_TEST_CASE(an_index_without_checksums_of_all_tensors_leaves_the_rest_unverified) {
    exported const e;
    e.replace_in_index("\"cairn\"", "\"other\"");
    e.flip(true, 1);
    e.flip(false, 1);
    auto r = e.load(e.store, 4);
    BOOST_TEST(r.unverified.size() == 3u);
    BOOST_TEST(says(r.unverified.at(0), "no checksums"));
    exported const some;
    some.replace_in_index("\"large\": ", "\"of another name\": ");
    some.flip(true, 1);
    r = some.load(some.store, 4);
    BOOST_TEST(r.unverified.size() == 2u);
    some.flip(false, 1);
    BOOST_TEST(says(some.failure(4), "'small'"));
}

BOOST_AUTO_TEST_CASE(a_checksum_that_is_no_number_is_refused_with_the_name_of_the_index) {
    exported const e;
    e.replace_in_index("\"large\": ", "\"large\": -");
    auto const why = e.failure(1);
    BOOST_TEST(says(why, "CRC-32"));
    BOOST_TEST(says(why, index_name));
}

BOOST_AUTO_TEST_SUITE_END()
