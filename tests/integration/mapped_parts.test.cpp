// SPDX-License-Identifier: Apache-2.0
// Mappings with other parts and formats: quantised weights, tensors on devices, data planes, ranks
// that have different names.
#include "float_views.hpp"
#include "storage/quantised_samples.hpp"
#include "support/error_text.hpp"
#include "support/fake_gpu/checks.hpp"
#include "support/fake_gpu/tensors.hpp"

#include <cairn/cairn.hpp>
#include <cairn/checkpointer.hpp>
#include <cairn/comm/communicator_data_plane.hpp>
#include <cairn/convert.hpp>
#include <cairn/mapping/mapping.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(mapped_parts)

namespace {

using cairn::dtype;
using cairn::index_vector;
using cairn::tensor_view;
using cairn::map::clip;
using cairn::map::concat;
using cairn::map::dequantise;
using cairn::map::pad;
using cairn::map::stored;
using cairn::map::transpose;
using float_views::numbers;
using float_views::view;

bool same(float a, float b) {
    return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof a) == 0;
}

}  // namespace

BOOST_AUTO_TEST_CASE(quantised_weights_are_turned_round_and_cut) {
    namespace samples = quantised_samples;
    for (unsigned seed = 0; seed < 60; ++seed) {
        std::mt19937 random(seed);
        auto s = seed % 3 == 0   ? samples::fp8(random)
                 : seed % 3 == 1 ? samples::mxfp4(random)
                                 : samples::nvfp4(random);
        if (s.shape.size() != 2) continue;
        BOOST_TEST_CONTEXT("seed " << seed << ", " << s.name << " of " << to_string(s.shape)) {
            cairn::memory_store store;
            s.save(store);
            auto const rows = s.shape[0], columns = s.shape[1];
            cairn::mapping how;
            // Its transpose twice, one behind the other.
            auto const w = dequantise(stored(s.name));
            how.set("w", concat(0, {transpose(w), transpose(w)}));
            std::vector<float> all(static_cast<std::size_t>(2 * rows * columns));
            auto const check = [&] {
                bool good = true;
                for (std::int64_t i = 0; i < 2 * columns; ++i)
                    for (std::int64_t j = 0; j < rows; ++j)
                        good = good &&
                               same(all[static_cast<std::size_t>(i * rows + j)],
                                    s.weight[static_cast<std::size_t>(j * columns + i % columns)]);
                BOOST_TEST(good);
                all.assign(all.size(), 0);
            };
            cairn::run_ranks(2, [&](auto& me) {
                auto const first = columns * 2 * me.rank() / 2, n = columns;
                cairn::sharded_view part{{2 * columns, rows}, dtype::float32, {}};
                part.shards.emplace_back(
                    cairn::box({first, 0}, {n, rows}),
                    tensor_view(dtype::float32, {n, rows}, all.data() + first * rows));
                cairn::load(cairn::state_dict{{"w", part}}, "m", store, me, how);
            });
            check();
            // A reader of the caller's may show codes, which are no weights.
            if (seed % 3 == 0)
                BOOST_CHECK_EXCEPTION(
                    cairn::load(
                        cairn::state_dict{
                            {"w", tensor_view(dtype::float32, {2 * columns, rows}, all.data())}},
                        "m", cairn::checkpoint_reader(store), how),
                    cairn::error, [](const cairn::error& e) {
                        return e.code() == make_error_code(cairn::errc::dtype_mismatch) &&
                               std::string(e.what()).find("dequantising_reader") !=
                                   std::string::npos;
                    });
            cairn::convert(cairn::convert_source(store, "m"), "made", store, how);
            cairn::load(cairn::state_dict{{"w", view(all, {2 * columns, rows})}}, "made", store);
            check();
        }
    }
}

