// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_TORCH_WRITER_HPP
#define CAIRN_STORAGE_TORCH_WRITER_HPP

#include <cairn/detail/config.hpp>
#include <cairn/metadata/commit_record.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/torch_options.hpp>

#include <concepts>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

/// Writes PyTorch's DCP format into any ObjectStore: DCP's `FileSystemWriter`, with checksums and a
/// crash-safe commit.
///
/// Each rank has its own. One save at a time. Files are written by jobs, up to
/// `options.thread_count` at once, on threads of its own or on the executor `jobs`; contiguous
/// tensors go from the caller's memory to the store without a copy. See docs/format.md for the
/// bytes and docs/decisions/0004-commit.md for the commit.
class torch_writer {
public:
    template <class Store>
        requires(!std::derived_from<Store, torch_writer> && ObjectStore<Store>)
    explicit torch_writer(Store store, torch_writer_options options = {})
        : torch_writer(any_store(std::move(store)), std::move(options)) {}
    template <class Store>
        requires(!std::derived_from<Store, torch_writer> && ObjectStore<Store>)
    torch_writer(Store store, torch_writer_options options, const job_executor& jobs)
        : torch_writer(any_store(std::move(store)), std::move(options), jobs) {}
    CAIRN_DECL explicit torch_writer(any_store store, torch_writer_options options = {});
    CAIRN_DECL torch_writer(any_store store, torch_writer_options options,
                            const job_executor& jobs);
    CAIRN_DECL torch_writer(torch_writer&&) noexcept;
    CAIRN_DECL torch_writer& operator=(torch_writer&&) noexcept;
    CAIRN_DECL ~torch_writer();

    /// Ranks of other hosts write to disks of their own, which this one does not see: before a
    /// commit, files of theirs that are not there are not missed.
    /// @param apart  Those ranks; none: any rank may be one.
    CAIRN_DECL void on_own_disks(std::optional<std::vector<int>> apart);

    /// Relocates the store to a checkpoint, if the store supports that; an empty id keeps the
    /// place.
    /// @throws error errc::invalid_argument for invalid options.
    CAIRN_DECL void reset(const checkpoint_id& id);

    CAIRN_DECL void set_up_writer(const storage_setup& setup);

    CAIRN_DECL save_plan prepare_local_save_plan(save_plan plan);

    /// Checks and claims the place, and assigns file names to each rank.
    CAIRN_DECL std::vector<save_plan> prepare_global_save_plan(std::vector<save_plan> plans);
    /// Does the same for a reused plan; returns the names, encoded for each rank. See @ref
    /// NamingWriter.
    CAIRN_DECL std::vector<std::string> name_files(std::span<const stored_amount> stored);

    CAIRN_DECL void write_data(const save_plan& plan, std::span<const item_data> data,
                               completion<write_results> done);
    /// @param released  See @ref ReleasingWriter.
    CAIRN_DECL void write_data(const save_plan& plan, std::span<const item_data> data,
                               const item_released& released, completion<write_results> done);

    /// Commits: checks that every data file exists with its full size, then replaces the metadata.
    /// Nothing is removed.
    CAIRN_DECL void finish(const metadata& m, completion<commit_result> done);
    /// Overload that stores a record of the commit in the metadata; its `save_id` is filled in.
    CAIRN_DECL void finish(const metadata& m, commit_record record, completion<commit_result> done);

    /// Whether this save's checkpoint is in place; called by a rank without a verdict. Also false
    /// if a later save has replaced it, or if no checkpoint exists.
    /// @throws error if `.metadata` cannot be read, or its name cannot be made durable.
    CAIRN_DECL bool committed(const std::string& save_id);

    /// Removes the files that this rank created in the failed save, and nothing else.
    CAIRN_DECL bool abandon() noexcept;

    /// Removes the files that the save has left or replaced, depending on how it ended.
    CAIRN_DECL void sweep(save_end end, completion<sweep_result> done);

private:
    struct state;
    std::unique_ptr<state> s_;
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/storage/impl/torch_writer.ipp>
#endif

#endif
