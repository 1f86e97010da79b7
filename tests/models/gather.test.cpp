// SPDX-License-Identifier: Apache-2.0
#include "../../examples/recipes/toy.hpp"
#include "support/allocations.hpp"
#include "support/error_text.hpp"

#include <cairn/comm/solo.hpp>
#include <cairn/comm/thread_group.hpp>
#include <cairn/models.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(gather)

using cairn::box;
using cairn::errc;
using cairn::index_vector;
using cairn::state_dict;

namespace {

/// Disjoint boxes that make up a whole, dealt out to ranks; some boxes have two holders.
struct random_layout {
    index_vector global_shape;
    std::vector<std::vector<box>> of_rank;

    random_layout(std::mt19937& e, int ranks) : of_rank(static_cast<std::size_t>(ranks)) {
        for (auto d = e() % 3; d-- > 0;) global_shape.push_back(static_cast<std::int64_t>(e() % 9));
        std::vector<box> boxes{box::whole(global_shape)};
        for (auto cuts = e() % 6; cuts-- > 0 && !global_shape.empty();) {
            auto& b = boxes[e() % boxes.size()];
            auto const d = e() % global_shape.size();
            if (b.shape[d] < 2) continue;
            auto upper = b;
            b.shape[d] = 1 + static_cast<std::int64_t>(e() % static_cast<unsigned>(b.shape[d] - 1));
            upper.offsets[d] += b.shape[d];
            upper.shape[d] -= b.shape[d];
            boxes.push_back(upper);
        }
        for (auto const& b : boxes) {
            auto const r = e() % of_rank.size();
            of_rank[r].push_back(b);
            if (e() % 4 == 0 && of_rank.size() > 1) of_rank[(r + 1) % of_rank.size()].push_back(b);
        }
    }
};

std::int32_t element(const index_vector& global, const std::vector<std::int64_t>& at) {
    std::int64_t i = 0;
    for (std::size_t d = 0; d < global.size(); ++d) i = i * global[d] + at[d];
    return static_cast<std::int32_t>(i * 7 + 1);
}

/// The shards of a rank with their memory.
struct held {
    held(const index_vector& global, const std::vector<box>& boxes) {
        view.global_shape = global;
        view.type = cairn::dtype::int32;
        memory.reserve(boxes.size());
        for (auto const& b : boxes) {
            auto& m = memory.emplace_back();
            std::vector<std::int64_t> at(b.rank(), 0);
            for (std::int64_t n = 0; n < b.volume(); ++n) {
                auto rest = n;
                for (std::size_t d = b.rank(); d-- > 0;) {
                    at[d] = b.offsets[d] + rest % b.shape[d];
                    rest /= b.shape[d];
                }
                m.push_back(element(global, at));
            }
            view.shards.emplace_back(b, cairn::tensor_view(cairn::dtype::int32, b.shape, m.data()));
        }
    }
    std::vector<std::vector<std::int32_t>> memory;
    cairn::sharded_view view;
};

}  // namespace

BOOST_AUTO_TEST_CASE(random_layouts_become_whole) {
    std::mt19937 e(20261121);
    for (int round = 0; round < 60; ++round) {
        int const ranks = 1 + static_cast<int>(e() % 5);
        random_layout const layout(e, ranks);
        int const root = static_cast<int>(e() % static_cast<unsigned>(ranks + 1)) - 1;
        std::size_t const piece = 1 + e() % 200;
        std::atomic<int> good{0};
        cairn::run_ranks(ranks, [&](auto& me) {
            held h(layout.global_shape, layout.of_rank[static_cast<std::size_t>(me.rank())]);
            auto const whole = cairn::full_tensor(h.view, me, {.root = root, .piece_bytes = piece});
            if (root >= 0 && me.rank() != root) {
                good += whole.bytes().empty();
                return;
            }
            bool ok = whole.shape() == layout.global_shape && whole.type() == cairn::dtype::int32;
            auto const values = whole.template as<std::int32_t>();
            for (std::size_t i = 0; i < values.size(); ++i)
                ok = ok && values[i] == static_cast<std::int32_t>(i * 7 + 1);
            good += ok;
        });
        BOOST_TEST(good == ranks);
    }
}

/// One piece, however many bytes that may be. Memory is bounded because a schedule that does not
/// end takes all there is.
BOOST_AUTO_TEST_CASE(the_largest_piece_is_one_round) {
    std::array<std::uint8_t, 5> bytes{1, 2, 3, 4, 5};
    cairn::sharded_view view{{5}, cairn::dtype::u8, {}};
    view.shards.emplace_back(box({0}, {5}), cairn::tensor_view(view.type, {5}, bytes.data()));
    std::string text;
    cairn::host_tensor whole;
    {
        cairn::solo alone;
        support::allocations const bounded(std::size_t{16} << 20);
        text = support::error_of(
            [&] { whole = cairn::full_tensor(view, alone, {.piece_bytes = SIZE_MAX}); });
    }
    BOOST_TEST(text == "");
    BOOST_REQUIRE(whole.bytes().size() == bytes.size());
    BOOST_TEST(std::equal(bytes.begin(), bytes.end(), whole.as<std::uint8_t>().begin()));
}

