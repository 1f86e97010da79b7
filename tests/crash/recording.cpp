// SPDX-License-Identifier: Apache-2.0
#include "recording.hpp"

#include "choices.hpp"
#include "hosted_store.hpp"
#include "recorder.hpp"

#include "simulation/chance_world.hpp"
#include "simulation/job.hpp"
#include "support/scratch.hpp"

#include <cairn/save/options.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <utility>

namespace crash {

namespace fs = std::filesystem;

namespace {

cairn::torch_writer_options options_of(const saving& s) {
    cairn::torch_writer_options o;
    if (s.names_of_its_own)
        o.file_name = [](int rank, int n) {
            return "parts/of-" + std::to_string(rank) + "-" + std::to_string(n) + ".bin";
        };
    return o;
}

/// A job in a world of its own, event by event.
class stepwise {
public:
    stepwise(const fs::path& root, const saving& what, std::uint64_t seed,
             std::function<void()> committed)
        : what_(what), world_(seed), ended_(what.ranks),
          job_(
              world_, what.ranks, 3,
              [&](int r) {
                  cairn::file_store files(
                      root / "runs", {.direct_writes = what.direct, .direct_write_bytes = 4096});
                  return hosted_store(std::move(files), what.first_host + r, committed);
              },
              {}, options_of(what)) {
        cairn::save_options options;
        options.exchange_timeout = std::chrono::seconds(30);
        for (int r = 0; r < what.ranks; ++r)
            state_.push_back(
                std::make_unique<simulation::content>(r, what.ranks, what.version, what.columns));
        for (int r = 0; r < what.ranks; ++r)
            world_.post(r, [this, r, options] {
                auto const i = static_cast<std::size_t>(r);
                job_.save(r, *state_[i], options, ended_[i]);
            });
    }
    bool over() const {
        for (int r = 0; r < what_.ranks; ++r)
            if (!ended_[static_cast<std::size_t>(r)]->over && !world_.dead(r)) return false;
        return true;
    }
    void step() {
        if (++steps_ > 1'000'000) throw wrong("a save does not end:" + ended_.text());
        bool done = false;
        auto const once = [&] { return std::exchange(done, true); };
        if (!world_.run(once, std::chrono::hours(1))) throw wrong("a save hangs:" + ended_.text());
    }
    void kill(int rank) { job_.links().kill(rank); }
    void require_well() const {
        if (!ended_.all_well()) throw wrong("a save fails:" + ended_.text());
    }
    outcome result() const {
        outcome o;
        o.text = ended_.text();
        for (auto const& e : ended_) {
            o.any_well = o.any_well || e->well();
            o.any_failed =
                o.any_failed || (e->over && e->failure &&
                                 e->code() != make_error_code(cairn::errc::outcome_unknown));
        }
        return o;
    }

private:
    saving what_;
    int steps_ = 0;
    std::vector<std::unique_ptr<simulation::content>> state_{};
    simulation::chance_world world_;
    simulation::endings ended_;
    simulation::job<hosted_store> job_;
};

/// Runs them in turns; that each makes at least one step now and then is a matter of the seed.
void run_all(std::vector<std::unique_ptr<stepwise>>& jobs, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (;;) {
        std::vector<stepwise*> left;
        for (auto const& j : jobs)
            if (!j->over()) left.push_back(j.get());
        if (left.empty()) return;
        auto& one = *left[random() % left.size()];
        for (auto n = random() % 20 + 1; n > 0 && !one.over(); --n) one.step();
    }
}

/// The place gets what the disk keeps: only the host that crashed has something to lose.
void put(const image& kept, const fs::path& root) {
    auto const there = read_image(root);
    for (auto const& [name, bytes] : there.files)
        if (auto const it = kept.files.find(name); it == kept.files.end() || it->second != bytes)
            fs::remove(root / name);
    for (auto it = there.directories.rbegin(); it != there.directories.rend(); ++it)
        if (kept.directories.count(*it) == 0) fs::remove(root / *it);
    image changed;
    for (auto const& d : kept.directories)
        if (there.directories.count(d) == 0) changed.directories.insert(d);
    for (auto const& [name, bytes] : kept.files)
        if (auto const it = there.files.find(name); it == there.files.end() || it->second != bytes)
            changed.files.emplace(name, bytes);
    write_image(changed, root);
}

std::vector<std::size_t> choice_of(const disk::units& open, std::size_t way) {
    std::mt19937_64 random(way);
    std::vector<std::size_t> chosen;
    for (auto const& u : open)
        chosen.push_back(way == 0   ? u.lowest
                         : way == 1 ? u.highest
                                    : u.lowest + random() % (u.highest - u.lowest + 1));
    return chosen;
}

history history_of(const image& beginning, const operations& all) {
    history h;
    disk d(beginning);
    if (beginning.files.count(place + ".metadata") != 0) {
        h.begins_empty = false;
        h.all.emplace_back(beginning);
    }
    for (auto const& o : all) {
        d.apply(o);
        if (o.what == operation::kind::rename && o.new_name == ".metadata")
            h.all.emplace_back(d.now());
    }
    return h;
}

/// Jobs that run on a recorded directory, and possibly a host that crashes on the way.
class recorded_jobs {
public:
    recorded_jobs(const fs::path& root, const std::vector<saving>& jobs, std::uint64_t seed,
                  node_crash* crash)
        : root_(root), jobs_(jobs), seed_(seed), crash_(crash), log_(root), now_(log_.beginning()) {
        log_.after = [this](const operation& o) {
            now_.apply(o);
            if (after_each) after_each();
        };
        log_.before = [this](int host) { return lives(host); };
    }

