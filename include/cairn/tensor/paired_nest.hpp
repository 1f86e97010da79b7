// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_PAIRED_NEST_HPP
#define CAIRN_TENSOR_PAIRED_NEST_HPP

#include <cairn/detail/config.hpp>
#include <cairn/tensor/view.hpp>

#include <boost/container/small_vector.hpp>

#include <cstddef>
#include <cstdint>

namespace cairn::detail {

/// One loop of a nest over two arrays: iterations, and the step of each array in bytes.
struct paired_loop {
    std::int64_t count = 1;
    std::int64_t from = 0;
    std::int64_t to = 0;
};

/// A loop nest over two arrays of equal shape, in an order suited to the target: ascending target
/// addresses, neighbouring dimensions merged where both arrays allow it.
struct paired_nest {
    boost::container::small_vector<paired_loop, 6> loops;  ///< Outermost first; at least one.
    const std::byte* from = nullptr;
    std::byte* to = nullptr;

    /// Calls `row(from, to, innermost loop)` for each innermost row.
    template <class Row>
    void for_each_row(Row row) const {
        const std::size_t outer = loops.size() - 1;
        boost::container::small_vector<std::int64_t, 6> at(outer, 0);
        const std::byte* f = from;
        std::byte* t = to;
        for (;;) {
            row(f, t, loops[outer]);
            std::size_t d = outer;
            for (; d-- > 0;) {
                f += loops[d].from;
                t += loops[d].to;
                if (++at[d] < loops[d].count) break;
                at[d] = 0;
                f -= loops[d].from * loops[d].count;
                t -= loops[d].to * loops[d].count;
            }
            if (d == static_cast<std::size_t>(-1)) return;
        }
    }
};

/// @throws error unless the CPU can access both memories.
CAIRN_DECL void check_host_memory(const const_tensor_view& from, const tensor_view& to);

/// The memories may be of any device: nothing is accessed.
/// @throws error for different shapes, or a target that has one address for several elements.
/// @pre `!to.empty()` after the checks for the nest to be used.
CAIRN_DECL paired_nest make_nest(const const_tensor_view& from, const tensor_view& to);

/// Copies every element of a nest, whose memories the CPU can access.
CAIRN_DECL void copy_nest(const paired_nest& n, std::size_t element_size);

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/tensor/impl/paired_nest.ipp>
#endif

#endif
