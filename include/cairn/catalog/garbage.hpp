// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_GARBAGE_HPP
#define CAIRN_CATALOG_GARBAGE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/concepts.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cairn {

/// The result of @ref collect_garbage.
struct garbage_report {
    std::vector<std::string> lines{};  ///< What was removed or skipped, and why.
    std::size_t files = 0;             ///< Removed, or to be removed.
    std::uint64_t bytes = 0;           ///< Of these files.
    std::size_t directories = 0;       ///< Without files: removed, or to be removed.
    std::size_t problems = 0;          ///< How many lines report a failure.
};

namespace detail {
/// @param directory  Of the root; empty: it is none of files.
CAIRN_DECL garbage_report collect_garbage(any_store root, bool dry_run,
                                          const std::string& directory = {});
}  // namespace detail

/// Removes what interrupted saves and removals have left in a directory, in the directories
/// directly within it, and in no others: files, and the hidden directories `.NAME.saving-*` in
/// which exports and files are made. Checkpoints and running saves stay; so do the leftovers of a
/// process whose state cannot be determined, until none of them has changed for 24 hours, by the
/// storage's clock.
/// @param dry_run  Removes and writes nothing. The storage's time is then not known, so leftovers
///                 that have expired only by that are not counted.
CAIRN_DECL garbage_report collect_garbage(const std::string& directory, bool dry_run = false);
/// Overload for a store.
template <BrowsableStore Store>
garbage_report collect_garbage(Store& store, bool dry_run = false) {
    return detail::collect_garbage(any_store::share(store), dry_run);
}

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/catalog/impl/garbage.ipp>
#endif

#endif
