// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_SAVE_LAYOUT_HPP
#define CAIRN_FORMAT_TORCH_SAVE_LAYOUT_HPP

#include <cairn/error.hpp>
#include <cairn/format/target_file.hpp>
#include <cairn/format/torch/archive.hpp>
#include <cairn/format/torch_save/new_entry.hpp>
#include <cairn/format/torch_save/state_pickle.hpp>
#include <cairn/format/zip/writer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::format::torch_save {

/// Returns the folder of a file's records, as torch.save names it: the file's name up to its last
/// dot. PyTorch takes only ASCII from it.
inline std::string folder_of(std::string_view file) {
    auto const slash = file.find_last_of("/\\");
    if (slash != file.npos) file.remove_prefix(slash + 1);
    file = file.substr(0, file.rfind('.'));
    bool const ascii = std::all_of(file.begin(), file.end(),
                                   [](char c) { return static_cast<unsigned char>(c) < 0x80; });
    return file.empty() || !ascii ? "archive" : std::string(file);
}

/// A file of torch.save of which every byte has its place before the first element is written, as
/// PyTorch 2.13 would have written it: byte for byte, where its pickler has the same strings in
/// common and its state is of dicts and lists.
class layout {
public:
    /// @param file     Its name.
    /// @param entries  In the order of the file.
    /// @param paths    Of the entries in nested dicts and lists. Empty: the names are the keys of
    ///                 one dict.
    /// @param text_keys  As of @ref metadata: they become again what they were.
    /// @throws error naming the entry that cannot be written; errc::unsupported for more entries
    /// than are read again, or larger ones
    layout(std::string file, const new_entries& entries, const key_paths& paths,
           const std::set<key_path>& text_keys = {})
        : archive_(folder_of(file)) {
        file_.name = std::move(file);
        state_pickle state(entries, paths, text_keys);
        to_trust_ = state.to_trust();
        archive_.add_preamble(state.bytes());
        std::size_t number = 0;
        for (auto& s : state.storages()) {
            auto const record = "data/" + std::to_string(number++);
            if (!s.entry) {
                archive_.add(record, s.content);
                s.content = {};
                continue;
            }
            if (s.bytes > most_bytes - archive_.position())
                throw error(errc::invalid_state, {.fqn = entries[*s.entry].fqn,
                                                  .expected = "a file of less than " +
                                                              std::to_string(most_bytes) + " bytes",
                                                  .found = "more",
                                                  .remedy = "write several files"});
            archive_.begin(record, s.bytes, torch::archive::alignment);
            flush();
            auto const& e = entries[*s.entry];
            auto const& t = std::get<new_tensor>(e.what);
            file_.tensors.push_back({e.fqn, t.type, t.shape, archive_.position()});
            records_.push_back(archive_.records().size() - 1);
            archive_.end_payload(0);
            (void)archive_.take();  // its descriptor, which has the checksum
        }
        flush();
        names_hash_ = archive_.names_hash();
        auto const last = rest(std::vector<std::uint32_t>(records_.size())).back();
        file_.size = last.offset + last.bytes.size();
    }

    /// Where the elements go: of the tensors that have a storage of their own.
    const target_file& file() const noexcept { return file_; }
    /// All other bytes that do not depend on the elements, in the order of their offsets.
    const std::vector<placed_bytes>& fixed() const noexcept { return fixed_; }
    /// Returns the remaining bytes, in the order of their offsets: what follows each tensor's
    /// elements, and the end of the file.
    /// @param crcs  The CRC-32 of the elements of each tensor of @ref file, as many as there are;
    ///              that of a whole follows from those of its pieces (@ref crc32_combine).
    std::vector<placed_bytes> rest(std::span<const std::uint32_t> crcs) const {
        std::vector<placed_bytes> all;
        auto end = archive_.rest();
        for (std::size_t i = 0; i < records_.size(); ++i) {
            auto& r = end.records()[records_[i]];
            r.crc = crcs[i];
            detail::wire_writer w;
            zip::descriptor(w, r);
            if (r.size != 0) all.push_back({file_.tensors[i].offset + r.size, w.take()});
        }
        auto const at = end.position();
        end.finish(names_hash_);
        all.push_back({at, end.take()});
        return all;
    }
    /// By entry: the classes without which `torch.load` refuses the whole file, unless it is told
    /// to trust it (`weights_only=False`).
    const std::map<std::string, std::set<std::string>>& to_trust() const noexcept {
        return to_trust_;
    }

private:
    static constexpr std::uint64_t most_bytes = std::uint64_t{1} << 62;

    void flush() {
        auto const at = archive_.position() - archive_.bytes().size();
        if (auto bytes = archive_.take(); !bytes.empty()) fixed_.push_back({at, std::move(bytes)});
    }

    torch::archive archive_;            ///< Up to the record `version`.
    std::vector<std::size_t> records_;  ///< Of the tensors of `file_`.
    std::vector<placed_bytes> fixed_;
    target_file file_;
    std::uint64_t names_hash_ = 0;
    std::map<std::string, std::set<std::string>> to_trust_;
};

}  // namespace cairn::format::torch_save

#endif
