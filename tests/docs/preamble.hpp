// SPDX-License-Identifier: Apache-2.0
// What the documents' examples take for granted: a user's types and variables.
#ifndef CAIRN_TESTS_DOCS_PREAMBLE_HPP
#define CAIRN_TESTS_DOCS_PREAMBLE_HPP

#include <cairn/cairn.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <iostream>
#include <vector>

namespace mine {
struct tensor {
    std::vector<std::int64_t> shape;
    float* data;
};
struct sharded {
    std::vector<std::int64_t> full_shape, offsets;
    tensor local;
};
sharded my_part(int rank, int size);
}  // namespace mine

extern std::vector<float> weights;
extern std::int64_t step, seed;
extern cairn::thread_group::member ranks;
extern cairn::tensor_view local;
extern cairn::device_mesh mesh;
extern float* memory;
extern std::int64_t begin, end;
extern int rank;

#endif
