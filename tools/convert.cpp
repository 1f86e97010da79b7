// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.hpp"

#include <cairn/metadata/stored_bytes.hpp>
#include <cairn/observe/progress_line.hpp>
#include <cairn/printable.hpp>

#include <deque>
#include <filesystem>
#include <iostream>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace tool {

/// A value as it was stored, whatever its content: flattening does not enter it.
struct opaque {
    cairn::value v{};
};

}  // namespace tool

template <>
struct cairn::value_traits<tool::opaque> {
    static value to_value(const tool::opaque& o) { return o.v; }
    static void from_value(tool::opaque& o, const value& v) { o.v = v; }
};

namespace tool {

namespace {

/// One rank's shards of a whole checkpoint, every tensor split along one dimension as DTensor's
/// `Shard` does; tensors without that dimension are replicated.
class part {
public:
    part(const cairn::metadata& m, int rank, int ranks, int dim) {
        for (auto const& [fqn, entry] : m.entries) {
            auto const* t = std::get_if<cairn::tensor_metadata>(&entry);
            if (t == nullptr) {
                dict_[fqn] = std::ref(values_.emplace_back());
                continue;
            }
            auto where = cairn::box::whole(t->shape);
            if (static_cast<std::size_t>(dim) < t->shape.size())
                where = boxes_of(t->shape, cairn::device_mesh::line(ranks),
                                 {cairn::shard_along{dim}}, rank)
                            .at(0);
            auto& bytes = memory_.emplace_back(static_cast<std::size_t>(where.volume()) *
                                               cairn::size_of(t->type));
            cairn::tensor_view v(t->type, where.shape, bytes.data());
            v.requires_grad = t->requires_grad;
            dict_[fqn] = cairn::sharded_view{t->shape, t->type, {cairn::shard(where, v)}};
        }
    }
    cairn::state_dict& dict() { return dict_; }

private:
    std::deque<std::vector<std::byte>> memory_;
    std::deque<opaque> values_;
    cairn::state_dict dict_;
};

/// The default planner, with the source's paths of the nested state dict.
class same_paths {
public:
    explicit same_paths(const cairn::metadata& m) : m_(&m) {}
    void set_up_save(const cairn::flat_state& s, int rank, bool c) {
        usual_.set_up_save(s, rank, c);
    }
    cairn::save_plan create_local_save_plan() {
        auto plan = usual_.create_local_save_plan();
        plan.paths.assign(m_->paths.begin(), m_->paths.end());
        return plan;
    }
    auto create_global_save_plan(std::vector<cairn::save_plan> all) {
        return usual_.create_global_save_plan(std::move(all));
    }
    cairn::save_plan finish_save_plan(cairn::save_plan p) { return p; }
    cairn::item_data resolve_data(const cairn::write_item& i) { return usual_.resolve_data(i); }

private:
    const cairn::metadata* m_;
    cairn::default_planner usual_;
};

/// Returns the data files that contain the entries of a checkpoint.
std::set<std::string> files_of(const cairn::metadata& m) {
    std::set<std::string> files;
    for (auto const& [fqn, entry] : m.entries) {
        if (auto const* t = std::get_if<cairn::tensor_metadata>(&entry))
            for (std::size_t i = 0; i < t->chunks.size(); ++i) files.insert(t->chunks.file(i));
        else
            files.insert(std::get<cairn::value_metadata>(entry).at.file);
    }
    for (auto const& [fqn, t] : m.unsupported) files.insert(t.files.begin(), t.files.end());
    return files;
}

/// Whether cairn or PyTorch keeps a file of this name there, or an interrupted save may have left
/// it: such a file is not content.
bool is_kept_there(std::string_view name) {
    constexpr std::string_view saving = ".saving.", data = ".distcp";
    auto const is_id = [](std::string_view s) {
        return s.size() == 32 && s.find_first_not_of("0123456789abcdef") == s.npos;
    };
    if (name.ends_with(".safetensors.index.json")) return true;
    if (name.starts_with(".metadata") || name.starts_with(".cairn-publish.")) return true;
    if (name.starts_with(saving)) return is_id(name.substr(saving.size()));
    name = name.substr(name.rfind('/') + 1);
    if (!name.ends_with(data)) return false;
    name.remove_suffix(data.size());
    auto const dot = name.rfind('.');
    return dot != name.npos && dot != 0 && is_id(name.substr(dot + 1));
}

/// Prints what is beside the checkpoint and is not copied: the user may need it.
/// @param mine    The files that are copied.
/// @param within  A directory of the checkpoint, which ends in '/'; empty: its own.
/// @return whether there is nothing
bool nothing_beside(const std::filesystem::path& checkpoint, const std::set<std::string>& mine,
                    const std::string& within = {}) {
    std::set<std::string> names;
    for (auto const& entry : std::filesystem::directory_iterator(checkpoint / within))
        names.insert(within + entry.path().filename().string());
    bool nothing = true;
    for (auto const& name : names) {
        if (is_kept_there(name) || mine.count(name) != 0) continue;
        auto const file = checkpoint / name;
        bool const directory = is_directory(symlink_status(file));
        auto const inside = name + "/";
        auto const it = mine.lower_bound(inside);
        if (directory && it != mine.end() && it->starts_with(inside)) {
            nothing = nothing_beside(checkpoint, mine, inside) && nothing;
            continue;
        }
        std::cout << "not copied: '" << cairn::terminal_text(directory ? inside : name) << "'\n";
        nothing = false;
    }
    return nothing;
}

}  // namespace

int reshard(const std::string& from, const std::string& to, int ranks, int dim) {
    auto const m = read_metadata(from);
    check_stored_bytes(m, [](std::string_view) { return true; });
    cairn::progress_line const progress;
    std::mutex together;
    std::set<std::string> unchecked;
    cairn::run_ranks(ranks, [&](cairn::thread_group::member& me) {
        part mine(m, me.rank(), ranks, dim);
        auto const loaded = cairn::load(mine.dict(), from, me, progress);
        {
            std::lock_guard const lock(together);
            unchecked.insert(loaded.unverified.begin(), loaded.unverified.end());
        }
        cairn::save(mine.dict(), to, me, same_paths(m), progress);
    });
    for (auto const& line : unchecked) std::cout << "not checked: " << line << '\n';
    std::cout << from << " re-sharded onto " << ranks << (ranks == 1 ? " rank: " : " ranks: ") << to
              << '\n';
    for (auto const& [fqn, t] : m.unsupported)
        std::cerr << "cairn: '" << cairn::terminal_text(fqn)
                  << "' was not copied: this version does not know dtype "
                  << cairn::terminal_text(t.type) << '\n';
    for (auto const& name : m.unknown_members)
        std::cout << "not copied: member '" << cairn::terminal_text(name) << "' of .metadata\n";
    auto copied = files_of(m);
    std::filesystem::path place(from);
    if (!is_directory(place)) {  // a rank's metadata within it
        copied.insert(place.filename().string());
        place = place.parent_path();
    }
    bool const alone = m.is_file || nothing_beside(place, copied);
    return alone && m.unsupported.empty() && m.unknown_members.empty() ? fine : finding;
}

}  // namespace tool
