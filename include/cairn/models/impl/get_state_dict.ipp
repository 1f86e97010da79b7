// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_IMPL_GET_STATE_DICT_IPP
#define CAIRN_MODELS_IMPL_GET_STATE_DICT_IPP

#include <cairn/models/get_state_dict.hpp>

#include <cairn/detail/or_cancel.hpp>
#include <cairn/error.hpp>
#include <cairn/models/detail/given_state.hpp>
#include <cairn/models/gather.hpp>
#include <cairn/state/detail/copy_leaf.hpp>
#include <cairn/state/per_rank.hpp>
#include <cairn/tensor/host_tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>

namespace cairn::detail {

CAIRN_DECL model_tensors select(const model_tensors& all, const state_dict_options& options) {
    name_set const wanted(options.submodules.begin(), options.submodules.end());
    auto missing = wanted;
    auto const look = [&](const std::string& fqn) {
        for_each_at_or_above(fqn, wanted, [&](const std::string& name) { missing.erase(name); });
    };
    if (!wanted.empty()) {
        for (auto const& e : all.entries()) look(e.fqn);
        for (auto const& name : all.elsewhere()) look(name);
    }
    for (auto const& prefix : options.submodules)
        if (missing.count(prefix) != 0)
            throw error(errc::missing_key,
                        {.fqn = prefix,
                         .found = "a submodule prefix that matches none of " +
                                  std::to_string(all.entries().size()) + " tensors",
                         .remedy = all.entries().empty()
                                       ? std::string()
                                       : "names look like '" + all.entries()[0].fqn + "'"});
    return all.only([&](const model_entry& e) {
        if (options.ignore_frozen_params && !e.buffer && !e.trainable) return false;
        return wanted.empty() || lies_at_or_below(e.fqn, wanted);
    });
}

CAIRN_DECL state_dict model_dict(const model_tensors& tensors) {
    state_dict d;
    for (auto const& e : tensors.entries()) {
        auto& n = d[e.fqn];
        n = e.what;
        n.set_other_keys(tensors.other_names(e.fqn));
    }
    return d;
}

/// Whether DCP sees a node as tensors or a mapping, not as a value: a list of values is one value.
CAIRN_DECL bool has_tensor_or_dict(const node& n) {
    if (!n.is_list()) return n.is_tensor() || n.is_dict();
    return std::any_of(n.as_list().begin(), n.as_list().end(), has_tensor_or_dict);
}
/// Calls `f(name, node)` for a node, or for each of those in a dict or list, with its dotted name.
template <class F>
void for_each_inner(const node& n, const std::string& name, F&& f) {
    if (n.is_dict()) {
        for (auto const& [key, inner] : n.as_dict()) for_each_inner(inner, name + "." + key, f);
    } else if (n.is_list() && has_tensor_or_dict(n)) {
        std::size_t i = 0;
        for (auto const& inner : n.as_list())
            for_each_inner(inner, name + "." + std::to_string(i++), f);
    } else {
        f(name, n);
    }
}
template <class F>
void for_each_node(const state_dict& d, F&& f) {
    for (auto const& [key, n] : d) for_each_inner(n, key, f);
}

template <class F>
node copied(const node& n, const std::string& name, const F& f);
/// Returns a copy with containers and values of its own, and with what `f(name, node)` returns for
/// each tensor: what a visit passes may share content with the optimizer.
template <class F>
state_dict copied(const state_dict& d, const std::string& before, const F& f) {
    state_dict own;
    for (auto const& [key, n] : d) own[key] = copied(n, before + key, f);
    return own;
}
template <class F>
node copied(const node& n, const std::string& name, const F& f) {
    node own = n;
    if (n.is_dict()) {
        own = node(copied(n.as_dict(), name + ".", f));
    } else if (n.is_list()) {
        state_list l;
        for (auto const& inner : n.as_list())
            l.push_back(copied(inner, name + "." + std::to_string(l.size()), f));
        own = node(std::move(l));
    } else if (n.is_tensor()) {
        own = f(name, n);
    } else if (n.is_value()) {
        auto const& from = *std::get<std::shared_ptr<value_node>>(n.raw());
        own = from.per_rank ? node(per_rank(n.as_value())) : node(n.as_value());
        if (from.optional) own.set_optional();
        // What is one entry of the state is one of the copy, whatever it consists of.
        if (from.tree == nullptr) std::get<std::shared_ptr<value_node>>(own.raw())->tree = nullptr;
    }
    auto const others = n.other_keys();
    own.set_other_keys({others.begin(), others.end()});
    return own;
}

CAIRN_DECL state_dict whole_or_copied(const std::function<state_dict()>& make,
                                      const state_dict_options& options,
                                      erased_communicator& comm) {
    if (!options.full_state_dict) {
        auto d = make();
        if (!options.cpu_offload) return d;
        return copied(d, {}, [](const std::string&, const node& n) {
            return node(clone_leaf(n.as_tensor()));
        });
    }
    state_dict d;
    auto const look = [&] {
        d = make();
        std::vector<named_leaf> mine;
        for_each_node(d, [&](const std::string& fqn, const node& n) {
            if (n.is_tensor()) mine.push_back({fqn, &n.as_tensor()});
        });
        return mine;
    };
    auto gather = options.gather;
    if (options.cpu_offload) gather.root = 0;
    auto whole = gather_whole(comm, look, gather);
    if (gather.root >= 0 && or_cancel(comm, [&] { return comm.rank(); }) != gather.root) return {};
    std::map<std::string, host_tensor*> by_name;
    for (auto& [fqn, t] : whole) by_name.emplace(fqn, &t);
    auto all = copied(d, {}, [&](const std::string& fqn, const node&) {
        node tensor(std::move(*by_name.at(fqn)));
        by_name.erase(fqn);
        return tensor;
    });
    // Tensors that only other ranks hold: pipeline stages.
    for (auto& [fqn, t] : by_name) all[fqn] = node(std::move(*t));
    return all;
}

inline node value_of(const hyperparameter& h) {
    node n(h.get());
    if (h.optional) n.set_optional();
    return n;
}
CAIRN_DECL state_dict group_dict(const optimizer_group& g) {
    state_dict d;
    for (auto const& h : g.hyperparameters) d[h.name] = value_of(h);
    return d;
}

CAIRN_DECL state_dict optimizer_dict(const std::vector<optimizer_group>& groups,
                                     const model_tensors& kept, bool flat) {
    state_dict out, state;
    state_list param_groups;
    for (auto const& g : groups) {
        value::list_t names;
        for (auto const& p : g.parameters) {
            if (kept.find(p.fqn) == nullptr) continue;  // excluded by the options
            names.emplace_back(p.fqn);
            if (flat) {
                // `before.<fqn>.name`, or in a checkpoint `before.<other fqn>.name`.
                auto const add = [&](const std::string& before, const std::string& name, node n) {
                    std::vector<std::string> others;
                    for (auto const& other : p.other_names)
                        others.push_back(before + other + "." + name);
                    n.set_other_keys(std::move(others));
                    out[before + p.fqn + "." + name] = std::move(n);
                };
                for_each_node(p.state, [&](const std::string& name, const node& n) {
                    add("state.", name, n);
                });
                for (auto const& h : g.hyperparameters) add("param_groups.", h.name, value_of(h));
            } else if (!p.state.empty()) {
                auto& n = state[p.fqn];
                n = node(p.state);
                n.set_other_keys(p.other_names);
            }
        }
        auto d = group_dict(g);
        d["params"] = node(value(std::move(names)));
        param_groups.emplace_back(std::move(d));
    }
    if (flat) return out;
    out["state"] = node(std::move(state));
    out["param_groups"] = node(std::move(param_groups));
    return out;
}

}  // namespace cairn::detail

#endif
