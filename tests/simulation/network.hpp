// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_NETWORK_HPP
#define CAIRN_TEST_SIMULATION_NETWORK_HPP

#include "world.hpp"

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/detail/tree/engine.hpp>
#include <cairn/comm/detail/tree/frame_assembler.hpp>
#include <cairn/comm/detail/tree/group.hpp>
#include <cairn/comm/detail/tree/lanes.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace simulation {

/// The links between the ranks of one group. What decides is cairn's own: `tree_lanes`, as behind
/// `tcp_group`; only what carries is simulated.
class network {
    static constexpr std::uint64_t first_lane = 77;

    class engine final : public cairn::detail::tree_engine,
                         public std::enable_shared_from_this<engine> {
    public:
        engine(network& n, cairn::detail::tree_topology where)
            : net_(n), lanes_(where, first_lane, n.options_, n.world_.now(where.rank)) {}

        const cairn::detail::tree_topology& where() const noexcept override {
            return lanes_.where();
        }
        void run(work f) override {
            net_.world_.work(where().rank, [self = shared_from_this(), f = std::move(f)] {
                f(self->lanes_, self->now());
                self->collect();
            });
        }
        void attach() noexcept override {}
        void detach() noexcept override {}

        void received(int from, const std::vector<std::byte>& frame) {
            if (lost_.count(from) != 0) return;
            lanes_.received(from, cairn::detail::decode_frame(frame), now());
            collect();
        }
        void drop_waiting() {
            lanes_.fail_all(cairn::error(cairn::errc::cancelled, {}), now());
            auto const ended = lanes_.take_ended();
        }
        void lost(int peer) {
            lost_.insert(peer);
            lanes_.lost(peer, "rank " + std::to_string(peer) + " is gone", now());
            collect();
        }

    private:
        world::time now() const { return net_.world_.now(where().rank); }
        void collect() {
            for (auto& p : lanes_.take_posts()) net_.send(where().rank, p.to, *p.frame);
            for (auto const& f : lanes_.take_ended()) f();
            auto const next = lanes_.wake();
            if (next == world::time::max() || (wake_ > now() && wake_ <= next)) return;
            wake_ = next;
            net_.world_.at(next, where().rank, [weak = weak_from_this(), next] {
                auto const self = weak.lock();
                if (!self || self->wake_ != next) return;
                self->wake_ = {};
                self->lanes_.tick(self->now());
                self->collect();
            });
        }

        network& net_;
        cairn::detail::tree_lanes lanes_;
        world::time wake_{};
        std::set<int> lost_{};
    };

public:
    network(world& w, int ranks, int fan_in, cairn::liveness_options o = {})
        : world_(w), options_(o) {
        for (int r = 0; r < ranks; ++r)
            engines_.push_back(
                std::make_shared<engine>(*this, cairn::detail::tree_topology{r, ranks, fan_in}));
    }
    network(network&&) = delete;
    /// Whoever waits is dropped: a rank that was killed never ends, and keeps its group.
    ~network() {
        for (auto const& e : engines_) e->drop_waiting();
        world_.drop_all();
    }

    /// One rank's end of the group.
    class group : public cairn::detail::tree_group<group> {
    public:
        explicit group(cairn::detail::tree_seat s) : tree_group(std::move(s)) {}
        group(group&&) = default;
        group& operator=(group&&) = default;
    };
    group of(int rank) { return group(cairn::detail::tree_seat(at(rank), first_lane)); }

    /// The rank's process ends: the others notice later.
    void kill(int rank) {
        world_.kill(rank);
        for (int r = 0; r < static_cast<int>(engines_.size()); ++r)
            if (!world_.dead(r)) world_.notice(r, [e = at(r), rank] { e->lost(rank); });
    }

    /// The link between two ranks breaks: both notice.
    void cut(int a, int b) {
        world_.notice(a, [e = at(a), b] { e->lost(b); });
        world_.notice(b, [e = at(b), a] { e->lost(a); });
    }

private:
    std::shared_ptr<engine>& at(int rank) { return engines_[static_cast<std::size_t>(rank)]; }
    void send(int from, int to, const cairn::detail::tree_frame& f) {
        world_.deliver(from, to, [e = at(to), from, bytes = cairn::detail::encode_frame(f)] {
            e->received(from, bytes);
        });
    }

    world& world_;
    cairn::liveness_options options_;
    std::vector<std::shared_ptr<engine>> engines_{};
};
static_assert(cairn::BackgroundCommunicator<network::group>);

}  // namespace simulation

#endif
