// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_FUZZ_EDIT_HPP
#define CAIRN_TEST_FUZZ_EDIT_HPP

#include "files.hpp"
#include "items.hpp"
#include "pack.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace fuzz {

/// Changes what the parts of a checkpoint say, not the bytes that say it: what comes out can be
/// decoded, and is wrong further inside.
class editor {
public:
    editor(support::crafted& c, engine& e) : c_(c), e_(e) {}

    void edit() {
        switch (below(10)) {
            case 0: return edit_file();
            case 1: return edit_bytes();
            case 2: return edit_footer();
            case 3: return edit_agreed();
            case 4: return edit_record();
            case 5: return edit_item();
            case 6: return edit_extent();
            default: return edit_metadata();
        }
    }

private:
    std::size_t below(std::size_t n) { return e_.below(n); }
    template <class C>
    auto any(C& c) {
        return e_.any(c);
    }
    template <class T>
    void change(T& x) {
        vary_(x);
    }
    support::crafted::bytes& file(const std::string& name) {
        auto const it = c_.files.find(name);
        if (it == c_.files.end()) throw cairn::error(cairn::errc::not_found, {.file = name});
        return it->second;
    }

    void edit_metadata() {
        auto const it = c_.files.find(".metadata");
        if (it == c_.files.end()) return;
        bool has_index = false;
        cairn::metadata m;
        try {
            auto f = support::native::parse_metadata_file(it->second);
            has_index = f.has_index;
            m = std::move(f.meta);
        } catch (const cairn::error&) {
            return edit_bytes_of(it->second);
        }
        change(m);
        put(m, has_index);
    }
    void put(const cairn::metadata& m, bool has_index) {
        if (!has_index) {
            c_.set_pickle(m);
        } else if (e_.one_in(2)) {
            c_.set_index(m);
        } else {
            c_.set_pickle(m);
            c_.add_index(m);
        }
    }
    /// The size of a whole tensor and of its chunks: nothing contradicts it but the items.
    void edit_extent() {
        try {
            auto f = support::native::parse_metadata_file(file(".metadata"));
            if (f.meta.entries.empty()) return;
            auto* t = std::get_if<cairn::tensor_metadata>(&any(f.meta.entries)->second);
            if (t == nullptr || t->shape.empty()) return;
            auto const d = below(t->shape.size());
            auto const n = static_cast<std::int64_t>(below(5000));
            t->chunks.edit_each([&](cairn::chunk& x) {
                if (x.region.shape.size() > d) x.region.shape[d] = n;
                if (x.region.offsets.size() > d) x.region.offsets[d] = 0;
            });
            t->shape[d] = n;
            put(f.meta, f.has_index);
        } catch (const cairn::error&) {  // cannot be read
            edit_bytes();
        }
    }
    void edit_record() {
        try {
            auto const& old = file(".metadata");
            auto f = support::native::parse_metadata_file(old);
            if (!f.has_index) return;
            if (!f.record) f.record.emplace();
            change(*f.record);
            auto before = support::crafted::bytes(
                old.begin(), old.begin() + static_cast<std::ptrdiff_t>(f.pickle_bytes));
            support::native::append_commit_section(before, *f.record);
            c_.files[".metadata"] = std::move(before);
            c_.add_index(f.meta);
        } catch (const cairn::error&) {
            edit_bytes();
        }
    }
    /// Another item in the place of one, of any length, at the end of its file.
    void edit_item() {
        try {
            auto f = support::native::parse_metadata_file(file(".metadata"));
            if (f.meta.entries.empty()) return;
            auto& entry = any(f.meta.entries)->second;
            auto* t = std::get_if<cairn::tensor_metadata>(&entry);
            if (t != nullptr && t->chunks.empty()) return;
            auto const one = t != nullptr ? below(t->chunks.size()) : 0;
            auto at =
                t != nullptr ? t->chunks.location(one) : std::get<cairn::value_metadata>(entry).at;
            auto& b = file(at.file);
            if (!cairn::detail::fits_in(at.offset, at.length, b.size())) return;
            auto const old = std::span(b).subspan(static_cast<std::size_t>(at.offset),
                                                  static_cast<std::size_t>(at.length));
            auto const fresh = t != nullptr ? change_item(old, e_) : change_object(old, e_);
            auto const length = support::crafted::footer_length(b);
            auto footer = length == 0 ? support::native::file_footer()
                                      : support::native::decode_footer(std::span(b).last(length));
            b.resize(b.size() - length);
            for (auto i = footer.items.begin(); i != footer.items.end(); ++i) {
                if (i->offset != at.offset) continue;
                auto moved = *i;
                footer.items.erase(i);
                moved.offset = b.size();
                moved.length = fresh.size();
                footer.items.push_back(std::move(moved));
                break;
            }
            at.offset = b.size();
            at.length = fresh.size();
            if (t != nullptr)
                t->chunks.edit(one, [&](cairn::chunk& c) { c.at = at; });
            else
                std::get<cairn::value_metadata>(entry).at = at;
            b.insert(b.end(), fresh.begin(), fresh.end());
            if (length != 0) {
                auto const again = support::native::encode_footer(footer);
                b.insert(b.end(), again.begin(), again.end());
            }
            if (auto const n = f.meta.file_sizes.find(at.file); n != f.meta.file_sizes.end())
                n->second = b.size();
            put(f.meta, f.has_index);
        } catch (const cairn::error&) {
            edit_bytes();
        }
    }

