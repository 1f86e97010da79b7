// SPDX-License-Identifier: Apache-2.0
// Safetensors files that have shards, as PyTorch's DCP writes them.
#include "safetensors_samples.hpp"
#include "support/error_codes.hpp"

#include <cairn/cairn.hpp>
#include <cairn/storage/safetensors_reader.hpp>

#include <boost/test/unit_test.hpp>

#include <string>

BOOST_AUTO_TEST_SUITE(safetensors_shards)

using namespace safetensors_samples;

BOOST_AUTO_TEST_CASE(shards_are_placed_by_their_offsets_and_must_fit_each_other) {
    auto const info = [](const std::string& offsets) {
        return R"({"DCP_SHARDING_INFO":"{\"a\":{\"saved_offsets\":)" + offsets + "}}\"}";
    };
    cairn::memory_store store;
    auto const two = [&](const std::string& id, const stored& one, const std::string& first,
                         const stored& other, const std::string& second) {
        auto place = store.at(id);
        put(place, "1.safetensors", file_of({one}, 1, info(first)));
        put(place, "2.safetensors", file_of({other}, 1, second.empty() ? "" : info(second)));
        return loaded(store, id, "a", 4);
    };
    BOOST_TEST(two("m", {"a", "[1]", 1}, "[3]", {"a", "[3]", 3}, "[0]") == "1");
    auto const refused = [](const std::string& text, const char* part) {
        BOOST_TEST(text.find(part) != text.npos, text);
    };
    refused(two("overlap", {"a", "[2]", 2}, "[2]", {"a", "[3]", 3}, "[0]"), "overlap");
    refused(two("dtype", {"a", "[2]", 2}, "[2]", {"a", "[2]", 2, "I8"}, "[0]"), "int8");
    refused(two("rank", {"a", "[2]", 2}, "[2]", {"a", "[1,2]", 2}, "[0,0]"), "dimensions");
    refused(two("offsets", {"a", "[2]", 2}, "[2,0]", {"a", "[2]", 2}, "[0]"), "an offset for each");
    refused(two("whole", {"a", "[2]", 2}, "[2]", {"a", "[2]", 2}, ""), "does not place it");
    refused(two("far", {"a", "[2]", 2}, "[9223372036854775807]", {"a", "[2]", 2}, "[0]"),
            "a shard within a tensor");
    refused(two("hole", {"a", "[1]", 1}, "[3]", {"a", "[2]", 2}, "[0]"), "'a'");
}

/// The last shard is missing, and no other says so but by the shape of the whole.
BOOST_AUTO_TEST_CASE(a_shard_may_say_how_large_the_whole_tensor_is) {
    auto const info = [](const std::string& shape) {
        return R"({"DCP_SHARDING_INFO":"{\"a\":{\"saved_offsets\":[0],\"global_shape\":)" + shape +
               "}}\"}";
    };
    auto const shape_of = [&](const std::string& shape) {
        cairn::memory_store store;
        put(store, "shard-00001-model-00001-of-00001.safetensors",
            file_of({{"a", "[3]", 3}}, 1,
                    shape.empty() ? R"({"DCP_SHARDING_INFO":"{\"a\":{\"saved_offsets\":[0]}}"})"
                                  : info(shape)));
        cairn::safetensors_reader r(store);
        r.reset("");
        return to_string(r.read_metadata().tensor("a")->shape);
    };
    BOOST_TEST(shape_of("") == "[3]");
    BOOST_TEST(shape_of("[4]") == "[4]");
    BOOST_CHECK_EXCEPTION((void)shape_of("[2]"), cairn::error, support::is(cairn::errc::corrupt));
    BOOST_CHECK_EXCEPTION((void)shape_of("[4,1]"), cairn::error, support::is(cairn::errc::corrupt));
    for (auto const* other : {"null", "{}", R"(\"3\")", R"({\"x\":3})", R"({\"x\":[3]})"})
        BOOST_TEST(shape_of(other) == "[3]");
}

/// PyTorch writes names of their own where a rank has several.
BOOST_AUTO_TEST_CASE(shards_with_names_of_their_own_are_those_of_one_tensor) {
    cairn::memory_store store;
    auto place = store.at("m");
    put(place, "shard-00001-model-00001-of-00001.safetensors",
        file_of({{"a.__dcp_shard_0", "[1]", 1}, {"a.__dcp_shard_1", "[2]", 2}}, 1,
                R"({"DCP_SHARDING_INFO":"{\"a.__dcp_shard_0\":{\"logical_fqn\":\"a\",)"
                R"(\"saved_offsets\":[0]},\"a.__dcp_shard_1\":{\"logical_fqn\":\"a\",)"
                R"(\"saved_offsets\":[2]}}"})"));
    put(place, "shard-00002-model-00001-of-00001.safetensors",
        file_of({{"a", "[1]", 1}}, 1,
                R"({"DCP_SHARDING_INFO":"{\"a\":{\"saved_offsets\":[1]}}"})"));
    cairn::safetensors_reader r(store);
    r.reset("m");
    auto const m = r.read_metadata();
    BOOST_TEST(m.entries.size() == 1U);
    BOOST_TEST((m.tensor("a")->shape == cairn::index_vector{4}));
    BOOST_TEST(loaded(store, "m", "a", 4) == "1");
}

BOOST_AUTO_TEST_SUITE_END()
