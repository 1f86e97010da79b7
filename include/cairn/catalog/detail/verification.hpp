// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_DETAIL_VERIFICATION_HPP
#define CAIRN_CATALOG_DETAIL_VERIFICATION_HPP

#include <cairn/activity.hpp>
#include <cairn/detail/damage.hpp>
#include <cairn/format/native/index.hpp>
#include <cairn/format/torch/item.hpp>
#include <cairn/metadata/check.hpp>
#include <cairn/metadata/detail/transforms.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/data_file.hpp>
#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/file_versions.hpp>
#include <cairn/storage/detail/other_formats.hpp>
#include <cairn/storage/detail/stored_chunk.hpp>
#include <cairn/storage/open_file.hpp>
#include <cairn/storage/payload.hpp>
#include <cairn/storage/unverified.hpp>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The extent of a verification.
struct verification_scope {
    /// One of this many blocks is read, and the first of each file. 1: everything, each byte a
    /// fixed number of times, whatever the metadata says.
    std::uint64_t one_in = 1;
    std::size_t share = 0;                     ///< Of all files, this share …
    std::size_t shares = 1;                    ///< … of so many.
    bool stop_at_first = false;                ///< Stop at the first finding.
    std::string metadata_file{metadata_name};  ///< Or that of one rank alone.
    std::shared_ptr<cairn::activity> activity{};
    std::function<void(std::uint64_t bytes)> progress{};  ///< Receives the bytes checked; or empty.
};

/// Reads a checkpoint, file by file, and collects findings.
class verification {
public:
    explicit verification(any_store store, verification_scope scope = {})
        : store_(std::move(store)), scope_(std::move(scope)) {
        setup_.activity = scope_.activity;
    }

    /// Starts over if another save has replaced the checkpoint meanwhile, because its files are
    /// gone then, or, without a save id, have its names.
    /// @return whether there were no findings
    bool run() {
        constexpr int most_saves = 8;
        auto const refuse = [] {
            throw error(errc::concurrent_save,
                        {.expected = "one checkpoint for as long as it is read",
                         .found = "another one, time after time",
                         .remedy = "verify it when no job saves to this place"});
        };
        for (int n = 1;; ++n) {
            auto const before = store_.tag(scope_.metadata_file);
            auto const replaced = [&] { return store_.tag(scope_.metadata_file) != before; };
            bool const whole = run_once() && (meta_.file_versions.empty() || !replaced());
            if (whole || n == most_saves || !changes_within_lag(store_, replaced)) {
                if (!whole && findings_.empty()) attempt({}, scope_.metadata_file, refuse);
                return findings_.empty();
            }
            findings_.clear();
            damaged_ = false;
            failure_ = nullptr;
            unverified_.reset();
            unread_.clear();
            files_ = items_ = 0;
            bytes_ = 0;
        }
    }
    /// Reads data files only.
    /// @param meta  Passed @ref check_metadata.
    bool run(metadata meta) {
        note_metadata(unverified_, meta);
        return run_files(std::move(meta));
    }

    /// Returns the findings, one line each.
    const std::vector<std::string>& findings() const { return findings_; }
    /// Whether this version could check every item.
    bool checked_all() const { return unread_.empty(); }
    /// Whether one of the findings says that what is stored is wrong, not only that storage failed.
    bool damaged() const { return damaged_; }
    /// Returns the first failure of storage among the findings.
    const std::exception_ptr& failure() const { return failure_; }
    /// Returns what has no checksum, and what this version does not know, one line each.
    std::vector<std::string> not_checked() const {
        auto lines = unverified_.lines();
        lines.insert(lines.end(), unread_.begin(), unread_.end());
        return lines;
    }
    bool torch_metadata() const { return torch_metadata_; }
    std::size_t files() const { return files_; }
    std::size_t items() const { return items_; }
    std::uint64_t bytes() const { return bytes_; }

private:
    bool run_once() {
        auto bytes = metadata_bytes();
        format::native::metadata_file f;
        auto const whole = [&](auto&& check) { return attempt({}, scope_.metadata_file, check); };
        if (!whole([&] { f = format::native::parse_metadata_file(bytes); })) return false;
        torch_metadata_ = f.torch_metadata;
        if (whole([&] { check_metadata(f.meta); })) note_metadata(unverified_, f.meta);
        if (f.has_index) whole([&] { format::native::check_pickle_agrees(bytes); });
        bytes = {};
        return run_files(std::move(f.meta));
    }
    bool run_files(metadata meta) {
        meta_ = std::move(meta);
        auto files = by_file();
        std::size_t n = 0;
        std::erase_if(files, [&](auto const&) { return n++ % scope_.shares != scope_.share; });
        if (findings_.empty())
            note_file_versions(store_, meta_,
                               [&](const std::string& name) { return files.contains(name); });
        for (auto& [name, items] : files) {
            if (is_enough()) break;
            attempt({}, name, [&, &f = name, &i = items] { check_file(f, i); });
        }
        // Files whose names the next save uses again may be of two saves.
        if (!is_enough())
            attempt({}, scope_.metadata_file, [&] { check_file_versions(store_, meta_, setup_); });
        return findings_.empty();
    }
    byte_vector metadata_bytes() {
        try {
            return read_whole(store_, scope_.metadata_file);
        } catch (const error& e) {
            if (e.code() == make_error_code(errc::not_found)) refuse_other_format(store_);
            throw;
        }
    }
    bool is_enough() const { return scope_.stop_at_first && !findings_.empty(); }

