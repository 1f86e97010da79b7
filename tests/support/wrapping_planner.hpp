// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_WRAPPING_PLANNER_HPP
#define CAIRN_TEST_SUPPORT_WRAPPING_PLANNER_HPP

#include <cairn/planner/default_planner.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace support {

/// Holds a default planner and forwards everything to it, as a user's planner may. Counts what it
/// plans for all ranks.
class wrapping_planner {
public:
    explicit wrapping_planner(cairn::planner_options options = {}) : inner_(std::move(options)) {}

    void set_up_save(const cairn::flat_state& s, int rank, bool coordinator) {
        inner_.set_up_save(s, rank, coordinator);
    }
    cairn::save_plan create_local_save_plan() { return inner_.create_local_save_plan(); }
    std::pair<std::vector<cairn::save_plan>, cairn::metadata> create_global_save_plan(
        std::vector<cairn::save_plan> all) {
        ++global;
        return inner_.create_global_save_plan(std::move(all));
    }
    cairn::save_plan finish_save_plan(cairn::save_plan p) {
        return inner_.finish_save_plan(std::move(p));
    }
    cairn::item_data resolve_data(const cairn::write_item& i) { return inner_.resolve_data(i); }
    std::optional<std::string> plan_key() const { return inner_.plan_key(); }
    std::optional<cairn::replica_writer> joins() const { return inner_.joins(); }
    bool needs_memory_spaces() const { return inner_.needs_memory_spaces(); }

    void set_up_load(cairn::flat_state& s, const cairn::metadata& m, int rank, bool coordinator) {
        inner_.set_up_load(s, m, rank, coordinator);
    }
    cairn::load_plan create_local_load_plan() { return inner_.create_local_load_plan(); }
    std::vector<cairn::load_plan> create_global_load_plan(std::vector<cairn::load_plan> all) {
        for (auto const& p : all) items += p.items.size();
        return inner_.create_global_load_plan(std::move(all));
    }
    cairn::load_plan finish_load_plan(cairn::load_plan p) {
        return inner_.finish_load_plan(std::move(p));
    }
    cairn::tensor_view resolve_tensor(const cairn::read_item& i) {
        return inner_.resolve_tensor(i);
    }
    void commit_tensor(const cairn::read_item& i, const cairn::tensor_view& v) {
        inner_.commit_tensor(i, v);
    }
    void check_value(const cairn::read_item& i, const cairn::value& v) { inner_.check_value(i, v); }
    void load_value(const cairn::read_item& i, cairn::value v) {
        inner_.load_value(i, std::move(v));
    }
    const std::vector<cairn::stored_tie>& ties() const { return inner_.ties(); }
    bool items_stay_local() const { return inner_.items_stay_local(); }
    cairn::load_report finish_load() { return inner_.finish_load(); }

    int global = 0;         ///< Global save plans.
    std::size_t items = 0;  ///< Of the global load plans.

private:
    cairn::default_planner inner_;
};
static_assert(cairn::KeyedSavePlanner<wrapping_planner> &&
              cairn::JoiningSavePlanner<wrapping_planner>);
static_assert(cairn::CheckingLoadPlanner<wrapping_planner> &&
              cairn::TyingLoadPlanner<wrapping_planner> &&
              cairn::LocalLoadPlanner<wrapping_planner>);
static_assert(cairn::StateMemoryPlanner<wrapping_planner>);

}  // namespace support

#endif
