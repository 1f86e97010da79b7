// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_PROMISES_HPP
#define CAIRN_TEST_SUPPORT_PROMISES_HPP

#include <cairn/metadata/metadata.hpp>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace support {

/// The library breaks a promise.
struct finding : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// What `check_metadata` promises of the metadata that it accepts, checked once more, naively: all
/// pairs are compared. Of many chunks only the first are.
inline void check_promises(const cairn::metadata& m) {
    constexpr std::size_t most = 24;
    __extension__ using wide = __int128;
    struct stored {
        const std::string* fqn;
        cairn::storage_location at;
    };
    auto const broken = [](const std::string& fqn, const char* what) {
        throw finding("accepted metadata: '" + fqn + "' " + what);
    };
    auto const before = [](const cairn::box& a, const cairn::box& b) {
        for (std::size_t d = 0; d < a.shape.size(); ++d)
            if (wide(a.offsets[d]) + a.shape[d] <= b.offsets[d] ||
                wide(b.offsets[d]) + b.shape[d] <= a.offsets[d])
                return true;
        return false;
    };
    std::vector<stored> all;
    for (auto const& [fqn, entry] : m.entries) {
        auto const* t = std::get_if<cairn::tensor_metadata>(&entry);
        if (t == nullptr) {
            all.push_back({&fqn, std::get<cairn::value_metadata>(entry).at});
            continue;
        }
        auto const rank = t->shape.size();
        wide whole = 1, covered = 0;
        for (auto n : t->shape) whole *= n;
        for (auto const& c : t->chunks) {
            auto const& r = c.region;
            if (r.shape.size() != rank || r.offsets.size() != rank)
                broken(fqn, "has a chunk of another rank");
            wide volume = 1;
            for (std::size_t d = 0; d < rank; ++d) {
                if (r.offsets[d] < 0 || r.shape[d] < 0 ||
                    wide(r.offsets[d]) + r.shape[d] > t->shape[d])
                    broken(fqn, "has a chunk outside of it");
                volume *= r.shape[d];
            }
            covered += volume;
            all.push_back({&fqn, c.at});
            if (!c.at.layout) continue;
            auto const& l = *c.at.layout;
            if (wide(l.payload_offset) + l.payload_length > c.at.length)
                broken(fqn, "has a payload beyond its item");
            if (volume * static_cast<wide>(cairn::size_of(t->type)) != l.payload_length)
                broken(fqn, "has a payload of another size");
            if (l.strides.size() != rank) broken(fqn, "has strides of another rank");
            wide last = 0;
            for (std::size_t d = 0; d < rank && volume != 0; ++d)
                last += wide(r.shape[d] - 1) * l.strides[d];
            if (volume != 0 && (last < 0 || last >= volume))
                broken(fqn, "has strides beyond its payload");
        }
        // A process that PyTorch saved alone may have had some shards only.
        if (covered > whole || (covered != whole && !m.save_id.empty()))
            broken(fqn, "is not covered");
        for (std::size_t i = 0; i < t->chunks.size() && i < most; ++i)
            for (std::size_t k = 0; k < i; ++k)
                if (!t->chunks[i].region.empty() && !t->chunks[k].region.empty() &&
                    !before(t->chunks[i].region, t->chunks[k].region))
                    broken(fqn, "has chunks that overlap");
    }
    for (auto const& [fqn, at] : all) {
        auto const size = m.file_sizes.find(at.file);
        if (size != m.file_sizes.end() && wide(at.offset) + at.length > size->second)
            broken(*fqn, "leaves its file");
    }
    for (std::size_t i = 0; i < all.size() && i < most; ++i)
        for (std::size_t k = 0; k < i; ++k) {
            auto const &a = all[i].at, &b = all[k].at;
            if (a.file != b.file || wide(a.offset) + a.length <= b.offset ||
                wide(b.offset) + b.length <= a.offset)
                continue;
            // One item under two names: a tied tensor, which only cairn writes.
            if (m.save_id.empty() || !(a == b) || all[i].fqn == all[k].fqn)
                broken(*all[i].fqn, "shares bytes");
        }
}

}  // namespace support

#endif
