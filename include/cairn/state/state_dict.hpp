// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_STATE_DICT_HPP
#define CAIRN_STATE_STATE_DICT_HPP

#include <cairn/detail/config.hpp>
#include <cairn/state/detail/key_index.hpp>
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

/// Named entries of a state, in the order in which they were added: what a program saves, or what a
/// load fills. Cheap to copy: tensors are borrowed, and copies share their content. Keys are found
/// by hash.
class state_dict {
public:
    struct entry;
    using storage = std::vector<std::pair<std::string, node>>;

    state_dict() noexcept;
    state_dict(const state_dict& other);
    state_dict(state_dict&& other) noexcept;
    state_dict& operator=(const state_dict& other);
    state_dict& operator=(state_dict&& other) noexcept;
    ~state_dict();
    state_dict(std::initializer_list<entry> entries);

    /// Returns the node under a key; creates one if there is none. The reference is valid until a
    /// key is added.
    node& operator[](std::string_view key);
    node* find(std::string_view key);
    const node* find(std::string_view key) const;
    bool contains(std::string_view key) const { return find(key) != nullptr; }
    /// @throws error errc::missing_key
    const node& at(std::string_view key) const;
    std::size_t size() const noexcept { return items_.size(); }
    bool empty() const noexcept { return items_.empty(); }
    auto begin() const noexcept { return items_.begin(); }
    auto end() const noexcept { return items_.end(); }

private:
    friend node;

    /// Up to this many keys are compared one by one and are not in the index.
    static constexpr std::size_t few = 16;

    /// @pre The key does not exist.
    node& add(std::string key, node n);
    /// @throws error errc::invalid_state if the key exists
    void add_once(std::string_view key, node n);

    storage items_;
    detail::key_index index_;
};

/// An entry in braces: `{"name", anything that a node can be made from}`.
struct state_dict::entry {
    std::string key;
    node what;
    template <class T>
    entry(std::string k, T&& t) : key(std::move(k)), what(std::forward<T>(t)) {}
    entry(std::string k, state_dict d);
};

template <class T>
std::shared_ptr<detail::value_node> node::make_reference(T& t) {
    using plain = std::remove_const_t<T>;
    auto o = std::make_shared<detail::value_node>();
    o->get = [&t] { return value_traits<plain>::to_value(t); };
    if constexpr (!std::is_const_v<T>) {
        o->set = [&t](const value& v) { value_traits<plain>::from_value(t, v); };
        if constexpr (std::copy_constructible<plain> && !std::same_as<T, value>)
            o->check = [&t](const value& v) {
                plain copy(t);  // from_value may depend on the current content
                value_traits<plain>::from_value(copy, v);
            };
        if constexpr (std::same_as<T, value>) o->tree = std::addressof(t);
    }
    return o;
}

template <class T>
node node::make(T&& t) {
    using plain = std::remove_cvref_t<T>;
    if constexpr (std::same_as<plain, state_dict>) {
        return of(std::make_shared<state_dict>(std::forward<T>(t)));
    } else if constexpr (std::same_as<plain, state_list>) {
        return of(std::make_shared<state_list>(std::forward<T>(t)));
    } else if constexpr (detail::is_per_rank<plain>) {
        return of_each_rank(make(std::forward<T>(t).inner));
    } else if constexpr (detail::is_bytes_reference<plain>) {
        auto o = std::make_shared<detail::value_node>();
        o->get = [t] { return t.get(); };
        if constexpr (requires(const value& v) { t.set(v); }) {
            o->set = [t](const value& v) { t.set(v); };
            o->check = [](const value& v) { detail::check_bytes(sizeof(*t.object), v); };
        }
        return of(std::move(o));
    } else if constexpr (detail::is_reference_wrapper<plain>) {
        using target = typename plain::type;
        if constexpr (ValueLike<std::remove_const_t<target>>)
            return of(make_reference(t.get()));
        else {
            constexpr bool is_copied = std::convertible_to<target&, value> && !Tensor<target> &&
                                       !Sharded<target> && !Stateful<target>;
            static_assert(std::is_const_v<target> || !is_copied,
                          "cairn: a load cannot set this through std::ref: refer to a "
                          "cairn::value, or specialise value_traits");
            return make(t.get());
        }
    } else if constexpr (Sharded<plain> || Tensor<plain>) {
        return detail::make_leaf(std::forward<T>(t));
    } else if constexpr (Stateful<plain>) {
        static_assert(std::is_lvalue_reference_v<T>,
                      "cairn: a Stateful in a state dict is borrowed: pass an lvalue");
        auto s = std::make_shared<detail::stateful_node>();
        s->get = [&t]() -> state_dict { return t.state_dict(); };
        s->put = [&t](const state_dict& d) { t.load_state_dict(d); };
        return of(std::move(s));
    } else if constexpr (std::convertible_to<T, value>) {
        return of_owned(value(std::forward<T>(t)));
    } else if constexpr (detail::NamedRange<plain>) {
        auto d = std::make_shared<state_dict>();
        for (auto& [key, x] : t) {
            if constexpr (detail::lends_elements<T>())
                d->add_once(key, node(x));
            else
                d->add_once(key, node(std::forward<decltype(x)>(x)));
        }
        return of(std::move(d));
    } else if constexpr (detail::ElementRange<plain>) {
        auto l = std::make_shared<state_list>();
        for (auto&& x : t) {
            if constexpr (detail::lends_elements<T>())
                l->emplace_back(std::forward<decltype(x)>(x));
            else
                l->emplace_back(std::move(x));
        }
        return of(std::move(l));
    } else {
        static_assert(ValueLike<plain> && !ValueLike<plain>,
                      "cairn: a state dict cannot hold this type: specialise tensor_traits, "
                      "shard_traits or value_traits for it, or pass it as std::ref, or as "
                      "cairn::as_bytes if it is a struct of plain numbers");
    }
}

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/state/impl/state_dict.ipp>
#endif

#endif
