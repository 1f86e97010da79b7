// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_DETAIL_RECORD_LIST_HPP
#define CAIRN_CATALOG_DETAIL_RECORD_LIST_HPP

#include <cairn/catalog/detail/committed.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/object_store/any_store.hpp>

#include <string_view>

namespace cairn::detail {

/// A copy of the records of all checkpoints of a place, in one object beside them, for stores where
/// each read is a request. Each record is there with the tag of the `.metadata` that it was read
/// from: it counts only where the store lists that tag. A list that is old or lost costs requests
/// and nothing else.
///
///     1 u8 · count · (id · tag · 0 or 1 · commit section, if 1)… · CRC-32 of all before
inline constexpr std::string_view record_list_name = ".cairn-records";

/// Returns what the list says; nothing if there is none that can be read.
CAIRN_DECL known_records read_record_list(any_store& root);

/// Replaces the list, if these have a record that was not read from it, and marks them as listed.
/// Whoever may not write leaves it as it is.
CAIRN_DECL void write_record_list(any_store root, known_records& known) noexcept;

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/catalog/impl/record_list.ipp>
#endif

#endif
