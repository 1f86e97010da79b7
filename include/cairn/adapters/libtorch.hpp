// SPDX-License-Identifier: Apache-2.0
// Needs the headers of PyTorch 2.6 or newer; nothing else of cairn includes this.
#ifndef CAIRN_ADAPTERS_LIBTORCH_HPP
#define CAIRN_ADAPTERS_LIBTORCH_HPP

#include <cairn/error.hpp>
#include <cairn/models/model.hpp>
#include <cairn/models/optimizer.hpp>
#include <cairn/state/converted.hpp>
#include <cairn/tensor/traits.hpp>

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros_like.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/version.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace cairn {

namespace detail {

/// @throws error unsupported for quantised and packed types, which DCP does not store either.
inline dtype dtype_of_scalar_type(at::ScalarType t) {
    switch (t) {
        case at::kDouble: return dtype::float64;
        case at::kFloat: return dtype::float32;
        case at::kHalf: return dtype::float16;
        case at::kBFloat16: return dtype::bfloat16;
        case at::kFloat8_e4m3fn: return dtype::float8_e4m3fn;
        case at::kFloat8_e5m2: return dtype::float8_e5m2;
        case at::kFloat8_e4m3fnuz: return dtype::float8_e4m3fnuz;
        case at::kFloat8_e5m2fnuz: return dtype::float8_e5m2fnuz;
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 7
        case at::kFloat8_e8m0fnu: return dtype::float8_e8m0fnu;
#endif
        case at::kLong: return dtype::int64;
        case at::kInt: return dtype::int32;
        case at::kShort: return dtype::int16;
        case at::kChar: return dtype::int8;
        case at::kUInt64: return dtype::uint64;
        case at::kUInt32: return dtype::uint32;
        case at::kUInt16: return dtype::uint16;
        case at::kByte: return dtype::uint8;
        case at::kBool: return dtype::boolean;
        case at::kComplexDouble: return dtype::complex128;
        case at::kComplexFloat: return dtype::complex64;
        case at::kComplexHalf: return dtype::complex32;
        default: break;
    }
    throw error(errc::unsupported, {.expected = "a plain element type",
                                    .found = std::string("torch's ") + c10::toString(t)});
}

[[noreturn]] inline void refuse_torch(const char* found, const char* remedy) {
    throw error(errc::unsupported,
                {.expected = "a dense tensor with memory", .found = found, .remedy = remedy});
}

/// @throws error unsupported for a tensor whose values are not stored directly in its memory.
inline void check_plain(const at::Tensor& t) {
    if (!t.defined()) refuse_torch("an undefined tensor", "remove it from the state");
    if (t.is_quantized()) refuse_torch("a quantised tensor", "save t.int_repr() and its scale");
    if (t.is_nested()) refuse_torch("a nested tensor", "save its component tensors");
    if (t.layout() != at::kStrided) refuse_torch("a sparse or packed tensor", "t.to_dense()");
    if (t.is_meta()) refuse_torch("a tensor of the meta device", "allocate it: at::empty_like");
    if (t.is_conj() || t.is_neg())
        refuse_torch("a lazily conjugated or negated view", "t.resolve_conj().resolve_neg()");
    if (t._is_zerotensor() || !t.has_storage())
        refuse_torch("a tensor without memory", "t.clone()");
    if (!t.is_cpu() && !t.is_cuda()) refuse_torch("memory of another device", "t.cpu()");
}

}  // namespace detail

/// All dtypes that DCP stores, with strides, 0-d, with `requires_grad`. An `at::Tensor` is a
/// handle: a const one can still be loaded into, and an rvalue is kept by the state dict. A load
/// bypasses autograd: gradients computed before it belong to the old values.
///
/// A CUDA tensor names its device, and is refused by verbs that are not passed a `cuda_memory`.
/// Sparse, quantised, nested, meta, undefined and lazily conjugated tensors are refused with
/// errc::unsupported.
template <>
struct tensor_traits<at::Tensor> {
    static tensor_view view(const at::Tensor& t) {
        detail::check_plain(t);
        device_id device;
        if (t.is_cuda()) device = {memory_kind::cuda, int{t.get_device()}};
        // mutable_data_ptr() gives a copy-on-write tensor memory of its own.
        tensor_view v(detail::dtype_of_scalar_type(t.scalar_type()), index_vector(t.sizes()),
                      index_vector(t.strides()), t.mutable_data_ptr(), device);
        v.requires_grad = t.requires_grad();
        return v;
    }
    /// Returns the same for tensors that share memory (`detach()`), including empty ones.
    static const void* identity(const at::Tensor& t) {
        if (t.numel() != 0) return t.const_data_ptr();
        return t.storage().unsafeGetStorageImpl();
    }
};

/// Any libtorch module: the content of Python's `module.state_dict()`, in its order. Parameters are
/// visited without `requires_grad`, as `state_dict()` detaches them. In C++ every registered buffer
/// is persistent.
template <std::derived_from<torch::nn::Module> M>
struct model_traits<M> {
    static void visit(torch::nn::Module& m, auto& v) {
        for (auto const& p : m.named_parameters(/*recurse=*/false))
            if (p.value().defined())
                v.parameter(p.key(), p.value().detach(), p.value().requires_grad());
        for (auto const& b : m.named_buffers(/*recurse=*/false))
            if (b.value().defined()) v.buffer(b.key(), b.value().detach());
        for (auto const& child : m.named_children()) v.module(child.key(), *child.value());
    }
};

/// A holder that `TORCH_MODULE` defines: `torch::nn::Linear`.
template <class Holder>
    requires std::derived_from<Holder, torch::nn::ModuleHolder<typename Holder::ContainedType>>
struct model_traits<Holder> {
    static void visit(Holder& h, auto& v) { model_traits<torch::nn::Module>::visit(*h, v); }
};

namespace detail {

/// Adam and AdamW differ in names, and in Python's decoupled_weight_decay.
template <class Optimizer, class State, class Options, bool Decoupled>
struct torch_adam_traits {
    /// Creates zeros, as the first step would, for each parameter that lacks them: in a fresh
    /// optimizer, in a group that was added, in a layer that is trained from now on; DCP's
    /// `_init_optim_state`, which performs a step of learning rate 0 instead.
    static void init_state(Optimizer& o) {
        for (auto& g : o.param_groups()) {
            bool const amsgrad = static_cast<Options&>(g.options()).amsgrad();
            for (auto const& p : g.params()) {
                if (!p.requires_grad()) continue;
                auto& kept = o.state()[p.unsafeGetTensorImpl()];
                if (kept == nullptr) kept = std::make_unique<State>();
                auto& s = static_cast<State&>(*kept);
                if (!s.exp_avg().defined()) s.exp_avg(at::zeros_like(p));
                if (!s.exp_avg_sq().defined()) s.exp_avg_sq(at::zeros_like(p));
                if (amsgrad && !s.max_exp_avg_sq().defined()) s.max_exp_avg_sq(at::zeros_like(p));
            }
        }
    }

    static void visit(Optimizer& o, auto& v) {
        for (auto& g : o.param_groups()) {
            v.group();
            auto& options = static_cast<Options&>(g.options());
            for (auto const& p : g.params()) {
                auto const it = o.state().find(p.unsafeGetTensorImpl());
                if (it == o.state().end())
                    v.parameter(p);
                else
                    v.parameter(p, state_of(static_cast<State&>(*it->second)));
            }
            v.hyperparameter("lr", options.lr());
            v.hyperparameter("betas", options.betas());
            v.hyperparameter("eps", options.eps());
            v.hyperparameter("weight_decay", options.weight_decay());
            v.hyperparameter("amsgrad", options.amsgrad());
            // Options that only Python has, about how the step is computed.
            for (auto const* how : {"capturable", "differentiable"})
                v.hyperparameter(how, value(false));
            for (auto const* how : {"foreach", "fused"}) v.hyperparameter(how, value());
            v.fixed_hyperparameter("maximize", false);
            v.fixed_hyperparameter("decoupled_weight_decay", Decoupled);
        }
    }

private:
    static state_dict state_of(State& s) {
        state_dict d;
        // Python keeps the count as a tensor, float32 unless the default dtype is float64.
        d["step"] = converted<float>(s.step());
        d["exp_avg"] = node(at::Tensor(s.exp_avg()));
        d["exp_avg_sq"] = node(at::Tensor(s.exp_avg_sq()));
        if (s.max_exp_avg_sq().defined())
            d["max_exp_avg_sq"] = node(at::Tensor(s.max_exp_avg_sq()));
        return d;
    }
};

}  // namespace detail

/// Python's `torch.optim.Adam` with the state of the C++ class: both load what the other saved. A
/// loaded group with `maximize`, or with a different `decoupled_weight_decay`, is refused: the C++
/// class has neither; where a checkpoint does not name them, as PyTorch 2.6 and older do not name
/// the second, they have this class' value. A parameter that is not trained has no state.
template <>
struct optimizer_traits<torch::optim::Adam>
    : detail::torch_adam_traits<torch::optim::Adam, torch::optim::AdamParamState,
                                torch::optim::AdamOptions, false> {};
/// `torch.optim.AdamW`, likewise.
template <>
struct optimizer_traits<torch::optim::AdamW>
    : detail::torch_adam_traits<torch::optim::AdamW, torch::optim::AdamWParamState,
                                torch::optim::AdamWOptions, true> {};

}  // namespace cairn

#endif
