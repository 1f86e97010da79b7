// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_FILE_ADDER_HPP
#define CAIRN_STORAGE_FILE_ADDER_HPP

#include <cairn/object_store/concepts.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

namespace cairn {

/// Adds files to an export before it appears: `put(name, bytes)`, or `put(name, size, read)` for
/// one that is not in memory. It is called by one thread, and is there until the hook returns. A
/// name without `/`, except in a store that is no @ref RenamingStore.
class file_adder {
public:
    /// Reads exactly `into.size()` bytes of the file.
    using read_piece = std::function<void(std::uint64_t at, std::span<std::byte> into)>;
    using add_file =
        std::function<void(std::string_view name, std::uint64_t size, const read_piece& read)>;
    /// How many bytes all files may have in a store that is no @ref RenamingStore: they are in
    /// memory until the export is complete.
    static constexpr std::uint64_t most_in_memory = std::uint64_t{64} << 20;

    explicit file_adder(add_file add) : add_(std::move(add)) {}

    void operator()(std::string_view name, byte_span bytes) const {
        add_(name, bytes.size(), [&](std::uint64_t at, std::span<std::byte> into) {
            if (!into.empty()) std::memcpy(into.data(), bytes.data() + at, into.size());
        });
    }
    /// @param read  Called for pieces of the file, from its beginning to its end.
    /// @throws error errc::unsupported for more than `most_in_memory` where that holds
    void operator()(std::string_view name, std::uint64_t size, const read_piece& read) const {
        add_(name, size, read);
    }

private:
    add_file add_;
};

}  // namespace cairn

#endif
