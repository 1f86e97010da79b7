// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_OUTSIDERS_HPP
#define CAIRN_TEST_SIMULATION_OUTSIDERS_HPP

#include "root_rules.hpp"
#include "training_life.hpp"
#include "troubled_job.hpp"

#include <cairn/catalog/garbage.hpp>
#include <cairn/storage/detail/running_reads.hpp>

#include <chrono>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace simulation {

/// A process that runs `cairn gc` beside the trainings.
class collector {
public:
    collector(story_stage& s, int host, bool dry_run, const story_trouble* trouble = nullptr)
        : s_(s), process_(s.processes++), client_(s.client(process_, host)) {
        if (trouble != nullptr) prepare(*trouble);
        s.world.after(
            world::duration(1), process_, [this, dry_run] { collect(dry_run); },
            chance_world::lane::jobs);
    }
    collector(collector&&) = delete;
    ~collector() {
        s_.world.drop(process_, process_ + 1);
        s_.server.unlock_all(process_);
    }
    bool over() const { return over_ || s_.world.dead(process_); }
    const std::string& failure() const { return failure_; }

private:
    void prepare(const story_trouble& t) {
        using kind = story_trouble::kind;
        s_.say("  " + t.text());
        if (t.what == kind::fault) client_->fault = t.fault;
        if (t.what == kind::slow) client_->typical = std::chrono::milliseconds(50);
        if (t.what == kind::stuck) {
            client_->stuck_at = t.fault.at;
            client_->stuck_for = t.lasts;
        }
        if (t.what == kind::killed)
            s_.world.after(t.when, world::nobody, [w = &s_.world, s = &s_.server, p = process_] {
                w->kill(p);
                s->unlock_all(p);
            });
    }
    void collect(bool dry_run) {
        try {
            simulated_store root(*client_);
            auto const report = cairn::collect_garbage(root, dry_run);
            for (auto const& line : report.lines) {
                s_.say("gc: " + line);
                if (report.problems != 0) failure_ += line + "\n";
            }
        } catch (const process_ended&) {
            return;
        } catch (...) {
            failure_ = cairn::detail::text_of(std::current_exception());
            s_.say("gc fails: " + failure_);
        }
        over_ = true;
    }

    story_stage& s_;
    int process_;
    std::unique_ptr<storage_client> client_;
    bool over_ = false;
    std::string failure_{};
};

/// Reaches what a registry of cairn's keeps private: all simulated processes are this one.
template <auto Registry>
struct registry_access {
    friend auto& reads_of_this_process() { return Registry(); }
};
auto& reads_of_this_process();
template struct registry_access<
    &cairn::detail::registered_id<cairn::detail::registry_of_reads>::registry>;

/// A process that reads one checkpoint, and says so by a notice beside it.
class outside_reader final : public troubled_job<> {
public:
    outside_reader(story_stage& s, root_rules& rules, int host, std::string id,
                   const story_trouble* trouble)
        : troubled_job(s, 1, [&](int) { return host; }, {}, {.thread_count = 1, .announce = true}),
          rules_(rules), id_(std::move(id)) {
        std::map<int, world::duration> late;
        if (trouble != nullptr) prepare(*trouble, late);
        client(0).typical = std::chrono::milliseconds(s.world.below(3) == 0 ? 20 : 1);
        on_end = [this](story_trouble::kind) { s_.world.kill(first_); };
        s.world.after(
            world::duration(1), first_, [this] { load(); }, chance_world::lane::executor);
    }
    ~outside_reader() override {
        // First: it may be in the middle of a call of the reader, which is the job's.
        s_.world.drop(first_, first_ + 1);
        stop();
    }

    /// What another process reads is not in the registry of the one that removes.
    static void forget_in_this_process(const std::string& save_id) {
        auto& ids = reads_of_this_process().ids;
        if (auto const it = ids.find(save_id); it != ids.end()) ids.erase(it);
    }

private:
    bool has_ended(int) const override { return over_; }
    int verb(int) const override { return over_ ? 1 : 0; }
    void failed_call(int, const std::string&) override {}

    void load() {
        expect_end(0);
        auto const* standing = rules_.place(id_).standing();
        if (standing == nullptr) {
            over_ = true;
            return;
        }
        into_ = std::make_unique<columns>(0, 1, standing->ranks);
        ending_ = std::make_shared<ending>();
        ending_->then = [this] { ended(); };
        cairn::load_options options;
        options.exchange_timeout = std::chrono::seconds(30);
        job_->load(0, *into_, options, ending_, id_);
    }
    void ended() {
        if (s_.world.dead(first_)) return;
        part_.post_job(0, [this] {
            job_->at(0).reader().reset({});  // as if it was the verb's: the notice goes
            over_ = true;
        });
        s_.say("process " + std::to_string(first_) + ", load of " + id_ + ": " + ending_->text());
        if (ending_->well()) training_life::check_loaded(s_.found, rules_.place(id_), *into_);
    }

    root_rules& rules_;
    std::string id_;
    std::unique_ptr<columns> into_{};
    std::shared_ptr<ending> ending_{};
    bool over_ = false;
};

}  // namespace simulation

#endif
