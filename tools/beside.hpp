// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_BESIDE_HPP
#define CAIRN_TOOLS_BESIDE_HPP

#include "json.hpp"
#include "own_directory.hpp"
#include "place.hpp"

#include <cairn/metadata/metadata.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/file_adder.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace tool {

/// While it lives, files that this process makes have no permissions that a mode lacks.
class made_within {
public:
    explicit made_within(std::filesystem::perms mode) : before_(::umask(0077)) {
        ::umask(before_ | (~static_cast<mode_t>(mode) & 0777U));
    }
    made_within(made_within&&) = delete;
    ~made_within() { ::umask(before_); }

private:
    mode_t before_;
};

/// The files of a directory that are not of the checkpoint in it, e.g. a tokenizer's, or
/// Megatron's `common.pt`. Where that checkpoint is replaced, they stay as they are.
class beside {
public:
    /// What the names of directories begin with in which copies wait for their checkpoint.
    static constexpr std::string_view staged_name = ".cairn-copies";

    /// @param checkpoint   A place, or `__R.metadata` of one rank within it.
    /// @param to           The checkpoint beside which they are copied.
    /// @param dequantised  They are copied for weights that are no longer quantised, and do not say
    ///                     that these are.
    beside(const std::string& checkpoint, std::string to, const cairn::metadata& m,
           bool dequantised)
        : place_(checkpoint), to_(std::move(to)), from_(store_of(checkpoint)),
          dequantised_(dequantised), format_(m.format) {
        if (m.is_file) return;
        if (dequantised_) mine_.insert(quantised_name);
        for_each_file(m);
        if (is_file(checkpoint)) {
            auto [within, name] = directory_and_name(checkpoint);
            place_ = std::move(within);
            mine_.insert(std::move(name));
        }
        from_ = from_.at(place_);
        is_url(place_) ? find_objects({}) : find({});
        if (is_one_place(place_, to_)) keep_all();
    }

