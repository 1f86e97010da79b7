// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_JOB_LIFE_HPP
#define CAIRN_TEST_SIMULATION_JOB_LIFE_HPP

#include "hosts.hpp"
#include "job.hpp"
#include "save_rules.hpp"
#include "simulated_store.hpp"
#include "story_trouble.hpp"
#include "world_part.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace simulation {

/// What all jobs of a story share.
struct story_stage {
    chance_world& world;
    storage_server& server;
    hosts& where;
    save_rules& rules;
    store_kind kind;
    std::map<int, host_cache>& caches;  ///< By host.
    chance_world::duration valid;       ///< Of what they hold.
    std::function<void(const std::string&)> say;
    int processes = 0;  ///< So far.
    int versions = 0;
};

/// One run of a job, from the start of its processes to their end: each rank saves a number of
/// times, whatever comes out, and then loads.
class job_life {
    using simulated_job = job<simulated_store>;

public:
    /// @param host_of  By rank.
    job_life(story_stage& s, int ranks, int saves, const std::function<int(int)>& host_of)
        : s_(s), ranks_(ranks), saves_(saves), first_(s.processes), part_(s.world, first_, ranks),
          at_(static_cast<std::size_t>(ranks)), excused_(static_cast<std::size_t>(ranks)) {
        s.processes += ranks;
        for (int r = 0; r < ranks; ++r) {
            s.where.start(first_ + r, host_of(r));
            auto& cache = s.caches[host_of(r)];
            cache.valid = s.valid;
            clients_.push_back(std::make_unique<storage_client>(storage_client{s.world,
                                                                               s.server,
                                                                               s.where,
                                                                               cache,
                                                                               s.kind,
                                                                               first_ + r,
                                                                               {},
                                                                               {},
                                                                               {},
                                                                               {},
                                                                               {},
                                                                               {},
                                                                               {}}));
            auto& c = *clients_.back();
            c.typical = std::chrono::microseconds(300);
            c.stuck_at = -1;
            c.on_fault = [this, r](const std::string& call) { note_fault(r, call); };
        }
        part_.on_new_id = [this](const std::string& id) { s_.rules.named(save_at(0), id); };
        job_ = std::make_unique<simulated_job>(
            part_, ranks, ranks > 64 ? cairn::detail::tree_topology{}.fan_in : 3,
            [&](int r) { return simulated_store(*clients_[static_cast<std::size_t>(r)]); });
    }
    job_life(job_life&&) = delete;
    /// All its processes end.
    ~job_life() {
        for (int r = 0; r < ranks_; ++r) {
            s_.world.kill(first_ + r);
            s_.server.unlock_all(first_ + r);
        }
        job_.reset();
    }

    void start(const std::vector<story_trouble>& troubles) {
        std::map<int, world::duration> late;
        for (auto const& t : troubles) {
            s_.say("  " + t.text());
            prepare(t, late);
        }
        for (int r = 0; r < ranks_; ++r)
            s_.world.after(
                late[r] + s_.world.some_time(std::chrono::microseconds(50)), first_ + r,
                [this, r] { next(r); }, chance_world::lane::executor);
    }
    /// Whether each rank has ended, or will never.
    bool over() const {
        for (int r = 0; r < ranks_; ++r)
            if (at_[static_cast<std::size_t>(r)] <= saves_ && !gone(r)) return false;
        return true;
    }
    /// @throws wrong
    void require_well() const {
        for (auto const& e : endings_)
            require(e->well(), "a verb without trouble fails: " + e->text());
        for (int r = 0; r < ranks_; ++r)
            require(at_[static_cast<std::size_t>(r)] > saves_, "a rank has not ended");
        for (auto const& c : loaded_) c->require_version(s_.rules.standing()->version);
    }
    /// The codes of verbs that failed.
    const std::vector<std::shared_ptr<ending>>& all_endings() const { return endings_; }
    /// Whether trouble means that everything ends; called when it happens.
    std::function<void(story_trouble::kind)> on_end{};

private:
    bool gone(int r) const {
        auto const p = first_ + r;
        return s_.world.dead(p) || s_.world.dropped(p) || s_.world.hung(p) ||
               excused_[static_cast<std::size_t>(r)];
    }
    std::size_t save_at(int r) const {
        return numbers_.at(static_cast<std::size_t>(at_[static_cast<std::size_t>(r)]));
    }
    storage_client& client(int r) { return *clients_[static_cast<std::size_t>(r)]; }

