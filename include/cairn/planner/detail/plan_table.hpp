// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_DETAIL_PLAN_TABLE_HPP
#define CAIRN_PLANNER_DETAIL_PLAN_TABLE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/detail/name_numbers.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/planner/detail/plan_selection.hpp>
#include <cairn/planner/detail/value_numbers.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/tensor/box.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cairn::detail {

/// The local plans of all ranks as a table, which the coordinator joins: a row for each item, each
/// name and each box once.
///
/// Borrows the encoded plans.
class plan_table {
public:
    /// @param bytes  The approximate size of all plans that will be added, for which memory is
    ///               reserved.
    explicit plan_table(std::size_t bytes = 0) : bytes_(bytes) {}

    /// Adds the plan of the next rank.
    /// @param local   Encoded, without the numbers of its values.
    /// @param values  These numbers.
    /// @throws error errc::corrupt
    CAIRN_DECL void add(std::span<const std::byte> local, std::span<const value_numbers> values);
    /// Gives replicas of each other the same number. Called once, after all plans were added.
    CAIRN_DECL void number_items();

    /// Decides which rank writes what: items are assigned in the order in which they are first
    /// seen, rank by rank; see `dedup_save_plans`.
    /// @return What each rank stores.
    /// @throws error errc::invalid_plan naming both ranks if two contradict each other, or the rank
    /// that lists an item twice
    CAIRN_DECL std::vector<stored_amount> assign(replica_writer by);
    /// Instead of `assign`: each rank writes what it lists.
    /// @param empty  Whether to keep items without elements, too, of tensors that have others.
    CAIRN_DECL void keep_all(bool empty);
    /// Makes the chunks, after either of the above.
    /// @throws error errc::invalid_plan for ranks that contradict each other, and for chunks that
    /// overlap, are out of bounds, or do not cover their tensor
    CAIRN_DECL void check();

    std::size_t ranks() const noexcept { return row_ends_.size(); }
    /// Returns the items that a rank is to carry out, after `assign` or `keep_all`.
    CAIRN_DECL plan_selection selection_of(std::size_t rank) const;

    /// Returns the metadata of all chunks, without locations, after `check`.
    CAIRN_DECL metadata make_metadata() const;
    /// The place in the metadata for the location of a rank's n-th item.
    struct place {
        std::uint32_t name;  ///< See `name_of`.
        std::uint32_t chunk;
    };
    std::span<const place> places(std::size_t rank) const {
        auto const begin = rank == 0 ? 0 : kept_ends_[rank - 1];
        return std::span(places_).subspan(begin, kept_ends_[rank] - begin);
    }
    std::size_t names() const noexcept { return named_.size(); }
    std::string_view name_of(std::uint32_t name) const { return names_.names()[name]; }

    /// After `number_items`: calls `f(item, rank, index, fqn, region)` for each tensor item that
    /// has replicas, and perhaps for some others, rank by rank: `item` is the same number for
    /// replicas of each other, `index` a position in the local plan.
    template <class F>
    void each_shared_item(F&& f) const {
        for (std::uint32_t rank = 0; rank < ranks(); ++rank)
            for (auto k = begin_of(rank); k < row_ends_[rank]; ++k) {
                auto const& x = rows_[k];
                if (!x.is_shared() || x.box == none || empty_[x.box]) continue;
                f(x.item, rank, static_cast<std::uint32_t>(k - begin_of(rank)), name_of(x.name),
                  boxes_[x.box]);
            }
    }
    /// After `number_items` and before `check`: how many rows have an item of that number.
    std::uint32_t holders_of(std::uint32_t item) const { return shared_[item].rows; }
    /// Returns the names of the values of a rank's local plan.
    CAIRN_DECL std::vector<std::uint32_t> value_names(std::size_t rank) const;

private:
    static constexpr std::uint32_t none = UINT32_MAX, alone = none - 1;
    struct row {
        std::uint32_t name;
        std::uint32_t box;          ///< None: a value.
        std::uint32_t tied;         ///< Name, then item; none. Of a value: in `value_bytes_`.
        std::uint32_t item = none;  ///< In `shared_`; alone: of this rank only; none: left out.
        dtype type = dtype::float32;
        bool requires_grad : 1 = false;
        bool typed : 1 = false;     ///< By a rank that has a shard.
        bool was_tied : 1 = false;  ///< As it was encoded.
        bool kept : 1 = false;
        bool beside : 1 = false;  ///< Kept, and by the rank that writes what it is tied to.