// Each box against all others takes minutes.
BOOST_AUTO_TEST_CASE(many_boxes_make_a_whole) {
    std::atomic<int> good{0};
    cairn::run_ranks(2, [&](auto& me) {
        std::vector<box> every_other;
        for (std::int64_t i = me.rank(); i < 40000; i += 2) every_other.push_back(box({i}, {1}));
        held h({40000}, every_other);
        auto const whole = cairn::full_tensor(h.view, me);
        auto const values = whole.template as<std::int32_t>();
        good += values.size() == 40000U && values[39999] == 39999 * 7 + 1;
    });
    BOOST_TEST(good == 2);
}

BOOST_AUTO_TEST_CASE(what_does_not_make_a_whole_is_refused_on_all) {
    std::atomic<int> told{0};
    auto const expect = [&](auto make, const char* word) {
        told = 0;
        cairn::run_ranks(3, [&](auto& me) {
            held h = make(me.rank());
            try {
                (void)cairn::full_tensor(h.view, me);
            } catch (const cairn::error& x) {
                told += std::string(x.what()).find(word) != std::string::npos;
            }
        });
        BOOST_TEST(told == 3);
    };
    expect([](int r) { return held({6}, {box({r == 2 ? 1 : r * 2}, {2})}); }, "rank");  // overlap
    expect([](int r) { return held({7}, {box({r * 2}, {2})}); }, "the tensor");         // a hole
    expect([](int r) { return held({r == 1 ? 6 : 7}, {box({r * 2}, {2})}); }, "rank 1");
}

BOOST_AUTO_TEST_CASE(parameters_are_whole_while_a_scope_lives) {
    toy::model alone;
    std::atomic<int> good{0};
    cairn::run_ranks(5, [&](auto& me) {
        toy::model m(me.rank(), me.size());
        {
            cairn::full_params whole(m, me);
            good += whole.size() == 4u;
            auto& w = whole.at("net1.weight");
            auto const values0 = w.template as<float>();
            good += std::equal(values0.begin(), values0.end(), alone.net1.weight.own.begin());
            auto* const values = reinterpret_cast<float*>(w.bytes().data());
            std::iota(values, values + 256, 0.0f);
        }
        auto const& p = m.net1.weight;
        for (auto i = p.begin; i < p.end; ++i)
            good += p.own[static_cast<std::size_t>(i - p.begin)] == static_cast<float>(i);
        auto const before = m.net2.weight.own;
        {
            cairn::full_params whole(m, me, false);
            whole.at("net2.weight").bytes()[0] = std::byte{99};
        }
        good += m.net2.weight.own == before;
    });
    BOOST_TEST(good == 5 + 5 + 256 + 5);
}

BOOST_AUTO_TEST_CASE(full_state_goes_out_and_comes_back) {
    for (auto const piece : {std::size_t{50}, std::size_t{1} << 20}) {
        std::atomic<int> good{0};
        cairn::run_ranks(4, [&](auto& me) {
            toy::model m(me.rank(), me.size());
            toy::adam o(m.parameters());
            (void)toy::loss_and_gradients(m, 0, me);
            o.step();
            auto const moments = o.groups[0].parameters[0].second.exp_avg.own;
            auto const weights = m.net1.weight.own;
            // Whole on rank 0 alone.
            cairn::state_dict_options options{.full_state_dict = true, .cpu_offload = true};
            options.gather.piece_bytes = piece;
            auto [ms, os] = cairn::get_state_dict(m, o, options, me);
            good += ms.empty() == (me.rank() != 0);
            if (me.rank() == 0) {
                auto const& t = ms.at("net1.weight").as_tensor();
                good += !t.sharded && t.shards[0].view.elements() == 256;
            }
            // Back into other, fresh ones, from rank 0.
            toy::model m2(me.rank(), me.size(), 9);
            toy::adam o2(m2.parameters());
            o2.groups[0].lr = 5;
            cairn::state_dict_options back{.full_state_dict = true, .broadcast_from_rank0 = true};
            back.gather.piece_bytes = piece;
            cairn::set_state_dict(m2, o2, ms, os, back, me);
            good += m2.net1.weight.own == weights;
            good += o2.groups[0].parameters[0].second.exp_avg.own == moments;
            good += o2.groups[0].parameters[0].second.step == 1 && o2.groups[0].lr == 0.1;
            // A number may be a tensor of one element, of any shape.
            if (me.rank() == 0)
                os["param_groups"].as_list()[0].as_dict()["lr"] =
                    cairn::node(cairn::host_tensor(cairn::dtype::float32, {1}));
            cairn::set_state_dict(m2, o2, ms, os, back, me);
            good += o2.groups[0].lr == 0;
            // Whole on every rank, each takes its own.
            auto const everywhere = cairn::get_model_state_dict(m, {.full_state_dict = true}, me);
            toy::model m3(me.rank(), me.size(), 11);
            cairn::set_model_state_dict(m3, everywhere);
            good += m3.net1.weight.own == weights;
        });
        BOOST_TEST(good == 4 + 1 + 4 * 5);
    }
}