BOOST_AUTO_TEST_CASE(saves_check_the_state_before_it_is_mapped) {
    std::vector<float> memory(32, 1);
    auto const text_of = [&](const cairn::box& region, const tensor_view& at, dtype type) {
        cairn::sharded_view w{{8, 4}, type, {}};
        w.shards.emplace_back(region, at);
        cairn::memory_store store;
        return support::error_of([&] {
            cairn::save(cairn::state_dict{{"w", w}}, "c", store,
                        cairn::mapping().set("w", stored("x", {.type = dtype::float32})));
        });
    };
    auto const whole = cairn::box({0, 0}, {8, 4});
    auto const has = [](const std::string& text, const char* part) {
        BOOST_TEST(text.find("'w'") != std::string::npos, text);
        BOOST_TEST(text.find(part) != std::string::npos, text);
    };
    has(text_of(whole, view(memory, {4, 4}), dtype::float32), "memory of [8, 4]");
    has(text_of(whole, tensor_view(dtype::bfloat16, {8, 4}, nullptr), dtype::bfloat16),
        "a null pointer");
    has(text_of(whole, tensor_view(dtype::int32, {8, 4}, memory.data()), dtype::float32),
        "float32 in every shard");
    has(text_of(cairn::box({4, 0}, {8, 4}), view(memory, {8, 4}), dtype::float32),
        "a shard within [8, 4]");
}

BOOST_AUTO_TEST_CASE(tensors_on_devices_are_loaded_and_saved) {
    cairn::mapping how;
    how.set("qk", pad(concat(0, {stored("q", {.shape = {3, -1}}), stored("k", {.shape = {2, -1}})}),
                      {6, -1}, -1))
        .set("t", transpose(stored("w")))
        .set("head", clip(stored("words", {.shape = {5, -1}}), {4, -1}, 7));
    auto q = numbers(12, 1), k = numbers(8, 100), w = numbers(6, 200), words = numbers(10, 300);
    cairn::memory_store store;
    cairn::save(cairn::state_dict{{"q", view(q, {3, 4})},
                                  {"k", view(k, {2, 4})},
                                  {"w", view(w, {2, 3})},
                                  {"words", view(words, {5, 2})}},
                "c", store);
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        support::fake_gpu gpu(seed);
        auto* const user = gpu.new_stream();
        support::fake_cuda_memory space(user);
        support::device_tensor qk(gpu, 0, {6, 4}), t(gpu, 0, {3, 2}), head(gpu, 0, {4, 2});
        for (auto* one : {&qk, &t, &head}) one->produce(user, 1000);
        cairn::state_dict const state{{"qk", qk.view}, {"t", t.view}, {"head", head.view}};
        cairn::load(state, "c", store, space, how);
        auto expected = q;
        expected.insert(expected.end(), k.begin(), k.end());
        expected.insert(expected.end(), 4, -1.0f);
        BOOST_TEST((qk.elements() == expected));
        BOOST_TEST((t.elements() == std::vector<float>{200, 203, 201, 204, 202, 205}));
        BOOST_TEST((head.elements() == numbers(8, 300)));

        cairn::save(state, "d", store, space, how);
        std::vector<float> q2(12), k2(8), w2(6), words2(10);
        cairn::load(cairn::state_dict{{"q", view(q2, {3, 4})},
                                      {"k", view(k2, {2, 4})},
                                      {"w", view(w2, {2, 3})},
                                      {"words", view(words2, {5, 2})}},
                    "d", store);
        BOOST_TEST((q2 == q && k2 == k && w2 == w));
        auto filled = numbers(8, 300);
        filled.insert(filled.end(), 2, 7.0f);
        BOOST_TEST((words2 == filled));
        gpu.synchronize();
        support::check_clean(gpu);
    }
}

