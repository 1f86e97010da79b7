// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_TENSOR_CALL_HPP
#define CAIRN_FORMAT_TORCH_TENSOR_CALL_HPP

#include <cairn/format/pickle/tree.hpp>
#include <cairn/format/torch/storage_class.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cairn::format::torch {

/// A storage as a pickle names it: `("storage", TYPE, KEY, LOCATION, NUMEL)`.
struct named_storage {
    std::string_view key;           ///< A window on the pickle.
    std::uint64_t bytes = 0;        ///< Of the whole storage.
    std::uint64_t element = 1;      ///< Bytes of what NUMEL counts.
    std::optional<dtype> type{};    ///< None: untyped, or of elements that cairn does not know.
    std::uint64_t view_offset = 0;  ///< Of a view of the storage in old files, in elements.
};

/// A plain dense tensor as the pickle describes it, within its storage.
struct called_tensor {
    dtype type = dtype::float32;
    index_vector shape{};
    index_vector strides{};
    std::uint64_t storage_offset = 0;  ///< In elements.
    bool requires_grad = false;
    bool conjugate = false;  ///< A lazy view: the elements are the conjugates of the stored ones.
    bool negative = false;   ///< The same: the negated ones.
    std::string_view storage{};       ///< The key of its storage, a window on the pickle.
    std::uint64_t storage_bytes = 0;  ///< Of the whole storage.
};

namespace impl {

inline std::int64_t number_of(const pickle::tree& t, pickle::node_id i) {
    if (t.kind(i) != pickle::node_kind::integer || t.number(i) > INT64_MAX)
        pickle::malformed("a negative or missing number");
    return static_cast<std::int64_t>(t.number(i));
}

}  // namespace impl

/// Returns the storage that a persistent id names; nothing if it names something else.
inline std::optional<named_storage> storage_of(const pickle::tree& t, pickle::node_id persistent) {
    using pickle::node_kind;
    auto const id = t.children(persistent)[0];
    if (t.kind(id) != node_kind::tuple || t.children(id).size() < 5) return {};
    auto const s = t.children(id);
    if (t.kind(s[0]) != node_kind::string || t.text(s[0]) != "storage" ||
        t.kind(s[2]) != node_kind::string)
        return {};
    named_storage found{t.text(s[2])};
    auto const [module, name] = t.class_parts(s[1]);
    if (module == "torch" || module == "torch.cuda") found.type = dtype_of_storage(name);
    found.element = found.type ? size_of(*found.type) : name == "QInt32Storage" ? 4 : 1;
    auto const count = static_cast<std::uint64_t>(impl::number_of(t, s[4]));
    if (count > (std::uint64_t{1} << 60)) pickle::malformed("a storage that is too large");
    found.bytes = count * found.element;
    if (s.size() > 5 && t.kind(s[5]) == node_kind::tuple && t.children(s[5]).size() == 3) {
        auto const offset = static_cast<std::uint64_t>(impl::number_of(t, t.children(s[5])[1]));
        if (offset > count) pickle::malformed("a view beyond its storage");
        found.view_offset = offset;
    }
    return found;
}

/// Reads the call tree that rebuilds a tensor; every accessor checks the kind.
/// @throws error errc::unsupported for anything that is not a plain dense tensor of a known dtype
class tensor_call {
public:
    /// Whether a node is a call that builds a tensor of any kind, also an unsupported one.
    static bool is_one(const pickle::tree& t, pickle::node_id i) {
        using pickle::node_kind;
        auto const kind = t.kind(i);
        if (kind != node_kind::object && kind != node_kind::collection && kind != node_kind::opaque)
            return false;
        auto const [module, name] = t.class_parts(t.children(i)[0]);
        return (module == "torch._utils" || module == "torch._tensor") &&
               name.starts_with("_rebuild_");
    }

    tensor_call(const pickle::tree& t, pickle::node_id i) : t_(t) {
        if (t.kind(i) != pickle::node_kind::object)
            refuse("an item whose data.pkl does not build a tensor");
        name_ = t.class_name(t.children(i)[0]);
        args_ = args(i);
        // A parameter, or a class of tensors, around the tensor itself; one of the other at most.
        for (int around = 0; around < 3; ++around) {
            if (name_ == "torch._utils._rebuild_parameter" ||
                name_ == "torch._utils._rebuild_parameter_with_state") {
                auto const inner = args_[0];
                if (t.kind(inner) != pickle::node_kind::object)
                    refuse("a parameter without a tensor");
                has_gradient_ = has_gradient_ || (args_.size() > 1 && t.is_true(args_[1]));
                name_ = t.class_name(t.children(inner)[0]);
                args_ = args(inner);
            } else if (name_ == "torch._tensor._rebuild_from_type_v2") {
                if (args_.size() < 3 || t.kind(args_[2]) != pickle::node_kind::tuple)
                    refuse(name_ + " with too few arguments");
                if (auto const type = t.class_name(args_[1]);
                    type != "torch.Tensor" && type != "torch.nn.parameter.Parameter" &&
                    type != "torch.nn.parameter.Buffer")
                    refuse("a tensor of class " + type);
                name_ = t.class_name(args_[0]);
                args_ = t.children(args_[2]);
            }
        }
        if (name_ != "torch._utils._rebuild_tensor" && name_ != "torch._utils._rebuild_tensor_v2" &&
            name_ != "torch._utils._rebuild_tensor_v3")
            refuse(name_.empty() ? "a call of something that is not a class" : name_);
        v3_ = name_.ends_with("v3");
        least_ = v3_ ? 7 : name_.ends_with("v2") ? 6 : 4;
        if (args_.size() < least_) refuse(name_ + " with too few arguments");
    }

