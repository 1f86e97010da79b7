// SPDX-License-Identifier: Apache-2.0
#include "small_job.hpp"

#include "job.hpp"
#include "places.hpp"
#include "watched_store.hpp"

#include "support/fault_store.hpp"

#include <cairn/object_store/memory.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace simulation {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr std::array verbs{"fresh", "overwrite", "load"};
constexpr std::array troubles{"none",      "store-before", "store-after", "garbled",
                              "cancelled", "killed",       "late",        "dropped"};

class one_run {
    using store = support::fault_store<watched_store>;

public:
    one_run(const small_job& j, event_order& order)
        : j_(j), base_(place(j.does != verb::fresh, j.ranks)), world_(order),
          job_(world_, j.ranks, 3, [&](int r) { return store_of(r); },
               // Only the timeouts of exchanges, unless nothing else ever ends the job.
               {hours(1), hours(2), std::chrono::milliseconds(1500)}) {
        using enum ordered_world::side;
        auto const f = [this] { happen(); };
        if (j.what == trouble::cancelled || j.what == trouble::dropped)
            world_.trip(j.who, executor, j.at, f);
        if (j.what == trouble::garbled) job_.at(j.who).group().garble(j.at);
        if (j.what == trouble::late) world_.trip(j.who, engine, j.at, f);
        if (j.what == trouble::killed) world_.stop(j.who, j.at, j.then, f);
    }

    endings call(int version) {
        endings e(j_.ranks);
        cairn::save_options save;
        cairn::load_options load;
        save.exchange_timeout = load.exchange_timeout = seconds(30);
        if (j_.does == verb::load) loaded_.clear();
        for (int r = 0; r < j_.ranks; ++r) {
            auto const& ended = e[static_cast<std::size_t>(r)];
            if (j_.does == verb::load) {
                loaded_.push_back(std::make_unique<columns>(r, j_.ranks, j_.ranks));
                world_.post(r, [this, r, load, ended, into = loaded_.back().get()] {
                    job_.load(r, *into, load, ended);
                });
            } else {
                saved_.push_back(std::make_unique<content>(r, j_.ranks, version));
                world_.post(r, [this, r, save, ended, of = saved_.back().get()] {
                    job_.save(r, *of, save, ended);
                });
            }
        }
        auto const over = [&] {
            for (int r = 0; r < j_.ranks; ++r)
                if (!e[static_cast<std::size_t>(r)]->over && !world_.dead(r) && !world_.dropped(r))
                    return false;
            return true;
        };
        require(world_.run(over, hours(3)), "it hangs:" + e.text());
        return e;
    }
    bool troubled() {
        if (j_.what == trouble::garbled) return job_.at(j_.who).group().garbled();
        return j_.what >= trouble::cancelled ? world_.tripped() : hit_();
    }
    const ordered_world& events() const { return world_; }
    const cairn::memory_store& base() const { return base_; }
    const std::vector<std::unique_ptr<columns>>& loaded() const { return loaded_; }

private:
    store store_of(int r) {
        support::fault f;
        if (r == j_.who && (j_.what == trouble::store_before || j_.what == trouble::store_after)) {
            auto const n = static_cast<std::size_t>(j_.at);
            f = {j_.at - 1, support::all_thrown[n % support::all_thrown.size()],
                 j_.what == trouble::store_after};
        }
        store s(watched_store(base_, world_), f);
        if (r == j_.who) hit_ = [s] { return !s.hit().empty(); };
        return s;
    }
    void happen() {
        if (j_.what == trouble::cancelled) job_.at(j_.who).cancel();
        if (j_.what == trouble::killed) job_.links().kill(j_.who);
        if (j_.what == trouble::late) world_.jump(seconds(31));
        if (j_.what == trouble::dropped) world_.drop_executor(j_.who);
    }

    small_job j_;
    std::function<bool()> hit_{};
    std::vector<std::unique_ptr<content>> saved_{};
    std::vector<std::unique_ptr<columns>> loaded_{};
    cairn::memory_store base_;
    ordered_world world_;
    job<store> job_;
};

/// Whether all ranks must end alike, and their group stay usable.
bool is_harmless(trouble t) {
    return t != trouble::garbled && t != trouble::killed && t != trouble::late &&
           t != trouble::dropped;
}

