// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_BESIDE_HPP
#define CAIRN_TOOLS_BESIDE_HPP

#include "json.hpp"

#include <cairn/metadata/metadata.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/object_store/read_whole.hpp>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tool {

/// The files of a directory that are not of the checkpoint in it, e.g. a tokenizer's, or
/// Megatron's `common.pt`.
class beside {
public:
    /// @param checkpoint   A directory, or `__R.metadata` of one rank within it.
    /// @param dequantised  They are copied for weights that are no longer quantised, and do not say
    ///                     that these are.
    beside(const std::filesystem::path& checkpoint, const cairn::metadata& m, bool dequantised)
        : place_(is_directory(checkpoint) ? checkpoint : checkpoint.parent_path()),
          dequantised_(dequantised) {
        if (m.is_file) return;
        if (dequantised_) mine_.insert("hf_quant_config.json");
        for_each_file(m);
        if (!is_directory(checkpoint)) mine_.insert(checkpoint.filename().string());
        find({});
    }

    /// Copies them beside another checkpoint.
    /// @param replace  Also those that are there.
    void copy_to(const std::filesystem::path& target, bool replace) {
        namespace fs = std::filesystem;
        for (auto const& name : names_) {
            auto const to = target / name;
            if (!replace && exists(symlink_status(to))) continue;
            fs::create_directories(to.parent_path());
            fs::path const fresh = to.native() + ".cairn-copy";
            try {
                if (changes(name)) {
                    auto const bytes = content(name);
                    std::ofstream file(fresh, std::ios::binary | std::ios::trunc);
                    file.exceptions(std::ios::badbit | std::ios::failbit);
                    file.write(reinterpret_cast<const char*>(bytes.data()),
                               static_cast<std::streamsize>(bytes.size()));
                    file.close();
                } else {
                    fs::copy_file(place_ / name, fresh, fs::copy_options::overwrite_existing);
                }
                rename(fresh, to);
            } catch (...) {
                std::error_code ignored;
                remove(fresh, ignored);
                throw;
            }
            made_.push_back(to);
        }
    }
    cairn::byte_vector content(const std::string& name) const {
        cairn::file_store place(place_.string());
        auto bytes = cairn::read_whole(place, name);
        if (!changes(name)) return bytes;
        auto const text = without_member(bytes, "quantization_config");
        auto const all = std::as_bytes(std::span(text));
        return {all.begin(), all.end()};
    }
    /// Removes the copies again.
    void remove_copies() noexcept {
        std::error_code ignored;
        for (auto const& file : made_) remove(file, ignored);
    }

    const std::vector<std::string>& names() const { return names_; }
    /// Those that may be the content of another checkpoint, or are neither files nor directories.
    const std::vector<std::string>& not_copied() const { return not_copied_; }

private:
    bool changes(std::string_view name) const { return dequantised_ && name == "config.json"; }
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
    /// Whether cairn or PyTorch keeps a file of this name there, or an interrupted save may have
    /// left it: such a file is not content.
    static bool is_kept_there(std::string_view name) {
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
    /// @param within  A directory, which ends in '/'; empty: the place.
    void find(const std::string& within) {
        std::set<std::string> names;
        for (auto const& entry : std::filesystem::directory_iterator(place_ / within))
            names.insert(within + entry.path().filename().string());
        for (auto const& name : names) {
            if (is_kept_there(name) || mine_.count(name) != 0) continue;
            auto const kind = symlink_status(place_ / name);
            if (is_directory(kind))
                find(name + '/');
            else if (name.ends_with(".distcp") || name.ends_with(".safetensors") ||
                     !is_regular_file(place_ / name))
                not_copied_.push_back(name);
            else
                names_.push_back(name);
        }
    }

    std::filesystem::path place_;
    bool dequantised_;
    std::set<std::string> mine_{};
    std::vector<std::string> names_{}, not_copied_{};
    std::vector<std::filesystem::path> made_{};
};

}  // namespace tool

#endif
