// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_IMPL_FLATTEN_IPP
#define CAIRN_STATE_IMPL_FLATTEN_IPP

#include <cairn/state/flatten.hpp>

#include <cairn/state/detail/naming.hpp>
#include <cairn/state/detail/older_keys.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>

namespace cairn {

CAIRN_DECL flattened::flattened() = default;
CAIRN_DECL flattened::flattened(flattened&&) noexcept = default;
CAIRN_DECL flattened& flattened::operator=(flattened&&) noexcept = default;
CAIRN_DECL flattened::~flattened() = default;

CAIRN_DECL void flattened::notify_loaded() {
    for (auto& [put, dict] : notify) put(dict);
}

}  // namespace cairn

namespace cairn::detail {

/// Walks a state dict by DCP's rules (`_traverse.py`, `_nested_dict.py`): mappings are entered and
/// their keys become strings; a list is entered only if it contains a tensor or a mapping at some
/// depth; everything else is a leaf. An empty mapping yields nothing.
///
/// Until PyTorch 2.3 a mapping, too, was entered only if it contains a tensor at some depth
/// (`traverse_state_dict_v_2_3`). Leaves that were one leaf then also record its name.
class flattener {
public:
    explicit flattener(flattened& out) : out_(out) {}

    /// @return Whether it contains something that made PyTorch 2.3 enter it too.
    bool walk(const state_dict& d) {
        bool entered = false;
        for (auto const& [key, n] : d) {
            auto const others = n.other_keys();
            if (!others.empty()) others_.emplace_back(at_.size(), others);
            at_.emplace_back(key);
            entered = walk(n) || entered;
            at_.pop_back();
            if (!others.empty()) others_.pop_back();
        }
        return entered;
    }

private:
    bool walk(const node& n) {
        if (at_.size() > 200)
            throw error(errc::invalid_state, {.fqn = name(), .found = "nesting deeper than 200"});
        auto const& c = n.raw();
        auto const first = out_.leaves.size();
        if (auto const* d = std::get_if<1>(&c)) {
            if (walk(**d)) return true;
            were_one(first, [d = *d](const value& v, bool only_check, auto* missing) {
                older_keys::assign(*d, v, only_check, missing);
            });
            return false;
        } else if (auto const* l = std::get_if<2>(&c)) {
            return walk_list(*l);
        } else if (auto const* t = std::get_if<3>(&c)) {
            new_leaf().what = (*t)->number ? shown_now(**t) : tensor_leaf(**t);
            return true;
        } else if (auto const* o = std::get_if<4>(&c)) {
            walk_object(*o);
            return (*o)->per_rank;  // unknown to PyTorch: has a name of its own in any case
        } else if (auto const* s = std::get_if<5>(&c)) {
            out_.keep.push_back((*s)->get());
            state_dict const inner = out_.keep.back();
            if (!walk(inner))
                were_one(first, [inner](const value& v, bool only_check, auto* missing) {
                    older_keys::assign(inner, v, only_check, missing);
                });
            out_.notify.emplace_back((*s)->put, inner);
            return true;  // PyTorch has these at the top level only
        } else {
            throw error(errc::invalid_state, {.fqn = name(), .found = "an empty entry"});
        }
    }

    /// DCP's `_is_terminal`, for lists of nodes. What differs between ranks has names of its own.
    bool terminal(const state_list& l) const {
        for (auto const& n : l) {
            auto const& c = n.raw();
            if (c.index() == 1 || c.index() == 3 || c.index() == 5) return false;
            if (auto const* inner = std::get_if<2>(&c); inner != nullptr && !terminal(**inner))
                return false;
            if (auto const* o = std::get_if<4>(&c);
                o != nullptr && ((*o)->per_rank || !leaf((*o)->get())))
                return false;
        }
        return true;
    }
    /// Whether a value is a leaf of the list that it is in. An empty mapping is not, nor is an
    /// opaque value, which can only be saved alone.
    static bool leaf(const value& v) {
        if (v.is<value::dict_t>() || v.is<value::opaque_t>()) return false;
        if (auto const* l = v.get_if<value::list_t>())
            for (auto const& x : *l)
                if (!leaf(x)) return false;
        return true;
    }

    bool walk_list(const std::shared_ptr<state_list>& l) {
        if (naming(name(), [&] { return terminal(*l); })) {
            value_leaf o;
            o.get = [l] { return list_value(*l); };
            if (older_keys::assignable(*l)) o.set = [l](value v) { older_keys::assign(*l, v); };
            o.check = [l](const value& v) { older_keys::assign(*l, v, true); };
            new_leaf().what = std::move(o);
            return false;
        }
        auto const first = out_.leaves.size();
        bool entered = false;
        for (std::size_t i = 0; i < l->size(); ++i) {
            at_.emplace_back(static_cast<std::int64_t>(i));
            entered = walk((*l)[i]) || entered;
            at_.pop_back();
        }
        if (!entered)
            were_one(first, [l](const value& v, bool only_check, auto* missing) {
                older_keys::assign(*l, v, only_check, missing);
            });
        return entered;
    }
    /// The leaves from `first` on were one leaf, named after the entry being walked.
    /// @param assign  `assign(v, only_check, missing)`
    template <class Assign>
    void were_one(std::size_t first, const Assign& assign) {
        if (first == out_.leaves.size()) return;
        auto const here = std::make_shared<older_leaf>(
            older_leaf{name(),
                       [assign](const value& v, auto* missing) { assign(v, false, missing); },
                       {},
                       [assign](const value& v, auto* missing) { assign(v, true, missing); }});
        for (auto i = first; i < out_.leaves.size(); ++i) {
            auto& outermost = outermost_[i];
            if (outermost == nullptr)
                out_.leaves[i].older = here;
            else if (outermost->outer == nullptr)
                outermost->outer = here;
            outermost = here;
        }
    }
    static value list_value(const state_list& l) {
        value::list_t out;
        for (auto const& n : l) {
            if (auto const* inner = std::get_if<2>(&n.raw()))
                out.push_back(list_value(**inner));
            else
                out.push_back(n.as_value());
        }
        return out;
    }

