// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_TORCH_SAVE_WRITER_HPP
#define CAIRN_STORAGE_TORCH_SAVE_WRITER_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/layout_writer.hpp>

#include <concepts>
#include <utility>

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
/// Where no rank holds values, as where only weights are saved, each rank writes what it holds into
/// the file, as a `safetensors_writer` does. Otherwise the places follow from the values: the
/// coordinator writes what it holds, and all that the other ranks put aside in the hidden
/// directory; if other ranks hold values, it writes everything when it completes the file.
///
/// In a store that is no @ref RenamingStore, e.g. a bucket, the file is written where it stays,
/// exists when it is complete, and is not replaced. The store must be a @ref BrowsableStore.
class torch_save_writer : public detail::layout_writer {
public:
    /// Files below the current directory, or absolute ones.
    explicit torch_save_writer(torch_save_writer_options options = {})
        : torch_save_writer(file_store(), options) {}
    template <class Store>
        requires(!std::derived_from<Store, torch_save_writer> && ObjectStore<Store>)
    explicit torch_save_writer(Store store, torch_save_writer_options options = {})
        : torch_save_writer(any_store(std::move(store)), options) {}
    /// @param jobs  Where the writer runs its jobs.
    CAIRN_DECL torch_save_writer(any_store store, torch_save_writer_options options,
                                 const job_executor& jobs);
    CAIRN_DECL explicit torch_save_writer(any_store store, torch_save_writer_options options = {});
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/storage/impl/torch_save_writer.ipp>
#endif

#endif
