// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_TENSOR_ITEMS_HPP
#define CAIRN_FORMAT_TORCH_TENSOR_ITEMS_HPP

#include <cairn/format/torch/tensor_item.hpp>

#include <cstddef>
#include <deque>
#include <utility>

namespace cairn::format::torch {

/// Makes the items of many tensors, and keeps one of each kind: those of a model are of few kinds,
/// and making an item takes longer than writing a small tensor.
class tensor_items {
public:
    /// @return Valid until the next call.
    const tensor_item& of(const tensor_spec& s) {
        for (auto const& [spec, item] : kinds_)
            if (spec == s) return item;
        if (kinds_.size() == most) kinds_.pop_front();
        return kinds_.emplace_back(s, tensor_item(s)).second;
    }

private:
    /// Enough for the kinds of a transformer's weights, biases and optimizer states. Each takes at
    /// most twice the alignment of its payload.
    static constexpr std::size_t most = 16;

    std::deque<std::pair<tensor_spec, tensor_item>> kinds_{};
};

}  // namespace cairn::format::torch

#endif
