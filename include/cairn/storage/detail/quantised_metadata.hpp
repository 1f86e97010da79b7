// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_QUANTISED_METADATA_HPP
#define CAIRN_STORAGE_DETAIL_QUANTISED_METADATA_HPP

#include <cairn/detail/wire.hpp>
#include <cairn/format/native/index_content.hpp>
#include <cairn/format/quantised/elements.hpp>
#include <cairn/format/quantised/tensors.hpp>
#include <cairn/metadata/chunk_order.hpp>
#include <cairn/metadata/detail/codec.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/tensor/dtype.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// What is stored, and what is computed from it.
struct quantised_metadata {
    metadata stored{};
    format::quantised::recipes recipes{};
    dtype type = dtype::float32;  ///< Of what is computed.
    /// What is computed, as the reader shows it.
    std::map<std::string, tensor_metadata, std::less<>> weights{};
    /// Of the tensors of recipes: parts of each are asked for chunk by chunk.
    std::map<std::string, chunk_order, std::less<>> orders{};
};

/// Moves tensors of recipes, with their scales, from a checkpoint's metadata into `storage_data`,
/// and puts what they make in their place.
/// @param type  Of the tensors that they make.
inline void show_dequantised(metadata& m, const format::quantised::recipes& recipes, dtype type) {
    if (recipes.empty()) return;
    metadata stored;
    stored.storage_data = std::move(m.storage_data);
    wire_writer w;
    w.varint(recipes.size());
    for (auto const& [name, r] : recipes) {
        w.string(name);
        w.u8(static_cast<std::uint8_t>(2 * static_cast<unsigned>(r.elements_are) +
                                       (r.divides ? 1 : 0)));
        for (auto const* s : {&r.elements, &r.scales, &r.scale}) w.string(*s);
        put(w, r.block);
        auto const* const elements = m.tensor(r.elements);
        tensor_metadata shown{type, format::quantised::shape_of(r, elements->shape),
                              elements->requires_grad};
        for (auto c : elements->chunks) {
            c.region = format::quantised::region_of(r, c.region, elements->shape);
            c.at.layout.reset();
            shown.chunks.push_back(c);
        }
        if (auto path = m.paths.find(r.elements); path != m.paths.end() && name != r.elements) {
            auto steps = std::move(path->second);  // erased below
            if (auto* const last = std::get_if<std::string>(&steps.back());
                last != nullptr && last->size() > r.elements.size() - name.size())
                last->resize(last->size() - (r.elements.size() - name.size()));
            m.paths.insert_or_assign(name, std::move(steps));
        }
        for (auto const& hidden : {r.elements, r.scales, r.scale}) {
            if (hidden.empty()) continue;
            if (auto node = m.entries.extract(hidden)) stored.entries.insert(std::move(node));
            if (hidden != name) m.paths.erase(hidden);
        }
        m.entries.insert_or_assign(name, std::move(shown));
    }
    w.raw(format::native::encode_metadata(stored));
    auto const bytes = w.take();
    m.storage_data.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

/// Takes apart what `show_dequantised` has put together.
/// @throws error errc::corrupt
inline quantised_metadata stored_quantised(const metadata& shown) {
    quantised_metadata q{shown};
    if (shown.storage_data.empty()) return q;
    wire_reader r(std::as_bytes(std::span(shown.storage_data)));
    for (auto n = r.count(); n-- > 0;) {
        auto name = r.string();
        format::quantised::recipe one;
        auto const kind = r.u8();
        if (kind / 2 > static_cast<unsigned>(format::quantised::recipe::kind::grouped_nibbles))
            wire_reader::fail("a recipe of an unknown kind");
        one.elements_are = static_cast<format::quantised::recipe::kind>(kind / 2);
        one.divides = kind % 2 != 0;
        for (auto* s : {&one.elements, &one.scales, &one.scale}) *s = r.string();
        one.block = get_shape(r);
        for (auto const b : one.block)
            if (b == 0) wire_reader::fail("a block without elements");
        if (auto const* const t = shown.tensor(name)) {
            q.type = t->type;
            q.weights.emplace(name, *t);
        }
        q.stored.entries.erase(name);
        q.recipes.emplace(std::move(name), std::move(one));
    }
    auto rest = format::native::decode_metadata(r.raw(r.left()));
    q.stored.entries.merge(rest.entries);
    q.stored.storage_data = std::move(rest.storage_data);
    for (auto const& [name, one] : q.recipes)
        for (auto const* part : {&one.elements, &one.scales, &one.scale}) {
            if (part == &one.scale && part->empty()) continue;
            auto const* const t = q.stored.tensor(*part);
            if (t == nullptr) wire_reader::fail("a recipe without its tensors");
            q.orders.try_emplace(*part, t->chunks);
        }
    return q;
}

}  // namespace cairn::detail

#endif
