// SPDX-License-Identifier: Apache-2.0
// A const tensor whose traits only view tensors that are not const.
// expect: a const tensor needs tensor_traits with a view\(const T&\)
// expect: mine::matrix
#include <cairn/state/state_dict.hpp>

namespace mine {
struct matrix {
    float values[4];
};
}  // namespace mine

template <>
struct cairn::tensor_traits<mine::matrix> {
    static tensor_view view(mine::matrix& m) { return {dtype::float32, {2, 2}, m.values}; }
#ifdef BASELINE
    static const_tensor_view view(const mine::matrix& m) {
        return {dtype::float32, {2, 2}, m.values};
    }
#endif
};

cairn::state_dict f(const mine::matrix& m) {
    return {{"m", m}};
}
cairn::shard g(const mine::matrix& m) {
    return cairn::shard({{0, 0}, {2, 2}}, m);
}