BOOST_AUTO_TEST_CASE(steps_that_become_one_are_compared_wherever_they_are) {
    cairn::mapping how;
    how.set("gate", part(stored("gu"), 0, 0, 2))
        .set("up", part(stored("gu"), 0, 1, 2))
        .follow("{param...}/{slot}", "{param...}/{slot}");
    auto w = numbers(4);
    auto const save = [&](const tensor_view& one, const tensor_view& other, auto&&... space) {
        cairn::state_dict const state{{"gate", view(w, {2, 2})},
                                      {"up", view(w, {2, 2})},
                                      {"gate/step", one},
                                      {"up/step", other}};
        return support::error_of([&] {
            cairn::memory_store store;
            cairn::save(state, "c", store, how, space...);
            float step = 0;
            cairn::load(cairn::state_dict{{"gu/step", tensor_view(dtype::float32, {}, &step)}}, "c",
                        store);
            BOOST_TEST(step == 5);
        });
    };
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        support::fake_gpu gpu(seed);
        auto* const user = gpu.new_stream();
        support::fake_cuda_memory space(user);
        support::device_tensor five(gpu, 0, {}), again(gpu, 0, {}), seven(gpu, 0, {});
        five.produce(user, 5);
        again.produce(user, 5);
        seven.produce(user, 7);
        BOOST_TEST(save(five.view, again.view, space) == "");
        for (auto const& text :
             {save(five.view, seven.view, space), save(seven.view, five.view, space)})
            BOOST_TEST(support::contains(text, {"'gate/step' and 'up/step'"}), text);
        // One of them in host memory.
        float here = 5;
        tensor_view const on_host(dtype::float32, {}, &here);
        BOOST_TEST(save(on_host, five.view, space) == "");
        BOOST_TEST(save(on_host, seven.view, space) != "");
        // Without a memory space it is refused, as without a mapping.
        auto const refused = save(five.view, again.view);
        BOOST_TEST(support::contains(refused, {"'gate/step'"}), refused);
        gpu.synchronize();
        support::check_clean(gpu);
    }
    std::int64_t whole = 1;
    float half = 1.5f;
    BOOST_TEST(save(tensor_view(dtype::int64, {}, &whole), tensor_view(dtype::float32, {}, &half))
                   .find("'gate/step' and 'up/step'") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(steps_that_become_one_are_compared_as_they_are_stored) {
    cairn::mapping how;
    how.set("qk", concat(0, {stored("q"), stored("k")}))
        .follow("{param...}/{slot}", "{param...}/{slot}");
    auto w = numbers(2);
    for (bool const equal : {true, false}) {
        cairn::memory_store store;
        std::vector<float> q{1000}, k{equal ? 1000.0f : 1001.0f};  // in bfloat16: 1000
        cairn::save(cairn::state_dict{{"q", view(w, {2})},
                                      {"k", view(w, {2})},
                                      {"q/step", view(q, {})},
                                      {"k/step", view(k, {})}},
                    "c", store);
        cairn::load_options converting;
        converting.planner.dtypes = cairn::dtype_policy::convert;
        std::uint16_t step = 0;
        auto const load = support::error_of([&] {
            cairn::load(cairn::state_dict{{"qk/step", tensor_view(dtype::bfloat16, {}, &step)}},
                        "c", converting, store, how);
        });
        cairn::convert_options rounding;
        rounding.floats_as = dtype::bfloat16;
        auto const converted = support::error_of([&] {
            cairn::convert({store, "c"}, "d", rounding, store, how);
        });
        for (auto const& text : {load, converted})
            BOOST_TEST((equal ? text.empty() : support::contains(text, {"'q/step' and 'k/step'"})),
                       text);
    }
}

/// What fills a clip is the same on all ranks, however many boxes each has.
BOOST_AUTO_TEST_CASE(ranks_that_put_boxes_together_fill_alike) {
    constexpr int layers = 33;
    cairn::mapping how;
    how.set("l.{i}", clip(unstack(stored("w", {.shape = {layers, 8, -1}}), "{i}"), {6, -1}, 0));
    cairn::memory_store store;
    cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
        std::vector<float> mine(layers * 3 * 2, static_cast<float>(1 + me.rank()));
        cairn::state_dict of_layers;
        for (int i = 0; i < layers; ++i)
            of_layers[std::to_string(i)] = cairn::sharded_view{
                {6, 2},
                dtype::float32,
                {cairn::shard(cairn::box({3 * me.rank(), 0}, {3, 2}),
                              tensor_view(dtype::float32, {3, 2}, mine.data() + i * 6))}};
        cairn::save(cairn::state_dict{{"l", of_layers}}, "c", me, store, how);
    });
    std::vector<float> w(layers * 8 * 2);
    cairn::load(cairn::state_dict{{"w", view(w, {layers, 8, 2})}}, "c", store);
    for (std::size_t i = 0; i < w.size(); ++i) {
        auto const row = i / 2 % 8;
        BOOST_TEST_REQUIRE(w[i] == (row < 3 ? 1 : row < 6 ? 2 : 0));
    }
}

