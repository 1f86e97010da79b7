// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_TCP_GROUP_HPP
#define CAIRN_COMM_TCP_GROUP_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/launch_environment.hpp>
#include <cairn/comm/tcp/join.hpp>
#include <cairn/comm/tcp/link.hpp>
#include <cairn/comm/tcp/rendezvous_file.hpp>
#include <cairn/comm/tree/calls.hpp>
#include <cairn/comm/tree/member.hpp>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace cairn {

/// How a `tcp_group` comes together and when it gives somebody up.
struct tcp_options {
    std::chrono::milliseconds join{60000};  ///< For all ranks to come.
    int fan_in = 32;            ///< Connections a rank has at most, but one; the same on all ranks.
    group_patience patience{};
    std::string interfaces{};   ///< "eth0,ib0": whose addresses are told; empty: CAIRN_INTERFACES.
    std::string directory{};    ///< Shared; empty: CAIRN_RENDEZVOUS_DIR. See `from_environment`.
};

/// Processes as ranks, on one machine or many, over TCP.
///
/// The group is a control plane of its own: it never touches the trainer's communicators or
/// streams, so that saving in the background cannot get in the way of training. It has one thread,
/// which calls the completions; they must not block.
///
/// A rank that dies, leaves or falls silent ends the exchange under way, and the next, on all ranks
/// with @ref errc::rank_failed and its number. See `group_patience` for how soon.
class tcp_group : public detail::tree_calls<tcp_group> {
public:
    /// Rank 0 makes one and passes it on, as with NCCL: `tcp_id::text()` is printable. Listens from
    /// here on; the `tcp_group` of rank 0 that is made of it takes the socket over.
    static tcp_id unique_id(const tcp_options& o = {}) {
        boost::asio::io_context io;
        detail::tcp_listener listener(io);
        tcp_id id{listener.addresses(interfaces(o)), tcp_id::new_secret()};
        detail::waiting_listeners::put(id, listener.acceptor().release());
        return id;
    }

    /// Comes back when all ranks have come.
    /// @param id  What `unique_id` gave on rank 0.
    /// @throws error errc::timed_out naming who did not come, errc::invalid_argument when a rank
    /// was started differently
    tcp_group(const tcp_id& id, int rank, int size, const tcp_options& o = {})
        : tcp_group([&id] { return std::optional(id); }, rank, size, o) {}

    /// As the launcher says that started this process: `cairn launch`, torchrun, Open MPI or Slurm;
    /// without any, one rank alone. Where the launcher has no means to carry an id, rank 0 leaves
    /// it in a file that only its user can read, in `tcp_options::directory`, which all hosts
    /// share; on a single host a directory under /tmp does.
    /// @throws error errc::invalid_argument when a directory is needed and not named; and as above
    static tcp_group from_environment(const tcp_options& o = {}) {
        auto const e = detail::launch_environment::detect();
        if (e.size == 1) return tcp_group(tcp_id{}, 0, 1, o);
        if (!e.id.empty()) {
            auto const id = tcp_id::parse(e.id);
            if (e.rank == 0) detail::listen_as_told(id, e.descriptor);
            return tcp_group(id, e.rank, e.size, o);
        }
        auto const directory = detail::rendezvous_directory(o.directory, e);
        return from_directory(directory, e.run, e.rank, e.size, o);
    }

    /// Whether a launcher that `from_environment` knows has started this process.
    static bool is_launched() { return !detail::launch_environment::detect().launcher.empty(); }

    /// Ranks that share a directory and know their number.
    /// @param name  Of this run: another for each that may go on at the same time.
    static tcp_group from_directory(const std::string& directory, const std::string& name, int rank,
                                    int size, const tcp_options& o = {}) {
        detail::rendezvous_file file(directory, name);
        if (rank != 0) return tcp_group([&file] { return file.read(); }, rank, size, o);
        auto const id = unique_id(o);
        file.write(id);
        return tcp_group(id, rank, size, o);  // the file goes when all have come
    }

    tcp_group(tcp_group&&) noexcept = default;
    tcp_group& operator=(tcp_group&& other) noexcept {
        if (this != std::addressof(other)) {
            end();
            core_ = std::move(other.core_);
        }
        return *this;
    }
    /// Leaves: the others' exchanges fail from now on. Waits up to a second for what is on its way.
    ~tcp_group() { end(); }

    int rank() const noexcept { return core_->at.rank; }
    int size() const noexcept { return core_->at.size; }

    /// From any thread: the exchange under way, or the next one, fails on all ranks with
    /// @ref errc::cancelled, and the group is of no more use.
    void cancel() noexcept {
        boost::asio::post(core_->io, [c = core_] {
            c->decides.cancel();
            c->pump();
        });
    }
    /// What this rank is at, for those who wait for it.
    void share(std::shared_ptr<const activity> a) {
        boost::asio::post(core_->io, [c = core_, a = std::move(a)] { c->decides.share(a); });
    }

private:
    friend class detail::tree_calls<tcp_group>;
    using member = detail::tree_member;
    using ended = detail::tree_ended;
    using clock = std::chrono::steady_clock;

    /// All that the thread of the group works with; lives until that has ended.
    struct core : std::enable_shared_from_this<core> {
        core(detail::tree_topology where, std::uint64_t epoch, group_patience patience)
            : at(where), decides(where, epoch, patience, clock::now()) {}

        detail::tree_topology at;
        boost::asio::io_context io{1};
        boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{
            io.get_executor()};
        member decides;
        std::map<int, std::shared_ptr<detail::tcp_link>> links{};
        boost::asio::steady_timer timer{io};
        ended done{};
        std::thread thread{};

