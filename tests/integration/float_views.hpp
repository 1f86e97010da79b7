// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_INTEGRATION_FLOAT_VIEWS_HPP
#define CAIRN_TEST_INTEGRATION_FLOAT_VIEWS_HPP

#include <cairn/tensor/view.hpp>

#include <cstddef>
#include <numeric>
#include <vector>

/// Tensors whose elements are numbers in their order.
namespace float_views {

inline std::vector<float> numbers(std::size_t n, float first = 0) {
    std::vector<float> v(n);
    std::iota(v.begin(), v.end(), first);
    return v;
}
inline cairn::tensor_view view(std::vector<float>& v, const cairn::index_vector& shape) {
    return {cairn::dtype::float32, shape, v.data()};
}

}  // namespace float_views

#endif
