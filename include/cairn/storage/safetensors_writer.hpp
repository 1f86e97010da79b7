// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_SAFETENSORS_WRITER_HPP
#define CAIRN_STORAGE_SAFETENSORS_WRITER_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/layout_writer.hpp>
#include <cairn/storage/file_adder.hpp>
#include <cairn/tensor/dtype.hpp>

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

/// Options of a `safetensors_writer`: the coordinator's count, except the last two.
struct safetensors_writer_options {
    /// Bytes of elements in a file. A tensor that is larger has a file of its own. Not for an id
    /// that names one file.
    std::uint64_t max_file_size = 5'000'000'000;
    /// `__metadata__` of each file, besides `format`, which is `pt` unless this says otherwise.
    std::map<std::string, std::string, std::less<>> text{};
    /// What floating-point elements become, e.g. bfloat16: rounded to nearest even, as PyTorch's
    /// `to()` does. Integers and bools stay as they are, and all elements by default.
    std::optional<dtype> floats_as{};
    /// Of the names of a tied weight, the first for which this returns true is stored; otherwise
    /// the first one of the state.
    std::function<bool(std::string_view fqn)> prefers{};
    /// The CRC-32 of each tensor also stands in the `__metadata__` of its file, as `cairn_crc32`,
    /// which other readers ignore. Otherwise only an index has them, and a single file has none.
    bool checksums_in_files = false;
    /// Leaves out values, which the format does not have. Otherwise they are errors.
    bool skip_values = false;
    /// False: fail if something has the name already.
    bool overwrite = true;
    /// Called by the coordinator when all tensors are written, before anybody can see the
    /// directory: adds files to it, such as `config.json`. The other ranks wait: each piece of a
    /// file that is written restarts their `exchange_timeout`. Not for an id that names one file.
    std::function<void(const file_adder& put)> add_files{};
    /// Files and directories reach the disk before the target is replaced.
    bool sync_files = true;
    /// Number of threads with which each rank writes. 0: see @ref threads_per_rank.
    int thread_count = 0;
};

/// Saves tensors as safetensors files, as Hugging Face's libraries write them, from any number of
/// ranks: a save with this writer is an export, which `safetensors_reader`, `transformers` and all
/// others read.
///
/// The id of a checkpoint names a directory: `model.safetensors`, or several files with
/// `model.safetensors.index.json`. If it ends in `.safetensors`, it names a file.
///
/// All of it appears in one step, when it is complete: until then it is written in a hidden
/// directory beside it, `.NAME.saving-<save id>`, which a later save to the same id removes if this
/// one is killed. An existing directory is replaced as a whole: files that are no weights of this
/// format under the names above stay, as copies of what they are just before; a warning names those
/// that others change in the very step. The directory must not have directories in it, nor be a
/// checkpoint of PyTorch's format. A link is not replaced. What is new has the permissions of what
/// it replaces, but not its owner or group; files of another group, or with an access control list
/// of their own, give a group what they give all others. A process that has a file open, e.g. a
/// log, appends to the one that was replaced, where nobody finds it: keep logs elsewhere.
///
/// Over a @ref SharedWriteStore, each rank writes the long stretches of the files that it holds, in
/// whole pages; the rest, and everything over other stores, it puts aside in the hidden directory,
/// from where the coordinator moves it. Tensors of which a rank holds many short stretches, as
/// columns are, are thus written twice; the report says how much that was. The index has the CRC-32
/// of each tensor. Tied weights are stored under one name only; the report names the others.
///
/// A store that is no @ref RenamingStore, e.g. a bucket, has the files where they stay, and no
/// others of a directory are touched: one file exists when it is complete, and is not replaced. Of
/// several, or where others are replaced, the index is written last, on the condition that it is
/// still the one that was there, and the files have names with the save id. Small files of
/// `add_files` are written just before. The store must be a @ref BrowsableStore.
class safetensors_writer : public detail::layout_writer {
public:
    /// Directories below the current one, or absolute ones.
    explicit safetensors_writer(safetensors_writer_options options = {})
        : safetensors_writer(file_store(), std::move(options)) {}
    template <class Store>
        requires(!std::derived_from<Store, safetensors_writer> && ObjectStore<Store>)
    explicit safetensors_writer(Store store, safetensors_writer_options options = {})
        : safetensors_writer(any_store(std::move(store)), std::move(options)) {}
    /// @param jobs  Where the writer runs its jobs.
    CAIRN_DECL safetensors_writer(any_store store, safetensors_writer_options options,
                                  const job_executor& jobs);
    CAIRN_DECL explicit safetensors_writer(any_store store,
                                           safetensors_writer_options options = {});
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/storage/impl/safetensors_writer.ipp>
#endif

#endif
