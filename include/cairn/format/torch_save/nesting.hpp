// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_SAVE_NESTING_HPP
#define CAIRN_FORMAT_TORCH_SAVE_NESTING_HPP

#include <cairn/error.hpp>
#include <cairn/format/torch_save/new_entry.hpp>
#include <cairn/metadata/metadata.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::format::torch_save {

/// The nested containers of a file, from the paths of its entries: the reverse of @ref flattening.
///
/// Containers are plain dicts and lists, as those that PyTorch's own converter makes: no checkpoint
/// of DCP says which of them was an OrderedDict, and `load_state_dict` takes any mapping. A
/// position of a list to which no path leads is None, as there: DCP stores no empty containers.
class nesting {
public:
    struct dict;
    struct list;
    /// Nothing, the position of an entry, or a container.
    using node = std::variant<std::monostate, std::size_t, dict*, list*>;
    struct dict {
        std::map<std::string, node> items{};
        /// In the order in which the entries name them.
        std::vector<const std::pair<const std::string, node>*> order{};
    };
    struct list {
        std::vector<node> items{};
    };

    /// @param paths  An entry without one is an item of the outermost dict. The only entry, if it
    ///               has neither name nor path, is all that the file holds.
    /// @throws error errc::corrupt, naming the entry, for paths that make no tree;
    /// errc::unsupported for lists that are mostly empty
    nesting(const new_entries& entries, const key_paths& paths)
        : holes_(4096 + 4 * entries.size()) {
        for (std::size_t i = 0; i < entries.size(); ++i) {
            auto const& fqn = entries[i].fqn;
            auto const found = paths.find(fqn);
            auto const path = found != paths.end()                 ? found->second
                              : fqn.empty() && entries.size() == 1 ? key_path()
                                                                   : key_path{fqn};
            try {
                place(path, i);
            } catch (const error& e) {
                throw cairn::detail::completed(e, {.fqn = fqn});
            }
        }
        if (entries.empty()) root_ = &dicts_.emplace_back();
    }
    nesting(const nesting&) = delete;

    const node& root() const noexcept { return root_; }

private:
    void place(const key_path& path, std::size_t entry) {
        if (path.size() > most_path_steps)
            throw error(errc::unsupported, {.expected = "a path of at most " +
                                                        std::to_string(most_path_steps) + " steps",
                                            .found = std::to_string(path.size()),
                                            .remedy = flat});
        auto* at = &root_;
        for (auto const& step : path) {
            if (auto const* key = std::get_if<std::string>(&step))
                at = item(*at, *key);
            else
                at = item(*at, std::get<std::int64_t>(step));
        }
        if (std::holds_alternative<std::size_t>(*at))
            clash("a path of its own", "that of another tensor or value");
        if (!std::holds_alternative<std::monostate>(*at))
            clash("a path to a tensor or value", "one to a dict or list of others");
        *at = entry;
    }
    node* item(node& at, const std::string& key) {
        if (std::holds_alternative<std::monostate>(at)) at = &dicts_.emplace_back();
        auto* const* d = std::get_if<dict*>(&at);
        if (d == nullptr) not_a(at, "dict");
        auto const [it, fresh] = (*d)->items.try_emplace(key);
        if (fresh) (*d)->order.push_back(&*it);
        return &it->second;
    }
    node* item(node& at, std::int64_t position) {
        if (position < 0) clash("a position in a list", std::to_string(position));
        if (std::holds_alternative<std::monostate>(at)) at = &lists_.emplace_back();
        auto* const* l = std::get_if<list*>(&at);
        if (l == nullptr) not_a(at, "list");
        auto& items = (*l)->items;
        auto const i = static_cast<std::size_t>(position);
        if (i >= items.size()) {
            auto const empty = i - items.size();
            if (empty > holes_)
                throw error(errc::unsupported,
                            {.expected = "a position in a list of " + std::to_string(items.size()) +
                                         " that leaves few of its positions empty",
                             .found = std::to_string(position),
                             .remedy = flat});
            holes_ -= empty;
            items.resize(i + 1);
        }
        return &items[i];
    }
    [[noreturn]] static void not_a(const node& at, const std::string& container) {
        clash("a path through a " + container, std::holds_alternative<std::size_t>(at)
                                                   ? "a tensor or value above it"
                                               : std::holds_alternative<dict*>(at) ? "a dict"
                                                                                   : "a list");
    }
    [[noreturn]] static void clash(std::string expected, std::string found) {
        throw error(errc::corrupt,
                    {.expected = std::move(expected), .found = std::move(found), .remedy = flat});
    }

    static constexpr const char* flat = "write flat names, without paths";

    std::deque<dict> dicts_{};  // deques: nodes point to them
    std::deque<list> lists_{};
    node root_{};
    std::size_t holes_;  ///< How many more positions of lists may be empty; each takes memory.
};

}  // namespace cairn::format::torch_save

#endif
