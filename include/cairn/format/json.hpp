// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_JSON_HPP
#define CAIRN_FORMAT_JSON_HPP

#include <cairn/detail/config.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cairn::format::json {

/// A part of a JSON text.
struct event {
    enum class type { object, object_end, array, array_end, text, number, constant } kind;
    std::string_view text{};  ///< Of a text; of a number or constant, as it is written.
    /// Of a number; nothing if it is negative, fractional or too large.
    std::optional<std::uint64_t> number{};
};
/// Where a part is: the keys that lead to it, and "" for each array.
using path = std::span<const std::string>;
/// Called with the parts in their order. What it throws ends the reading.
using receiver = std::function<void(path, const event&)>;
/// Returns the next piece of a text, which is valid until the next call; an empty one at its end.
using source = std::function<std::span<const std::byte>()>;

inline constexpr std::size_t max_depth = 32;

/// Python's json writes and reads `NaN`, `Infinity` and `-Infinity`, which JSON does not have.
enum class dialect : std::uint8_t { strict, python };

/// Reads one JSON text: UTF-8, without other extensions of the standard. Strings are valid UTF-8,
/// too. Memory: that of the keys of the path and of one string or number.
/// @throws error errc::corrupt if it is not JSON, naming the byte; errc::unsupported for nesting
/// deeper than `max_depth`; what the functions throw
CAIRN_DECL void read(const source& from, const receiver& to, dialect d = dialect::strict);
CAIRN_DECL void read(std::span<const std::byte> text, const receiver& to,
                     dialect d = dialect::strict);

}  // namespace cairn::format::json

#ifdef CAIRN_HEADER_ONLY
#include <cairn/format/impl/json.ipp>
#endif

#endif