    called_tensor result() const {
        using pickle::node_kind;
        called_tensor p;
        if (t_.kind(args_[0]) != node_kind::persistent) refuse("a tensor without a storage");
        auto const s = storage_of(t_, args_[0]);
        if (!s) refuse("a malformed storage");
        p.storage = s->key;
        p.storage_bytes = s->bytes;
        if (v3_) {
            auto const d = t_.class_name(args_[6]);
            auto const type = dtype_from_name(d.starts_with("torch.") ? d.substr(6) : d);
            if (!type) refuse("dtype " + d);
            p.type = *type;
        } else {
            if (!s->type) {
                auto const id = t_.children(t_.children(args_[0])[0]);
                refuse("storage " + t_.class_name(id[1]));
            }
            p.type = *s->type;
        }
        p.storage_offset = static_cast<std::uint64_t>(number(args_[1])) + s->view_offset;
        p.shape = numbers(args_[2]);
        p.strides = numbers(args_[3]);
        p.requires_grad = has_gradient_ || (args_.size() > 4 && t_.is_true(args_[4]));
        if (args_.size() > least_) read_flags(args_.back(), p);
        check_bounds(p);
        return p;
    }

private:
    [[noreturn]] static void refuse(const std::string& what) {
        throw error(errc::unsupported, {.expected = "a plain dense tensor", .found = what});
    }
    std::span<const pickle::node_id> args(pickle::node_id call) const {
        auto const a = t_.children(t_.children(call)[1]);
        if (a.empty()) refuse("a call without arguments");
        return a;
    }
    std::int64_t number(pickle::node_id i) const { return impl::number_of(t_, i); }
    index_vector numbers(pickle::node_id i) const {
        if (t_.kind(i) != pickle::node_kind::tuple || t_.children(i).size() > 64)
            pickle::malformed("a malformed shape");
        index_vector s;
        for (auto c : t_.children(i)) s.push_back(number(c));
        return s;
    }
    void read_flags(pickle::node_id i, called_tensor& p) const {
        if (t_.kind(i) != pickle::node_kind::dict) return;
        auto const flags = t_.children(i);
        for (std::size_t k = 0; k + 1 < flags.size(); k += 2) {
            auto const name =
                t_.kind(flags[k]) == pickle::node_kind::string ? t_.text(flags[k]) : "";
            if (name == "conj")
                p.conjugate = t_.is_true(flags[k + 1]);
            else if (name == "neg")
                p.negative = t_.is_true(flags[k + 1]);
            else
                refuse("a tensor with metadata ('" + std::string(name.substr(0, 64)) + "')");
        }
    }
    /// Checks, without overflow, that the last element of shape and strides is in the storage. A
    /// view without elements may begin beyond it, as PyTorch slices: it gets a place within.
    static void check_bounds(called_tensor& p) {
        if (p.shape.size() != p.strides.size()) pickle::malformed("strides of another rank");
        std::uint64_t const elements = p.storage_bytes / size_of(p.type);
        for (auto e : p.shape)
            if (e == 0) {
                p.storage_offset = 0;
                return;
            }
        if (p.storage_offset > elements) pickle::malformed("an offset beyond the storage");
        std::uint64_t last = p.storage_offset;
        for (std::size_t d = 0; d < p.shape.size(); ++d) {
            auto const steps = static_cast<std::uint64_t>(p.shape[d] - 1);
            auto const stride = static_cast<std::uint64_t>(p.strides[d]);
            if (steps != 0 && stride > elements / steps)
                pickle::malformed("strides beyond the storage");
            last += steps * stride;
            if (last >= elements) break;
        }
        if (last >= elements) pickle::malformed("a shape beyond the storage");
    }

    const pickle::tree& t_;
    std::string name_;
    std::span<const pickle::node_id> args_;
    std::size_t least_ = 0;  ///< Of arguments; further ones are flags.
    bool v3_ = false;
    bool has_gradient_ = false;  ///< A parameter's; PyTorch stores none of the tensor in it.
};

}  // namespace cairn::format::torch

#endif
