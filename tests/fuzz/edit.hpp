// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_FUZZ_EDIT_HPP
#define CAIRN_TEST_FUZZ_EDIT_HPP

#include "checkpoint.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace fuzz {

using engine = std::mt19937_64;

/// Changes what the parts of a checkpoint say, not the bytes that say it: what comes out can be
/// decoded, and is wrong further inside.
class editor {
public:
    editor(support::crafted& c, engine& e) : c_(c), e_(e) {}

    void edit() {
        switch (e_() % 8) {
            case 0: return edit_file();
            case 1: return edit_bytes();
            case 2: return edit_footer();
            case 3: return edit_agreed();
            default: return edit_metadata();
        }
    }

private:
    std::size_t below(std::size_t n) { return static_cast<std::size_t>(e_() % n); }
    template <class C>
    auto any(C& c) {
        return std::next(c.begin(), static_cast<std::ptrdiff_t>(below(c.size())));
    }

    /// Near what stands there, or where numbers wrap.
    std::uint64_t number(std::uint64_t old) {
        switch (e_() % 10) {
            case 0: return 0;
            case 1: return old + 1;
            case 2: return old - 1;
            case 3: return old * 2;
            case 4: return old / 2;
            case 5: return std::uint64_t{1} << (e_() % 64);
            case 6: return (std::uint64_t{1} << (e_() % 64)) - 1;
            case 7: return 0 - old;
            case 8: return old + e_() % 4096;
            default: return e_() % 64;
        }
    }
    void change(std::int64_t& n) {
        n = static_cast<std::int64_t>(number(static_cast<std::uint64_t>(n)));
    }
    void change(std::uint64_t& n) { n = number(n); }
    void change(cairn::index_vector& s) {
        switch (s.empty() ? 1 : e_() % 8) {
            case 0: s.pop_back(); return;
            case 1: s.push_back(static_cast<std::int64_t>(e_() % 3)); return;
            case 2: std::swap(*any(s), *any(s)); return;
            default: change(*any(s));
        }
    }
    void change(std::string& s) {
        switch (e_() % 5) {
            case 0: s.clear(); return;
            case 1: s += "." + std::to_string(e_() % 100); return;
            case 2: s = c_.files.empty() ? "x" : any(c_.files)->first; return;
            case 3: s += std::string(e_() % 4000, 'x'); return;
            default:
                if (!s.empty()) *any(s) = static_cast<char>(e_());
        }
    }
    void change(cairn::storage_location& at) {
        auto const kind = e_() % 12;
        if (kind == 0) return change(at.file);
        if (kind == 1) return change(at.offset);
        if (kind == 2) return change(at.length);
        if (kind == 3) return at.transforms.push_back("stream.zstd/1");
        if (kind == 4) return at.layout.reset();
        if (!at.layout) at.layout.emplace();
        auto& l = *at.layout;
        if (kind < 6) return change(l.payload_offset);
        if (kind < 8) return change(l.payload_length);
        change(l.strides);
    }
    void change(cairn::tensor_metadata& t) {
        if (t.chunks.empty() || e_() % 8 == 0) {
            if (e_() % 2 != 0) return change(t.shape);
            t.type = static_cast<cairn::dtype>(e_() % cairn::dtype_count);
            return;
        }
        auto& c = *any(t.chunks);
        switch (e_() % 8) {
            case 0: return change(c.region.offsets);
            case 1: return change(c.region.shape);
            case 2: t.chunks.push_back(cairn::chunk(c)); return;
            case 3:
                c = t.chunks.back();
                t.chunks.pop_back();
                return;
            case 4:  // all of it, and of everything that follows from it
                if (c.region.shape.empty()) return;
                {
                    auto const d = below(c.region.shape.size());
                    auto const n = static_cast<std::int64_t>(e_() % 5000);
                    for (auto& x : t.chunks) {
                        if (x.region.shape.size() > d) x.region.shape[d] = n;
                        if (x.region.offsets.size() > d) x.region.offsets[d] = 0;
                    }
                    if (t.shape.size() > d) t.shape[d] = n;
                }
                return;
            default: return change(c.at);
        }
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
        if (!m.entries.empty()) {
            auto const entry = any(m.entries);
            switch (e_() % 10) {
                case 0: m.entries[entry->first + "x"] = entry->second; break;
                case 1: m.entries.erase(entry); break;
                case 2:
                    if (!m.file_sizes.empty()) change(any(m.file_sizes)->second);
                    break;
                case 3: edit_path(m.paths[entry->first]); break;
                case 4: {
                    auto key = entry->first;
                    auto node = m.entries.extract(entry);
                    change(key);
                    node.key() = key;
                    m.entries.insert(std::move(node));
                    break;
                }
                default:
                    if (auto* t = std::get_if<cairn::tensor_metadata>(&entry->second))
                        change(*t);
                    else
                        change(std::get<cairn::value_metadata>(entry->second).at);
            }
        }
        if (!has_index) {
            c_.set_pickle(m);
        } else if (e_() % 2 != 0) {
            c_.set_index(m);
        } else {
            c_.set_pickle(m);
            c_.add_index(m);
        }
    }
    void edit_path(cairn::key_path& p) {
        switch (p.empty() ? 0 : e_() % 4) {
            case 0: p.emplace_back("k" + std::to_string(e_() % 4)); return;
            case 1: p.emplace_back(static_cast<std::int64_t>(number(e_() % 10))); return;
            case 2: p.pop_back(); return;
            default:
                if (auto* i = std::get_if<std::int64_t>(&*any(p))) change(*i);
        }
    }

