// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_OPTIMIZER_HPP
#define CAIRN_MODELS_OPTIMIZER_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/models/model.hpp>
#include <cairn/state/value_traits.hpp>

#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn {

/// Describes an optimizer of yours: its groups of parameters, their hyperparameters, and the state
/// of each parameter.
///
///     template <> struct cairn::optimizer_traits<mine::adam> {
///         static void init_state(mine::adam& o) { o.make_missing_moments(); }
///         static void visit(mine::adam& o, auto& v) {
///             for (auto& g : o.groups) {
///                 v.group();
///                 v.hyperparameter("lr", g.lr);
///                 for (auto& p : g.parameters)
///                     v.parameter(*p.tensor, {{"step", cairn::converted<float>(p.step)},
///                                             {"exp_avg", p.m}, {"exp_avg_sq", p.v}});
///             }
///         }
///     };
template <class O>
struct optimizer_traits;

/// One hyperparameter of a group: `lr`, `betas`.
struct hyperparameter {
    std::string name{};
    std::function<value()> get{};
    std::function<void(const value&)> set{};  ///< Empty: a constant.
    bool optional = false;                    ///< A checkpoint need not have it.
};

/// One parameter of an optimizer, by FQN once the model has named it, and its state.
struct optimized_parameter {
    std::string fqn{};
    tensor_identity id{};
    state_dict state{};                      ///< Empty: no state (frozen, plain SGD).
    std::vector<std::string> other_names{};  ///< Of a tied weight.
};

/// DCP's entry of `param_groups`.
struct optimizer_group {
    std::vector<optimized_parameter> parameters{};
    std::vector<hyperparameter> hyperparameters{};
};

/// The visitor that `optimizer_traits::visit` is called with.
class optimizer_visitor {
public:
    optimizer_visitor() noexcept;
    optimizer_visitor(const optimizer_visitor& other);
    optimizer_visitor(optimizer_visitor&& other) noexcept;
    optimizer_visitor& operator=(const optimizer_visitor& other);
    optimizer_visitor& operator=(optimizer_visitor&& other) noexcept;
    ~optimizer_visitor();

    /// Begins a group; the calls that follow belong to it.
    void group();

    /// Adds a parameter to the group: the tensor that the model names.
    /// @param state  The optimizer's state for it, by PyTorch's names: memory that stays in place,
    ///               and numbers kept in another type as @ref converted.
    template <class T>
        requires(Tensor<T> || Sharded<T>)
    void parameter(T&& t, state_dict state = {}) {
        auto const leaf = detail::make_leaf(view_of(t));
        add({{}, detail::identity_of(std::forward<T>(t), *leaf), std::move(state), {}});
    }
    /// Overload for optimizers that know the parameter's FQN.
    void parameter(std::string_view fqn, state_dict state = {});
    void parameter(const std::string& fqn, state_dict state = {}) {
        parameter(std::string_view(fqn), std::move(state));
    }
    void parameter(const char* fqn, state_dict state = {}) {
        parameter(std::string_view(fqn), std::move(state));
    }

    /// Adds a hyperparameter to the group. A mutable lvalue is assigned the loaded value once
    /// `set_optimizer_state_dict` has found it to fit; a constant or an rvalue is only saved.
    /// Accepts any type with `value_traits`, or a `value`.
    template <class V>
    void hyperparameter(std::string name, V&& x) {
        using plain = std::remove_cvref_t<V>;
        cairn::hyperparameter h{std::move(name), {}, {}, false};
        if constexpr (std::is_lvalue_reference_v<V> && ValueLike<plain>) {
            h.get = [&x] { return value_traits<plain>::to_value(x); };
            if constexpr (!std::is_const_v<std::remove_reference_t<V>>)
                h.set = [&x](const value& v) { value_traits<plain>::from_value(x, v); };
        } else if constexpr (ValueLike<plain>) {
            h.get = [v = value_traits<plain>::to_value(x)] { return v; };
        } else if constexpr (std::is_constructible_v<value, V>) {
            h.get = [v = value(std::forward<V>(x))] { return v; };
        } else {
            static_assert(sizeof(plain) == 0,
                          "hyperparameter: specialise cairn::value_traits for this type, or pass a "
                          "number, a string or a cairn::value");
        }
        add(std::move(h));
    }