        bool is_item() const noexcept { return item != none; }
        bool is_shared() const noexcept { return item < alone; }
    };
    /// An item that several ranks hold, or that another item is tied to.
    struct shared_item {
        std::uint32_t last;         ///< Rank that has listed it.
        std::uint32_t rows = 0;     ///< Their number.
        std::uint32_t row = none;   ///< The one that is kept; none: not yet chosen.
        std::uint32_t rank = none;  ///< Of that row.
    };
    /// A row and its rank.
    struct holder {
        std::uint32_t row, rank;
    };
    /// The description of a name.
    struct named {
        std::uint32_t rank;  ///< The rank that gave it.
        bool is_value;
        bool typed;  ///< By a rank that has a shard.
        dtype type;
        std::span<const std::byte> shape;  ///< Encoded.
        std::uint64_t value_hash;
        std::uint32_t chunks = 0;
        std::uint32_t first_chunk = 0;  ///< Position in `chunk_rows_`.
    };
    /// An item up to its region. Those of earlier ranks are kept: equal bytes have equal meaning.
    struct head {
        std::span<const std::byte> bytes{};  ///< All of it, encoded.
        std::span<const std::byte> shape{};  ///< Encoded.
        std::uint32_t name = 0;
        dtype type = dtype::float32;
        bool requires_grad = false, typed = false, is_value = false;
    };

    std::size_t begin_of(std::size_t rank) const { return rank == 0 ? 0 : row_ends_[rank - 1]; }
    head read_head(wire_reader& r, std::span<const std::byte> local);
    std::uint32_t read_box(wire_reader& r, std::span<const std::byte> local);
    void claim(const head& h, std::uint32_t rank, std::uint64_t value_hash);
    void add_paths(std::span<const std::byte> tail);
    void leave_out_empty();
    std::vector<holder> holders_of_shared() const;
    holder choose(std::span<const holder> of, replica_writer by, std::vector<std::uint64_t>& load);
    std::uint64_t content_of(const row& x) const;
    void place_items();
    void check_tensors() const;
    box box_of(const row& x) const { return x.box == none ? box() : boxes_[x.box]; }
    std::span<const std::uint32_t> chunks_of(const named& n) const {
        return std::span(chunk_rows_).subspan(n.first_chunk, n.chunks);
    }
    static index_vector shape_of(const named& n);

    std::size_t bytes_;
    std::vector<row> rows_{};
    std::vector<std::size_t> row_ends_{};  ///< By rank.
    std::vector<head> heads_{};            ///< By position, of the last rank with so many items.
    std::span<const std::byte> last_region_{};  ///< Encoded.
    std::uint32_t last_box_ = none;             ///< Its number.
    std::span<const std::byte> last_tail_{};    ///< Of a plan: its paths, and what follows.
    std::vector<std::span<const std::byte>> last_paths_{};  ///< As `heads_`.
    name_numbers names_{};
    std::vector<named> named_{};
    std::unordered_map<std::string_view, std::uint32_t> box_numbers_{};
    std::vector<box> boxes_{};
    std::vector<bool> empty_{};  ///< By box.
    std::vector<std::uint64_t> value_bytes_{};
    std::vector<std::pair<std::string, key_path>> paths_{};  ///< The first of each name.
    name_numbers path_names_{};
    std::vector<shared_item> shared_{};        ///< In the order in which they are first seen.
    std::vector<std::uint32_t> chunk_rows_{};  ///< Name by name, in the order of ranks.
    std::vector<place> places_{};              ///< Of kept rows.
    std::vector<std::size_t> kept_ends_{};     ///< By rank.
    std::optional<error> contradiction_{};     ///< The first between two ranks.
    std::optional<error> twice_{};             ///< The first item that a rank lists twice.
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/planner/impl/plan_table.ipp>
#endif

#endif
