// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_VERIFY_HPP
#define CAIRN_CATALOG_VERIFY_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/concepts.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

/// The result of `verify`. Lines are for people, and may contain names from an untrusted source:
/// print them with @ref terminal_text where that matters.
struct verify_report {
    /// What is wrong, one line each: the tensor or value, the file, what was expected and found.
    std::vector<std::string> findings{};
    /// Whether a finding shows that the stored bytes are wrong, not only that storage failed.
    bool damaged = false;
    /// As `load_report::unverified`: what has no checksum, and what this version does not know.
    std::vector<std::string> unverified{};
    bool torch_metadata = true;  ///< PyTorch can load it: see @ref torch_writer_options.
    std::size_t files = 0;       ///< Data files that were read.
    std::size_t items = 0;       ///< Chunks and values that were checked.
    std::uint64_t bytes = 0;     ///< Of these, each counted once.
    bool whole() const noexcept { return findings.empty(); }
};

namespace detail {
CAIRN_DECL verify_report verify(any_store place,
                                const std::function<void(std::uint64_t bytes)>& progress,
                                std::string metadata_file);
}  // namespace detail

/// Reads a whole checkpoint and compares everything with what the metadata and the checksums say:
/// `.metadata` itself, the size of each file, each chunk of a tensor and each value, also those
/// that no load would need. Nothing is changed.
///
/// Of a place without `.metadata`, or a file of safetensors or `torch.save`, everything is read as
/// a load does, and compared with the checksums that there are.
///
/// Reads each byte a fixed number of times, at most three, whatever the metadata says, with 4 MiB
/// of memory and on the calling thread; values and compressed tensors are decoded, one at a time.
/// Starts over if another save replaces the checkpoint meanwhile. To know only whether a checkpoint
/// can be used, or for less than every byte, see @ref latest and @ref list_checkpoints.
///
/// @param place     The place of the checkpoint, as `file_store("ckpts/step_1")`.
/// @param progress  Called with the number of bytes that were checked so far, after each read of at
///                  most 4 MiB. Must not throw.
/// @param metadata_file  `__R.metadata` for the part of one rank, as PyTorch writes it with
///                       `use_collectives=False`; or the file that is the checkpoint, e.g.
///                       `model.safetensors`, `model.pt`.
/// @throws error errc::not_found if there is no checkpoint, errc::unsupported if there is one of a
/// format that cairn does not read; what the store throws while `.metadata` is read. While data
/// files are read an @ref error is a finding; other exceptions are passed on.
template <ObjectStore Store>
verify_report verify(Store place, const std::function<void(std::uint64_t bytes)>& progress = {},
                     std::string metadata_file = ".metadata") {
    return detail::verify(any_store(std::move(place)), progress, std::move(metadata_file));
}

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/catalog/impl/verify.ipp>
#endif

#endif
