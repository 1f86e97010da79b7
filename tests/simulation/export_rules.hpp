// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_EXPORT_RULES_HPP
#define CAIRN_TEST_SIMULATION_EXPORT_RULES_HPP

#include "save_rules.hpp"

#include <cairn/format/safetensors/header.hpp>
#include <cairn/format/safetensors/layout.hpp>
#include <cairn/storage/detail/data_names.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

namespace simulation {

/// What must hold of exports into a bucket: those of saves, where an index has the place of
/// `.metadata`, or one file exists when it is complete.
class export_rules final : public save_rules {
public:
    /// @param id  Of the target, a directory unless it has a suffix.
    export_rules(storage_server& s, const chance_world& w, const hosts& h, findings& f,
                 const std::string& id)
        : save_rules(s, w, h, f, id + "/", id + "/model.safetensors.index.json",
                     "." + id + ".saving/.saving.", true),
          beside_("." + id + ".saving/"),
          single_(id.find('.') != id.npos ? id : id + "/model.safetensors") {}

    /// That process removes what stands, as its user wishes.
    void user_removes(int process) { users_.insert(process); }
    const std::string& index() const { return metadata_; }

    void crashed() override {}  // a bucket has lost nothing
    void placed(const std::string& name, const stored& file, int by) override {
        if (name == single_) return note_owner(name, file);
        save_rules::placed(name, file, by);
    }
    void removed(const std::string& name, const stored& file, int by) override {
        if (name != single_ || file.number != standing_.number || users_.count(by) == 0)
            return save_rules::removed(name, file, by);
        metadata_removed();
        durable_ = standing_;
    }
    void synced() override {
        auto const f = server_.find(single_);
        if (f && f->finished && f->number != completed_) {
            completed_ = f->number;
            published(*f);
        }
        durable_ = standing_;
    }

private:
    bool is_data(const std::string& name) const override {
        return name == single_ || !id_within(name).empty();
    }
    /// What is beside the target is in a place of that name; a file has the id before its suffix.
    std::string id_within(const std::string& name) const {
        constexpr std::size_t length = 32;
        auto const own = [&](std::size_t at) {
            auto id = at < name.size() ? name.substr(at, length) : std::string();
            return cairn::detail::is_save_id(id) ? id : std::string();
        };
        if (name.starts_with(beside_)) return own(beside_.size());
        auto const dot = name.rfind('.');
        return name.starts_with(place_) && dot != name.npos && dot > length ? own(dot - length)
                                                                            : std::string();
    }
    std::string id_in(const std::string& name, const stored& file) const override {
        if (name != single_) return id_within(name);
        auto const it = std::find_if(saves_.rbegin(), saves_.rend(), [&](auto& s) {
            return !s.id.empty() && s.is_process(file.by.process);
        });
        return it == saves_.rend() ? std::string() : it->id;
    }
    named_files content_of(const stored& f) const override {
        namespace st = cairn::format::safetensors;
        named_files out;
        out.number = f.number;
        if (f.number == completed_) {
            auto const* s = maker_of(f);
            if (s != nullptr) out.id = s->id;
            out.files.insert(single_);
            return out;
        }
        out.id = st::decode_notes(f.bytes).save_id;
        for (auto const& [fqn, file] : st::weight_map(f.bytes)) out.files.insert(place_ + file);
        return out;
    }

    std::string beside_, single_;
    std::uint64_t completed_ = 0;  ///< The single file that was complete last.
    std::set<int> users_{};
};

}  // namespace simulation

#endif
