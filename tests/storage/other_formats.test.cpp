// SPDX-License-Identifier: Apache-2.0
// Where another checkpoint stands, an error says which: "there is none" would be wrong.
#include <cairn/cairn.hpp>
#include <cairn/storage/other_formats.hpp>

#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(other_formats)

namespace {

/// What a load of a place that has these files says.
cairn::error refusal(const std::vector<std::string>& names) {
    cairn::memory_store store;
    auto place = store.at("c");
    for (auto const& name : names) place.create(name, 1).finish(true);
    int x = 0;
    cairn::state_dict sd{{"x", std::ref(x)}};
    try {
        cairn::load(sd, "c", store);
    } catch (const cairn::error& e) {
        return e;
    }
    return cairn::error(cairn::errc::cancelled, {});
}

}  // namespace

BOOST_AUTO_TEST_CASE(are_named_instead_of_a_missing_checkpoint) {
    struct one {
        std::vector<std::string> names;
        std::string found;
    };
    for (auto const& [names, found] : std::vector<one>{
             {{"__0.metadata", "__0_0.distcp", "__1.metadata"}, "one of 2 ranks"},
             {{"__0.metadata", "__0_0.distcp"}, "one of 1 rank ('__0.metadata')"},
             {{"config.json", "model-00001-of-00001.safetensors"}, "one of Hugging Face"},
             {{"model.safetensors.index.json"}, "one of Hugging Face"},
             {{"mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt"},
              "one of DeepSpeed"},
             {{"model.pt"}, "a file of torch.save ('model.pt')"}}) {
        auto const e = refusal(names);
        BOOST_TEST((e.code() == cairn::make_error_code(cairn::errc::unsupported)), e.what());
        BOOST_TEST(e.context().found.starts_with(found), e.what());
        BOOST_TEST(!e.context().remedy.empty());
    }
}

BOOST_AUTO_TEST_CASE(are_not_seen_where_there_are_none) {
    for (auto const& names : std::vector<std::vector<std::string>>{
             {}, {"__0_0.distcp"}, {"notes.txt"}, {"__.metadata"}, {"__x.metadata"}}) {
        auto const e = refusal(names);
        BOOST_TEST((e.code() == cairn::make_error_code(cairn::errc::not_found)), e.what());
    }
}

BOOST_AUTO_TEST_SUITE_END()
