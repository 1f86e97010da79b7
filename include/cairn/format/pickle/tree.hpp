// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_PICKLE_TREE_HPP
#define CAIRN_FORMAT_PICKLE_TREE_HPP

#include <cairn/error.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::format::pickle {

/// Names a node of a @ref tree.
using node_id = std::uint32_t;

enum class node_kind : std::uint8_t {
    none, boolean, integer, big_integer, real, string, bytes, list, tuple, dict, set,
    global,      ///< a class or function, by name: "module\nname"; never looked up
    object,      ///< children: callable, arguments, then state (or none), then key, value, …
    persistent,  ///< child: what torch.save calls a storage
};

/// What a pickle describes, as plain data: nothing is executed, calls stay calls.
///
/// Strings and bytes are windows on the pickle, which must outlive the tree. A node may be the
/// child of many (the pickle's memo) and even of itself: whoever walks a tree bounds depth and
/// size.
class tree {
public:
    struct node {
        node_kind kind = node_kind::none;
        std::uint64_t payload = 0;  ///< Number, or index into the tables below.
    };

    node_id root = 0;
    std::size_t source_bytes = 0;  ///< Length of the pickle, STOP included.
    std::deque<std::string> names;  ///< Class names that do not stand in the pickle in one piece.

    node_id add(node_kind k, std::uint64_t payload = 0) {
        nodes_.push_back({k, payload});
        return static_cast<node_id>(nodes_.size() - 1);
    }
    node_id add_text(node_kind k, std::string_view s) {
        texts_.push_back(s);
        return add(k, texts_.size() - 1);
    }
    node_id add_container(node_kind k, std::vector<node_id> children = {}) {
        containers_.push_back(std::move(children));
        return add(k, containers_.size() - 1);
    }

    const node& operator[](node_id i) const { return nodes_[i]; }
    node_kind kind(node_id i) const { return nodes_[i].kind; }
    std::string_view text(node_id i) const { return texts_[nodes_[i].payload]; }
    std::vector<node_id>& children(node_id i) { return containers_[nodes_[i].payload]; }
    const std::vector<node_id>& children(node_id i) const { return containers_[nodes_[i].payload]; }

    bool is_container(node_id i) const {
        auto const k = kind(i);
        return k == node_kind::list || k == node_kind::tuple || k == node_kind::dict ||
               k == node_kind::set || k == node_kind::object || k == node_kind::persistent;
    }
    /// `torch.Size` for a global, else empty.
    std::string class_name(node_id i) const {
        if (kind(i) != node_kind::global) return {};
        std::string s(text(i));
        for (auto& c : s)
            if (c == '\n') c = '.';
        return s;
    }

private:
    std::vector<node> nodes_;
    std::vector<std::string_view> texts_;
    std::vector<std::vector<node_id>> containers_;
};

[[noreturn]] inline void malformed(std::string found) {
    throw error(errc::corrupt, {.expected = "a pickle", .found = std::move(found)});
}

}  // namespace cairn::format::pickle

#endif
