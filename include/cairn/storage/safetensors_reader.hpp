// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_SAFETENSORS_READER_HPP
#define CAIRN_STORAGE_SAFETENSORS_READER_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/storage/chunk_reader.hpp>

#include <concepts>
#include <string>
#include <utility>

namespace cairn {

/// Reads safetensors files as they are, from any ObjectStore: Hugging Face's directories, what
/// PyTorch's DCP writes for each rank (`HuggingFaceStorageWriter`), or a file.
///
/// The id of a checkpoint is that of a directory, or of one file. In a directory
/// - an index, `*.safetensors.index.json`, is authoritative: it names the file of each tensor, also
///   in directories below; files that it does not name are ignored;
/// - otherwise there is `model.safetensors`;
/// - otherwise all `*.safetensors` files belong together: each has other tensors, or other shards
///   of them, which `DCP_SHARDING_INFO` places.
///
/// Names that begin with `.` are no part of it.
///
/// Tensors have the dtypes of @ref format::safetensors::dtypes; there are no values. An index
/// that cairn has written has a checksum of each tensor, as a file has if it was asked for
/// (`checksums_in_files`): a load of the whole tensor compares it; parts, and files without
/// checksums, are reported as unverified. A file that is replaced or written after its header was
/// read is noticed by its version (@ref VersionedReadStore) on the coordinator, and otherwise only
/// by its size.
///
/// The coordinator reads the headers, several at a time. One load at a time.
class safetensors_reader : public chunk_reader {
public:
    /// @param thread_count  See @ref chunk_reader.
    template <class Store>
        requires(!std::derived_from<Store, chunk_reader> && ObjectStore<Store>)
    explicit safetensors_reader(Store store, int thread_count = 0)
        : safetensors_reader(any_store(std::move(store)), thread_count) {}
    CAIRN_DECL explicit safetensors_reader(any_store store, int thread_count = 0);

    CAIRN_DECL void reset(const checkpoint_id& id);
    /// @throws error errc::not_found if there is neither such a file nor a directory with some;
    /// errc::corrupt for a file that contradicts itself, the index or another file, naming both;
    /// errc::unsupported for a file of another format, or a header larger than safetensors allows
    CAIRN_DECL metadata read_metadata();
    CAIRN_DECL void set_up_reader(const metadata& m, const storage_setup& me);
    void set_up_reader(metadata&&, const storage_setup&) = delete;
    bool items_stay_local() const noexcept { return true; }
    bool divides_chunks() const noexcept { return true; }

private:
    checkpoint_id id_{};
    int threads_;
    std::string ignored_{};  ///< A file beside those of an index, which is none of them.
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/storage/impl/safetensors_reader.ipp>
#endif

#endif
