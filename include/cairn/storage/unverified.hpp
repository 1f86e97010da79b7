// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_UNVERIFIED_HPP
#define CAIRN_STORAGE_UNVERIFIED_HPP

#include <cairn/detail/utf8.hpp>
#include <cairn/metadata/metadata.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace cairn::detail {

/// Collects what a reader delivers without a checksum. Thread-safe.
class unverified {
public:
    void reset() {
        std::lock_guard const lock(m_);
        items_.clear();
        pytorch_ = false;
    }
    /// PyTorch writes `.metadata` without a checksum and data files without a save id.
    void note_metadata(const metadata& m) {
        std::lock_guard const lock(m_);
        pytorch_ = m.save_id.empty();
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
        return out;
    }

private:
    mutable std::mutex m_;
    std::map<std::string, std::size_t, std::less<>> items_;
    bool pytorch_ = false;
};

}  // namespace cairn::detail

#endif