    void prepare(const story_trouble& t, std::map<int, world::duration>& late) {
        using kind = story_trouble::kind;
        if (t.what == kind::late) late[t.who] = t.lasts;
        if (t.what == kind::fault) client(t.who).fault = t.fault;
        if (t.what == kind::slow) client(t.who).typical = std::chrono::milliseconds(5);
        if (t.what == kind::stuck) {
            client(t.who).stuck_at = t.fault.at;
            client(t.who).stuck_for = t.lasts;
            own_time_[t.who] += t.lasts;
        }
        if (t.what == kind::hung) own_time_[t.who] += t.lasts;
        s_.world.after(t.when, world::nobody, [this, t, alive = std::weak_ptr(alive_)] {
            if (alive.lock()) happen(t);
        });
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

    /// The rank's next verb; after all saves a load.
    void next(int r) {
        auto const n = at_[static_cast<std::size_t>(r)];
        if (n > saves_) return;
        auto const e = std::make_shared<ending>();
        endings_.push_back(e);
        e->then = [this, r, e = e.get()] { ended(r, *e); };
        expect_end(r, n);
        if (n == saves_) return load(r, e);
        if (static_cast<std::size_t>(n) == numbers_.size()) {
            numbers_.push_back(s_.rules.begin(
                {first_, first_, ranks_, ++s_.versions, {}, -1, -1, {}, {}, {}, {}}));
        }
        cairn::save_options options;
        options.exchange_timeout = std::chrono::seconds(30);
        saved_.push_back(std::make_unique<content>(r, ranks_, s_.rules.at(save_at(r)).version));
        job_->save(r, *saved_.back(), options, e);
    }
    void load(int r, const std::shared_ptr<ending>& e) {
        auto const* standing = s_.rules.standing();
        if (standing == nullptr || !loads) return e->end(nullptr, 0);
        cairn::load_options options;
        options.exchange_timeout = std::chrono::seconds(30);
        loaded_.push_back(std::make_unique<columns>(r, ranks_, standing->ranks));
        job_->load(r, *loaded_.back(), options, e);
    }
    void ended(int r, const ending& e) {
        if (s_.world.dead(first_ + r)) return;  // its process is taken apart
        auto& n = at_[static_cast<std::size_t>(r)];
        if (n < saves_) {
            s_.rules.ended(save_at(r), r, e);
            auto const& s = s_.rules.at(save_at(r));
            s_.say("rank " + std::to_string(first_ + r) + ", save " + std::to_string(s.version) +
                   ": " + e.text());
            if (r == 0) s_.where.end_save(s.id);
        }
        ++n;
        part_.post(r, [this, r] { next(r); });
    }
    /// Whatever the others do, a rank's verb ends: except for the time that the rank itself stood
    /// still, after a few timeouts.
    void expect_end(int r, int n) {
        auto limit =
            world::duration(std::chrono::minutes(10)) + std::chrono::milliseconds(200) * ranks_;
        if (auto const it = own_time_.find(r); it != own_time_.end()) {
            if (it->second > std::chrono::hours(1))
                limit = std::chrono::minutes(20);
            else
                limit += it->second;
        }
        s_.world.after(limit, world::nobody, [this, r, n, alive = std::weak_ptr(alive_)] {
            if (!alive.lock() || at_[static_cast<std::size_t>(r)] != n || gone(r)) return;
            auto const it = own_time_.find(r);
            bool const stands = it != own_time_.end() && it->second > std::chrono::hours(1);
            excused_[static_cast<std::size_t>(r)] = true;
            if (!stands && s_.rules.broken.empty())
                s_.rules.broken = "process " + std::to_string(first_ + r) + " never ends its verb";
        });
    }
    void note_fault(int r, const std::string& call) {
        s_.say("process " + std::to_string(first_ + r) + ": fails: " + call);
        if (at_[static_cast<std::size_t>(r)] < saves_) s_.rules.at(save_at(r)).faulty.insert(r);
    }

public:
    bool loads = true;

private:
    story_stage& s_;
    int ranks_;
    int saves_;
    int first_;
    world_part part_;
    std::vector<int> at_;                 ///< By rank: which verb.
    std::vector<bool> excused_;           ///< Ranks whose storage never answers.
    std::vector<std::size_t> numbers_{};  ///< Of the saves.
    std::map<int, world::duration> own_time_{};
    std::shared_ptr<int> alive_ = std::make_shared<int>();
    std::vector<std::unique_ptr<storage_client>> clients_{};
    std::vector<std::unique_ptr<content>> saved_{};
    std::vector<std::unique_ptr<columns>> loaded_{};
    std::vector<std::shared_ptr<ending>> endings_{};
    std::unique_ptr<simulated_job> job_{};
};

}  // namespace simulation

#endif
