// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_TORCH_SAVE_READER_HPP
#define CAIRN_STORAGE_TORCH_SAVE_READER_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/storage/chunk_reader.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace cairn {

namespace detail {
struct torch_save_parts;
}

/// Reads a file that `torch.save` wrote, from any ObjectStore; the id of the checkpoint is the
/// file's, e.g. `run/model.pt`. Both forms are read: the zip of PyTorch 1.6 and later, in either
/// byte order, and the stream of pickles before.
///
///     cairn::load(state, "model.pt", cairn::torch_save_reader(cairn::file_store(".")));
///
/// A directory with a `*.bin.index.json` is a model in several such files, as the hub of Hugging
/// Face has: the tensors that the index names are read from the files where it says that they are.
///
/// Nested dicts, and lists with a tensor or dict in them, are taken apart as DCP does:
/// `optimizer.state.0.exp_avg`. Tensors may share storages, and have any strides. Values of classes
/// that cairn does not know are kept as they are stored, with their tensors; the pickle is
/// interpreted and nothing in it executed. Tensors of other kinds (sparse, quantised, nested, of a
/// class of the user's) cannot be loaded, although everything else can: @ref
/// metadata::unsupported.
///
/// A zip has a CRC of each storage, so each rank reads the storages of what it wants whole; without
/// checksums, in the older form or after `set_crc32_options(False)`, only what it wants.
class torch_save_reader : public chunk_reader {
public:
    /// @param thread_count  See @ref chunk_reader.
    template <class Store>
        requires(!std::derived_from<Store, chunk_reader> && ObjectStore<Store>)
    explicit torch_save_reader(Store store, int thread_count = 0)
        : torch_save_reader(any_store(std::move(store)), thread_count) {}
    CAIRN_DECL explicit torch_save_reader(any_store store, int thread_count = 0);

    CAIRN_DECL void reset(const checkpoint_id& id);
    /// @throws error errc::not_found if there is no such file; errc::unsupported if it is not one
    /// of torch.save, or holds only an object that cairn does not know; errc::corrupt,
    /// errc::checksum_mismatch
    CAIRN_DECL metadata read_metadata();
    CAIRN_DECL void set_up_reader(const metadata& m, const storage_setup& me);
    void set_up_reader(metadata&&, const storage_setup&) = delete;
    bool items_stay_local() const noexcept { return true; }
    bool divides_chunks() const noexcept { return true; }

    /// Of the whole storage; takes no reads.
    CAIRN_DECL std::optional<chunk_checksum> checksum(const std::string& fqn, std::size_t chunk);

private:
    CAIRN_DECL torch_save_reader(any_store store, int thread_count,
                                 std::shared_ptr<detail::torch_save_parts> parts);

    std::shared_ptr<detail::torch_save_parts> parts_;
    checkpoint_id id_{};
    std::string ignored_{};           ///< A file beside those of an index, which is none of them.
    const metadata* meta_ = nullptr;  ///< The caller's, of the load that was set up.
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/storage/impl/torch_save_reader.ipp>
#endif

#endif
