// SPDX-License-Identifier: Apache-2.0
#include "outsiders.hpp"
#include "places.hpp"
#include "root_rules.hpp"
#include "simulate.hpp"
#include "simulated_clock.hpp"
#include "told_changes.hpp"
#include "training_life.hpp"

#include <cairn/catalog/detail/record_list.hpp>
#include <cairn/storage/detail/job_attempt.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace simulation {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

/// A training with many checkpoints that is killed and started again, beside processes that load
/// its checkpoints and collect garbage, until all is quiet; then one more attempt.
class training {
public:
    training(std::uint64_t seed, int ranks, bool trace)
        : chance_(seed), world_(chance_()),
          ranks_(ranks != 0 ? ranks : static_cast<int>(1 + below(5))), trace_(trace),
          keep_(kept_rules::some(chance_)) {
        stage_.valid = seconds(3 + below(58));
        if (trace) found_.say = [this](const std::string& what) { say(what); };
        // Restarts show that all earlier attempts have ended, or hosts come back.
        named_ = below(2) == 0;
        if (kind_ == store_kind::bucket && below(2) == 0) stage_.losses = 10 + below(90);
        found_.cached_names = stage_.kind == store_kind::renamed;
        found_.may_lose_updates = !named_ && stage_.kind == store_kind::renamed;
        server_.watch(&watch_);
        rules_.on_notice = [](const watched_save* s) {
            if (s != nullptr) outside_reader::forget_in_this_process(s->id);
        };
        say("a training of " + std::to_string(ranks_) + " ranks, " + name_of(stage_.kind) +
            (named_ ? ", with a job's name" : "") + ", keeps the last " +
            std::to_string(keep_.last) + (keep_.every != 0 ? ", each 30th" : "") +
            (keep_.best ? ", the best" : "") + (keep_.protected_id.empty() ? "" : ", step_20"));
    }

    std::uint64_t run() {
        left_ = static_cast<int>(2 + below(4));
        world_.after(milliseconds(below(100)), world::nobody, [this] { begin(); });
        auto const quiet = [&] {
            require(found_.broken.empty(), found_.broken);
            return found_.over || (left_ == 0 && !now_ && absent_.empty());
        };
        require(world_.run(quiet, hours(24 * 365)), "it never ends");
        if (!found_.over) after_the_storm();
        return world_.trace();
    }

private:
    std::uint64_t below(std::uint64_t n) { return chance_() % n; }
    void say(const std::string& what) const {
        if (!trace_) return;
        auto const t = world_.now(0).time_since_epoch() - hours(1);
        std::printf("%14.6f s: %s\n", std::chrono::duration<double>(t).count(), what.c_str());
    }

