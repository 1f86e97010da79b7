// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_KNOWN_READER_HPP
#define CAIRN_TEST_SUPPORT_KNOWN_READER_HPP

#include <cairn/object_store/memory.hpp>
#include <cairn/storage/chunk_reader.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace support {

/// A format whose metadata is known.
class known_reader : public cairn::chunk_reader {
public:
    template <cairn::ObjectStore Store>
    known_reader(Store store, cairn::metadata m, cairn::item_finder f = {}, int threads = 1)
        : chunk_reader(std::move(store), std::move(f), threads), meta_(std::move(m)) {}
    cairn::metadata read_metadata() { return meta_; }

private:
    cairn::metadata meta_;
};
static_assert(cairn::StorageReader<known_reader> && cairn::ChecksumReader<known_reader>);

inline cairn::tensor_metadata stored(cairn::dtype type, cairn::index_vector shape,
                                     const std::string& file, std::uint64_t offset,
                                     std::uint64_t length) {
    cairn::tensor_metadata t;
    t.type = type;
    t.chunks.push_back({cairn::box::whole(shape), {file, offset, length, {}, {}}});
    t.shape = std::move(shape);
    return t;
}

inline std::vector<float> counted(std::size_t n) {
    std::vector<float> v(n);
    std::iota(v.begin(), v.end(), 0.0f);
    return v;
}
inline cairn::memory_store with_file(const std::string& name, const std::vector<float>& content) {
    cairn::memory_store store;
    store.publish(name, std::as_bytes(std::span(content)), std::nullopt);
    return store;
}

}  // namespace support

#endif
