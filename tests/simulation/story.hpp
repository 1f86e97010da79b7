// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_STORY_HPP
#define CAIRN_TEST_SIMULATION_STORY_HPP

#include "job_life.hpp"
#include "outsiders.hpp"
#include "places.hpp"
#include "simulated_clock.hpp"
#include "told_changes.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace simulation {

/// One or two jobs that save to one place, are killed and started again, until all is quiet; then
/// one more.
///
/// A `Target t` has what `job_life` needs, and:
///
/// | `Target::one_of_races`          | one of so many has two jobs                             |
/// | `Target(chance, two_jobs)`      | made by chance, for one job or for two that race        |
/// | `t.kind(chance)`                | a storage that it can be in                             |
/// | `t.rules_of(s, w, h, f)`        | new rules                                               |
/// | `t.standing(store, s)`          | the version that stands in a copy, saved by `s`         |
/// | `t.may_be_left(name, file, rules, kind, gc)` | whether it may be there at the end, or after `gc` |
template <class Target>
class story {
    using job = job_life<Target>;

public:
    story(std::uint64_t seed, int ranks, bool trace)
        : chance_(seed), world_(chance_()), ranks_(ranks != 0 ? ranks : some_ranks()),
          trace_(trace) {
        stage_.valid = std::chrono::seconds(3 + below(58));
        if (stage_.kind == store_kind::bucket && below(2) == 0) stage_.losses = 10 + below(90);
        server_.watch(&watch_);
        if (trace) found_.say = [this](const std::string& what) { say(what); };
        found_.cached_names = stage_.kind == store_kind::renamed;
        found_.may_lose_updates = two_jobs_ && stage_.kind == store_kind::renamed;
        say(std::to_string(ranks_) + " ranks, " + name_of(stage_.kind) +
            (two_jobs_ ? ", two jobs" : ""));
    }

    std::uint64_t run() {
        std::vector<line> lines(two_jobs_ ? 2 : 1);
        bool const together = below(2) == 0;
        for (auto& l : lines) {
            l.left = ranks_ > 64 ? 1 : static_cast<int>(1 + below(3));
            begin_later(l, std::chrono::milliseconds(together ? 0 : below(100)));
        }
        lines_ = &lines;
        auto const quiet = [&] {
            require(found_.broken.empty(), found_.broken);
            return std::all_of(lines.begin(), lines.end(),
                               [](auto& l) { return l.left == 0 && !l.now; });
        };
        require(world_.run(quiet, std::chrono::hours(24 * 365)), "it never ends");
        check_standing();
        after_the_storm();
        return world_.trace();
    }

private:
    /// A job, from one start to the next.
    struct line {
        int left = 0;
        std::unique_ptr<job> now{};
        std::uint64_t lives = 0;
    };

    std::uint64_t below(std::uint64_t n) { return chance_() % n; }
    int some_ranks() {
        auto const n = below(1000);
        if (n < 900) return static_cast<int>(2 + below(7));
        if (n < 999) return static_cast<int>(9 + below(56));
        return 65 << below(6) | static_cast<int>(below(64));
    }
    void say(const std::string& what) const {
        if (!trace_) return;
        auto const t = world_.now(0).time_since_epoch() - std::chrono::hours(1);
        std::printf("%14.6f s: %s\n", std::chrono::duration<double>(t).count(), what.c_str());
    }

