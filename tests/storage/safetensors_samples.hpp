// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_STORAGE_SAFETENSORS_SAMPLES_HPP
#define CAIRN_TEST_STORAGE_SAFETENSORS_SAMPLES_HPP

#include <cairn/cairn.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

/// Small safetensors files of any content.
namespace safetensors_samples {

/// One tensor of bytes for a file: its entry in the header, and how many there are.
struct stored {
    std::string name, shape;
    std::size_t bytes;
    std::string dtype = "U8";
};
/// A file whose bytes are all `content`.
inline cairn::byte_vector file_of(const std::vector<stored>& tensors, std::uint8_t content,
                                  const std::string& text = {}) {
    std::string json = "{";
    if (!text.empty()) json += "\"__metadata__\":" + text + (tensors.empty() ? "" : ",");
    std::size_t at = 0;
    for (auto const& t : tensors) {
        json += (&t == &tensors.front() ? "\"" : ",\"") + t.name + R"(":{"dtype":")" + t.dtype +
                R"(","shape":)" + t.shape + R"(,"data_offsets":[)" + std::to_string(at) + "," +
                std::to_string(at + t.bytes) + "]}";
        at += t.bytes;
    }
    json += "}";
    cairn::byte_vector b(8 + json.size() + at, std::byte{content});
    for (unsigned i = 0; i < 8; ++i)
        b[i] = static_cast<std::byte>(std::uint64_t{json.size()} >> (8 * i));
    std::memcpy(b.data() + 8, json.data(), json.size());
    return b;
}
template <class Store>
void put(Store store, const std::string& name, cairn::byte_span b) {
    auto file = store.create(name, b.size());
    file.write(0, b);
    file.finish(true);
}
template <class Store>
void put_index(Store store, const std::string& map,
               const std::string& name = "model.safetensors.index.json") {
    auto const text = "{\"weight_map\":" + map + "}";
    put(store, name, std::as_bytes(std::span(text)));
}
/// Loads a tensor of this many bytes; what it is all of, or why that failed.
inline std::string loaded(cairn::memory_store& store, const std::string& id, const std::string& fqn,
                          std::size_t bytes) {
    std::vector<std::uint8_t> x(bytes);
    cairn::state_dict sd{{fqn, x}};
    try {
        cairn::load(sd, id, store);
    } catch (const cairn::error& e) {
        return e.what();
    }
    for (auto v : x)
        if (v != x[0]) return "several";
    return std::to_string(x.at(0));
}

}  // namespace safetensors_samples

#endif
