// SPDX-License-Identifier: Apache-2.0
#include "small_model.hpp"

#include <cairn/comm/thread_group.hpp>
#include <cairn/load.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>

#include <boost/test/unit_test.hpp>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(models)

using cairn::errc;
using cairn::state_dict;
using cairn::value;
using names = std::vector<std::string>;

namespace {

auto fails_with(errc code, std::vector<std::string> words) {
    return [=](const cairn::error& e) {
        std::string const text = e.what();
        bool all = e.code() == cairn::make_error_code(code);
        for (auto const& w : words) all = all && text.find(w) != std::string::npos;
        if (!all) BOOST_TEST_MESSAGE(text);
        return all;
    };
}

/// Two groups: the embedding; the bias and a frozen layer.
small::sgd optimizer_of(small::model& m) {
    small::sgd o;
    o.groups.resize(2);
    o.groups[0].slots = {{&m.embedding}};
    o.groups[1].slots = {{&m.bias}, {&m.frozen, {}, false}};
    o.groups[1].lr = 0.2;
    return o;
}

}  // namespace

BOOST_AUTO_TEST_CASE(wrappers_are_stripped) {
    cairn::fqn_rules rules;
    BOOST_TEST(cairn::canonical_fqn("module.net.weight", rules) == "net.weight");
    BOOST_TEST(cairn::canonical_fqn("_orig_mod.module.net._fsdp_wrapped_module.w", rules) ==
               "net.w");
    BOOST_TEST(cairn::canonical_fqn("a._checkpoint_wrapped_module.b", rules) == "a.b");
    // Only the outermost `module.` is a wrapper's; a parameter may be called so.
    BOOST_TEST(cairn::canonical_fqn("net.module.w", rules) == "net.module.w");
    BOOST_TEST(cairn::canonical_fqn("module.module.w", rules) == "module.w");
    BOOST_TEST(cairn::canonical_fqn("module", rules) == "module");
    rules.wrappers.push_back("mine");
    BOOST_TEST(cairn::canonical_fqn("a.mine.b", rules) == "a.b");
}

BOOST_AUTO_TEST_CASE(a_model_is_seen_by_name) {
    small::model m;
    auto const d = cairn::get_model_state_dict(m);
    BOOST_TEST(small::keys(d) ==
               (names{"bias", "embed.weight", "frozen.weight", "head.weight", "norm.mean"}));
    BOOST_TEST(d.at("embed.weight").as_tensor().shards[0].target ==
               reinterpret_cast<std::byte*>(m.embedding.data()));
    BOOST_TEST(small::keys(cairn::get_model_state_dict(m, {.ignore_frozen_params = true})) ==
               (names{"bias", "embed.weight", "head.weight", "norm.mean"}));
    BOOST_TEST(small::keys(cairn::get_model_state_dict(m, {.submodules = {"embed", "norm"}})) ==
               (names{"embed.weight", "norm.mean"}));
    BOOST_CHECK_EXCEPTION((void)cairn::get_model_state_dict(m, {.submodules = {"emb"}}),
                          cairn::error, fails_with(errc::missing_key, {"emb", "bed.weight"}));
    cairn::fqn_rules strips_all;
    for (auto const* name : {"embed", "frozen"}) strips_all.wrappers.emplace_back(name);
    BOOST_CHECK_EXCEPTION((void)cairn::get_model_state_dict(m, {.names = strips_all}), cairn::error,
                          fails_with(errc::invalid_state, {"weight", "frozen"}));
}

BOOST_AUTO_TEST_CASE(named_tensors_are_a_model) {
    std::map<std::string, small::tensor> m{{"a", {1}}, {"module.b", {2}}};
    BOOST_TEST(small::keys(cairn::get_model_state_dict(m)) == (names{"a", "b"}));
}

BOOST_AUTO_TEST_CASE(an_optimizer_has_both_shapes) {
    small::model m;
    auto o = optimizer_of(m);
    auto const before = m.embedding;
    BOOST_TEST(small::keys(cairn::get_optimizer_state_dict(m, o)) ==
               (names{"param_groups.0.lr", "param_groups.0.nesterov", "param_groups.0.note",
                      "param_groups.0.params", "param_groups.1.lr", "param_groups.1.nesterov",
                      "param_groups.1.note", "param_groups.1.params", "state.bias.momentum_buffer",
                      "state.embed.weight.momentum_buffer"}));
    // A fresh optimizer has got its state, and nothing else has changed.
    BOOST_TEST(o.groups[0].slots[0].momentum == small::tensor(4, 0.0f));
    BOOST_TEST(o.groups[1].slots[1].momentum.empty());
    BOOST_TEST(m.embedding == before);
    auto const flat =
        small::keys(cairn::get_optimizer_state_dict(m, o, {.flatten_optimizer_state_dict = true}));
    BOOST_TEST(
        flat ==
        (names{"param_groups.bias.lr", "param_groups.bias.nesterov", "param_groups.bias.note",
               "param_groups.embed.weight.lr", "param_groups.embed.weight.nesterov",
               "param_groups.embed.weight.note", "param_groups.frozen.weight.lr",
               "param_groups.frozen.weight.nesterov", "param_groups.frozen.weight.note",
               "state.bias.momentum_buffer", "state.embed.weight.momentum_buffer"}));
}