    void edit_footer() {
        if (c_.files.empty()) return;
        auto& b = any(c_.files)->second;
        auto const length = support::crafted::footer_length(b);
        if (length == 0) return edit_bytes_of(b);
        try {
            auto f = support::native::decode_footer(std::span(b).last(length));
            change(f);
            b.resize(b.size() - length);
            auto const again = support::native::encode_footer(f);
            b.insert(b.end(), again.begin(), again.end());
        } catch (const cairn::error&) {
            edit_bytes_of(b);
        }
    }
    /// One number of an item, in index and footer alike: neither can tell.
    void edit_agreed() {
        try {
            auto m = c_.metadata();
            if (m.save_id.empty() || m.entries.empty()) return edit_bytes();
            auto* t = std::get_if<cairn::tensor_metadata>(&any(m.entries)->second);
            if (t == nullptr || t->chunks.empty()) return;
            auto const one = below(t->chunks.size());
            auto chunk = t->chunks[one];
            auto const file = c_.files.find(chunk.at.file);
            if (file == c_.files.end() || !chunk.at.layout) return;
            auto& b = file->second;
            auto const length = support::crafted::footer_length(b);
            if (length == 0) return edit_bytes_of(b);
            auto f = support::native::decode_footer(std::span(b).last(length));
            auto& l = *chunk.at.layout;
            for (auto& i : f.items) {
                if (i.offset != chunk.at.offset) continue;
                switch (below(5)) {
                    case 0: change(chunk.at.offset); break;
                    case 1: change(chunk.at.length); break;
                    case 2: change(l.payload_offset); break;
                    case 3: change(l.payload_length); break;
                    default: change(l.strides);
                }
                i.offset = chunk.at.offset;
                i.length = chunk.at.length;
                i.payload_offset = l.payload_offset;
                i.payload_length = l.payload_length;
                t->chunks.set(one, chunk);
                auto const blocks = (l.payload_length + 65535) / 65536;
                i.block_crcs.resize(static_cast<std::size_t>(std::min<std::uint64_t>(blocks, 64)));
            }
            b.resize(b.size() - length);
            auto const again = support::native::encode_footer(f);
            b.insert(b.end(), again.begin(), again.end());
            m.file_sizes[file->first] = b.size();
            c_.set_index(m);
        } catch (const cairn::error&) {
            edit_bytes();
        }
    }
    void edit_bytes() {
        if (!c_.files.empty()) edit_bytes_of(any(c_.files)->second);
    }
    void edit_bytes_of(support::crafted::bytes& b) {
        if (b.empty()) return;
        for (auto n = 1 + below(4); n > 0; --n) {
            auto& x = *any(b);
            x = e_.one_in(2) ? static_cast<std::byte>(e_()) : x ^ std::byte{1} << below(8);
        }
    }
    void edit_file() {
        if (c_.files.empty()) return;
        auto const it = any(c_.files), other = any(c_.files);
        switch (below(4)) {
            case 0: it->second.resize(below(it->second.size() + 1)); return;
            case 1: std::swap(it->second, other->second); return;
            case 2: it->second = support::crafted::bytes(other->second); return;
            default: c_.files.erase(it);
        }
    }

    support::crafted& c_;
    engine& e_;
    varier vary_{e_};
};

/// One or a few changes of a packed checkpoint; one that cannot be unpacked stays.
inline std::vector<std::byte> edited(std::span<const std::byte> b, engine& e) {
    support::crafted c;
    try {
        c = unpack(b);
    } catch (const cairn::error&) {
        return {b.begin(), b.end()};
    }
    for (auto n = 1 + e.below(3); n > 0; --n) editor(c, e).edit();
    return pack(c);
}

}  // namespace fuzz

#endif
