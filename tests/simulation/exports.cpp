// SPDX-License-Identifier: Apache-2.0
#include "content.hpp"
#include "export_rules.hpp"
#include "exporting_writer.hpp"
#include "simulate.hpp"
#include "story.hpp"

#include <cairn/object_store/memory.hpp>

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <utility>

namespace simulation {
namespace {

/// Exports into a bucket, each over the last; a file must be removed first.
struct export_target {
    using writer = exporting_writer;
    using rules = export_rules;
    static constexpr bool loads = false;
    static constexpr std::uint64_t one_of_races = 2;

    /// Nothing decides between two jobs that complete one file each.
    export_target(std::mt19937_64& chance, bool two_jobs)
        : several_(two_jobs || chance() % 2 == 0), id(two_jobs ? "c" : some_id(chance())) {}
    static store_kind kind(std::mt19937_64&) { return store_kind::bucket; }
    rules rules_of(storage_server& s, const chance_world& w, const hosts& h, findings& f) const {
        return {s, w, h, f, id};
    }
    void prepare(writer& to, int version) const {
        cairn::safetensors_writer_options o;
        if (several_ || version % 3 == 0) o.max_file_size = 60;
        if (id == "c")
            o.add_files = [text = std::to_string(version)](auto const& add) {
                add("config.json", std::as_bytes(std::span(text)));
            };
        to.prepare(std::move(o));
    }
    void make_room(rules& rule, simulated_store store, int process) const {
        if (id == "c" || rule.standing() == nullptr) return;
        rule.user_removes(process);
        try {
            store.remove(id);
        } catch (const process_ended&) {
            throw;
        } catch (...) {  // the save says that the file is there
        }
    }
    int standing(const cairn::memory_store& all, const watched_save& s) const {
        return version_of(all, id, s.ranks);
    }
    bool may_be_left(const std::string& name, const stored& f, const rules& rule, store_kind,
                     bool) const {
        // A process may have been killed as it tried the conditions, before its intent was there.
        return name == "c/config.json" || name.starts_with("c/.cairn-trial.") ||
               (name == rule.index() && rule.standing_files().size() != 0) || rule.may_stay(f);
    }

private:
    bool several_;
    static std::string some_id(std::uint64_t n) {
        constexpr const char* all[] = {"c", "c", "c.safetensors", "c.pt"};
        return all[n % 4];
    }

public:
    std::string id;
};

}  // namespace

std::uint64_t run_export(std::uint64_t seed, int ranks, bool trace) {
    return story<export_target>(seed, ranks, trace).run();
}

}  // namespace simulation
