// SPDX-License-Identifier: Apache-2.0
#include "chance_world.hpp"
#include "job.hpp"
#include "simulate.hpp"

#include "support/fault_store.hpp"

#include <cairn/object_store/memory.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace simulation {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

/// What goes wrong in a save or a load.
enum class trouble { none, killed, hung, late, store, cancelled, dropped };
constexpr const char* names[] = {"nothing",   "a rank killed", "a rank hung",      "a rank late",
                                 "the store", "cancelled",     "an executor ended"};

struct plan {
    trouble what = trouble::none;
    int who = 0;
    world::duration when{0};
    support::fault fault{};

    /// Whether the group stays usable, whatever the outcome.
    bool leaves_group() const {
        return what == trouble::none || what == trouble::store || what == trouble::cancelled;
    }
    std::string text() const {
        return names[static_cast<std::size_t>(what)] + (" (rank " + std::to_string(who)) + " at " +
               std::to_string(std::chrono::duration_cast<microseconds>(when).count()) +
               " us, operation " + std::to_string(fault.at) + ")";
    }
};

/// A job in a world of chance, whose ranks all call one verb at a time.
template <class Store>
class chance_job {
public:
    chance_job(std::uint64_t seed, int ranks, const Store& store)
        : world_(seed), ranks_(ranks),
          // Small trees are deep; large ones are as the library makes them.
          job_(world_, ranks, ranks > 64 ? cairn::detail::tree_topology{}.fan_in : 3,
               [&](int) { return store; }) {}

    /// Runs `start(rank, ending)` on all ranks; what happens on the way is planned.
    template <class Start>
    endings run(const plan& p, Start start) {
        endings e(ranks_);
        for (int r = 0; r < ranks_; ++r) {
            auto const delay = p.what == trouble::late && r == p.who ? p.when : world::duration(1);
            world_.after(
                delay, r, [&, r] { start(r, e[static_cast<std::size_t>(r)]); },
                chance_world::lane::executor);
        }
        auto const running = std::make_shared<bool>(true);
        world_.after(p.when, world::nobody, [this, p, running] {
            if (!*running) return;
            if (p.what == trouble::killed) job_.links().kill(p.who);
            if (p.what == trouble::hung) world_.hang(p.who);
            if (p.what == trouble::cancelled) job_.at(p.who).cancel();
            if (p.what == trouble::dropped) world_.drop_executor(p.who);
        });
        int first = 0;
        auto const over = [&] {
            while (first < ranks_ && (e[static_cast<std::size_t>(first)]->over || gone(first)))
                ++first;
            return first == ranks_;
        };
        require(world_.run(over, minutes(30)), "it hangs: " + p.text());
        *running = false;
        return e;
    }
    endings save(int version, const plan& p) {
        cairn::save_options options;
        options.exchange_timeout = seconds(30);
        for (int r = 0; r < ranks_; ++r)
            saved_.push_back(std::make_unique<content>(r, ranks_, version));
        auto const from = saved_.size() - static_cast<std::size_t>(ranks_);
        return run(p, [this, options, from](int r, auto& ended) {
            job_.save(r, *saved_[from + static_cast<std::size_t>(r)], options, ended);
        });
    }
    endings load(int saved_by, const plan& p) {
        cairn::load_options options;
        options.exchange_timeout = seconds(30);
        loaded_.clear();
        for (int r = 0; r < ranks_; ++r)
            loaded_.push_back(std::make_unique<columns>(r, ranks_, saved_by));
        return run(p, [this, options](int r, auto& ended) {
            job_.load(r, *loaded_[static_cast<std::size_t>(r)], options, ended);
        });
    }
    const columns& loaded(std::size_t r) const { return *loaded_[r]; }
    std::uint64_t trace() const { return world_.trace(); }

private:
    bool gone(int r) const { return world_.dead(r) || world_.dropped(r) || world_.hung(r); }

    std::vector<std::unique_ptr<content>> saved_{};
    std::vector<std::unique_ptr<columns>> loaded_{};
    chance_world world_;
    int ranks_;
    job<Store> job_;
};

class seed_run {
public:
    seed_run(std::uint64_t seed, int ranks, bool trace)
        : chance_(seed), ranks_(ranks != 0 ? ranks : some_ranks()),
          n_(static_cast<std::size_t>(ranks_)), trace_(trace) {}

