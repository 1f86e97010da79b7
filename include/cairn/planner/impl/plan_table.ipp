// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_IMPL_PLAN_TABLE_IPP
#define CAIRN_PLANNER_IMPL_PLAN_TABLE_IPP

#include <cairn/planner/detail/plan_table.hpp>

#include <cairn/metadata/coverage.hpp>
#include <cairn/metadata/detail/codec.hpp>
#include <cairn/planner/plan_codec.hpp>

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <utility>
#include <variant>

namespace cairn::detail {

inline bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}
inline std::string_view as_text(std::span<const std::byte> b) {
    return {reinterpret_cast<const char*>(b.data()), b.size()};
}
/// Reads past so many numbers.
inline void skip_numbers(wire_reader& r) {
    for (auto n = r.count(); n > 0; --n) (void)r.varint();
}

CAIRN_DECL bool plan_table::add(std::span<const std::byte> local,
                                std::span<const value_numbers> values) {
    if (local.size() >= none) return false;
    wire_reader r(local);
    begin(r);
    auto const count = r.count(4);
    auto const before = ranks_.empty() ? std::span<const std::byte>() : ranks_.back().local;
    std::vector<head> heads;
    heads.reserve(count);
    std::span<const std::byte> last_region;
    std::uint32_t last_box = none;
    std::size_t value = 0;
    for (std::size_t k = 0; k < count; ++k) {
        head h{static_cast<std::uint32_t>(r.position()), 0, 0, false, false};
        auto const* const old = k < heads_.size() ? &heads_[k] : nullptr;
        auto const length = old == nullptr ? 0 : old->region - old->begin;
        if (old != nullptr && length <= r.left() &&
            same_bytes(before.subspan(old->begin, length), local.subspan(h.begin, length))) {
            (void)r.raw(length);
            h.name = old->name;
            h.value = old->value;
            h.typed = old->typed;
        } else if (!add_head(r, local, h)) {
            return false;
        }
        h.region = static_cast<std::uint32_t>(r.position());
        heads.push_back(h);
        row x{h.name, none, none};
        if (h.value) {
            if (value == values.size()) wire_reader::fail("a value without its size");
            auto const& v = values[value++];
            auto& n = named_[h.name];
            if (value_bytes_.size() == none) return false;
            x.tied = static_cast<std::uint32_t>(value_bytes_.size());
            value_bytes_.push_back(v.bytes);
            if (n.chunks == 0) n.value_hash = v.hash;
            if (n.value_hash != v.hash) return false;
            n.chunks = 1;
        } else {
            auto const left = local.subspan(h.region);
            if (!last_region.empty() && last_region.size() <= left.size() &&
                same_bytes(last_region, left.first(last_region.size()))) {
                (void)r.raw(last_region.size());
            } else {
                skip_numbers(r);
                skip_numbers(r);
                last_region = local.subspan(h.region, r.position() - h.region);
                last_box = add_box(last_region);
            }
            x.box = last_box;
            if (!h.typed && !boxes_[x.box].empty()) return false;
            if (auto const tied = as_text(r.bytes()); !tied.empty()) {
                auto const name = names_.find(tied);
                if (!name || named_[*name].kind == item_kind::value) return false;
                x.tied = *name;
                x.was_tied = true;
            }
        }
        rows_.push_back(x);
    }
    if (value != values.size()) wire_reader::fail("the size of no value");
    auto const tail = static_cast<std::uint32_t>(r.position());
    if (ranks_.empty() || !same_bytes(before.subspan(ranks_.back().tail), local.subspan(tail)))
        add_paths(local.subspan(tail));
    ranks_.push_back({local, tail, rows_.size()});
    heads_ = std::move(heads);
    // Plans of other ranks resemble the first: memory is asked for once, for the rows of all.
    if (ranks_.size() == 1 && !local.empty())
        rows_.reserve(std::min<std::size_t>(bytes_ / local.size() + 1, alone / (count + 1)) *
                      count);
    return rows_.size() < alone;
}
/// Reads an item up to its region.
CAIRN_DECL bool plan_table::add_head(wire_reader& r, std::span<const std::byte> local, head& h) {
    auto const kind = get_kind(r);
    auto const fqn = as_text(r.bytes());
    (void)r.varint();  // leaf
    bool const typed = r.varint() != write_item::no_shard;
    named n{kind, typed, dtype::float32, false, {}};
    if (kind == item_kind::value) {
        (void)r.varint();
        (void)r.u64();
    } else {
        n.type = get_dtype(r);
        n.requires_grad = r.u8() != 0;
        auto const at = r.position();
        skip_numbers(r);
        n.shape = local.subspan(at, r.position() - at);
    }
    h.value = kind == item_kind::value;
    h.typed = typed;
    h.name = names_.add(fqn);
    if (h.name == named_.size()) {
        named_.push_back(n);
        return true;
    }
    auto& known = named_[h.name];
    if (h.value != (known.kind == item_kind::value) || !same_bytes(n.shape, known.shape))
        return false;
    if (h.value || !typed) return true;
    if (!known.typed) {
        known.typed = true;
        known.type = n.type;
        known.requires_grad = n.requires_grad;
    }
    return known.type == n.type && known.requires_grad == n.requires_grad;
}
CAIRN_DECL std::uint32_t plan_table::add_box(std::span<const std::byte> encoded) {
    auto const next = static_cast<std::uint32_t>(boxes_.size());
    auto const [it, fresh] = box_numbers_.try_emplace(as_text(encoded), next);
    if (fresh) {
        wire_reader r(encoded);
        boxes_.push_back(get_box(r));
    }
    return it->second;
}
/// A path that is that of the rank before is not read.
CAIRN_DECL void plan_table::add_paths(std::span<const std::byte> tail) {
    auto const before =
        ranks_.empty() ? tail.first(0) : ranks_.back().local.subspan(ranks_.back().tail);
    wire_reader r(tail);
    auto const count = r.count(2);
    std::vector<std::uint32_t> ends{static_cast<std::uint32_t>(r.position())};
    for (std::size_t k = 0; k < count; ++k) {
        if (k + 1 < path_ends_.size()) {
            auto const old = before.subspan(path_ends_[k], path_ends_[k + 1] - path_ends_[k]);
            if (old.size() <= r.left() && same_bytes(old, tail.subspan(ends.back(), old.size()))) {
                (void)r.raw(old.size());
                ends.push_back(static_cast<std::uint32_t>(r.position()));
                continue;
            }
        }
        auto const fqn = as_text(r.bytes());
        auto steps = get_path(r);
        if (path_names_.add(fqn) == paths_.size())
            paths_.emplace_back(std::string(fqn), std::move(steps));
        ends.push_back(static_cast<std::uint32_t>(r.position()));
    }
    (void)r.bytes();  // storage_data
    end(r);
    path_ends_ = std::move(ends);
}

