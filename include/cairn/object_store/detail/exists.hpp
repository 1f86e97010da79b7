// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_EXISTS_HPP
#define CAIRN_OBJECT_STORE_DETAIL_EXISTS_HPP

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

/// Returns the result of `f()`; nothing if it says that there is no such object.
template <class F>
auto if_there(F&& f) -> std::optional<decltype(f())> {
    try {
        return f();
    } catch (const error& e) {
        if (e.code() != make_error_code(errc::not_found)) throw;
        return {};
    }
}

/// Returns the result of `f()`, which reads an object that others may replace or remove at any
/// time; nothing if it was removed.
/// @throws as `reread`
template <ObjectStore Store, class F>
auto unless_removed(Store& store, std::string_view name, F&& f) -> std::optional<decltype(f())> {
    return if_there([&] { return reread(store, name, f); });
}

/// Reads all bytes of a small object; nothing if there is none.
/// @throws as `read_whole`
template <ObjectStore Store>
std::optional<byte_vector> read_existing(Store& store, std::string_view name,
                                         std::uint64_t most = UINT64_MAX) {
    return if_there([&] { return read_whole(store, name, most); });
}

}  // namespace cairn::detail

#endif