BOOST_AUTO_TEST_CASE(several_optimizers_make_one_dict_and_strangers_are_refused) {
    small::model m;
    small::sgd a, b;
    a.groups.push_back({{{&m.embedding}}});
    b.groups.push_back({{{&m.bias}}});
    auto const d = cairn::get_optimizer_state_dict(m, std::tie(a, b));
    BOOST_TEST(d.at("param_groups").as_list().size() == 2u);
    std::vector<small::sgd> both{a, b};
    BOOST_TEST(small::keys(cairn::get_optimizer_state_dict(m, both)) == small::keys(d));
    b.groups[0].slots.push_back({&m.embedding});
    BOOST_CHECK_EXCEPTION((void)cairn::get_optimizer_state_dict(m, std::tie(a, b)), cairn::error,
                          fails_with(errc::invalid_state, {"embed.weight", "group 0", "1"}));
    small::tensor stranger{1, 2, 3};
    b.groups[0].slots[1].parameter = &stranger;
    BOOST_CHECK_EXCEPTION((void)cairn::get_optimizer_state_dict(m, b), cairn::error,
                          fails_with(errc::invalid_state, {"parameter 1 of group 0", "[3]"}));
}

BOOST_AUTO_TEST_CASE(what_is_saved_loads_into_fresh_ones) {
    for (bool const flat : {false, true}) {
        cairn::state_dict_options const options{.flatten_optimizer_state_dict = flat};
        cairn::memory_store store;
        small::model m;
        auto o = optimizer_of(m);
        o.groups[0].note = "warm";
        o.groups[0].slots[0].momentum = {1, 2, 3, 4};
        {
            auto const [ms, os] = cairn::get_state_dict(m, o, options);
            cairn::save(state_dict{{"model", ms}, {"optim", os}}, "c", store);
        }
        small::model fresh{{0, 0, 0, 0}, {0, 0}, {0}, {0}, true, {}};
        auto to = optimizer_of(fresh);
        to.groups[0].lr = to.groups[1].lr = 7;
        auto [ms, os] = cairn::get_state_dict(fresh, to, options);
        cairn::load(state_dict{{"model", ms}, {"optim", os}}, "c", store);
        BOOST_TEST(fresh.embedding == m.embedding);
        BOOST_TEST(to.groups[0].lr == 7);  // until it is set
        cairn::set_state_dict(fresh, to, ms, os, options);
        BOOST_TEST(to.groups[0].lr == 0.1);
        BOOST_TEST(to.groups[1].lr == 0.2);
        BOOST_TEST(to.groups[0].note == "warm");
        BOOST_TEST(to.groups[0].slots[0].momentum == o.groups[0].slots[0].momentum);
    }
}

BOOST_AUTO_TEST_CASE(a_copy_may_be_taken_aside) {
    small::model m;
    auto const copy = cairn::get_model_state_dict(m, {.cpu_offload = true});
    m.embedding = {0, 0, 0, 0};
    cairn::set_model_state_dict(m, copy);
    BOOST_TEST(m.embedding == (small::tensor{1, 2, 3, 4}));
}

/// Under the names of a model, other windows of its own memory.
BOOST_AUTO_TEST_CASE(tensors_of_a_model_may_be_exchanged) {
    for (bool const broadcast : {false, true}) {
        cairn::state_dict_options options{.full_state_dict = broadcast,
                                          .broadcast_from_rank0 = broadcast};
        small::model m;
        m.tied = false;
        auto d = cairn::get_model_state_dict(m);
        std::swap(d["embed.weight"], d["head.weight"]);
        auto const set = [&] {
            cairn::run_ranks(1, [&](auto& me) { cairn::set_model_state_dict(m, d, options, me); });
        };
        set();
        BOOST_TEST(m.embedding == small::tensor(4, 9.0f));
        BOOST_TEST(m.head == (small::tensor{1, 2, 3, 4}));
        // Their elements in reverse order, and one that is left as it is.
        d = cairn::get_model_state_dict(m);
        d["head.weight"] =
            cairn::node(cairn::tensor_view(cairn::dtype::float32, {4}, {-1}, m.head.data() + 3));
        set();
        BOOST_TEST(m.head == (small::tensor{4, 3, 2, 1}));
        BOOST_TEST(m.embedding == small::tensor(4, 9.0f));
    }
}