CAIRN_DECL bool plan_table::join(bool save_to_lowest_rank) {
    if (!number_items() || !assign(save_to_lowest_rank) || !place_items() || !tensors_are_whole())
        return false;
    heads_ = {};
    shared_ = {};
    path_ends_ = {};
    box_numbers_ = {};
    path_names_ = {};
    return true;
}
/// A set of items, a bit for each pair of a name and a box; nothing if that would be too large.
class item_bits {
public:
    /// @param rows  Of the table: the bits take no more than a few bytes for each.
    item_bits(std::size_t names, std::size_t boxes, std::size_t rows) : boxes_(boxes + 1) {
        auto const most = std::min(std::size_t{1} << 30, 64 * rows + (std::size_t{1} << 16));
        if (names <= most / boxes_) bits_.resize(names * boxes_);
    }
    /// @param box  A value has the one after the last.
    /// @return Whether it was there, or may have been.
    bool add(std::uint32_t name, std::uint32_t box) {
        if (bits_.empty()) return true;
        auto const at = name * boxes_ + std::min<std::size_t>(box, boxes_ - 1);
        bool const there = bits_[at];
        bits_[at] = true;
        return there;
    }
    bool has(std::uint32_t name, std::uint32_t box) const {
        return bits_.empty() || bits_[name * boxes_ + std::min<std::size_t>(box, boxes_ - 1)];
    }

private:
    std::size_t boxes_;
    std::vector<bool> bits_{};
};

