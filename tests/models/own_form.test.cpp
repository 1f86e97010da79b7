// SPDX-License-Identifier: Apache-2.0
// An optimizer that keeps things in another form than PyTorch: an integer step, a tuple, a fixed
// hyperparameter; and parameters that are handles, made anew at each visit.
#include <cairn/load.hpp>
#include <cairn/models.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>

#include <boost/test/unit_test.hpp>

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace own_form {

/// A handle on shared elements, as at::Tensor is one.
struct handle {
    std::shared_ptr<std::vector<float>> elements{};
};
struct module {
    handle weight{std::make_shared<std::vector<float>>(3)};
    handle none{std::make_shared<std::vector<float>>()};
    handle bad{};
};
struct optimizer {
    handle weight{}, none{};
    int step = 0;
    std::tuple<double, int, std::string> odd{0.5, 1, "x"};
};
/// Keeps several tensors for each of several blocks of its parameter.
struct block_optimizer {
    handle weight{};
    std::vector<std::vector<std::vector<float>>> blocks{{{1}, {2}}, {{3}}};
    int size = 4;
};

/// Keeps the dict that its visits pass.
struct keeping_optimizer {
    handle weight{};
    std::vector<float> moments{1, 2};
    cairn::state_dict state{{"all", cairn::state_dict{{"m", moments}}}};
};

}  // namespace own_form

template <>
struct cairn::tensor_traits<own_form::handle> {
    static tensor_view view(const own_form::handle& h) {
        if (!h.elements) throw error(errc::unsupported, {.found = "an empty handle"});
        return {dtype::float32, index_vector{static_cast<std::int64_t>(h.elements->size())},
                h.elements->data()};
    }
    static const void* identity(const own_form::handle& h) { return h.elements.get(); }
};
template <>
struct cairn::model_traits<own_form::module> {
    static void visit(own_form::module& m, auto& v) {
        v.parameter("weight", own_form::handle(m.weight));
        v.parameter("none", own_form::handle(m.none));
        if (m.bad.elements) v.buffer("bad", own_form::handle{});
    }
};
template <>
struct cairn::optimizer_traits<own_form::optimizer> {
    static void visit(own_form::optimizer& o, auto& v) {
        v.parameter(o.weight, {{"step", converted<float>(o.step)}});
        v.parameter(o.none);
        v.hyperparameter("odd", o.odd);
        v.fixed_hyperparameter("maximize", false);
    }
};
template <>
struct cairn::optimizer_traits<own_form::block_optimizer> {
    static void visit(own_form::block_optimizer& o, auto& v) {
        cairn::state_list blocks;
        for (auto& block : o.blocks) blocks.emplace_back(block);
        v.parameter(o.weight, {{"blocks", std::move(blocks)},
                               {"sizes", cairn::state_list{cairn::node(std::ref(o.size))}}});
        v.fixed_hyperparameter("maximize", false);
    }
};

template <>
struct cairn::optimizer_traits<own_form::keeping_optimizer> {
    static void visit(own_form::keeping_optimizer& o, auto& v) { v.parameter(o.weight, o.state); }
};

BOOST_AUTO_TEST_SUITE(own_form_of_state)

