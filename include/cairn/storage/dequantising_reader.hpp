// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DEQUANTISING_READER_HPP
#define CAIRN_STORAGE_DEQUANTISING_READER_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/torch_options.hpp>
#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

struct dequantise_options {
    /// The dtype of the weights; they are computed as float32 and rounded once.
    dtype type = dtype::float32;
    /// Rows and columns that share a scale of an FP8 weight, where `config.json` does not say it.
    std::optional<index_vector> block{};
};

/// Reads a checkpoint of any format like a @ref checkpoint_reader, but shows quantised weights as
/// what they stand for: elements times scales, in the shape of the model's tensor.
///
///     cairn::load(state, "hf_dir", cairn::dequantising_reader(cairn::file_store()));
///
/// Known are FP8 with a scale for each block, row, column or tensor (`weight_scale_inv`,
/// `weight_scale`), MXFP4 (`X_blocks` and `X_scales` become `X`, which is not transposed) and NVFP4
/// of ModelOpt and compressed-tensors. Tensors of scales are then not shown. They are found by
/// names, dtypes and shapes; the size of blocks is in `config.json` beside the weights. A quantised
/// tensor whose scales do not fit it cannot be loaded, although everything else can: @ref
/// metadata::unsupported. Scales of activations stay what they are.
///
/// Re-sharding reads the blocks that a rank wants; of a tensor with one checksum, all of it once.
/// Memory: beside that of the other reader, 36 MiB, and 2 MiB for each thread. Parts that ranks
/// send to each other are held whole.
///
/// One load at a time.
class dequantising_reader {
public:
    template <class Store>
        requires(!std::derived_from<Store, dequantising_reader> && ObjectStore<Store>)
    explicit dequantising_reader(Store store, dequantise_options options = {},
                                 const torch_reader_options& reading = {})
        : dequantising_reader(any_store(std::move(store)), std::move(options), reading) {}
    CAIRN_DECL explicit dequantising_reader(any_store store, dequantise_options options = {},
                                            const torch_reader_options& reading = {});
    CAIRN_DECL dequantising_reader(dequantising_reader&&) noexcept;
    CAIRN_DECL dequantising_reader& operator=(dequantising_reader&&) noexcept;
    CAIRN_DECL ~dequantising_reader();

    CAIRN_DECL void reset(const checkpoint_id& id);
    /// @throws error as `checkpoint_reader::read_metadata`; errc::unsupported if `config.json`
    /// names another method of quantisation; errc::invalid_argument for options that make no sense
    CAIRN_DECL metadata read_metadata();
    CAIRN_DECL void set_up_reader(const metadata& m, const storage_setup& me);
    void set_up_reader(metadata&&, const storage_setup&) = delete;
    CAIRN_DECL load_plan prepare_local_load_plan(load_plan plan);
    CAIRN_DECL std::vector<load_plan> prepare_global_load_plan(std::vector<load_plan> plans);
    bool items_stay_local() const noexcept { return true; }
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
#include <cairn/storage/impl/dequantising_reader.ipp>
#endif

#endif
