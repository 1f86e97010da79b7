// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_REMOVAL_RULES_HPP
#define CAIRN_TEST_SIMULATION_REMOVAL_RULES_HPP

#include "findings.hpp"
#include "hosts.hpp"
#include "kept_rules.hpp"
#include "save_rules.hpp"
#include "storage_server.hpp"

#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/running_reads.hpp>
#include <cairn/storage/detail/save_intent.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace simulation {

/// Only retention removes a checkpoint: none that it keeps, none that is being read.
class removal_rules {
public:
    removal_rules(findings& f, const chance_world& w, const hosts& h)
        : findings_(f), world_(w), where_(h) {}

    /// A process that removes what these do not keep.
    void add_coordinator(int process, const kept_rules& keep) {
        coordinators_[process] = {keep, 0, {}, {}, {}};
    }
    /// It has read the checkpoint of this save, from the first byte to the last.
    void note_read(int process, const std::string& save_id) {
        auto& run = coordinators_.at(process);
        run.read[save_id] = ++run.reads;
    }
    /// It saves, after what it has read.
    void note_save(int process, const std::string& save_id) {
        coordinators_.at(process).saves.insert(save_id);
    }
    /// Says of what stands what it has read.
    /// @param seen  Whether it has seen its own saves that others, or itself, have since replaced.
    void judge(int process, bool seen, std::vector<kept_rules::checkpoint>& all) const {
        auto const& run = coordinators_.at(process);
        auto const standing = std::count_if(all.begin(), all.end(), [&](auto const& c) {
            return run.saves.count(c.record.save_id) != 0;
        });
        for (auto& c : all) {
            auto const read = run.read.find(c.record.save_id);
            c.read = read == run.read.end() ? 0 : read->second;
            c.since = static_cast<std::size_t>(standing) + (seen ? run.ended.size() : 0);
        }
    }

    void placed(const std::string& place, std::string_view name, const stored& file, int by) {
        ++tick_;
        if (cairn::detail::is_reading_name(name) && file.finished)
            readers_[place + std::string(name)] = {by, tick_, where_.storage()};
        if (!cairn::detail::is_intent_name(name) || !file.finished) return;
        // Whoever adopts the intent of another removal does not begin one.
        if (owners_.try_emplace(place + std::string(name), by).first->second != by) return;
        auto const i = cairn::detail::save_intent::decode(file.bytes);
        if (i.names.empty() && !i.replaced.empty() && coordinators_.count(by) != 0)
            begun_[{place, by}] = {i.replaced_id, tick_};
    }
    void looked(const std::string& place, std::string_view name, int by) {
        if (name == cairn::detail::metadata_name) looks_[{place, by}] = ++tick_;
    }
    void notice_removed(const std::string& place, std::string_view name, int by) {
        auto const it = readers_.find(place + std::string(name));
        if (it == readers_.end()) return;
        findings_.require(by == it->second.by || !runs(it->second),
                          "the notice of a process that reads is removed: " + it->first);
        readers_.erase(it);
    }
    /// @param before  What stood there until then; may be null.
    void published(const std::string& place, const watched_save* before) {
        published_[place] = ++tick_;
        if (before != nullptr) ended(before->id);
    }

    /// @param all  What stands, before it.
    void metadata_removed(const std::string& place, const save_rules& rules, int by,
                          std::vector<kept_rules::checkpoint> all) {
        auto const it = coordinators_.find(by);
        auto const begun = begun_.find({place, by});
        if (it == coordinators_.end() || begun == begun_.end())
            return findings_.require(false, place + " is removed by nobody who may");
        auto const* save = rules.standing();
        auto const who = place + " of save " + std::to_string(save ? save->version : 0);
        if (save == nullptr || save->id != begun->second.save_id) {
            if (published_[place] > looks_[{place, by}])
                return findings_.excuse(
                    "a save to a place that is removed is noticed, except "
                    "for an instant");
            return findings_.require(false, who + " is removed instead of an older one");
        }
        for (auto const& [name, r] : readers_)
            if (name.starts_with(place) && r.since < begun->second.since)
                findings_.require(!runs(r), who + " is removed, but process " +
                                                std::to_string(r.by) + " reads it");
        auto const kept = [&](bool seen) {
            judge(by, seen, all);
            return it->second.keep.kept(all).count(place.substr(0, place.size() - 1)) != 0;
        };
        findings_.require(!kept(true) || !kept(false), who + " is removed, but it is to be kept");
        ended(save->id);
    }

private:
    void ended(const std::string& save_id) {
        for (auto& [process, run] : coordinators_)
            if (run.saves.count(save_id) != 0) run.ended.insert(save_id);
    }

    struct reader {
        int by = -1;
        std::uint64_t since = 0;
        std::int64_t at = 0;
    };
    struct coordinator {
        kept_rules keep{};
        std::size_t reads = 0;
        std::map<std::string, std::size_t> read{};  ///< The how-many-th it was, from 1.
        std::set<std::string> saves{};
        std::set<std::string> ended{};  ///< Of these: what was replaced or removed.
    };
    struct removal {
        std::string save_id{};
        std::uint64_t since = 0;
    };
    /// After a day nobody believes it.
    bool runs(const reader& r) const {
        return !world_.dead(r.by) && where_.storage() - r.at < 24 * 60 * 60;
    }

    findings& findings_;
    const chance_world& world_;
    const hosts& where_;
    std::uint64_t tick_ = 0;  ///< Orders what is noted here.
    std::map<int, coordinator> coordinators_{};
    std::map<std::string, reader> readers_{};                       ///< By the path of the notice.
    std::map<std::string, int> owners_{};                           ///< Of intents, by path.
    std::map<std::pair<std::string, int>, removal> begun_{};        ///< By place and process.
    std::map<std::pair<std::string, int>, std::uint64_t> looks_{};  ///< Likewise, at the metadata.
    std::map<std::string, std::uint64_t> published_{};              ///< By place, the last time.
};

}  // namespace simulation

#endif
