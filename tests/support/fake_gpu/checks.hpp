// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_FAKE_GPU_CHECKS_HPP
#define CAIRN_TEST_SUPPORT_FAKE_GPU_CHECKS_HPP

#include "support/error_codes.hpp"
#include "support/fake_gpu/cuda.hpp"

#include <cairn/error.hpp>
#include <cairn/memory/any_memory_space.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>

/// What tests over the fake GPU share.
namespace support {

/// No rule of CUDA's was broken, and no more handles are left than that.
inline void check_clean(const fake_gpu& gpu, std::size_t in_use = 0) {
    for (auto const& rule : gpu.broken_rules()) BOOST_ERROR("a rule was broken: " + rule);
    BOOST_TEST(gpu.in_use() == in_use);
}

/// Until all copies of the queue have completed.
inline void wait(cairn::any_copy_queue& q) {
    auto const t = q.record();
    while (!q.reached(t)) {
    }
}

inline cairn::const_tensor_view bytes_at(const std::byte* at, std::size_t n, int device = 0) {
    return {cairn::dtype::u8, {static_cast<std::int64_t>(n)}, at, on_gpu(device)};
}

}  // namespace support

#endif
