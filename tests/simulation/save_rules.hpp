// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_SAVE_RULES_HPP
#define CAIRN_TEST_SIMULATION_SAVE_RULES_HPP

#include "beginning_rules.hpp"
#include "ending.hpp"
#include "findings.hpp"
#include "hosts.hpp"
#include "storage_server.hpp"

#include <cairn/format/native/index.hpp>
#include <cairn/metadata/commit_record.hpp>
#include <cairn/metadata/detail/locations.hpp>
#include <cairn/storage/detail/data_names.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace simulation {

/// A save of a story, and what is known of it.
struct watched_save {
    static watched_save of(int first, int ranks, int version) {
        watched_save s;
        s.first = first;
        s.ranks = ranks;
        s.version = version;
        return s;
    }

    int first = 0;       ///< Its processes: the first is the coordinator's …
    int ranks = 0;       ///< … and so many.
    int version = 0;     ///< Of what it saves.
    std::string id{};    ///< As soon as it has one.
    int claimed = -1;    ///< How many checkpoints had been published when it claimed the place.
    int published = -1;  ///< Which one it is.
    bool succeeded = false;
    bool failed = false;  ///< As some rank was told, with certainty.
    bool coordinator_ended = false;
    bool forgotten = false;  ///< Its intent was removed while only its coordinator had ended.
    std::set<std::uint64_t> late{};  ///< Its files that were not finished when it was adopted.
    std::set<int> told{};            ///< Ranks that know how it has ended.
    std::set<int> faulty{};          ///< Ranks that had an error of the storage.
    int heard = 0;                   ///< So many ranks were told that it succeeded.
    bool adopted = false;            ///< Presumed dead: its intent is another one's, or gone.
    world::time adopted_at{};
    std::int64_t begun = 0;     ///< When its intent was first there, by the storage's clock.
    world::time wrote{};        ///< When the last of its files was begun.
    world::time looked{};       ///< When its coordinator last looked at the intent.
    bool lost = false;          ///< What replaced it had claimed the place before it was published.
    bool arrived_late = false;  ///< Published by a request of a process that had been killed.

    bool is_process(int p) const { return p >= first && p < first + ranks; }
};

/// What must hold in one place after each change of the storage, and after each end of a save. Each
/// check looks at the change alone.
class save_rules : public storage_watch {
public:
    /// @param place  Where the saves go, as the beginning of all names.
    /// @param retained  Checkpoints may be removed.
    save_rules(storage_server& s, const chance_world& w, const hosts& h, findings& f,
               const std::string& place, bool retained = false)
        : save_rules(s, w, h, f, place, place + ".metadata", place + ".saving.", retained) {}

    std::size_t begin(watched_save s) {
        saves_.push_back(std::move(s));
        return saves_.size() - 1;
    }
    watched_save& at(std::size_t n) { return saves_[n]; }
    void named(std::size_t n, const std::string& id) {
        saves_[n].id = id;
        by_id_[id] = n;
        beginning_.named(id, saves_[n].first);
    }
    /// The save that stands; null if none does.
    const watched_save* standing() const {
        return standing_.id.empty() ? nullptr : &saves_[by_id_.at(standing_.id)];
    }
    const std::set<std::string>& standing_files() const { return standing_.files; }
    const std::optional<cairn::commit_record>& standing_record() const { return standing_.record; }
    /// Changes with every checkpoint that is published or removed.
    int changes() const { return changes_; }
    /// Whether a save of this version was published here, ever.
    bool has_published(int version) const {
        for (auto const& s : saves_)
            if (s.version == version) return s.published >= 0;
        return false;
    }
    const watched_save* of_version(int version) const {
        for (auto const& s : saves_)
            if (s.version == version) return &s;
        return nullptr;
    }
    /// The save that has made a file; null if that is not known.
    const watched_save* maker_of(const stored& file) const {
        auto const it = owners_.find(file.number);
        return it == owners_.end() ? nullptr : &saves_[it->second];
    }
    /// Whether a rank may have made a file after another process had looked for those that the
    /// intent lists: nothing shows a later save that ranks have outlived their coordinator.
    bool may_stay(const stored& file) const {
        auto const* s = maker_of(file);
        return s != nullptr && (s->forgotten || s->late.count(file.number) != 0);
    }

