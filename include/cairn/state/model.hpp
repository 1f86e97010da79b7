// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_MODEL_HPP
#define CAIRN_STATE_MODEL_HPP

#include <cairn/state/fqn.hpp>
#include <cairn/state/make_leaf.hpp>
#include <cairn/state/state_dict.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn {

/// Tells cairn how to walk a module of yours: `visit(module, visitor)` names what it holds.
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

/// Which tensor is meant, whatever name it is given: the memory, dtype and shape. Two names of
/// one tensor are a tied weight.
struct tensor_identity {
    const void* address = nullptr;  ///< Null: not known, equal to nothing.
    dtype type = dtype::float32;
    sizes global{};

    friend bool operator==(const tensor_identity& a, const tensor_identity& b) {
        return a.address != nullptr && a.address == b.address && a.type == b.type &&
               a.global == b.global;
    }
};

namespace detail {

/// `tensor_traits<T>::identity(t)` if there is one, else where the first element lies, else, for
/// a rank that holds none, where the object lies.
template <class T>
tensor_identity identity_of(T&& t, const tensor_leaf& leaf) {
    using plain = std::remove_cvref_t<T>;
    const void* address = nullptr;
    if constexpr (is_converted_number<plain>) {
        // Its memory is made anew each time.
    } else if constexpr (requires { tensor_traits<plain>::identity(t); }) {
        // what was moved from says nothing any more
        auto const* kept = static_cast<const plain*>(leaf.keep.get());
        address = tensor_traits<plain>::identity(kept != nullptr ? *kept : t);
    } else {
        if constexpr (std::is_lvalue_reference_v<T>) address = std::addressof(t);
        for (auto const& s : leaf.shards) {
            if (s.view.empty()) continue;
            address = s.view.data;
            break;
        }
    }
    return {address, leaf.type, leaf.global};
}

}  // namespace detail

/// One tensor of a model under one of its names.
struct model_entry {
    std::string fqn{};
    node what{};
    tensor_identity id{};
    bool buffer = false;
    bool trainable = true;  ///< PyTorch's `requires_grad`. A frozen parameter has no moments.
};

/// What a walk through a model gives: tensors by FQN, in the order of the walk. Borrows them.
class model_tensors {
public:
    const std::vector<model_entry>& entries() const noexcept { return entries_; }
    /// Names that other ranks hold.
    const std::vector<std::string>& elsewhere() const noexcept { return elsewhere_; }

    const model_entry* find(std::string_view fqn) const {
        auto const it = by_name_.find(fqn);
        return it == by_name_.end() ? nullptr : &entries_[it->second];
    }
    /// By its first name if it has several.
    const model_entry* find(const tensor_identity& id) const {
        auto const [first, last] = by_address_.equal_range(id.address);
        for (auto it = first; it != last; ++it)
            if (entries_[it->second].id == id) return &entries_[it->second];
        return nullptr;
    }

    /// @return false if the name is taken
    bool add(model_entry e) {
        if (!by_name_.emplace(e.fqn, entries_.size()).second) return false;
        by_address_.emplace(e.id.address, entries_.size());
        entries_.push_back(std::move(e));
        return true;
    }
    void add_elsewhere(std::string fqn) { elsewhere_.push_back(std::move(fqn)); }

private:
    std::vector<model_entry> entries_;
    std::vector<std::string> elsewhere_;
    std::map<std::string, std::size_t, std::less<>> by_name_;
    std::multimap<const void*, std::size_t> by_address_;  ///< In the order of the walk.
};

/// What `model_traits::visit` talks to.
class model_visitor {
public:
    explicit model_visitor(const fqn_rules& rules) : rules_(std::addressof(rules)) {}

    /// A tensor that an optimizer may change. Lvalues are borrowed and must outlive what is done
    /// with the state; an rvalue (a view, say) is moved in. A tensor may be given under several
    /// names.
    /// @param trainable  False: frozen, PyTorch's `requires_grad = False`.
    template <class T>
        requires(Tensor<T> || Sharded<T>)
    void parameter(std::string_view name, T&& t, bool trainable = true) {
        add(name, std::forward<T>(t), false, trainable);
    }
    /// Persistent state that is no parameter: running means, masks.
    template <class T>
        requires(Tensor<T> || Sharded<T>)
    void buffer(std::string_view name, T&& t) {
        add(name, std::forward<T>(t), true, false);
    }
    /// The same by pointer; null: this module has none (a layer without a bias).
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
    /// A parameter, buffer or module that another rank holds (another pipeline stage): keys at or
    /// below it in a state dict are no surprise here.
    void elsewhere(std::string_view name) { found_.add_elsewhere(full(name)); }

    /// A module within this one, walked by its own traits.
    template <class M>
    void module(std::string_view name, M& m) {
        if (depth_ == 200)
            throw error(errc::invalid_state, {.tensor = full(name),
                                              .found = "modules nested deeper than 200",
                                              .remedy = "does a module hold itself?"});
        auto const length = prefix_.size();
        prefix_.append(name).append(".");
        ++depth_;
        model_traits<std::remove_cv_t<M>>::visit(m, *this);
        --depth_;
        prefix_.resize(length);
    }

    model_tensors take() && { return std::move(found_); }

private:
    std::string full(std::string_view name) const {
        return canonical_fqn(prefix_ + std::string(name), *rules_);
    }
    template <class T>
    void add(std::string_view name, T&& t, bool buffer, bool trainable) {
        model_entry e{full(name), {}, {}, buffer, trainable};
        std::shared_ptr<tensor_leaf> leaf;
        try {
            leaf = detail::make_leaf(std::forward<T>(t));
        } catch (const error& x) {
            auto where = x.context();
            if (where.tensor.empty()) where.tensor = e.fqn;
            throw error(x.code(), std::move(where));
        }
        e.id = detail::identity_of(std::forward<T>(t), *leaf);
        e.what = node(std::move(leaf));
        auto const fqn = e.fqn;
        auto given = prefix_ + std::string(name);
        if (!found_.add(std::move(e)))
            throw error(errc::invalid_state,
                        {.tensor = fqn,
                         .expected = "one tensor of this name",
                         .found = "'" + seen_[fqn] + "' and '" + given + "'",
                         .remedy = "change fqn_rules if they strip too much"});
        seen_.emplace(fqn, std::move(given));
    }

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
/// - *Names*: parts below the module, no dots at the ends; unique after @ref fqn_rules.
/// - *Lifetime*: tensors stay where they are while a state dict made of them is used.
/// - *visit* changes nothing. Numbers that are kept in another type than PyTorch's are shown by
///   @ref converted.
/// - *Ranks*: a rank names what it holds; ranks may differ (pipeline stages).
///
/// **Models**: maps and ranges of named tensors. **Archetype**: `archetype::model`.
template <class M>
concept Model = requires(std::remove_reference_t<M>& m, model_visitor& v) {
    model_traits<std::remove_cvref_t<M>>::visit(m, v);
};

/// Named tensors are a model: `std::map<std::string, tensor>`, a vector of pairs.
template <class M>
    requires(detail::NamedRange<M> && !std::same_as<M, state_dict>)
struct model_traits<M> {
    static void visit(auto& m, auto& v) {
        for (auto& [name, t] : m) v.parameter(name, t);
    }
};

/// Walks a model.
/// @throws error errc::invalid_state for two tensors of one name.
template <Model M>
model_tensors tensors_of(M& m, const fqn_rules& rules = {}) {
    model_visitor v(rules);
    model_traits<std::remove_cv_t<M>>::visit(m, v);
    return std::move(v).take();
}

}  // namespace cairn

#endif
