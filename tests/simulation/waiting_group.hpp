// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_WAITING_GROUP_HPP
#define CAIRN_TEST_SIMULATION_WAITING_GROUP_HPP

#include "chance_world.hpp"
#include "network.hpp"
#include "storage_client.hpp"

#include <cairn/comm/detail/erased_communicator.hpp>
#include <cairn/completion.hpp>

#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace simulation {

/// A rank's group for what blocks its thread until an exchange has ended: in a call of the rank,
/// other events happen meanwhile.
class waiting_group final : public cairn::detail::communicator_forwarder<network::group> {
    using base = cairn::detail::communicator_forwarder<network::group>;
    using message = cairn::message;
    template <class T>
    using completion = cairn::completion<T>;

public:
    waiting_group(network::group& to, chance_world& w, int process)
        : base(to), world_(w), process_(process) {}

    void gather(message m, int root, cairn::deadline d,
                completion<std::vector<message>> done) override {
        wait(std::move(done),
             [&](auto then) { base::gather(std::move(m), root, d, std::move(then)); });
    }
    void scatter(std::vector<message> ms, int root, cairn::deadline d,
                 completion<message> done) override {
        wait(std::move(done),
             [&](auto then) { base::scatter(std::move(ms), root, d, std::move(then)); });
    }
    void broadcast(message m, int root, cairn::deadline d, completion<message> done) override {
        wait(std::move(done),
             [&](auto then) { base::broadcast(std::move(m), root, d, std::move(then)); });
    }
    void all_gather(message m, cairn::deadline d, completion<std::vector<message>> done) override {
        wait(std::move(done),
             [&](auto then) { base::all_gather(std::move(m), d, std::move(then)); });
    }
    /// What is unwound of an ended process does nothing: the group may have ended before it.
    void cancel() noexcept override {
        if (!world_.dead(process_)) base::cancel();
    }

private:
    template <class T, class Begin>
    void wait(completion<T> done, Begin begin) {
        struct answer {
            bool there = false;
            std::exception_ptr failure{};
            std::optional<T> result{};
        };
        if (world_.dead(process_)) throw process_ended();
        auto const a = std::make_shared<answer>();
        world_.block(process_, [&](const world::event& wake) {
            begin(completion<T>([a, wake](std::exception_ptr e, std::optional<T> r) {
                a->there = true;
                a->failure = std::move(e);
                a->result = std::move(r);
                wake();
            }));
        });
        if (!a->there || world_.dead(process_)) throw process_ended();
        if (a->failure) return done.fail(a->failure);
        done(std::move(*a->result));
    }

    chance_world& world_;
    int process_;
};

}  // namespace simulation

#endif
