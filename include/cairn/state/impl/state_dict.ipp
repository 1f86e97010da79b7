// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_IMPL_STATE_DICT_IPP
#define CAIRN_STATE_IMPL_STATE_DICT_IPP

#include <cairn/state/state_dict.hpp>

namespace cairn {

CAIRN_DECL state_dict::state_dict() noexcept = default;
CAIRN_DECL state_dict::state_dict(const state_dict& other) = default;
CAIRN_DECL state_dict::state_dict(state_dict&& other) noexcept = default;
CAIRN_DECL state_dict& state_dict::operator=(const state_dict& other) = default;
CAIRN_DECL state_dict& state_dict::operator=(state_dict&& other) noexcept = default;
CAIRN_DECL state_dict::~state_dict() = default;

CAIRN_DECL state_dict::state_dict(std::initializer_list<entry> entries) {
    for (auto const& e : entries) add_once(e.key, e.what);
}

CAIRN_DECL node& state_dict::operator[](std::string_view key) {
    if (auto* n = find(key)) return *n;
    return add(std::string(key), node());
}

CAIRN_DECL node* state_dict::find(std::string_view key) {
    if (items_.size() <= few) {
        for (auto& [k, n] : items_)
            if (k == key) return &n;
        return nullptr;
    }
    auto const at =
        index_.find(detail::hash_of(key), [&](std::size_t i) { return items_[i].first == key; });
    return at == index_.npos ? nullptr : &items_[at].second;
}

CAIRN_DECL const node* state_dict::find(std::string_view key) const {
    return const_cast<state_dict*>(this)->find(key);
}

CAIRN_DECL const node& state_dict::at(std::string_view key) const {
    if (auto const* n = find(key)) return *n;
    throw error(errc::missing_key, {.fqn = std::string(key)});
}

CAIRN_DECL node& state_dict::add(std::string key, node n) {
    items_.emplace_back(std::move(key), std::move(n));
    try {
        if (items_.size() == few + 1) {
            detail::key_index all;
            for (std::size_t i = 0; i < items_.size(); ++i)
                all.add(detail::hash_of(items_[i].first), i);
            index_ = std::move(all);
        } else if (items_.size() > few) {
            index_.add(detail::hash_of(items_.back().first), items_.size() - 1);
        }
    } catch (...) {  // no memory: do not keep a key that cannot be found
        items_.pop_back();
        throw;
    }
    return items_.back().second;
}

CAIRN_DECL void state_dict::add_once(std::string_view key, node n) {
    if (contains(key))
        throw error(errc::invalid_state, {.fqn = std::string(key), .found = "the same key twice"});
    add(std::string(key), std::move(n));
}

CAIRN_DECL state_dict::entry::entry(std::string k, state_dict d)
    : key(std::move(k)), what(std::move(d)) {}

}  // namespace cairn

#endif
