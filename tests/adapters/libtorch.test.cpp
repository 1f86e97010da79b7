// SPDX-License-Identifier: Apache-2.0
// The only translation unit with libtorch, which takes long to compile: test cases, and the
// program that libtorch.py takes turns with: libtorch save|load DIR STEPS SEED.
#include <cairn/adapters/libtorch.hpp>
#include <cairn/adapters/libtorch.hpp>  // guarded, and above includes what it needs
// PyTorch's own header of DLPack before the adapter looks for the system's.
#include <ATen/dlpack.h>

#include <cairn/adapters/dlpack.hpp>

#include <cairn/load.hpp>
#include <cairn/models.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>

#include <ATen/ATen.h>
#include <ATen/DLConvertor.h>
#include <torch/nn/functional/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace {

using cairn::dtype;
using cairn::errc;
using cairn::index_vector;
using cairn::state_dict;
using cairn::tensor_view;
using traits = cairn::tensor_traits<at::Tensor>;

struct toy : torch::nn::Module {
    torch::nn::Linear net1{nullptr}, net2{nullptr};
    explicit toy(std::uint64_t seed) {
        at::manual_seed(seed);
        net1 = register_module("net1", torch::nn::Linear(16, 16));
        net2 = register_module("net2", torch::nn::Linear(16, 8));
        register_buffer("seen", at::zeros({2}, at::kLong));
    }
    at::Tensor forward(const at::Tensor& x) { return net2(at::relu(net1(x))); }
};

torch::optim::AdamOptions options(double lr = 0.1) {
    return torch::optim::AdamOptions(lr).amsgrad(true);
}

void train(toy& model, torch::optim::Adam& adam, int steps) {
    for (int i = 0; i < steps; ++i) {
        adam.zero_grad();
        auto const x = at::arange(128, at::kFloat).reshape({8, 16}).div(97).sub(0.5);
        model.forward(x).sum().backward();
        adam.step();
    }
}

state_dict state_of(toy& model, torch::optim::Adam& adam) {
    auto [m, o] = cairn::get_state_dict(model, adam);
    return {{"model", m}, {"optimizer", o}};
}

template <class... Parts>
void load_into(toy& model, torch::optim::Adam& adam, const std::string& id, Parts&&... parts) {
    auto state = state_of(model, adam);
    cairn::load(state, id, parts...);
    cairn::set_state_dict(model, adam, state.at("model").as_dict(),
                          state.at("optimizer").as_dict());
}

torch::optim::AdamParamState& moments(torch::optim::Adam& o, const at::Tensor& p) {
    return static_cast<torch::optim::AdamParamState&>(*o.state().at(p.unsafeGetTensorImpl()));
}

auto refused(errc why, const std::string& name = {}) {
    return [why, name](const cairn::error& e) {
        BOOST_TEST_MESSAGE(e.what());
        return e.code() == why && (name.empty() || e.context().fqn == name);
    };
}

}  // namespace

BOOST_AUTO_TEST_SUITE(libtorch)

BOOST_AUTO_TEST_CASE(every_dtype_has_its_counterpart) {
    const std::pair<at::ScalarType, dtype> all[] = {{at::kDouble, dtype::float64},
                                                    {at::kFloat, dtype::float32},
                                                    {at::kHalf, dtype::float16},
                                                    {at::kBFloat16, dtype::bfloat16},
                                                    {at::kFloat8_e4m3fn, dtype::float8_e4m3fn},
                                                    {at::kFloat8_e5m2, dtype::float8_e5m2},
                                                    {at::kFloat8_e4m3fnuz, dtype::float8_e4m3fnuz},
                                                    {at::kFloat8_e5m2fnuz, dtype::float8_e5m2fnuz},
                                                    {at::kFloat8_e8m0fnu, dtype::float8_e8m0fnu},
                                                    {at::kLong, dtype::int64},
                                                    {at::kInt, dtype::int32},
                                                    {at::kShort, dtype::int16},
                                                    {at::kChar, dtype::int8},
                                                    {at::kUInt64, dtype::uint64},
                                                    {at::kUInt32, dtype::uint32},
                                                    {at::kUInt16, dtype::uint16},
                                                    {at::kByte, dtype::uint8},
                                                    {at::kBool, dtype::boolean},
                                                    {at::kComplexDouble, dtype::complex128},
                                                    {at::kComplexFloat, dtype::complex64},
                                                    {at::kComplexHalf, dtype::complex32}};
    static_assert(std::size(all) + 1 == cairn::dtype_count);  // older ones have no float4
    for (auto const& [torch_type, type] : all) {
        auto const t = at::empty({2, 3}, torch_type);
        BOOST_TEST((traits::view(t).type == type), cairn::name_of(type));
        BOOST_TEST(t.itemsize() == static_cast<std::int64_t>(cairn::size_of(type)));
    }
}

