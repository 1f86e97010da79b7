// SPDX-License-Identifier: Apache-2.0
#include "../../examples/recipes/toy.hpp"

#include <cairn/comm/thread_group.hpp>
#include <cairn/models.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/state/detail/copy_leaf.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(load_tree)

using cairn::errc;
using cairn::state_dict;
using cairn::value;

/// A mapping without entries has no name: where it was one of a list, another is in its place.
BOOST_AUTO_TEST_CASE(a_tree_with_empty_mappings_is_saved_again) {
    cairn::memory_store store;
    std::vector<float> w{1, 2, 3};
    auto const list = [](auto&&... all) { return cairn::state_list{all...}; };
    state_dict const saved{{"list", list(state_dict(), state_dict{{"a", w}},
                                         list(list(state_dict())), state_dict{{"b", value(2)}})}};
    cairn::save(saved, "c", store);
    cairn::save(cairn::load_tree("c", {}, store), "d", store);
    auto const again = cairn::load_tree("d", {}, store);
    BOOST_TEST_REQUIRE(again.at("list").as_list().size() == 4u);
    BOOST_TEST(again.at("list").as_list()[3].as_dict().at("b").as_value().as<int>() == 2);
    // Outside a prefix, too, a tree has no empty entry.
    cairn::save(cairn::load_tree("c", {.prefix = "list.3"}, store), "e", store);
    BOOST_TEST(cairn::load_tree("e", {}, store).at("list").as_list().size() == 4u);
}

BOOST_AUTO_TEST_CASE(a_tree_is_loaded_as_it_was_saved) {
    cairn::memory_store store;
    std::vector<float> w{1, 2, 3};
    state_dict const saved{
        {"model", state_dict{{"net.weight", w}}},
        {"layers", cairn::state_list{state_dict{{"a", w}}, state_dict{{"b", value(2)}}}},
        {"step", value(7)},
        {"pair", value::tuple({1, "x"})}};
    cairn::save(saved, "c", store);
    auto const all = cairn::load_tree("c", {}, store);
    BOOST_TEST(all.at("step").as_value().as<int>() == 7);
    BOOST_TEST((all.at("pair").as_value() == value::tuple({1, "x"})));
    auto const& t = all.at("model").as_dict().at("net.weight").as_tensor();
    BOOST_TEST(to_string(t.global_shape) == "[3]");
    auto const& list = all.at("layers").as_list();
    BOOST_TEST_REQUIRE(list.size() == 2u);
    BOOST_TEST(list[1].as_dict().at("b").as_value().as<int>() == 2);
    BOOST_TEST(cairn::detail::same_content(list[0].as_dict().at("a").as_tensor(), t));

    auto const part = cairn::load_tree("c", {.prefix = "layers.0"}, store);
    BOOST_TEST(part.size() == 1u);
    BOOST_TEST(part.at("layers").as_list().size() == 1u);
    BOOST_CHECK_EXCEPTION((void)cairn::load_tree("c", {.prefix = "mode"}, store), cairn::error,
                          [](const cairn::error& e) {
                              std::string const text = e.what();
                              return text.find("'mode'") != std::string::npos &&
                                     text.find("keys look like") != std::string::npos;
                          });
}

BOOST_AUTO_TEST_CASE(optimizer_state_lies_as_the_parameters_do) {
    cairn::memory_store store;
    cairn::run_ranks(4, [&](auto& me) {
        toy::model m(me.rank(), me.size());
        toy::adam o(m.parameters());
        (void)toy::loss_and_gradients(m, 0, me);
        o.step();
        auto [ms, os] = cairn::get_state_dict(m, o);
        cairn::save(state_dict{{"model", ms}, {"optim", os}}, "c", store, me);
    });
    std::atomic<int> wrong{0}, looked{0};
    auto const check = [&](bool ok) { wrong += !ok, ++looked; };
    cairn::run_ranks(3, [&](auto& me) {
        toy::model m(me.rank(), me.size());
        auto const ms = cairn::get_model_state_dict(m);
        auto const d = cairn::load_sharded_optimizer_state_dict(ms, "optim", "c", store, me);
        auto const& state = d.at("optim").as_dict().at("state").as_dict();
        for (auto const& [fqn, n] : ms) {
            auto const& like = n.as_tensor();
            auto const& moment = state.at(fqn).as_dict().at("exp_avg").as_tensor();
            check(moment.shards.size() == like.shards.size());
            for (std::size_t i = 0; i < moment.shards.size() && i < like.shards.size(); ++i)
                check(moment.shards[i].region == like.shards[i].region);
            auto const& step = state.at(fqn).as_dict().at("step").as_tensor();
            check(!step.sharded && step.global_shape.empty());
        }
        // It fits an optimizer that trains this model.
        cairn::load(state_dict{{"model", ms}}, "c", store, me);
        toy::adam o(m.parameters());
        cairn::set_optimizer_state_dict(m, o, d.at("optim").as_dict());
        check(o.groups[0].parameters[0].second.step == 1);
        check(o.groups[0].parameters[0].second.exp_avg.own.size() == m.net1.weight.own.size());
        try {
            (void)cairn::load_sharded_optimizer_state_dict(ms, "optimizer", "c", store, me);
            check(false);
        } catch (const cairn::error& e) {
            check(std::string(e.what()).find("'optimizer'") != std::string::npos);
        }
    });
    BOOST_TEST(wrong == 0);
    BOOST_TEST(looked > 3 * 10);
}

BOOST_AUTO_TEST_CASE(memory_may_be_the_user_s_own) {
    cairn::memory_store store;
    std::vector<double> w{1, 2, 3};
    cairn::save(state_dict{{"w", w}}, "c", store);
    int made = 0;
    cairn::load_tree_options what;
    what.allocate = [&](const cairn::wanted_tensor& t) -> cairn::node {
        ++made;
        return std::vector<double>(static_cast<std::size_t>(t.global_shape.product()));
    };
    auto const d = cairn::load_tree("c", what, store);
    BOOST_TEST(made == 1);
    BOOST_TEST(cairn::detail::same_content(d.at("w").as_tensor(),
                                           state_dict{{"w", w}}.at("w").as_tensor()));
}

BOOST_AUTO_TEST_SUITE_END()
