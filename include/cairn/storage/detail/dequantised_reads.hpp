// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_DEQUANTISED_READS_HPP
#define CAIRN_STORAGE_DETAIL_DEQUANTISED_READS_HPP

#include <cairn/completion.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/storage/checkpoint_reader.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/quantised_metadata.hpp>
#include <cairn/tensor/box.hpp>
#include <cairn/tensor/view.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace cairn::detail {

/// Returns items for what is stored of these items: those of quantised tensors ask for elements and
/// scales.
/// @throws error errc::missing_key if the checkpoint has a part of these only
CAIRN_DECL std::vector<read_item> stored_items_of(const quantised_metadata& m,
                                                  std::span<const read_item> items);

/// Reads a plan: what is stored as it is, and then the quantised tensors, some pieces at a time.
/// The thread that reads the last stored part of a piece computes it.
class dequantised_reads {
public:
    /// @param reader         For what is stored as it is.
    /// @param pieces_reader  For quantised tensors.
    /// @param plan, target   Valid until `done` is called, as are `m` and the readers.
    CAIRN_DECL dequantised_reads(const quantised_metadata& m, checkpoint_reader& reader,
                                 checkpoint_reader& pieces_reader, const load_plan& plan,
                                 const read_target& target, completion<read_result> done);

    /// Reads on until the reader has not completed yet, which then calls this again.
    CAIRN_DECL void run(const std::shared_ptr<dequantised_reads>& self);

private:
    /// A wanted item of a quantised tensor.
    struct wanted {
        const read_item* item;
        const format::quantised::recipe* how;
        box region{};
        tensor_view window{};
        std::int64_t given_out = 0;         ///< Elements that are in a piece, or were.
        std::atomic<std::int64_t> left{0};  ///< Elements that are not computed yet.
    };
    struct piece {
        wanted* of = nullptr;
        box region{};                        ///< Of the tensor.
        std::array<tensor_view, 3> parts{};  ///< Elements, scales, the scale of all.
        std::vector<std::byte> memory{};
        std::atomic<std::size_t> left{0};  ///< Items that are not read yet.
    };
    enum class phase : std::uint8_t { calling, waiting, completed };

    void next_pieces();
    /// @return Bytes of memory that it takes.
    std::size_t add_piece(wanted& w, box region);
    void part_read(piece& p);
    void compute(const piece& p) const;
    /// @return Whether there is more to read; otherwise `done` was called.
    bool step_ended();

    const quantised_metadata& m_;
    checkpoint_reader &reader_, &pieces_reader_;
    const read_target& target_;
    completion<read_result> done_;
    std::vector<std::unique_ptr<wanted>> wanted_{};
    std::size_t next_ = 0;  ///< Of `wanted_`: the first that is not all given out.
    // The step that runs.
    load_plan plan_{};
    read_target parts_target_{};
    bool as_stored_ = true;  ///< The first step: what is not quantised.
    std::vector<std::unique_ptr<piece>> pieces_{};
    std::atomic<phase> phase_{phase::calling};
    std::exception_ptr failure_{};
    std::optional<read_result> result_{};
    read_result of_stored_{};  ///< Of the first step.
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/storage/impl/dequantised_reads.ipp>
#endif

#endif