    recording run(std::vector<outcome>* outcomes) {
        for (std::size_t i = 0; i < jobs_.size(); ++i) start(i);
        run_all(running_, seed_);
        for (auto const& j : running_) {
            if (crash_ == nullptr && jobs_.size() == 1) j->require_well();
            if (outcomes != nullptr) outcomes->push_back(j->result());
        }
        // Of two in one place, one may have to give way.
        if (crash_ == nullptr && std::none_of(running_.begin(), running_.end(),
                                              [](auto const& j) { return j->result().any_well; }))
            throw wrong("no job saves:" + running_.front()->result().text);
        return ended();
    }
    /// Kills the first job before one of its calls, and then runs the second.
    recording run_after_kill(int call, bool& happened) {
        kill_at_ = call;
        start(0);
        run_all(running_, seed_);
        happened = kill_at_ < 0;
        kill_at_ = -1;
        running_.clear();
        start(1);
        run_all(running_, seed_);
        running_[0]->require_well();
        return ended();
    }
    std::function<void()> after_each{};

private:
    void start(std::size_t i) {
        running_.push_back(std::make_unique<stepwise>(root_, jobs_[i], seed_ * 31 + i,
                                                      [this] { log_.promise(); }));
    }
    recording ended() {
        running_.clear();
        recording out;
        out.beginning = log_.beginning();
        out.all = log_.take();
        out.end = std::move(now_);
        out.checkpoints = history_of(out.beginning, out.all);
        return out;
    }
    /// What its processes have done stays as it is: the system goes on.
    void kill_first_job() {
        kill_at_ = -1;
        for (int r = 0; r < jobs_[0].ranks; ++r) {
            dead_.insert(jobs_[0].first_host + r);
            running_[0]->kill(r);
        }
    }
    /// Whether a call that changes something may happen.
    bool lives(int host) {
        if (kill_at_ >= 0 && calls_++ == kill_at_) kill_first_job();
        if (dead_.count(host) != 0) return false;
        if (crash_ == nullptr || host != crash_->host || calls_++ != crash_->call) return true;
        auto const open = now_.open_after(host);
        now_.crash(open, choice_of(open, crash_->way));
        put(now_.now(), root_);
        dead_.insert(host);
        crash_->happened = true;
        for (std::size_t i = 0; i < jobs_.size(); ++i)
            if (host >= jobs_[i].first_host && host < jobs_[i].first_host + jobs_[i].ranks)
                running_[i]->kill(host - jobs_[i].first_host);
        return false;
    }

