// SPDX-License-Identifier: Apache-2.0
// Where another checkpoint stands, an error says which: "there is none" would be wrong.
#include "support/crafted.hpp"

#include <cairn/cairn.hpp>
#include <cairn/catalog/latest.hpp>
#include <cairn/catalog/listing.hpp>
#include <cairn/storage/detail/other_formats.hpp>

#include <boost/test/unit_test.hpp>

#include <functional>
#include <optional>
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

BOOST_AUTO_TEST_CASE(other_formats_are_named_instead_of_a_missing_checkpoint) {
    struct one {
        std::vector<std::string> names;
        std::string found;
    };
    for (auto const& [names, found] : std::vector<one>{
             {{"__0.metadata", "__0_0.distcp", "__1.metadata"}, "one of 2 ranks"},
             {{"__0.metadata", "__0_0.distcp"}, "one of 1 rank ('__0.metadata')"},
             {{"mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt"},
              "one of DeepSpeed"},
             {{"model.pt"}, "a file of torch.save ('model.pt')"}}) {
        auto const e = refusal(names);
        BOOST_TEST((e.code() == cairn::make_error_code(cairn::errc::unsupported)), e.what());
        BOOST_TEST(e.context().found.starts_with(found), e.what());
        BOOST_TEST(!e.context().remedy.empty());
    }
}

BOOST_AUTO_TEST_CASE(no_other_format_is_seen_where_there_is_none) {
    for (auto const& names : std::vector<std::vector<std::string>>{
             {}, {"__0_0.distcp"}, {"notes.txt"}, {"__.metadata"}, {"__x.metadata"}}) {
        auto const e = refusal(names);
        BOOST_TEST((e.code() == cairn::make_error_code(cairn::errc::not_found)), e.what());
    }
}

/// Each rank has its own metadata, and is loaded alone.
BOOST_AUTO_TEST_CASE(checkpoints_of_single_ranks_load_rank_by_rank) {
    cairn::memory_store store;
    for (int rank = 0; rank < 2; ++rank) {
        cairn::memory_store one;
        std::vector<float> w(4, static_cast<float>(rank));
        cairn::save(cairn::state_dict{{"w", w}, {"rank", cairn::value(rank)}}, "c", one);
        support::crafted c(one, "c");
        auto m = c.metadata();
        m.save_id.clear();
        m.file_sizes.clear();
        c.set_pickle(m);
        for (auto const& [name, bytes] : c.files)
            store.publish(
                name == ".metadata" ? "step_7/__" + std::to_string(rank) + name : "step_7/" + name,
                bytes, std::nullopt);
    }
    for (int rank = 0; rank < 2; ++rank) {
        std::vector<float> w(4, 9);
        int loaded = 9;
        auto const id = "step_7/__" + std::to_string(rank) + ".metadata";
        cairn::load(cairn::state_dict{{"w", w}, {"rank", std::ref(loaded)}}, id, store);
        BOOST_TEST(loaded == rank);
        BOOST_TEST(w[3] == static_cast<float>(rank));
    }
    auto place = store.at("step_7");
    int loaded = 9;
    cairn::load(cairn::state_dict{{"rank", std::ref(loaded)}}, "__1.metadata", place);
    BOOST_TEST(loaded == 1);
    // A reader that is used again looks where the second id says.
    cairn::torch_reader reader(store);
    cairn::load(cairn::state_dict{{"rank", std::ref(loaded)}}, "step_7/__0.metadata", reader);
    BOOST_CHECK_EXCEPTION(
        cairn::load(cairn::state_dict{{"rank", std::ref(loaded)}}, "__0.metadata", reader),
        cairn::error,
        [](const cairn::error& e) { return e.code() == make_error_code(cairn::errc::not_found); });
    // Nobody goes back behind it, or begins anew.
    auto const refuses = [&] {
        BOOST_CHECK_EXCEPTION((void)cairn::latest(store), cairn::error, [](const cairn::error& e) {
            return e.code() == make_error_code(cairn::errc::unsupported) &&
                   e.context().file.find("step_7/__0.metadata") != std::string::npos;
        });
    };
    refuses();
    auto const listed = cairn::list_checkpoints(store);
    BOOST_TEST(listed.size() == 1u);
    BOOST_TEST((listed.at(0).state == cairn::checkpoint_state::unreadable));
    BOOST_TEST(listed.at(0).problem.find("one of 2 ranks") != std::string::npos);
    cairn::save(cairn::state_dict{{"rank", 1}}, "step_5", store);
    refuses();
    cairn::save(cairn::state_dict{{"rank", 1}}, "step_10", store);
    BOOST_TEST(cairn::latest(store).value() == "step_10");
}

BOOST_AUTO_TEST_SUITE_END()
