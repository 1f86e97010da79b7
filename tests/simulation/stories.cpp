// SPDX-License-Identifier: Apache-2.0
#include "content.hpp"
#include "simulate.hpp"
#include "story.hpp"

#include <cairn/object_store/memory.hpp>
#include <cairn/storage/torch_writer.hpp>

#include <cstdint>
#include <random>
#include <string>

namespace simulation {
namespace {

/// Checkpoints of PyTorch's format, each over the last.
struct checkpoint_target {
    using writer = cairn::torch_writer;
    using rules = save_rules;
    static constexpr bool loads = true;
    static constexpr std::uint64_t one_of_races = 4;

    checkpoint_target(std::mt19937_64&, bool) {}
    static store_kind kind(std::mt19937_64& chance) {
        return static_cast<store_kind>(chance() % 3);
    }
    static rules rules_of(storage_server& s, const chance_world& w, const hosts& h, findings& f) {
        return {s, w, h, f, "c/"};
    }
    static void prepare(writer&, int) {}
    static void make_room(rules&, const simulated_store&, int) {}
    static int standing(const cairn::memory_store& all, const watched_save& s) {
        return simulation::standing(all, "c", s.ranks);
    }
    /// Saves leave what a process has left that was killed as it tried a bucket's conditions.
    static bool may_be_left(const std::string& name, const stored&, const rules&, store_kind k,
                            bool gc) {
        return name == "c/.metadata" ||
               (!gc && k == store_kind::bucket && name.starts_with("c/.cairn-trial."));
    }

    std::string id = "c";
};

}  // namespace

std::uint64_t run_story(std::uint64_t seed, int ranks, bool trace) {
    return story<checkpoint_target>(seed, ranks, trace).run();
}

}  // namespace simulation
