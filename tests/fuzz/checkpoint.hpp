// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_FUZZ_CHECKPOINT_HPP
#define CAIRN_TEST_FUZZ_CHECKPOINT_HPP

#include "support/crafted.hpp"
#include "support/whole.hpp"

#include <cairn/cairn.hpp>
#include <cairn/catalog/verification.hpp>
#include <cairn/state/flatten.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace fuzz {

/// A whole checkpoint as one run of bytes: count · name · content · ….
inline std::vector<std::byte> pack(const support::crafted& c) {
    cairn::detail::wire_writer w;
    w.varint(c.files.size());
    for (auto const& [name, b] : c.files) {
        w.string(name);
        w.bytes(b);
    }
    return std::move(w.out);
}
/// Bytes that say less than they announce are as many files as there are.
inline support::crafted unpack(std::span<const std::byte> b) {
    support::crafted c;
    cairn::detail::wire_reader r(b);
    for (auto n = r.count(2); n-- > 0;) {
        auto name = r.string();
        auto const content = r.bytes();
        c.files[std::move(name)].assign(content.begin(), content.end());
    }
    return c;
}

/// What one load or another made of a checkpoint must be the same.
inline void check_equal(const cairn::state_dict& tree, const support::whole& all) {
    cairn::flattened flat;
    try {
        flat = cairn::flatten(tree);
    } catch (const cairn::error&) {  // lists with positions that nothing was put at
        return;
    }
    for (auto const& leaf : flat.leaves) {
        auto const* t = leaf.tensor();
        if (t == nullptr) continue;
        auto const it = all.tensors.find(leaf.fqn);
        if (it == all.tensors.end()) continue;  // another path than its name
        auto const& v = t->shards.at(0).view;
        if (v.bytes() != it->second.bytes.size() ||
            (v.bytes() != 0 && std::memcmp(v.data, it->second.bytes.data(), v.bytes()) != 0))
            throw std::logic_error("two loads of one checkpoint differ in '" + leaf.fqn + "'");
    }
}

/// Every reader that a user meets, over a checkpoint whose checksums have been made right: a whole
/// tree, a state of given shapes, and verify. Only cairn::error may come out.
inline void checkpoint(std::span<const std::byte> b) {
    auto c = unpack(b);
    c.seal();
    auto const size = c.size();
    auto store = c.store("c");
    c.files.clear();

    std::exception_ptr refused;
    cairn::state_dict tree;
    try {
        tree = cairn::load_tree("c", {}, store);
    } catch (const cairn::error&) {
        refused = std::current_exception();
    }

    auto place = store.at("c");
    std::ostringstream findings;
    cairn::detail::verification v(place);
    bool const fine = v.run();
    v.print(findings);

    cairn::torch_reader reader(store);
    reader.reset("c");
    auto const m = reader.read_metadata();
    std::uint64_t claimed = 0;
    for (auto const& [fqn, entry] : m.entries)
        if (auto const* t = std::get_if<cairn::tensor_metadata>(&entry))
            claimed += std::min<std::uint64_t>(
                static_cast<std::uint64_t>(t->shape.product()) * cairn::size_of(t->type),
                std::uint64_t{1} << 40);
    if (claimed <= 4 * size) {
        auto all = support::room_for(m);
        auto views = support::views(all);
        bool loaded = false;
        try {
            cairn::load(views, "c", store);
            loaded = true;
        } catch (const cairn::error& e) {
            if (fine)
                throw std::logic_error(std::string("verify finds nothing, and load: ") + e.what());
        }
        if (loaded && !refused) check_equal(tree, all);
    }
    if (refused) std::rethrow_exception(refused);
}

}  // namespace fuzz

#endif