BOOST_AUTO_TEST_CASE(tensors_in_lists_of_lists_and_values_are_copied_aside) {
    for (bool const full : {false, true}) {
        for (bool const flat : {false, true}) {
            own_form::module m;
            own_form::block_optimizer o{m.weight};
            auto const before = o.blocks;
            auto const copy =
                cairn::get_optimizer_state_dict(m, o,
                                                {.full_state_dict = full,
                                                 .cpu_offload = true,
                                                 .flatten_optimizer_state_dict = flat});
            o.blocks = {{{0}, {0}}, {{0}}};
            o.size = 0;
            cairn::set_optimizer_state_dict(m, o, copy);
            BOOST_TEST((o.blocks == before));
            BOOST_TEST(o.size == 4);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_copy_leaves_a_dict_that_the_optimizer_keeps_as_it_is) {
    own_form::module m;
    own_form::keeping_optimizer o{m.weight};
    for (bool const full : {false, true}) {
        (void)cairn::get_optimizer_state_dict(m, o, {.full_state_dict = full, .cpu_offload = true});
        auto const& leaf = o.state.at("all").as_dict().at("m").as_tensor();
        void const* const memory = o.moments.data();
        BOOST_TEST(leaf.shards[0].view.data == memory);
    }
}

BOOST_AUTO_TEST_CASE(a_list_of_numbers_is_one_value_in_both_shapes) {
    own_form::module m;
    own_form::block_optimizer from{m.weight}, to{m.weight};
    from.size = 7;
    cairn::set_optimizer_state_dict(
        m, to, cairn::get_optimizer_state_dict(m, from, {.flatten_optimizer_state_dict = true}));
    BOOST_TEST(to.size == 7);
}

BOOST_AUTO_TEST_CASE(an_integer_step_is_set) {
    own_form::module m;
    own_form::optimizer from{m.weight, m.none, 7, {2.5, 3, "y"}};
    own_form::optimizer to{m.weight, m.none};
    auto const given = cairn::get_optimizer_state_dict(m, from);
    cairn::set_optimizer_state_dict(m, to, given);
    BOOST_TEST(to.step == 7);
    BOOST_TEST((to.odd == std::tuple<double, int, std::string>{2.5, 3, "y"}));
}

BOOST_AUTO_TEST_CASE(handles_are_known_by_their_identity) {
    own_form::module m;
    auto const all = cairn::tensors_of(m);
    BOOST_TEST(all.find("weight")->id.address == m.weight.elements.get());
    BOOST_TEST(all.find("none")->id.address == m.none.elements.get());
}

BOOST_AUTO_TEST_CASE(a_fixed_hyperparameter_refuses_another_value) {
    own_form::module m;
    own_form::optimizer o{m.weight, m.none, 7};
    auto const given = cairn::get_optimizer_state_dict(m, o);
    auto& group = given.at("param_groups").as_list()[0].as_dict();
    group["maximize"] = cairn::node(cairn::value(true));
    group["odd"] = cairn::node(cairn::value::tuple({9.0, 9, "z"}));
    o.step = 1;
    BOOST_CHECK_EXCEPTION(cairn::set_optimizer_state_dict(m, o, given), cairn::error,
                          [](const cairn::error& e) {
                              return e.code() == cairn::errc::unsupported &&
                                     e.context().fqn.find("maximize") != std::string::npos;
                          });
    BOOST_TEST(o.step == 1);
    BOOST_TEST(std::get<0>(o.odd) == 0.5);
    group["odd"] = cairn::node(cairn::value::tuple({9.0, 9}));
    BOOST_CHECK_EXCEPTION(
        cairn::set_optimizer_state_dict(m, o, given), cairn::error,
        [](const cairn::error& e) { return e.code() == cairn::errc::kind_mismatch; });
}

/// A state dict without one of its keys.
cairn::state_dict without(const cairn::state_dict& d, const char* key) {
    cairn::state_dict out;
    for (auto const& [name, n] : d)
        if (name != key) out[name] = n;
    return out;
}

/// As checkpoints of PyTorch 2.6 lack `decoupled_weight_decay`.
BOOST_AUTO_TEST_CASE(a_checkpoint_need_not_have_a_fixed_hyperparameter) {
    own_form::module m;
    own_form::optimizer from{m.weight, m.none, 7, {2.5, 3, "y"}}, to{m.weight, m.none};
    auto given = cairn::get_optimizer_state_dict(m, from);
    auto& group = given.at("param_groups").as_list()[0].as_dict();
    group = without(group, "maximize");
    cairn::memory_store store;
    cairn::save(cairn::state_dict{{"optim", given}}, "c", store);
    auto const loaded = cairn::get_optimizer_state_dict(m, to);
    cairn::load(cairn::state_dict{{"optim", loaded}}, "c", store);
    cairn::set_optimizer_state_dict(m, to, loaded);
    BOOST_TEST(to.step == 7);
    own_form::optimizer directly{m.weight, m.none};
    cairn::set_optimizer_state_dict(m, directly, given);
    BOOST_TEST(directly.step == 7);
    // Another one must be there.
    group = without(group, "odd");
    cairn::save(cairn::state_dict{{"optim", given}}, "d", store);
    BOOST_CHECK_EXCEPTION(
        cairn::load(cairn::state_dict{{"optim", loaded}}, "d", store), cairn::error,
        [](const cairn::error& e) { return e.code() == cairn::errc::missing_key; });
}

BOOST_AUTO_TEST_CASE(a_tensor_that_cannot_be_seen_is_named) {
    own_form::module m;
    m.bad.elements = m.weight.elements;
    BOOST_CHECK_EXCEPTION(cairn::get_model_state_dict(m), cairn::error, [](const cairn::error& e) {
        return e.code() == cairn::errc::unsupported && e.context().fqn == "bad";
    });
}

BOOST_AUTO_TEST_SUITE_END()