/// Gives replicas of each other the same number.
///
/// Most items are no replicas: a bit for each says so, which stays in the cache where a map of all
/// would not.
CAIRN_DECL bool plan_table::number_items() {
    item_bits seen(named_.size(), boxes_.size(), rows_.size());
    item_bits sought(named_.size(), boxes_.size(), rows_.size());
    auto const has_elements = [&](const row& x) { return x.box == none || !boxes_[x.box].empty(); };
    for (auto const& x : rows_) {
        if (!has_elements(x)) continue;
        if (seen.add(x.name, x.box)) (void)sought.add(x.name, x.box);
        if (x.was_tied) (void)sought.add(x.tied, x.box);
    }
    std::unordered_map<std::uint64_t, std::uint32_t> numbers;
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank)
        for (auto k = begin_of(rank); k < ranks_[rank].end; ++k) {
            auto& x = rows_[k];
            if (!has_elements(x)) continue;
            x.item = alone;
            if (!sought.has(x.name, x.box)) continue;
            auto const key = std::uint64_t{x.name} << 32 | x.box;
            auto const next = static_cast<std::uint32_t>(shared_.size());
            auto const [it, fresh] = numbers.try_emplace(key, next);
            x.item = it->second;
            if (fresh)
                shared_.push_back({rank});
            else if (std::exchange(shared_[x.item].last, rank) == rank)
                return false;
            ++shared_[x.item].rows;
        }
    // Of what an item is tied to, the box is the same.
    for (auto& x : rows_) {
        if (!x.was_tied || !x.is_item()) continue;
        auto const it = numbers.find(std::uint64_t{x.tied} << 32 | x.box);
        x.tied = it == numbers.end() ? none : it->second;
    }
    return true;
}
CAIRN_DECL std::uint64_t plan_table::content_of(const row& x) const {
    auto const& n = named_[x.name];
    if (n.kind == item_kind::value) return value_bytes_[x.tied];
    std::uint64_t bytes = size_of(n.type);
    for (auto const e : boxes_[x.box].shape) bytes *= static_cast<std::uint64_t>(e);  // unchecked
    return bytes;
}
/// Returns the holders of each shared item, in rank order, item by item.
CAIRN_DECL std::vector<plan_table::holder> plan_table::holders_of_shared() const {
    std::vector<std::size_t> next(shared_.size());
    std::size_t all = 0;
    for (std::size_t i = 0; i < shared_.size(); ++i)
        next[i] = std::exchange(all, all + shared_[i].rows);
    std::vector<holder> holders(all);
    for (std::uint32_t rank = 0, k = 0; rank < ranks_.size(); ++rank)
        for (; k < ranks_[rank].end; ++k)
            if (rows_[k].is_shared()) holders[next[rows_[k].item]++] = {k, rank};
    return holders;
}
/// As `dedup_save_plans`: items are dealt with in the order in which they are first seen.
CAIRN_DECL bool plan_table::assign(bool save_to_lowest_rank) {
    auto const holders = holders_of_shared();
    std::span<const holder> rest = holders;
    std::vector<std::uint64_t> load(ranks_.size(), 0);
    for (std::uint32_t rank = 0, k = 0; rank < ranks_.size(); ++rank)
        for (; k < ranks_[rank].end; ++k) {
            auto const& x = rows_[k];
            if (!x.is_item()) continue;
            if (!x.is_shared()) {
                holder const only{k, rank};
                if (!choose({&only, 1}, save_to_lowest_rank, load)) return false;
                continue;
            }
            auto& item = shared_[x.item];
            if (item.row != none) continue;
            auto const chosen = choose(rest.first(item.rows), save_to_lowest_rank, load);
            rest = rest.subspan(item.rows);
            if (!chosen) return false;
            item.row = chosen->row;
            item.rank = chosen->rank;
        }
    return true;
}
/// Decides which of its holders writes an item, and marks that row.
/// @return Nothing if the functions must decide.
CAIRN_DECL std::optional<plan_table::holder> plan_table::choose(std::span<const holder> of,
                                                                bool save_to_lowest_rank,
                                                                std::vector<std::uint64_t>& load) {
    auto best = of.front();
    const holder* beside = nullptr;
    for (auto const& h : of) {
        if (!save_to_lowest_rank && load[h.rank] < load[best.rank]) best = h;
        auto const& x = rows_[h.row];
        if (beside == nullptr && x.box != none && x.tied != none && shared_[x.tied].rank == h.rank)
            beside = &h;
    }
    auto const chosen = beside == nullptr ? best : *beside;
    auto& x = rows_[chosen.row];
    x.kept = true;
    if (beside == nullptr) {
        load[chosen.rank] += std::max<std::uint64_t>(1, content_of(x));
        return chosen;
    }
    x.beside = true;
    // A writer stores only what follows its like with it, and makes no chains.
    auto const with = shared_[x.tied].row;
    if (with > chosen.row || rows_[with].beside ||
        named_[rows_[with].name].type != named_[x.name].type)
        return {};
    return chosen;
}
/// Gives each kept item its chunk.
CAIRN_DECL bool plan_table::place_items() {
    for (auto& n : named_) n.chunks = 0;
    std::size_t kept = 0;
    for (auto const& x : rows_) {
        if (!x.kept) continue;
        ++named_[x.name].chunks;
        ++kept;
    }
    std::uint32_t first = 0;
    for (auto& n : named_) {
        if (n.chunks == 0) return false;  // a tensor without elements, or of which nobody has any
        n.first_chunk = first;
        first += std::exchange(n.chunks, 0);
    }
    chunk_rows_.resize(kept);
    places_.reserve(kept);
    kept_ends_.reserve(ranks_.size());
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        for (auto k = begin_of(rank); k < ranks_[rank].end; ++k) {
            if (!rows_[k].kept) continue;
            auto& n = named_[rows_[k].name];
            places_.push_back({rows_[k].name, n.chunks});
            chunk_rows_[n.first_chunk + n.chunks++] = static_cast<std::uint32_t>(k);
        }
        kept_ends_.push_back(places_.size());
    }
    return true;
}
/// Whether chunks cover their tensors. One that is split as the one before it is not looked at. Of
/// the others it is for `create_global_metadata` to say what is wrong.
CAIRN_DECL bool plan_table::tensors_are_whole() const {
    const named* good = nullptr;
    auto const chunks_of = [&](const named& n) {
        return std::span(chunk_rows_).subspan(n.first_chunk, n.chunks);
    };
    std::vector<box> boxes;
    for (std::uint32_t name = 0; name < named_.size(); ++name) {
        auto const& n = named_[name];
        if (n.kind == item_kind::value) continue;
        auto const chunks = chunks_of(n);
        if (good != nullptr && same_bytes(good->shape, n.shape) && good->chunks == n.chunks &&
            std::equal(chunks.begin(), chunks.end(), chunks_of(*good).begin(),
                       [&](auto a, auto b) { return rows_[a].box == rows_[b].box; }))
            continue;
        boxes.clear();
        for (auto const k : chunks) boxes.push_back(boxes_[rows_[k].box]);
        std::string const fqn(name_of(name));
        try {
            check_coverage(fqn, shape_of(n), boxes);
            check_offsets(fqn, boxes);
        } catch (const error&) {
            return false;
        }
        good = &n;
    }
    return true;
}
CAIRN_DECL index_vector plan_table::shape_of(const named& n) const {
    wire_reader r(n.shape);
    return get_numbers(r);
}