BOOST_AUTO_TEST_CASE(views_tell_strides_scalars_and_gradients) {
    auto const t = at::arange(24, at::kFloat).reshape({2, 3, 4});
    auto const part = t.transpose(0, 2).slice(0, 1, 4, 2);
    tensor_view const v = traits::view(part);
    BOOST_TEST((v.shape == index_vector{2, 3, 2}));
    BOOST_TEST((v.strides == index_vector{2, 4, 12}));
    BOOST_TEST(static_cast<void*>(v.data) == t.data_ptr<float>() + 1);
    BOOST_TEST(!v.requires_grad);
    BOOST_TEST(traits::view(at::zeros({})).shape.empty());
    BOOST_TEST(traits::view(at::zeros({0, 4})).empty());
    BOOST_TEST(traits::view(at::zeros({2}).requires_grad_()).requires_grad);
}

BOOST_AUTO_TEST_CASE(tensors_without_plain_memory_are_refused) {
    auto const dense = at::ones({2, 2});
    const std::pair<const char*, at::Tensor> all[] = {
        {"undefined", at::Tensor()},
        {"sparse", dense.to_sparse()},
        {"quantised", at::quantize_per_tensor(dense, 0.1, 0, at::kQInt8)},
        {"meta", at::empty({2}, at::device(at::kMeta))},
        {"conjugated", at::zeros({2}, at::kComplexFloat).conj()},
        {"zero", at::_efficientzerotensor({2}, at::kFloat)}};
    for (auto const& [name, t] : all) {
        BOOST_TEST_CONTEXT(name) {
            BOOST_CHECK_EXCEPTION(traits::view(t), cairn::error, refused(errc::unsupported));
        }
    }
    struct holder : torch::nn::Module {
    } m;
    m.register_buffer("mask", dense.to_sparse());
    BOOST_CHECK_EXCEPTION(cairn::get_model_state_dict(m), cairn::error,
                          refused(errc::unsupported, "mask"));
}

BOOST_AUTO_TEST_CASE(a_state_dict_keeps_a_tensor_alive) {
    cairn::memory_store store;
    {
        state_dict d{{"t", at::arange(6, at::kInt).reshape({2, 3}).t()}};
        cairn::save(d, "ckpt", store);
    }
    auto t = at::zeros({3, 2}, at::kInt);
    auto const& handle = t;  // a const handle is one to the same elements
    state_dict target{{"t", handle}};
    cairn::load(target, "ckpt", store);
    BOOST_TEST(t.equal(at::arange(6, at::kInt).reshape({2, 3}).t()));
}

BOOST_AUTO_TEST_CASE(tensors_pass_through_dlpack_both_ways) {
    auto const t = at::arange(6, at::kBFloat16).reshape({2, 3}).t();
    cairn::dlpack_owner<DLManagedTensorVersioned> const in(at::toDLPackVersioned(t));
    auto const v = cairn::tensor_traits<DLManagedTensorVersioned>::view(*in);
    BOOST_TEST((v.shape == index_vector{3, 2} && v.strides == index_vector{1, 3}));
    BOOST_TEST((v.type == dtype::bfloat16));
    BOOST_TEST(static_cast<void*>(v.data) == t.data_ptr());
    auto const memory = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3});
    auto out = cairn::to_dlpack<DLManagedTensorVersioned>(
        tensor_view(dtype::float32, index_vector{3}, memory->data()), memory);
    {
        auto const seen = at::fromDLPackVersioned(out.release());
        BOOST_TEST(seen.data_ptr() == memory->data());
        BOOST_TEST(seen.sum().item<float>() == 6);
        BOOST_TEST(memory.use_count() == 2);
    }
    BOOST_TEST(memory.use_count() == 1);
}

