// SPDX-License-Identifier: Apache-2.0
// An object store of your own: one class, which works with every format and every function of
// cairn, and cairn's test suite for such classes. This one is in the memory of a process, so the
// ranks are its threads.
#include "own_object_store.hpp"

#include <cairn/cairn.hpp>
#include <cairn/testing/object_store.hpp>

#include <atomic>
#include <cstdio>
#include <vector>

int main() {
    // Tests the semantics of the concept, each time in a store of an empty place; no test framework
    // is needed.
    auto const failures = cairn::testing::object_store_suite([] { return my_store(); });
    for (auto const& f : failures) std::printf("%s\n", f.c_str());

    my_store store;
    std::atomic<int> wrong{0};
    auto const run = [&](cairn::thread_group::member& ranks, bool save) {
        std::vector<float> rows(4, save ? static_cast<float>(ranks.rank()) : -1.0f);
        cairn::state_dict state{
            {"w", cairn::shard_by_mesh(
                      cairn::tensor_view(cairn::dtype::float32, {1, 4}, rows.data()), {3, 4},
                      cairn::device_mesh::line(3), {cairn::shard_along{0}}, ranks.rank())}};
        if (save) {
            cairn::save(state, "run/step_1", ranks, store);
            return;
        }
        cairn::load(state, "run/step_1", ranks, store);
        wrong += rows[3] != static_cast<float>(ranks.rank());
    };
    cairn::run_ranks(3, [&](auto& ranks) { run(ranks, true); });
    cairn::run_ranks(3, [&](auto& ranks) { run(ranks, false); });
    std::printf("own object store: %zu objects, %d ranks wrong\n", store.list().size(),
                wrong.load());
    return !failures.empty() || wrong != 0;
}
