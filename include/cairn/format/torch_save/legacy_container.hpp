// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_SAVE_LEGACY_CONTAINER_HPP
#define CAIRN_FORMAT_TORCH_SAVE_LEGACY_CONTAINER_HPP

#include <cairn/detail/fits_in.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/format/pickle/reader.hpp>
#include <cairn/format/torch_save/container.hpp>
#include <cairn/format/zip/reader.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::format::torch_save {

/// Reads a file of before PyTorch 1.6, but for the storages' bytes: pickles one after the other (a
/// magic number, a version, facts about the system, the object, the keys of its storages), then for
/// each key the number of elements and the elements, little-endian on every host.
class legacy_file {
public:
    legacy_file(const read_at& source, std::uint64_t length) : source_(source), length_(length) {}

    container read() {
        // 0x1950a86a20f9469cfc6c
        static constexpr std::string_view magic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
        using pickle::node_kind;
        auto const first = next();
        if (auto const& t = first.tree;
            t.kind(t.root) != node_kind::big_integer || t.text(t.root) != magic)
            throw error(errc::unsupported,
                        {.expected = "a file of torch.save",
                         .found = "a pickle without an archive",
                         .remedy = "load it with Python's pickle and save it with torch.save"});
        auto const version = next();
        if (auto const& t = version.tree;
            t.kind(t.root) != node_kind::integer || t.number(t.root) != 1001)
            throw error(errc::unsupported,
                        {.expected = "protocol 1001 of torch.save", .found = "another one"});
        (void)next();
        auto object = next();
        auto const keys = next();
        container c;
        c.pickle_offset = object.offset;
        c.pickle = std::move(object.bytes);
        c.tree = std::move(object.tree);
        locate(c, keys.tree);
        return c;
    }

private:
    struct part {
        std::uint64_t offset = 0;
        std::vector<std::byte> bytes{};
        pickle::tree tree{};  ///< A window on `bytes`.
    };

    /// Reads the next pickle. Its length is known only at its end: it is tried with twice the bytes
    /// as long as they end before it does.
    part next() {
        part p{at_};
        auto const left = std::min(length_ - at_, most_pickle_bytes);
        for (auto n = std::min<std::uint64_t>(left, 4096);;) {
            p.bytes.resize(static_cast<std::size_t>(n));
            source_(at_, p.bytes);
            try {
                p.tree = pickle::reader::read(p.bytes);
                break;
            } catch (const pickle::unfinished_pickle& e) {
                if (e.needed() > left) {
                    if (left != length_ - at_)
                        pickle::beyond_limits("a pickle of more than " + std::to_string(left) +
                                              " bytes");
                    throw error(errc::corrupt, {.expected = "a file of torch.save",
                                                .found = "its end within a pickle",
                                                .remedy = "the file is truncated"});
                }
                n = std::min(left, std::max(e.needed(), 2 * n));
            }
        }
        p.bytes.resize(p.tree.source_bytes);
        at_ += p.tree.source_bytes;
        return p;
    }

    void locate(container& c, const pickle::tree& keys) {
        using pickle::node_kind;
        auto const named = storages_of(c.tree);
        if (keys.kind(keys.root) != node_kind::list) disagree("no list of the storages' keys");
        for (auto const k : keys.children(keys.root)) {
            if (keys.kind(k) != node_kind::string) disagree("a key that is not a string");
            auto const it = named.find(keys.text(k));
            if (it == named.end())
                disagree("a key '" + std::string(keys.text(k).substr(0, 64)) + "' of no storage");
            if (!c.storages.emplace(it->first, next_storage(it->second)).second)
                disagree("the key '" + std::string(it->first) + "' twice");
        }
        for (auto const& [key, storage] : named)
            if (c.storages.find(key) == c.storages.end())
                disagree("no key '" + std::string(key) + "', although it names a storage");
    }
    record next_storage(const torch::named_storage& storage) {
        auto const cut = [&](const std::string& found) {
            throw error(errc::corrupt,
                        {.expected = "the storage '" + std::string(storage.key) + "' of " +
                                     std::to_string(storage.bytes) + " bytes",
                         .found = found,
                         .remedy = "the file is truncated or damaged"});
        };
        std::array<std::byte, 8> bytes{};
        if (!cairn::detail::fits_in(at_, bytes.size(), length_)) cut("the end of the file");
        source_(at_, bytes);
        auto const count = cairn::detail::wire_reader::u64_at(bytes.data());
        if (count != storage.bytes / storage.element)
            cut("one of " + std::to_string(count) + " elements");
        at_ += bytes.size();
        if (!cairn::detail::fits_in(at_, storage.bytes, length_)) cut("the end of the file");
        return {std::exchange(at_, at_ + storage.bytes), storage.bytes, 0};
    }
    [[noreturn]] static void disagree(std::string found) {
        throw error(errc::corrupt,
                    {.expected = "a list of the keys of all storages", .found = std::move(found)});
    }

    const read_at& source_;
    std::uint64_t length_;
    std::uint64_t at_ = 0;
};

}  // namespace cairn::format::torch_save

#endif
