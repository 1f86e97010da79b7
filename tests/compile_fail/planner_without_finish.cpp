// SPDX-License-Identifier: Apache-2.0
// expect: SavePlanner
// expect: finish_save_plan
#include <cairn/planner/concepts.hpp>

struct half_a_planner {
    void set_up_save(const cairn::flat_state&, int, bool) {}
    cairn::save_plan create_local_save_plan() { return {}; }
    std::pair<std::vector<cairn::save_plan>, cairn::metadata> create_global_save_plan(
        std::vector<cairn::save_plan> all) {
        return {std::move(all), {}};
    }
#ifdef BASELINE
    cairn::save_plan finish_save_plan(cairn::save_plan p) { return p; }
#endif
    cairn::item_data resolve_data(const cairn::write_item&) {
        return static_cast<const cairn::value*>(nullptr);
    }
};

void use(cairn::SavePlanner auto&) {}
void f(half_a_planner& p) {
    use(p);
}
