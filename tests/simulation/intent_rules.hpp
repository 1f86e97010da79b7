// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_INTENT_RULES_HPP
#define CAIRN_TEST_SIMULATION_INTENT_RULES_HPP

#include "findings.hpp"
#include "save_rules.hpp"
#include "storage_server.hpp"

#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/save_intent.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace simulation {

/// An intent is removed only when everything that it lists is gone for good, belongs to another
/// save, or is named by the metadata that stands: otherwise nobody will ever remove it.
class intent_rules {
public:
    intent_rules(const storage_server& s, findings& f, bool unfinished_are_seen)
        : server_(s), findings_(f), unfinished_are_seen_(unfinished_are_seen) {}

    /// @param place  Where it is, as the beginning of its path.
    void removed(const std::string& place, const std::string& name, const stored& intent,
                 const save_rules& rules) {
        for (auto const& f : listed(place, name, intent)) check(place, name, f, rules);
    }

private:
    struct file {
        std::string path, save_id;
        friend bool operator==(const file&, const file&) = default;
    };
    static std::vector<file> listed(const std::string& place, const std::string& name,
                                    const stored& intent) {
        std::vector<file> out;
        if (!cairn::detail::is_intent_name(std::string_view(name).substr(place.size()))) return out;
        try {
            auto const i = cairn::detail::save_intent::decode(intent.bytes);
            for (auto const& n : i.names) out.push_back({place + n, i.save_id});
            for (auto const& n : i.replaced) out.push_back({place + n, i.replaced_id});
        } catch (const cairn::error&) {  // cut short by a crash
        }
        return out;
    }
    void check(const std::string& place, const std::string& intent, const file& its,
               const save_rules& rules) {
        if (rules.standing_files().count(its.path) != 0) return;
        auto const is_its_own = [&](const storage_server::file& f) {
            if (!f || (!f->finished && !unfinished_are_seen_)) return false;
            auto const* s = rules.maker_of(*f);
            // The files of a checkpoint that was lost stay: the one that replaced it knows of none.
            return s != nullptr && s->id == its.save_id && !s->lost;
        };
        bool const there = is_its_own(server_.find(its.path));
        bool const back = is_its_own(server_.find_durable(its.path));
        if ((!there && !back) || is_listed_elsewhere(place, intent, its)) return;
        findings_.require(!there, intent + " is removed, but not " + its.path + ", which it lists");
        findings_.require(!back,
                          intent + " is removed, but after a crash " + its.path + " would be back");
    }
    /// Whether the intent of another save, e.g. of one that has replaced this one, will do.
    bool is_listed_elsewhere(const std::string& place, const std::string& intent,
                             const file& its) const {
        auto const begin = place + std::string(cairn::detail::intent_prefix);
        for (auto const& [name, f] : server_.all()) {
            if (!name.starts_with(begin) || name == intent || !f->finished) continue;
            if (server_.find_durable(name) != f) continue;
            auto const all = listed(place, name, *f);
            if (std::find(all.begin(), all.end(), its) != all.end()) return true;
        }
        return false;
    }

    const storage_server& server_;
    findings& findings_;
    bool unfinished_are_seen_;
};

}  // namespace simulation

#endif