    /// Copies them, durably, into a hidden directory of a checkpoint that does not exist yet: only
    /// their names are left to be given.
    void stage() {
        if (is_url(to_)) {
            objects_.emplace(store_of(to_).at(to_));
            return;
        }
        target_ = (std::filesystem::absolute(to_) / staged_name).parent_path();  // without '/'
        was_there_ = exists(symlink_status(target_));
        if (is_directory(target_))
            own_directory::remove_ended(
                target_, staged_name, [](auto&) { return true; }, [](auto&, auto&) {},
                [](auto&, auto&) {});
        if (names_.empty()) return;
        create_directories(target_);
        staged_.emplace(target_, staged_name);
        for (auto const& name : names_) {
            auto from = open(name);
            if (!from) continue;
            auto const to = staged() / name;
            auto there = cairn::file_store(to.parent_path()).syncing_where_it_can();
            try {
                write(name, *from, there, to.filename().native());
                there.sync();
            } catch (const std::exception& e) {
                failed_.emplace(name, e.what());
            }
        }
    }
    /// Gives them their names beside the checkpoint, which now exists, instead of what has them. In
    /// a place that is no directory they are written only now.
    void appear() {
        for (auto const& name : names_) {
            if (failed_.count(name) != 0) continue;
            try {
                objects_ ? objects_->publish(name, content(name), std::nullopt)
                         : rename_staged(name);
            } catch (const std::exception& e) {
                failed_.emplace(name, e.what());
            }
        }
        unstage();
    }
    /// Removes the copies that have not appeared.
    void unstage() noexcept {
        if (target_.empty()) return;
        std::error_code ignored;
        staged_.reset();
        if (!was_there_) remove(target_, ignored);  // if nothing else is in it
    }
    cairn::byte_vector content(const std::string& name) const {
        auto place = from_;
        auto bytes = cairn::read_whole(place, name);
        if (!changes(name)) return bytes;
        auto const text = without_member(bytes, "quantization_config");
        auto const all = std::as_bytes(std::span(text));
        return {all.begin(), all.end()};
    }
    /// Adds those that a directory of safetensors files gets, in pieces. Where they must be in
    /// memory together, one that has no room any more is not copied. What can no longer be read of
    /// one, e.g. because it has become shorter, is zeros until `finish` removes the copy.
    void add_to(const cairn::file_adder& put) {
        auto room = is_url(to_) ? cairn::file_adder::most_in_memory : UINT64_MAX;
        for (auto const& name : names_) {
            if (name.find('/') != name.npos) continue;
            auto from = open(name);
            if (!from) continue;
            if (from->file.size() > room) {
                failed_.emplace(name, "files beside an export to a URL have at most " +
                                          std::to_string(cairn::file_adder::most_in_memory) +
                                          " bytes together");
                continue;
            }
            room -= from->file.size();
            std::error_code ignored;
            auto const to = std::filesystem::path(to_) / name;
            std::optional<made_within> limited;
            if (!is_url(to_) && !exists(symlink_status(to, ignored)))
                if (auto const mode = mode_of(name)) {
                    modes_.emplace(name, *mode);
                    limited.emplace(*mode);
                }
            if (from->changed)
                put(name, *from->changed);
            else
                put(name, from->file.size(), [&](std::uint64_t at, std::span<std::byte> into) {
                    try {
                        from->file.read(at, into);
                    } catch (const std::exception& e) {
                        std::fill(into.begin(), into.end(), std::byte{0});
                        failed_.emplace(name, e.what());
                        if (!is_url(to_)) cut_short_.insert(name);
                    }
                });
        }
    }
    /// Removes copies of what `add_to` could not read, and gives the others the permissions that
    /// those had of which they are copies; one that replaces another has those of that one.
    void finish() const {
        for (auto const& name : cut_short_) {
            std::error_code ignored;
            std::filesystem::remove(std::filesystem::path(to_) / name, ignored);
        }
        for (auto const& [name, mode] : modes_) {
            std::error_code ignored;  // a file system without permissions
            permissions(
                std::filesystem::path(to_) / name, mode,
                std::filesystem::perm_options::replace | std::filesystem::perm_options::nofollow,
                ignored);
        }
    }
    const std::vector<std::string>& names() const { return names_; }
    /// Those that have not appeared, and why.
    const std::map<std::string, std::string>& failed() const { return failed_; }
    /// Those that may be the content of another checkpoint, or are neither files nor directories;
    /// and directories below that have a checkpoint of their own, or cannot be listed.
    const std::vector<std::string>& not_copied() const { return not_copied_; }
    /// Files of weights of which the checkpoint consists without them: the shards that PyTorch's
    /// DCP leaves in `sharded/` when it has consolidated them, and `pytorch_model*.bin`, the same
    /// model for older programs; and `.git` and `.cache`.
    const std::vector<std::string>& unused() const { return unused_; }

private:
    static constexpr const char* quantised_name = "hf_quant_config.json";

    /// A file that is copied, and the bytes of its copy if they are others.
    struct original {
        cairn::any_store::reader file;
        std::optional<cairn::byte_vector> changed{};
    };
    /// Returns nothing if it cannot be read, e.g. because it is gone: the rest is worth having.
    std::optional<original> open(const std::string& name) {
        try {
            auto place = from_;
            original o{place.open(name)};
            if (changes(name)) o.changed = content(name);
            return o;
        } catch (const std::exception& e) {
            failed_.emplace(name, e.what());
            return {};
        }
    }

