// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_TORCH_READER_HPP
#define CAIRN_STORAGE_TORCH_READER_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/erased_storage.hpp>
#include <cairn/storage/torch_options.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

/// Reads PyTorch's DCP format from any ObjectStore: DCP's `FileSystemReader`, which checks every
/// byte against a checksum and reads only the requested parts if cairn wrote the checkpoint.
///
/// Each rank has its own. One load at a time. Files, or parts of them, are read by jobs on
/// `options.thread_count` threads of its own; or whole files by jobs on the executor `jobs`.
class torch_reader {
public:
    template <class Store>
        requires(!std::derived_from<Store, torch_reader> && ObjectStore<Store>)
    explicit torch_reader(Store store, torch_reader_options options = {})
        : torch_reader(any_store(std::move(store)), options) {}
    template <class Store>
        requires(!std::derived_from<Store, torch_reader> && ObjectStore<Store>)
    torch_reader(Store store, torch_reader_options options, const job_executor& jobs)
        : torch_reader(any_store(std::move(store)), options, jobs) {}
    CAIRN_DECL explicit torch_reader(any_store store, torch_reader_options options = {});
    CAIRN_DECL torch_reader(any_store store, torch_reader_options options,
                            const job_executor& jobs);
    CAIRN_DECL torch_reader(torch_reader&&) noexcept;
    CAIRN_DECL torch_reader& operator=(torch_reader&&) noexcept;
    CAIRN_DECL ~torch_reader();

    /// Relocates the store to a checkpoint, if the store supports that; an empty id keeps the
    /// place.
    CAIRN_DECL void reset(const checkpoint_id& id);

    /// @throws error errc::not_found if there is no checkpoint; errc::unsupported if there is one
    /// in another format; errc::corrupt, errc::checksum_mismatch, errc::unsupported or
    /// errc::invalid_plan if `.metadata` is invalid.
    CAIRN_DECL metadata read_metadata();
    /// The same, with the native index as it is stored, if it says all of that.
    CAIRN_DECL stored_index read_index();

    /// @param m  Must outlive all reads.
    CAIRN_DECL void set_up_reader(const metadata& m, const storage_setup& me);
    void set_up_reader(metadata&&, const storage_setup&) = delete;

    /// Checks that the plan's files exist: a missing or truncated file is reported before memory is
    /// modified.
    CAIRN_DECL load_plan prepare_local_load_plan(load_plan plan);
    CAIRN_DECL std::vector<load_plan> prepare_global_load_plan(std::vector<load_plan> plans);
    bool items_stay_local() const noexcept { return true; }
    bool divides_chunks() const noexcept { return true; }

    /// Takes it from the index, otherwise from small reads of the item.
    CAIRN_DECL std::optional<chunk_checksum> checksum(const std::string& fqn, std::size_t chunk);

    CAIRN_DECL void read_data(const load_plan& plan, const read_target& target,
                              completion<read_result> done);
    CAIRN_DECL void check_unchanged();

private:
    struct state;
    std::unique_ptr<state> s_;
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/storage/impl/torch_reader.ipp>
#endif

#endif