void check_save(const small_job& j, const objects& left, const endings& e) {
    auto const before = j.does == verb::fresh ? 0 : 1;
    auto const now = standing_in(left, j.ranks);
    e.require_agreement(now, before, 2);
    if (j.what == trouble::none) require(e.all_well(), "a save without trouble fails");
    if (is_harmless(j.what)) require(e.all_well() || !e.any_well(), "the ranks do not end alike");
    if (j.what == trouble::cancelled)
        require(e.all_well() || e.all_cancelled(), "cancelled on some ranks only");
    if (j.what == trouble::none || j.what == trouble::cancelled)
        require(left.size() == (now == 0 ? 0 : static_cast<std::size_t>(j.ranks) + 1),
                std::to_string(left.size()) + " files are left");
}
void check_load(const small_job& j, const one_run& run, const endings& e) {
    for (std::size_t r = 0; r < e.size(); ++r) {
        if (e[r]->well()) run.loaded()[r]->require_version(1);
        if (e[r]->over && e[r]->failure && !e[r]->modified())
            require(run.loaded()[r]->untouched(), "it says that the state is as it was");
    }
    if (j.what == trouble::none) require(e.all_well(), "a load without trouble fails");
    if (is_harmless(j.what)) require(e.all_well() || !e.any_well(), "the ranks do not end alike");
    if (j.what == trouble::cancelled)
        require(e.all_well() || e.all_cancelled(), "cancelled on some ranks only");
}

}  // namespace

std::vector<small_job> small_job::all(int ranks) {
    std::vector<small_job> out;
    for (std::size_t v = 0; v < verbs.size(); ++v)
        for (std::size_t t = 0; t < troubles.size(); ++t)
            for (int who = 0; who < (t == 0 ? 1 : ranks); ++who)
                out.push_back({static_cast<verb>(v), ranks, static_cast<trouble>(t), who, 0, 0});
    return out;
}
std::string small_job::name() const {
    auto n = std::string(verbs[static_cast<std::size_t>(does)]) + "/" +
             troubles[static_cast<std::size_t>(what)];
    if (what != trouble::none) n += "/" + std::to_string(who);
    return n;
}
std::string small_job::text() const {
    auto t = name() + (what == trouble::none ? "/0" : "");
    for (int const n : {at, then, ranks}) t += "/" + std::to_string(n);
    return t;
}
small_job small_job::parse(const std::string& text) {
    std::vector<std::string> parts(1);
    for (char c : text) {
        if (c == '/')
            parts.emplace_back();
        else
            parts.back() += c;
    }
    require(parts.size() == 6, "a job is VERB/TROUBLE/RANK/EVENT/EVENT/RANKS");
    for (auto j : all(std::stoi(parts[5]))) {
        j.at = std::stoi(parts[3]);
        j.then = std::stoi(parts[4]);
        if (j.text() == text) return j;
    }
    throw wrong("no such job: " + text);
}

small_job::result small_job::run(event_order& order, const std::function<void()>& explored,
                                 bool trace) const {
    objects left, in_the_end;
    result out;
    {
        one_run run(*this, order);
        auto const e = run.call(2);
        explored();
        out.troubled = run.troubled();
        for (int r = 0; r < ranks; ++r) {
            out.on_executor.push_back(run.events().count(r, ordered_world::side::executor));
            out.in_engine.push_back(run.events().count(r, ordered_world::side::engine));
        }
        left = all_of(run.base().at("c"));
        if (trace) std::printf("%s:%s\n", text().c_str(), e.text().c_str());
        if (does == verb::load)
            check_load(*this, run, e);
        else
            check_save(*this, left, e);
        require(!run.events().misplaced(), "a part is called in the engine");
        if (what != trouble::late)
            require(!run.events().waited(), "a timeout ends it, and nothing else:" + e.text());
        // The group is usable, or says that it is not.
        auto const again = run.call(3);
        if (what == trouble::none || (is_harmless(what) && out.troubled))
            require(again.all_well(), "the group is not usable:" + again.text());
        in_the_end = all_of(run.base().at("c"));
        if (does != verb::load)
            again.require_agreement(standing_in(in_the_end, ranks), standing_in(left, ranks), 3);
    }
    // This process has ended.
    require_sound(left, ranks);
    require_sound(in_the_end, ranks);
    return out;
}

}  // namespace simulation
