// SPDX-License-Identifier: Apache-2.0
// A stored payload is exactly the box that the metadata says, or the checkpoint is corrupt.
#include <cairn/cairn.hpp>
#include <cairn/format/native/index.hpp>

#include <boost/test/unit_test.hpp>

#include <functional>
#include <numeric>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(exact_payload)

namespace {

using cairn::box;

std::vector<float> counted(std::size_t n) {
    std::vector<float> v(n);
    std::iota(v.begin(), v.end(), 1.0f);
    return v;
}

/// Two tensors of 4 by 6; then the metadata is changed, under valid checksums.
cairn::memory_store changed(const std::function<void(cairn::metadata&)>& change) {
    cairn::memory_store store;
    auto w = counted(24), v = counted(24);
    cairn::state_dict sd{{"w", cairn::tensor_view(cairn::dtype::float32, {4, 6}, w.data())},
                         {"v", cairn::tensor_view(cairn::dtype::float32, {4, 6}, v.data())}};
    auto meta = cairn::save(sd, "c", store).meta;
    change(meta);
    store.publish("c/.metadata", cairn::format::native::make_metadata_file(meta), std::nullopt);
    return store;
}

cairn::chunk_list& chunks_of(cairn::metadata& m, const std::string& fqn) {
    return std::get<cairn::tensor_metadata>(m.entries.at(fqn)).chunks;
}

/// @return What a load of "w" says; empty if it succeeds.
std::string load(cairn::memory_store store) {
    std::vector<float> w(24);
    cairn::state_dict sd{{"w", cairn::tensor_view(cairn::dtype::float32, {4, 6}, w.data())}};
    try {
        cairn::load(sd, "c", store);
    } catch (const cairn::error& e) {
        BOOST_TEST((e.code() == cairn::make_error_code(cairn::errc::corrupt)));
        BOOST_TEST(e.context().fqn == "w");
        return e.what();
    }
    BOOST_TEST(w == counted(24), boost::test_tools::per_element());
    return {};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_payload_loads_as_it_was_saved) {
    BOOST_TEST(load(changed([](auto&) {})) == "");
}

/// What a planner that splits a shard made of one before it was refused: each half has all of it.
BOOST_AUTO_TEST_CASE(a_payload_of_more_than_its_box_is_corrupt) {
    auto const what = load(changed([](cairn::metadata& m) {
        auto& w = std::get<cairn::tensor_metadata>(m.entries.at("w"));
        auto second = chunks_of(m, "v")[0];
        m.entries.erase("v");
        m.paths.erase("v");
        w.chunks.edit(0, [](auto& c) { c.region = box({0, 0}, {2, 6}); });
        second.region = box({2, 0}, {2, 6});
        w.chunks.push_back(second);
    }));
    BOOST_TEST_INFO(what);
    BOOST_TEST(what.find("48 bytes for shape [2, 6]") != what.npos);
    BOOST_TEST(what.find("found 96") != what.npos);
}

BOOST_AUTO_TEST_CASE(a_payload_of_less_than_its_box_is_corrupt) {
    auto const of_length = [](std::uint64_t n) {
        return load(changed([n](auto& m) {
            chunks_of(m, "w").edit(0, [n](auto& c) { c.at.layout->payload_length = n; });
        }));
    };
    for (std::uint64_t n : {0u, 92u, 95u})
        BOOST_TEST(of_length(n).find("96 bytes") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_payload_with_holes_or_overlaps_is_corrupt) {
    for (cairn::index_vector const& strides : std::vector<cairn::index_vector>{
             {0, 1}, {12, 2}, {5, 1}, {-6, 1}, {6, -1}, {1}, {1, 6, 24}, {}, {1, 1}})
        BOOST_TEST(load(changed([&](auto& m) {
                       chunks_of(m, "w").edit(0, [&](auto& c) { c.at.layout->strides = strides; });
                   })) != "");
}

BOOST_AUTO_TEST_SUITE_END()