    /// A rank was told how its save has ended.
    void ended(std::size_t n, int rank, const ending& e) {
        auto& s = saves_[n];
        s.told.insert(rank);
        if (rank == 0) s.coordinator_ended = true;
        auto const who = "save " + std::to_string(s.version) + ", rank " + std::to_string(rank);
        if (e.well()) {
            s.succeeded = true;
            ++s.heard;
            require(!s.failed, who + ": success, and another rank was told that it failed");
            require(s.published >= 0, who + ": success, but nothing was published");
            require(is_durable(s), who + ": success, but a crash would lose it");
            require(s.faulty.count(rank) == 0 || e.warnings != 0,
                    who + ": an error of its storage is lost");
            return;
        }
        bool const unknown = e.code() == make_error_code(cairn::errc::outcome_unknown) ||
                             e.code() == make_error_code(cairn::errc::abandoned);
        if (unknown) return;
        s.failed = true;
        // A commit without an answer that finds another save in its place may have been replaced by
        // that, or have come too late.
        bool const is_replaced =
            e.code() == make_error_code(cairn::errc::concurrent_save) && standing_.id != s.id;
        require(s.published < 0 || is_replaced,
                who + ": a failure, but it was published: " + e.text());
    }
    /// After a crash of the server.
    virtual void crashed() {
        auto const f = server_.find(metadata_);
        standing_ = f ? content_of(*f) : named_files{};
        durable_ = standing_;
        for (auto const& name : standing_.files)
            require(server_.find(name) != nullptr, "a crash has lost " + name);
    }

    void placed(const std::string& name, const stored& file, int by) override {
        if (name == metadata_) return published(file);
        require(standing_.files.count(name) == 0, "written again, but it is in use: " + name);
        if (is_data(name)) {
            note_owner(name, file);
            if (auto const it = owners_.find(file.number); it != owners_.end())
                saves_[it->second].wrote = world_.now(world::nobody);
            if (auto const* s = maker_of(file))
                beginning_.makes_file(name, s->id, s->faulty.count(0) != 0, standing_.files);
        }
        if (!name.starts_with(intents_) || !file.finished) return;
        auto const it = by_id_.find(name.substr(intents_.size()));
        if (it == by_id_.end()) return;
        auto& s = saves_[it->second];
        if (!s.is_process(by)) return note_adopted(s, by);
        if (s.begun == 0) s.begun = where_.storage();
        if (s.claimed < 0) s.claimed = published_;
    }
    void removed(const std::string& name, const stored& file, int by) override {
        if (name == metadata_) return metadata_removed();
        if (standing_.files.count(name) != 0 && standing()->arrived_late) return excuse_late();
        require(standing_.files.count(name) == 0, "removed, but the metadata names it: " + name);
        require(durable_.files.count(name) == 0,
                "removed, but after a crash the metadata would name it: " + name);
        if (name.starts_with(intents_)) note_forgotten(name, by);
        if (!is_data(name)) return;
        auto const* s = maker_of(file);
        if (s == nullptr || s->is_process(by) || s->adopted) return;
        bool const runs = s->published < 0 && !s->failed && !s->coordinator_ended &&
                          !world_.dead(s->first) && !world_.dropped(s->first);
        require(!runs, "removed, but a running save will name it: " + name);
    }
    void synced() override {
        auto const f = server_.find_durable(metadata_);
        auto const number = f ? f->number : 0;
        if (number == durable_.number) return;
        durable_ = number == standing_.number ? standing_ : f ? content_of(*f) : named_files{};
    }
    void looked(const std::string& name, int by) override {
        if (!name.starts_with(intents_)) return;
        auto const it = by_id_.find(name.substr(intents_.size()));
        if (it == by_id_.end() || saves_[it->second].first != by) return;
        saves_[it->second].looked = world_.now(by);
    }

    /// Names are new.
    void taken(const std::string& name, const stored&, int) override {
        require(!is_data(name), "two saves use the same name: " + name);
    }

protected:
    struct named_files {
        std::uint64_t number = 0;
        std::string id{};
        std::set<std::string> files{};
        std::optional<cairn::commit_record> record{};
    };

    /// @param commits  The name with which a save exists.
    /// @param intents  How those of intents begin.
    save_rules(storage_server& s, const chance_world& w, const hosts& h, findings& f,
               const std::string& place, std::string commits, std::string intents, bool retained)
        : server_(s), world_(w), where_(h), findings_(f), beginning_(s, w, h, f, place),
          place_(place), metadata_(std::move(commits)), intents_(std::move(intents)),
          retained_(retained) {}