        void connect(detail::tcp_neighbours& found) {
            for (auto& [peer, s] : found.sockets) {
                auto const family = s.local_endpoint().protocol();
                detail::tcp_socket::socket mine(io, family, s.release());
                auto const link = std::make_shared<detail::tcp_link>(std::move(mine));
                links.emplace(peer, link);
                // The links end before this does: `leave` closes them.
                link->start({[this, p = peer] { decides.heard(p, clock::now()); },
                             [this, p = peer](detail::tree_frame f) {
                                 decides.received(p, std::move(f), clock::now());
                                 pump();
                             },
                             [this, p = peer](const std::string& how) {
                                 decides.lost(p, "rank " + std::to_string(p) + ": " + how);
                                 pump();
                             }});
            }
        }
        void run() {
            for (;;) {
                try {
                    io.run();
                    return;
                } catch (const std::exception&) {  // no memory, say
                    decides.cancel();
                }
            }
        }
        /// Carries out what was decided.
        void pump() {
            for (auto& p : decides.take_posts()) links.at(p.to)->send(std::move(p.frame));
            auto const wake = decides.wake();
            if (wake != armed) {
                armed = wake;
                timer.expires_at(wake);
                timer.async_wait([c = weak_from_this()](const auto& ec) {
                    auto const self = c.lock();
                    if (ec || !self) return;
                    self->armed = {};
                    self->decides.tick(clock::now());
                    self->pump();
                });
            }
            if (auto o = decides.take_outcome()) {
                if (auto const f = std::exchange(done, nullptr)) f(std::move(*o));
            }
        }
        void leave() {
            decides.leave();
            pump();
            timer.cancel();
            for (auto& [peer, l] : links) l->finish();
            wait_for_links(std::chrono::milliseconds(1000));
        }
        void wait_for_links(std::chrono::milliseconds most) {
            bool over = true;
            for (auto& [peer, l] : links) over = over && l->over();
            if (over || most.count() <= 0) {
                for (auto& [peer, l] : links) l->close();
                work.reset();
                io.stop();
                return;
            }
            timer.expires_after(std::chrono::milliseconds(5));
            timer.async_wait([c = shared_from_this(), most](const auto&) {
                c->wait_for_links(most - std::chrono::milliseconds(5));
            });
        }

    private:
        clock::time_point armed{};
    };

    tcp_group(const detail::tcp_id_source& source, int rank, int size, const tcp_options& o) {
        if (size < 1 || rank < 0 || rank >= size || o.fan_in < 1)
            throw error(errc::invalid_argument,
                        {.expected = "0 <= rank < size and a fan-in of 1 or more",
                         .found = "rank " + std::to_string(rank) + " of " + std::to_string(size) +
                                  ", fan-in " + std::to_string(o.fan_in)});
        detail::tree_topology const where{rank, size, o.fan_in};
        auto const by = clock::now() + o.join;
        boost::asio::io_context io;
        auto found = size == 1 ? detail::tcp_neighbours{} : join(io, where, source, o, by);
        core_ = std::make_shared<core>(where, found.epoch, o.patience);
        core_->connect(found);
        core_->thread = std::thread([c = core_] { c->run(); });
        try {
            (void)await_completion<done_t>([&](auto done) {
                barrier(std::max(by, clock::now() + std::chrono::seconds(5)), std::move(done));
            });
        } catch (...) {
            end();
            throw;
        }
    }

    static detail::tcp_neighbours join(boost::asio::io_context& io, detail::tree_topology where,
                                       const detail::tcp_id_source& source, const tcp_options& o,
                                       clock::time_point by) {
        if (where.rank == 0) {
            auto const id = *source();
            auto const socket = detail::waiting_listeners::take(id);
            if (!socket)
                throw error(
                    errc::invalid_argument,
                    {.rank = 0,
                     .expected = "an id that this process made, once",
                     .found = "another's, or one that was used before",
                     .remedy = "call tcp_group::unique_id on rank 0, and anew for a group"});
            detail::tcp_listener listener(io, *socket);
            std::random_device random;
            auto const epoch = (std::uint64_t{random()} << 32) | random();
            return detail::tcp_founder(io, where, listener, id.secret, epoch).run(by);
        }
        // A verdict of rank 0's that nobody came is worth waiting for.
        by += std::chrono::seconds(3);
        std::optional<detail::tcp_listener> listener;
        std::vector<tcp_address> mine;
        if (!where.children().empty()) {
            listener.emplace(io);
            mine = listener->addresses(interfaces(o));
        }
        return detail::tcp_joiner(io, where, listener ? &*listener : nullptr, source,
                                  std::move(mine)).run(by);
    }
    static std::string interfaces(const tcp_options& o) {
        if (!o.interfaces.empty()) return o.interfaces;
        auto const* const e = std::getenv("CAIRN_INTERFACES");
        return e == nullptr ? std::string() : e;
    }

    void start(detail::exchange_kind k, int root, std::vector<message> in, deadline d,
               ended done) {
        boost::asio::post(core_->io, [c = core_, k, root, in = std::move(in), d,
                                      done = std::move(done)]() mutable {
            if (c->decides.busy()) return done(detail::two_at_a_time(c->at.rank));
            c->done = std::move(done);
            c->decides.start(k, root, std::move(in), d, clock::now());
            c->pump();
        });
    }
    void end() noexcept {
        auto const c = std::move(core_);
        if (!c) return;
        boost::asio::post(c->io, [c] { c->leave(); });
        // A completion may hold the last of the group.
        if (c->thread.get_id() == std::this_thread::get_id())
            c->thread.detach();
        else
            c->thread.join();
    }

    std::shared_ptr<core> core_;
};
static_assert(Communicator<tcp_group>);

}  // namespace cairn

#endif
