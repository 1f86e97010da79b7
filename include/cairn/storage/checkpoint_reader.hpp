// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_CHECKPOINT_READER_HPP
#define CAIRN_STORAGE_CHECKPOINT_READER_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/torch_options.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

/// Reads a checkpoint of any format that cairn knows, whichever is there: loads use it if no reader
/// is passed.
///
/// An id that names a file is that file: one of safetensors, or of `torch.save` if the name ends in
/// `.pt`, `.pth`, `.bin` or `.ckpt`. In a place there is a checkpoint of PyTorch's DCP if it
/// has a `.metadata`, otherwise what a @ref safetensors_reader finds. The coordinator finds out,
/// and all ranks read the same format.
///
/// One load at a time.
class checkpoint_reader {
public:
    template <class Store>
        requires(!std::derived_from<Store, checkpoint_reader> && ObjectStore<Store>)
    explicit checkpoint_reader(Store store, const torch_reader_options& options = {})
        : checkpoint_reader(any_store(std::move(store)), options) {}
    CAIRN_DECL explicit checkpoint_reader(const any_store& store,
                                          const torch_reader_options& options = {});
    CAIRN_DECL checkpoint_reader(checkpoint_reader&&) noexcept;
    CAIRN_DECL checkpoint_reader& operator=(checkpoint_reader&&) noexcept;
    CAIRN_DECL ~checkpoint_reader();

    /// Relocates the store to a checkpoint, if the store supports that; an empty id keeps the
    /// place.
    CAIRN_DECL void reset(const checkpoint_id& id);
    /// @throws error as the reader of the format; as a @ref torch_reader if there is none
    CAIRN_DECL metadata read_metadata();
    CAIRN_DECL stored_index read_index();
    CAIRN_DECL void set_up_reader(const metadata& m, const storage_setup& me);
    void set_up_reader(metadata&&, const storage_setup&) = delete;
    CAIRN_DECL load_plan prepare_local_load_plan(load_plan plan);
    CAIRN_DECL std::vector<load_plan> prepare_global_load_plan(std::vector<load_plan> plans);
    bool items_stay_local() const noexcept { return true; }
    bool divides_chunks() const noexcept { return true; }
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
#include <cairn/storage/impl/checkpoint_reader.ipp>
#endif

#endif
