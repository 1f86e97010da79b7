// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_BEGINNING_RULES_HPP
#define CAIRN_TEST_SIMULATION_BEGINNING_RULES_HPP

#include "findings.hpp"
#include "hosts.hpp"
#include "storage_server.hpp"

#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/save_intent.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace simulation {

/// When a save makes its first file, what has certainly ended is removed, and nobody else who was
/// there before uses the same name.
class beginning_rules {
public:
    /// @param place  As the beginning of all names.
    beginning_rules(const storage_server& s, const chance_world& w, const hosts& h, findings& f,
                    std::string place)
        : server_(s), world_(w), where_(h), findings_(f), place_(std::move(place)) {}

    /// A save has its id: what has ended by now is collected before it writes.
    void named(const std::string& id, int coordinator) {
        auto& ended = ended_[id];
        for (auto const& [name, f] : intents())
            if (world_.dead(f->by.process) &&
                where_.host_of(f->by.process) == where_.host_of(coordinator))
                ended.push_back(name);
    }
    /// @param faulty    Its coordinator's storage has failed.
    /// @param standing  The files that the metadata names.
    void makes_file(const std::string& name, const std::string& id, bool faulty,
                    const std::set<std::string>& standing) {
        auto const all = intents();
        auto const mine = all.find(place_ + std::string(cairn::detail::intent_prefix) + id);
        if (mine == all.end()) return;  // presumed dead
        for (auto const& [other, f] : all)
            if (f->number < mine->second->number && lists(*f, name) && !findings_.may_lose_updates)
                findings_.require(false, "two saves use the same name: " + name);
        auto const ended = ended_.extract(id);  // the first file
        if (!ended || faulty || findings_.cached_names) return;
        for (auto const& intent : ended.mapped()) {
            auto const it = all.find(intent);
            if (it != all.end()) require_collected(*it->second, standing);
        }
    }

private:
    using found = std::map<std::string, storage_server::file>;
    /// Those that can be read, by their paths.
    found intents() const {
        found out;
        auto const prefix = place_ + std::string(cairn::detail::intent_prefix);
        auto const& all = server_.all();
        for (auto it = all.lower_bound(prefix); it != all.end() && it->first.starts_with(prefix);
             ++it)
            if (it->second->finished && content(*it->second)) out.insert(*it);
        return out;
    }
    static std::optional<cairn::detail::save_intent> content(const stored& intent) {
        try {
            return cairn::detail::save_intent::decode(intent.bytes);
        } catch (const cairn::error&) {  // cut short by a crash
            return {};
        }
    }
    bool lists(const stored& intent, const std::string& path) const {
        auto const i = content(intent);
        return std::any_of(i->names.begin(), i->names.end(),
                           [&](auto& n) { return place_ + n == path; });
    }
    void require_collected(const stored& intent, const std::set<std::string>& standing) {
        auto const i = content(intent);
        for (auto const& n : i->names) {
            auto const f = server_.find(place_ + n);
            findings_.require(
                !f || f->by.process != intent.by.process || standing.count(place_ + n) != 0,
                "a save writes before it has removed what another left: " + n);
        }
    }

    const storage_server& server_;
    const chance_world& world_;
    const hosts& where_;
    findings& findings_;
    std::string place_;
    std::map<std::string, std::vector<std::string>> ended_{};  ///< By save: intents.
};

}  // namespace simulation

#endif
