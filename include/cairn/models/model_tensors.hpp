// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_MODEL_TENSORS_HPP
#define CAIRN_MODELS_MODEL_TENSORS_HPP

#include <cairn/state/copy_leaf.hpp>
#include <cairn/state/make_leaf.hpp>
#include <cairn/state/node.hpp>

#include <algorithm>
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

/// Which tensor is meant, whatever name it is given: the memory, dtype and shape. Two names of
/// one tensor are a tied weight.
struct tensor_identity {
    const void* address = nullptr;  ///< Null: not known, equal to nothing.
    dtype type = dtype::float32;
    index_vector global_shape{};

    friend bool operator==(const tensor_identity& a, const tensor_identity& b) {
        return a.address != nullptr && a.address == b.address && a.type == b.type &&
               a.global_shape == b.global_shape;
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
    return {address, leaf.type, leaf.global_shape};
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
        if (id.address == nullptr) return nullptr;
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
    /// Two names of one weight, wherever it is.
    void add_tied(const std::string& a, const std::string& b) {
        ties_.emplace(a, b);
        ties_.emplace(b, a);
    }

    /// All other names of a tensor: of the same memory, and those that were said to be tied.
    std::vector<std::string> other_names(const std::string& fqn) const {
        std::vector<std::string> names{fqn};
        auto const add = [&](const std::string& name) {
            if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
        };
        for (std::size_t i = 0; i < names.size(); ++i) {
            auto const name = names[i];
            if (auto const* e = find(name)) add_same(*e, add);
            auto const [first, last] = ties_.equal_range(name);
            for (auto it = first; it != last; ++it) add(it->second);
        }
        names.erase(names.begin());
        return names;
    }
    /// The same tensors, those of a kind.
    template <class Keep>
    model_tensors only(Keep&& keep) const {
        model_tensors out;
        for (auto const& e : entries_)
            if (keep(e)) out.add(e);
        out.elsewhere_ = elsewhere_;
        out.ties_ = ties_;
        return out;
    }

private:
    /// Names of the very same elements; a transposed view of them is another tensor.
    template <class Add>
    void add_same(const model_entry& e, Add& add) const {
        if (e.id.address == nullptr) return;
        auto const [first, last] = by_address_.equal_range(e.id.address);
        for (auto it = first; it != last; ++it) {
            auto const& other = entries_[it->second];
            if (other.id == e.id &&
                detail::same_memory(other.what.as_tensor(), e.what.as_tensor()))
                add(other.fqn);
        }
    }

    std::vector<model_entry> entries_;
    std::vector<std::string> elsewhere_;
    std::multimap<std::string, std::string, std::less<>> ties_;  ///< In both directions.
    std::map<std::string, std::size_t, std::less<>> by_name_;
    std::multimap<const void*, std::size_t> by_address_;  ///< In the order of the walk.
};

}  // namespace cairn

#endif
