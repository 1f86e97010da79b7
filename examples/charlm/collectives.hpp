// SPDX-License-Identifier: Apache-2.0
#ifndef CHARLM_COLLECTIVES_HPP
#define CHARLM_COLLECTIVES_HPP

#include <barrier>
#include <cstddef>
#include <span>
#include <vector>

namespace charlm {

/// Which elements of a flattened parameter of n rank r of `ranks` owns.
struct range {
    std::size_t begin, end;
    std::size_t size() const { return end - begin; }
};
inline range owned(std::size_t n, std::size_t r, std::size_t ranks) {
    return {n * r / ranks, n * (r + 1) / ranks};
}

/// What NCCL is to a trainer on GPUs, for threads: every rank calls the same operations in the same
/// order. Sums go in rank order, so that they come out the same every time.
class collectives {
public:
    explicit collectives(std::size_t ranks)
        : meet_(static_cast<std::ptrdiff_t>(ranks)), in_(ranks) {}

    std::size_t ranks() const { return in_.size(); }

    /// Everybody's shards, one after the other.
    std::vector<float> all_gather(std::size_t rank, std::span<const float> mine, std::size_t n) {
        in_[rank] = mine;
        meet_.arrive_and_wait();
        std::vector<float> whole;
        whole.reserve(n);
        for (auto s : in_) whole.insert(whole.end(), s.begin(), s.end());
        meet_.arrive_and_wait();
        return whole;
    }

    /// The sum over all ranks of the elements that this rank owns.
    std::vector<float> reduce_scatter(std::size_t rank, std::span<const float> whole) {
        in_[rank] = whole;
        meet_.arrive_and_wait();
        auto const [begin, end] = owned(whole.size(), rank, ranks());
        std::vector<float> sum(end - begin, 0.0f);
        for (auto s : in_)
            for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += s[begin + i];
        meet_.arrive_and_wait();
        return sum;
    }

    double all_reduce(std::size_t rank, float x) {
        auto const all = all_gather(rank, std::span(&x, 1), ranks());
        double sum = 0;
        for (auto v : all) sum += static_cast<double>(v);
        return sum;
    }

    /// This rank takes part no more: the others do not wait for it.
    void leave() { meet_.arrive_and_drop(); }

private:
    std::barrier<> meet_;
    std::vector<std::span<const float>> in_;
};

}  // namespace charlm

#endif