BOOST_AUTO_TEST_CASE(one_rank_s_refusal_is_everybody_s) {
    std::atomic<int> told{0}, untouched{0}, needs_both{0};
    cairn::run_ranks(3, [&](auto& me) {
        toy::model m(me.rank(), me.size());
        auto const before = m.net2.weight.own;
        cairn::state_dict whole;
        if (me.rank() == 0) {
            toy::model other(0, 1, 3);
            whole = cairn::get_model_state_dict(other, {.cpu_offload = true});
            whole["net2.bias"] = cairn::node(cairn::host_tensor(cairn::dtype::float32, {9}));
        }
        try {
            cairn::set_model_state_dict(
                m, whole, {.full_state_dict = true, .broadcast_from_rank0 = true}, me);
        } catch (const cairn::error& e) {
            std::string const text = e.what();
            told += text.find("net2.bias") != std::string::npos &&
                    text.find("[9]") != std::string::npos;
        }
        untouched += m.net2.weight.own == before;
        try {
            cairn::set_model_state_dict(m, {}, {.broadcast_from_rank0 = true}, me);
        } catch (const cairn::error& e) {
            needs_both += e.code() == cairn::make_error_code(errc::invalid_argument);
        }
    });
    BOOST_TEST(told == 3);
    BOOST_TEST(untouched == 3);
    BOOST_TEST(needs_both == 3);
}

// Not a wait for a rank that has thrown already.
BOOST_AUTO_TEST_CASE(a_model_that_cannot_be_visited_fails_all_ranks) {
    std::atomic<int> told{0};
    cairn::run_ranks(3, [&](auto& me) {
        // Rank 1 has two tensors that come to one name.
        std::map<std::string, std::vector<float>> m{{"w", {1}}};
        if (me.rank() == 1) m["module.w"] = {2};
        auto const fails = [&](auto verb) {
            try {
                verb();
            } catch (const cairn::error& e) {
                told += e.failures().size() == 1 && e.failures()[0].where.rank == 1 &&
                        std::string(e.what()).find("module.w") != std::string::npos;
            }
        };
        cairn::gather_options const gather{.exchange_timeout = std::chrono::minutes(1)};
        fails([&] {
            (void)cairn::get_model_state_dict(m, {.full_state_dict = true, .gather = gather}, me);
        });
        fails([&] { cairn::full_params(m, me, true, gather); });
        state_dict const whole{{"w", std::vector<float>{3}}};
        fails([&] {
            cairn::set_model_state_dict(
                m, whole, {.full_state_dict = true, .broadcast_from_rank0 = true, .gather = gather},
                me);
        });
        if (m["w"][0] != 1) told = -100;
    });
    BOOST_TEST(told == 9);
}

/// The padded local tensor in place of what the shard has of the whole one.
BOOST_AUTO_TEST_CASE(shards_with_memory_of_another_size_are_refused) {
    std::atomic<int> told{0};
    cairn::run_ranks(2, [&](auto& me) {
        std::vector<float> memory(6, 1);
        cairn::sharded_view w{{3, 2}, cairn::dtype::float32, {}};
        w.shards.emplace_back(me.rank() == 0 ? box({0, 0}, {2, 2}) : box({2, 0}, {1, 2}),
                              cairn::tensor_view(cairn::dtype::float32, {2, 2}, memory.data()));
        std::map<std::string, cairn::sharded_view> m{{"w", w}};
        auto const fails = [&](const char* name, auto verb) {
            try {
                verb();
            } catch (const cairn::error& e) {
                std::string const text = e.what();
                told += e.failures()[0].where.rank == 1 && text.find(name) != std::string::npos &&
                        text.find("memory of [1, 2]") != std::string::npos;
            }
        };
        fails("'w'", [&] { cairn::full_params(m, me, false); });
        fails("'w'", [&] { (void)cairn::get_model_state_dict(m, {.full_state_dict = true}, me); });
        fails("'the tensor'", [&] { (void)cairn::full_tensor(w, me); });
    });
    BOOST_TEST(told == 6);
}

BOOST_AUTO_TEST_CASE(pipeline_stages_make_one_state) {
    std::atomic<int> good{0};
    cairn::run_ranks(2, [&](auto& me) {
        auto const mine = static_cast<float>(me.rank());
        std::map<std::string, std::vector<float>> stage{
            {"layer" + std::to_string(me.rank()) + ".w", {1.0f + mine}}};
        auto const d = cairn::get_model_state_dict(stage, {.full_state_dict = true}, me);
        good += d.size() == 2u;
        auto const& other = d.at("layer" + std::to_string(1 - me.rank()) + ".w").as_tensor();
        float x = 0;
        std::memcpy(&x, other.shards[0].view.data, sizeof x);
        good += x == 2.0f - mine;
    });
    BOOST_TEST(good == 4);
}

BOOST_AUTO_TEST_SUITE_END()
