// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_INTERCHANGE_TRAINER_RANKS_HPP
#define CAIRN_TEST_INTERCHANGE_TRAINER_RANKS_HPP

#include "shape.hpp"

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/deadline.hpp>
#include <cairn/comm/split.hpp>
#include <cairn/comm/tcp_group.hpp>
#include <cairn/completion.hpp>

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

namespace trainer {

/// What every rank of a group has, one after the other.
template <class Real>
std::vector<Real> gathered(cairn::tcp_group& group, const std::vector<Real>& mine) {
    auto const* const first = reinterpret_cast<const std::byte*>(mine.data());
    cairn::message m(first, first + mine.size() * sizeof(Real));
    auto const all = cairn::await_completion<std::vector<cairn::message>>(
        [&](auto done) { group.all_gather(std::move(m), cairn::no_deadline, std::move(done)); });
    std::vector<Real> out;
    for (auto const& one : all) {
        auto const at = out.size();
        out.resize(at + one.size() / sizeof(Real));
        if (!one.empty()) std::memcpy(out.data() + at, one.data(), one.size());
    }
    return out;
}

/// All-reduce. The order of the sum is that of the ranks, so that all have the same bits.
inline void sum_up(cairn::tcp_group& group, reals& values) {
    auto const all = gathered(group, values);
    auto const n = values.size();
    for (std::size_t i = 0; i < n; ++i) {
        values[i] = 0;
        for (auto k = i; k < all.size(); k += n) values[i] += all[k];
    }
}

/// Ranks in a grid: tensor parallel groups of two neighbours; ranks that have the same part of each
/// tensor, in different groups, divide that part: FSDP.
struct ranks {
    static constexpr int parts = 2;

    explicit ranks(cairn::tcp_group& group)
        : all(group), tensor_parallel(cairn::split(group, group.rank() / parts)),
          sharded(cairn::split(group, group.rank() % parts)) {}

    cairn::tcp_group& all;
    cairn::tcp_group tensor_parallel, sharded;
};

}  // namespace trainer

#endif
