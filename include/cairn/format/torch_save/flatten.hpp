// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_SAVE_FLATTEN_HPP
#define CAIRN_FORMAT_TORCH_SAVE_FLATTEN_HPP

#include <cairn/format/pickle/tree.hpp>
#include <cairn/format/torch/tensor_call.hpp>
#include <cairn/format/unfolding.hpp>
#include <cairn/metadata/metadata.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::format::torch_save {

/// Returns the limit for the names in a file. The shortest leaf, `{1: 1}`, takes about 5 bytes of
/// the pickle, and more than that of memory: the limit is for what is written once and shared.
/// @param pickle  Number of its bytes.
inline unfolding limit_of_names(std::uint64_t pickle) {
    unfolding u(pickle);
    u.allow(pickle / 4);
    return u;
}

/// A tensor or value in the nested containers of a file.
struct leaf {
    key_path path{};  ///< Empty: the file holds nothing else.
    pickle::node_id node = 0;
};

/// Takes nested containers apart as DCP does: every dict, and every list with a tensor or dict in
/// it at some depth. The names of the leaves are their paths joined by dots. A dict that has a key
/// other than a string, an integer, a bool or None is one value, with all that is in it.
class flattening {
public:
    /// @param budget  Is charged for names, which a pickle can share.
    flattening(const pickle::tree& t, unfolding& budget) : t_(t), budget_(budget) {}

    /// @throws error errc::unsupported for two leaves of one name, and for deep nesting
    std::map<std::string, leaf> operator()() {
        walk(t_.root, "");
        return std::move(leaves_);
    }
    /// As of @ref metadata.
    std::set<key_path>& text_keys() noexcept { return text_keys_; }

private:
    using id = pickle::node_id;
    using kind = pickle::node_kind;
    using named_items = std::map<std::string, std::pair<id, id>>;

    void walk(id i, const std::string& name) {
        if (path_.size() > most_path_steps)
            pickle::beyond_limits("nesting deeper than " + std::to_string(most_path_steps));
        budget_.spend(name.size() + 8 * path_.size());
        if (is_dict(i)) {
            if (auto const named = by_name(dict_items(i))) {
                for (auto const& [text, item] : *named) {
                    if (t_.kind(item.first) != kind::string) note_text_key(text);
                    step(name, text, text, item.second);
                }
                if (!named->empty() || path_.empty()) return;  // an empty one is a value
            }
        } else if (t_.kind(i) == kind::list && has_parts(i)) {
            auto const all = t_.children(i);
            for (std::size_t n = 0; n < all.size(); ++n)
                step(name, std::to_string(n), static_cast<std::int64_t>(n), all[n]);
            return;
        }
        // The name twice, and each element of the path.
        budget_.spend(128 + 3 * name.size() + sizeof(path_element) * path_.size());
        if (leaves_.try_emplace(name, leaf{path_, i}).second) return;
        throw error(errc::unsupported,
                    {.fqn = name,
                     .expected = "names that differ when the keys are joined by dots",
                     .found = "two tensors or values of this name"});
    }
    /// @param text  Of a key in the dict that the path leads to.
    void note_text_key(const std::string& text) {
        budget_.spend(128 + text.size() + (32 + sizeof(path_element)) * (path_.size() + 1));
        auto path = path_;
        path.emplace_back(text);
        text_keys_.insert(std::move(path));
    }
    void step(const std::string& name, const std::string& key, path_element element, id child) {
        path_.push_back(std::move(element));
        walk(child, path_.size() == 1 ? key : name + "." + key);
        path_.pop_back();
    }

    /// Whether it is a dict, or an object of one of its subclasses.
    bool is_dict(id i) const {
        if (t_.kind(i) != kind::object) return t_.kind(i) == kind::dict;
        auto const [module, name] = t_.class_parts(t_.children(i)[0]);
        return module == "collections" &&
               (name == "OrderedDict" || name == "defaultdict" || name == "Counter");
    }
    /// The keys and values of a dict.
    std::vector<id> dict_items(id i) {
        if (t_.kind(i) == kind::dict) return copied(t_.children(i));
        auto const c = t_.children(i);
        auto const args = t_.children(c[1]);
        auto const argument = args.size() == 1 ? args[0] : pickle::tree::none();
        auto const name = t_.class_parts(c[0]).second;
        if (name == "Counter" && t_.kind(argument) == kind::dict)
            return copied(t_.children(argument));
        auto all = copied(c.subspan(3));
        // Python 2 passes the items of an OrderedDict as a list of pairs.
        if (name == "OrderedDict" && t_.kind(argument) == kind::list) {
            budget_.spend(t_.children(argument).size());
            for (auto const pair : t_.children(argument)) {
                bool const may_be = t_.kind(pair) == kind::list || t_.kind(pair) == kind::tuple;
                auto const both = may_be ? t_.children(pair) : std::span<const id>();
                if (both.size() != 2) pickle::malformed("an item of a dict that is no pair");
                all.insert(all.end(), both.begin(), both.end());
            }
        }
        return all;
    }
    std::vector<id> copied(std::span<const id> all) {
        budget_.spend(all.size());
        return {all.begin(), all.end()};
    }
    /// The items, key and value, by the text of their keys; of equal keys the last counts. Nothing
    /// if a key is not a string, a number, a bool or None: such a dict is a value.
    std::optional<named_items> by_name(const std::vector<id>& items) {
        named_items named;
        for (std::size_t k = 0; k + 1 < items.size(); k += 2) {
            auto const key = items[k];
            auto text = key_text(key);
            if (!text) return {};
            budget_.spend(256 + text->size());
            auto const [known, fresh] = named.try_emplace(std::move(*text), key, items[k + 1]);
            if (t_.kind(known->second.first) != t_.kind(key)) return {};  // 1 and "1"
            known->second.second = items[k + 1];
        }
        return named;
    }
    std::optional<std::string> key_text(id key) const {
        switch (t_.kind(key)) {
            case kind::string: return std::string(t_.text(key));
            case kind::integer: return std::to_string(static_cast<std::int64_t>(t_.number(key)));
            case kind::boolean: return t_.is_true(key) ? "True" : "False";
            case kind::none: return "None";
            default: return {};
        }
    }
    /// Whether DCP takes this list apart.
    /// @param depth  Of lists in lists: one may contain itself.
    bool has_parts(id list, std::size_t depth = 0) {
        auto const all = t_.children(list);
        if (depth > most_path_steps) return true;
        budget_.spend(8 * (1 + all.size()));  // a list may be shared by many
        return std::any_of(all.begin(), all.end(), [&](id i) {
            return is_dict(i) || is_tensor(i) ||
                   (t_.kind(i) == kind::list && has_parts(i, depth + 1));
        });
    }
    bool is_tensor(id i) const {
        return t_.kind(i) == kind::persistent || torch::tensor_call::is_one(t_, i);
    }

    const pickle::tree& t_;
    unfolding& budget_;
    key_path path_{};
    std::map<std::string, leaf> leaves_{};
    std::set<key_path> text_keys_{};
};

}  // namespace cairn::format::torch_save

#endif
