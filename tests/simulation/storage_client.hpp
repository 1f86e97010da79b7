// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_STORAGE_CLIENT_HPP
#define CAIRN_TEST_SIMULATION_STORAGE_CLIENT_HPP

#include "chance_world.hpp"
#include "hosts.hpp"
#include "storage_server.hpp"

#include "support/fault_store.hpp"

#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/s3.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace simulation {

/// How a storage publishes.
enum class store_kind {
    bucket,   ///< Of S3, through cairn's store: conditional PUTs, uploads in parts.
    locked,   ///< Files: compared and renamed under a lock on the directory.
    renamed,  ///< Files: compared, then renamed. Hosts cache names, as with NFS.
};
inline const char* name_of(store_kind k) {
    constexpr const char* names[] = {"a bucket", "locks", "renames and caches"};
    return names[static_cast<std::size_t>(k)];
}

/// Thrown into what a process was doing when it was killed.
struct process_ended {};

/// What a host of NFS has cached: which names there are. What is opened is looked at again, so
/// only lists and absent names can be old, and not longer than `valid`; what the host changes
/// itself makes it ask again.
struct host_cache {
    chance_world::duration valid{0};
    std::map<std::string, std::pair<world::time, std::vector<cairn::object_info>>> lists{};
    std::map<std::string, world::time, std::less<>> absent{};

    void changed() {
        lists.clear();
        absent.clear();
    }
};

/// One process's calls to the storage: when they happen, and what goes wrong in them.
struct storage_client {
    storage_client(chance_world& w, storage_server& s, hosts& h, host_cache& c, store_kind k, int p)
        : world(w), server(s), where(h), cache(c), kind(k), process(p) {}
    storage_client(storage_client&&) = delete;

    chance_world& world;
    storage_server& server;
    hosts& where;
    host_cache& cache;
    store_kind kind;
    int process;
    chance_world::duration typical{std::chrono::microseconds(300)};
    int calls = 0;
    support::fault fault{};  ///< Of the call of this number.
    int stuck_at = -1;       ///< The call of this number takes so much longer.
    chance_world::duration stuck_for{0};
    std::function<void(const std::string&)> on_fault{};
    std::function<void(const std::string&)> on_renamed{};  ///< A file was replaced just now.
    std::uint64_t losses = 0;  ///< Of a bucket's requests, one in so many is lost; 0: none.
    bool troubled = false;     ///< Some request of a bucket did not go well.
    std::shared_ptr<cairn::s3_store> bucket{};
    world::time away_until{};  ///< Until then the host does not reach the storage; calls wait.

    bool ended() const { return world.dead(process); }
    simulation::maker maker() const { return {process, where.wall(process), where.storage()}; }

    template <class F>
    auto call(const std::string& what, F&& effect) {
        auto const number = calls++;
        pass(number == stuck_at ? stuck_for : world.some_time(typical));
        wait_for_storage();
        bool const fails = number == fault.at;
        // A call that fails by itself is no fault, even if it was to be one.
        auto const fail = [&] {
            if (on_fault) on_fault(what);
            support::throw_it(fault.what, what);
        };
        if (fails && !fault.afterwards) fail();
        auto const answer = [&] {
            pass(world.some_time(typical));
            wait_for_storage();
            if (fails) fail();
        };
        if constexpr (std::is_void_v<decltype(effect())>) {
            effect();
            answer();
        } else {
            auto r = effect();
            answer();
            return r;
        }
    }
    /// Time passes; then the process may have ended.
    void pass(chance_world::duration d) {
        if (!ended()) world.sleep(process, d);
        if (ended()) throw process_ended{};
    }

    void wait_for_storage() {
        if (auto const now = world.now(process); now < away_until) pass(away_until - now);
    }

    /// The name, as this host sees it.
    storage_server::file look_up(const std::string& name) {
        if (kind != store_kind::renamed) return server.find(name);
        auto const now = world.now(process);
        auto const it = cache.absent.find(name);
        if (it != cache.absent.end() && now < it->second) return nullptr;
        auto f = server.find(name);
        if (!f)
            cache.absent[name] = now + cache.valid;
        else if (it != cache.absent.end())
            cache.absent.erase(it);
        return f;
    }
    /// The files directly in a place, with the temporary ones.
    std::vector<cairn::object_info> list(const std::string& prefix) {
        auto const now = world.now(process);
        if (kind == store_kind::renamed) {
            auto const it = cache.lists.find(prefix);
            if (it != cache.lists.end() && now < it->second.first) return it->second.second;
        }
        std::vector<cairn::object_info> out;
        auto const& all = server.all();
        for (auto it = all.lower_bound(prefix); it != all.end() && it->first.starts_with(prefix);
             ++it) {
            if (it->first.find('/', prefix.size()) != std::string::npos) continue;
            out.push_back({it->first.substr(prefix.size()), it->second->bytes.size(),
                           it->second->by.at * 1'000'000'000});
        }
        if (kind == store_kind::renamed) cache.lists[prefix] = {now + cache.valid, out};
        return out;
    }
};

}  // namespace simulation

#endif