    std::uint64_t run() {
        save_well(1);
        auto const sum = troubled_save();
        save_well(3);
        if (!broken_ && what_ != trouble::store) require_no_leftovers();
        load_well(static_cast<int>(1 + below(6)));
        return sum ^ troubled_load(static_cast<int>(1 + below(6)));
    }

private:
    std::uint64_t below(std::uint64_t n) { return chance_() % n; }
    int some_ranks() {
        return static_cast<int>(below(10) != 0   ? 2 + below(7)
                                : below(20) != 0 ? 9 + below(24)
                                                 : 33 + below(32));
    }
    plan some_plan(int ranks) {
        plan p;
        p.what = static_cast<trouble>(below(std::size(names)));
        p.who = static_cast<int>(below(static_cast<std::uint64_t>(ranks)));
        // A save takes about 10 ms.
        p.when = microseconds(below(below(4) != 0 ? 12'000 : 40'000));
        if (p.what == trouble::late) p.when = milliseconds(below(40'000));
        if (p.what == trouble::store)
            p.fault = {static_cast<int>(below(static_cast<std::uint64_t>(ranks) * 8 + 30)),
                       support::all_thrown[below(4)], below(2) == 0};
        return p;
    }
    void say(const char* verb, const plan& p, const endings& e) const {
        if (trace_)
            std::printf("a %s by %zu ranks, %s:%s\n", verb, e.size(), p.text().c_str(),
                        e.text().c_str());
    }
    void require_no_leftovers() const {
        require(base_.at("c").list().size() == n_ + 1, "files are left over");
    }

    void save_well(int version) {
        chance_job<cairn::memory_store> job(chance_(), ranks_, base_);
        auto const e = job.save(version, {});
        require(e.all_well(), "a save without trouble fails:" + e.text());
        require(standing(base_, ranks_) == version, "not what was saved");
        if (version == 1) require_no_leftovers();
    }
    /// Over version 1, of version 2; then, where the group is still usable, of version 3.
    std::uint64_t troubled_save() {
        auto const p = some_plan(ranks_);
        what_ = p.what;
        broken_ =
            p.what == trouble::killed || p.what == trouble::hung || p.what == trouble::dropped;
        using store = support::fault_store<cairn::memory_store>;
        chance_job<store> job(chance_(), ranks_, store(base_, p.fault));
        auto const e = job.save(2, p);
        say("save", p, e);
        auto const now = standing(base_, ranks_);
        e.require_agreement(now, 1, 2);
        if (p.what == trouble::none) require(e.all_well(), "a save without trouble fails");
        if (p.what == trouble::cancelled) {
            require(e.any_well() || e.all_cancelled(), "cancelled on some ranks only");
            require_no_leftovers();
        }
        if (p.what == trouble::late && p.when < seconds(29))
            require(e.any_well(), "a rank that was a little late:" + e.text());
        if (p.leaves_group()) {
            auto const next = job.save(3, {});
            bool const may_fail = p.what == trouble::store;  // if it met no fault before
            if (!may_fail) require(next.all_well(), "the group is not usable:" + next.text());
            next.require_agreement(standing(base_, ranks_), now, 3);
        }
        return job.trace();
    }
    /// By other ranks, in another number.
    void load_well(int ranks) {
        chance_job<cairn::memory_store> job(chance_(), ranks, base_);
        auto const e = job.load(ranks_, {});
        require(e.all_well(), "a load without trouble fails:" + e.text());
        for (std::size_t r = 0; r < e.size(); ++r) job.loaded(r).require_version(3);
    }
    std::uint64_t troubled_load(int ranks) {
        auto const p = some_plan(ranks);
        using store = support::fault_store<cairn::memory_store>;
        chance_job<store> job(chance_(), ranks, store(base_, p.fault));
        auto const e = job.load(ranks_, p);
        say("load", p, e);
        for (std::size_t r = 0; r < e.size(); ++r) {
            if (e[r]->well()) job.loaded(r).require_version(3);
            if (e[r]->over && e[r]->failure && !e[r]->modified())
                require(job.loaded(r).untouched(), "it says that the state is as it was");
        }
        if (p.what == trouble::none) require(e.all_well(), "a load without trouble fails");
        if (p.what == trouble::cancelled)
            require(e.all_well() || e.all_cancelled(), "cancelled on some ranks only:" + e.text());
        if (p.what == trouble::store)
            require(e.all_well() || !e.any_well(), "a store fails some ranks:" + e.text());
        if (p.what == trouble::late && p.when < seconds(29))
            require(e.all_well(), "a rank that was a little late:" + e.text());
        if (!p.leaves_group()) return job.trace();
        auto const next = job.load(ranks_, {});
        if (p.what != trouble::store)
            require(next.all_well(), "the group is not usable:" + next.text());
        for (std::size_t r = 0; r < next.size(); ++r)
            if (next[r]->well()) job.loaded(r).require_version(3);
        return job.trace();
    }

    std::mt19937_64 chance_;
    int ranks_;
    std::size_t n_;
    bool trace_;
    trouble what_ = trouble::none;
    bool broken_ = false;
    cairn::memory_store base_{};
};

}  // namespace

std::uint64_t run_seed(std::uint64_t seed, int ranks, bool trace) {
    return seed_run(seed, ranks, trace).run();
}

}  // namespace simulation