BOOST_AUTO_TEST_CASE(what_all_ranks_want_is_read_once) {
    cairn::memory_store store;
    auto q = numbers(12, 1), k = numbers(8, 100), w = numbers(6, 200);
    cairn::save(cairn::state_dict{{"q", view(q, {3, 4})}, {"k", view(k, {2, 4})}, {"w", w}}, "c",
                store);
    cairn::mapping how;
    how.set("qk", transpose(concat(0, {stored("q"), stored("k")}))).rename("v", "w");
    std::atomic<int> wrong{0};
    cairn::run_ranks(3, [&](auto& me) {
        cairn::communicator_data_plane plane(me);
        std::vector<float> qk(20), v(6);
        cairn::load_options o;
        o.read_once_from = 0;
        auto const r = cairn::load(cairn::state_dict{{"qk", view(qk, {4, 5})}, {"v", v}}, "c", o,
                                   me, plane, store, how);
        for (std::size_t i = 0; i < 4; ++i)
            for (std::size_t j = 0; j < 5; ++j)
                wrong += qk[5 * i + j] != (j < 3 ? q[4 * j + i] : k[4 * (j - 3) + i]);
        wrong += v != w;
        wrong += r.read_once.once_bytes != 26 * sizeof(float);
    });
    BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_CASE(ranks_may_have_different_parts_of_a_stored_tensor) {
    auto const save = [](cairn::memory_store store, const cairn::mapping& how,
                         const std::vector<std::vector<const char*>>& names) {
        cairn::run_ranks(static_cast<int>(names.size()), [&](auto& me) {
            auto const rank = static_cast<std::size_t>(me.rank());
            std::vector<std::vector<float>> memory;
            memory.reserve(4);
            cairn::state_dict state;
            for (auto const* name : names[rank]) {
                auto& v = memory.emplace_back(numbers(4, static_cast<float>(10 * (name[0] - 'a'))));
                state[name] = view(v, {2, 2});
            }
            cairn::save(state, "c", store, me, how);
        });
    };
    auto const rows = [](int n) {
        std::vector<float> all;
        for (int i = 0; i < n; ++i)
            for (auto const v : numbers(4, static_cast<float>(10 * i))) all.push_back(v);
        return all;
    };
    cairn::memory_store store;
    cairn::mapping halves;
    halves.set("a", part(stored("ab"), 0, 0, 2)).set("b", part(stored("ab"), 0, 1, 2));
    save(store, halves, {{"a"}, {"b"}});
    std::vector<float> ab(8), layers(12);
    cairn::load(cairn::state_dict{{"ab", view(ab, {4, 2})}}, "c", store);
    BOOST_TEST((ab == rows(2)));
    // What no rank has is an error that names the stored tensor.
    auto text = support::error_of([&] { save(store, halves, {{"a"}, {"x"}}); });
    BOOST_TEST(text.find("'ab'") != text.npos, text);

    // How many layers there are a stage does not know, but the expression may say it.
    auto const stages = [](const index_vector& shape) {
        cairn::mapping m;
        for (int i = 0; i < 3; ++i)
            m.set(std::string(1, static_cast<char>('a' + i)),
                  unstack(stored("layers", {.shape = shape}), i));
        return m;
    };
    save(store, stages({3, -1, -1}), {{"a"}, {"b", "c"}});
    cairn::load(cairn::state_dict{{"layers", view(layers, {3, 2, 2})}}, "c", store);
    BOOST_TEST((layers == rows(3)));
    text = support::error_of([&] { save(store, stages({}), {{"a"}, {"b", "c"}}); });
    BOOST_TEST(text.find("'layers'") != text.npos, text);
    BOOST_TEST(text.find("[1, 2, 2]") != text.npos, text);
    BOOST_TEST(text.find("[3, 2, 2]") != text.npos, text);
}

BOOST_AUTO_TEST_CASE(what_each_rank_has_of_its_own_is_renamed_with_its_number) {
    cairn::memory_store store;
    cairn::mapping how;
    how.rename("{name...}", "module.{name...}");
    std::atomic<int> wrong{0};
    cairn::run_ranks(2, [&](auto& me) {
        std::int64_t own = 5 + me.rank(), back = 0;
        cairn::save(cairn::state_dict{{"rng", {{"seed", cairn::per_rank(std::ref(own))}}}}, "c",
                    store, me, how);
        cairn::load(cairn::state_dict{{"rng", {{"seed", cairn::per_rank(std::ref(back))}}}}, "c",
                    store, me, how);
        wrong += back != own;
    });
    BOOST_TEST(wrong == 0);
    auto const tree = cairn::load_tree("c", {}, store);
    BOOST_TEST_REQUIRE(tree.size() == 1u);
    BOOST_TEST(tree.begin()->first == "module.rng");
}

BOOST_AUTO_TEST_CASE(a_stored_checkpoint_shows_the_names_of_the_state) {
    cairn::memory_store store;
    cairn::mapping how;
    how.set("w", transpose(stored("v"))).rename("run.layers", "n");
    auto w = numbers(6, 1);
    std::int64_t layers = 3;
    cairn::checkpointer keeper(cairn::solo(), store, {}, how);
    keeper.save_now(
        1, cairn::state_dict{{"w", view(w, {2, 3})}, {"run", {{"layers", std::ref(layers)}}}});
    keeper.wait();
    std::vector<float> into(6);
    auto const loaded = keeper.load_latest([&](const cairn::stored_checkpoint& c) {
        BOOST_TEST(c.content().tensor("v") == nullptr);
        BOOST_TEST_REQUIRE(c.content().tensor("w") != nullptr);
        BOOST_TEST((c.content().tensor("w")->shape == index_vector{2, 3}));
        BOOST_TEST(c.value<std::int64_t>("run.layers") == 3);
        return cairn::state_dict{{"w", view(into, {2, 3})}};
    });
    BOOST_TEST(loaded.has_value());
    BOOST_TEST((into == w));
}

BOOST_AUTO_TEST_CASE(a_stored_checkpoint_shows_what_a_load_makes_of_codes) {
    cairn::memory_store store;
    std::vector<std::uint8_t> codes(4, 0x38);  // of 1
    std::vector<float> scale{0.5f}, into(4);
    cairn::save(cairn::state_dict{{"v", tensor_view(dtype::float8_e4m3fn, {2, 2}, codes.data())},
                                  {"v_scale_inv", view(scale, {1, 1})}},
                "step_1", store);
    cairn::checkpointer keeper(cairn::solo(), store, {},
                               cairn::mapping().set("w", dequantise(stored("v"))));
    auto const loaded = keeper.load_latest([&](const cairn::stored_checkpoint& c) {
        BOOST_TEST_REQUIRE(c.content().tensor("w") != nullptr);
        BOOST_TEST((c.content().tensor("w")->type == dtype::float32));
        return cairn::state_dict{{"w", view(into, {2, 2})}};
    });
    BOOST_TEST(loaded.has_value());
    BOOST_TEST((into == std::vector<float>(4, 0.5f)));
}

BOOST_AUTO_TEST_CASE(a_stored_checkpoint_that_a_mapping_does_not_fit_breaks_no_group) {
    cairn::memory_store store;
    auto const v = numbers(4, 1);
    cairn::save(cairn::state_dict{{"v", v}}, "step_1", store);
    cairn::run_ranks(2, [&](auto& me) {
        cairn::checkpointer keeper(me, store, {},
                                   cairn::mapping().set("w", transpose(stored("v"))));
        std::vector<float> into(4);
        auto const load = [&](bool looks) {
            (void)keeper.load_latest([&](const cairn::stored_checkpoint& c) {
                if (looks) (void)c.content();
                return cairn::state_dict{{"w", view(into, {2, 2})}};
            });
        };
        for (bool const looks : {true, false})
            BOOST_CHECK_EXCEPTION(load(looks), cairn::error, [](const cairn::error& e) {
                return std::string(e.what()).find("transpose") != std::string::npos;
            });
        BOOST_TEST(keeper.save_now(2, cairn::state_dict{{"w", view(into, {2, 2})}}).saved);
        (void)keeper.wait();
        load(true);
    });
}

BOOST_AUTO_TEST_CASE(an_entry_with_the_name_of_a_rank_s_own_is_refused) {
    cairn::memory_store store;
    auto const own = support::error_of([&] {
        cairn::save(cairn::state_dict{{"x", cairn::per_rank(cairn::value(1))}, {"x.0", 2}}, "c",
                    store, cairn::mapping().rename("x.0", "y"));
    });
    BOOST_TEST(support::contains(own, {"'x.0'", "per rank"}), own);
}

BOOST_AUTO_TEST_CASE(names_keep_their_place_in_a_tree) {
    cairn::memory_store store;
    auto m = numbers(4, 1);
    cairn::mapping how;
    how.rename("optim.state.{i}.q.{slot}", "optim.state.h.{i}.query.{slot}");
    cairn::state_dict const state{{"optim", {{"state", {{"0.q", {{"exp_avg", view(m, {4})}}}}}}}};
    cairn::save(state, "c", store, how);
    auto const below = [](const cairn::state_dict& tree, const char* param) {
        return tree.at("optim").as_dict().at("state").as_dict().at(param).as_dict().size();
    };
    BOOST_TEST(below(cairn::load_tree("c", {}, store), "h.0.query") == 1u);
    BOOST_TEST(below(cairn::load_tree("c", {}, store, how), "0.q") == 1u);
}

/// One name for what is in all entries of a list, beside what stays in them.
BOOST_AUTO_TEST_CASE(what_is_made_of_entries_of_a_list_is_not_in_its_tree) {
    using namespace cairn::map;
    cairn::memory_store store;
    auto w = numbers(4), norm = numbers(2);
    cairn::state_list blocks;
    for (int i = 0; i < 2; ++i)
        blocks.emplace_back(cairn::state_dict{
            {"w", cairn::tensor_view(cairn::dtype::float32, {2}, w.data() + 2 * i)},
            {"norm", view(norm, {2})}});
    cairn::mapping how;
    how.set("blocks.{i}.w", unstack(stored("blocks.w"), "{i}"));
    cairn::save(cairn::state_dict{{"blocks", std::move(blocks)}}, "c", store, how);
    auto const tree = cairn::load_tree("c", {}, store);
    BOOST_TEST(tree.at("blocks").as_list().size() == 2u);
    BOOST_TEST((tree.at("blocks.w").as_tensor().global_shape == cairn::index_vector{2, 2}));
}

BOOST_AUTO_TEST_SUITE_END()