    void edit_footer() {
        if (c_.files.empty()) return;
        auto& b = any(c_.files)->second;
        auto const length = support::crafted::footer_length(b);
        if (length == 0) return edit_bytes_of(b);
        try {
            auto f = support::native::decode_footer(std::span(b).last(length));
            if (f.items.empty()) return;
            auto& i = *any(f.items);
            switch (e_() % 6) {
                case 0: change(i.offset); break;
                case 1: change(i.length); break;
                case 2: change(i.payload_offset); break;
                case 3: change(i.payload_length); break;
                case 4: change(f.save_id); break;
                default: i.block_crcs.resize(below(4));
            }
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
            auto& chunk = *any(t->chunks);
            auto const file = c_.files.find(chunk.at.file);
            if (file == c_.files.end() || !chunk.at.layout) return;
            auto& b = file->second;
            auto const length = support::crafted::footer_length(b);
            if (length == 0) return edit_bytes_of(b);
            auto f = support::native::decode_footer(std::span(b).last(length));
            auto& l = *chunk.at.layout;
            for (auto& i : f.items) {
                if (i.offset != chunk.at.offset) continue;
                switch (e_() % 5) {
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
        for (auto n = 1 + e_() % 4; n > 0; --n) {
            auto& x = *any(b);
            x = e_() % 2 != 0 ? static_cast<std::byte>(e_()) : x ^ std::byte{1} << (e_() % 8);
        }
    }
    void edit_file() {
        if (c_.files.empty()) return;
        auto const it = any(c_.files), other = any(c_.files);
        switch (e_() % 4) {
            case 0: it->second.resize(below(it->second.size() + 1)); return;
            case 1: std::swap(it->second, other->second); return;
            case 2: it->second = support::crafted::bytes(other->second); return;
            default: c_.files.erase(it);
        }
    }

    support::crafted& c_;
    engine& e_;
};

/// One or a few changes of a packed checkpoint; one that cannot be unpacked stays.
inline std::vector<std::byte> edited(std::span<const std::byte> b, engine& e) {
    support::crafted c;
    try {
        c = unpack(b);
    } catch (const cairn::error&) {
        return {b.begin(), b.end()};
    }
    for (auto n = 1 + e() % 3; n > 0; --n) editor(c, e).edit();
    return pack(c);
}

}  // namespace fuzz

#endif
