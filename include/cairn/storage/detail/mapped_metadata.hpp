// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_MAPPED_METADATA_HPP
#define CAIRN_STORAGE_DETAIL_MAPPED_METADATA_HPP

#include <cairn/detail/config.hpp>
#include <cairn/mapping/detail/mapped.hpp>
#include <cairn/mapping/detail/piece.hpp>
#include <cairn/mapping/detail/piece_boxes.hpp>
#include <cairn/mapping/mapping.hpp>
#include <cairn/metadata/chunk_order.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/tensor/box.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace cairn::detail {

/// Which names of a mapping a checkpoint has.
enum class mapping_direction : std::uint8_t {
    to_state,   ///< Those that expressions use.
    to_stored,  ///< Those that expressions make.
};

/// What is stored, and what a mapping makes of it. Immutable; threads: any.
class mapped_metadata {
public:
    /// @throws error as `to_state`, or `to_stored`
    CAIRN_DECL mapped_metadata(metadata stored, const mapping& how,
                               mapping_direction way = mapping_direction::to_state);

    const metadata& stored() const noexcept { return stored_; }
    /// Returns metadata in the names and shapes of the state. Chunks cover what stored chunks
    /// cover; a tensor that is another one under a new name has that one's.
    CAIRN_DECL metadata shown() const;

    /// Checks the sizes of stored tensors that others are made of, as @ref check_stored_bytes does.
    /// Files that are missing are found when they are read: the tensors may not be wanted.
    CAIRN_DECL void check_sources() const;

    /// The lines that match nothing that is stored, in words; empty: there are none.
    const std::string& idle_lines() const noexcept { return idle_; }
    /// Stored names that nothing uses and that do not pass, since a line has them for something
    /// else.
    const std::set<std::string, std::less<>>& hidden() const noexcept { return made_.hidden; }

    /// Says which quantised weights do not fit their scales any longer.
    CAIRN_DECL std::vector<std::string> moved_codes() const;

    /// Whether a tensor has stored elements in another order, as a transposed one.
    CAIRN_DECL bool permutes(std::string_view fqn) const;

    /// Null: the tensor is stored under its name, as it is.
    const map::detail::mapped_tensor* tensor(std::string_view fqn) const;
    /// Null: the value is stored under its name.
    const map::detail::mapped_value* value(std::string_view fqn) const;
    /// Whether a tensor is a stored one under another name, or under its own.
    bool is_stored(std::string_view fqn) const {
        return tensor(fqn) == nullptr || renamed_.count(fqn) != 0;
    }
    /// Returns the name under which a tensor is stored. @pre `is_stored(fqn)`
    const std::string& stored_name(const std::string& fqn) const {
        auto const* const t = tensor(fqn);
        return t == nullptr ? fqn : t->pieces.front().from->name;
    }

    /// Called with an item that reads a box of a stored chunk, with the same box as a piece, and
    /// with the dimensions that it is in, if these are finer than those of the chunk.
    using on_item =
        std::function<void(read_item, const map::detail::piece_box&, const finer_dims*)>;
    /// Called with a part whose elements are a constant.
    using on_constant = std::function<void(const map::detail::piece&)>;
    /// Divides a box of a tensor that is made of others.
    /// @param finer  Whether items may be in finer dimensions than chunks.
    /// @throws error errc::missing_key if the chunks of a stored tensor do not hold what it needs
    CAIRN_DECL void for_each_part(const map::detail::mapped_tensor& t, const box& region,
                                  bool finer, const on_item& item,
                                  const on_constant& constant) const;

private:
    chunk_list chunks_of(const map::detail::mapped_tensor& t) const;

    metadata stored_{};
    std::map<std::string, unmade_name, std::less<>> unmade_{};  ///< See `metadata::unmade`.
    std::string idle_{};
    map::detail::mapped made_{};
    std::set<std::string, std::less<>> renamed_{};
    std::map<std::string, chunk_order, std::less<>> orders_{};  ///< Of tensors that pieces need.
    std::set<std::string, std::less<>> partial_{};              ///< Those of them with holes.
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/storage/impl/mapped_metadata.ipp>
#endif

#endif
