// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_DEFAULT_PLANNER_HPP
#define CAIRN_PLANNER_DEFAULT_PLANNER_HPP

#include <cairn/detail/config.hpp>
#include <cairn/planner/concepts.hpp>
#include <cairn/planner/options.hpp>
#include <cairn/planner/report.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

/// DCP's DefaultSavePlanner and DefaultLoadPlanner in one. Options replace some of its steps by
/// functions; for more, write your own planner that holds one and forwards to it.
class default_planner {
public:
    CAIRN_DECL explicit default_planner(planner_options options = {});
    CAIRN_DECL default_planner(default_planner&&) noexcept;
    CAIRN_DECL default_planner& operator=(default_planner&&) noexcept;
    CAIRN_DECL ~default_planner();

    CAIRN_DECL void set_up_save(const flat_state& state, int rank, bool coordinator);
    CAIRN_DECL save_plan create_local_save_plan();
    CAIRN_DECL std::pair<std::vector<save_plan>, metadata> create_global_save_plan(
        std::vector<save_plan> all);
    CAIRN_DECL save_plan finish_save_plan(save_plan plan);
    CAIRN_DECL item_data resolve_data(const write_item& item);
    /// @return Nothing if `planner_options::dedup` is set.
    CAIRN_DECL std::optional<std::string> plan_key() const;
    /// @return Nothing if `planner_options::dedup` is set.
    CAIRN_DECL std::optional<replica_writer> joins() const;
    bool needs_memory_spaces() const noexcept { return true; }

    CAIRN_DECL void set_up_load(flat_state& state, const metadata& m, int rank, bool coordinator);
    CAIRN_DECL load_plan create_local_load_plan();
    CAIRN_DECL std::vector<load_plan> create_global_load_plan(std::vector<load_plan> all);
    CAIRN_DECL load_plan finish_load_plan(load_plan plan);
    CAIRN_DECL tensor_view resolve_tensor(const read_item& item);
    CAIRN_DECL void commit_tensor(const read_item& item, const tensor_view& v);
    CAIRN_DECL void check_value(const read_item& item, const value& v);
    CAIRN_DECL void load_value(const read_item& item, value v);
    /// Returns the weights that are stored under two names and read under one, after
    /// `create_local_load_plan`. A load compares their checksums.
    CAIRN_DECL const std::vector<stored_tie>& ties() const noexcept;
    /// True: `planner_data` of a local plan names the keys that it does not want. Of a plan that
    /// lost that, or of another planner, and has no items, every key counts as wanted.
    bool items_stay_local() const noexcept { return true; }
    /// Returns how state and checkpoint differ, after `create_local_load_plan`, even if that threw.
    CAIRN_DECL load_report finish_load();

private:
    struct sides;
    std::unique_ptr<sides> sides_;
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/planner/impl/default_planner.ipp>
#endif

#endif
