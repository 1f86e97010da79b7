// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_READ_WHOLE_HPP
#define CAIRN_OBJECT_STORE_READ_WHOLE_HPP

#include <cairn/error.hpp>
#include <cairn/object_store/concepts.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace cairn {
namespace detail {

/// How long an object that exists is opened again while reads report that it does not.
inline constexpr std::chrono::seconds longest_reopening{5};

/// Returns the result of `f()`, which reads an object. While `f` reports that there is none,
/// because the object was replaced after it was opened, `f` is called again.
/// @param look  Opens it: throws @ref errc::not_found if it does not exist. What it throws is
///              passed on.
/// @throws error errc::io if it exists but stays unreadable for `longest_reopening`; what `f`
/// throws
template <class F, class Look>
auto reread(F&& f, Look&& look) -> decltype(f()) {
    auto const until = std::chrono::steady_clock::now() + longest_reopening;
    auto pause = std::chrono::milliseconds(1);
    for (;;) {
        try {
            return f();
        } catch (const error& e) {
            if (e.code() != make_error_code(errc::not_found)) throw;
            look();
            if (std::chrono::steady_clock::now() > until) {
                auto where = e.context();
                where.found = "a file that is there, and that could not be read for " +
                              std::to_string(longest_reopening.count()) + " s (" + where.found +
                              ")";
                where.remedy =
                    "find out whether it is being replaced all the time, and whether "
                    "its file system is well";
                throw error(errc::io, std::move(where));
            }
        }
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, std::chrono::milliseconds(100));
    }
}
/// Overload for an object of a store.
template <ObjectStore Store, class F>
auto reread(Store& store, std::string_view name, F&& f) -> decltype(f()) {
    return reread(std::forward<F>(f), [&] { (void)store.open(name); });
}

/// Calls `changed()` until it returns true, for as long as this host may see what another one has
/// replaced.
/// @return what the last call returned
template <ObjectStore Store, class F>
bool changes_within_lag(const Store& s, F&& changed) {
    auto const until = std::chrono::steady_clock::now() + lag_of(s);
    for (auto pause = std::chrono::milliseconds(10);; pause *= 2) {
        if (changed()) return true;
        auto const left = until - std::chrono::steady_clock::now();
        if (left <= left.zero()) return false;
        std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(left, pause));
    }
}

/// Reads all bytes of an object that is open. For small objects: metadata.
template <class Reader>
byte_vector read_all_of(Reader& r) {
    byte_vector bytes(static_cast<std::size_t>(std::uint64_t{r.size()}));
    if (!bytes.empty()) r.read(0, bytes);
    return bytes;
}

}  // namespace detail

/// Opens an object and reads all of it, of one version, also while others replace it. For small
/// objects: metadata.
/// @param most  A larger one is not read.
/// @throws what the store throws; @ref errc::not_found if there is none; @ref errc::unsupported if
/// it is too large
template <ObjectStore Store>
byte_vector read_whole(Store& store, std::string_view name, std::uint64_t most = UINT64_MAX) {
    return detail::reread(store, name, [&] {
        auto r = store.open(name);
        std::uint64_t const size = r.size();
        if (size > most)
            throw error(errc::unsupported,
                        {.file = store.describe(name),
                         .expected = "at most " + std::to_string(most) + " bytes",
                         .found = std::to_string(size)});
        return detail::read_all_of(r);
    });
}

}  // namespace cairn

#endif
