// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_PICKLE_TREE_HPP
#define CAIRN_FORMAT_PICKLE_TREE_HPP

#include <cairn/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::format::pickle {

/// Identifies a node of a @ref tree.
using node_id = std::uint32_t;

enum class node_kind : std::uint8_t {
    none,
    boolean,
    integer,
    big_integer,
    real,
    string,
    bytes,
    list,
    tuple,
    dict,
    set,
    frozenset,
    global,      ///< a class or function, by name: "module\nname"; never looked up
    object,      ///< children: callable, arguments, then state (or none), then key, value, …
    collection,  ///< an object with list items; children: as above, the list before the keys
    opaque,      ///< an object with more, e.g. keyword arguments; children: without these
    persistent,  ///< child: what torch.save calls a storage
};

[[noreturn]] inline void malformed(std::string found) {
    throw error(errc::corrupt, {.expected = "a pickle", .found = std::move(found)});
}

/// Throws for a pickle that Python would read: it may be intact.
[[noreturn]] inline void beyond_limits(std::string found) {
    throw error(errc::unsupported,
                {.expected = "a pickle within the limits of cairn", .found = std::move(found)});
}

/// The bytes end before the pickle does.
class unfinished_pickle : public error {
public:
    /// @param needed  The least number of bytes that it has.
    unfinished_pickle(std::string found, std::uint64_t needed)
        : error(errc::corrupt, {.expected = "a pickle", .found = std::move(found)}),
          needed_(needed) {}
    std::uint64_t needed() const noexcept { return needed_; }

private:
    std::uint64_t needed_;
};

/// The content of a pickle as plain data. Nothing is executed: calls remain calls.
///
/// Strings and bytes are windows on the pickle, which must outlive the tree. A node may be the
/// child of many nodes (the pickle's memo) and even of itself: code that walks a tree must bound
/// depth and size.
///
/// The shortest opcodes are one byte, so a node must be small: all children are in one array, of
/// which each container has a contiguous range.
class tree {
public:
    node_id root = 0;
    std::size_t source_bytes = 0;   ///< Length of the pickle, STOP included.
    std::deque<std::string> names;  ///< Texts that are not in the pickle as such.

    tree() {
        add(node_kind::none, 0);
        add(node_kind::boolean, 0);
        add(node_kind::boolean, 1);
        add_container(node_kind::tuple, {});
    }

    // Constants, shared by all uses.
    static constexpr node_id none() { return 0; }
    static constexpr node_id boolean(bool b) { return b ? 2 : 1; }
    static constexpr node_id empty_tuple() { return 3; }

    /// @param bits  Of an `integer` (two's complement) or a `real` (IEEE 754).
    node_id add_number(node_kind k, std::uint64_t bits) {
        numbers_.push_back(bits);
        return add(k, numbers_.size() - 1);
    }
    node_id add_text(node_kind k, std::string_view s) {
        texts_.push_back(s);
        return add(k, texts_.size() - 1);
    }
    node_id add_container(node_kind k, std::span<const node_id> children) {
        auto const first = end_of_children(children.size());
        auto const n = static_cast<std::uint32_t>(children.size());
        stretches_.push_back({first, n, n});
        children_.insert(children_.end(), children.begin(), children.end());
        return add(k, stretches_.size() - 1);
    }
    /// Adds to the end of a container. `more` must not be a span of this tree.
    void extend(node_id i, std::span<const node_id> more) {
        auto& s = stretches_[nodes_[i].payload];
        auto const room = std::uint64_t{s.size} + std::max<std::uint64_t>(s.size, more.size());
        auto const end = end_of_children(room);
        auto const n = static_cast<std::uint32_t>(more.size());
        if (n > s.room - s.size) {
            // At the end of the array it grows in place; elsewhere it moves there. It doubles, so
            // that moves cost no more than what was added.
            s.room = static_cast<std::uint32_t>(room);
            if (std::size_t{s.first} + s.size != end) {
                children_.resize(std::size_t{end} + s.room);
                std::copy_n(children_.begin() + s.first, s.size, children_.begin() + end);
                s.first = end;
            } else {
                children_.resize(std::size_t{s.first} + s.room);
            }
        }
        std::copy(more.begin(), more.end(), children_.begin() + s.first + s.size);
        s.size += n;
    }
    /// Turns an object without keys into a `collection`.
    /// @param items  A list.
    void make_collection(node_id object, node_id items) {
        extend(object, {&items, 1});
        nodes_[object].kind = node_kind::collection;
    }
    /// Turns an object or a collection into an `opaque` one: its further content is not kept.
    void make_opaque(node_id object) { nodes_[object].kind = node_kind::opaque; }
    /// Notes that the newest node, an object, was made by `cls.__new__` and not by a call.
    void set_created() { created_.push_back(static_cast<node_id>(nodes_.size() - 1)); }
    bool is_created(node_id object) const {
        return std::binary_search(created_.begin(), created_.end(), object);
    }
    void set_state(node_id object, node_id state) {
        children_[stretches_[nodes_[object].payload].first + std::size_t{2}] = state;
    }

    std::size_t size() const noexcept { return nodes_.size(); }
    node_kind kind(node_id i) const { return nodes_[i].kind; }
    bool is_true(node_id i) const { return i == boolean(true); }
    std::uint64_t number(node_id i) const { return numbers_[nodes_[i].payload]; }
    std::string_view text(node_id i) const { return texts_[nodes_[i].payload]; }
    std::span<const node_id> children(node_id i) const {
        auto const& s = stretches_[nodes_[i].payload];
        return {children_.data() + s.first, s.size};
    }

    /// Returns a global's module and name; both empty for anything else.
    std::pair<std::string_view, std::string_view> class_parts(node_id i) const {
        if (kind(i) != node_kind::global) return {};
        auto const s = text(i);
        auto const at = s.find('\n');
        return {s.substr(0, at), s.substr(at + 1)};
    }
    bool is_class(node_id i, std::string_view module, std::string_view name) const {
        return class_parts(i) == std::pair(module, name);
    }
    /// Returns `torch.Size`, for example, for a global, otherwise an empty string.
    std::string class_name(node_id i) const {
        if (kind(i) != node_kind::global) return {};
        auto const [module, name] = class_parts(i);
        return std::string(module) + "." + std::string(name);
    }

private:
    struct node {
        node_kind kind = node_kind::none;
        std::uint32_t payload = 0;  ///< Index into one of the tables below.
    };
    struct stretch {
        std::uint32_t first, size, room;
    };

    node_id add(node_kind k, std::size_t payload) {
        if (nodes_.size() >= std::numeric_limits<node_id>::max()) beyond_limits("too many opcodes");
        nodes_.push_back({k, static_cast<std::uint32_t>(payload)});
        return static_cast<node_id>(nodes_.size() - 1);
    }
    /// Returns the index at which children are added, after checking that `n` more fit.
    std::uint32_t end_of_children(std::uint64_t n) const {
        if (n > std::numeric_limits<std::uint32_t>::max() - children_.size())
            beyond_limits("too many items of lists");
        return static_cast<std::uint32_t>(children_.size());
    }

    // A deque, in blocks that never move: growth does not take three times the memory.
    std::deque<node> nodes_;
    std::deque<std::uint64_t> numbers_;
    std::deque<std::string_view> texts_;
    std::deque<stretch> stretches_;
    std::vector<node_id> children_;
    std::vector<node_id> created_;
};

}  // namespace cairn::format::pickle

#endif
