// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_EXISTS_HPP
#define CAIRN_OBJECT_STORE_EXISTS_HPP

#include <cairn/error.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/read_whole.hpp>

#include <cstdint>
#include <optional>
#include <string_view>

namespace cairn::detail {

/// Whether an object can be opened.
/// @throws what the store throws, except errc::not_found
template <ObjectStore Store>
bool exists(Store& store, std::string_view name) {
    try {
        (void)store.open(name);
        return true;
    } catch (const error& e) {
        if (e.code() != make_error_code(errc::not_found)) throw;
        return false;
    }
}

/// Returns the result of `f()`, which reads an object that others may remove at any time; nothing
/// if it was removed. A network file system may have forgotten a file for a moment (ESTALE), so it
/// is looked for again before that is believed.
/// @throws error errc::io if it exists and cannot be found; what `f` throws
template <ObjectStore Store, class F>
auto unless_removed(Store& store, std::string_view name, F&& f) -> std::optional<decltype(f())> {
    for (bool again : {false, true}) {
        try {
            return f();
        } catch (const error& e) {
            if (e.code() != make_error_code(errc::not_found)) throw;
            if (!exists(store, name)) return {};
            if (again)
                throw error(errc::io, {.file = store.describe(name),
                                       .expected = "a file that exists, or does not",
                                       .found = "one that is there and cannot be found"});
        }
    }
    return {};
}

/// Reads all bytes of a small object; nothing if there is none.
/// @throws as `read_whole` and `unless_removed`
template <ObjectStore Store>
std::optional<byte_vector> read_existing(Store& store, std::string_view name,
                                         std::uint64_t most = UINT64_MAX) {
    return unless_removed(store, name, [&] { return read_whole(store, name, most); });
}

}  // namespace cairn::detail

#endif
