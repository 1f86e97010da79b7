// SPDX-License-Identifier: Apache-2.0
#ifndef CHARLM_COLLECTIVES_HPP
#define CHARLM_COLLECTIVES_HPP

#include <cairn/comm/any_communicator.hpp>

#include <cstddef>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace charlm {

/// The elements of a flattened parameter of n that rank r of `ranks` owns.
struct range {
    std::size_t begin, end;
    std::size_t size() const { return end - begin; }
};
inline range owned(std::size_t n, std::size_t r, std::size_t ranks) {
    return {n * r / ranks, n * (r + 1) / ranks};
}

/// Collective operations, as NCCL provides them to a trainer on GPUs: every rank calls the same
/// operations in the same order. Sums are in rank order, so that results are reproducible. Uses a
/// group of its own, because a trainer's traffic is independent of the group that saves
/// checkpoints.
class collectives {
public:
    explicit collectives(cairn::any_communicator group) : group_(std::move(group)) {}

    std::size_t rank() const { return static_cast<std::size_t>(group_.rank()); }
    std::size_t ranks() const { return static_cast<std::size_t>(group_.size()); }

    /// Returns all ranks' shards, one after the other.
    std::vector<float> all_gather(std::span<const float> mine) {
        std::vector<float> whole;
        for (auto const& m : exchange(mine)) whole.insert(whole.end(), m.begin(), m.end());
        return whole;
    }
    /// Returns the sum over all ranks of the elements that this rank owns.
    std::vector<float> reduce_scatter(std::span<const float> whole) {
        auto const mine = owned(whole.size(), rank(), ranks());
        std::vector<float> sum(mine.size(), 0.0f);
        for (auto const& m : exchange(whole))
            for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += m[mine.begin + i];
        return sum;
    }
    /// Returns the sum of all ranks' numbers.
    double all_reduce(float x) {
        double sum = 0;
        for (auto v : all_gather(std::span(&x, 1))) sum += static_cast<double>(v);
        return sum;
    }

private:
    /// Returns each rank's argument, in rank order.
    std::vector<std::vector<float>> exchange(std::span<const float> mine) {
        auto const bytes = std::as_bytes(mine);
        auto const got = cairn::await_completion<std::vector<cairn::message>>([&](auto done) {
            group_.all_gather({bytes.begin(), bytes.end()}, cairn::no_deadline, std::move(done));
        });
        std::vector<std::vector<float>> all;
        for (auto const& m : got) {
            all.emplace_back(m.size() / sizeof(float));
            if (!m.empty()) std::memcpy(all.back().data(), m.data(), m.size());
        }
        return all;
    }

    cairn::any_communicator group_;
};

}  // namespace charlm

#endif
