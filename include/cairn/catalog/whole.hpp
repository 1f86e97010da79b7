// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_WHOLE_HPP
#define CAIRN_CATALOG_WHOLE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/storage/concepts.hpp>

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

namespace cairn {

/// How thoroughly a checkpoint is examined before it is called whole.
enum class verify_level : std::uint8_t {
    metadata,  ///< The metadata is valid, and every file that it names exists with its size.
    sampled,   ///< Also: footers, values, and about one block in 64 of the tensors.
    full       ///< Also: every byte, against its checksum.
};

namespace detail {

/// @throws error errc::not_found if there is no checkpoint; errc::corrupt, errc::checksum_mismatch,
/// errc::unsupported or errc::invalid_plan if its metadata is invalid
CAIRN_DECL metadata read_checked_metadata(any_store& place);

/// Why a checkpoint is not whole.
struct checkpoint_problem {
    std::string text{};          ///< Empty: it is.
    bool damaged = false;        ///< The stored bytes are wrong; false: storage failed.
    bool in_content = false;     ///< If damaged: the content is, not only the size of a file.
    bool denied = false;         ///< Storage refused access.
    std::exception_ptr error{};  ///< If not damaged: the failure, which must be thrown.
    explicit operator bool() const noexcept { return !text.empty(); }
};
/// Describes the current exception.
CAIRN_DECL checkpoint_problem current_problem();

/// Examines the data files, and stops at the first problem. Checks beyond file sizes are shared
/// among the ranks.
CAIRN_DECL checkpoint_problem problem_of(any_store place, const metadata& m, verify_level level,
                                         const storage_setup& me);

/// Renames the metadata of a damaged checkpoint, so that it no longer is one; all files stay.
/// @param examined  The tag of the metadata that was found damaged.
/// @throws error errc::concurrent_save, with nothing changed, if it was replaced since, or if a
/// save or removal in its place is running, or has left an intent that could later remove its
/// files; what the store throws
CAIRN_DECL void quarantine(any_store& place, const object_tag& examined);

}  // namespace detail
}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/catalog/impl/whole.ipp>
#endif

#endif
