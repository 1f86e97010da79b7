// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_READ_SLABS_HPP
#define CAIRN_OBJECT_STORE_DETAIL_READ_SLABS_HPP

#include <cairn/memory/detail/slab.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

namespace cairn::detail {

/// Memory for uncached reads, which the threads of one load share. Memory that a device writes to
/// must be aligned, and no fork may take it away meanwhile; a user's memory is aligned only by
/// chance.
///
/// Thread-safe.
class read_slabs {
public:
    /// Large, because a virtual disk takes about as long for a request whatever its size.
    static constexpr std::size_t piece_bytes = std::size_t{4} << 20;
    /// A piece that begins and ends within blocks needs two more; slabs are of whole pages.
    static constexpr std::size_t slab_bytes = piece_bytes + (std::size_t{128} << 10);
    /// Limits the memory of all threads of a rank to less than 25 MiB. More would not be faster.
    static constexpr std::size_t most = 6;

    read_slabs() = default;
    read_slabs(read_slabs&&) = delete;

    /// @return Null if all are in use, or memory cannot be mapped. Without memory for its pages the
    /// read fails.
    std::unique_ptr<slab> take() noexcept {
        {
            std::lock_guard const lock(m_);
            if (idle_ != 0) return std::move(slabs_[--idle_]);
            if (made_ == most) return nullptr;
            ++made_;
        }
        try {
            // Where files cannot be read so, nothing is read into it: then it takes no memory.
            return std::make_unique<slab>(slab_bytes, 0U);
        } catch (...) {
            std::lock_guard const lock(m_);
            --made_;
            return nullptr;
        }
    }
    void give_back(std::unique_ptr<slab> s) noexcept {
        std::lock_guard const lock(m_);
        slabs_[idle_++] = std::move(s);
    }

private:
    std::mutex m_{};
    std::size_t made_ = 0, idle_ = 0;
    std::array<std::unique_ptr<slab>, most> slabs_{};  ///< The first are idle.
};

/// A slab lent to a thread while it reads one payload; taken when it is first needed.
class lent_slab {
public:
    /// @param from  Null: none is lent.
    explicit lent_slab(read_slabs* from) noexcept : from_(from) {}
    lent_slab(lent_slab&&) = delete;
    ~lent_slab() {
        if (slab_) from_->give_back(std::move(slab_));
    }

    /// @return Empty if there is none.
    std::span<std::byte> memory() noexcept {
        if (!slab_ && from_ != nullptr) slab_ = from_->take();
        return slab_ ? slab_->memory() : std::span<std::byte>();
    }

private:
    read_slabs* from_;
    std::unique_ptr<slab> slab_{};
};

}  // namespace cairn::detail

#endif