    const std::filesystem::path& staged() const { return staged_->path(); }
    void rename_staged(const std::string& name) {
        auto const to = target_ / name;
        create_directories(to.parent_path());
        rename(staged() / name, to);
        for (auto at = to; at != target_;) {
            at = at.parent_path();
            cairn::file_store(at).syncing_where_it_can().sync();
        }
    }
    /// Writes the copy of a file.
    void write(const std::string& name, original& from, cairn::file_store& to,
               const std::string& fresh) const {
        constexpr std::uint64_t piece = std::uint64_t{8} << 20;
        auto const size = from.changed ? from.changed->size() : from.file.size();
        auto file = to.create(fresh, size);
        if (from.changed) {
            file.write(0, *from.changed);
        } else {
            cairn::byte_vector bytes;
            for (std::uint64_t at = 0; at < size; at += bytes.size()) {
                bytes.resize(static_cast<std::size_t>(std::min(piece, size - at)));
                from.file.read(at, bytes);
                file.write(at, bytes);
            }
        }
        std::error_code ignored;
        if (auto const mode = mode_of(name))
            permissions(std::filesystem::path(to.directory()) / fresh, *mode, ignored);
        file.finish(true);
    }
    /// The permissions that a copy gets: not the bits that make a program run as its owner. Nothing
    /// if the file is no longer there, or none.
    std::optional<std::filesystem::perms> mode_of(const std::string& name) const {
        if (is_url(place_)) return {};
        auto const path = (std::filesystem::path(place_) / name).string();
        struct ::stat s {};
        if (::stat(path.c_str(), &s) != 0 || !S_ISREG(s.st_mode)) return {};
        auto mode = s.st_mode & 0777U;
        // These bits may be of another group, or say what all entries of an access list may.
        bool const has_list = ::getxattr(path.c_str(), "system.posix_acl_access", nullptr, 0) >= 0;
        if (s.st_gid != ::getegid() || has_list) mode = (mode & 0707U) | (mode & 07U) << 3U;
        return static_cast<std::filesystem::perms>(mode);
    }
    bool changes(std::string_view name) const { return dequantised_ && name == "config.json"; }
    /// All stay where they are, but for what says that weights are quantised.
    void keep_all() {
        std::erase_if(names_, [this](auto const& name) { return !changes(name); });
        not_copied_.clear();
        unused_.clear();
        if (!dequantised_) return;
        try {
            if (!from_.tag(quantised_name).text.empty())
                failed_.emplace(quantised_name, "it says that weights are quantised: remove it");
        } catch (const std::exception& e) {
            failed_.emplace(quantised_name, e.what());
        }
    }
    void for_each_file(const cairn::metadata& m) {
        for (auto const& [fqn, entry] : m.entries) {
            if (auto const* t = std::get_if<cairn::tensor_metadata>(&entry))
                for (std::size_t i = 0; i < t->chunks.size(); ++i) mine_.insert(t->chunks.file(i));
            else
                mine_.insert(std::get<cairn::value_metadata>(entry).at.file);
        }
        for (auto const& [fqn, t] : m.unsupported) mine_.insert(t.files.begin(), t.files.end());
        for (auto const& [name, size] : m.file_sizes) mine_.insert(name);
    }
    static bool is_id(std::string_view s) {
        return s.size() == 32 && s.find_first_not_of("0123456789abcdef") == s.npos;
    }
    static bool has_id_after(std::string_view begin, std::string_view name) {
        return name.starts_with(begin) && is_id(name.substr(begin.size()));
    }
    /// Whether that is the name of an interrupted save's intent, or of one that runs.
    static bool is_intent(std::string_view name) { return has_id_after(".saving.", name); }
    /// Whether cairn or PyTorch keeps a file of this name there, a load announces itself by it, or
    /// an interrupted save may have left it: such a file is not content.
    bool is_kept_there(std::string_view name) const {
        constexpr std::string_view data = ".distcp";
        if (name.ends_with(".safetensors.index.json") || name.starts_with(".cairn-")) return true;
        if (name == ".metadata" || name == ".metadata.tmp" || name == ".metadata.quarantined" ||
            is_intent(name) || has_id_after(".reading.", name))
            return true;
        auto const begin = name.rfind('/') + 1;  // 0: it is in the place itself
        // Below, a directory without files of this checkpoint has those of another one.
        std::string const directory(name.substr(0, begin));
        auto const first = mine_.lower_bound(directory);
        if (begin != 0 && (first == mine_.end() || !first->starts_with(directory))) return false;
        name.remove_prefix(begin);
        if (!name.ends_with(data)) return false;
        name.remove_suffix(data.size());
        auto const dot = name.rfind('.');
        return dot != name.npos && dot != 0 && is_id(name.substr(dot + 1));
    }
    /// Whether a directory below has a checkpoint of its own, of which no file is copied.
    /// @param names  Of its files, from the place.
    bool is_other_checkpoint(const std::string& within, const std::set<std::string>& names) {
        auto const tells = [&](const std::string& name) {
            auto const last = std::string_view(name).substr(within.size());
            return last == ".metadata" || is_intent(last) ||
                   (last.starts_with("__") && last.ends_with(".metadata"));  // of one rank
        };
        if (within.empty() || std::none_of(names.begin(), names.end(), tells)) return false;
        not_copied_.push_back(within.substr(0, within.size() - 1));
        return true;
    }
    /// Whether that is a directory in which `git clone` or `hf download` keeps what it needs, e.g.
    /// all weights once more.
    static bool is_of_download(const std::string& within, const std::string& name) {
        return within.empty() && (name == ".git" || name == ".cache");
    }
    /// @param within  A directory, which ends in '/'; empty: the place.
    void find(const std::string& within) {
        std::set<std::string> names;
        std::filesystem::path const place(place_);
        std::error_code why;
        std::filesystem::directory_iterator entry(place / within, why);
        for (; !why && entry != end(entry); entry.increment(why))
            names.insert(within + entry->path().filename().string());
        if (why) {
            not_copied_.push_back(within.empty() ? place_ : within.substr(0, within.size() - 1));
            return;
        }
        if (is_other_checkpoint(within, names)) return;
        for (auto const& name : names) {
            if (is_kept_there(name) || mine_.count(name) != 0 ||
                is_one_place(place_ + '/' + name, to_))
                continue;
            if (is_of_download(within, name)) {
                unused_.push_back(name);
                continue;
            }
            std::error_code ignored;  // of what is none of both
            if (is_directory(symlink_status(place / name, ignored)))
                find(name + '/');
            else
                add(name, is_regular_file(place / name, ignored));
        }
    }
    /// None of a place that cannot list them.
    static std::vector<cairn::object_info> objects_of(cairn::any_store& place) {
        try {
            return place.list();
        } catch (const cairn::error& e) {
            if (e.code() != make_error_code(cairn::errc::unsupported)) throw;
            return {};
        }
    }
    /// The same of a place that is no directory.
    void find_objects(const std::string& within) {
        auto there = from_.at(place_ + (within.empty() ? "" : "/" + within));
        std::set<std::string> names;
        for (auto const& o : objects_of(there)) names.insert(within + o.name);
        if (is_other_checkpoint(within, names)) return;
        for (auto const& name : names)
            if (!is_kept_there(name) && mine_.count(name) == 0) add(name, true);
        if (!there.browsable()) return;
        for (auto const& id : there.places()) {
            if (is_one_place(place_ + '/' + within + id, to_)) continue;
            is_of_download(within, within + id) ? unused_.push_back(within + id)
                                                : find_objects(within + id + '/');
        }
    }
    void add(const std::string& name, bool is_regular) {
        if (format_ == cairn::checkpoint_format::torch_save && name.ends_with(".bin.index.json"))
            return;  // of the files that are converted
        bool const is_older_form = name.starts_with("pytorch_model") &&
                                   (name.ends_with(".bin") || name.ends_with(".bin.index.json"));
        // What PyTorch's DCP has consolidated. Elsewhere they may be a module's weights.
        bool const is_part = name.starts_with("sharded/") && name.ends_with(".safetensors");
        if (format_ == cairn::checkpoint_format::safetensors && (is_older_form || is_part))
            unused_.push_back(name);
        else if (name.ends_with(".distcp") || name.ends_with(".safetensors") || !is_regular)
            not_copied_.push_back(name);
        else
            names_.push_back(name);
    }

    std::string place_, to_;
    cairn::any_store from_;
    bool dequantised_;
    cairn::checkpoint_format format_;
    std::set<std::string> mine_{};
    std::vector<std::string> names_{}, not_copied_{}, unused_{};
    std::map<std::string, std::string> failed_{};
    std::set<std::string> cut_short_{};  ///< Copies in an export that are not what they were.
    std::map<std::string, std::filesystem::perms> modes_{};
    std::filesystem::path target_{};  ///< Of the copies; where it is no directory:
    std::optional<cairn::any_store> objects_{};
    std::optional<own_directory> staged_{};
    bool was_there_ = true;  ///< The target.
};

}  // namespace tool

#endif
