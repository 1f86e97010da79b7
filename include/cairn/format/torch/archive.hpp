// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_ARCHIVE_HPP
#define CAIRN_FORMAT_TORCH_ARCHIVE_HPP

#include <cairn/format/zip/writer.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

namespace cairn::format::torch {

/// The records of one torch.save stream as PyTorch 2.14 writes them, without the bytes of tensors,
/// whose CRCs may become known only later.
class archive {
public:
    static constexpr std::uint64_t alignment = 64;

    /// @param folder  Of all records: the file's name without its extension.
    explicit archive(std::string folder = "archive") : folder_(std::move(folder) + "/") {}

    /// Appends a small record, from header to descriptor.
    void add(std::string_view name, std::span<const std::byte> bytes) {
        begin(name, bytes.size(), alignment);
        out_.raw(bytes);
        records_.back().crc = crc32(bytes);
        zip::descriptor(out_, records_.back());
    }
    void add(std::string_view name, std::string_view s) {
        add(name, std::as_bytes(std::span(s.data(), s.size())));
    }
    /// Appends everything between data.pkl and the bytes of tensors.
    void add_preamble(std::span<const std::byte> pickle, std::string_view byteorder = "little") {
        add("data.pkl", pickle);
        add(".format_version", "1");
        add(".storage_alignment", "64");
        add("byteorder", byteorder);
    }
    /// Begins a record: only its header.
    void begin(std::string_view name, std::uint64_t size, std::uint64_t payload_alignment) {
        zip::record r{folder_ + std::string(name), position(), size, 0};
        zip::local_header(out_, r, payload_alignment);
        records_.push_back(std::move(r));
    }
    /// Continues after the payload, which is not stored in `out`.
    void end_payload(std::uint32_t crc) {
        auto& r = records_.back();
        r.crc = crc;
        skipped_ += r.size;
        zip::descriptor(out_, r);
    }
    /// Appends version, serialization id, directory.
    void finish(std::uint64_t names_hash) {
        add("version", "3\n");
        std::uint64_t combined = 0;
        for (auto const& r : records_)
            if (r.size != 0) combined = hash_combine(combined, r.crc);
        std::array<char, 48> id{};
        std::snprintf(id.data(), id.size(), "%020llu%020llu",
                      static_cast<unsigned long long>(names_hash),
                      static_cast<unsigned long long>(combined));
        add(".data/serialization_id", std::string_view(id.data(), 40));
        zip::directory(out_, records_, position());
    }
    /// Returns what PyTorch makes of the names of all records, and of nothing else: it combines
    /// the hashes of a set in the order in which the set has them. Equal to PyTorch's where the
    /// standard library is its own, libstdc++.
    /// @pre all records but those that `finish` adds
    std::uint64_t names_hash() const {
        std::unordered_set<std::string> names;
        for (auto const& r : records_) names.insert(r.name.substr(folder_.size()));
        names.insert("version");
        std::uint64_t combined = 0;
        for (auto const& n : names) combined = hash_combine(combined, std::hash<std::string>()(n));
        return combined;
    }

    /// Returns the bytes written so far, or since they were taken.
    std::span<const std::byte> bytes() const noexcept { return out_.written(); }
    std::vector<std::byte> take() {
        skipped_ += out_.size();
        return out_.take();
    }
    /// Returns an archive that continues this one, without the bytes written so far.
    archive rest() const {
        archive a;
        a.folder_ = folder_;
        a.records_ = records_;
        a.skipped_ = position();
        return a;
    }

    std::uint64_t position() const noexcept { return out_.size() + skipped_; }
    std::span<zip::record> records() noexcept { return records_; }

private:
    static std::uint64_t hash_combine(std::uint64_t seed, std::uint64_t v) {
        return seed ^ (v + 0x9e3779b9 + (seed << 6) + (seed >> 2));
    }
    std::string folder_;
    detail::wire_writer out_;
    std::vector<zip::record> records_;
    std::uint64_t skipped_ = 0;
};

/// The hashes of the names in an item of one tensor and of a value: @ref archive::names_hash.
inline constexpr std::uint64_t tensor_names_hash = 15728199511854643026ULL;
inline constexpr std::uint64_t object_names_hash = 2908468677762923104ULL;

}  // namespace cairn::format::torch

#endif
