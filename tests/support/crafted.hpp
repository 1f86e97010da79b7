// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_CRAFTED_HPP
#define CAIRN_TEST_SUPPORT_CRAFTED_HPP

#include <cairn/detail/fits_in.hpp>
#include <cairn/format/native/footer.hpp>
#include <cairn/format/native/index.hpp>
#include <cairn/object_store/detail/names.hpp>
#include <cairn/object_store/memory.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace support {

namespace native = cairn::format::native;

/// A checkpoint as bytes: whatever they say, their checksums can be made right.
class crafted {
public:
    using bytes = std::vector<std::byte>;
    std::map<std::string, bytes> files{};

    crafted() = default;
    /// The checkpoint `id` of a store.
    crafted(const cairn::memory_store& store, const std::string& id) {
        auto place = store.at(id);
        for (auto const& info : place.list()) {
            auto r = place.open(info.name);
            auto& b = files[info.name];
            b.resize(static_cast<std::size_t>(r.size()));
            if (!b.empty()) r.read(0, b);
        }
    }
    cairn::memory_store store(const std::string& id) const {
        cairn::memory_store s;
        auto place = s.at(id);
        for (auto const& [name, b] : files)
            if (cairn::detail::is_object_name(name)) place.publish(name, b, std::nullopt);
        return s;
    }
    std::size_t size() const {
        std::size_t n = 0;
        for (auto const& [name, b] : files) n += name.size() + b.size();
        return n;
    }

    /// @throws cairn::error where there is none
    cairn::metadata metadata() const {
        auto const it = files.find(".metadata");
        if (it == files.end()) throw cairn::error(cairn::errc::not_found, {});
        return native::parse_metadata_file(it->second).meta;
    }
    /// An index that says `m`, after the pickle and the commit record that stand there.
    void set_index(const cairn::metadata& m) {
        auto const& old = files.at(".metadata");
        auto const f = native::parse_metadata_file(old);
        bytes before(old.begin(), old.begin() + static_cast<std::ptrdiff_t>(f.pickle_bytes));
        if (f.record) native::append_commit_section(before, *f.record);
        files[".metadata"] = native::append_index(std::move(before), m);
    }
    /// As PyTorch writes it: a pickle alone.
    void set_pickle(const cairn::metadata& m) {
        files[".metadata"] = cairn::format::torch::write_metadata_pickle(m);
    }

    /// An index that says `m`, after what stands in `.metadata`.
    void add_index(const cairn::metadata& m) {
        auto& file = files[".metadata"];
        file = native::append_index(std::move(file), m);
    }

    /// Length of the footer that a data file ends in; 0 for none.
    static std::size_t footer_length(const bytes& file) {
        auto const n = file.size() < 20 ? 0 : native::footer_length(std::span(file).last(16));
        return n < 20 || n > file.size() ? 0 : static_cast<std::size_t>(n);
    }

    /// Makes every checksum right, as far as it can be found.
    void seal() {
        for (auto& [name, b] : files)
            if (name != ".metadata") seal_data(b);
        auto const it = files.find(".metadata");
        if (it != files.end()) seal_metadata(it->second);
    }

