// SPDX-License-Identifier: Apache-2.0
// `.metadata` with and without PyTorch's pickle, and the warning about very many chunks.
#include "support/whole.hpp"

#include <cairn/format/native/index.hpp>
#include <cairn/format/torch/read_metadata.hpp>
#include <cairn/storage/torch_reader.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(torch_metadata)

namespace {

namespace native = cairn::format::native;

std::vector<std::byte> metadata_bytes(cairn::memory_store store) {
    auto place = store.at("c");
    auto r = place.open(".metadata");
    std::vector<std::byte> bytes(static_cast<std::size_t>(r.size()));
    r.read(0, bytes);
    return bytes;
}

struct saved {
    explicit saved(bool torch_metadata) {
        cairn::state_dict sd{{"w", w}, {"step", 7}};
        cairn::save_options o;
        o.storage.torch_metadata = torch_metadata;
        report = cairn::save(sd, "c", o, store);
    }
    std::vector<float> w{1, 2, 3};
    cairn::memory_store store;
    cairn::save_report report;
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_pickle_is_there_by_default) {
    BOOST_TEST(cairn::torch_writer_options().torch_metadata);
    saved const s(true);
    auto const bytes = metadata_bytes(s.store);
    BOOST_TEST(native::parse_metadata_file(bytes).torch_metadata);
    BOOST_TEST(cairn::format::torch::parse_metadata_pickle(bytes).entries.size() == 2u);
}

BOOST_AUTO_TEST_CASE(cairn_loads_the_same_without_the_pickle) {
    saved const with(true), without(false);
    auto const bytes = metadata_bytes(without.store);
    BOOST_TEST(bytes.size() < metadata_bytes(with.store).size());
    auto const f = native::parse_metadata_file(bytes);
    BOOST_TEST(f.has_index);
    BOOST_TEST(!f.torch_metadata);
    BOOST_CHECK_NO_THROW(native::check_pickle_agrees(bytes));
    BOOST_TEST((support::load_whole(with.store, "c") == support::load_whole(without.store, "c")));
}

/// What is left of it does not pass for a checkpoint of PyTorch's, without any checksum.
BOOST_AUTO_TEST_CASE(a_cut_index_is_noticed) {
    saved const s(true);
    auto bytes = metadata_bytes(s.store);
    auto const pickle = native::parse_metadata_file(bytes).pickle_bytes;
    for (bytes.pop_back(); bytes.size() > pickle; bytes.pop_back())
        BOOST_CHECK_THROW((void)native::parse_metadata_file(bytes), cairn::error);
}

BOOST_AUTO_TEST_CASE(metadata_without_the_pickle_is_none_of_pytorchs) {
    saved const s(false);
    BOOST_CHECK_THROW((void)cairn::format::torch::parse_metadata_pickle(metadata_bytes(s.store)),
                      cairn::error);
}

BOOST_AUTO_TEST_CASE(every_byte_changed_is_noticed) {
    for (bool const with_pickle : {false, true}) {
        saved const s(with_pickle);
        auto const bytes = metadata_bytes(s.store);
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            auto damaged = bytes;
            damaged[i] ^= std::byte{1};
            BOOST_CHECK_THROW((void)native::parse_metadata_file(damaged), cairn::error);
        }
    }
}

BOOST_AUTO_TEST_CASE(ranks_send_the_index_as_it_is_stored) {
    saved const s(true);
    auto const bytes = metadata_bytes(s.store);
    auto const stored = native::parse_metadata_file(bytes);
    cairn::torch_reader reader(s.store);
    reader.reset("c");
    auto const sent = reader.read_index();
    BOOST_TEST((sent.meta == stored.meta));
    BOOST_TEST((native::decode_metadata(sent.bytes) == stored.meta));
    auto const& index = stored.index;
    BOOST_TEST((std::search(sent.bytes.begin(), sent.bytes.end(), index.begin(), index.end()) !=
                sent.bytes.end()));
}

BOOST_AUTO_TEST_CASE(an_index_that_is_wrong_about_a_file_is_not_sent) {
    saved const s(true);
    auto place = cairn::memory_store(s.store).at("c");
    cairn::torch_reader reader(s.store);
    reader.reset("c");
    auto const [name, size] = *reader.read_metadata().file_sizes.begin();
    place.remove(name);
    auto const found = reader.read_index();
    BOOST_TEST(size != 0u);
    BOOST_TEST(found.meta.file_sizes.at(name) == 0u);
    BOOST_TEST(found.bytes.empty());
}

BOOST_AUTO_TEST_CASE(very_many_chunks_are_warned_of) {
    auto const save = [](std::uint64_t many, bool torch) {
        cairn::memory_store store;
        std::vector<cairn::save_report> reports(3);
        cairn::run_ranks(3, [&](cairn::thread_group::member& me) {
            std::vector<float> row(2);
            cairn::state_dict sd{
                {"w", cairn::shard_by_mesh(
                          cairn::tensor_view(cairn::dtype::f32, {1, 2}, row.data()), {3, 2},
                          cairn::device_mesh::line(3), {cairn::shard_along{0}}, me.rank())}};
            cairn::save_options o;
            o.storage.many_chunks = many;
            o.storage.torch_metadata = torch;
            reports[static_cast<std::size_t>(me.rank())] = cairn::save(sd, "c", o, me, store);
        });
        return reports[0].warnings;
    };
    BOOST_TEST(cairn::torch_writer_options().many_chunks == 4000000u);
    BOOST_TEST(save(3, true).empty());
    BOOST_TEST(save(2, false).empty());
    auto const warnings = save(2, true);
    BOOST_REQUIRE(warnings.size() == 1u);
    BOOST_TEST(warnings[0].find("3 chunks") != std::string::npos, warnings[0]);
    BOOST_TEST(warnings[0].find("torch_metadata = false") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