CAIRN_DECL plan_selection plan_table::selection_of(std::size_t rank) const {
    plan_selection s;
    auto const begin = begin_of(rank);
    for (auto k = begin; k < ranks_[rank].end; ++k) {
        auto const& x = rows_[k];
        auto const at = static_cast<std::uint32_t>(k - begin);
        if (!x.kept)
            s.dropped.push_back(at);
        else if (x.was_tied && !x.beside)
            s.untied.push_back(at);
    }
    return s;
}
CAIRN_DECL std::vector<stored_amount> plan_table::stored_amounts() const {
    std::vector<stored_amount> all(ranks_.size());
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
        for (auto k = begin_of(rank); k < ranks_[rank].end; ++k) {
            if (rows_[k].kept && !rows_[k].beside) all[rank].add(content_of(rows_[k]));
        }
    return all;
}
CAIRN_DECL std::vector<std::uint32_t> plan_table::value_names(std::size_t rank) const {
    std::vector<std::uint32_t> all;
    for (auto k = begin_of(rank); k < ranks_[rank].end; ++k)
        if (rows_[k].box == none) all.push_back(rows_[k].name);
    return all;
}
CAIRN_DECL metadata plan_table::make_metadata() const {
    metadata m;
    for (std::uint32_t name = 0; name < named_.size(); ++name) {
        auto const& n = named_[name];
        auto& entry = m.entries[std::string(name_of(name))];
        if (n.kind == item_kind::value) {
            entry = value_metadata{};
            continue;
        }
        auto& t = std::get<tensor_metadata>(entry);
        t.type = n.type;
        t.shape = shape_of(n);
        t.requires_grad = n.requires_grad;
        t.chunks = chunk_list(nullptr, t.shape.size());
        t.chunks.reserve(n.chunks);
        for (std::uint32_t c = 0; c < n.chunks; ++c) {
            auto const& region = boxes_[rows_[chunk_rows_[n.first_chunk + c]].box];
            auto const blank = t.chunks.add();
            std::copy(region.offsets.begin(), region.offsets.end(), blank.offsets.begin());
            std::copy(region.shape.begin(), region.shape.end(), blank.lengths.begin());
        }
    }
    for (auto const& [fqn, steps] : paths_)
        if (m.entries.find(fqn) != m.entries.end()) m.paths.emplace(fqn, steps);
    return m;
}

}  // namespace cairn::detail

#endif
