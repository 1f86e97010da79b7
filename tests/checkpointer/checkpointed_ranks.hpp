// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_CHECKPOINTER_CHECKPOINTED_RANKS_HPP
#define CAIRN_TEST_CHECKPOINTER_CHECKPOINTED_RANKS_HPP

#include "support/fault_store.hpp"
#include "support/forwarding_store.hpp"
#include "support/on_threads.hpp"
#include "support/whole.hpp"

#include <cairn/checkpointer.hpp>
#include <cairn/comm/thread_group.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/memory.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace checkpointed_ranks {

/// What the store of one rank does when a file is created: it waits while closed, and fails if it
/// is told to.
class control {
public:
    void create() {
        std::unique_lock lock(m_);
        ++entered_;
        changed_.notify_all();
        changed_.wait_for(lock, std::chrono::seconds(60), [&] { return !closed_; });
        if (fails_) support::throw_it(*fails_, "create");
    }
    void close() {
        set([&] { closed_ = true; });
    }
    void open() {
        set([&] { closed_ = false; });
    }
    void fail(std::optional<support::thrown> with) {
        set([&] { fails_ = with; });
    }
    /// Whether so many files were, or are to be, created.
    bool wait_for(int n) {
        std::unique_lock lock(m_);
        return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return entered_ >= n; });
    }

private:
    template <class F>
    void set(F f) {
        std::lock_guard const lock(m_);
        f();
        changed_.notify_all();
    }
    std::mutex m_{};
    std::condition_variable changed_{};
    int entered_ = 0;
    bool closed_ = false;
    std::optional<support::thrown> fails_{};
};

/// A place in memory that all ranks share, through one rank's control.
class controlled_store : public support::forwarding_store<cairn::memory_store> {
public:
    controlled_store(cairn::memory_store s, std::shared_ptr<control> c)
        : forwarding_store(std::move(s)), control_(std::move(c)) {}
    controlled_store at(const std::string& id) const { return {store_.at(id), control_}; }
    auto create(std::string_view n, std::uint64_t size) {
        auto h = store_.create(n, size);
        control_->create();
        return h;
    }

private:
    std::shared_ptr<control> control_;
};

/// One rank of a run: a row of a tensor, and what its checkpointer needs.
struct rank {
    int number;
    int size;
    cairn::thread_group::member member;
    controlled_store store;
    std::vector<float> row = std::vector<float>(2, 0.0f);
    bool refuses_state = false;
    std::vector<float> more{};  ///< This rank's alone.

    cairn::checkpointer checkpointer(cairn::checkpointer_options o) {
        return {member, store, std::move(o)};
    }
    /// Returns on no rank before all have called it.
    void meet() {
        (void)cairn::await_completion<cairn::message>([&](auto done) {
            member.broadcast({}, 0, cairn::deadline_after(std::chrono::minutes(1)),
                             std::move(done));
        });
    }
    void train(std::int64_t step) { row.assign(2, static_cast<float>(step)); }
    cairn::state_dict state_dict() {
        if (refuses_state) throw 42;
        cairn::state_dict d{
            {"w", cairn::shard_by_mesh(cairn::tensor_view(cairn::dtype::f32, {1, 2}, row.data()),
                                       {size, 2}, cairn::device_mesh::line(size),
                                       {cairn::shard_along{0}}, number)}};
        if (!more.empty()) d["more"] = more;
        return d;
    }
    void load_state_dict(const cairn::state_dict&) {}
};

struct run {
    explicit run(int ranks) : n(ranks) {
        for (int r = 0; r < n; ++r) controls.push_back(std::make_shared<control>());
    }
    /// Runs `f(rank&)` on a thread for each rank.
    template <class F>
    void on_ranks(F f) {
        cairn::thread_group group(n);
        support::rethrow_first(support::try_on_threads(n, [&](int r) {
            rank me{r, n, group.rank(r), {base, controls[static_cast<std::size_t>(r)]}};
            f(me);
        }));
    }
    bool exists(const std::string& id) { return !base.at(id).list().empty(); }
    /// What all numbers of a checkpoint are.
    float value_of(const std::string& id) {
        return support::only_number(support::load_whole(base, id).tensors.at("w"));
    }

    int n;
    cairn::memory_store base{};
    std::vector<std::shared_ptr<control>> controls{};
};

/// What all ranks must see alike.
class notes {
public:
    void add(int rank, std::string what) {
        std::lock_guard const lock(m_);
        all_.resize(std::max(all_.size(), static_cast<std::size_t>(rank) + 1));
        all_[static_cast<std::size_t>(rank)].push_back(std::move(what));
    }
    /// One rank's, if all ranks' are equal.
    std::vector<std::string> agreed() const {
        for (auto const& a : all_)
            if (a != all_.front()) return {"ranks differ"};
        return all_.empty() ? std::vector<std::string>() : all_.front();
    }

private:
    std::mutex m_{};
    std::vector<std::vector<std::string>> all_{};
};

/// How a call went: "saved", "postponed" or "nothing", and what has failed before; or the error's
/// text.
template <class F>
std::string outcome_of(F&& f) {
    try {
        cairn::checkpoint_result const r = f();
        std::string said = r.saved ? "saved" : r.postponed ? "postponed" : "nothing";
        for (auto const& why : r.failures) said += "; " + why.text;
        return said;
    } catch (const std::exception& e) {
        return e.what();
    }
}
inline bool has(const std::string& s, std::string_view part) {
    return s.find(part) != std::string::npos;
}

}  // namespace checkpointed_ranks

#endif
