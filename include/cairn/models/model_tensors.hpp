// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_MODEL_TENSORS_HPP
#define CAIRN_MODELS_MODEL_TENSORS_HPP

#include <cairn/detail/config.hpp>
#include <cairn/state/detail/make_leaf.hpp>
#include <cairn/state/node.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace cairn {

/// Identifies a tensor, whatever its name: the memory, dtype and shape. Two names of one tensor are
/// a tied weight.
struct tensor_identity {
    const void* address = nullptr;  ///< Null: unknown, equal to nothing.
    dtype type = dtype::float32;
    index_vector global_shape{};

    friend bool operator==(const tensor_identity& a, const tensor_identity& b) {
        return a.address != nullptr && a.address == b.address && a.type == b.type &&
               a.global_shape == b.global_shape;
    }
};

namespace detail {

/// Returns `tensor_traits<T>::identity(t)` if there is one; otherwise the address of the first
/// element or, on a rank that holds none, of the object.
template <class T>
tensor_identity identity_of(T&& t, const tensor_leaf& leaf) {
    using plain = std::remove_cvref_t<T>;
    const void* address = nullptr;
    if constexpr (is_converted_number<plain>) {
        // Its memory is allocated for each visit.
    } else if constexpr (requires { tensor_traits<plain>::identity(t); }) {
        // a moved-from object has no identity
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

/// The result of walking a model: tensors by FQN, in the order of the walk. Borrows them.
class model_tensors {
public:
    model_tensors();
    model_tensors(const model_tensors& other);
    model_tensors(model_tensors&& other) noexcept;
    model_tensors& operator=(const model_tensors& other);
    model_tensors& operator=(model_tensors&& other) noexcept;
    ~model_tensors();

    const std::vector<model_entry>& entries() const noexcept { return entries_; }
    /// Names that other ranks hold.
    const std::vector<std::string>& elsewhere() const noexcept { return elsewhere_; }

    const model_entry* find(std::string_view fqn) const;
    /// Finds a tensor by its identity; the first name if it has several.
    const model_entry* find(const tensor_identity& id) const;

    /// @return false if the name is taken
    bool add(model_entry e);
    void add_elsewhere(std::string fqn);
    /// Ties two names of one weight, which this rank may or may not hold.
    void add_tied(const std::string& a, const std::string& b);

    /// Returns all other names of a tensor: those of the same memory, and those declared tied.
    std::vector<std::string> other_names(const std::string& fqn) const;
    /// Returns the tensors that satisfy a predicate.
    model_tensors only(const std::function<bool(const model_entry&)>& keep) const;

private:
    /// Calls `add` with each name of the same elements; a transposed view of them is another
    /// tensor.
    template <class Add>
    void add_same(const model_entry& e, Add& add) const;

    std::vector<model_entry> entries_;
    std::vector<std::string> elsewhere_;
    std::multimap<std::string, std::string, std::less<>> ties_;  ///< In both directions.
    std::map<std::string, std::size_t, std::less<>> by_name_;
    std::multimap<const void*, std::size_t> by_address_;  ///< In the order of the walk.
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/models/impl/model_tensors.ipp>
#endif

#endif
