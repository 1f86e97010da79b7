// SPDX-License-Identifier: Apache-2.0
#include "small_model.hpp"
#include "support/counting_store.hpp"

#include <cairn/comm/thread_group.hpp>
#include <cairn/load.hpp>
#include <cairn/load_tree.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>
#include <cairn/storage/torch_reader.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

BOOST_AUTO_TEST_SUITE(tied)

using cairn::errc;
using cairn::state_dict;

namespace {

cairn::chunk only_chunk(const cairn::metadata& m, const char* fqn) {
    return std::get<cairn::tensor_metadata>(m.entries.at(fqn)).chunks[0];
}
cairn::metadata metadata_of(cairn::memory_store& store) {
    cairn::torch_reader reader(store);
    reader.reset("c");
    return reader.read_metadata();
}

/// Takes cairn's checkpoints for PyTorch's, which have no index.
struct pytorch_reader : cairn::torch_reader {
    using cairn::torch_reader::torch_reader;
    cairn::metadata read_metadata() {
        auto m = cairn::torch_reader::read_metadata();
        m.save_id.clear();
        for (auto& [fqn, entry] : m.entries) {
            auto* const t = std::get_if<cairn::tensor_metadata>(&entry);
            if (t == nullptr) continue;
            for (auto const& chunk : std::exchange(t->chunks, {})) {
                auto without = chunk;
                without.at.layout.reset();
                t->chunks.push_back(std::move(without));
            }
        }
        return m;
    }
};
struct reader_without_checksums : cairn::torch_reader {
    using cairn::torch_reader::torch_reader;
    std::optional<cairn::chunk_checksum> checksum(const std::string&, std::size_t) { return {}; }
};

bool names_both(const std::vector<std::string>& warnings, const char* read, const char* other) {
    return warnings.size() == 1 && warnings[0].find(read) != std::string::npos &&
           warnings[0].find(other) != std::string::npos &&
           warnings[0].find("not checked") != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_tied_weight_is_stored_once_under_both_names) {
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
    auto const each_reader = [](auto f) {
        f(std::type_identity<cairn::torch_reader>());
        f(std::type_identity<pytorch_reader>());
    };
    each_reader([&]<class Reader>(std::type_identity<Reader>) {
        // Without the index a checksum is in the item: a small one is one read.
        int const for_checksum = std::same_as<Reader, pytorch_reader> ? 1 : 0;
        support::counting_store<cairn::memory_store> counted(store);
        small::model to{{0, 0, 0, 0}, {0, 0}, {0}, {0}, true, {}};
        auto const report = cairn::load(cairn::get_model_state_dict(to), "c", Reader(counted));
        BOOST_TEST(to.embedding == loose.embedding);
        BOOST_TEST(report.warnings.empty());
        for (auto const* fqn : {"embed.weight", "head.weight"}) {
            auto const& at = only_chunk(meta, fqn).at;
            auto const r = counted.reads(at.file, at.offset + at.layout->payload_offset,
                                         at.layout->payload_length);
            int const to_load = std::string(fqn) == "embed.weight" ? 1 : 0;
            BOOST_TEST(r.second == to_load + for_checksum, fqn);
        }
    });

    loose.head[2] = 99;
    cairn::save(cairn::get_model_state_dict(loose), "c", store);
    each_reader([&]<class Reader>(std::type_identity<Reader>) {
        small::model to{{0, 0, 0, 0}, {0, 0}, {0}, {0}, true, {}};
        auto const before = to.embedding;
        BOOST_CHECK_EXCEPTION(cairn::load(cairn::get_model_state_dict(to), "c", Reader(store)),
                              cairn::error, [](const cairn::error& e) {
                                  std::string const text = e.what();
                                  return text.find("head.weight") != std::string::npos &&
                                         text.find("embed.weight") != std::string::npos &&
                                         text.find("leave one") != std::string::npos &&
                                         !e.state_modified();
                              });
        BOOST_TEST(to.embedding == before);
    });
}

/// It is read once all the same, and the report says so.
BOOST_AUTO_TEST_CASE(what_has_no_checksums_to_compare_is_not_checked) {
    cairn::memory_store store;
    std::vector<float> a{1, 2, 3, 4}, b{5, 6, 7, 8}, w(4);
    cairn::save(state_dict{{"a", a}, {"b\x1b", b}}, "c", store);
    state_dict sd{{"a", w}, {"b\x1b", w}};
    BOOST_TEST(names_both(cairn::load(sd, "c", reader_without_checksums(store)).warnings, "'a'",
                          R"('b\u001b')"));
    BOOST_TEST(w == a);
}
BOOST_AUTO_TEST_CASE(what_is_stored_in_other_pieces_or_with_another_dtype_is_not_checked) {
    cairn::memory_store store;
    std::vector<float> a{1, 2, 3, 4}, w(4);
    std::vector<double> d{1, 2, 3, 4};
    cairn::run_ranks(2, [&](auto& me) {
        std::vector<float> half(a.begin() + 2 * me.rank(), a.begin() + 2 * me.rank() + 2);
        cairn::tensor_view const v(cairn::dtype::float32, {2}, half.data());
        cairn::sharded_view const b{{4}, v.type, {cairn::shard({{2 * me.rank()}, {2}}, v)}};
        cairn::save(state_dict{{"a", a}, {"b", b}, {"d", d}}, "c", store, me);
    });
    cairn::load_options o;
    o.planner.dtypes = cairn::dtype_policy::convert;
    for (auto const* other : {"b", "d"}) {
        w.assign(4, 0);
        state_dict sd{{"a", w}, {other, w}};
        BOOST_TEST(names_both(cairn::load(sd, "c", o, store).warnings, "'a'",
                              ("'" + std::string(other) + "'").c_str()));
        BOOST_TEST(w == a);
    }
}

/// A change made under either name reaches the weight.
BOOST_AUTO_TEST_CASE(whole_parameters_have_a_tied_weight_once) {
    for (auto const* name : {"embed.weight", "head.weight"}) {
        cairn::run_ranks(2, [&](auto& me) {
            small::model m;
            {
                cairn::full_params whole(m, me);
                auto const names = [&] {
                    std::vector<std::string> all;
                    for (auto const& [fqn, t] : whole) all.push_back(fqn);
                    return all;
                }();
                if (std::count(names.begin(), names.end(), "embed.weight") != 1 ||
                    std::count(names.begin(), names.end(), "head.weight") != 0)
                    throw std::runtime_error("other names");
                auto const changed = small::tensor{9, 8, 7, 6};
                std::memcpy(whole.at(name).bytes().data(), changed.data(), 16);
            }
            if (m.embedding != small::tensor{9, 8, 7, 6}) throw std::runtime_error("lost");
        });
    }
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

/// Nothing is read for a check: a warning tells of it.
BOOST_AUTO_TEST_CASE(a_load_into_other_views_of_one_memory_says_so) {
    cairn::memory_store store;
    std::vector<float> a{1, 2, 3, 4, 5, 6};
    cairn::tensor_view const rows(cairn::dtype::float32, {3, 2}, a.data());
    cairn::save(state_dict{{"flat", a}, {"rows", rows}, {"part", std::vector<float>{4, 5}}}, "c",
                store);
    std::vector<float> w(6);
    cairn::tensor_view const columns(cairn::dtype::float32, {3, 2}, {1, 3}, w.data());
    cairn::tensor_view const part(cairn::dtype::float32, {2}, w.data() + 3);
    for (state_dict const& sd :
         {state_dict{{"flat", w}, {"rows", columns}}, state_dict{{"flat", w}, {"part", part}},
          state_dict{{"part", part}, {"flat", w}}}) {
        auto const warnings = cairn::load(sd, "c", store).warnings;
        BOOST_TEST_REQUIRE(warnings.size() == 1u);
        BOOST_TEST(warnings[0].find("share memory") != std::string::npos, warnings[0]);
        BOOST_TEST(warnings[0].find("'flat'") != std::string::npos, warnings[0]);
    }
    // Each of many forms is named once.
    auto const of = [](std::vector<float>& memory) {
        state_dict forms;
        for (int n : {1, 2, 3, 6})
            forms[std::to_string(n)] =
                cairn::node(cairn::tensor_view(cairn::dtype::float32, {n, 6 / n}, memory.data()));
        return forms;
    };
    cairn::save(of(a), "e", store);
    BOOST_TEST(cairn::load(of(w), "e", store).warnings.size() == 3u);
    // Columns beside each other have no element in common.
    cairn::tensor_view const left(cairn::dtype::float32, {2}, {3}, w.data());
    cairn::tensor_view const right(cairn::dtype::float32, {2}, {3}, w.data() + 1);
    cairn::save(state_dict{{"left", left}, {"right", right}}, "d", store);
    BOOST_TEST(
        cairn::load(state_dict{{"left", left}, {"right", right}}, "d", store).warnings.empty());
}

BOOST_AUTO_TEST_SUITE_END()