    void walk_object(const std::shared_ptr<value_node>& o) {
        if (o->tree != nullptr && !o->per_rank) {
            out_.leaves.whole.push_back({name(), at_, o->tree, o, o->optional});
            return walk_value(o, *o->tree);
        }
        value_leaf x;
        x.get = [o] { return o->get(); };
        if (o->set) x.set = [o](value v) { o->set(std::move(v)); };
        if (o->check) x.check = [o](const value& v) { o->check(v); };
        x.per_rank = o->per_rank;
        x.optional = o->optional;
        new_leaf().what = std::move(x);
    }
    void walk_value(const std::shared_ptr<value_node>& owner, value& v) {
        if (at_.size() > 200)
            throw error(errc::invalid_state, {.fqn = name(), .found = "nesting deeper than 200"});
        auto const first = out_.leaves.size();
        auto const set = [owner, &v](const value& loaded, bool only_check, auto*) {
            if (!only_check) v = loaded;
        };
        if (auto* d = v.get_if<value::dict_t>()) {
            for (auto& [key, x] : d->items) {
                at_.emplace_back(key_name(key));
                walk_value(owner, x);
                at_.pop_back();
            }
            return were_one(first, set);
        }
        if (auto* l = v.get_if<value::list_t>(); l != nullptr && !leaf(v)) {
            for (std::size_t i = 0; i < l->size(); ++i) {
                at_.emplace_back(static_cast<std::int64_t>(i));
                walk_value(owner, (*l)[i]);
                at_.pop_back();
            }
            return were_one(first, set);
        }
        value_leaf x;
        x.get = [owner, &v] { return v; };
        x.set = [owner, &v](value loaded) { v = std::move(loaded); };
        x.optional = owner->optional;
        x.part_of = out_.leaves.whole.size() - 1;
        new_leaf().what = std::move(x);
    }

    /// Returns a leaf for a number, with memory of its own. All leaves of one number share it, so
    /// that they are tied.
    tensor_leaf shown_now(const tensor_leaf& t) {
        auto const& how = t.number->how;
        auto leaf = show(how, t.type);
        if (how->number != nullptr) {
            auto const [it, fresh] =
                numbers_.try_emplace(number_key{how->number, t.type, t.writable}, leaf);
            if (!fresh) leaf = it->second;
        }
        leaf.per_rank = t.per_rank;
        naming(name(), [&] { refresh(*leaf.number); });
        return leaf;
    }

    std::string key_name(const value& key) const {
        if (auto s = older_keys::key_name(key)) return *s;
        throw error(errc::invalid_state, {.fqn = name(),
                                          .expected = "keys that are str or int",
                                          .found = std::string(key.kind_name())});
    }

    std::string name() const { return joined(at_); }

    /// Adds a leaf, still without content, for the entry that is being walked.
    flat_leaf& new_leaf() {
        flat_leaf f;
        f.fqn = name();
        f.path = at_;
        for (auto const& [step, keys] : others_) {
            for (auto const& key : keys) {
                auto const own = std::exchange(at_[step], key);
                f.other_names.push_back(name());
                at_[step] = own;
            }
        }
        auto const [it, fresh] = seen_.try_emplace(f.fqn, out_.leaves.size());
        if (!fresh)
            throw error(errc::invalid_state,
                        {.fqn = f.fqn,
                         .expected = "one entry with this name",
                         .found = "two paths with this flat name, of " +
                                  std::to_string(out_.leaves[it->second].path.size()) + " and " +
                                  std::to_string(at_.size()) + " steps",
                         .remedy = "rename one: a dot in a key looks like a nested level"});
        return out_.leaves.emplace_back(std::move(f));
    }

    struct number_key {
        const void* number;
        dtype type;
        bool writable;
        friend bool operator<(const number_key& a, const number_key& b) noexcept {
            if (a.number != b.number) return std::less<>()(a.number, b.number);
            return a.type != b.type ? a.type < b.type : a.writable < b.writable;
        }
    };

    flattened& out_;
    key_path at_;
    /// Levels of `at_` that may have other keys in a checkpoint.
    std::vector<std::pair<std::size_t, std::span<const std::string>>> others_;
    std::map<std::string, std::size_t, std::less<>> seen_;
    std::map<std::size_t, std::shared_ptr<older_leaf>> outermost_;  ///< By position of the leaf.
    std::map<number_key, tensor_leaf> numbers_;
};

}  // namespace cairn::detail

namespace cairn {

CAIRN_DECL flattened flatten(const state_dict& d) {
    flattened f;
    f.keep.push_back(d);
    detail::flattener(f).walk(d);
    return f;
}

}  // namespace cairn

#endif
