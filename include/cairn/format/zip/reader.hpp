// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_ZIP_READER_HPP
#define CAIRN_FORMAT_ZIP_READER_HPP

#include <cairn/detail/fits_in.hpp>
#include <cairn/detail/parallel.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/error.hpp>
#include <cairn/format/zip/directory_size.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::format {

/// Reads exactly `into.size()` bytes at an offset, usually of an item.
using read_at = std::function<void(std::uint64_t offset, std::span<std::byte> into)>;

namespace zip {

/// A record as described by the directory.
struct entry {
    std::string name;          ///< Without the archive's own name: `data/0`.
    std::uint64_t header = 0;  ///< Offset of its local header.
    std::uint64_t data = 0;    ///< Offset of its bytes.
    std::uint64_t size = 0;
    std::uint32_t crc = 0;
};

[[noreturn]] inline void malformed(std::string found) {
    throw error(errc::corrupt,
                {.expected = "a zip as torch.save writes it", .found = std::move(found)});
}

/// Other programs pack an archive of PyTorch's in ways that PyTorch reads.
[[noreturn]] inline void packed_again(std::string found) {
    throw error(errc::unsupported, {.expected = "a zip as torch.save writes it",
                                    .found = std::move(found),
                                    .remedy = "load it with PyTorch and save it again"});
}

/// Reads the directory of a stored-only zip that ends exactly at `length`.
class reader {
public:
    /// @param threads  Number of records whose headers are read at once; each is a read of its own.
    reader(const read_at& source, std::uint64_t length, std::size_t threads = 1)
        : source_(source), length_(length), threads_(threads) {}

    std::vector<entry> entries() {
        auto [at, size, count] = directory();
        if (!cairn::detail::fits_in(at, size, length_))
            malformed("a directory outside of the item");
        check_directory_size(size);
        if (count > size / 46) malformed("more records than its directory holds");
        std::vector<std::byte> bytes(static_cast<std::size_t>(size));
        source_(at, bytes);
        detail::wire_reader r(bytes);
        std::vector<entry> out;
        out.reserve(static_cast<std::size_t>(count));
        for (std::uint64_t i = 0; i < count; ++i) out.push_back(next(r));
        if (r.left() != 0) malformed("bytes after the last record of its directory");
        if (threads_ > 1)
            cairn::detail::for_each_in_parallel(threads_, out.size(),
                                                [&](std::size_t i) { locate(out[i]); });
        else
            for (auto& e : out) locate(e);
        check_apart(out, at);
        return out;
    }

private:
    struct extent {
        std::uint64_t at, size, count;
    };

    static std::uint64_t u16(detail::wire_reader& r) {
        std::uint64_t const low = r.u8();
        return low | std::uint64_t{r.u8()} << 8;
    }

    extent directory() {
        if (length_ < 22) malformed("an item of " + std::to_string(length_) + " bytes");
        std::array<std::byte, 22> end{};
        source_(length_ - 22, end);
        detail::wire_reader r(end);
        if (r.u32() != 0x06054b50) malformed("no end record at the end of the item");
        (void)r.u32();
        auto const count_here = u16(r);
        extent x{0, 0, u16(r)};
        x.size = r.u32();
        x.at = r.u32();
        if (count_here != x.count || u16(r) != 0) malformed("several disks");
        if (length_ < 42) return x;
        std::array<std::byte, 20> locator{};
        source_(length_ - 42, locator);
        detail::wire_reader l(locator);
        if (l.u32() != 0x07064b50) return x;
        (void)l.u32();
        auto const at = l.u64();
        if (at > length_ - 42 || length_ - 42 - at != 56)
            malformed("a misplaced 64-bit end record");
        std::array<std::byte, 56> end64{};
        source_(at, end64);
        detail::wire_reader e(end64);
        if (e.u32() != 0x06064b50 || e.u64() != 44) malformed("a bad 64-bit end record");
        (void)e.raw(12);
        auto const count = e.u64();
        if (e.u64() != count) malformed("several disks");
        extent const y{0, e.u64(), count};
        return {e.u64(), y.size, y.count};
    }

