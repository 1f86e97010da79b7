// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_IMPL_STORED_BYTES_IPP
#define CAIRN_METADATA_IMPL_STORED_BYTES_IPP

#include <cairn/metadata/detail/transforms.hpp>
#include <cairn/metadata/stored_bytes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

namespace detail {
/// Whether a tensor, or several together, may have so many bytes.
inline bool may_be_of(double claimed, double stored) {
    constexpr double spare = double(1 << 20);
    return claimed <= 64 * stored + spare;
}
/// Whether a tensor is made of others, and has no bytes of its own.
inline bool is_made(const tensor_metadata& t) {
    for (std::size_t i = 0; i < t.chunks.size(); ++i)
        if (!t.chunks.file(i).empty()) return false;
    return t.chunks.size() != 0;
}
/// No frame of zstd has more than 128 KiB for each block of 4 bytes.
inline constexpr double most_zstd_ratio = 32768;
}  // namespace detail

CAIRN_DECL void check_stored_bytes(const metadata& m,
                                   const std::function<bool(std::string_view)>& wanted) {
    if (m.file_sizes.empty()) return;
    using place = std::pair<std::string_view, std::uint64_t>;  // file and offset
    std::vector<std::pair<place, double>> places;
    bool may_be_smaller = false;   // than it was before it was compressed
    double claimed = 0, most = 0;  // sums of 2^60 and more overflow an integer
    const std::string* largest = nullptr;
    for (auto const& [fqn, entry] : m.entries) {
        auto const* t = std::get_if<tensor_metadata>(&entry);
        if (t == nullptr || !wanted(fqn) || detail::is_made(*t)) continue;
        auto const bytes =
            static_cast<double>(t->shape.product()) * static_cast<double>(size_of(t->type));
        double held = 0;
        for (std::size_t i = 0; i < t->chunks.size(); ++i) {
            auto const& name = t->chunks.file(i);
            auto const& at = t->chunks.row_of(i);
            auto const file = m.file_sizes.find(name);
            auto const size = file == m.file_sizes.end() ? UINT64_MAX : file->second;
            if (size == 0)
                throw error(errc::missing_file,
                            {.fqn = fqn,
                             .file = name,
                             .expected = "a data file, because the metadata names it",
                             .found = "no such file, or an empty one",
                             .remedy = "restore the checkpoint's own file"});
            auto const n = at.offset < size ? std::min(at.length, size - at.offset) : 0;
            auto bytes_of = static_cast<double>(n);
            if (auto const* const c = t->chunks.unusual(i);
                c != nullptr && detail::is_zstd(c->at.transforms)) {
                if (c->at.layout && !m.save_id.empty())
                    bytes_of = std::min(static_cast<double>(c->at.layout->payload_length),
                                        detail::most_zstd_ratio * bytes_of);
                else
                    may_be_smaller = true;
            }
            places.push_back({{name, at.offset}, bytes_of});
            held += bytes_of;
        }
        claimed += bytes;
        if (largest == nullptr || bytes - held > most) {
            most = bytes - held;
            largest = &fqn;
        }
    }
    std::sort(places.begin(), places.end());
    double stored = 0;
    for (std::size_t i = 0; i < places.size(); ++i)
        if (i == 0 || places[i].first != places[i - 1].first) stored += places[i].second;
    if (detail::may_be_of(claimed, stored)) return;
    auto const words = [](double d) {
        return d < 1e19 ? std::to_string(static_cast<std::uint64_t>(d)) : std::to_string(d);
    };
    throw error(may_be_smaller ? errc::unsupported : errc::corrupt,
                {.fqn = *largest,
                 .expected = "tensors about as large as the " + words(stored) +
                             " bytes that are stored for them",
                 .found = words(claimed) + " bytes, most of them in this one",
                 .remedy = "if the file is right, load the tensor into a state of your own"});
}

CAIRN_DECL std::string repetition(const metadata& m, const tensor_metadata& t) {
    if (m.format != checkpoint_format::torch_save) return {};
    auto const bytes = static_cast<std::uint64_t>(t.shape.product()) * size_of(t.type);
    std::uint64_t stored = 0;
    for (std::size_t i = 0; i < t.chunks.size(); ++i) stored += t.chunks.row_of(i).length;
    if (detail::may_be_of(static_cast<double>(bytes), static_cast<double>(stored))) return {};
    return "its " + std::to_string(bytes) + " bytes repeat " + std::to_string(stored) +
           " stored ones";
}

}  // namespace cairn

#endif
