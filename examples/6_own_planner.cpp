// SPDX-License-Identifier: Apache-2.0
// A planner of your own that omits some entries of the state, cairn's test suite for planners, and
// a load under other names.
#include <cairn/cairn.hpp>
#include <cairn/comm/launched_ranks.hpp>
#include <cairn/mapping/mapping.hpp>
#include <cairn/testing/planner.hpp>

#include <atomic>
#include <cstdio>
#include <utility>
#include <vector>

/// Saves everything except the frozen parameters of a model; otherwise like the default planner.
class without_frozen {
public:
    void set_up_save(const cairn::flat_state& state, int rank, bool c) {
        usual_.set_up_save(state, rank, c);
    }
    cairn::save_plan create_local_save_plan() {
        auto plan = usual_.create_local_save_plan();
        std::erase_if(plan.items, [](auto const& i) { return i.fqn.starts_with("model.frozen."); });
        return plan;
    }
    auto create_global_save_plan(std::vector<cairn::save_plan> all) {
        return usual_.create_global_save_plan(std::move(all));
    }
    cairn::save_plan finish_save_plan(cairn::save_plan plan) { return plan; }
    cairn::item_data resolve_data(const cairn::write_item& i) { return usual_.resolve_data(i); }

private:
    cairn::default_planner usual_;
};
static_assert(cairn::SavePlanner<without_frozen>);

int main() {
    // The states of this suite have no frozen parameters: all of them must be saved.
    auto const failures = cairn::testing::save_planner_suite([] { return without_frozen(); });
    for (auto const& f : failures) std::printf("%s\n", f.c_str());

    std::atomic<int> wrong{0};
    cairn::run_launched_ranks(2, [&](cairn::any_communicator& ranks) {
        std::vector<float> head{1, 2}, base{3, 4};
        cairn::state_dict state{
            {"model",
             cairn::state_dict{{"head", head}, {"frozen", cairn::state_dict{{"base", base}}}}}};
        cairn::save(state, "ckpt/own_planner", ranks, without_frozen{});

        // Loads under another name, and leaves entries that the checkpoint lacks unchanged.
        std::vector<float> other{0, 0};
        cairn::state_dict renamed{{"network", cairn::state_dict{{"head", other}}},
                                  {"frozen", base}};
        cairn::load_options options;
        options.planner.partial = true;
        auto const names = cairn::mapping().rename("network.{rest...}", "model.{rest...}");
        auto const report = cairn::load(renamed, "ckpt/own_planner", options, ranks, names);
        wrong += other != head || report.missing != std::vector<std::string>{"frozen"};
    });
    std::printf("own planner: %s\n",
                wrong == 0 ? "head loaded, frozen left alone" : "something differs");
    return !failures.empty() || wrong != 0;
}
