// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_SAVE_INTENT_HPP
#define CAIRN_STORAGE_DETAIL_SAVE_INTENT_HPP

#include <cairn/detail/wire.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/metadata/detail/codec.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/storage/detail/record_owner.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// A record that a running save keeps in its place, as `.saving.<save id>`, so that a later save
/// can remove the files that this one could not: all names that it may create, all that it will
/// remove once it is published, and its owner.
///
///     3 u8 · save id · began · owner · names · id of the replaced checkpoint · its names · room
///     for more · CRC-32 of all before
struct save_intent {
    std::string save_id{};
    std::int64_t began = 0;  ///< Seconds since 1970, by the owner's clock: for people.
    record_owner owner{};    ///< The coordinator.
    std::vector<std::string> names{};
    std::string replaced_id{};  ///< Also empty if PyTorch wrote the replaced checkpoint.
    std::vector<std::string> replaced{};
    friend bool operator==(const save_intent&, const save_intent&) = default;

    static std::int64_t now() {
        return std::chrono::duration_cast<std::chrono::seconds>(
                   std::chrono::system_clock::now().time_since_epoch())
            .count();
    }

    byte_vector encode() const {
        wire_writer w;
        w.u8(3);
        w.string(save_id);
        w.svarint(began);
        put(w, owner);
        put(w, names);
        w.string(replaced_id);
        put(w, replaced);
        w.u32(format::crc32(w.written()));
        return w.take();
    }

    /// @throws error errc::unsupported for an intent of a newer cairn, errc::corrupt for other
    /// invalid bytes.
    static save_intent decode(byte_span b) {
        wire_reader r(b);
        save_intent i;
        auto const version = r.u8();
        if (version > 3)
            throw error(errc::unsupported, {.expected = "an intent of version 3",
                                            .found = "version " + std::to_string(version)});
        if (version != 3 || b.size() < 5) wire_reader::fail("no intent");
        if (wire_reader(b.last(4)).u32() != format::crc32(b.first(b.size() - 4)))
            wire_reader::fail("an intent with a wrong checksum");
        i.save_id = r.string();
        i.began = r.svarint();
        i.owner = get_owner(r);
        i.names = get_names(r);
        i.replaced_id = r.string();
        i.replaced = get_names(r);
        return i;
    }

private:
    /// Skips empty names, which name no object.
    static std::vector<std::string> get_names(wire_reader& r) {
        auto names = get_strings(r);
        std::erase(names, std::string());
        return names;
    }
};

}  // namespace cairn::detail

#endif
