// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_WORLD_PART_HPP
#define CAIRN_TEST_SIMULATION_WORLD_PART_HPP

#include "chance_world.hpp"

#include <functional>
#include <string>
#include <utility>

namespace simulation {

/// The processes of one job in a world of several: its rank `r` is the world's process `first + r`.
class world_part final : public world {
public:
    world_part(chance_world& whole, int first, int ranks)
        : whole_(whole), first_(first), ranks_(ranks) {}

    time now(int rank) const override { return whole_.now(first_ + rank); }
    /// Drawn by the coordinator for each save.
    std::string new_id() override {
        auto id = whole_.new_id();
        if (on_new_id) on_new_id(id);
        return id;
    }
    void post(int rank, event f) override { whole_.post(first_ + rank, std::move(f)); }
    void post_job(int rank, event f) override { whole_.post_job(first_ + rank, std::move(f)); }
    void work(int rank, event f) override { whole_.work(first_ + rank, std::move(f)); }
    void deliver(int from, int to, event f) override {
        whole_.deliver(first_ + from, first_ + to, std::move(f));
    }
    void notice(int to, event f) override { whole_.notice(first_ + to, std::move(f)); }
    void at(time t, int rank, event f) override { whole_.at(t, first_ + rank, std::move(f)); }
    void drop_all() override { whole_.drop(first_, first_ + ranks_); }
    void kill(int rank) override {
        world::kill(rank);
        whole_.kill(first_ + rank);
    }
    void drop_executor(int rank) override {
        world::drop_executor(rank);
        whole_.drop_executor(first_ + rank);
    }

    std::function<void(const std::string&)> on_new_id{};

private:
    chance_world& whole_;
    int first_;
    int ranks_;
};

}  // namespace simulation

#endif
