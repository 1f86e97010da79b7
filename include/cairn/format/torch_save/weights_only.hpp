// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_SAVE_WEIGHTS_ONLY_HPP
#define CAIRN_FORMAT_TORCH_SAVE_WEIGHTS_ONLY_HPP

#include <cairn/error.hpp>
#include <cairn/format/pickle/tree.hpp>
#include <cairn/tensor/dtype.hpp>

#include <algorithm>
#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace cairn::format::torch_save {

/// Whether `torch.load` of PyTorch 2.13 accepts a class or function without being told to trust
/// the file (`weights_only=False`, or `add_safe_globals`).
inline bool is_weights_only(std::string_view module, std::string_view name) {
    constexpr std::string_view by_name[] = {
        "collections.OrderedDict",
        "collections.Counter",
        "_codecs.encode",
        "builtins.set",
        "builtins.bytearray",
        "builtins.complex",
        "__builtin__.set",
        "__builtin__.bytearray",
        "__builtin__.complex",
        "torch.Size",
        "torch.Tensor",
        "torch.device",
        "torch.per_tensor_affine",
        "torch.per_tensor_symmetric",
        "torch.per_channel_affine",
        "torch.per_channel_symmetric",
        "torch.per_channel_affine_float_qparams",
        "torch.qint8",
        "torch.qint32",
        "torch.quint8",
        "torch.quint4x2",
        "torch.quint2x4",
        "torch.nn.parameter.Parameter",
        "torch.serialization._get_layout",
        "torch.storage.TypedStorage",
        "torch.storage.UntypedStorage",
        "torch._tensor._rebuild_from_type_v2",
    };
    auto const full = std::string(module) + "." + std::string(name);
    if (std::find(std::begin(by_name), std::end(by_name), full) != std::end(by_name)) return true;
    if (module == "torch._utils") return name.starts_with("_rebuild_");
    if (module == "torch" && dtype_from_name(name)) return true;
    return (module == "torch" || module == "torch.cuda") &&
           (name.ends_with("Storage") || name.ends_with("Tensor"));
}

/// Whether calling it runs other code, whatever it is called with. Nobody means to save such a
/// call. The modules are those that `torch.load` never accepts anything of.
inline bool is_hostile(std::string_view module, std::string_view name) {
    constexpr std::string_view modules[] = {"sys", "os", "posix", "nt", "subprocess"};
    constexpr std::string_view builtins[] = {"eval", "exec",       "execfile", "compile",
                                             "open", "__import__", "input",    "breakpoint"};
    auto const has = [](std::span<const std::string_view> all, std::string_view one) {
        return std::find(all.begin(), all.end(), one) != all.end();
    };
    return has(modules, module.substr(0, module.find('.'))) ||
           ((module == "builtins" || module == "__builtin__") && has(builtins, name));
}

/// Returns the classes and functions of a pickle that `torch.load` refuses unless it is told to
/// trust the file.
/// @throws error errc::unsupported for a call that runs other code
inline std::set<std::string> classes_to_trust(const pickle::tree& t) {
    std::set<std::string> all;
    for (std::size_t i = 0; i < t.size(); ++i) {
        auto const n = static_cast<pickle::node_id>(i);
        if (t.kind(n) == pickle::node_kind::frozenset) all.insert("__builtin__.frozenset");
        if (t.kind(n) != pickle::node_kind::global) continue;
        auto const [module, name] = t.class_parts(n);
        if (is_hostile(module, name))
            throw error(errc::unsupported,
                        {.expected = "a value",
                         .found = "a call of " + t.class_name(n),
                         .remedy = "leave the value out; find out who wrote it"});
        if (!is_weights_only(module, name)) all.insert(t.class_name(n));
    }
    return all;
}

}  // namespace cairn::format::torch_save

#endif
