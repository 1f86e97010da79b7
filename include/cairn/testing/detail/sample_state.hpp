// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTING_DETAIL_SAMPLE_STATE_HPP
#define CAIRN_TESTING_DETAIL_SAMPLE_STATE_HPP

#include <cairn/state/state_dict.hpp>
#include <cairn/tensor/mesh.hpp>
#include <cairn/tensor/sharded_tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace cairn::testing::detail {

/// One rank's share of a state whose every byte follows from a seed: several dtypes and ranks, 0-d
/// and empty tensors, whole ones that all ranks hold and ones split along their rows (unevenly; on
/// many ranks some hold nothing), one in transposed memory, and values.
class sample_state {
public:
    /// @param strided  False leaves out the tensor in transposed memory.
    /// @param values   False leaves out values.
    sample_state(int rank, int ranks, int seed, bool strided = true, bool values = true)
        : rank_(rank), ranks_(ranks) {
        add("rows", dtype::float32, {7, 3}, true, seed);
        add("complex", dtype::complex64, {4, 2}, true, seed);
        add("large", dtype::float32, {50000}, true, seed);
        add("scalar", dtype::float64, {}, false, seed);
        add("empty", dtype::int64, {0, 3}, false, seed);
        add("deep", dtype::bfloat16, {2, 1, 3, 1, 2}, false, seed);
        add("flags", dtype::boolean, {5}, false, seed);
        add("odd", dtype::uint8, {3}, false, seed);
        if (strided) add("transposed", dtype::float32, {3, 4}, false, seed, true);
        if (!values) return;
        values_["step"] = number(seed);
        values_["name"] = "run " + std::to_string(seed);
        values_["nothing"] = value();
        values_["lr"] = 0.5 * seed;
        values_["list"] = value::list_t{value(seed), value("two"), value(3.0)};
    }

    /// Views and references to what this object holds.
    cairn::state_dict state_dict() {
        cairn::state_dict d;
        for (auto& p : parts_) {
            tensor_view v(p.type, p.region.shape, p.bytes.data());
            if (p.transposed) v.strides = {1, p.region.shape[0]};
            if (p.sharded)
                d[p.fqn] = sharded_view{p.global_shape, p.type, {shard(p.region, v)}};
            else
                d[p.fqn] = v;
        }
        for (auto& [fqn, v] : values_) d[fqn] = std::ref(v);
        return d;
    }
    void load_state_dict(const cairn::state_dict&) {}

    /// Overwrites every byte and value, to see what a load fills.
    void wipe() {
        for (auto& p : parts_) p.bytes.assign(p.bytes.size(), std::byte{0xee});
        for (auto& [fqn, v] : values_) v = "wiped";
    }
    bool wiped() const {
        for (auto const& p : parts_)
            for (auto b : p.bytes)
                if (b != std::byte{0xee}) return false;
        for (auto const& [fqn, v] : values_)
            if (!(v == value("wiped"))) return false;
        return true;
    }
    /// Names of the entries that differ, bit by bit, from a state of another seed; empty if none.
    std::string difference(int seed) const {
        sample_state const want(rank_, ranks_, seed, parts_.back().transposed, !values_.empty());
        std::string names;
        for (std::size_t i = 0; i < parts_.size(); ++i)
            if (parts_[i].bytes != want.parts_[i].bytes) names += parts_[i].fqn + " ";
        for (auto const& [fqn, v] : values_)
            if (!(v == want.values_.at(fqn))) names += fqn + " ";
        return names;
    }

private:
    struct part {
        std::string fqn{};
        dtype type = dtype::float32;
        index_vector global_shape{};
        bool sharded = false;
        bool transposed = false;
        box region{};
        std::vector<std::byte> bytes{};
    };

    static value number(int seed) { return value(std::int64_t{1} << 40 | seed); }

    void add(std::string fqn, dtype type, index_vector global, bool sharded, int seed,
             bool transposed = false) {
        part p{std::move(fqn), type, std::move(global), sharded, transposed, {}, {}};
        p.region = box::whole(p.global_shape);
        if (sharded)
            p.region =
                boxes_of(p.global_shape, device_mesh::line(ranks_), {shard_along{0}}, rank_).at(0);
        std::size_t row = size_of(type);
        for (std::size_t d = 1; d < p.global_shape.size(); ++d)
            row *= static_cast<std::size_t>(p.global_shape[d]);
        std::size_t const first =
            p.global_shape.empty() ? 0 : static_cast<std::size_t>(p.region.offsets[0]) * row;
        p.bytes.resize(static_cast<std::size_t>(p.region.volume()) * size_of(type));
        for (std::size_t i = 0; i < p.bytes.size(); ++i) {
            auto const n = (first + i) * 31 + static_cast<std::size_t>(seed) * 7 + p.fqn.size();
            p.bytes[i] = static_cast<std::byte>(type == dtype::boolean ? n & 1 : n ^ (n >> 8));
        }
        parts_.push_back(std::move(p));
    }

    int rank_;
    int ranks_;
    std::vector<part> parts_;
    std::map<std::string, value> values_;
};

}  // namespace cairn::testing::detail

#endif
