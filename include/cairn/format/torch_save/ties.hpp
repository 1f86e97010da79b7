// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_SAVE_TIES_HPP
#define CAIRN_FORMAT_TORCH_SAVE_TIES_HPP

#include <cairn/error.hpp>
#include <cairn/format/torch_save/new_entry.hpp>
#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::format::torch_save {

/// Returns for each entry the position of the one whose storage it has: its own, or that of the
/// tensor to which it is tied.
/// @throws error errc::invalid_state, naming an entry that cannot be written: two of one name, an
/// impossible shape, a tie to something that is no tensor with a storage of as many elements
inline std::vector<std::size_t> owners_of_storages(const new_entries& entries) {
    auto const refuse = [](const new_entry& e, std::string expected, std::string found,
                           std::string remedy) {
        throw error(errc::invalid_state, {.fqn = e.fqn,
                                          .expected = std::move(expected),
                                          .found = std::move(found),
                                          .remedy = std::move(remedy)});
    };
    std::map<std::string_view, std::size_t> by_name;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        auto const& e = entries[i];
        if (!by_name.emplace(e.fqn, i).second)
            refuse(e, "a name for each tensor and value", "two of this name", "rename one of them");
        auto const* t = std::get_if<new_tensor>(&e.what);
        if (t != nullptr && !is_possible(t->shape))
            refuse(e, "at most " + std::to_string(most_elements) + " elements",
                   "the shape " + to_string(t->shape), "leave the tensor out");
    }
    std::vector<std::size_t> owners(entries.size());
    for (std::size_t i = 0; i < entries.size(); ++i) {
        owners[i] = i;
        auto const* t = std::get_if<new_tensor>(&entries[i].what);
        if (t == nullptr || t->tied_to.empty()) continue;
        auto const it = by_name.find(t->tied_to);
        auto const* owner =
            it == by_name.end() ? nullptr : std::get_if<new_tensor>(&entries[it->second].what);
        if (owner == nullptr || !owner->tied_to.empty())
            refuse(entries[i], "a tie to a tensor of the file that is tied to none",
                   "a tie to '" + t->tied_to + "'", "write it as a tensor of its own");
        if (owner->type != t->type || owner->shape.product() != t->shape.product())
            refuse(entries[i],
                   "the dtype and the number of elements of '" + t->tied_to +
                       "': " + std::string(name_of(owner->type)) + " " + to_string(owner->shape),
                   std::string(name_of(t->type)) + " " + to_string(t->shape),
                   "write it as a tensor of its own");
        owners[i] = it->second;
    }
    return owners;
}

}  // namespace cairn::format::torch_save

#endif
