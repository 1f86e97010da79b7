// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_HOSTS_HPP
#define CAIRN_TEST_SIMULATION_HOSTS_HPP

#include "chance_world.hpp"
#include "storage_server.hpp"

#include <cairn/object_store/detail/process_identity.hpp>
#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/running_reads.hpp>
#include <cairn/storage/detail/running_saves.hpp>
#include <cairn/storage/detail/save_intent.hpp>

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
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

    /// @param of  The job's own name and attempt; without a name, restarts show nothing.
    void start(int process, int host, const cairn::detail::job_attempt& of = {}) {
        host_of_[process] = host;
        if (!of.job.empty()) job_of_[process] = of;
    }
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

    /// Whether a process is of a later attempt of the other one's job.
    bool follows(int process, int other) const {
        auto const a = job_of_.find(process), b = job_of_.find(other);
        return a != job_of_.end() && b != job_of_.end() && a->second.follows(b->second);
    }

    /// Seconds of the storage's own clock.
    std::int64_t storage() const {
        return std::chrono::duration_cast<std::chrono::seconds>(
                   world_.now(world::nobody).time_since_epoch())
            .count();
    }

    /// What is in a file, as `reader` finds it.
    cairn::byte_vector seen(std::string_view name, const stored& file, int reader) const {
        namespace d = cairn::detail;
        auto const& by = file.by;
        try {
            if (d::is_intent_name(name)) {
                auto i = d::save_intent::decode(file.bytes);
                bool const own = by.process == reader;
                // Others only see that the process runs.
                bool const works =
                    !own || (ended_.count(i.save_id) == 0 && d::running_save::is(i.save_id));
                if (own && works) return file.bytes;
                i.began = by.wall;
                i.owner = seen_owner(by.process, reader, works && !world_.dead(by.process));
                return i.encode();
            }
            if (d::is_reading_name(name)) {
                auto n = d::read_notice::decode(file.bytes);
                n.began = by.wall;
                n.owner = seen_owner(by.process, reader, !world_.dead(by.process));
                return n.encode();
            }
        } catch (const cairn::error&) {  // cut short by a crash
        }
        return file.bytes;
    }

private:
    cairn::detail::record_owner seen_owner(int owner, int reader, bool runs) const {
        static auto const me = cairn::detail::record_owner::this_one();
        auto out = me;
        out.job = seen_job(owner, reader, out.job);
        auto& process = out.process;
        process.run = "of another process";
        process.started = 0;
        // No such process, or one that is always there.
        process.pid = runs ? 1 : std::numeric_limits<::pid_t>::max();
        if (host_of(owner) != host_of(reader))
            process.boot = "host " + std::to_string(host_of(owner));
        return out;
    }
    /// The readers' own attempt is always `mine`; those of other processes are put around it.
    cairn::detail::job_attempt seen_job(int owner, int reader,
                                        const cairn::detail::job_attempt& mine) const {
        auto const a = job_of_.find(owner), b = job_of_.find(reader);
        if (a == job_of_.end() || b == job_of_.end() || a->second.job != b->second.job)
            return {"another job", 1};
        return {mine.job, mine.attempt + a->second.attempt - b->second.attempt};
    }

    const chance_world& world_;
    std::map<int, int> host_of_{};
    std::map<int, cairn::detail::job_attempt> job_of_{};
    std::map<int, std::chrono::seconds> ahead_{};
    std::set<std::string> ended_{};
};

}  // namespace simulation

#endif