    entry next(detail::wire_reader& r) const {
        if (r.u32() != 0x02014b50) malformed("a bad directory record");
        (void)r.u32();
        auto const flags = u16(r);
        auto const method = u16(r);
        (void)r.u32();
        entry e;
        e.crc = r.u32();
        std::uint64_t const stored = r.u32();
        e.size = r.u32();
        auto const name = u16(r), extra = u16(r), comment = u16(r);
        (void)r.raw(8);
        e.header = r.u32();
        auto const n = r.raw(static_cast<std::size_t>(name));
        e.name.assign(reinterpret_cast<const char*>(n.data()), n.size());
        bool const wide = stored == 0xffffffff || e.size == 0xffffffff || e.header == 0xffffffff;
        std::uint64_t compressed = stored;
        wide_fields(r.raw(static_cast<std::size_t>(extra)), wide, e, compressed);
        (void)r.raw(static_cast<std::size_t>(comment));
        if ((flags & 1) != 0) packed_again("an encrypted record '" + e.name + "'");
        if (method != 0) packed_again("a compressed record '" + e.name + "'");
        if (compressed != e.size) malformed("two sizes of the record '" + e.name + "'");
        auto const slash = e.name.find('/');
        if (slash == std::string::npos) malformed("a record outside of the archive's folder");
        e.name.erase(0, slash + 1);
        return e;
    }

    static void wide_fields(std::span<const std::byte> extra, bool wide, entry& e,
                            std::uint64_t& compressed) {
        if (!wide) return;
        detail::wire_reader x(extra);
        while (x.left() >= 4) {
            auto const id = u16(x);
            detail::wire_reader field(x.raw(static_cast<std::size_t>(u16(x))));
            if (id != 0x0001) continue;
            if (e.size == 0xffffffff) e.size = field.u64();
            if (compressed == 0xffffffff) compressed = field.u64();
            if (e.header == 0xffffffff) e.header = field.u64();
            return;
        }
        malformed("a large record without 64-bit fields");
    }

    void locate(entry& e) const {
        if (!cairn::detail::fits_in(e.header, 30, length_))
            malformed("a record outside of the item");
        std::array<std::byte, 30> h{};
        source_(e.header, h);
        detail::wire_reader r(h);
        if (r.u32() != 0x04034b50) malformed("no local header where '" + e.name + "' should begin");
        (void)r.raw(22);
        e.data = e.header + 30 + u16(r);
        e.data += u16(r);
        if (!cairn::detail::fits_in(e.data, e.size, length_))
            malformed("a record outside of the item");
    }

    /// Checks that every record has bytes of its own, before the directory, and a name of its own:
    /// reading all records reads no byte twice, and a name means the same record to PyTorch.
    static void check_apart(const std::vector<entry>& all, std::uint64_t directory) {
        std::vector<const entry*> sorted;
        sorted.reserve(all.size());
        for (auto const& e : all) sorted.push_back(&e);
        auto const sort_by = [&](bool (*less)(const entry*, const entry*)) {
            std::sort(sorted.begin(), sorted.end(), less);
        };
        sort_by([](const entry* a, const entry* b) { return a->header < b->header; });
        for (std::size_t i = 0; i < sorted.size(); ++i) {
            auto const end = i + 1 < sorted.size() ? sorted[i + 1]->header : directory;
            if (!cairn::detail::fits_in(sorted[i]->data, sorted[i]->size, end))
                malformed("a record '" + sorted[i]->name + "' that reaches into the next");
        }
        sort_by([](const entry* a, const entry* b) { return a->name < b->name; });
        for (std::size_t i = 1; i < sorted.size(); ++i)
            if (sorted[i]->name == sorted[i - 1]->name)
                malformed("two records '" + sorted[i]->name + "'");
    }

    const read_at& source_;
    std::uint64_t length_;
    std::size_t threads_;
};

}  // namespace zip
}  // namespace cairn::format

#endif