    void begin() {
        --left_;
        ++attempt_;
        auto const ranks = below(4) == 0 ? static_cast<int>(1 + below(5)) : ranks_;
        auto const per_host = static_cast<int>(1 + below(4));
        auto const first_host = static_cast<int>(below(3) == 0 ? below(1000) : 0);
        training_life::plan p;
        p.saves = static_cast<int>(1 + below(5));
        p.keep = keep_;
        p.verify = static_cast<cairn::verify_level>(below(3));
        if (!named_ && below(3) == 0) {
            p.cut_off_at = static_cast<int>(below(static_cast<unsigned>(p.saves)));
            p.lasts = some_absence();
        }
        auto const of = named_ ? cairn::detail::job_attempt{"a training", attempt_}
                               : cairn::detail::job_attempt{};
        now_ = std::make_unique<training_life>(
            stage_, rules_, ranks, p, [&](int r) { return first_host + r / per_host; }, of);
        now_->on_end = [this](story_trouble::kind k) {
            world_.after(milliseconds(1), world::nobody, [this, k] {
                if (k == story_trouble::kind::server_crash) return crash();
                if (now_) end();
            });
        };
        std::vector<story_trouble> troubles;
        if (below(3) != 0)
            for (auto n = below(3); n-- > 0;)
                troubles.push_back(story_trouble::some(chance_, ranks, p.saves + 1));
        say("an attempt with " + std::to_string(ranks) + " ranks starts, to save " +
            std::to_string(p.saves) + " times");
        now_->start(troubles);
        if (!named_ && below(3) == 0) cut_off_later(ranks, p.saves);
        for (auto n = below(3); n-- > 0;) begin_outsider(p.saves);
        look_again(attempt_);
    }
    world::duration some_absence() {
        return below(2) == 0 ? world::duration(seconds(below(4000)))
                             : world::duration(hours(10 + below(60)));
    }
    void cut_off_later(int ranks, int saves) {
        auto const from = static_cast<int>(below(2) == 0 ? 0 : below(static_cast<unsigned>(ranks)));
        auto const lasts = some_absence();
        world_.after(microseconds(below(40'000 * static_cast<unsigned>(saves + 1))), world::nobody,
                     [this, from, lasts, stopped = below(3) == 0, attempt = attempt_] {
                         if (!now_ || attempt_ != attempt || now_->is_cut_off()) return;
                         say("the hosts of ranks from " + std::to_string(from) + " on are cut off" +
                             (stopped ? ", and stopped" : ""));
                         now_->cut_off(from, lasts, stopped);
                     });
    }
    void begin_outsider(int saves) {
        world::duration const later =
            below(4) == 0 ? world::duration(hours(below(48)))
                          : microseconds(below(40'000 * static_cast<unsigned>(saves + 1)));
        world_.after(later, world::nobody, [this] {
            auto const host = static_cast<int>(below(3) == 0 ? below(1000) : below(3));
            auto trouble = story_trouble::some(chance_, 1, 1);
            auto const* t = below(3) == 0 ? &trouble : nullptr;
            if (below(3) == 0) {
                bool const dry_run = below(4) == 0;
                say(std::string("gc starts") + (dry_run ? ", which removes nothing" : ""));
                if (dry_run) rules_.add_idle(stage_.processes);
                collectors_.push_back(std::make_unique<collector>(stage_, host, dry_run, t));
                return;
            }
            auto const ids = rules_.standing_ids();
            if (ids.empty()) return;
            auto const& id = ids[below(ids.size())];
            say("process " + std::to_string(stage_.processes) + " starts, to load " + id);
            if (t != nullptr && t->what == story_trouble::kind::server_crash) t = nullptr;
            readers_.push_back(std::make_unique<outside_reader>(stage_, rules_, host, id, t));
        });
    }
    void look_again(std::uint64_t attempt) {
        world_.after(milliseconds(250), world::nobody, [this, attempt] {
            forget_ended();
            if (!now_ || attempt_ != attempt) return;
            if (!now_->over()) return look_again(attempt);
            end();
        });
    }
    /// Those that come back from hosts that were cut off are waited for.
    void look_for_absent() {
        world_.after(seconds(30), world::nobody, [this] {
            forget_ended();
            if (!absent_.empty()) look_for_absent();
        });
    }
    void forget_ended() {
        std::erase_if(absent_, [](auto& one) { return one->over_for_good(); });
        std::erase_if(collectors_, [](auto& one) { return one->over(); });
        std::erase_if(readers_, [](auto& one) { return one->over_for_good(); });
    }
    void end() {
        // Whoever starts a job again with a name ends all processes of its earlier attempts.
        if (named_ || now_->over_for_good()) {
            now_.reset();
            say("it has ended");
        } else {
            say("it is given up");
            if (absent_.empty()) look_for_absent();
            absent_.push_back(std::move(now_));
        }
        if (left_ == 0) return;
        // What is a day old is presumed dead.
        world_.after(below(2) == 0 ? world::duration(hours(below(48)))
                                   : world::duration(milliseconds(below(3000))),
                     world::nobody, [this] { begin(); });
    }
    void end_all() {
        now_.reset();
        absent_.clear();
        collectors_.clear();
        readers_.clear();
    }
    void crash() {
        bool const again = now_ != nullptr;
        end_all();
        say("the storage crashes");
        server_.crash([this] { return below(2) == 0; });
        for (auto& [host, cache] : caches_) cache.changed();
        rules_.crashed();
        check_standing();
        if (again && left_ != 0)
            world_.after(milliseconds(below(3000)), world::nobody, [this] { begin(); });
    }

    void check_standing() {
        require(found_.broken.empty(), found_.broken);
        auto const there = copy_of(server_, stage_.kind);
        for (auto const& id : rules_.standing_ids()) {
            auto const* s = rules_.place(id).standing();
            require(standing(there, id, s->ranks) == s->version, "another version stands: " + id);
        }
    }
    /// A month later, with right clocks and on other hosts: an attempt without trouble succeeds,
    /// and when garbage is collected, nothing is left but what is kept.
    void after_the_storm() {
        bool later = false;
        world_.after(hours(24 * 30), world::nobody, [&] { later = true; });
        (void)world_.run([&] { return later; }, hours(24 * 31));
        end_all();
        check_standing();
        where_.set_right();
        stage_.losses = 0;
        say("a month later");
        for (auto& [host, cache] : caches_) cache.changed();
        auto const ranks = static_cast<int>(1 + below(3));
        auto const ended = [&](auto& one) {
            auto const over = [&] {
                require(found_.broken.empty(), found_.broken);
                return one.over();
            };
            require(world_.run(over, hours(1)), "the last one never ends");
        };
        int process = 0;
        {
            training_life last(stage_, rules_, ranks, {2, keep_, cairn::verify_level::full, -1, {}},
                               [](int r) { return 100'000 + r; }, {});
            process = last.first();
            last.start({});
            ended(last);
            last.require_well();
        }
        check_standing();
        collector gc(stage_, 200'000, false);
        ended(gc);
        if (found_.may_lose_updates) return;  // the files of a checkpoint that was lost stay
        require(gc.failure().empty(), "gc fails without trouble: " + gc.failure());
        check_left(process);
    }
    void check_left(int process) {
        std::set<std::string> named;
        for (auto const& id : rules_.standing_ids()) {
            named.insert(id + "/.metadata");
            auto const& files = rules_.place(id).standing_files();
            named.insert(files.begin(), files.end());
        }
        for (auto const& [name, f] : server_.all()) {
            auto const slash = name.find('/');
            if (name == cairn::detail::record_list_name) continue;
            // The temporary file of a publisher that was killed stays where nobody publishes again,
            // and the notice of a reader of another host until its checkpoint is removed.
            if (name.find("/.cairn-publish.") != name.npos || name.find("/.reading.") != name.npos)
                continue;
            require(named.count(name) != 0 || rules_.place(name.substr(0, slash)).may_stay(*f),
                    "left over: " + name);
        }
        auto all = rules_.all();
        std::set<std::string> kept;
        for (bool const seen : {false, true}) {
            rules_.removals.judge(process, seen, all);
            kept.merge(keep_.kept(all));
        }
        for (auto const& c : all) require(kept.count(c.id) != 0, "it is not removed: " + c.id);
    }

    std::mt19937_64 chance_;
    chance_world world_;
    simulated_clock clock_{world_};
    int ranks_;
    bool trace_;
    kept_rules keep_;
    bool named_ = false;
    storage_server server_{};
    hosts where_{world_};
    findings found_{};
    store_kind kind_ = static_cast<store_kind>(below(3));
    root_rules rules_{server_, world_, where_, found_, true};
    told_changes watch_{found_, rules_};
    std::map<int, host_cache> caches_{};
    story_stage stage_{world_, server_, where_,     found_,
                       kind_,  caches_, seconds(0), [this](const std::string& s) { say(s); },
                       0,      0};
    int left_ = 0;
    std::uint64_t attempt_ = 0;
    std::unique_ptr<training_life> now_{};
    std::vector<std::unique_ptr<training_life>> absent_{};  ///< Given up, but they may come back.
    std::vector<std::unique_ptr<collector>> collectors_{};
    std::vector<std::unique_ptr<outside_reader>> readers_{};
};

}  // namespace

std::uint64_t run_training(std::uint64_t seed, int ranks, bool trace) {
    return training(seed, ranks, trace).run();
}

}  // namespace simulation
