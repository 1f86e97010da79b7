// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_TORCH_SAVE_WRITER_HPP
#define CAIRN_STORAGE_TORCH_SAVE_WRITER_HPP

#include <cairn/completion.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/object_store/detail/erased_store.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/storage/concepts.hpp>

#include <concepts>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

struct torch_save_writer_options {
    /// False: fail if something has the name already.
    bool overwrite = true;
    /// The file reaches the disk before it appears.
    bool sync_files = true;
    /// Number of threads with which each rank writes. 0: see @ref threads_per_rank.
    int thread_count = 0;
};

/// Saves a state as one file of `torch.save`, from any number of ranks: `torch.load` reads it, also
/// with `mmap=True`. Dots in names become nested dicts and lists again, as far as the state has
/// paths for them; tied weights share a storage.
///
/// The id of a checkpoint is the path of the file, which appears in one step when it is complete:
/// until then it is written in a hidden directory beside it, `.NAME.saving-<save id>`, which a
/// later save to the same id removes if this one is killed.
///
/// Values are written into the file's pickle, as they are stored in PyTorch's DCP. If one is of a
/// class that `torch.load` takes only with `weights_only=False`, the report says so.
///
/// The coordinator writes what it holds, and all that the other ranks put aside in the hidden
/// directory; if other ranks hold values, it writes everything when it completes the file.
///
/// The store must be a @ref RenamingStore.
class torch_save_writer {
public:
    /// Files below the current directory, or absolute ones.
    explicit torch_save_writer(torch_save_writer_options options = {})
        : torch_save_writer(file_store(), options) {}
    template <class Store>
        requires(!std::derived_from<Store, torch_save_writer> && ObjectStore<Store>)
    explicit torch_save_writer(Store store, torch_save_writer_options options = {})
        : torch_save_writer(detail::erased_store(std::move(store)), options) {}
    CAIRN_DECL explicit torch_save_writer(detail::erased_store store,
                                          torch_save_writer_options options = {});
    CAIRN_DECL torch_save_writer(torch_save_writer&&) noexcept;
    CAIRN_DECL torch_save_writer& operator=(torch_save_writer&&) noexcept;
    CAIRN_DECL ~torch_save_writer();

    CAIRN_DECL void reset(const checkpoint_id& id);
    /// @throws error errc::invalid_argument for an id without a name; errc::unsupported for a store
    /// that cannot rename
    CAIRN_DECL void set_up_writer(const storage_setup& setup);
    CAIRN_DECL save_plan prepare_local_save_plan(save_plan plan);
    /// @throws error errc::already_exists for a target that may not be replaced
    CAIRN_DECL std::vector<save_plan> prepare_global_save_plan(std::vector<save_plan> plans);
    /// @throws error errc::invalid_state for what a file of `torch.save` cannot have, naming it
    CAIRN_DECL void write_data(const save_plan& plan, std::span<const item_data> data,
                               completion<write_results> done);
    /// @param released  See @ref ReleasingWriter.
    CAIRN_DECL void write_data(const save_plan& plan, std::span<const item_data> data,
                               const item_released& released, completion<write_results> done);
    CAIRN_DECL void finish(const metadata& m, completion<commit_result> done);
    /// False for ranks other than the coordinator: the file has no save id.
    CAIRN_DECL bool committed(const std::string& save_id);
    CAIRN_DECL bool abandon() noexcept;
    CAIRN_DECL void sweep(save_end end, completion<sweep_result> done);

private:
    struct state;
    std::unique_ptr<state> s_;
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/storage/impl/torch_save_writer.ipp>
#endif

#endif
