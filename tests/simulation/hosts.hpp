// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_HOSTS_HPP
#define CAIRN_TEST_SIMULATION_HOSTS_HPP

#include "chance_world.hpp"
#include "storage_server.hpp"

#include <cairn/detail/process_identity.hpp>
#include <cairn/storage/data_names.hpp>
#include <cairn/storage/save_intent.hpp>

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace simulation {

/// The processes of a world, the hosts that they run on, and the hosts' wall clocks.
///
/// All processes of a simulation are this one. What one of them finds in another one's intent, its
/// owner and when that began by the owner's clock, is therefore put there here, and nowhere else.
/// Clocks differ and jump, and must not matter.
class hosts {
public:
    explicit hosts(const chance_world& w) : world_(w) {}

    void start(int process, int host) { host_of_[process] = host; }
    int host_of(int process) const { return host_of_.at(process); }
    /// The process has ended that save, and may have begun another one.
    void end_save(const std::string& id) { ended_.insert(id); }

    /// Sets a host's clock forwards or backwards.
    void jump(int host, std::chrono::seconds by) { ahead_[host] += by; }
    void set_right() { ahead_.clear(); }
    /// Seconds of the host's clock.
    std::int64_t wall(int process) const {
        auto const it = ahead_.find(host_of(process));
        return storage() + (it == ahead_.end() ? 0 : it->second.count());
    }

    /// Seconds of the storage's own clock.
    std::int64_t storage() const {
        return std::chrono::duration_cast<std::chrono::seconds>(
                   world_.now(world::nobody).time_since_epoch())
            .count();
    }

    /// An intent, as `reader` finds it.
    cairn::byte_vector seen(const cairn::byte_vector& bytes, const maker& by, int reader) const {
        cairn::detail::save_intent i;
        try {
            i = cairn::detail::save_intent::decode(bytes);
        } catch (const cairn::error&) {
            return bytes;  // cut short by a crash
        }
        i.began = by.wall;
        auto& process = i.owner.process;
        process = cairn::detail::this_process();
        process.run = "of another process";
        process.started = 0;
        bool const runs = !world_.dead(by.process) && ended_.count(i.save_id) == 0;
        // No such process, or one that is always there.
        process.pid = runs ? 1 : std::numeric_limits<::pid_t>::max();
        if (host_of(by.process) != host_of(reader))
            process.boot = "host " + std::to_string(host_of(by.process));
        return i.encode();
    }

private:
    const chance_world& world_;
    std::map<int, int> host_of_{};
    std::map<int, std::chrono::seconds> ahead_{};
    std::set<std::string> ended_{};
};

}  // namespace simulation

#endif
