// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_UNVERIFIED_HPP
#define CAIRN_STORAGE_DETAIL_UNVERIFIED_HPP

#include <cairn/detail/counted.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/metadata/value.hpp>
#include <cairn/printable.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace cairn::detail {

/// Collects what a reader delivers without a checksum, or without knowing what it says.
/// Thread-safe.
class unverified {
public:
    void reset() {
        std::lock_guard const lock(m_);
        items_.clear();
        unread_.clear();
        pytorch_ = false;
    }
    /// PyTorch writes `.metadata` without a checksum and data files without a save id.
    void note_metadata(const metadata& m) {
        std::lock_guard const lock(m_);
        pytorch_ = m.save_id.empty();
        for (auto const& [fqn, t] : m.unsupported)
            unread_[fqn] = "dtype " + t.type + ", which this version of cairn does not know";
        if (!pytorch_) return;
        for (auto const& [fqn, entry] : m.entries) {
            auto const* t = std::get_if<tensor_metadata>(&entry);
            if (t == nullptr) continue;
            std::int64_t stored = 0;
            for (std::size_t i = 0; i < t->chunks.size(); ++i) {
                std::int64_t n = 1;
                for (auto const length : t->chunks.lengths(i)) n *= length;
                stored += n;
            }
            if (stored != t->shape.product())
                unread_[fqn] = std::to_string(stored) + " of " +
                               counted(static_cast<std::uint64_t>(t->shape.product()), "element") +
                               " are stored";
        }
    }
    /// A value that is kept as it is stored, whatever it says.
    void note_opaque(const std::string& fqn, const value::opaque_t& v) {
        std::lock_guard const lock(m_);
        unread_[fqn] = v.what() + "; it is kept as it is stored";
    }
    /// An item that PyTorch wrote after `torch.serialization.set_crc32_options(False)`.
    void note_item(const std::string& described_file) {
        std::lock_guard const lock(m_);
        ++items_[described_file];
    }
    /// Returns one line for each kind.
    std::vector<std::string> lines() const {
        std::lock_guard const lock(m_);
        std::vector<std::string> out;
        if (pytorch_) {
            out.emplace_back(
                ".metadata: PyTorch wrote it, without a checksum; bounds, overlap, "
                "coverage, dtypes and shapes agree with the data files");
            out.emplace_back(
                "data files: PyTorch writes no save id, so nothing tells whether they "
                "belong to this save");
        }
        for (auto const& [file, n] : items_)
            out.push_back("'" + terminal_text(file) + "': " + std::to_string(n) +
                          (n == 1 ? " item was" : " items were") + " written without a checksum");
        for (auto const& [fqn, why] : unread_)
            out.push_back("'" + terminal_text(fqn) + "': " + terminal_text(why));
        return out;
    }

private:
    mutable std::mutex m_;
    std::map<std::string, std::size_t, std::less<>> items_;
    std::map<std::string, std::string> unread_;  ///< Why, by the name of the tensor or value.
    bool pytorch_ = false;
};

}  // namespace cairn::detail

#endif