    /// Adds a hyperparameter that has only one possible value in this optimizer: it is saved for
    /// PyTorch, and a different value in a checkpoint is refused with errc::unsupported. A
    /// checkpoint without it was written by an optimizer that has no such choice, i.e. the same
    /// value.
    void fixed_hyperparameter(std::string name, value only);

    std::vector<optimizer_group> take() &&;

private:
    // Only inspected: nothing of an rvalue is kept.
    template <class T>
    static T& view_of(T& t) {
        return t;
    }
    void add(optimized_parameter p);
    void add(cairn::hyperparameter h);
    optimizer_group& current();

    std::vector<optimizer_group> groups_;
};

/// A user's optimizer.
///
/// Given `o` of type `O&`, `v` an object with the members of @ref optimizer_visitor, and
/// `X = optimizer_traits<O>`:
///
/// | Expression        | Meaning                                                               |
/// |-------------------|-----------------------------------------------------------------------|
/// | `X::visit(o, v)`  | calls `v.group`, `v.parameter`, `v.hyperparameter` for all it keeps   |
/// | `X::init_state(o)`| creates the state that is missing (optional)                          |
///
/// **Semantics**
/// - *init_state*: creates what the first step would create, as zeros with the parameter's own
///   layout; changes no parameter and no existing state. Called before every visit, so that a fresh
///   optimizer has memory for a load to fill; DCP's `_init_optim_state`.
/// - *visit*: changes nothing; two visits yield the same memory. A tensor that is created anew by
///   each visit cannot be filled: `set_optimizer_state_dict` refuses it unless it already holds the
///   given content.
/// - *Names*: PyTorch's names for state and hyperparameters, if PyTorch is to read them.
/// - *Lifetime*: as for @ref Model.
///
/// **Archetype**: `archetype::optimizer`.
template <class O>
concept Optimizer = requires(std::remove_reference_t<O>& o, optimizer_visitor& v) {
    optimizer_traits<std::remove_cvref_t<O>>::visit(o, v);
};

namespace detail {

/// Calls `f` for an optimizer, for each of a tuple (`std::tie(a, b)`), or for each of a range.
template <class O, class F>
void for_each_optimizer(O& o, F&& f) {
    if constexpr (Optimizer<O>) {
        f(o);
    } else if constexpr (requires { std::tuple_size<std::remove_cv_t<O>>::value; }) {
        std::apply([&](auto&... each) { (for_each_optimizer(each, f), ...); }, o);
    } else {
        for (auto& each : o) for_each_optimizer(each, f);
    }
}

template <class O>
inline constexpr bool is_optimizers = [] {
    if constexpr (Optimizer<O>)
        return true;
    else if constexpr (requires { std::tuple_size<std::remove_cvref_t<O>>::value; })
        return true;
    else
        return requires(O& o) { requires Optimizer<decltype(*std::begin(o))>; };
}();

/// Returns the groups that a visitor has collected, their parameters named by the model.
CAIRN_DECL std::vector<optimizer_group> named_groups(optimizer_visitor v,
                                                     const model_tensors& model);

/// Returns the groups of all optimizers, their parameters named by the model.
/// @throws error errc::invalid_state for a parameter that the model does not name, and for one that
/// is in two groups.
template <class O>
std::vector<optimizer_group> groups_of(O& optimizers, const model_tensors& model) {
    optimizer_visitor v;
    for_each_optimizer(optimizers, [&](auto& o) {
        using traits = optimizer_traits<std::remove_cvref_t<decltype(o)>>;
        if constexpr (requires { traits::init_state(o); }) traits::init_state(o);
        traits::visit(o, v);
    });
    return named_groups(std::move(v), model);
}

}  // namespace detail

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/models/impl/optimizer.ipp>
#endif

#endif
