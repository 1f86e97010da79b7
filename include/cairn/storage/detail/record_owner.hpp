// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_RECORD_OWNER_HPP
#define CAIRN_STORAGE_DETAIL_RECORD_OWNER_HPP

#include <cairn/detail/host_name.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/detail/process_identity.hpp>
#include <cairn/storage/detail/job_attempt.hpp>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

namespace cairn::detail {

/// The process that keeps a record in a place for as long as a save or a load runs.
struct record_owner {
    process_identity process{};
    job_attempt job{};
    std::string host{};  ///< For people.
    friend bool operator==(const record_owner&, const record_owner&) = default;

    static record_owner this_one() {
        return {this_process(), job_attempt::of_this_process(), host_name()};
    }
};

inline void put(wire_writer& w, const process_identity& p) {
    w.string(p.boot);
    w.varint(p.pid_space);
    w.svarint(p.pid);
    w.varint(p.started);
    w.string(p.run);
}
inline process_identity get_process(wire_reader& r) {
    process_identity p;
    p.boot = r.string();
    p.pid_space = r.varint();
    p.pid = r.svarint();
    p.started = r.varint();
    p.run = r.string();
    return p;
}
/// boot · pid space · pid · started · run · job · attempt · host
inline void put(wire_writer& w, const record_owner& o) {
    put(w, o.process);
    w.string(o.job.job);
    w.varint(o.job.attempt);
    w.string(o.host);
}
inline record_owner get_owner(wire_reader& r) {
    record_owner o;
    o.process = get_process(r);
    o.job.job = r.string();
    o.job.attempt = r.varint();
    o.host = r.string();
    return o;
}

/// The time after which an unchanged record, by the storage's clock, is presumed to be left over if
/// its owner's state cannot be determined.
inline constexpr std::chrono::hours record_expiry{24};

/// @param modified  The latest sign of life, by the storage's clock; 0: not known.
/// @param now       By the same clock; 0: not known.
inline bool is_expired(std::int64_t modified, std::int64_t now) {
    constexpr std::int64_t limit = std::chrono::nanoseconds(record_expiry).count();
    return modified > 0 && now > modified && now - modified >= limit;
}

/// When the objects of a place were last changed, by the storage's clock. Refers to the list.
class modification_times {
public:
    explicit modification_times(std::span<const object_info> there) {
        for (auto const& o : there) by_name_.emplace(o.name, o.modified);
    }
    /// @return 0: not known.
    std::int64_t of(std::string_view name) const {
        auto const it = by_name_.find(name);
        return it == by_name_.end() ? 0 : it->second;
    }

private:
    std::unordered_map<std::string_view, std::int64_t> by_name_{};
};

}  // namespace cairn::detail

#endif