    fs::path root_;
    std::vector<saving> jobs_;
    std::uint64_t seed_;
    node_crash* crash_;
    recorder log_;
    disk now_;
    std::set<int> dead_{};
    int calls_ = 0;
    int kill_at_ = -1;
    std::vector<std::unique_ptr<stepwise>> running_{};
};

}  // namespace

recording record(const image& start, const std::vector<saving>& jobs, std::uint64_t seed,
                 node_crash* crash, std::vector<outcome>* outcomes) {
    support::scratch dir;
    auto const root = fs::canonical(dir.dir);
    write_image(start, root);
    return recorded_jobs(root, jobs, seed, crash).run(outcomes);
}

recording record_at(const fs::path& root, const std::vector<saving>& jobs, std::uint64_t seed,
                    const std::function<void()>& after_each) {
    recorded_jobs all(root, jobs, seed, nullptr);
    all.after_each = after_each;
    return all.run(nullptr);
}

recording record_after_kill(const image& start, const saving& killed, int call, const saving& next,
                            std::uint64_t seed, bool& happened) {
    support::scratch dir;
    auto const root = fs::canonical(dir.dir);
    write_image(start, root);
    return recorded_jobs(root, {killed, next}, seed, nullptr).run_after_kill(call, happened);
}

std::string recording::normal_form() const {
    // Each call goes to the earliest level at which it commutes with all calls of later levels.
    std::map<int, std::size_t> of_host;
    std::map<std::pair<int, std::string>, std::size_t> of_entry;
    std::map<int, std::size_t> of_file, of_directory;
    std::map<std::size_t, std::set<std::string>> levels;
    std::map<std::string, std::string> ids;
    auto const plain = [&ids](std::string name) {
        std::size_t hex = 0;
        for (std::size_t i = 0; i <= name.size(); ++i) {
            if (i < name.size() &&
                std::string_view("0123456789abcdef").find(name[i]) != std::string_view::npos) {
                ++hex;
                continue;
            }
            if (hex == 32) {
                auto const id = name.substr(i - 32, 32);
                auto const made = ids.emplace(id, "#" + std::to_string(ids.size())).first->second;
                name.replace(i - 32, 32, made);
                i += made.size();
                i -= 32;
            }
            hex = 0;
        }
        return name;
    };
    for (auto const& o : all) {
        std::vector<std::size_t*> last{&of_host[o.host]};
        if (o.file >= 0) last.push_back(&of_file[o.file]);
        if (o.directory >= 0) last.push_back(&of_entry[{o.directory, o.name}]);
        if (o.new_directory >= 0) last.push_back(&of_entry[{o.new_directory, o.new_name}]);
        std::size_t level = 0;
        for (auto const* l : last) level = std::max(level, *l + 1);
        bool const syncs_names = o.what == operation::kind::sync && o.is_directory;
        auto& changed = of_directory[syncs_names ? o.file : o.directory];
        auto& synced = of_directory[-2 - (syncs_names ? o.file : o.directory)];
        level = std::max(level, (syncs_names ? changed : synced) + 1);
        for (auto* l : last) *l = level;
        auto& mine = syncs_names ? synced : changed;
        mine = std::max(mine, level);
        levels[level].insert(plain(o.text()));
    }
    std::string s;
    for (auto const& [level, calls] : levels)
        for (auto const& c : calls) s += std::to_string(level) + " " + c + "\n";
    return s;
}

void save_below(const std::string& root, const saving& job, std::uint64_t seed) {
    std::vector<std::unique_ptr<stepwise>> all;
    all.push_back(std::make_unique<stepwise>(root, job, seed, nullptr));
    run_all(all, seed);
    all[0]->require_well();
}

image saved(const saving& job) {
    support::scratch dir;
    auto const root = fs::canonical(dir.dir);
    save_below(root.string(), job, 500'000);
    return read_image(root);
}

}  // namespace crash