    /// Whether only the save whose id it has makes an object of this name.
    virtual bool is_data(const std::string& name) const { return name.ends_with(".distcp"); }
    virtual std::string id_in(const std::string& name, const stored&) const {
        return std::string(cairn::detail::id_in(name));
    }
    void require(bool ok, const std::string& what) { findings_.require(ok, place_ + ": " + what); }
    virtual named_files content_of(const stored& f) const {
        named_files out;
        auto parsed = cairn::format::native::parse_metadata_file(f.bytes);
        auto const& meta = parsed.meta;
        out.record = std::move(parsed.record);
        out.number = f.number;
        out.id = meta.save_id;
        for (auto const& name : cairn::detail::files_of(meta)) out.files.insert(place_ + name);
        return out;
    }
    void published(const stored& f) {
        auto now = content_of(f);
        auto const it = by_id_.find(now.id);
        if (it == by_id_.end()) return require(false, "published: a save that nobody has begun");
        auto& s = saves_[it->second];
        auto const who = "save " + std::to_string(s.version);
        bool const whole = std::all_of(now.files.begin(), now.files.end(), [&](auto& name) {
            auto const there = server_.find(name);
            return there && there->finished;
        });
        if (s.adopted && s.adopted_at >= s.looked) {
            if (!world_.dead(s.first))
                return findings_.excuse(
                    "a save that stopped before it published was presumed dead");
            if (!whole) return excuse_late();
            s.arrived_late = true;
        }
        require(!s.adopted || s.arrived_late,
                who + " is published, but another process presumed it dead");
        require(s.published < 0, who + " is published twice");
        require(s.looked >= s.wrote, who + " is published without a last look at its intent");
        require(!s.failed, who + " is published, but a rank was told that it failed");
        // Where a user has removed what came after it, no condition tells.
        bool const alone = s.arrived_late && standing_.id.empty();
        if (alone && s.claimed != published_)
            findings_.excuse("a request of a killed process arrives when nothing is there anymore");
        require(s.claimed == published_ || alone || findings_.may_lose_updates,
                who + " replaces a checkpoint that was published after it had claimed the place");
        if (s.claimed != published_ && !standing_.id.empty())
            saves_[by_id_.at(standing_.id)].lost = true;
        s.published = ++published_;
        ++changes_;
        for (auto const& name : now.files) {
            auto const there = server_.find(name);
            require(there && there->finished, who + " is published without " + name);
            require(there && server_.find_durable(name) == there,
                    who + " is published, but a crash would lose " + name);
        }
        standing_ = std::move(now);
    }
    void excuse_late() {
        findings_.excuse("a request of a killed process arrives when its save is being collected");
    }
    /// Whether it, or one that has replaced it, would be there after a crash; or retention has
    /// removed that one.
    bool is_durable(const watched_save& s) const {
        if (s.published <= removed_) return true;
        if (durable_.id.empty()) return false;
        return saves_[by_id_.at(durable_.id)].published >= s.published;
    }
    /// Another job has collected it.
    void note_forgotten(const std::string& intent, int by) {
        auto const it = by_id_.find(intent.substr(intents_.size()));
        if (it == by_id_.end()) return;
        auto& s = saves_[it->second];
        if (s.is_process(by)) return;
        note_adopted(s, by);
        for (int p = s.first; p < s.first + s.ranks; ++p)
            s.forgotten = s.forgotten || !world_.dead(p);
    }
    void note_adopted(watched_save& s, int by) {
        if (s.adopted) return;
        require(s.published >= 0 || world_.dead(s.first) || where_.follows(by, s.first) ||
                    where_.storage() - s.begun >= 24 * 60 * 60,
                "save " + std::to_string(s.version) + " is presumed dead, but it has just begun");
        s.adopted = true;
        s.adopted_at = world_.now(world::nobody);
        for (auto const& [name, file] : server_.all())
            if (!file->finished && maker_of(*file) == &s) s.late.insert(file->number);
    }
    void metadata_removed() {
        require(retained_, "the metadata is removed");
        if (standing_.id.empty()) return;
        removed_ = published_;
        ++changes_;
        standing_ = {};
    }
    void note_owner(const std::string& name, const stored& file) {
        auto const its = by_id_.find(id_in(name, file));
        require(its != by_id_.end(), "a data file has no save's id: " + name);
        if (its == by_id_.end()) return;
        owners_[file.number] = its->second;
        auto& s = saves_[its->second];
        if (s.adopted) s.late.insert(file.number);
    }

    storage_server& server_;
    const chance_world& world_;
    const hosts& where_;
    findings& findings_;
    beginning_rules beginning_;
    std::string place_, metadata_, intents_;
    bool retained_;
    std::vector<watched_save> saves_{};
    std::map<std::string, std::size_t> by_id_{};
    std::map<std::uint64_t, std::size_t> owners_{};  ///< By file: the save.
    named_files standing_{}, durable_{};
    int published_ = 0;
    int removed_ = 0;  ///< So many of these are gone by retention.
    int changes_ = 0;
};

}  // namespace simulation

#endif
