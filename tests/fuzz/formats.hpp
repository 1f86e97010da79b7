// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_FUZZ_FORMATS_HPP
#define CAIRN_TEST_FUZZ_FORMATS_HPP

#include "checkpoint.hpp"
#include "files.hpp"
#include "items.hpp"
#include "pack.hpp"

#include "support/promises.hpp"
#include "support/whole.hpp"

#include <cairn/cairn.hpp>
#include <cairn/convert.hpp>
#include <cairn/metadata/check.hpp>
#include <cairn/storage/checkpoint_reader.hpp>
#include <cairn/storage/dequantising_reader.hpp>

#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

/// Whole checkpoints of every format.
namespace fuzz {

/// The id of what is in a place: that of its file of torch.save, if it has one, or the place's.
inline std::string id_of(const support::crafted& c) {
    for (auto const& [name, content] : c.files)
        if (name.ends_with(".pt") && cairn::detail::is_object_name(name)) return "c/" + name;
    return "c";
}

/// The metadata that a reader shows, if it is accepted.
template <class Reader>
std::optional<cairn::metadata> shown(Reader reader, const std::string& id) {
    try {
        reader.reset(id);
        auto m = reader.read_metadata();
        cairn::check_metadata(m);
        support::check_promises(m);
        return m;
    } catch (const cairn::error&) {
        return {};
    }
}
/// Loads all of it, if it claims no more than a few times its size.
template <class Reader>
std::optional<support::whole> loaded_whole(Reader reader, const std::string& id,
                                           const std::optional<cairn::metadata>& m,
                                           std::size_t size) {
    if (!m || claimed(*m) > 8 * size) return {};
    auto all = support::room_for(*m);
    try {
        cairn::load(support::views(all), id, std::move(reader));
    } catch (const cairn::error&) {
        return {};
    }
    return all;
}

/// A whole tree, a state of given shapes, and a conversion in memory: what succeeds gives the same.
inline void formats(bytes b) {
    auto const c = unpack(b);
    auto const store = c.store("c");
    auto const id = id_of(c);
    auto const m = shown(cairn::checkpoint_reader(store), id);
    std::optional<cairn::state_dict> tree;
    try {
        tree = cairn::load_tree(id, {}, cairn::checkpoint_reader(store));
    } catch (const cairn::error&) {
    }
    auto const all = loaded_whole(cairn::checkpoint_reader(store), id, m, c.size());
    if (tree && all) check_equal(*tree, *all);

    auto const dequantised = shown(cairn::dequantising_reader(store), id);
    (void)loaded_whole(cairn::dequantising_reader(store), id, dequantised, c.size());

    cairn::memory_store const target;
    try {
        cairn::convert(cairn::convert_source(store, id), "d", cairn::torch_writer(target));
    } catch (const cairn::error& e) {
        if (all && m->unsupported.empty())
            throw support::finding(std::string("it can be loaded, and not converted: ") + e.what());
        throw;
    }
    if (all && m->unsupported.empty() && support::load_whole(target, "d") != *all)
        throw support::finding("a conversion changes what is loaded");
}

/// Makes headers and checksums right.
inline void seal_formats(input& b) {
    support::crafted c;
    try {
        c = unpack(b);
    } catch (const cairn::error&) {
        return;
    }
    for (auto& [name, content] : c.files) {
        if (name.ends_with(".safetensors")) seal_safetensors(content);
        if (name.ends_with(".pt")) seal_item(content);
    }
    b = pack(c);
}
/// Records of a zip and opcodes of its pickle, or bytes of a file.
inline input change_formats(bytes b, engine& e) {
    auto c = unpack(b);
    if (c.files.empty()) return {b.begin(), b.end()};
    auto const chosen =
        std::next(c.files.begin(), static_cast<std::ptrdiff_t>(e.below(c.files.size())));
    auto& content = chosen->second;
    if (chosen->first.ends_with(".pt")) {
        content = change_item(content, e);
    } else if (!content.empty()) {
        for (auto n = 1 + e.below(3); n > 0; --n)
            content[e.below(content.size())] = static_cast<std::byte>(e.below(256));
    }
    return pack(c);
}

}  // namespace fuzz

#endif
