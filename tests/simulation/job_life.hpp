// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_JOB_LIFE_HPP
#define CAIRN_TEST_SIMULATION_JOB_LIFE_HPP

#include "save_rules.hpp"
#include "troubled_job.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace simulation {

/// One run of a job, from the start of its processes to their end: each rank saves a number of
/// times to one place, whatever comes out, and then loads.
///
/// A `Target t` has:
///
/// | `Target::writer`, `Target::rules` | types; the rules are `save_rules`                      |
/// | `t.id`                            | where all save                                         |
/// | `t.prepare(writer, version)`      | before each save                                       |
/// | `t.make_room(rules, store, p)`    | the same, on process `p`, which coordinates it         |
/// | `Target::loads`                   | whether `torch_reader` reads it                        |
template <class Target>
class job_life final : public troubled_job<typename Target::writer> {
    using troubled = troubled_job<typename Target::writer>;
    using troubled::first_, troubled::job_, troubled::part_, troubled::ranks_, troubled::s_;

public:
    /// @param host_of  By rank.
    job_life(story_stage& s, const Target& target, typename Target::rules& rules, int ranks,
             int saves, const std::function<int(int)>& host_of)
        : troubled(s, ranks, host_of), target_(target), rules_(rules), saves_(saves),
          at_(static_cast<std::size_t>(ranks)) {
        part_.on_new_id = [this](const std::string& id) { rules_.named(save_at(0), id); };
    }
    ~job_life() override { this->stop(); }

    void start(const std::vector<story_trouble>& troubles) {
        this->begin(troubles, chance_world::lane::executor, [this](int r) { next(r); });
    }
    /// @throws wrong
    void require_well() const {
        for (auto const& e : endings_)
            require(e->well(), "a verb without trouble fails: " + e->text());
        for (int r = 0; r < ranks_; ++r) require(has_ended(r), "a rank has not ended");
        for (auto const& c : loaded_) c->require_version(rules_.standing()->version);
    }

private:
    bool has_ended(int r) const override { return verb(r) > saves_; }
    int verb(int r) const override { return at_[static_cast<std::size_t>(r)]; }
    void failed_call(int r, const std::string&) override {
        if (verb(r) < saves_) rules_.at(save_at(r)).faulty.insert(r);
    }
    std::size_t save_at(int r) const { return numbers_.at(static_cast<std::size_t>(verb(r))); }

    /// The rank's next verb; after all saves a load.
    void next(int r) {
        auto const n = verb(r);
        if (n > saves_) return;
        auto const e = std::make_shared<ending>();
        endings_.push_back(e);
        e->then = [this, r, e = e.get()] { ended(r, *e); };
        this->expect_end(r);
        if (n == saves_) return load(r, e);
        if (static_cast<std::size_t>(n) == numbers_.size())
            numbers_.push_back(rules_.begin(watched_save::of(first_, ranks_, ++s_.versions)));
        cairn::save_options options;
        options.exchange_timeout = std::chrono::seconds(30);
        auto const version = rules_.at(save_at(r)).version;
        saved_.push_back(std::make_unique<content>(r, ranks_, version));
        auto& of = *saved_.back();
        target_.prepare(job_->at(r).writer(), version);
        try {
            if (r == 0) target_.make_room(rules_, this->store_of(r), first_);
        } catch (const process_ended&) {
            return;
        }
        job_->save(r, of, options, e, target_.id);
    }
    void load(int r, const std::shared_ptr<ending>& e) {
        auto const* standing = rules_.standing();
        if (standing == nullptr || !Target::loads) return e->end(nullptr, 0);
        cairn::load_options options;
        options.exchange_timeout = std::chrono::seconds(30);
        loaded_.push_back(std::make_unique<columns>(r, ranks_, standing->ranks));
        job_->load(r, *loaded_.back(), options, e);
    }
    void ended(int r, const ending& e) {
        if (s_.world.dead(first_ + r)) return;  // its process is taken apart
        if (verb(r) < saves_) {
            rules_.ended(save_at(r), r, e);
            auto const& s = rules_.at(save_at(r));
            s_.say("rank " + std::to_string(first_ + r) + ", save " + std::to_string(s.version) +
                   ": " + e.text());
            if (r == 0) s_.where.end_save(s.id);
        }
        ++at_[static_cast<std::size_t>(r)];
        part_.post(r, [this, r] { next(r); });
    }

    Target target_;
    typename Target::rules& rules_;
    int saves_;
    std::vector<int> at_;                 ///< By rank: which verb.
    std::vector<std::size_t> numbers_{};  ///< Of the saves.
    std::vector<std::unique_ptr<content>> saved_{};
    std::vector<std::unique_ptr<columns>> loaded_{};
    std::vector<std::shared_ptr<ending>> endings_{};
};

}  // namespace simulation

#endif
