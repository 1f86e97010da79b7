// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_DETAIL_PIECE_BOXES_HPP
#define CAIRN_MAPPING_DETAIL_PIECE_BOXES_HPP

#include <cairn/mapping/detail/piece.hpp>
#include <cairn/tensor/box.hpp>
#include <cairn/tensor/convert.hpp>
#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/index_vector.hpp>
#include <cairn/tensor/view.hpp>

#include <boost/container/small_vector.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace cairn::map::detail {

constexpr side other(side s) noexcept {
    return s == side::source ? side::target : side::source;
}

/// A part of a piece that is a box of one of its tensors, and a strided view of the other one.
struct piece_box {
    /// Where an index of the box leads in the other tensor.
    struct way {
        std::uint32_t dim = 0;
        std::int64_t step = 0;
    };

    box region{};          ///< On the box's side.
    index_vector first{};  ///< Its first element, on the other side. Empty for a constant.
    boost::container::small_vector<way, 4> along{};  ///< For each dimension of the box.

    /// Returns the elements of the box in memory that holds a box of the other tensor.
    /// @param origin  Where the memory's box begins.
    template <class Byte>
    basic_tensor_view<Byte> view(const basic_tensor_view<Byte>& memory,
                                 const index_vector& origin) const {
        auto v = memory;
        v.shape = region.shape;
        v.strides = index_vector(region.rank(), 1);
        std::int64_t at = 0;
        for (std::size_t d = 0; d < first.size(); ++d)
            at += (first[d] - origin[d]) * memory.strides[d];
        for (std::size_t d = 0; d < along.size(); ++d)
            if (region.shape[d] > 1) v.strides[d] = along[d].step * memory.strides[along[d].dim];
        v.data += at * static_cast<std::int64_t>(size_of(v.type));
        return v;
    }
};

/// What a constant piece is made of: an element as a dtype has it.
class constant_element {
public:
    constant_element(double value, dtype type) : type_(type) {
        convert_elements({dtype::float64, {}, &value}, {type, {}, memory_.data()});
    }
    /// Returns a tensor of equal elements, which all are this one.
    const_tensor_view view(const index_vector& shape) const {
        return {type_, shape, index_vector(shape.size(), 0), memory_.data()};
    }

private:
    dtype type_;
    alignas(16) std::array<std::byte, 16> memory_{};
};

/// Divides a piece into boxes of the tensor on one side: of each dimension, the axis with step 1
/// stays whole, and the others are counted through.
/// @param f  Called with a `const piece_box&`, which is valid during the call.
template <class F>
void for_each_box(const piece& p, side s, F&& f) {
    auto const o = other(s);
    auto const rank = p.offsets(s).size();
    piece_box b;
    b.region = box(p.offsets(s), index_vector(rank, 1));
    b.along.resize(rank);
    if (!p.is_constant()) b.first = p.offsets(o);
    boost::container::small_vector<axis, 4> counted;
    for (auto const& a : p.axes) {
        if (a.step(s) != 1) {
            counted.push_back(a);
            continue;
        }
        b.region.shape[a.dim(s)] = a.extent;
        if (!p.is_constant()) b.along[a.dim(s)] = {a.dim(o), a.step(o)};
    }
    auto const move = [&](const axis& a, std::int64_t n) {
        b.region.offsets[a.dim(s)] += n * a.step(s);
        if (!p.is_constant()) b.first[a.dim(o)] += n * a.step(o);
    };
    boost::container::small_vector<std::int64_t, 4> at(counted.size(), 0);
    for (;;) {
        f(static_cast<const piece_box&>(b));
        auto k = counted.size();
        for (; k > 0; --k) {
            auto const& a = counted[k - 1];
            if (++at[k - 1] < a.extent) {
                move(a, 1);
                break;
            }
            at[k - 1] = 0;
            move(a, 1 - a.extent);
        }
        if (k == 0) return;
    }
}

/// Returns how many boxes `for_each_box` makes.
inline std::uint64_t count_boxes(const piece& p, side s) {
    std::uint64_t n = 1;
    for (auto const& a : p.axes)
        if (a.step(s) != 1) n *= static_cast<std::uint64_t>(a.extent);
    return n;
}

}  // namespace cairn::map::detail

#endif