    using file = open_file;
    struct item {
        const std::string* fqn;
        std::uint64_t offset;
        const storage_location* value;  ///< Null: a tensor's chunk.
        const tensor_metadata* tensor = nullptr;
        std::size_t chunk = 0;

        storage_location at() const {
            return value != nullptr ? *value : tensor->chunks.location(chunk);
        }
    };

    std::map<std::string, std::vector<item>> by_file() const {
        std::map<std::string, std::vector<item>> files;
        for (auto const& [name, size] : meta_.file_sizes) files[name];
        for (auto const& [fqn, entry] : meta_.entries) {
            if (auto const* t = std::get_if<tensor_metadata>(&entry)) {
                for (std::size_t i = 0; i < t->chunks.size(); ++i)
                    files[t->chunks.file(i)].push_back(
                        {&fqn, t->chunks.row_of(i).offset, nullptr, t, i});
            } else {
                auto const& at = std::get<value_metadata>(entry).at;
                files[at.file].push_back({&fqn, at.offset, &at});
            }
        }
        for (auto& [name, items] : files)
            std::sort(items.begin(), items.end(),
                      [](const item& a, const item& b) { return a.offset < b.offset; });
        return files;
    }

    /// Runs a check; an exception is a finding about that tensor and file, unless it says that this
    /// version cannot check it.
    bool attempt(const std::string& fqn, const std::string& name, const std::function<void()>& f) {
        try {
            f();
            return true;
        } catch (const error& e) {
            auto const found = completed(e, {.fqn = fqn, .file = store_.describe(name)});
            // An item that this version does not know does not affect the others.
            if (e.code() == make_error_code(errc::unsupported) && name != scope_.metadata_file) {
                unread_.push_back(found.what());
                return false;
            }
            if (is_damage(e.code()))
                damaged_ = true;
            else if (!failure_)
                failure_ = std::make_exception_ptr(found);
            findings_.push_back(found.what());
            return false;
        }
    }

    void check_file(const std::string& name, const std::vector<item>& items) {
        ++files_;
        file f(open_data_file(store_, name, scope_.metadata_file), store_.describe(name), setup_,
               [&] { return store_.open(name); });
        blocks_ = 0;
        auto const recorded = meta_.file_sizes.find(name);
        if (recorded != meta_.file_sizes.end())
            attempt({}, name, [&] { check_size(f, name, recorded->second); });
        const item* last = nullptr;  // the last one that was read
        storage_location last_at;
        for (auto const& i : items) {
            if (is_enough()) return;
            ++items_;
            auto const at = i.at();
            bool const overlaps = last != nullptr && at.offset < last_at.offset + last_at.length;
            // A tied weight is one item with several names. Any other overlap is a finding about
            // the metadata, and the bytes would be read again and again.
            if (overlaps && at == last_at) continue;
            auto const read = [&] {
                if (overlaps)
                    throw error(errc::corrupt,
                                {.expected = "bytes of its own",
                                 .found = "bytes that '" + *last->fqn + "' claims too",
                                 .remedy = "it was not read"});
                check_within(f, *i.fqn, at);
                last = &i;
                last_at = at;
                if (i.tensor != nullptr)
                    check_tensor(f, *i.fqn, *i.tensor, i.tensor->chunks[i.chunk]);
                else
                    check_object(f, *i.fqn, at);
            };
            attempt(*i.fqn, name, read);
        }
    }
    void check_size(file& f, const std::string& name, std::uint64_t size) {
        if (f.size() != size)
            throw error(errc::corrupt, {.file = store_.describe(name),
                                        .expected = std::to_string(size) + " bytes",
                                        .found = std::to_string(f.size())});
        if (size != 0) (void)footer_of(f, meta_.save_id);
    }

