// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_PLANNED_RANK_HPP
#define CAIRN_TEST_SUPPORT_PLANNED_RANK_HPP

#include "planned_job.hpp"

#include <cairn/cairn.hpp>
#include <cairn/mapping/mapping.hpp>
#include <cairn/save/detail/mapped_state.hpp>
#include <cairn/storage/detail/mapped_metadata.hpp>
#include <cairn/storage/detail/mapped_reads.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace support {

/// What the first rank of a job computes. With a mapping its state has three parameters in one,
/// side by side.
class planned_rank {
public:
    planned_rank(const planned_job& j, bool mapped) {
        auto const region = j.region(0);
        auto const threes = mapped ? j.parameters / 3 : 0;
        memory_.resize(static_cast<std::size_t>(j.parameters * region.volume()));
        auto* at = memory_.data();
        auto const add = [&](const std::string& name, std::int64_t n) {
            auto shape = j.shape();
            auto held = region;
            shape[1] *= n;
            held.offsets[1] *= n;
            held.shape[1] *= n;
            cairn::tensor_view const v(cairn::dtype::float32, held.shape, at);
            state_[name] =
                cairn::sharded_view{shape, cairn::dtype::float32, {cairn::shard(held, v)}};
            at += held.volume();
        };
        if (mapped) how_.emplace();
        for (int t = 0; t < threes; ++t) {
            auto const name = "fused." + std::to_string(t);
            std::vector<cairn::map::expression> parts;
            for (int p = 3 * t; p < 3 * t + 3; ++p) parts.push_back(cairn::map::stored(j.name(p)));
            how_->set(name, cairn::map::concat(1, std::move(parts), {1, 1, 1}));
            add(name, 3);
        }
        for (int p = 3 * threes; p < j.parameters; ++p) add(j.name(p), 1);
    }
    /// @return How many items it stores.
    std::size_t plan_save() const {
        auto flat = cairn::flatten(state_);
        if (how_) flat.leaves = cairn::detail::mapped_state(flat.leaves, *how_, nullptr);
        cairn::default_planner planner;
        planner.set_up_save(flat.leaves, 0, true);
        return planner.create_local_save_plan().items.size();
    }
    /// @return How many stored items it reads.
    std::size_t plan_load(cairn::metadata m) const {
        auto flat = cairn::flatten(state_);
        std::optional<cairn::detail::mapped_metadata> mapped;
        if (how_) {
            mapped.emplace(std::move(m), *how_);
            m = mapped->shown();
        }
        cairn::default_planner planner;
        planner.set_up_load(flat.leaves, m, 0, true);
        auto const plan = planner.create_local_load_plan();
        if (!mapped) return plan.items.size();
        return cairn::detail::mapped_reads(m, *mapped, true, plan).plan().items.size();
    }

private:
    std::vector<float> memory_{};
    cairn::state_dict state_{};
    std::optional<cairn::mapping> how_{};
};

}  // namespace support

#endif
