// SPDX-License-Identifier: Apache-2.0
#include "small_model.hpp"

#include <cairn/comm/thread_group.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <string>
#include <variant>
#include <vector>

BOOST_AUTO_TEST_SUITE(tied)

using cairn::errc;
using cairn::state_dict;

namespace {

cairn::chunk only_chunk(const cairn::metadata& m, const char* fqn) {
    return std::get<cairn::tensor_metadata>(m.entries.at(fqn)).chunks.at(0);
}
cairn::metadata metadata_of(cairn::memory_store& store) {
    cairn::torch_reader reader(store);
    reader.reset("c");
    return reader.read_metadata();
}

}  // namespace

BOOST_AUTO_TEST_CASE(stored_once_under_both_names) {
    for (bool const one_file : {true, false}) {
        for (int const ranks : {1, 4}) {
            cairn::memory_store store;
            cairn::save_options options;
            options.storage.single_file_per_rank = one_file;
            cairn::run_ranks(ranks, [&](auto& me) {
                small::model m;
                cairn::save(cairn::get_model_state_dict(m), "c", options, store, me);
            });
            auto const meta = metadata_of(store);
            auto const& a = only_chunk(meta, "embed.weight");
            auto const& b = only_chunk(meta, "head.weight");
            BOOST_TEST(a.at.file == b.at.file);
            BOOST_TEST(a.at.offset == b.at.offset);

            small::model to{{0, 0, 0, 0}, {0, 0}, {0}, {0}, true, {}};
            cairn::load(cairn::get_model_state_dict(to), "c", store);
            BOOST_TEST(to.embedding == (small::tensor{1, 2, 3, 4}));
            // Both names load into a model that does not tie them, and each alone.
            small::model loose{{0, 0, 0, 0}, {0, 0}, {0}, {0}, false, {0, 0, 0, 0}};
            cairn::load(cairn::get_model_state_dict(loose), "c", store);
            BOOST_TEST(loose.head == to.embedding);
            small::tensor alone(4);
            cairn::load(state_dict{{"head.weight", alone}}, "c", store);
            BOOST_TEST(alone == to.embedding);
        }
    }
}

BOOST_AUTO_TEST_CASE(two_stored_copies_must_agree) {
    cairn::memory_store store;
    small::model loose;
    loose.tied = false;
    loose.head = loose.embedding;
    cairn::save(cairn::get_model_state_dict(loose), "c", store);
    auto const meta = metadata_of(store);
    BOOST_TEST(only_chunk(meta, "embed.weight").at.offset !=
               only_chunk(meta, "head.weight").at.offset);
    small::model to{{0, 0, 0, 0}, {0, 0}, {0}, {0}, true, {}};
    cairn::load(cairn::get_model_state_dict(to), "c", store);
    BOOST_TEST(to.embedding == loose.embedding);

    loose.head[2] = 99;
    cairn::save(cairn::get_model_state_dict(loose), "c", store);
    BOOST_CHECK_EXCEPTION(cairn::load(cairn::get_model_state_dict(to), "c", store), cairn::error,
                          [](const cairn::error& e) {
                              std::string const text = e.what();
                              return text.find("head.weight") != std::string::npos &&
                                     text.find("embed.weight") != std::string::npos &&
                                     text.find("leave one") != std::string::npos;
                          });
}

BOOST_AUTO_TEST_CASE(other_views_of_one_memory_are_not_tied) {
    cairn::memory_store store;
    std::vector<float> w{1, 2, 3, 4, 5, 6};
    cairn::tensor_view const rows(cairn::dtype::float32, {2, 3}, w.data());
    cairn::tensor_view const columns(cairn::dtype::float32, {2, 3}, {1, 2}, w.data());
    cairn::save(state_dict{{"flat", w}, {"rows", rows}, {"columns", columns}}, "c", store);
    auto const d = cairn::load_tree("c", {}, store);
    auto const element = [&](const char* key, std::size_t i) {
        return reinterpret_cast<const float*>(d.at(key).as_tensor().shards[0].view.data)[i];
    };
    BOOST_TEST(element("rows", 1) == 2);
    BOOST_TEST(element("columns", 1) == 3);
    BOOST_TEST(element("flat", 5) == 6);
}

BOOST_AUTO_TEST_SUITE_END()
