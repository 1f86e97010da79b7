// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_TARGET_WRITE_JOB_HPP
#define CAIRN_STORAGE_DETAIL_TARGET_WRITE_JOB_HPP

#include <cairn/completion.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/box_runs.hpp>
#include <cairn/storage/detail/items_by_file.hpp>
#include <cairn/storage/detail/target_shares.hpp>
#include <cairn/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace cairn::detail {

/// What one call of `write_data` writes of a target.
struct target_write_job {
    /// @param in_order  A file should be written from its beginning to its end.
    target_write_job(const save_plan& p, std::span<const item_data> d, const item_released* r,
                     rank_share s, bool in_order)
        : converted(s.as_written(p)), plan(converted ? *converted : p), data(d), released(r),
          share(std::move(s)), side(plan, share), crcs(side.crcs),
          items(in_order ? items_by_file(places())
                         : items_by_file(share.file_of_each(), bytes_of_each(plan),
                                         share.files.size())) {}

    std::optional<save_plan> converted;  ///< If dtypes of the files are others.
    const save_plan& plan;
    std::span<const item_data> data;
    const item_released* released;  ///< May be null.
    rank_share share;
    side_layout side;
    std::vector<std::uint32_t> crcs;
    std::optional<any_store::writer> aside{};
    items_by_file items;
    write_results results{};
    std::optional<completion<write_results>> done{};

    /// Puts the next bytes of an item aside.
    /// @param at  Where they go, in the side file; becomes their end.
    void put_aside(std::size_t i, std::uint64_t& at, byte_span b) {
        auto& crc = crcs[side.crc_at[i]];
        crc = format::crc32(b, crc);
        aside->write(at, b);
        at += b.size();
    }

private:
    static std::vector<std::uint64_t> bytes_of_each(const save_plan& p) {
        std::vector<std::uint64_t> all;
        for (auto const& item : p.items) all.push_back(item.content_bytes());
        return all;
    }
    /// Where each item is written: in its file, or else in the side file.
    std::vector<items_by_file::place> places() const {
        std::vector<items_by_file::place> all;
        for (std::size_t i = 0; i < plan.items.size(); ++i) {
            auto const& item = plan.items[i];
            auto const& s = share.items[i];
            bool const goes_aside =
                share.direct != rank_share::access::all || s.how != item_share::way::runs;
            if (goes_aside) {
                all.push_back({UINT32_MAX, side.at[i]});
                continue;
            }
            box_runs const runs(item.region, item.global_shape, size_of(item.type));
            all.push_back({s.file, s.offset + runs.at(0)});
        }
        return all;
    }
};

}  // namespace cairn::detail

#endif
