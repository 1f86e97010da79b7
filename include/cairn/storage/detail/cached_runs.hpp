// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_CACHED_RUNS_HPP
#define CAIRN_STORAGE_DETAIL_CACHED_RUNS_HPP

#include <cairn/storage/detail/box_runs.hpp>
#include <cairn/storage/detail/wanted_chunk.hpp>
#include <cairn/storage/open_file.hpp>
#include <cairn/tensor/layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn::detail {

/// A part of a chunk as the runs of bytes that it consists of, each of which is read into its
/// place: the bytes between them are not touched. That is faster where memory of this host has the
/// bytes, and the gaps are not small: a call takes as long as copying some 3 KB.
class cached_runs {
public:
    static constexpr std::uint64_t least_gap = 4096;

    /// @param c  Row-major, with one part; outlives this.
    explicit cached_runs(const wanted_chunk& c)
        : part_(c.parts.front()), runs_(part_.from, c.stored.shape, c.element()),
          first_(c.span(part_.from).first) {
        auto const& to = part_.to;
        suitable_ = runs_.count() > 1 && to.type == c.stored.type && is_row_major(to) &&
                    runs_.at(1) - runs_.at(0) - runs_.length() >= least_gap;
    }
    /// Whether the runs can be read into their places, and their gaps are long enough.
    bool are_suitable() const noexcept { return suitable_; }

    /// Reads what bytes [at, at+n) of the payload have of the runs.
    /// @param payload  Where it begins in the file.
    /// @return Whether memory of this host had all of it.
    bool read(open_file& file, std::uint64_t payload, std::uint64_t at, std::uint64_t n) {
        std::size_t low = 0, high = runs_.count();  // the first run that ends behind `at`
        while (low < high) {
            auto const middle = low + (high - low) / 2;
            if (begin(middle) + runs_.length() <= at)
                low = middle + 1;
            else
                high = middle;
        }
        here_.clear();
        for (auto k = low; k < runs_.count(); ++k) {
            auto const run = begin(k);
            if (run >= at + n) break;
            auto const from = std::max(run, at), to = std::min(run + runs_.length(), at + n);
            auto* const into = part_.to.data + (k * runs_.length() + (from - run));
            here_.push_back({payload + from, {into, static_cast<std::size_t>(to - from)}});
        }
        return file.read_cached(here_);
    }

private:
    std::uint64_t begin(std::size_t k) const noexcept {
        return first_ + (runs_.at(k) - runs_.at(0));
    }

    const payload_part& part_;
    box_runs runs_;
    std::uint64_t first_;
    bool suitable_ = false;
    std::vector<open_file::cached_read> here_{};
};

}  // namespace cairn::detail

#endif