    void begin_later(line& l, world::duration d) {
        world_.after(d, world::nobody, [this, &l] { begin(l); });
    }
    void begin(line& l) {
        --l.left;
        ++l.lives;
        auto const saves = ranks_ > 64 ? 1 : static_cast<int>(1 + below(3));
        auto const ranks = below(4) == 0 && ranks_ <= 64 ? static_cast<int>(1 + below(8)) : ranks_;
        auto const per_host = static_cast<int>(1 + below(8));
        auto const first_host = static_cast<int>(below(3) == 0 ? below(1000) : 0);
        l.now = std::make_unique<job>(stage_, target_, rules_, ranks, saves,
                                      [&](int r) { return first_host + r / per_host; });
        l.now->on_end = [this, &l](story_trouble::kind k) {
            world_.after(std::chrono::milliseconds(1), world::nobody, [this, &l, k] {
                if (k == story_trouble::kind::server_crash) return crash();
                if (l.now) end(l);
            });
        };
        std::vector<story_trouble> troubles;
        for (auto n = below(4); n-- > 0;)
            troubles.push_back(story_trouble::some(chance_, ranks, saves));
        if (two_jobs_ && below(3) == 0)
            troubles.push_back(story_trouble::long_stop(chance_, ranks, saves));
        say("a job of " + std::to_string(ranks) + " ranks starts, and saves " +
            std::to_string(saves) + " times");
        l.now->start(troubles);
        look_again(l, l.lives);
    }
    void look_again(line& l, std::uint64_t life) {
        world_.after(std::chrono::milliseconds(250), world::nobody, [this, &l, life] {
            if (!l.now || l.lives != life) return;
            if (!l.now->over()) return look_again(l, life);
            end(l);
        });
    }
    void end(line& l) {
        l.now.reset();
        say("it has ended");
        if (ranks_ <= 64) check_standing();
        if (l.left == 0) return;
        // After a day, what shows no sign of life is presumed dead.
        begin_later(l, below(3) != 0   ? world::duration(std::chrono::milliseconds(below(3000)))
                       : below(2) == 0 ? std::chrono::hours(24 + below(6))
                                       : std::chrono::hours(below(30)));
    }
    void crash() {
        for (auto& l : *lines_)
            if (l.now) end(l);
        say("the storage crashes");
        server_.crash([this] { return below(2) == 0; });
        for (auto& [host, cache] : caches_) cache.changed();
        rules_.crashed();
        check_standing();
    }

    void check_standing() const {
        require(found_.broken.empty(), found_.broken);
        if (auto const* s = rules_.standing())
            require(target_.standing(copy_of(server_, stage_.kind), *s) == s->version,
                    "another version stands");
    }
    /// A month later, with right clocks and on other hosts: a save without trouble succeeds, and
    /// when garbage is collected, nothing is left of all others.
    void after_the_storm() {
        bool later = false;
        world_.after(std::chrono::hours(24 * 30), world::nobody, [&] { later = true; });
        (void)world_.run([&] { return later; }, std::chrono::hours(24 * 31));
        where_.set_right();
        stage_.losses = 0;
        say("a month later");
        for (auto& [host, cache] : caches_) cache.changed();
        auto const ranks = static_cast<int>(1 + below(4));
        {
            job last(stage_, target_, rules_, ranks, 1, [](int r) { return 100'000 + r; });
            last.start({});
            auto const done = [&] {
                require(found_.broken.empty(), found_.broken);
                return last.over();
            };
            require(world_.run(done, std::chrono::hours(1)), "the last job never ends");
            last.require_well();
        }
        check_standing();
        if (found_.may_lose_updates) return;  // the files of a checkpoint that was lost stay
        check_left(false);
        collector gc(stage_, 200'000, false);
        require(world_.run([&] { return gc.over(); }, std::chrono::hours(1)), "gc never ends");
        require(gc.failure().empty(), "gc fails without trouble: " + gc.failure());
        check_left(true);
    }
    void check_left(bool gc) const {
        for (auto const& [name, f] : server_.all())
            require(rules_.standing_files().count(name) != 0 ||
                        target_.may_be_left(name, *f, rules_, stage_.kind, gc),
                    "left over: " + name);
    }

    std::mt19937_64 chance_;
    chance_world world_;
    simulated_clock clock_{world_};
    int ranks_;
    bool trace_;
    bool two_jobs_ = ranks_ <= 64 && below(Target::one_of_races) == 0;
    Target target_{chance_, two_jobs_};
    storage_server server_{};
    hosts where_{world_};
    findings found_{};
    typename Target::rules rules_ = target_.rules_of(server_, world_, where_, found_);
    told_changes watch_{found_, rules_};
    std::map<int, host_cache> caches_{};
    story_stage stage_{world_,
                       server_,
                       where_,
                       found_,
                       target_.kind(chance_),
                       caches_,
                       std::chrono::seconds(0),
                       [this](const std::string& s) { say(s); },
                       0,
                       0};
    std::vector<line>* lines_ = nullptr;
};

}  // namespace simulation

#endif