BOOST_AUTO_TEST_CASE(names_of_a_module_are_those_of_python) {
    toy model(1);
    auto const d = cairn::get_model_state_dict(model);
    std::vector<std::string> names;
    for (auto const& [name, n] : d) names.push_back(name);
    BOOST_TEST(names == (std::vector<std::string>{"seen", "net1.weight", "net1.bias", "net2.weight",
                                                  "net2.bias"}));
    BOOST_TEST(!d.at("net1.weight").as_tensor().requires_grad);
    torch::nn::BatchNorm1d norm(4);
    BOOST_TEST(cairn::get_model_state_dict(norm).contains("running_var"));
    torch::nn::Linear without(torch::nn::LinearOptions(2, 2).bias(false));
    BOOST_TEST(cairn::get_model_state_dict(without).size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_fresh_adam_gets_what_a_trained_one_saved) {
    cairn::memory_store store;
    toy trained(1), fresh(2);
    torch::optim::Adam from(trained.parameters(), options());
    torch::optim::Adam to(fresh.parameters(), options(0.5));
    train(trained, from, 3);
    cairn::save(state_of(trained, from), "ckpt", store);
    auto const before = fresh.net1->weight.clone();
    auto const state = state_of(fresh, to);
    BOOST_TEST(fresh.net1->weight.equal(before));
    BOOST_TEST(moments(to, fresh.net1->weight).step() == 0);
    BOOST_TEST(moments(to, fresh.net1->weight).exp_avg().equal(at::zeros({16, 16})));
    load_into(fresh, to, "ckpt", store);
    for (int more = 0; more < 2; ++more) {
        for (std::size_t i = 0; i < trained.parameters().size(); ++i) {
            auto const p = trained.parameters()[i], q = fresh.parameters()[i];
            BOOST_TEST(p.equal(q));
            BOOST_TEST(moments(to, q).step() == 3 + more);
            BOOST_TEST(moments(to, q).exp_avg().equal(moments(from, p).exp_avg()));
            BOOST_TEST(moments(to, q).exp_avg_sq().equal(moments(from, p).exp_avg_sq()));
            BOOST_TEST(moments(to, q).max_exp_avg_sq().equal(moments(from, p).max_exp_avg_sq()));
            BOOST_TEST(q.requires_grad());
        }
        train(trained, from, 1);
        train(fresh, to, 1);
    }
    auto& got = static_cast<torch::optim::AdamOptions&>(to.param_groups()[0].options());
    BOOST_TEST(got.lr() == 0.1);
    BOOST_TEST((got.betas() == std::make_tuple(0.9, 0.999)));
}

/// Of a layer that was frozen while others were trained, and of a group that was added later.
BOOST_AUTO_TEST_CASE(each_parameter_gets_the_state_that_it_lacks) {
    for (bool const added : {false, true}) {
        toy model(1);
        torch::optim::Adam adam(added ? model.net1->parameters() : model.parameters(), options());
        if (!added)
            for (auto p : model.net2->parameters()) p.set_requires_grad(false);
        train(model, adam, 2);
        BOOST_TEST(adam.state().size() == 2u);
        auto const trained = moments(adam, model.net1->weight).exp_avg().clone();
        if (added)
            adam.add_param_group(torch::optim::OptimizerParamGroup(model.net2->parameters()));
        else
            for (auto p : model.net2->parameters()) p.set_requires_grad(true);
        auto const state = cairn::get_optimizer_state_dict(model, adam);
        BOOST_TEST(state.at("state").as_dict().contains("net2.weight"));
        BOOST_TEST(moments(adam, model.net2->weight).step() == 0);
        BOOST_TEST(
            moments(adam, model.net2->weight).exp_avg().equal(at::zeros_like(model.net2->weight)));
        BOOST_TEST(moments(adam, model.net1->weight).step() == 2);
        BOOST_TEST(moments(adam, model.net1->weight).exp_avg().equal(trained));
        train(model, adam, 1);
        BOOST_TEST(moments(adam, model.net2->weight).step() == 1);
    }
}

/// A state dict without one of its keys.
cairn::state_dict without(const cairn::state_dict& d, const char* key) {
    cairn::state_dict out;
    for (auto const& [name, n] : d)
        if (name != key) out[name] = n;
    return out;
}

/// PyTorch 2.6 and older do not write it.
BOOST_AUTO_TEST_CASE(a_checkpoint_without_decoupled_weight_decay_loads) {
    toy model(1);
    torch::optim::Adam adam(model.parameters(), options());
    torch::optim::AdamW decoupled(model.parameters(), torch::optim::AdamWOptions().amsgrad(true));
    auto const given = cairn::get_optimizer_state_dict(model, adam);
    auto& group = given.at("param_groups").as_list()[0].as_dict();
    group = without(group, "decoupled_weight_decay");
    BOOST_CHECK_NO_THROW(cairn::set_optimizer_state_dict(model, adam, given));
    BOOST_CHECK_NO_THROW(cairn::set_optimizer_state_dict(model, decoupled, given));
}

BOOST_AUTO_TEST_CASE(state_that_was_not_filled_in_place_can_be_set) {
    toy trained(1), other(2);
    torch::optim::Adam from(trained.parameters(), options());
    torch::optim::Adam to(other.parameters(), options());
    train(trained, from, 2);
    auto const given = cairn::get_optimizer_state_dict(trained, from);
    cairn::set_optimizer_state_dict(other, to, given);
    BOOST_TEST(moments(to, other.net2->bias).step() == 2);
}

BOOST_AUTO_TEST_CASE(what_cpp_cannot_do_is_refused) {
    toy model(1);
    torch::optim::Adam adam(model.parameters(), options());
    auto const given = cairn::get_optimizer_state_dict(model, adam);
    auto& group = given.at("param_groups").as_list()[0].as_dict();
    group["maximize"] = cairn::node(cairn::value(true));
    BOOST_CHECK_EXCEPTION(cairn::set_optimizer_state_dict(model, adam, given), cairn::error,
                          refused(errc::unsupported));
    group["maximize"] = cairn::node(cairn::value(false));
    BOOST_CHECK_NO_THROW(cairn::set_optimizer_state_dict(model, adam, given));
    torch::optim::AdamW decoupled(model.parameters(), torch::optim::AdamWOptions().amsgrad(true));
    BOOST_CHECK_EXCEPTION(cairn::set_optimizer_state_dict(model, decoupled, given), cairn::error,
                          refused(errc::unsupported));
    toy stranger(2);
    BOOST_CHECK_EXCEPTION(cairn::get_optimizer_state_dict(stranger, adam), cairn::error,
                          refused(errc::invalid_state));
}

BOOST_AUTO_TEST_SUITE_END()

int main(int argc, char** argv) {
    std::string const verb = argc > 1 ? argv[1] : "";
    if (argc != 5 || (verb != "save" && verb != "load"))
        return boost::unit_test::unit_test_main([] { return true; }, argc, argv);
    try {
        toy model(std::strtoull(argv[4], nullptr, 10));
        torch::optim::Adam adam(model.parameters(), options(verb == "save" ? 0.1 : 0.5));
        if (verb == "load") load_into(model, adam, argv[2]);
        train(model, adam, std::atoi(argv[3]));
        // What was loaded is saved beside, after the steps.
        cairn::save(state_of(model, adam), std::string(argv[2]) + (verb == "load" ? ".cpp" : ""));
        std::printf("step %d\n", static_cast<int>(moments(adam, model.net1->weight).step()));
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
