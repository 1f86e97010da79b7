// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_FUZZ_DAMAGE_HPP
#define CAIRN_TEST_FUZZ_DAMAGE_HPP

#include "checkpoint.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// Damage of files: no checksum is made right afterwards. What is loaded is what was saved.
namespace fuzz {

/// A whole checkpoint, and how it is damaged: count · (kind · file · place · length · value)…
struct damaged {
    support::crafted whole{};
    struct one {
        std::uint64_t kind = 0, file = 0, at = 0, length = 0, value = 0;
    };
    std::vector<one> all{};

    static damaged read(bytes b) {
        cairn::detail::wire_reader r(b);
        damaged d;
        d.whole = unpack(r);
        if (r.left() != 0)
            for (auto n = r.count(5); n-- > 0;)
                d.all.push_back({r.varint(), r.varint(), r.varint(), r.varint(), r.varint()});
        return d;
    }
    input write() const {
        cairn::detail::wire_writer w;
        w.raw(pack(whole));
        w.varint(all.size());
        for (auto const& o : all)
            for (auto n : {o.kind, o.file, o.at, o.length, o.value}) w.varint(n);
        return w.take();
    }
};

/// PyTorch's metadata has no checksum: only its data files are damaged.
inline void damage(support::crafted& c, const damaged::one& o, bool metadata_too) {
    std::vector<support::crafted::bytes*> files;
    for (auto& [name, content] : c.files)
        if ((name != ".metadata" || metadata_too) && !content.empty()) files.push_back(&content);
    if (files.empty()) return;
    auto& f = *files[static_cast<std::size_t>(o.file % files.size())];
    auto const at = static_cast<std::size_t>(o.at % f.size());
    auto const n =
        std::min<std::size_t>(f.size() - at, 1 + static_cast<std::size_t>(o.length % 600));
    auto const from = f.begin() + static_cast<std::ptrdiff_t>(at);
    switch (o.kind % 6) {
        case 0: f[at] ^= static_cast<std::byte>(1 + o.value % 255); break;
        case 1: std::fill_n(from, n, static_cast<std::byte>(o.value % 2 != 0 ? 0xff : 0)); break;
        case 2: f.resize(at); break;
        case 3: {  // as a lost write leaves it: bytes of another place
            auto const& other = *files[static_cast<std::size_t>(o.value % files.size())];
            for (std::size_t i = 0; i < n && at + i < other.size(); ++i)
                f[at + i] = other[(at + i + static_cast<std::size_t>(o.value)) % other.size()];
            break;
        }
        case 4: f.insert(from, n, static_cast<std::byte>(o.value)); break;
        default: f.erase(from, from + static_cast<std::ptrdiff_t>(n));
    }
}

inline std::optional<support::whole> loaded(const support::crafted& c, const cairn::metadata& m) {
    auto all = support::room_for(m);
    auto views = support::views(all);
    try {
        cairn::load(views, "c", reader_of(c.store("c")));
    } catch (const cairn::error& e) {
        if (e.code() == make_error_code(cairn::errc::missing_key)) throw;
        return {};
    }
    return all;
}

inline void damaged_checkpoint(bytes b) {
    auto d = damaged::read(b);
    auto const m = checked_metadata(d.whole);
    if (!m || claimed(*m) > 4 * d.whole.size()) cairn::detail::wire_reader::fail("no checkpoint");
    auto const good = loaded(d.whole, *m);
    if (!good) cairn::detail::wire_reader::fail("no whole checkpoint");
    bool const metadata_too = !m->save_id.empty();
    for (auto const& o : d.all) damage(d.whole, o, metadata_too);
    auto const now = loaded(d.whole, *m);
    if (now && !(*now == *good)) throw support::finding("damaged bytes were loaded");
    if (!now) cairn::detail::wire_reader::fail("the damage was noticed");
}

inline input change_damage(bytes b, engine& e) {
    auto d = damaged::read(b);
    d.all.clear();
    for (auto n = 1 + e.below(2); n > 0; --n) d.all.push_back({e(), e(), e(), e(), e()});
    return d.write();
}

}  // namespace fuzz

#endif
