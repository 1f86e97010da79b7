// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_TRAINING_LIFE_HPP
#define CAIRN_TEST_SIMULATION_TRAINING_LIFE_HPP

#include "kept_rules.hpp"
#include "retaining_writer.hpp"
#include "root_rules.hpp"
#include "troubled_job.hpp"
#include "waiting_group.hpp"

#include <cairn/catalog/detail/committed.hpp>
#include <cairn/catalog/detail/record_list.hpp>
#include <cairn/catalog/latest.hpp>
#include <cairn/checkpointer/detail/recovery.hpp>
#include <cairn/comm/detail/blocking_exchange.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace simulation {

/// One attempt of a training: all ranks load the newest checkpoint, and then save a number of
/// times, each step to a place of its own; the coordinator removes what is not kept.
class training_life final : public troubled_job<retaining_writer> {
public:
    struct plan {
        int saves = 1;
        kept_rules keep{};
        cairn::verify_level verify = cairn::verify_level::metadata;
        int cut_off_at = -1;       ///< All hosts, while the save of this number is published …
        world::duration lasts{0};  ///< … for so long.
    };
    /// @param host_of  By rank.
    training_life(story_stage& s, root_rules& rules, int ranks, plan p,
                  const std::function<int(int)>& host_of, const cairn::detail::job_attempt& of)
        : troubled_job(s, ranks, host_of, of), rules_(rules), plan_(std::move(p)),
          at_(static_cast<std::size_t>(ranks)) {
        rules.removals.add_coordinator(first_, plan_.keep);
        part_.on_new_id = [this](const std::string& id) {
            auto const& mine = saves_.at(static_cast<std::size_t>(verb(0) - 1));
            mine.where->named(mine.number, id);
            rules_.removals.note_save(first_, id);
        };
    }
    ~training_life() override { stop(); }

    void start(const std::vector<story_trouble>& troubles) {
        begin(troubles, chance_world::lane::jobs, [this](int r) { live(r); });
    }
    /// @throws wrong
    void require_well() const {
        for (int r = 0; r < ranks_; ++r) require(has_ended(r), "a rank has not ended");
        require(failed_.empty(), "it fails without trouble: " + failed_);
    }

private:
    static constexpr int ended = 1 << 20;
    struct save {
        save_rules* where;
        std::size_t number;
        watched_save& watched() const { return where->at(number); }
    };

    bool has_ended(int r) const override { return verb(r) == ended; }
    int verb(int r) const override { return at_[static_cast<std::size_t>(r)]; }
    void failed_call(int r, const std::string& call) override {
        auto const n = static_cast<std::size_t>(verb(r));
        if (n == 0 || n > saves_.size()) return;
        // A checkpoint that cannot be read as all are listed is left out, without a word. The list
        // of records saves requests, and is as good as none where it cannot be written.
        bool const listed = call.ends_with("/.metadata") &&
                            (call.starts_with("open of ") || call.starts_with("read of "));
        if (!listed && !call.ends_with(cairn::detail::record_list_name))
            saves_[n - 1].watched().faulty.insert(r);
    }
    int process(int r) const { return first_ + r; }

    /// What a rank's program does.
    void live(int r) {
        auto& at = at_[static_cast<std::size_t>(r)];
        try {
            expect_end(r);
            auto step = recover(r);
            for (int n = 0; n < plan_.saves; ++n) {
                ++at;
                expect_end(r);
                save_step(r, n, step += 10);
            }
        } catch (const process_ended&) {
            return;
        } catch (...) {
            note_failure(r, std::current_exception());
        }
        at = ended;
    }
    void note_failure(int r, const std::exception_ptr& e) {
        auto const text = cairn::detail::text_of(e);
        s_.say("process " + std::to_string(process(r)) + " ends: " + text);
        if (failed_.empty()) failed_ = text;
    }
    /// In a rank's program: until a verb has ended.
    void await(int r, const std::shared_ptr<ending>& e, const std::function<void()>& begin,
               const std::function<void()>& then = {}) {
        s_.world.block(process(r), [&](const world::event& wake) {
            e->then = [this, r, then, wake] {
                if (s_.world.dead(process(r))) return;  // its process is taken apart
                if (then) then();
                wake();
            };
            begin();
        });
        if (!e->over || s_.world.dead(process(r))) throw process_ended();
    }

    void save_step(int r, int n, std::int64_t step) {
        auto const id = "step_" + std::to_string(step);
        if (static_cast<std::size_t>(n) == saves_.size()) {
            auto& where = rules_.place(id);
            saves_.push_back(
                {&where, where.begin(watched_save::of(first_, ranks_, ++s_.versions))});
        }
        auto const mine = saves_[static_cast<std::size_t>(n)];
        cairn::save_options options;
        options.exchange_timeout = std::chrono::seconds(30);
        cairn::commit_record record;
        record.step = step;
        record.metrics["loss"] = kept_rules::loss(step);
        job_->at(r).writer().prepare(
            catalog_, std::move(record), [this] { return s_.where.wall(first_) * 1000; },
            [this, n] { publish(n); });
        contents_.push_back(std::make_unique<content>(r, ranks_, mine.watched().version));
        auto& of = *contents_.back();
        auto const e = std::make_shared<ending>();
        await(
            r, e, [&] { job_->save(r, of, options, e, id); },
            [this, r, mine, e = e.get()] {
                mine.where->ended(mine.number, r, *e);
                auto const& s = mine.watched();
                s_.say("process " + std::to_string(process(r)) + ", save " +
                       std::to_string(s.version) + ": " + e->text());
                if (r == 0) s_.where.end_save(s.id);
            });
        if (e->failure && failed_.empty()) failed_ = e->text();
    }

