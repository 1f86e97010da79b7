// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_S3_SHARED_HPP
#define CAIRN_TEST_SUPPORT_S3_SHARED_HPP

#include "support/s3/plan.hpp"
#include "support/s3/service.hpp"
#include "support/s3/signature.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace s3_server {

/// A request that has arrived, and what became of it.
struct log_entry {
    request what{};  ///< Without its body.
    kind is = kind::unknown;
    std::size_t body_size = 0;
    int status = 0;       ///< 0: none was sent.
    std::string fault{};  ///< Its name; empty: none.
};

/// What all connections share. All threads.
class shared {
public:
    explicit shared(options o) { world_.how = std::move(o); }

    template <class F>
    auto with_world(F&& f) {
        std::lock_guard const lock(m_);
        return f(world_);
    }
    void fail(fault f, plan::predicate which, std::optional<std::size_t> nth) {
        std::lock_guard const lock(m_);
        world_.history_kept = std::max(world_.history_kept, f.age);
        if (f.age != 0 && world_.history.empty()) world_.remember();
        plan_.add(std::move(f), std::move(which), nth);
    }
    std::size_t faults_happened() {
        std::lock_guard const lock(m_);
        return plan_.happened();
    }
    std::vector<log_entry> log() {
        std::lock_guard const lock(m_);
        return log_;
    }
    std::size_t most_at_once() {
        std::lock_guard const lock(m_);
        return most_at_once_;
    }

    /// Gives a request its number. @return What goes wrong with it, if anything.
    std::optional<fault> begin(request& r) {
        std::lock_guard const lock(m_);
        r.number = log_.size();
        most_at_once_ = std::max(most_at_once_, ++at_once_);
        auto f = plan_.due(r);
        if (!f && is_lost(r.number, 0))
            f = faults::reset(is_lost(r.number, 1) ? effect::done : effect::none);
        log_.push_back({r, r.what(), 0, 0, f ? f->name() : std::string()});
        return f;
    }
    void end(std::size_t number, std::size_t body_size, int status) {
        std::lock_guard const lock(m_);
        --at_once_;
        log_[number].body_size = body_size;
        log_[number].status = status;
    }
    options how() {
        std::lock_guard const lock(m_);
        return world_.how;
    }
    /// Checks a request, and carries it out.
    answer perform(const request& r, std::size_t listing_age) {
        auto const o = how();
        if (auto no = refused_request(r)) return *no;
        if (auto no = refused_by_signature(o, r)) return *no;
        if (auto no = refused_by_digest(o, r)) return *no;
        bool const kept = r.what() == kind::put_object || r.what() == kind::upload_part;
        auto made = kept ? object_of(r) : object();
        std::lock_guard const lock(m_);
        auto a = carry_out(world_, r, std::move(made), listing_age);
        world_.remember();
        return a;
    }

    /// @return Whether the server is about to end.
    bool wait(std::chrono::nanoseconds t) {
        std::unique_lock lock(m_);
        return stop_.wait_for(lock, t, [this] { return stopping_; });
    }
    void stop() {
        std::lock_guard const lock(m_);
        stopping_ = true;
        stop_.notify_all();
    }

private:
    /// The same for the same seed, whichever request comes first.
    bool is_lost(std::size_t number, unsigned which) const {
        if (world_.how.lost <= 0) return false;
        std::seed_seq seed{world_.how.seed, static_cast<unsigned>(number), which};
        std::mt19937 random(seed);
        auto const p = which == 0 ? world_.how.lost : 0.5;
        return std::uniform_real_distribution<>(0, 1)(random) < p;
    }

    std::mutex m_{};
    std::condition_variable stop_{};
    bool stopping_ = false;
    world world_{};
    plan plan_{};
    std::vector<log_entry> log_{};
    std::size_t at_once_ = 0;
    std::size_t most_at_once_ = 0;
};

}  // namespace s3_server

#endif
