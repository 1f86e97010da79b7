// SPDX-License-Identifier: Apache-2.0
// The primary template is undefined so that the compiler names the one thing to do.
// expect: incomplete type|undefined template
// expect: tensor_traits<mine::matrix>
#include <cairn/tensor/traits.hpp>

namespace mine {
struct matrix {
    float values[4];
};
}  // namespace mine

#ifdef BASELINE
template <>
struct cairn::tensor_traits<mine::matrix> {
    static tensor_view view(mine::matrix& m) { return {dtype::float32, {2, 2}, m.values}; }
};
#endif

cairn::tensor_view f(mine::matrix& m) {
    return cairn::tensor_traits<mine::matrix>::view(m);
}