    /// Returns the CRC of a range of a file, read in pieces; checks blocks against the footer's
    /// CRCs, if any.
    /// @param counted  Whether to count these bytes as checked: false for bytes that are read
    ///                 again.
    std::uint32_t crc_of(file& f, std::uint64_t at, std::uint64_t length,
                         const std::vector<std::uint32_t>& blocks = {}, bool counted = true) {
        constexpr auto block_bytes = format::native::block_bytes;
        std::vector<std::byte> buffer(
            static_cast<std::size_t>(std::min<std::uint64_t>(length, 4 << 20)));
        std::uint32_t crc = 0;
        for (std::uint64_t done = 0; done < length;) {
            auto const n =
                static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), length - done));
            std::span<std::byte> const piece(buffer.data(), n);
            f.read(at + done, piece);
            crc = format::crc32(piece, crc);
            for (std::size_t k = 0; !blocks.empty() && k < n; k += block_bytes) {
                auto const block = piece.subspan(k, std::min<std::size_t>(block_bytes, n - k));
                if (format::crc32(block) !=
                    blocks[static_cast<std::size_t>((done + k) / block_bytes)])
                    throw mismatch(f, "a block as it was written");
            }
            done += n;
            if (scope_.progress) scope_.progress(bytes_ + (counted ? done : 0));
        }
        if (counted) bytes_ += length;
        return crc;
    }
    static error mismatch(const file& f, const char* expected) {
        return error(errc::checksum_mismatch,
                     {.file = f.described(), .expected = expected, .found = "other bytes"});
    }

    void check_tensor(file& f, const std::string& fqn, const tensor_metadata& t,
                      const cairn::chunk& c) {
        if (is_compressed(c.at.transforms)) return check_compressed(f, fqn, t, c);
        auto const p = find_payload(f, fqn, t, c, meta_.save_id);
        if (!p.has_checksum()) unverified_.note_item(f.described());
        if (scope_.one_in > 1) return check_some(f, p);
        if (crc_of(f, p.offset, p.length, p.block_crcs) != p.crc && p.crc)
            throw mismatch(f, "the tensor as it was written");
        if (!c.at.layout) return;
        if (crc_of(f, c.at.offset, c.at.length, {}, false) != c.at.layout->item_crc)
            throw mismatch(f, "the item as it was written");
        // PyTorch must read exactly what the index says.
        auto const as_torch = format::torch::parse_tensor_item(
            [&](std::uint64_t at, std::span<std::byte> into) { f.read(c.at.offset + at, into); },
            c.at.length);
        if (as_torch.type != t.type || as_torch.shape != c.region.shape ||
            as_torch.payload_crc != p.crc || c.at.offset + as_torch.payload_offset != p.offset ||
            as_torch.strides != p.strides)
            throw error(errc::corrupt, {.file = f.described(),
                                        .expected = "the item that the index describes",
                                        .found = "another"});
    }
    /// Decodes the item, unless only some blocks are checked: it has one checksum.
    void check_compressed(file& f, const std::string& fqn, const tensor_metadata& t,
                          const cairn::chunk& c) {
        if (scope_.one_in > 1) return;
        auto const p = find_payload(f, fqn, t, c, meta_.save_id, true);
        bytes_ += c.at.length;
        if (scope_.progress) scope_.progress(bytes_);
        if (!p.has_checksum()) unverified_.note_item(f.described());
        if (p.crc && decoded_crc(p) != *p.crc) throw mismatch(f, "the tensor as it was written");
        if (c.at.layout && (c.at.layout->payload_crc != p.crc || c.at.layout->strides != p.strides))
            throw error(errc::corrupt, {.file = f.described(),
                                        .expected = "the item that the index describes",
                                        .found = "another"});
    }
    static std::uint32_t decoded_crc(const payload& p) {
        auto crc = format::crc32(p.content);
        std::vector<std::byte> piece;
        for (std::uint64_t at = 0; p.read_content && at < p.length; at += piece.size()) {
            constexpr std::uint64_t at_once = std::uint64_t{256} << 10;
            piece.resize(static_cast<std::size_t>(std::min(at_once, p.length - at)));
            p.read_content(at, piece);
            crc = format::crc32(piece, crc);
        }
        return crc;
    }
    /// PyTorch's payloads have one checksum each: they are not read in part.
    void check_some(file& f, const payload& p) {
        constexpr std::uint64_t block_bytes = format::native::block_bytes;
        std::vector<std::byte> block;
        for (std::size_t k = 0; k < p.block_crcs.size(); ++k) {
            auto const nth = blocks_++;
            if (nth != 0 && (nth + scope_.share + first_) % scope_.one_in != 0) continue;
            auto const at = k * block_bytes;
            block.resize(static_cast<std::size_t>(std::min(block_bytes, p.length - at)));
            f.read(p.offset + at, block);
            bytes_ += block.size();
            if (format::crc32(block) != p.block_crcs[k])
                throw mismatch(f, "a block as it was written");
        }
    }
    void check_object(file& f, const std::string& fqn, const storage_location& at) {
        auto const bytes = whole_value_item(f, fqn, at, meta_.save_id);
        bytes_ += at.length;
        if (scope_.progress) scope_.progress(bytes_);
        bool checked = false;
        auto const v = format::torch::decode_value(bytes, &checked);
        if (!checked) unverified_.note_item(f.described());
        note_value(unverified_, fqn, v);
    }

    any_store store_;
    verification_scope scope_;
    storage_setup setup_{};
    metadata meta_{};
    unverified unverified_{};
    std::vector<std::string> findings_{};
    std::vector<std::string> unread_{};  ///< Formatted like findings.
    bool damaged_ = false;
    std::exception_ptr failure_{};
    bool torch_metadata_ = true;
    std::size_t files_ = 0, items_ = 0;
    std::uint64_t bytes_ = 0;
    std::uint64_t blocks_ = 0;                      ///< Of the current file, so far.
    std::uint64_t first_ = std::random_device{}();  ///< Another sample each time.
};

}  // namespace cairn::detail

#endif
