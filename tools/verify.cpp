// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.hpp"

#include <cairn/format/native/footer.hpp>
#include <cairn/format/native/index.hpp>
#include <cairn/format/torch/item.hpp>
#include <cairn/metadata/check.hpp>
#include <cairn/storage/stored_chunk.hpp>
#include <cairn/storage/unverified.hpp>

#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <set>

namespace tool {

namespace {

using file = cairn::detail::open_file<cairn::file_store::reader>;

/// Reads a whole checkpoint and counts what it finds.
class verification {
public:
    explicit verification(const std::string& checkpoint) : store_(checkpoint) {}

    int run() {
        auto reader = store_.open(".metadata");
        std::vector<std::byte> bytes(static_cast<std::size_t>(reader.size()));
        reader.read(0, bytes);
        cairn::format::native::metadata_file f;
        auto const whole = [&](auto&& check) { return attempt({}, ".metadata", check); };
        if (!whole([&] { f = cairn::format::native::parse_metadata_file(bytes); })) return done();
        meta_ = f.meta;
        unverified_.note_metadata(meta_);
        native_ = f.has_index;
        if (!f.torch_metadata) std::cout << only_cairn;
        whole([&] { cairn::check_metadata(meta_); });
        if (native_) whole([&] { cairn::format::native::check_pickle_agrees(bytes); });
        for (auto const& [name, size] : meta_.object_sizes)
            attempt({}, name, [&] { check_size(name, size); });
        for (auto const& [fqn, entry] : meta_.entries) {
            if (auto const* t = std::get_if<cairn::tensor_metadata>(&entry)) {
                for (auto const& c : t->chunks)
                    attempt(fqn, c.at.object, [&] { check_tensor(fqn, *t, c); });
            } else {
                auto const& o = std::get<cairn::object_metadata>(entry);
                attempt(fqn, o.at.object, [&] { check_object(o); });
            }
        }
        for (auto const& line : unverified_.lines()) std::cout << "not checked: " << line << '\n';
        return done();
    }

private:
    /// Runs a check; what it throws is a finding about that tensor and file.
    bool attempt(const std::string& fqn, const std::string& name, const std::function<void()>& f) {
        try {
            f();
            return true;
        } catch (const cairn::error& e) {
            ++findings_;
            auto where = e.context();
            if (where.tensor.empty()) where.tensor = fqn;
            if (where.object.empty()) where.object = store_.describe(name);
            std::cout << cairn::error(e.code(), std::move(where)).what() << '\n';
            return false;
        }
    }
    int done() const {
        std::cout << items_ << " items, " << bytes_ << " bytes, " << files_.size()
                  << (files_.size() == 1 ? " file: " : " files: ")
                  << (findings_ == 0   ? "all fine"
                      : findings_ == 1 ? "1 finding"
                                       : std::to_string(findings_) + " findings")
                  << '\n';
        return findings_ == 0 ? fine : finding;
    }

    file& open(const std::string& name) {
        auto& f = files_[name];
        if (!f) f = std::make_unique<file>(store_.open(name), store_.describe(name));
        return *f;
    }
    void check_size(const std::string& name, std::uint64_t size) {
        auto const found = open(name).size();
        if (found != size)
            throw cairn::error(cairn::errc::corrupt, {.object = name,
                                                      .expected = std::to_string(size) + " bytes",
                                                      .found = std::to_string(found)});
        if (size != 0) (void)open(name).footer(meta_.save_id);
    }

    /// CRC of a range of a file, read piece by piece; blocks against the footer's, if there are
    /// any.
    std::uint32_t crc_of(file& f, std::uint64_t at, std::uint64_t length,
                         const std::vector<std::uint32_t>& blocks = {}) {
        std::vector<std::byte> buffer(
            static_cast<std::size_t>(std::min<std::uint64_t>(length, 4 << 20)));
        std::uint32_t crc = 0;
        for (std::uint64_t done = 0; done < length;) {
            auto const n =
                static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), length - done));
            std::span<std::byte> const piece(buffer.data(), n);
            f.read(at + done, piece);
            crc = cairn::format::crc32(piece, crc);
            for (std::size_t k = 0; !blocks.empty() && k < n;
                 k += cairn::format::native::block_bytes) {
                auto const block = piece.subspan(
                    k, std::min<std::size_t>(cairn::format::native::block_bytes, n - k));
                if (cairn::format::crc32(block) !=
                    blocks[static_cast<std::size_t>((done + k) /
                                                    cairn::format::native::block_bytes)])
                    throw mismatch(f, "a block as it was written");
            }
            done += n;
        }
        bytes_ += length;
        return crc;
    }
    static cairn::error mismatch(const file& f, const char* expected) {
        return cairn::error(
            cairn::errc::checksum_mismatch,
            {.object = f.described(), .expected = expected, .found = "other bytes"});
    }

    void check_tensor(const std::string& fqn, const cairn::tensor_metadata& t,
                      const cairn::chunk& c) {
        ++items_;
        auto& f = open(c.at.object);
        auto const p = cairn::detail::find_payload(f, fqn, t, c, meta_.save_id);
        if (!p.checked) unverified_.note_item(f.described());
        if (crc_of(f, p.at, p.length, p.block_crcs) != p.crc && p.checked)
            throw mismatch(f, "the tensor as it was written");
        if (!c.at.layout) return;
        if (crc_of(f, c.at.offset, c.at.length) != c.at.layout->item_crc)
            throw mismatch(f, "the item as it was written");
        bytes_ -= c.at.length;
        // What PyTorch will read of it must be what the index says.
        auto const as_torch = cairn::format::torch::parse_tensor_item(
            [&](std::uint64_t at, std::span<std::byte> into) { f.read(c.at.offset + at, into); },
            c.at.length);
        if (as_torch.type != t.type || as_torch.extents != c.where.lengths ||
            as_torch.payload_crc != p.crc || c.at.offset + as_torch.payload_offset != p.at ||
            as_torch.strides != p.strides)
            throw cairn::error(cairn::errc::corrupt,
                               {.object = f.described(),
                                .expected = "the item that the index describes",
                                .found = "another"});
    }
    void check_object(const cairn::object_metadata& o) {
        ++items_;
        auto& f = open(o.at.object);
        if (o.at.offset > f.size() || o.at.length > f.size() - o.at.offset)
            throw cairn::error(cairn::errc::corrupt,
                               {.object = f.described(),
                                .expected = "an item of " + std::to_string(o.at.length) + " bytes",
                                .found = "the end of the file"});
        std::vector<std::byte> bytes(static_cast<std::size_t>(o.at.length));
        f.read(o.at.offset, bytes);
        bytes_ += bytes.size();
        if (o.at.layout && cairn::format::crc32(bytes) != o.at.layout->item_crc)
            throw mismatch(f, "the object as it was written");
        bool checked = false;
        (void)cairn::format::torch::decode_object(bytes, &checked);
        if (!checked) unverified_.note_item(f.described());
    }

    cairn::file_store store_;
    cairn::metadata meta_;
    cairn::detail::unverified unverified_;
    bool native_ = false;
    std::map<std::string, std::unique_ptr<file>> files_;
    std::size_t items_ = 0, findings_ = 0;
    std::uint64_t bytes_ = 0;
};

}  // namespace

int verify(const std::string& checkpoint) { return verification(checkpoint).run(); }

}  // namespace tool
