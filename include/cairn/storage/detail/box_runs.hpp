// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_BOX_RUNS_HPP
#define CAIRN_STORAGE_DETAIL_BOX_RUNS_HPP

#include <cairn/tensor/box.hpp>
#include <cairn/tensor/index_vector.hpp>
#include <cairn/tensor/layout.hpp>

#include <cstddef>
#include <cstdint>

namespace cairn::detail {

/// The stretches of a tensor's elements, in row-major order, that a box consists of. All have the
/// same length.
class box_runs {
public:
    box_runs(const box& b, const index_vector& shape, std::size_t element) : box_(b) {
        strides_ = row_major_strides(shape);
        for (auto& s : strides_) s *= static_cast<std::int64_t>(element);
        leading_ = shape.size();
        std::int64_t n = static_cast<std::int64_t>(element);
        while (leading_ > 0) {
            --leading_;
            n *= b.shape[leading_];
            if (b.shape[leading_] != shape[leading_]) break;
        }
        bytes_ = static_cast<std::uint64_t>(n);
        for (std::size_t d = 0; d < leading_; ++d) count_ *= static_cast<std::size_t>(b.shape[d]);
        if (bytes_ == 0) count_ = 0;
    }
    std::size_t count() const noexcept { return count_; }
    /// The bytes of a run.
    std::uint64_t length() const noexcept { return bytes_; }
    /// Where a run begins, in bytes from the tensor's first element.
    std::uint64_t at(std::size_t k) const noexcept {
        std::int64_t at = 0;
        for (std::size_t d = strides_.size(); d-- > 0;) {
            auto index = box_.offsets[d];
            if (d < leading_) {
                auto const n = static_cast<std::size_t>(box_.shape[d]);
                index += static_cast<std::int64_t>(k % n);
                k /= n;
            }
            at += index * strides_[d];
        }
        return static_cast<std::uint64_t>(at);
    }

private:
    const box& box_;
    index_vector strides_{};
    std::size_t leading_ = 0;  ///< The dimensions whose indices a run does not contain.
    std::size_t count_ = 1;
    std::uint64_t bytes_ = 0;
};

}  // namespace cairn::detail

#endif
