// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_MODEL_HPP
#define CAIRN_MODELS_MODEL_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/models/model_tensors.hpp>
#include <cairn/state/detail/make_leaf.hpp>
#include <cairn/state/fqn.hpp>
#include <cairn/state/state_dict.hpp>

#include <concepts>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn {

/// Describes how to walk a module of yours: `visit(module, visitor)` names what it holds.
///
///     template <> struct cairn::model_traits<mine::linear> {
///         static void visit(mine::linear& m, auto& v) {
///             v.parameter("weight", m.weight);
///             v.parameter("bias", m.bias, m.bias.requires_grad);
///         }
///     };
///     template <> struct cairn::model_traits<mine::net> {
///         static void visit(mine::net& m, auto& v) {
///             v.module("net1", m.net1);
///             v.buffer("steps", m.steps);
///         }
///     };
template <class M>
struct model_traits;

/// The visitor that `model_traits::visit` is called with.
class model_visitor {
public:
    explicit model_visitor(const fqn_rules& rules);
    model_visitor(const model_visitor& other);
    model_visitor(model_visitor&& other) noexcept;
    model_visitor& operator=(const model_visitor& other);
    model_visitor& operator=(model_visitor&& other) noexcept;
    ~model_visitor();

    /// Adds a tensor that an optimizer may change. Lvalues are borrowed and must outlive the use of
    /// the state; an rvalue, e.g. a view, is moved in. A tensor may be added under several names.
    /// @param trainable  False: frozen, PyTorch's `requires_grad = False`.
    template <class T>
        requires(Tensor<T> || Sharded<T>)
    void parameter(std::string_view name, T&& t, bool trainable = true) {
        add(name, std::forward<T>(t), false, trainable);
    }
    /// Adds persistent state that is not a parameter: running means, masks.
    template <class T>
        requires(Tensor<T> || Sharded<T>)
    void buffer(std::string_view name, T&& t) {
        add(name, std::forward<T>(t), true, false);
    }
    /// Overload for a pointer; null if this module has none (a layer without a bias).
    template <class T>
        requires(Tensor<T> || Sharded<T>)
    void parameter(std::string_view name, T* t, bool trainable = true) {
        if (t != nullptr) parameter(name, *t, trainable);
    }
    template <class T>
        requires(Tensor<T> || Sharded<T>)
    void buffer(std::string_view name, T* t) {
        if (t != nullptr) buffer(name, *t);
    }
    /// Names a parameter, buffer or module that another rank holds (another pipeline stage): keys
    /// at or below it are not unexpected on this rank.
    void elsewhere(std::string_view name);

    /// Names one weight that is tied only in some layouts: this rank holds it under one of the
    /// names, or a copy under each. Examples are the embedding and the head on the first and last
    /// pipeline stage. If a checkpoint lacks one name, the content of the other is loaded, and so
    /// is its optimizer state. Names of the same memory are tied without this call.
    void tied(std::string_view name, std::string_view other);

    /// Adds a module within this one, walked by its own traits.
    template <class M>
    void module(std::string_view name, M& m) {
        auto const length = enter(name);
        model_traits<std::remove_cv_t<M>>::visit(m, *this);
        leave(length);
    }

    model_tensors take() &&;

private:
    std::string full(std::string_view name) const;
    template <class T>
    void add(std::string_view name, T&& t, bool buffer, bool trainable) {
        auto fqn = full(name);
        std::shared_ptr<tensor_leaf> leaf;
        try {
            leaf = detail::make_leaf(std::forward<T>(t));
        } catch (const error& x) {
            throw_for(x, std::move(fqn));
        }
        auto id = detail::identity_of(std::forward<T>(t), *leaf);
        add(name, {std::move(fqn), node(std::move(leaf)), std::move(id), buffer, trainable});
    }
    void add(std::string_view name, model_entry e);
    [[noreturn]] static void throw_for(const error& x, std::string fqn);
    /// @return The argument for `leave`.
    std::size_t enter(std::string_view name);
    void leave(std::size_t length) noexcept;

    const fqn_rules* rules_;
    std::string prefix_;
    int depth_ = 0;
    std::map<std::string, std::string> seen_;  ///< FQN → name before stripping.
    model_tensors found_;
};

/// A module of the user's whose tensors have names.
///
/// Given `m` of type `M&`, `v` an object with the members of @ref model_visitor, and
/// `X = model_traits<M>`:
///
/// | Expression      | Meaning                                                            |
/// |-----------------|--------------------------------------------------------------------|
/// | `X::visit(m, v)`| calls `v.parameter`, `v.buffer`, `v.module` for all that `m` holds |
///
/// **Semantics**
/// - *Names*: components below the module, no dots at the ends; unique after @ref fqn_rules.
/// - *Lifetime*: tensors stay in place while a state dict made of them is used.
/// - *visit* changes nothing. Numbers kept in another type than PyTorch's are passed as
///   @ref converted.
/// - *Ranks*: a rank names what it holds; ranks may differ (pipeline stages).
///
/// **Models**: maps and ranges of named tensors. **Archetype**: `archetype::model`.
template <class M>
concept Model = requires(std::remove_reference_t<M>& m, model_visitor& v) {
    model_traits<std::remove_cvref_t<M>>::visit(m, v);
};

/// A container of named tensors is a model: `std::map<std::string, tensor>`, a vector of pairs.
template <class M>
    requires(detail::NamedRange<M> && !std::same_as<M, state_dict>)
struct model_traits<M> {
    static void visit(auto& m, auto& v) {
        for (auto& [name, t] : m) v.parameter(name, t);
    }
};

/// Walks a model and returns its tensors.
/// @throws error errc::invalid_state for two tensors with one name.
template <Model M>
model_tensors tensors_of(M& m, const fqn_rules& rules = {}) {
    model_visitor v(rules);
    model_traits<std::remove_cv_t<M>>::visit(m, v);
    return std::move(v).take();
}

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/models/impl/model.ipp>
#endif

#endif