    /// The coordinator is about to publish.
    void publish(int n) {
        if (n == plan_.cut_off_at)
            s_.world.after(s_.world.some_time(std::chrono::milliseconds(4)), world::nobody,
                           [this, alive = std::weak_ptr(alive_)] {
                               if (!alive.lock() || is_cut_off()) return;
                               s_.say("its hosts are cut off as it publishes");
                               cut_off(0, plan_.lasts, false);
                           });
    }
    /// `checkpointer::load_latest`. @return The step from which the training goes on.
    std::int64_t recover(int r) {
        waiting_group lane(job_->at(r).plain_group(), s_.world, process(r));
        cairn::detail::blocking_exchange ranks(lane, 0, std::chrono::seconds(30));
        cairn::latest_options options;
        options.verify = plan_.verify;
        options.quarantine = true;
        options.on_skipped = [this](const std::string& what) { s_.say(what); };
        auto const activity = std::make_shared<cairn::activity>();
        lane.share(activity);
        cairn::detail::recovery search(ranks, {cairn::any_store(store_of(r))}, options, activity);
        auto const expected = r == 0 ? rules_.newest_heard() : kept_rules::checkpoint{};
        auto const changes = expected.id.empty() ? 0 : rules_.place(expected.id).changes();
        for (bool first = true;; first = false) {
            auto const found = search.next();
            if (first && !expected.id.empty() && rules_.place(expected.id).changes() == changes)
                check_latest(expected, found);
            if (!found) return 0;
            s_.say("process " + std::to_string(process(r)) + " loads " + found->id);
            auto const failure = load(r, found->id);
            if (!search.loaded(*found, failure)) continue;
            if (r == 0) note_read(found->id);
            return std::stoll(found->id.substr(found->id.find('_') + 1));
        }
    }
    /// A host that caches names need not have seen yet what others have saved.
    void check_latest(const kept_rules::checkpoint& expected,
                      const std::optional<cairn::detail::recovery::found>& found) {
        if (troubled_ || s_.kind == store_kind::renamed) return;
        auto const what = "latest finds " + (found ? found->id : std::string("nothing")) +
                          ", but all ranks were told of " + expected.id;
        if (!found) return s_.found.require(false, what);
        auto const& record = rules_.place(found->id).standing_record();
        s_.found.require(record && !kept_rules::is_older({found->id, *record}, expected), what);
    }
    std::exception_ptr load(int r, const std::string& id) {
        auto const& where = rules_.place(id);
        auto const* standing = where.standing();
        cairn::load_options options;
        options.exchange_timeout = std::chrono::seconds(30);
        columns_.push_back(
            std::make_unique<columns>(r, ranks_, standing ? standing->ranks : ranks_));
        auto& into = *columns_.back();
        auto const e = std::make_shared<ending>();
        await(r, e, [&] { job_->load(r, into, options, e, id); });
        job_->at(r).reader().reset({});  // as if it was the verb's
        if (e->failure) return e->failure;
        check_loaded(s_.found, where, into);
        if (r == 0)
            if (auto const* s = where.of_version(into.step)) loaded_ = s->id;
        return nullptr;
    }
    /// On the coordinator, as `checkpointer` does.
    void note_read(const std::string& id) {
        try {
            auto place = cairn::any_store(store_of(0).at(id));
            auto const record = cairn::detail::read_commit_record(place);
            if (!record) return;
            catalog_->note_read(*record);
            if (record->save_id == loaded_) rules_.removals.note_read(first_, loaded_);
        } catch (const process_ended&) {
            throw;
        } catch (...) {  // it was removed by others, or cannot be read again
        }
    }

public:
    /// What was loaded is what one save has saved.
    static void check_loaded(findings& f, const save_rules& where, const columns& c) {
        try {
            c.require_version(c.step);
        } catch (const wrong& e) {
            f.require(false, std::string("loaded: ") + e.what());
        }
        f.require(where.has_published(c.step), "loaded: what was never saved there");
    }

private:
    root_rules& rules_;
    plan plan_;
    std::vector<int> at_;  ///< By rank: which verb. 0: the load.
    std::vector<save> saves_{};
    std::vector<std::unique_ptr<content>> contents_{};
    std::vector<std::unique_ptr<columns>> columns_{};
    std::string loaded_{};  ///< The id of the save that the coordinator has loaded.
    std::string failed_{};  ///< Why something has failed, the first time.
    std::shared_ptr<cairn::detail::run_catalog> catalog_ =
        std::make_shared<cairn::detail::run_catalog>(plan_.keep.told());
};

}  // namespace simulation

#endif
