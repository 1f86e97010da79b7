// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SAVE_BACKGROUND_RANKS_HPP
#define CAIRN_TEST_SAVE_BACKGROUND_RANKS_HPP

#include "support/forwarding_store.hpp"
#include "support/whole.hpp"

#include <cairn/async_save.hpp>
#include <cairn/comm/thread_group.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>

#include <boost/asio/use_future.hpp>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace background_ranks {

namespace asio = boost::asio;

/// Where the ranks stand in the middle of a write until they are let go on.
struct gate {
    std::mutex m{};
    std::condition_variable changed{};
    int waiting = 0;
    bool open = false;

    void pass() {
        std::unique_lock lock(m);
        ++waiting;
        changed.notify_all();
        changed.wait_for(lock, std::chrono::seconds(60), [&] { return open; });
    }
    bool wait_for(int n) {
        std::unique_lock lock(m);
        return changed.wait_for(lock, std::chrono::seconds(60), [&] { return waiting >= n; });
    }
    void let_go() {
        std::lock_guard const lock(m);
        open = true;
        changed.notify_all();
    }
};

/// A store whose writes stand at a gate, once for each file.
template <class Store>
class gated_store : public support::forwarding_store<Store> {
public:
    gated_store(Store s, std::shared_ptr<gate> g)
        : support::forwarding_store<Store>(std::move(s)), gate_(std::move(g)) {}
    gated_store at(const std::string& id) const { return {this->store_.at(id), gate_}; }
    auto create(std::string_view n, std::uint64_t size) {
        auto h = this->store_.create(n, size);
        gate_->pass();
        return h;
    }

private:
    std::shared_ptr<gate> gate_;
};

struct ranks_of_three {
    cairn::thread_group group{3};
    std::vector<cairn::thread_group::member> members{};
    std::vector<std::vector<float>> rows{};
    std::vector<cairn::state_dict> dicts{};

    explicit ranks_of_three(float v) : rows(3, std::vector<float>(2, v)) {
        for (int r = 0; r < 3; ++r) {
            members.push_back(group.rank(r));
            dicts.push_back(
                {{"w", cairn::shard_by_mesh(
                           cairn::tensor_view(cairn::dtype::f32, {1, 2},
                                              rows[static_cast<std::size_t>(r)].data()),
                           {3, 2}, cairn::device_mesh::line(3), {cairn::shard_along{0}}, r)}});
        }
    }
    /// All ranks save: their handles, once everything is staged.
    template <class Store>
    std::vector<cairn::pending_save> save(Store store) {
        std::vector<std::future<cairn::pending_save>> staged;
        for (std::size_t r = 0; r < 3; ++r)
            staged.push_back(
                cairn::async_save(dicts[r], "c", members[r], Store(store), asio::use_future));
        std::vector<cairn::pending_save> all;
        for (auto& s : staged) all.push_back(s.get());
        return all;
    }
};

inline std::string code_of(const std::exception_ptr& e) {
    if (!e) return "none";
    try {
        std::rethrow_exception(e);
    } catch (const cairn::error& x) {
        return x.code().message();
    } catch (...) {
        return "another type";
    }
}

inline std::string outcome_of(cairn::pending_save& p) {
    try {
        (void)p.wait();
        return "none";
    } catch (...) {
        return code_of(std::current_exception());
    }
}

inline std::string const cancelled = cairn::make_error_code(cairn::errc::cancelled).message();

inline float first_of(cairn::memory_store& base) {
    auto const w = support::load_whole(base, "c");
    float first = 0;
    std::memcpy(&first, w.tensors.at("w").bytes.data(), sizeof first);
    return first;
}

}  // namespace background_ranks

#endif
