// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_DETAIL_PAIRED_NEST_HPP
#define CAIRN_TENSOR_DETAIL_PAIRED_NEST_HPP

#include <cairn/detail/config.hpp>
#include <cairn/tensor/index_vector.hpp>
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
    void for_each_row(Row row) const;
};

/// Walks over the innermost rows of a nest, which must outlive it. Not a template, so that it is
/// compiled once instead of for each kind of row.
class row_walk {
public:
    explicit row_walk(const paired_nest& n)
        : from(n.from), to(n.to), loops_(n.loops.data()), outer_(n.loops.size() - 1),
          at_(outer_, 0) {}
    /// Moves to the next row.
    /// @return False after the last one.
    bool next() noexcept {
        std::int64_t* const at = at_.data();
        for (std::size_t d = outer_; d-- > 0;) {
            const paired_loop& l = loops_[d];
            from += l.from;
            to += l.to;
            if (++at[d] < l.count) return true;
            at[d] = 0;
            from -= l.from * l.count;
            to -= l.to * l.count;
        }
        return false;
    }

    const std::byte* from;
    std::byte* to;

private:
    const paired_loop* loops_;
    std::size_t outer_;
    index_vector at_;
};

template <class Row>
void paired_nest::for_each_row(Row row) const {
    const paired_loop innermost = loops.back();
    row_walk at(*this);
    do row(at.from, at.to, innermost);
    while (at.next());
}

/// Checks that the CPU can access both memories.
/// @throws error errc::invalid_argument
CAIRN_DECL void check_host_memory(const const_tensor_view& from, const tensor_view& to);

/// Returns the loop nest for two arrays, which may be memory of any device: nothing is accessed.
/// @throws error for different shapes, or a target that has one address for several elements.
/// @pre The nest is used only if `!to.empty()`.
CAIRN_DECL paired_nest make_nest(const const_tensor_view& from, const tensor_view& to);

/// Copies every element of a nest, whose memories the CPU can access: past its caches where these
/// would not keep what is written.
/// @param of_bytes  How much is written by all copies that this one is a part of. 0: this is all.
CAIRN_DECL void copy_nest(const paired_nest& n, std::size_t element_size,
                          std::uint64_t of_bytes = 0);

/// As @ref copy_elements, of a part of so many bytes that are written in turn.
CAIRN_DECL void copy_part(const const_tensor_view& from, const tensor_view& to,
                          std::uint64_t of_bytes);

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/tensor/impl/paired_nest.ipp>
#endif

#endif