/// The weight has two names, and the state that is given for it has the other one.
BOOST_AUTO_TEST_CASE(state_of_tied_weights_may_be_exchanged) {
    small::model m;
    m.bias = small::tensor(4, 7.0f);
    auto o = optimizer_of(m);
    auto& of_embedding = o.groups[0].slots[0].momentum;
    auto& of_bias = o.groups[1].slots[0].momentum;
    of_embedding = {1, 2, 3, 4};
    of_bias = {5, 6, 7, 8};
    cairn::set_optimizer_state_dict(m, o,
                                    {{"state.bias.momentum_buffer", of_embedding},
                                     {"state.head.weight.momentum_buffer", of_bias}},
                                    {.strict = false, .flatten_optimizer_state_dict = true});
    BOOST_TEST(of_bias == (small::tensor{1, 2, 3, 4}));
    BOOST_TEST(of_embedding == (small::tensor{5, 6, 7, 8}));
}

BOOST_AUTO_TEST_CASE(strict_tells_the_keys_and_the_remedy) {
    small::model m;
    auto d = cairn::get_model_state_dict(m, {.cpu_offload = true});
    d["stage2.weight"] = cairn::node(small::tensor{1});  // another rank's
    BOOST_CHECK_NO_THROW(cairn::set_model_state_dict(m, d));
    auto more = d;
    more["other"] = cairn::node(small::tensor{1});
    BOOST_CHECK_EXCEPTION(cairn::set_model_state_dict(m, more), cairn::error,
                          fails_with(errc::unexpected_key, {"other", "strict = false"}));
    BOOST_CHECK_NO_THROW(cairn::set_model_state_dict(m, more, {.strict = false}));
    state_dict less{{"bias", small::tensor{8}}};
    BOOST_CHECK_EXCEPTION(cairn::set_model_state_dict(m, less), cairn::error,
                          fails_with(errc::missing_key, {"embed.weight", "strict = false"}));
    BOOST_TEST(m.bias[0] == 7.0f);
    cairn::set_model_state_dict(m, less, {.strict = false});
    BOOST_TEST(m.bias[0] == 8.0f);
    state_dict wrong{{"bias", small::tensor{1, 2}}};
    BOOST_CHECK_EXCEPTION(cairn::set_model_state_dict(m, wrong, {.strict = false}), cairn::error,
                          fails_with(errc::shape_mismatch, {"bias", "[1]", "[2]"}));
    state_dict object{{"bias", value(3)}};
    BOOST_CHECK_EXCEPTION(cairn::set_model_state_dict(m, object, {.strict = false}), cairn::error,
                          fails_with(errc::kind_mismatch, {"bias"}));
}

BOOST_AUTO_TEST_CASE(tied_weights_must_agree) {
    small::model m;
    state_dict d{{"embed.weight", small::tensor{1, 1, 1, 1}},
                 {"head.weight", small::tensor{2, 2, 2, 2}}};
    BOOST_CHECK_EXCEPTION(
        cairn::set_model_state_dict(m, d, {.strict = false}), cairn::error,
        fails_with(errc::invalid_state, {"head.weight", "embed.weight", "remove one"}));
    BOOST_TEST(m.embedding[0] == 1.0f);
    BOOST_TEST(m.embedding[1] == 2.0f);  // untouched
    d = {{"embed.weight", small::tensor{3, 3, 3, 3}}, {"head.weight", small::tensor{3, 3, 3, 3}}};
    cairn::set_model_state_dict(m, d, {.strict = false});
    BOOST_TEST(m.embedding == small::tensor(4, 3.0f));
}

BOOST_AUTO_TEST_CASE(optimizer_state_that_does_not_fit_is_refused) {
    small::model m;
    auto o = optimizer_of(m);
    auto d = cairn::get_optimizer_state_dict(m, o, {.cpu_offload = true});
    auto const state = [&](const state_dict& extra) {
        state_dict s;
        for (auto const& [k, n] : d.at("state").as_dict()) s[k] = n;
        for (auto const& [k, n] : extra) s[k] = n;
        return state_dict{{"state", s}, {"param_groups", state_dict()}};
    };
    auto stranger = d;
    stranger["state"] = cairn::node(
        state({{"gone.weight", state_dict{{"momentum_buffer", small::tensor{1}}}}}).at("state"));
    BOOST_CHECK_EXCEPTION(
        cairn::set_optimizer_state_dict(m, o, stranger), cairn::error,
        fails_with(errc::unexpected_key, {"state.gone.weight.momentum_buffer", "strict = false"}));
    BOOST_CHECK_NO_THROW(cairn::set_optimizer_state_dict(m, o, stranger, {.strict = false}));
    // Of a parameter that this optimizer does not have, but the model does: another optimizer's.
    small::sgd part;
    part.groups = {o.groups[0]};
    BOOST_CHECK_NO_THROW(cairn::set_optimizer_state_dict(m, part, d));
    state_dict const nothing{{"state", state_dict()}};
    BOOST_CHECK_EXCEPTION(cairn::set_optimizer_state_dict(m, o, nothing), cairn::error,
                          fails_with(errc::missing_key, {"state.bias.momentum_buffer"}));
}

