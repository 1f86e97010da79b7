// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_VERIFICATION_HPP
#define CAIRN_TOOLS_VERIFICATION_HPP

#include <cairn/format/native/index.hpp>
#include <cairn/format/torch/item.hpp>
#include <cairn/metadata/check.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/data_file.hpp>
#include <cairn/storage/stored_chunk.hpp>
#include <cairn/storage/unverified.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace tool {

/// Reads a whole checkpoint, file by file, and counts findings. Each byte is read a fixed number of
/// times, whatever the metadata says.
template <cairn::ObjectStore Store>
class verification {
public:
    /// @param out  Findings, one line each, and a line of totals.
    verification(Store store, std::ostream& out) : store_(std::move(store)), out_(out) {}

    /// @return whether there were no findings
    bool run() {
        auto bytes = cairn::detail::read_whole(store_, ".metadata");
        cairn::format::native::metadata_file f;
        auto const whole = [&](auto&& check) { return attempt({}, ".metadata", check); };
        if (!whole([&] { f = cairn::format::native::parse_metadata_file(bytes); })) return totals();
        meta_ = std::move(f.meta);
        unverified_.note_metadata(meta_);
        if (!f.torch_metadata)
            out_ << "for cairn only: saved with torch_metadata off, PyTorch cannot load it\n";
        whole([&] { cairn::check_metadata(meta_); });
        if (f.has_index) whole([&] { cairn::format::native::check_pickle_agrees(bytes); });
        bytes = {};
        for (auto& [name, items] : by_file())
            attempt({}, name, [&, &n = name, &i = items] { check_file(n, i); });
        for (auto const& line : unverified_.lines()) out_ << "not checked: " << line << '\n';
        return totals();
    }

private:
    using file = cairn::detail::open_file<decltype(std::declval<Store&>().open(""))>;
    struct item {
        const std::string* fqn;
        const cairn::storage_location* at;
        const cairn::tensor_metadata* tensor = nullptr;
        const cairn::chunk* chunk = nullptr;
    };

    std::map<std::string, std::vector<item>> by_file() const {
        std::map<std::string, std::vector<item>> files;
        for (auto const& [name, size] : meta_.file_sizes) files[name];
        for (auto const& [fqn, entry] : meta_.entries) {
            if (auto const* t = std::get_if<cairn::tensor_metadata>(&entry)) {
                for (auto const& c : t->chunks) files[c.at.file].push_back({&fqn, &c.at, t, &c});
            } else {
                auto const& at = std::get<cairn::value_metadata>(entry).at;
                files[at.file].push_back({&fqn, &at});
            }
        }
        for (auto& [name, items] : files)
            std::sort(items.begin(), items.end(),
                      [](const item& a, const item& b) { return a.at->offset < b.at->offset; });
        return files;
    }

    /// Runs a check; an exception is a finding about that tensor and file.
    bool attempt(const std::string& fqn, const std::string& name, const std::function<void()>& f) {
        try {
            f();
            return true;
        } catch (const cairn::error& e) {
            ++findings_;
            auto where = e.context();
            if (where.fqn.empty()) where.fqn = fqn;
            if (where.file.empty()) where.file = store_.describe(name);
            out_ << cairn::error(e.code(), std::move(where)).what() << '\n';
            return false;
        }
    }
    bool totals() const {
        out_ << items_ << " items, " << bytes_ << " bytes, " << files_
             << (files_ == 1 ? " file: " : " files: ")
             << (findings_ == 0   ? "all fine"
                 : findings_ == 1 ? "1 finding"
                                  : std::to_string(findings_) + " findings")
             << '\n';
        return findings_ == 0;
    }

