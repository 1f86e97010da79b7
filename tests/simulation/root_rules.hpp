// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_ROOT_RULES_HPP
#define CAIRN_TEST_SIMULATION_ROOT_RULES_HPP

#include "findings.hpp"
#include "hosts.hpp"
#include "intent_rules.hpp"
#include "kept_rules.hpp"
#include "removal_rules.hpp"
#include "save_rules.hpp"
#include "storage_server.hpp"

#include <cairn/storage/detail/data_names.hpp>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace simulation {

/// What must hold in a directory of many checkpoints: the rules of each place, and those of
/// removals.
class root_rules final : public storage_watch {
public:
    root_rules(storage_server& s, const chance_world& w, const hosts& h, findings& f,
               bool unfinished_are_seen)
        : removals(f, w, h), server_(s), world_(w), where_(h), findings_(f),
          intents_(s, f, unfinished_are_seen) {}

    removal_rules removals;
    /// Told of each notice of a reader that is there now, with the save that stands.
    std::function<void(const watched_save*)> on_notice{};

    /// @param id  Of a checkpoint.
    save_rules& place(const std::string& id) {
        auto& p = places_[id];
        if (!p)
            p = std::make_unique<save_rules>(server_, world_, where_, findings_, id + "/", true);
        return *p;
    }
    /// What stands.
    std::vector<kept_rules::checkpoint> all() const {
        std::vector<kept_rules::checkpoint> out;
        for (auto const& [id, p] : places_)
            if (p->standing() != nullptr && p->standing_record())
                out.push_back({id, *p->standing_record()});
        return out;
    }
    std::vector<std::string> standing_ids() const {
        std::vector<std::string> out;
        for (auto const& [id, p] : places_)
            if (p->standing() != nullptr) out.push_back(id);
        return out;
    }
    /// The newest that stands of which all ranks were told that it was saved; without an id: none.
    kept_rules::checkpoint newest_heard() {
        kept_rules::checkpoint newest{};
        for (auto& c : all()) {
            auto const* s = place(c.id).standing();
            if (s->heard == s->ranks && (newest.id.empty() || kept_rules::is_older(newest, c)))
                newest = c;
        }
        return newest;
    }
    /// Processes that change nothing, whatever they do.
    void add_idle(int process) { idle_.insert(process); }
    void crashed() {
        for (auto& [id, p] : places_) p->crashed();
    }

    void placed(const std::string& name, const stored& file, int by) override {
        require_busy(name, by);
        auto const p = parts(name);
        if (p.rest == cairn::detail::metadata_name)
            removals.published(p.place, place(p.id).standing());
        removals.placed(p.place, p.rest, file, by);
        if (on_notice && file.finished && cairn::detail::is_reading_name(p.rest))
            on_notice(place(p.id).standing());
        findings_.require(p.rest != ".metadata.quarantined",
                          "a checkpoint that is whole is put aside: " + name);
        place(p.id).placed(name, file, by);
    }
    void removed(const std::string& name, const stored& file, int by) override {
        require_busy(name, by);
        auto const p = parts(name);
        auto& rules = place(p.id);
        if (p.rest == cairn::detail::metadata_name)
            removals.metadata_removed(p.place, rules, by, all());
        removals.notice_removed(p.place, p.rest, by);
        intents_.removed(p.place, name, file, rules);
        rules.removed(name, file, by);
    }
    void synced() override {
        for (auto& [id, p] : places_) p->synced();
    }
    void looked(const std::string& name, int by) override {
        auto const p = parts(name);
        removals.looked(p.place, p.rest, by);
        place(p.id).looked(name, by);
    }
    void taken(const std::string& name, const stored& file, int by) override {
        place(parts(name).id).taken(name, file, by);
    }

private:
    struct path {
        std::string id;         ///< `step_10`
        std::string place;      ///< `step_10/`
        std::string_view rest;  ///< Of the name.
    };
    static path parts(const std::string& name) {
        auto const slash = name.find('/');
        if (slash == name.npos) return {{}, {}, name};
        return {name.substr(0, slash), name.substr(0, slash + 1),
                std::string_view(name).substr(slash + 1)};
    }
    void require_busy(const std::string& name, int by) {
        findings_.require(idle_.count(by) == 0, "changed where nothing may be: " + name);
    }

    storage_server& server_;
    const chance_world& world_;
    const hosts& where_;
    findings& findings_;
    intent_rules intents_;
    std::map<std::string, std::unique_ptr<save_rules>> places_{};
    std::set<int> idle_{};
};

}  // namespace simulation

#endif
