// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_INTERCHANGE_TRAINER_PARAMETER_HPP
#define CAIRN_TEST_INTERCHANGE_TRAINER_PARAMETER_HPP

#include "ranks.hpp"
#include "shape.hpp"
#include "training/adamw.hpp"
#include "training/executor.hpp"

#include <cairn/tensor/box.hpp>
#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/index_vector.hpp>
#include <cairn/tensor/local_layout.hpp>
#include <cairn/tensor/sharded_tensor.hpp>
#include <cairn/tensor/traits.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace trainer {

/// How tensor parallelism divides a tensor: each stretch of one dimension, e.g. all queries, all
/// keys, all values, is divided between the ranks.
struct division {
    int dim = -1;  ///< -1: each rank has all of it.
    std::vector<std::int64_t> stretches{};
};

/// Elements of a parameter, or of a moment of it, that this rank holds: FSDP's part, flat and
/// contiguous, of the array that tensor parallelism gives to this rank.
struct flat_part {
    cairn::local_layout array{};
    std::int64_t begin = 0, end = 0;
    std::vector<float> elements{};
};

/// A parameter and what Adam keeps for it.
class parameter {
public:
    parameter(ranks& grid, cairn::index_vector shape, const division& how)
        : grid_(&grid), array_(layout(std::move(shape), how, grid.tensor_parallel.rank())),
          begin_(first_of(grid.sharded.rank())), end_(first_of(grid.sharded.rank() + 1)),
          weights_(part()), average_(part()), squares_(part()) {}

    /// Brings together the tensor parallel array, for forward and backward passes.
    void gather() {
        auto const all = gathered(grid_->sharded, weights_.elements);
        values_.assign(all.begin(), all.end());
        gradient_.assign(all.size(), 0);
    }
    /// @param index  Of a first dimension that counts layers, or layers and experts.
    const double* values(std::int64_t index, std::int64_t of) const {
        return values_.data() + offset(index, of);
    }
    double* gradient(std::int64_t index, std::int64_t of) {
        return gradient_.data() + offset(index, of);
    }
    /// Adam's step, with the mean of what the ranks found.
    void update(double rate) {
        sum_up(grid_->sharded, gradient_);
        std::vector<float> mine;
        for (auto i = begin_; i < end_; ++i)
            mine.push_back(
                static_cast<float>(gradient_[static_cast<std::size_t>(i)] / grid_->sharded.size()));
        step_ += 1;
        training::host_executor().for_each(
            end_ - begin_,
            training::adamw<float>(weights_.elements.data(), average_.elements.data(),
                                   squares_.elements.data(), mine.data(), rate, 0,
                                   static_cast<std::int64_t>(step_)));
    }

    flat_part& weights() noexcept { return weights_; }
    flat_part& average() noexcept { return average_; }
    flat_part& squares() noexcept { return squares_; }
    /// As PyTorch's Adam has it: a tensor of one number for each parameter.
    float& step() noexcept { return step_; }

private:
    static cairn::local_layout layout(cairn::index_vector shape, const division& how, int rank) {
        std::vector<cairn::box> boxes;
        std::int64_t begin = 0;
        for (auto const n : how.stretches) {
            auto const mine = n / ranks::parts;
            auto box = cairn::box::whole(shape);
            box.offsets[static_cast<std::size_t>(how.dim)] = begin + rank * mine;
            box.shape[static_cast<std::size_t>(how.dim)] = mine;
            boxes.push_back(std::move(box));
            begin += n;
        }
        if (how.dim < 0) boxes.push_back(cairn::box::whole(shape));
        return cairn::packed_layout(std::move(shape), boxes);
    }
    /// FSDP's ranks divide the array anywhere, mostly within a row.
    std::int64_t first_of(int rank) const {
        auto const n = array_.local_shape.product();
        auto const size = grid_->sharded.size();
        return rank == size ? n : n * rank / size + rank;
    }
    flat_part part() const {
        return {array_, begin_, end_, std::vector<float>(static_cast<std::size_t>(end_ - begin_))};
    }
    std::int64_t offset(std::int64_t index, std::int64_t of) const {
        return index * (static_cast<std::int64_t>(values_.size()) / of);
    }

    ranks* grid_;
    cairn::local_layout array_;
    std::int64_t begin_, end_;
    flat_part weights_, average_, squares_;
    float step_ = 0;
    reals values_{}, gradient_{};
};

}  // namespace trainer

template <>
struct cairn::shard_traits<trainer::flat_part> {
    static const index_vector& global_shape(const trainer::flat_part& p) {
        return p.array.global_shape;
    }
    static std::vector<shard> shards(trainer::flat_part& p) {
        return flat_shards(p.array, p.begin, p.end, p.elements.data(), dtype::float32).shards;
    }
    static dtype element_type(const trainer::flat_part&) { return dtype::float32; }
};

#endif
