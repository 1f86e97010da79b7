// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_TROUBLED_JOB_HPP
#define CAIRN_TEST_SIMULATION_TROUBLED_JOB_HPP

#include "findings.hpp"
#include "hosts.hpp"
#include "job.hpp"
#include "simulated_store.hpp"
#include "story_trouble.hpp"
#include "world_part.hpp"

#include <cairn/storage/detail/job_attempt.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace simulation {

/// What all jobs of a story share.
struct story_stage {
    chance_world& world;
    storage_server& server;
    hosts& where;
    findings& found;
    store_kind kind;
    std::map<int, host_cache>& caches;  ///< By host.
    chance_world::duration valid;       ///< Of what they hold.
    std::function<void(const std::string&)> say;
    int processes = 0;  ///< So far.
    int versions = 0;
    std::uint64_t losses = 0;  ///< See `storage_client`.

    /// The storage, as a new process uses it.
    std::unique_ptr<storage_client> client(int process, int host,
                                           const cairn::detail::job_attempt& of = {}) {
        where.start(process, host, of);
        auto& cache = caches[host];
        cache.valid = valid;
        auto c = std::make_unique<storage_client>(world, server, where, cache, kind, process);
        c->losses = losses;
        return c;
    }
};

/// The processes of one job from their start to their end, their storage, and what goes wrong with
/// them. What each rank does is the derived class's, which calls `stop` before it is destroyed.
template <class Writer = cairn::torch_writer>
class troubled_job {
public:
    using simulated_job = job<simulated_store, Writer>;

    /// @param host_of  By rank.
    troubled_job(story_stage& s, int ranks, const std::function<int(int)>& host_of,
                 const cairn::detail::job_attempt& of = {},
                 const cairn::torch_reader_options& reading = {})
        : s_(s), ranks_(ranks), first_(s.processes), part_(s.world, first_, ranks),
          excused_(static_cast<std::size_t>(ranks)), woken_(static_cast<std::size_t>(ranks)) {
        s.processes += ranks;
        for (int r = 0; r < ranks; ++r) {
            clients_.push_back(s.client(first_ + r, host_of(r), of));
            clients_.back()->on_fault = [this, r](const std::string& call) {
                s_.say("process " + std::to_string(first_ + r) + ": fails: " + call);
                troubled_ = true;
                failed_call(r, call);
            };
        }
        job_ = std::make_unique<simulated_job>(
            part_, ranks, ranks > 64 ? cairn::detail::tree_topology{}.fan_in : 3,
            [&](int r) { return store_of(r); }, cairn::liveness_options{},
            cairn::torch_writer_options{}, reading);
    }
    troubled_job(troubled_job&&) = delete;
    virtual ~troubled_job() = default;

    /// Whether each rank has ended, or will never.
    bool over() const {
        for (int r = 0; r < ranks_; ++r)
            if (!has_ended(r) && !gone(r)) return false;
        return true;
    }
    /// The same, but hosts that are cut off come back.
    bool over_for_good() const {
        for (int r = 0; r < ranks_; ++r)
            if (!has_ended(r) && (!gone(r) || r >= cut_off_from_)) return false;
        return true;
    }
    bool is_cut_off() const { return cut_off_from_ < ranks_; }
    int first() const { return first_; }

    /// Ranks from this one on are on hosts that are cut off, and come back.
    /// @param stopped  They stand still; otherwise only their calls of the storage do.
    void cut_off(int from, world::duration lasts, bool stopped) {
        troubled_ = true;
        cut_off_from_ = from;
        for (int r = from; r < ranks_; ++r) {
            if (stopped)
                s_.world.hang(first_ + r);
            else
                client(r).away_until = s_.world.now(first_ + r) + lasts;
        }
        s_.world.after(lasts, world::nobody, [this, from, alive = std::weak_ptr(alive_)] {
            if (!alive.lock()) return;
            s_.say("process " + std::to_string(first_ + from) + " and those after it go on");
            cut_off_from_ = ranks_;
            for (int r = from; r < ranks_; ++r) {
                s_.world.wake(first_ + r);
                ++woken_[static_cast<std::size_t>(r)];
                expect_end(r);
            }
        });
    }
    /// Whether trouble means that everything ends; called when it happens.
    std::function<void(story_trouble::kind)> on_end{};

protected:
    /// Whether the rank has nothing left to do.
    virtual bool has_ended(int r) const = 0;
    /// Which verb the rank is in, by a number.
    virtual int verb(int r) const = 0;
    virtual void failed_call(int r, const std::string& call) = 0;

    /// All its processes end.
    void stop() {
        for (int r = 0; r < ranks_; ++r) {
            s_.world.kill(first_ + r);
            s_.server.unlock_all(first_ + r);
        }
        job_.reset();
    }
    simulated_store store_of(int r) { return simulated_store(client(r)); }
    storage_client& client(int r) { return *clients_[static_cast<std::size_t>(r)]; }
    bool gone(int r) const {
        auto const p = first_ + r;
        return s_.world.dead(p) || s_.world.dropped(p) || s_.world.hung(p) || r >= cut_off_from_ ||
               excused_[static_cast<std::size_t>(r)];
    }

