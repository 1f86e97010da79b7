// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_SAVE_CONTAINER_HPP
#define CAIRN_FORMAT_TORCH_SAVE_CONTAINER_HPP

#include <cairn/format/pickle/tree.hpp>
#include <cairn/format/torch/tensor_call.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::format::torch_save {

/// A longer pickle is refused: it is read whole.
inline constexpr std::uint64_t most_pickle_bytes = std::uint64_t{256} << 20;

/// Where the bytes of a storage are in the file.
struct record {
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    std::uint32_t crc = 0;  ///< 0: there is none.
};

/// The parts of a torch.save file: one pickle, and the storages that it names.
struct container {
    container() = default;
    container(container&&) = default;  // a copy's tree would be a window on the original's pickle
    container& operator=(container&&) = default;
    ~container() = default;

    std::vector<std::byte> pickle{};
    std::uint64_t pickle_offset = 0;
    pickle::tree tree{};
    std::map<std::string_view, record> storages{};  ///< By key.
    bool big_endian = false;
    bool checked = false;  ///< Whether there are checksums.
};

using named_storages = std::map<std::string_view, torch::named_storage>;

/// Returns all storages that a pickle names.
/// @throws error errc::corrupt if it names one twice, with different sizes
inline named_storages storages_of(const pickle::tree& t) {
    named_storages all;
    for (std::size_t i = 0; i < t.size(); ++i) {
        auto const n = static_cast<pickle::node_id>(i);
        if (t.kind(n) != pickle::node_kind::persistent) continue;
        auto const s = torch::storage_of(t, n);
        if (!s) continue;
        auto const& known = all.try_emplace(s->key, *s).first->second;
        if (known.bytes != s->bytes)
            throw error(errc::corrupt,
                        {.expected = "one size of the storage '" + std::string(s->key) + "'",
                         .found = std::to_string(known.bytes) + " and " + std::to_string(s->bytes) +
                                  " bytes"});
    }
    return all;
}

}  // namespace cairn::format::torch_save

#endif