    /// CRCs in the directory of the zip that ends at `end`.
    static void seal_zip(bytes& b, std::uint64_t begin, std::uint64_t end) {
        if (end - begin < 22) return;
        auto const size = little(b, end - 10, 4);
        auto at = begin + little(b, end - 6, 4);
        if (at > end || size > end - at) return;
        for (auto const last = at + size; last - at >= 46;) {
            auto const length = little(b, at + 24, 4), header = begin + little(b, at + 42, 4);
            if (header + 30 <= end) {
                auto const data =
                    header + 30 + little(b, header + 26, 2) + little(b, header + 28, 2);
                if (data <= end && length <= end - data)
                    put32(b, at + 16, cairn::format::crc32(*part(b, data, length)));
            }
            auto const whole =
                46 + little(b, at + 28, 2) + little(b, at + 30, 2) + little(b, at + 32, 2);
            if (whole > last - at) return;
            at += whole;
        }
    }

private:
    static std::uint64_t little(const bytes& b, std::uint64_t at, int n) {
        std::uint64_t v = 0;
        for (int i = 0; i < n; ++i)
            v |= std::uint64_t{static_cast<std::uint8_t>(b[at + static_cast<unsigned>(i)])}
                 << (8 * i);
        return v;
    }
    static void put32(bytes& b, std::uint64_t at, std::uint32_t v) {
        for (unsigned i = 0; i < 4; ++i) b[at + i] = static_cast<std::byte>(v >> (8 * i));
    }
    static std::optional<std::span<const std::byte>> part(const bytes& b, std::uint64_t at,
                                                          std::uint64_t n) {
        if (!cairn::detail::fits_in(at, n, b.size())) return std::nullopt;
        return std::span(b).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(n));
    }

    static void seal_data(bytes& b) {
        auto const n = b.size();
        auto const length = footer_length(b);
        if (length == 0) {
            seal_zip(b, 0, n);  // one item alone, perhaps
            return;
        }
        auto const begin = n - length;
        auto const seal_footer = [&] {
            put32(b, n - 20, cairn::format::crc32(std::span(b).subspan(begin, length - 20)));
        };
        seal_footer();
        native::file_footer f;
        try {
            f = native::decode_footer(std::span(b).subspan(begin));
        } catch (const cairn::error&) {
            return;
        }
        for (auto& i : f.items) {
            if (!cairn::detail::fits_in(i.offset, i.length, begin)) continue;
            seal_zip(b, i.offset, i.offset + i.length);
            for (std::size_t k = 0; k < i.block_crcs.size(); ++k) {
                auto const at = k * native::block_bytes;
                i.block_crcs[k] = cairn::format::crc32(
                    *part(b, i.offset + i.payload_offset + at,
                          std::min<std::uint64_t>(native::block_bytes, i.payload_length - at)));
            }
        }
        auto const again = native::encode_footer(f);
        std::copy(again.begin(), again.end(), b.begin() + static_cast<std::ptrdiff_t>(begin));
    }
    /// The commit record that bytes end in, if they do.
    static void seal_record(bytes& b) {
        auto const n = native::commit_length_at_end(b);
        if (n < native::commit_tail_bytes || n > b.size()) return;
        auto const at = b.size() - static_cast<std::size_t>(n);
        put32(b, b.size() - native::commit_tail_bytes,
              cairn::format::crc32(std::span(b).subspan(
                  at, static_cast<std::size_t>(n) - native::commit_tail_bytes)));
    }
    void seal_location(cairn::storage_location& at) {
        auto const it = files.find(at.file);
        if (it == files.end()) return;
        auto const item = part(it->second, at.offset, at.length);
        if (!item) return;
        if (!at.layout) {
            seal_zip(it->second, at.offset, at.offset + at.length);
            return;
        }
        auto& l = *at.layout;
        l.item_crc = cairn::format::crc32(*item);
        if (cairn::detail::fits_in(l.payload_offset, l.payload_length, at.length))
            l.payload_crc = cairn::format::crc32(
                *part(it->second, at.offset + l.payload_offset, l.payload_length));
    }
    void seal_all(cairn::metadata& m) {
        for (auto& [fqn, entry] : m.entries) {
            if (auto* t = std::get_if<cairn::tensor_metadata>(&entry))
                t->chunks.edit_each([&](cairn::chunk& c) { seal_location(c.at); });
            else
                seal_location(std::get<cairn::value_metadata>(entry).at);
        }
    }
    void seal_metadata(bytes& b) {
        try {
            if (auto const tail = native::find_index(b, b.size())) return seal_index(b, *tail);
            auto m = cairn::format::torch::parse_metadata_pickle(b);
            seal_all(m);
        } catch (const cairn::error&) {
        }
    }
    void seal_index(bytes& b, const native::index_tail& tail) {
        auto const index = b.size() - static_cast<std::size_t>(tail.index_length);
        bytes before(b.begin(), b.begin() + static_cast<std::ptrdiff_t>(index));
        seal_record(before);
        std::copy(before.begin(), before.end(), b.begin());
        seal_root(b, tail);
        try {
            auto m = native::parse_metadata_file(b).meta;
            seal_all(m);
            b = native::append_index(std::move(before), m);
        } catch (const cairn::error&) {
        }
    }
    /// The checksums of an index, whatever it says.
    static void seal_root(bytes& b, const native::index_tail& tail) {
        auto const n = b.size();
        auto const index = n - static_cast<std::size_t>(tail.index_length);
        auto const root = n - static_cast<std::size_t>(tail.root_length());
        put32(b, n - 24, cairn::format::crc32(std::span(b).first(index)));
        auto crc = n - native::index_tail::bytes - static_cast<std::size_t>(4 * tail.blocks());
        for (auto at = index; at < root; at += native::index_tail::block, crc += 4)
            put32(
                b, crc,
                cairn::format::crc32(*part(b, at, std::min(native::index_tail::block, root - at))));
        put32(b, n - 20, cairn::format::crc32(std::span(b).subspan(root, n - 20 - root)));
    }
};

}  // namespace support

#endif
