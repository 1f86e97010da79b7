// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_PICKLE_COPY_HPP
#define CAIRN_FORMAT_PICKLE_COPY_HPP

#include <cairn/detail/utf8.hpp>
#include <cairn/format/pickle/tree.hpp>
#include <cairn/format/pickle/writer.hpp>
#include <cairn/format/unfolding.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

namespace cairn::format::pickle {

/// Writes a part of a pickle into another one: what it builds in Python is the same, whatever its
/// classes are. Nodes that are shared stay shared.
class copier {
public:
    /// @param budget  Limits the work: each reference to a node is charged, and each text that is
    ///                written.
    /// @param persistent  Writes what a persistent id becomes, on the stack. Empty: it is copied.
    copier(const tree& t, unfolding& budget, writer& out,
           std::function<void(node_id)> persistent = {})
        : t_(t), budget_(budget), w_(out), write_persistent_(std::move(persistent)) {}

    /// @throws error errc::unsupported for what the tree does not keep, and for deep nesting
    void operator()(node_id i) { write(i, 0); }

private:
    static constexpr int max_depth = 200;

    void write(node_id i, int depth) {
        if (depth > max_depth) beyond_limits("nesting deeper than " + std::to_string(max_depth));
        budget_.spend(1);
        if (auto const it = memo_.find(i); it != memo_.end()) return w_.get(it->second);
        switch (t_.kind(i)) {
            case node_kind::none: return w_.none();
            case node_kind::boolean: return w_.boolean(t_.is_true(i));
            case node_kind::integer: return w_.integer(static_cast<std::int64_t>(t_.number(i)));
            case node_kind::big_integer: {
                auto const s = text(i);
                return w_.big({reinterpret_cast<const std::uint8_t*>(s.data()), s.size()});
            }
            case node_kind::real: return w_.real(std::bit_cast<double>(t_.number(i)));
            case node_kind::string: {
                auto const s = text(i);
                // Python 2 has others, which Python 3 reads only by an opcode that says so.
                if (cairn::detail::find_not_str(s) != s.npos)
                    beyond_limits("a str of Python 2 that is not UTF-8");
                w_.string(s);
                break;
            }
            case node_kind::bytes: w_.bytes(text(i)); break;
            case node_kind::list:
                w_.op(']');
                remember(i);
                return items(t_.children(i), 'e', depth);
            case node_kind::dict:
                w_.op('}');
                remember(i);
                return items(t_.children(i), 'u', depth);
            case node_kind::tuple: {
                auto const c = t_.children(i);
                enter(i);
                w_.begin_tuple(c.size());
                for (auto const child : c) write(child, depth + 1);
                open_.erase(i);
                if (!w_.end_tuple(c.size())) return;
                break;
            }
            case node_kind::global: {
                auto const [module, name] = t_.class_parts(i);
                budget_.spend(module.size() + name.size());
                // The opcode ends names with a line break: one within them would end them early.
                if (name.find('\n') != name.npos) malformed("a line break in the name of a class");
                w_.global(module, name);
                break;
            }
            case node_kind::object:
            case node_kind::collection: return object(i, depth);
            case node_kind::persistent:
                if (write_persistent_) return write_persistent_(i);
                enter(i);
                write(t_.children(i)[0], depth + 1);
                open_.erase(i);
                w_.op('Q');
                return;
            case node_kind::set: return set(i, "set", depth);
            case node_kind::frozenset: return set(i, "frozenset", depth);
            case node_kind::opaque:
                beyond_limits("keyword arguments of class " + t_.class_name(t_.children(i)[0]));
        }
        remember(i);
    }
    void object(node_id i, int depth) {
        auto const c = t_.children(i);
        enter(i);
        write(c[0], depth + 1);
        write(c[1], depth + 1);
        open_.erase(i);
        w_.op(t_.is_created(i) ? 0x81 : 'R');
        remember(i);
        bool const listed = t_.kind(i) == node_kind::collection;
        if (listed) items(t_.children(c[3]), 'e', depth);
        items(c.subspan(listed ? 4 : 3), 'u', depth);
        if (t_.kind(c[2]) == node_kind::none) return;
        write(c[2], depth + 1);
        w_.op('b');
    }
    /// Protocol 2 has no opcode for a set: it calls the class with a list.
    void set(node_id i, std::string_view type, int depth) {
        budget_.spend(type.size());
        enter(i);
        w_.global("__builtin__", type);
        w_.op(']');
        items(t_.children(i), 'e', depth);
        open_.erase(i);
        w_.op(0x85);
        w_.op('R');
        remember(i);
    }
    void items(std::span<const node_id> all, std::uint8_t add, int depth) {
        if (all.empty()) return;
        w_.mark();
        for (auto const i : all) write(i, depth + 1);
        w_.op(add);
    }
    /// What is complete only with its parts cannot be one of them.
    void enter(node_id i) {
        if (!open_.insert(i).second) beyond_limits("a tuple or object within itself");
    }
    void remember(node_id i) { memo_.emplace(i, w_.put()); }
    std::string_view text(node_id i) {
        auto const s = t_.text(i);
        budget_.spend(s.size());
        return s;
    }

    const tree& t_;
    unfolding& budget_;
    writer& w_;
    std::function<void(node_id)> write_persistent_;
    std::unordered_map<node_id, std::uint32_t> memo_;
    std::set<node_id> open_;
};

}  // namespace cairn::format::pickle

#endif
