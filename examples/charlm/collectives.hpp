// SPDX-License-Identifier: Apache-2.0
#ifndef CHARLM_COLLECTIVES_HPP
#define CHARLM_COLLECTIVES_HPP

#include <atomic>
#include <barrier>
#include <cstddef>
#include <span>
#include <stdexcept>
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

/// A rank stopped because another one had left; not the error to look at.
struct other_rank_left : std::runtime_error {
    other_rank_left() : std::runtime_error("another rank left the group") {}
};

/// What NCCL is to a trainer on GPUs, for threads: every rank calls the same operations in the same
/// order. Sums go in rank order, so that they come out the same every time.
class collectives {
public:
    explicit collectives(std::size_t ranks)
        : meet_(static_cast<std::ptrdiff_t>(ranks)), in_(ranks) {}

    std::size_t ranks() const { return in_.size(); }

    /// Everybody's shards, one after the other. @throws other_rank_left
    std::vector<float> all_gather(std::size_t rank, std::span<const float> mine, std::size_t n) {
        std::vector<float> whole;
        whole.reserve(n);
        exchange(rank, mine, [&] {
            for (auto s : in_) whole.insert(whole.end(), s.begin(), s.end());
        });
        return whole;
    }

    /// The sum over all ranks of the elements that this rank owns. @throws other_rank_left
    std::vector<float> reduce_scatter(std::size_t rank, std::span<const float> whole) {
        auto const mine = owned(whole.size(), rank, ranks());
        std::vector<float> sum(mine.size(), 0.0f);
        exchange(rank, whole, [&] {
            for (auto s : in_)
                for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += s[mine.begin + i];
        });
        return sum;
    }

    /// The sum of all ranks' numbers. @throws other_rank_left
    double all_reduce(std::size_t rank, float x) {
        auto const all = all_gather(rank, std::span(&x, 1), ranks());
        double sum = 0;
        for (auto v : all) sum += static_cast<double>(v);
        return sum;
    }

    /// This rank takes part no more: the others do not wait for it, they throw.
    void leave() {
        left_ = true;
        meet_.arrive_and_drop();
    }

private:
    /// Shows `mine` to all, and `look`s at what they show. `look` must not throw (it allocates
    /// nothing): what a rank shows must stay until all have looked.
    template <class Look>
    void exchange(std::size_t rank, std::span<const float> mine, Look look) {
        in_[rank] = mine;
        meet_.arrive_and_wait();
        // Whoever left before showing anything left an old span, of memory that may be gone. All
        // others see that here: nobody leaves between the two meetings.
        if (left_) throw other_rank_left();
        look();
        meet_.arrive_and_wait();
    }

    std::barrier<> meet_;
    std::atomic<bool> left_ = false;
    std::vector<std::span<const float>> in_;
};

}  // namespace charlm

#endif