    void check_file(const std::string& name, const std::vector<item>& items) {
        ++files_;
        file f(cairn::detail::open_data_file(store_, name), store_.describe(name));
        auto const recorded = meta_.file_sizes.find(name);
        if (recorded != meta_.file_sizes.end())
            attempt({}, name, [&] { check_size(f, name, recorded->second); });
        const item* last = nullptr;  // the last one that was read
        for (auto const& i : items) {
            ++items_;
            bool const overlaps =
                last != nullptr && i.at->offset < last->at->offset + last->at->length;
            // A tied weight is one item with several names. Any other overlap is a finding about
            // the metadata, and the bytes would be read again and again.
            if (overlaps && *i.at == *last->at) continue;
            auto const read = [&] {
                if (overlaps)
                    throw cairn::error(cairn::errc::corrupt,
                                       {.expected = "bytes of its own",
                                        .found = "bytes that '" + *last->fqn + "' claims too",
                                        .remedy = "it was not read"});
                cairn::detail::check_within(f, *i.fqn, *i.at);
                last = &i;
                if (i.tensor != nullptr)
                    check_tensor(f, *i.fqn, *i.tensor, *i.chunk);
                else
                    check_object(f, *i.at);
            };
            attempt(*i.fqn, name, read);
        }
    }
    void check_size(file& f, const std::string& name, std::uint64_t size) {
        if (f.size() != size)
            throw cairn::error(cairn::errc::corrupt, {.file = store_.describe(name),
                                                      .expected = std::to_string(size) + " bytes",
                                                      .found = std::to_string(f.size())});
        if (size != 0) (void)f.footer(meta_.save_id);
    }

    /// Returns the CRC of a range of a file, read in pieces; checks blocks against the footer's
    /// CRCs, if any.
    std::uint32_t crc_of(file& f, std::uint64_t at, std::uint64_t length,
                         const std::vector<std::uint32_t>& blocks = {}) {
        constexpr auto block_bytes = cairn::format::native::block_bytes;
        std::vector<std::byte> buffer(
            static_cast<std::size_t>(std::min<std::uint64_t>(length, 4 << 20)));
        std::uint32_t crc = 0;
        for (std::uint64_t done = 0; done < length;) {
            auto const n =
                static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), length - done));
            std::span<std::byte> const piece(buffer.data(), n);
            f.read(at + done, piece);
            crc = cairn::format::crc32(piece, crc);
            for (std::size_t k = 0; !blocks.empty() && k < n; k += block_bytes) {
                auto const block = piece.subspan(k, std::min<std::size_t>(block_bytes, n - k));
                if (cairn::format::crc32(block) !=
                    blocks[static_cast<std::size_t>((done + k) / block_bytes)])
                    throw mismatch(f, "a block as it was written");
            }
            done += n;
        }
        bytes_ += length;
        return crc;
    }
    static cairn::error mismatch(const file& f, const char* expected) {
        return cairn::error(cairn::errc::checksum_mismatch,
                            {.file = f.described(), .expected = expected, .found = "other bytes"});
    }

    void check_tensor(file& f, const std::string& fqn, const cairn::tensor_metadata& t,
                      const cairn::chunk& c) {
        auto const p = cairn::detail::find_payload(f, fqn, t, c, meta_.save_id);
        if (!p.checked) unverified_.note_item(f.described());
        if (crc_of(f, p.at, p.length, p.block_crcs) != p.crc && p.checked)
            throw mismatch(f, "the tensor as it was written");
        if (!c.at.layout) return;
        if (crc_of(f, c.at.offset, c.at.length) != c.at.layout->item_crc)
            throw mismatch(f, "the item as it was written");
        bytes_ -= c.at.length;
        // PyTorch must read exactly what the index says.
        auto const as_torch = cairn::format::torch::parse_tensor_item(
            [&](std::uint64_t at, std::span<std::byte> into) { f.read(c.at.offset + at, into); },
            c.at.length);
        if (as_torch.type != t.type || as_torch.shape != c.region.shape ||
            as_torch.payload_crc != p.crc || c.at.offset + as_torch.payload_offset != p.at ||
            as_torch.strides != p.strides)
            throw cairn::error(cairn::errc::corrupt,
                               {.file = f.described(),
                                .expected = "the item that the index describes",
                                .found = "another"});
    }
    void check_object(file& f, const cairn::storage_location& at) {
        if (!at.transforms.empty())
            throw cairn::error(
                cairn::errc::unsupported,
                {.expected = "an item without stream transforms", .found = at.transforms.front()});
        std::vector<std::byte> bytes(static_cast<std::size_t>(at.length));
        f.read(at.offset, bytes);
        bytes_ += bytes.size();
        if (at.layout && cairn::format::crc32(bytes) != at.layout->item_crc)
            throw mismatch(f, "the value as it was written");
        bool checked = false;
        (void)cairn::format::torch::decode_value(bytes, &checked);
        if (!checked) unverified_.note_item(f.described());
    }

    Store store_;
    std::ostream& out_;
    cairn::metadata meta_;
    cairn::detail::unverified unverified_;
    std::size_t files_ = 0, items_ = 0, findings_ = 0;
    std::uint64_t bytes_ = 0;
};

}  // namespace tool

#endif
