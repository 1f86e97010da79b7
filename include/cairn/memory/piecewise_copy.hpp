// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_PIECEWISE_COPY_HPP
#define CAIRN_MEMORY_PIECEWISE_COPY_HPP

#include <cairn/detail/config.hpp>
#include <cairn/memory/concepts.hpp>
#include <cairn/tensor/detail/paired_nest.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn {

/// The effect of a copy on the CPU's caches.
enum class store_hint : std::uint8_t {
    streaming,  ///< Nothing: the bytes are next used after much else has been copied.
    cached,     ///< The bytes, e.g. for a checksum that follows at once.
};

/// The copy of one strided array to another, cut into pieces of about equal size that can be copied
/// in any order and at the same time: by the threads of a pool, or by a device's queue.
///
/// It holds addresses, not elements: both memories outlive the copies. Strides may be any that
/// @ref copy_elements supports.
class piecewise_copy {
public:
    /// @param piece_bytes  The size of the largest piece, unless one element is larger. All others
    ///                     are at least a quarter as large, except for the last. Arrays that are
    ///                     contiguous on both sides are cut at multiples of it.
    /// @throws error dtype_mismatch, shape_mismatch, or invalid_argument (a target with stride 0)
    piecewise_copy(const const_tensor_view& from, const tensor_view& to, std::size_t piece_bytes);

    /// The number of pieces; 0 for arrays without elements.
    std::size_t pieces() const noexcept { return pieces_; }
    /// Returns the bytes of piece `k`. @pre `k < pieces()`
    std::size_t bytes_of(std::size_t k) const;

    /// Copies piece `k` on the calling thread. Afterwards any thread can read it that synchronises
    /// with this one.
    /// @throws error invalid_argument unless both arrays are in host memory
    void copy(std::size_t k, store_hint hint = store_hint::streaming) const;

    /// Appends piece `k` to `out` as the smallest number of copies that a device's queue can make:
    /// one if the arrays differ by at most one pitch.
    void append(std::size_t k, std::vector<pitched_copy>& out) const;

private:
    static constexpr std::size_t largest_piece = std::size_t{1} << 62;

    static std::size_t elements(const detail::paired_nest& n);
    /// Pieces are ranges of one loop, with everything inside it, for each round of those outside.
    void cut(std::int64_t piece_bytes);
    detail::paired_nest piece(std::size_t k) const;

    detail::paired_nest nest_{};
    std::size_t element_size_;
    bool on_host_;
    std::size_t split_ = 0;
    std::int64_t rounds_ = 1;     ///< Of loop `split_` in a piece …
    std::int64_t longer_ = 0;     ///< … and one more in so many of the first pieces.
    std::int64_t per_outer_ = 1;  ///< Pieces for each round of the loops outside it.
    std::size_t pieces_ = 0;
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/memory/impl/piecewise_copy.ipp>
#endif

#endif
