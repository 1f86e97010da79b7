// SPDX-License-Identifier: Apache-2.0
// Items that PyTorch has compressed (`stream.zstd/1`): read whole and in part, each decoded once,
// and refused one by one if they are not what the metadata says.
#include "support/counting_store.hpp"
#include "support/crafted.hpp"
#include "support/whole.hpp"

#include <cairn/cairn.hpp>
#include <cairn/catalog/verify.hpp>
#include <cairn/format/torch/item.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/detail/checked_payloads.hpp>
#include <cairn/storage/detail/compressed_item.hpp>
#include <cairn/storage/detail/stored_chunk.hpp>
#include <cairn/storage/open_file.hpp>

#include <boost/test/unit_test.hpp>

#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(zstd_items)

namespace {

using cairn::errc;
using support::crafted;

crafted sample() {
    cairn::memory_store store;
    auto place = store.at("c");
    cairn::file_store golden(std::string(CAIRN_GOLDEN) + "/zstd/checkpoint");
    for (auto const& name : {".metadata", "__0_0.distcp", "__1_0.distcp"})
        place.publish(name, cairn::read_whole(golden, name), std::nullopt);
    return {store, "c"};
}
/// A sample whose pickle was changed.
crafted sample(const std::function<void(cairn::metadata&)>& change) {
    auto c = sample();
    auto m = c.metadata();
    change(m);
    c.set_pickle(m);
    return c;
}
cairn::tensor_metadata& tensor(cairn::metadata& m, const char* key) {
    return std::get<cairn::tensor_metadata>(m.entries.find(key)->second);
}
std::vector<std::byte> compressed(const std::vector<std::byte>& content) {
    std::vector<std::byte> out(ZSTD_compressBound(content.size()));
    out.resize(ZSTD_compress(out.data(), out.size(), content.data(), content.size(), 3));
    return out;
}
/// A sample whose chunk 0 of "rows" is other bytes, in a file of its own.
crafted with_rows(std::vector<std::byte> item) {
    auto c = sample([&](auto& m) {
        tensor(m, "rows").chunks.edit(0, [&](cairn::chunk& x) {
            x.at.file = "other.distcp";
            x.at.offset = 0;
            x.at.length = item.size();
        });
    });
    c.files["other.distcp"] = std::move(item);
    return c;
}
/// The item of a tensor of `n` ones.
std::vector<std::byte> ones(cairn::index_vector shape) {
    auto const n = static_cast<std::uint64_t>(shape.product());
    cairn::format::torch::tensor_item const item(
        {cairn::dtype::f32, shape, cairn::row_major_strides(shape), n, 64});
    std::vector<float> const elements(static_cast<std::size_t>(n), 1.0f);
    auto const payload = std::as_bytes(std::span(elements));
    std::vector<std::byte> all(item.prefix().begin(), item.prefix().end());
    all.insert(all.end(), payload.begin(), payload.end());
    auto const rest = item.suffix(cairn::format::crc32(payload));
    all.insert(all.end(), rest.begin(), rest.end());
    return all;
}
/// Loads "rows" into memory of its own.
std::vector<float> rows_of(const crafted& c) {
    std::vector<float> rows(42);
    cairn::state_dict sd{{"rows", cairn::tensor_view(cairn::dtype::f32, {7, 6}, rows.data())}};
    (void)cairn::load(sd, "c", c.store("c"));
    return rows;
}
void is_refused(const crafted& c, errc code, const std::string& words) {
    BOOST_CHECK_EXCEPTION(rows_of(c), cairn::error, [&](const cairn::error& e) {
        auto const text = std::string(e.what());
        BOOST_TEST(text.find(words) != std::string::npos, text);
        BOOST_TEST(e.context().fqn == "rows");
        BOOST_TEST(e.context().file.find(".distcp") != std::string::npos, text);
        return e.code() == cairn::make_error_code(code);
    });
    // Nothing else is affected, and the whole of it is seen by verify.
    std::vector<float> replica(9);
    cairn::state_dict sd{
        {"replica", cairn::tensor_view(cairn::dtype::f32, {3, 3}, replica.data())}};
    BOOST_CHECK_NO_THROW((void)cairn::load(sd, "c", c.store("c")));
    auto const v = cairn::verify(c.store("c").at("c"));
    auto const& lines = code == errc::unsupported ? v.unverified : v.findings;
    BOOST_TEST(v.findings.size() == (code == errc::unsupported ? 0u : 1u));
    std::string all;
    for (auto const& l : lines) all += l + "\n";
    BOOST_TEST(all.find(words) != std::string::npos, all);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_tree_of_them_is_loaded_and_verified) {
    auto const c = sample();
    cairn::load_report report;
    cairn::load_tree_options told;
    told.report = &report;
    auto const tree = cairn::load_tree("c", told, c.store("c"));
    BOOST_TEST(tree.at("step").as_value().as<int>() == 7);
    BOOST_TEST((tree.at("zeros").as_tensor().global_shape == cairn::index_vector{1, 2000}));
    auto const v = cairn::verify(c.store("c").at("c"));
    BOOST_TEST(v.whole());
    BOOST_TEST(v.items == 9u);
    BOOST_TEST(v.bytes == c.files.at("__0_0.distcp").size() + c.files.at("__1_0.distcp").size());
}

BOOST_AUTO_TEST_CASE(each_is_read_and_decoded_once_for_all_parts_that_are_wanted) {
    auto const c = sample();
    auto m = c.metadata();
    support::counting_store store(c.store("c"));
    std::vector<float> whole(42), parts(42);
    cairn::state_dict all{{"rows", cairn::tensor_view(cairn::dtype::f32, {7, 6}, whole.data())}};
    (void)cairn::load(all, "c", store);
    cairn::sharded_view columns{{7, 6}, cairn::dtype::f32, {}};
    for (std::int64_t k = 0; k < 6; ++k)
        columns.shards.emplace_back(
            cairn::box({0, k}, {7, 1}),
            cairn::tensor_view(cairn::dtype::f32, {7, 1}, {6, 1}, parts.data() + k));
    cairn::state_dict by_columns{{"rows", columns}};
    (void)cairn::load(by_columns, "c", store);
    BOOST_TEST(whole == parts);
    BOOST_TEST(whole[0] != whole[41]);
    for (auto const& k : tensor(m, "rows").chunks)
        BOOST_TEST((store.reads(k.at.file, k.at.offset, k.at.length) == std::pair(2, 2)));
}

BOOST_AUTO_TEST_CASE(a_damaged_byte_is_an_error_or_changes_nothing) {
    auto const c = sample();
    auto const want = support::load_whole(c.store("c"), "c");
    for (auto const* name : {"__0_0.distcp", "__1_0.distcp"}) {
        for (std::size_t i = 0; i < c.files.at(name).size(); i += 3) {
            auto bad = c;
            bad.files[name][i] ^= std::byte{0x04};
            try {
                BOOST_TEST((support::load_whole(bad.store("c"), "c") == want), i);
            } catch (const cairn::error&) {
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(other_items_in_its_place_are_refused_by_name) {
    BOOST_TEST(rows_of(with_rows(compressed(ones({4, 6}))))[0] == 1.0f);
    is_refused(with_rows(ones({4, 6})), errc::corrupt, "no frame");
    is_refused(with_rows(compressed(ones({6, 4}))), errc::corrupt, "shape [4, 6]");
    is_refused(with_rows(compressed(std::vector<std::byte>(1000))), errc::corrupt, "zip");
    is_refused(with_rows(compressed(std::vector<std::byte>(std::size_t{100} << 20))), errc::corrupt,
               "at most 131168 decoded bytes");
    // pyzstd, which PyTorch may use, adds an empty frame.
    auto more = compressed(ones({4, 6}));
    auto const empty = compressed({});
    more.insert(more.end(), empty.begin(), empty.end());
    BOOST_TEST(rows_of(with_rows(more))[0] == 1.0f);
    more.push_back(std::byte{1});
    is_refused(with_rows(more), errc::corrupt, "1 byte behind a frame");
    more.resize(more.size() - 2);
    is_refused(with_rows(more), errc::corrupt, "ends too early");
    auto damaged = ones({4, 6});
    // Its checksum is right, that of the zip is not.
    damaged[cairn::format::torch::tensor_item({cairn::dtype::f32, {4, 6}, {6, 1}, 24, 64})
                .payload_offset()] ^= std::byte{1};
    is_refused(with_rows(compressed(damaged)), errc::checksum_mismatch, "as");
}

BOOST_AUTO_TEST_CASE(other_transforms_are_refused_by_name) {
    auto const with = [](std::vector<std::string> transforms) {
        return sample([&](auto& m) {
            tensor(m, "rows").chunks.edit_each(
                [&](cairn::chunk& c) { c.at.transforms = transforms; });
        });
    };
    BOOST_TEST(rows_of(with({"stream.zstd/1.5"})) == rows_of(sample()));
    for (auto const& name : {"stream.zstd/2", "stream.zstd/12", "stream.zstd", "stream.other/1"}) {
        is_refused(with({name}), errc::unsupported, "'" + std::string(name) + "'");
        BOOST_CHECK_THROW((void)cairn::load_tree("c", {}, with({name}).store("c")), cairn::error);
    }
    is_refused(with({"stream.zstd/1", "stream.other/1"}), errc::unsupported,
               "'stream.zstd/1', 'stream.other/1'");
}

/// What its checksum is of, only that version knows.
BOOST_AUTO_TEST_CASE(a_value_with_a_transform_of_a_later_version_is_not_called_damaged) {
    cairn::memory_store store;
    store.publish("o", std::vector<std::byte>(8), std::nullopt);
    cairn::open_file file(store.open("o"), "file");
    cairn::storage_location at;
    at.length = 8;
    at.transforms = {"stream.later/1"};
    at.layout.emplace().item_crc = 1;
    BOOST_CHECK_EXCEPTION(
        (void)cairn::detail::whole_value_item(file, "v", at, ""), cairn::error,
        [](const cairn::error& e) { return e.code() == make_error_code(errc::unsupported); });
}

BOOST_AUTO_TEST_CASE(values_are_bounded) {
    auto c = sample();
    auto m = c.metadata();
    auto const item =
        compressed(cairn::format::torch::encode_value(std::string(std::size_t{20} << 20, 'x')));
    auto& at = std::get<cairn::value_metadata>(m.entries.find("name")->second).at;
    at.file = "other.distcp";
    at.offset = 0;
    at.length = item.size();
    c.set_pickle(m);
    c.files["other.distcp"] = item;
    cairn::value name;
    cairn::state_dict sd{{"name", std::ref(name)}};
    BOOST_CHECK_EXCEPTION(
        (void)cairn::load(sd, "c", c.store("c")), cairn::error, [](const cairn::error& e) {
            BOOST_TEST(std::string(e.what()).find("decoded bytes") != std::string::npos, e.what());
            return e.context().fqn == "name" && e.code() == make_error_code(errc::unsupported);
        });
    auto const v = cairn::verify(c.store("c").at("c"));
    BOOST_TEST(!v.damaged);
    BOOST_TEST(v.findings.empty());
    BOOST_TEST(!v.unverified.empty());
}

BOOST_AUTO_TEST_CASE(an_item_is_kept_for_each_thread_that_may_be_in_the_middle_of_one) {
    cairn::detail::checked_payloads together;
    auto const keep = [&](std::uint64_t offset, bool has_ended) {
        together.keep("f", offset, std::make_shared<cairn::detail::compressed_item>(offset, 1, 1),
                      has_ended);
    };
    together.expect(40);
    together.expect(2);
    for (std::uint64_t i = 0; i < 40; ++i) keep(i, i == 39);
    keep(40, true);   // neither this
    keep(41, false);  // nor one that has ended drives out others
    for (std::uint64_t i = 0; i < 39; ++i) BOOST_TEST((together.take("f", i) != nullptr));
    BOOST_TEST((together.take("f", 40) == nullptr));
    BOOST_TEST((together.take("f", 41) != nullptr));
}

BOOST_AUTO_TEST_SUITE_END()
