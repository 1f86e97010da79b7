// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_IMPL_MODEL_TENSORS_IPP
#define CAIRN_MODELS_IMPL_MODEL_TENSORS_IPP

#include <cairn/models/model_tensors.hpp>

#include <cairn/state/detail/copy_leaf.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace cairn {

CAIRN_DECL model_tensors::model_tensors() = default;
CAIRN_DECL model_tensors::model_tensors(const model_tensors& other) = default;
CAIRN_DECL model_tensors::model_tensors(model_tensors&& other) noexcept = default;
CAIRN_DECL model_tensors& model_tensors::operator=(const model_tensors& other) = default;
CAIRN_DECL model_tensors& model_tensors::operator=(model_tensors&& other) noexcept = default;
CAIRN_DECL model_tensors::~model_tensors() = default;

template <class Add>
void model_tensors::add_same(const model_entry& e, Add& add) const {
    if (e.id.address == nullptr) return;
    auto const [first, last] = by_address_.equal_range(e.id.address);
    for (auto it = first; it != last; ++it) {
        auto const& other = entries_[it->second];
        if (other.id == e.id && detail::same_memory(other.what.as_tensor(), e.what.as_tensor()))
            add(other.fqn);
    }
}

CAIRN_DECL const model_entry* model_tensors::find(std::string_view fqn) const {
    auto const it = by_name_.find(fqn);
    return it == by_name_.end() ? nullptr : &entries_[it->second];
}

CAIRN_DECL const model_entry* model_tensors::find(const tensor_identity& id) const {
    if (id.address == nullptr) return nullptr;
    auto const [first, last] = by_address_.equal_range(id.address);
    for (auto it = first; it != last; ++it)
        if (entries_[it->second].id == id) return &entries_[it->second];
    return nullptr;
}

CAIRN_DECL bool model_tensors::add(model_entry e) {
    if (!by_name_.emplace(e.fqn, entries_.size()).second) return false;
    by_address_.emplace(e.id.address, entries_.size());
    entries_.push_back(std::move(e));
    return true;
}

CAIRN_DECL void model_tensors::add_elsewhere(std::string fqn) {
    elsewhere_.push_back(std::move(fqn));
}

CAIRN_DECL void model_tensors::add_tied(const std::string& a, const std::string& b) {
    ties_.emplace(a, b);
    ties_.emplace(b, a);
}

CAIRN_DECL std::vector<std::string> model_tensors::other_names(const std::string& fqn) const {
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

CAIRN_DECL model_tensors
model_tensors::only(const std::function<bool(const model_entry&)>& keep) const {
    model_tensors out;
    for (auto const& e : entries_)
        if (keep(e)) out.add(e);
    out.elsewhere_ = elsewhere_;
    out.ties_ = ties_;
    return out;
}

}  // namespace cairn

#endif
