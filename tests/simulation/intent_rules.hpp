// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_INTENT_RULES_HPP
#define CAIRN_TEST_SIMULATION_INTENT_RULES_HPP

#include "findings.hpp"
#include "save_rules.hpp"
#include "storage_server.hpp"

#include <cairn/storage/data_names.hpp>
#include <cairn/storage/save_intent.hpp>

#include <string>
#include <string_view>

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
        if (!cairn::detail::is_intent_name(std::string_view(name).substr(place.size()))) return;
        cairn::detail::save_intent i;
        try {
            i = cairn::detail::save_intent::decode(intent.bytes);
        } catch (const cairn::error&) {  // cut short by a crash
            return;
        }
        for (auto const& n : i.names) check(name, place + n, i.save_id, rules);
        for (auto const& n : i.replaced) check(name, place + n, i.replaced_id, rules);
    }

private:
    void check(const std::string& intent, const std::string& path, const std::string& save_id,
               const save_rules& rules) {
        if (rules.standing_files().count(path) != 0) return;
        auto const is_its_own = [&](const storage_server::file& f) {
            if (!f || (!f->finished && !unfinished_are_seen_)) return false;
            auto const* s = rules.maker_of(*f);
            return s != nullptr && s->id == save_id;
        };
        findings_.require(!is_its_own(server_.find(path)),
                          intent + " is removed, but not " + path + ", which it lists");
        findings_.require(!is_its_own(server_.find_durable(path)),
                          intent + " is removed, but after a crash " + path + " would be back");
    }

    const storage_server& server_;
    findings& findings_;
    bool unfinished_are_seen_;
};

}  // namespace simulation

#endif
