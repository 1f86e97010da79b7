// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_SAVE_ZIP_CONTAINER_HPP
#define CAIRN_FORMAT_TORCH_SAVE_ZIP_CONTAINER_HPP

#include <cairn/format/pickle/reader.hpp>
#include <cairn/format/torch/value_item.hpp>
#include <cairn/format/torch_save/container.hpp>
#include <cairn/format/zip/reader.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::format::torch_save {

/// Reads a file of PyTorch 1.6 or later, but for the storages' bytes; checks the CRC of all else.
/// @param threads  Number of reads at once of the headers of records.
inline container read_zip(const read_at& source, std::uint64_t length, std::size_t threads) {
    auto r = torch::item_records::read(source, length, most_pickle_bytes, threads);
    container c;
    c.pickle = std::move(r.pickle);
    c.big_endian = r.big_endian;
    c.checked = r.checked;
    std::map<std::string_view, const zip::entry*> data;
    for (auto const& e : r.entries) {
        std::string_view const name = e.name;
        if (name == "constants.pkl")
            throw error(errc::unsupported, {.expected = "a file of torch.save",
                                            .found = "a TorchScript archive",
                                            .remedy = "save its state_dict() with torch.save"});
        if (name == "data.pkl") c.pickle_offset = e.data;
        if (name.starts_with("data/")) data.emplace(name.substr(5), &e);
    }
    c.tree = pickle::reader::read(c.pickle);
    for (auto const& [key, storage] : storages_of(c.tree)) {
        auto const it = data.find(key);
        if (it == data.end())
            throw error(errc::corrupt,
                        {.expected = "a record 'data/" + std::string(key) + "'", .found = "none"});
        auto const& e = *it->second;
        if (e.size != storage.bytes)
            throw error(errc::corrupt, {.expected = "a record 'data/" + std::string(key) + "' of " +
                                                    std::to_string(storage.bytes) + " bytes",
                                        .found = std::to_string(e.size) + " bytes"});
        c.storages.emplace(key, record{e.data, e.size, r.checked ? e.crc : 0});
    }
    return c;
}

}  // namespace cairn::format::torch_save

#endif