    /// All ranks begin, at about the same time unless they are late.
    void begin(const std::vector<story_trouble>& troubles, chance_world::lane on,
               const std::function<void(int)>& first_step) {
        std::map<int, world::duration> late;
        for (auto const& t : troubles) prepare(t, late);
        for (int r = 0; r < ranks_; ++r)
            s_.world.after(
                late[r] + s_.world.some_time(std::chrono::microseconds(50)), first_ + r,
                [first_step, r] { first_step(r); }, on);
    }
    /// @param late  Is told when ranks begin.
    void prepare(const story_trouble& t, std::map<int, world::duration>& late) {
        using kind = story_trouble::kind;
        s_.say("  " + t.text());
        troubled_ = true;
        if (t.what == kind::late) late[t.who] = t.lasts;
        if (t.what == kind::fault) client(t.who).fault = t.fault;
        if (t.what == kind::slow) client(t.who).typical = std::chrono::milliseconds(5);
        if (t.what == kind::stuck) {
            client(t.who).stuck_at = t.fault.at;
            client(t.who).stuck_for = t.lasts;
            own_time_[t.who] += t.lasts;
        }
        if (t.what == kind::hung) own_time_[t.who] += t.lasts;
        if (t.what == kind::killed && t.who == 0 && t.fault.at % 3 == 0) {
            // Before what it has published is durable.
            client(0).on_renamed = [this](const std::string& path) {
                if (!path.ends_with("/.metadata")) return;
                job_->links().kill(0);
                s_.server.unlock_all(first_);
            };
            return;
        }
        s_.world.after(t.when, world::nobody, [this, t, alive = std::weak_ptr(alive_)] {
            if (alive.lock()) happen(t);
        });
    }
    /// Whatever the others do, a rank's verb ends: except for the time that the rank itself stood
    /// still, after a few timeouts.
    void expect_end(int r) {
        auto limit =
            world::duration(std::chrono::minutes(10)) + std::chrono::milliseconds(200) * ranks_;
        if (auto const it = own_time_.find(r); it != own_time_.end()) {
            if (it->second > std::chrono::hours(1))
                limit = std::chrono::minutes(20);
            else
                limit += it->second;
        }
        s_.world.after(limit, world::nobody,
                       [this, r, n = verb(r), since = woken_[static_cast<std::size_t>(r)],
                        alive = std::weak_ptr(alive_)] {
                           if (alive.lock()) check_end(r, n, since);
                       });
    }

private:
    void check_end(int r, int n, int since) {
        if (verb(r) != n || has_ended(r) || gone(r)) return;
        if (woken_[static_cast<std::size_t>(r)] != since) return;
        auto const it = own_time_.find(r);
        bool const stands = it != own_time_.end() && it->second > std::chrono::hours(1);
        excused_[static_cast<std::size_t>(r)] = true;
        s_.found.require(stands, "process " + std::to_string(first_ + r) + " never ends its verb");
    }
    void happen(const story_trouble& t) {
        using kind = story_trouble::kind;
        auto const p = first_ + t.who;
        switch (t.what) {
            case kind::killed:
                job_->links().kill(t.who);
                s_.server.unlock_all(p);
                break;
            case kind::hung:
                s_.world.hang(p);
                if (t.lasts > std::chrono::hours(1)) break;  // it is given up
                s_.world.after(t.lasts, world::nobody, [w = &s_.world, p] { w->wake(p); });
                break;
            case kind::cancelled: job_->at(t.who).cancel(); break;
            case kind::dropped: part_.drop_executor(t.who); break;
            case kind::cut:
                if (t.other != t.who) job_->links().cut(t.who, t.other);
                break;
            case kind::clock:
                s_.where.jump(s_.where.host_of(p),
                              std::chrono::duration_cast<std::chrono::seconds>(t.lasts));
                break;
            case kind::job_killed:
            case kind::server_crash: on_end(t.what); break;
            case kind::late:
            case kind::fault:
            case kind::stuck:
            case kind::slow: break;
        }
    }

protected:
    story_stage& s_;
    int ranks_;
    int first_;
    world_part part_;
    bool troubled_ = false;  ///< Something has gone wrong, or will.
    std::shared_ptr<int> alive_ = std::make_shared<int>();

private:
    std::vector<bool> excused_;  ///< Ranks whose storage never answers.
    std::vector<int> woken_;     ///< How often each has come back.
    int cut_off_from_ = ranks_;  ///< Ranks from this one on will come back.
    std::map<int, world::duration> own_time_{};
    std::vector<std::unique_ptr<storage_client>> clients_{};

protected:
    std::unique_ptr<simulated_job> job_{};
};

}  // namespace simulation

#endif