BOOST_AUTO_TEST_CASE(groups_are_found_by_their_members) {
    small::model m;
    auto o = optimizer_of(m);
    auto const d = cairn::get_optimizer_state_dict(m, o);
    // The same groups in another order.
    small::sgd turned;
    turned.groups = {o.groups[1], o.groups[0]};
    turned.groups[0].lr = turned.groups[1].lr = 7;
    cairn::set_optimizer_state_dict(m, turned, d);
    BOOST_TEST(turned.groups[0].lr == 0.2);
    BOOST_TEST(turned.groups[1].lr == 0.1);
    // Moved between groups: one value for two parameters, or none.
    small::sgd joined;
    joined.groups.push_back({{{&m.embedding, {}}, {&m.bias, {}}}});
    joined.groups[0].lr = 7;
    BOOST_CHECK_EXCEPTION(cairn::set_optimizer_state_dict(m, joined, d), cairn::error,
                          fails_with(errc::invalid_state, {"param_groups.0.lr", "embed.weight",
                                                           "bias", "strict = false"}));
    BOOST_TEST(joined.groups[0].lr == 7);
    cairn::set_optimizer_state_dict(m, joined, d, {.strict = false});
    BOOST_TEST(joined.groups[0].lr == 7);  // its own: the others contradict each other
    o.groups[1].lr = 0.1;
    cairn::set_optimizer_state_dict(m, joined, cairn::get_optimizer_state_dict(m, o));
    BOOST_TEST(joined.groups[0].lr == 0.1);
    // A parameter that no given group holds.
    small::sgd alone;
    alone.groups.push_back({{{&m.embedding, {}}}});
    auto const one = cairn::get_optimizer_state_dict(m, alone);
    BOOST_CHECK_EXCEPTION(cairn::set_optimizer_state_dict(m, joined, one), cairn::error,
                          fails_with(errc::missing_key, {"state.bias.momentum_buffer"}));
    small::sgd frozen;
    frozen.groups.push_back({{{&m.frozen, {}, false}}});
    BOOST_CHECK_EXCEPTION(cairn::set_optimizer_state_dict(m, frozen, one), cairn::error,
                          fails_with(errc::invalid_state, {"param_groups.0", "frozen.weight"}));
}

BOOST_AUTO_TEST_CASE(the_first_of_the_given_groups_with_one_parameter_counts) {
    small::model m;
    auto o = optimizer_of(m);
    auto const own = cairn::get_optimizer_state_dict(m, o);
    auto const& first = own.at("param_groups").as_list()[0].as_dict();
    value::list_t all, none;
    for (auto const* fqn : {"embed.weight", "bias", "frozen.weight"}) all.emplace_back(fqn);
    std::vector<float> lr{0.25f};  // PyTorch may keep it as a tensor
    cairn::state_list groups;
    for (int i = 0; i <= 10; ++i) {
        state_dict g;
        for (auto const& [key, n] : first) g[key] = n;
        g["lr"] = i == 2 ? cairn::node(cairn::tensor_view(cairn::dtype::float32, {1}, lr.data()))
                         : cairn::node(value(i));
        g["params"] = cairn::node(value(i == 2 || i == 10 ? all : none));
        groups.emplace_back(std::move(g));
    }
    cairn::set_optimizer_state_dict(
        m, o, state_dict{{"state", own.at("state")}, {"param_groups", std::move(groups)}});
    BOOST_TEST(o.groups[0].lr == 0.25);
    BOOST_TEST(o.groups[1].lr == 0.25);
}

BOOST_AUTO_TEST_CASE(a_hyperparameter_of_another_kind_changes_nothing) {
    small::model m;
    auto o = optimizer_of(m);
    auto d = cairn::get_optimizer_state_dict(m, o);
    auto& groups = d["param_groups"].as_list();
    groups[0].as_dict()["lr"] = cairn::node(value(0.5));
    groups[0].as_dict()["note"] = cairn::node(value(3));
    BOOST_CHECK_EXCEPTION(cairn::set_optimizer_state_dict(m, o, d), cairn::error,
                          fails_with(errc::kind_mismatch, {"note"}));
    BOOST_TEST(o.groups[0].lr == 0.1);
}

BOOST_AUTO_TEST_SUITE_END()
