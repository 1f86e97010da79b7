// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_STATE_DICT_HPP
#define CAIRN_STATE_STATE_DICT_HPP

#include <cairn/state/key_index.hpp>
#include <cairn/state/node.hpp>

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

/// Named parts of a state, in the order in which they were added: what a program saves, or what a
/// load fills. Small: it borrows tensors, and copies share what they hold. Keys are found by hash.
class state_dict {
public:
    struct entry;
    using storage = std::vector<std::pair<std::string, node>>;

    state_dict() = default;
    state_dict(std::initializer_list<entry> entries);

    /// The node under a key, made when there is none. A reference to a node holds until a key is
    /// added.
    node& operator[](std::string_view key) {
        if (auto* n = find(key)) return *n;
        return add(std::string(key), node());
    }
    node* find(std::string_view key) {
        if (items_.size() <= few) {
            for (auto& [k, n] : items_)
                if (k == key) return &n;
            return nullptr;
        }
        auto const at = index_.find(detail::hash_of(key),
                                    [&](std::size_t i) { return items_[i].first == key; });
        return at == index_.npos ? nullptr : &items_[at].second;
    }
    const node* find(std::string_view key) const {
        return const_cast<state_dict*>(this)->find(key);
    }
    bool contains(std::string_view key) const { return find(key) != nullptr; }
    /// @throws error errc::missing_key
    const node& at(std::string_view key) const {
        if (auto const* n = find(key)) return *n;
        throw error(errc::missing_key, {.fqn = std::string(key)});
    }
    std::size_t size() const noexcept { return items_.size(); }
    bool empty() const noexcept { return items_.empty(); }
    auto begin() const noexcept { return items_.begin(); }
    auto end() const noexcept { return items_.end(); }

private:
    /// So many keys are compared one by one, and are not in the index.
    static constexpr std::size_t few = 16;

    /// @pre There is no such key.
    node& add(std::string key, node n) {
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
        } catch (...) {  // no memory: a key that cannot be found must not stay
            items_.pop_back();
            throw;
        }
        return items_.back().second;
    }

    storage items_;
    detail::key_index index_;
};

/// `{"name", anything a node can be made from}`
struct state_dict::entry {
    std::string key;
    node what;
    template <class T>
    entry(std::string k, T&& t) : key(std::move(k)), what(std::forward<T>(t)) {}
    entry(std::string k, state_dict d) : key(std::move(k)), what(std::move(d)) {}
};

inline state_dict::state_dict(std::initializer_list<entry> entries) {
    for (auto const& e : entries) {
        if (contains(e.key))
            throw error(errc::invalid_state, {.fqn = e.key, .found = "the same key twice"});
        add(e.key, e.what);
    }
}

template <class T>
std::shared_ptr<detail::value_node> node::make_reference(T& t) {
    using plain = std::remove_const_t<T>;
    auto o = std::make_shared<detail::value_node>();
    o->get = [&t] { return value_traits<plain>::to_value(t); };
    if constexpr (!std::is_const_v<T>) {
        o->set = [&t](const value& v) { value_traits<plain>::from_value(t, v); };
        if constexpr (std::copy_constructible<plain> && !std::same_as<T, value>)
            o->check = [&t](const value& v) {
                plain copy(t);  // what there is may decide what fits
                value_traits<plain>::from_value(copy, v);
            };
        if constexpr (std::same_as<T, value>) o->tree = std::addressof(t);
    }
    return o;
}

template <class T>
node::content node::make(T&& t) {
    using plain = std::remove_cvref_t<T>;
    if constexpr (std::same_as<plain, state_dict>) {
        return std::make_shared<state_dict>(std::forward<T>(t));
    } else if constexpr (std::same_as<plain, state_list>) {
        return std::make_shared<state_list>(std::forward<T>(t));
    } else if constexpr (detail::is_per_rank<plain>) {
        content inner = make(std::forward<T>(t).inner);
        if (auto* const object = std::get_if<4>(&inner))
            (*object)->per_rank = true;
        else if (auto* const leaf = std::get_if<3>(&inner); leaf != nullptr && !(*leaf)->sharded)
            (*leaf)->per_rank = true;
        else
            throw error(errc::invalid_state, {.expected = "a value or a whole tensor in per_rank()",
                                              .found = "something else"});
        return inner;
    } else if constexpr (detail::is_bytes_reference<plain>) {
        auto o = std::make_shared<detail::value_node>();
        o->get = [t] { return t.get(); };
        if constexpr (requires(const value& v) { t.set(v); })
            o->set = [t](const value& v) { t.set(v); };
        return o;
    } else if constexpr (detail::is_reference_wrapper<plain>) {
        using target = typename plain::type;
        if constexpr (ValueLike<std::remove_const_t<target>>)
            return make_reference(t.get());
        else
            return make(t.get());
    } else if constexpr (Sharded<plain> || Tensor<plain>) {
        return detail::make_leaf(std::forward<T>(t));
    } else if constexpr (Stateful<plain>) {
        static_assert(std::is_lvalue_reference_v<T>,
                      "cairn: a Stateful in a state dict is borrowed: give an lvalue");
        auto s = std::make_shared<detail::stateful_node>();
        s->get = [&t]() -> state_dict { return t.state_dict(); };
        s->put = [&t](const state_dict& d) { t.load_state_dict(d); };
        return s;
    } else if constexpr (std::convertible_to<T, value>) {
        auto o = std::make_shared<detail::value_node>();
        o->owned = value(std::forward<T>(t));
        auto* const raw = o.get();
        o->tree = &raw->owned;
        o->get = [raw] { return raw->owned; };
        o->set = [raw](const value& v) { raw->owned = v; };
        return o;
    } else if constexpr (detail::NamedRange<plain>) {
        auto d = std::make_shared<state_dict>();
        for (auto& [key, x] : t) {
            if constexpr (std::is_lvalue_reference_v<T>)
                (*d)[key] = node(x);
            else
                (*d)[key] = node(std::move(x));
        }
        return d;
    } else if constexpr (detail::ElementRange<plain>) {
        auto l = std::make_shared<state_list>();
        for (auto&& x : t) {
            if constexpr (std::is_lvalue_reference_v<T>)
                l->emplace_back(x);
            else
                l->emplace_back(std::move(x));
        }
        return l;
    } else {
        static_assert(ValueLike<plain> && !ValueLike<plain>,
                      "cairn: not something a state dict can hold: specialise tensor_traits, "
                      "shard_traits or value_traits for it, or give it as std::ref, or as "
                      "cairn::as_bytes if it is a struct of plain numbers");
    }
}

}  // namespace cairn

#endif
