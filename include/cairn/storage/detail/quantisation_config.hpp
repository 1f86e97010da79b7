// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_QUANTISATION_CONFIG_HPP
#define CAIRN_STORAGE_DETAIL_QUANTISATION_CONFIG_HPP

#include <cairn/error.hpp>
#include <cairn/format/quantised/tensors.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/detail/exists.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/other_formats.hpp>

#include <cstdint>
#include <utility>

namespace cairn::detail {

/// Reads what the files beside the weights say.
/// @param is_file  The id is a file's: see `metadata::is_file`.
/// @throws error errc::corrupt for one that is not JSON
inline format::quantised::config read_quantisation_config(const any_store& store,
                                                          const checkpoint_id& id, bool is_file) {
    constexpr std::uint64_t most = std::uint64_t{16} << 20;
    auto const at = is_file ? split_id(id).place : metadata_of(id).place;
    auto place = at.empty() ? store : store.at(at);
    format::quantised::config all;
    for (auto const* name : {"config.json", "hf_quant_config.json"}) {
        auto const text = read_existing(place, name, most);
        if (!text) continue;
        try {
            auto found = format::quantised::read_config(*text);
            if (all.method.empty()) all.method = std::move(found.method);
            if (all.algorithm.empty()) all.algorithm = std::move(found.algorithm);
            if (!all.block) all.block = std::move(found.block);
        } catch (const error& e) {
            throw completed(e, {.file = place.describe(name)});
        }
    }
    return all;
}

}  // namespace cairn::detail

#endif
