// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CONVERT_OPTIONS_HPP
#define CAIRN_CONVERT_OPTIONS_HPP

#include <cairn/mapping/mapping.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/save/options.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/dequantising_reader.hpp>
#include <cairn/tensor/convert.hpp>
#include <cairn/tensor/dtype.hpp>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

/// The checkpoint that is converted: a place of any format that @ref checkpoint_reader knows, or a
/// file.
struct convert_source {
    convert_source(checkpoint_id path) : store(file_store()), id(std::move(path)) {}
    convert_source(const char* path) : convert_source(checkpoint_id(path)) {}
    template <ObjectStore Store>
    convert_source(Store s, checkpoint_id of) : store(std::move(s)), id(std::move(of)) {}

    any_store store;
    checkpoint_id id;
};

struct convert_options {
    /// Which tensors and values are converted; empty: all. Where none of a source's is
    /// converted, nothing is written: errc::invalid_argument, or errc::unsupported.
    std::function<bool(std::string_view fqn)> wants{};
    /// Quantised weights become the numbers that they stand for; by default they stay as stored.
    std::optional<dequantise_options> dequantise{};
    /// With a @ref mapping: the source has the names of the state, and what is written has those of
    /// the checkpoint that the mapping is made for.
    bool map_back = false;
    /// What floating-point tensors become; by default each keeps its dtype. Codes and scales of
    /// quantised weights, of any form, become nothing else: errc::invalid_argument, unless
    /// `dequantise` makes weights of them. They are found by names, and by the `config.json` beside
    /// them.
    std::optional<dtype> floats_as{};
    /// Each tensor is cut along this dimension, as DTensor's `Shard` does, one shard for each rank;
    /// a tensor without this dimension is written by one of them.
    int dim = 0;
    /// The coordinator announces that it reads the source, as @ref torch_reader_options::announce.
    bool announce = false;
    save_options save{};

    bool converts(std::string_view fqn) const { return !wants || wants(fqn); }
    /// What the elements of a tensor become.
    dtype type_of(dtype stored) const { return with_floats_as(stored, floats_as); }
};

struct convert_report {
    save_report saved{};
    /// What this rank has read without a checksum, as in a @ref load_report.
    std::vector<std::string> unverified{};
    /// Stored names that were left out: tensors of which this version does not know how they are
    /// stored, and what a mapping does not use while it makes something else under that name.
    std::vector<std::string> left_out{};
};

}  // namespace cairn

#endif
