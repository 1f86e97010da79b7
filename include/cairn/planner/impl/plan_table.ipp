// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_IMPL_PLAN_TABLE_IPP
#define CAIRN_PLANNER_IMPL_PLAN_TABLE_IPP

#include <cairn/planner/detail/plan_table.hpp>

#include <cairn/metadata/coverage.hpp>
#include <cairn/metadata/detail/codec.hpp>
#include <cairn/planner/plan_codec.hpp>

#include <algorithm>
#include <cstring>
#include <string>
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
inline std::string rank_name(std::size_t rank) {
    return "rank " + std::to_string(rank);
}
/// Skips a list of numbers.
inline void skip_numbers(wire_reader& r) {
    for (auto n = r.count(); n > 0; --n) (void)r.varint();
}

/// Skips these bytes if they are the next ones that a reader of `in` would read.
inline bool skip(wire_reader& r, std::span<const std::byte> in, std::span<const std::byte> known) {
    auto const next = in.subspan(r.position());
    if (known.empty() || known.size() > next.size() || !same_bytes(known, next.first(known.size())))
        return false;
    (void)r.raw(known.size());
    return true;
}

CAIRN_DECL void plan_table::add(std::span<const std::byte> local,
                                std::span<const value_numbers> values) {
    auto const rank = static_cast<std::uint32_t>(ranks());
    wire_reader r(local);
    begin(r);
    auto const count = r.count(4);
    if (count >= alone - rows_.size())
        throw error(errc::unsupported, {.rank = static_cast<int>(rank),
                                        .expected = "fewer than 2^32 items of all ranks",
                                        .found = std::to_string(count) + " more of this rank"});
    if (heads_.size() < count) heads_.resize(count);
    std::size_t value = 0;
    for (std::size_t k = 0; k < count; ++k) {
        auto& h = heads_[k];
        bool const same = skip(r, local, h.bytes);
        if (!same) h = read_head(r, local);
        row x{h.name, none, none, none, h.type, h.requires_grad, h.typed};
        std::uint64_t hash = 0;
        if (h.is_value) {
            if (value == values.size()) wire_reader::fail("a value without its size");
            hash = values[value].hash;
            x.tied = static_cast<std::uint32_t>(value_bytes_.size());
            value_bytes_.push_back(values[value++].bytes);
        } else {
            x.box = read_box(r, local);
            if (auto const tied = as_text(r.bytes()); !tied.empty()) {
                x.tied = names_.find(tied).value_or(none);  // to what follows nothing is tied
                x.was_tied = true;
            }
        }
        // A tensor that is described as by an earlier rank contradicts none.
        if (!same || h.is_value || !h.typed) claim(h, rank, hash);
        rows_.push_back(x);
    }
    if (value != values.size()) wire_reader::fail("the size of no value");
    add_paths(local.subspan(r.position()));
    row_ends_.push_back(rows_.size());
    // Plans of other ranks resemble the first: memory is asked for once, for the rows of all.
    if (rank == 0 && !local.empty())
        rows_.reserve(std::min<std::size_t>(bytes_ / local.size() + 1, alone / (count + 1)) *
                      count);
}
/// Reads an item up to its region.
CAIRN_DECL plan_table::head plan_table::read_head(wire_reader& r,
                                                  std::span<const std::byte> local) {
    auto const from = r.position();
    head h;
    h.is_value = get_kind(r) == item_kind::value;
    auto const fqn = as_text(r.bytes());
    (void)r.varint();  // leaf
    h.typed = r.varint() != write_item::no_shard;
    if (h.is_value) {
        (void)r.varint();
        (void)r.u64();
    } else {
        h.type = get_dtype(r);
        h.requires_grad = r.u8() != 0;
        auto const at = r.position();
        skip_numbers(r);
        h.shape = local.subspan(at, r.position() - at);
    }
    h.name = names_.add(fqn);
    h.bytes = local.subspan(from, r.position() - from);
    return h;
}
/// Compares a rank's description of a name with the first one, or the first by a rank that knows
/// the dtype.
CAIRN_DECL void plan_table::claim(const head& h, std::uint32_t rank, std::uint64_t value_hash) {
    named const claimed{rank, h.is_value, h.typed, h.type, h.shape, value_hash};
    if (h.name == named_.size()) return named_.push_back(claimed);
    auto& first = named_[h.name];
    auto const conflict = [&](const std::string& of_first, const std::string& of_other,
                              std::string remedy = {}) {
        if (contradiction_) return;
        contradiction_ =
            error(errc::invalid_plan, {.fqn = std::string(name_of(h.name)),
                                       .expected = of_first + " as on " + rank_name(first.rank),
                                       .found = of_other + " on " + rank_name(rank),
                                       .remedy = std::move(remedy)});
    };
    auto const kind = [](bool is_value) { return is_value ? "a value" : "a tensor"; };
    auto const type = [](dtype t) { return "dtype " + std::string(cairn::name_of(t)); };
    auto const shape = [](const named& n) { return "shape " + to_string(shape_of(n)); };
    if (first.is_value != h.is_value)
        conflict(kind(first.is_value), kind(h.is_value));
    else if (first.value_hash != value_hash)
        conflict("the value", "another value",
                 "wrap a value that differs between ranks in per_rank(); what a mapping "
                 "makes one must be equal");
    else if (first.typed && h.typed && first.type != h.type)
        conflict(type(first.type), type(h.type));
    else if (!same_bytes(first.shape, h.shape))
        conflict(shape(first), shape(claimed),
                 "if a mapping stores it, pass its shape to stored()");
    if (!first.typed) first = claimed;
}
/// Reads a region, and returns the number of that box. One that equals the previous is not read.
CAIRN_DECL std::uint32_t plan_table::read_box(wire_reader& r, std::span<const std::byte> local) {
    if (skip(r, local, last_region_)) return last_box_;
    auto const at = r.position();
    skip_numbers(r);
    skip_numbers(r);
    last_region_ = local.subspan(at, r.position() - at);
    auto const next = static_cast<std::uint32_t>(boxes_.size());
    auto const [it, fresh] = box_numbers_.try_emplace(as_text(last_region_), next);
    if (fresh) {
        wire_reader region(last_region_);
        boxes_.push_back(get_box(region));
        empty_.push_back(boxes_.back().empty());
    }
    return last_box_ = it->second;
}
/// A path that equals that of an earlier rank is not read.
CAIRN_DECL void plan_table::add_paths(std::span<const std::byte> tail) {
    if (!last_tail_.empty() && same_bytes(last_tail_, tail)) return;
    wire_reader r(tail);
    auto const count = r.count(2);
    if (last_paths_.size() < count) last_paths_.resize(count);
    for (std::size_t k = 0; k < count; ++k) {
        if (skip(r, tail, last_paths_[k])) continue;
        auto const at = r.position();
        auto const fqn = as_text(r.bytes());
        auto steps = get_path(r);
        if (path_names_.add(fqn) == paths_.size())
            paths_.emplace_back(std::string(fqn), std::move(steps));
        last_paths_[k] = tail.subspan(at, r.position() - at);
    }
    (void)r.bytes();  // storage_data
    (void)r.bytes();  // planner_data
    end(r);
    last_tail_ = tail;
}

/// A set of items, with a bit for each pair of a name and a box; not used if that would be too
/// large.
class item_bits {
public:
    /// @param rows  Of the table: the bits take no more than a few bytes for each.
    item_bits(std::size_t names, std::size_t boxes, std::size_t rows) : boxes_(boxes + 1) {
        auto const most = std::min(std::size_t{1} << 30, 64 * rows + (std::size_t{1} << 16));
        if (names <= most / boxes_) bits_.resize(names * boxes_);
    }
    /// @param box  A value has the one after the last.
    /// @return Whether the item was in the set, or may have been.
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

/// Decides which rows are items: those with elements, and one row of each tensor without elements
/// on any rank, if possible of a rank that knows its dtype.
CAIRN_DECL void plan_table::leave_out_empty() {
    std::vector<std::uint32_t> stands_for;  // the row; by name
    std::vector<bool> has_elements(named_.size());
    if (std::find(empty_.begin(), empty_.end(), true) != empty_.end())
        stands_for.resize(named_.size(), none);
    for (std::uint32_t k = 0; k < rows_.size(); ++k) {
        auto& x = rows_[k];
        bool const empty = x.box != none && empty_[x.box];
        x.item = empty ? none : alone;
        if (stands_for.empty()) continue;
        if (!empty)
            has_elements[x.name] = true;
        else if (auto& one = stands_for[x.name]; one == none || !rows_[one].typed)
            one = k;
    }
    for (std::size_t name = 0; name < stands_for.size(); ++name)
        if (stands_for[name] != none && !has_elements[name]) rows_[stands_for[name]].item = alone;
}
/// Most items are not replicas: a bit for each says so, because these bits stay in the cache where
/// a map would not.
CAIRN_DECL void plan_table::number_items() {
    leave_out_empty();
    item_bits seen(named_.size(), boxes_.size(), rows_.size());
    item_bits sought(named_.size(), boxes_.size(), rows_.size());
    for (auto const& x : rows_) {
        if (!x.is_item()) continue;
        if (seen.add(x.name, x.box)) (void)sought.add(x.name, x.box);
        if (x.was_tied && x.tied != none) (void)sought.add(x.tied, x.box);
    }
    std::unordered_map<std::uint64_t, std::uint32_t> numbers;
    for (std::uint32_t rank = 0; rank < ranks(); ++rank)
        for (auto k = begin_of(rank); k < row_ends_[rank]; ++k) {
            auto& x = rows_[k];
            if (!x.is_item() || !sought.has(x.name, x.box)) continue;
            auto const key = std::uint64_t{x.name} << 32 | x.box;
            auto const next = static_cast<std::uint32_t>(shared_.size());
            auto const [it, fresh] = numbers.try_emplace(key, next);
            x.item = it->second;
            if (fresh)
                shared_.push_back({rank});
            else if (std::exchange(shared_[x.item].last, rank) == rank && !twice_)
                twice_ = error(errc::invalid_plan, {.rank = static_cast<int>(rank),
                                                    .fqn = std::string(name_of(x.name)),
                                                    .expected = "each box once",
                                                    .found = to_string(box_of(x)) + " twice"});
            ++shared_[x.item].rows;
        }
    // An item and the one that it is tied to have the same box.
    for (auto& x : rows_) {
        if (!x.was_tied || !x.is_item() || x.tied == none) continue;
        auto const it = numbers.find(std::uint64_t{x.tied} << 32 | x.box);
        x.tied = it == numbers.end() ? none : it->second;
    }
}
CAIRN_DECL std::uint64_t plan_table::content_of(const row& x) const {
    if (x.box == none) return value_bytes_[x.tied];
    std::uint64_t bytes = size_of(x.type);
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
    for (std::uint32_t rank = 0, k = 0; rank < ranks(); ++rank)
        for (; k < row_ends_[rank]; ++k)
            if (rows_[k].is_shared()) holders[next[rows_[k].item]++] = {k, rank};
    return holders;
}
CAIRN_DECL std::vector<stored_amount> plan_table::assign(replica_writer by) {
    if (contradiction_) throw error(*contradiction_);
    if (twice_) throw error(*twice_);
    auto const holders = holders_of_shared();
    std::span<const holder> rest = holders;
    std::vector<std::uint64_t> load(ranks(), 0);
    for (std::uint32_t rank = 0, k = 0; rank < ranks(); ++rank)
        for (; k < row_ends_[rank]; ++k) {
            auto const& x = rows_[k];
            if (!x.is_item()) continue;
            if (!x.is_shared()) {
                holder const only{k, rank};
                (void)choose({&only, 1}, by, load);
                continue;
            }
            auto& item = shared_[x.item];
            if (item.row != none) continue;
            auto const chosen = choose(rest.first(item.rows), by, load);
            rest = rest.subspan(item.rows);
            item.row = chosen.row;
            item.rank = chosen.rank;
        }
    // A writer stores an item with an earlier one only, and makes no chains: see `stored_as`.
    std::vector<bool> stored(rows_.size());
    std::vector<stored_amount> amounts(ranks());
    for (std::uint32_t rank = 0, k = 0; rank < ranks(); ++rank)
        for (; k < row_ends_[rank]; ++k) {
            auto const& x = rows_[k];
            auto const with = x.beside ? shared_[x.tied].row : none;
            stored[k] = x.kept && !(with < k && stored[with] && rows_[with].type == x.type);
            if (stored[k]) amounts[rank].add(content_of(x));
        }
    return amounts;
}
/// Decides which of its holders writes an item, and marks that row. A tied weight is assigned to
/// the rank of the weight itself, if possible, at no cost.
CAIRN_DECL plan_table::holder plan_table::choose(std::span<const holder> of, replica_writer by,
                                                 std::vector<std::uint64_t>& load) {
    auto best = of.front();
    const holder* beside = nullptr;
    for (auto const& h : of) {
        if (by == replica_writer::least_loaded && load[h.rank] < load[best.rank]) best = h;
        auto const& x = rows_[h.row];
        if (beside == nullptr && x.was_tied && x.tied != none && shared_[x.tied].rank == h.rank)
            beside = &h;
    }
    auto const chosen = beside == nullptr ? best : *beside;
    auto& x = rows_[chosen.row];
    x.kept = true;
    x.beside = beside != nullptr;
    if (!x.beside) load[chosen.rank] += std::max<std::uint64_t>(1, content_of(x));
    return chosen;
}
CAIRN_DECL void plan_table::keep_all(bool empty) {
    for (auto& x : rows_) {
        x.kept = empty || x.is_item();
        x.beside = x.was_tied;
    }
}
CAIRN_DECL void plan_table::check() {
    if (contradiction_) throw error(*contradiction_);
    place_items();
    check_tensors();
    heads_ = {};
    shared_ = {};
    last_paths_ = {};
    box_numbers_ = {};
    path_names_ = {};
}
/// Gives each kept item its chunk.
CAIRN_DECL void plan_table::place_items() {
    std::size_t kept = 0;
    for (auto const& x : rows_) {
        if (!x.kept) continue;
        ++named_[x.name].chunks;
        ++kept;
    }
    std::uint32_t first = 0;
    for (auto& n : named_) {
        n.first_chunk = first;
        first += std::exchange(n.chunks, 0);
    }
    chunk_rows_.resize(kept);
    places_.reserve(kept);
    kept_ends_.reserve(ranks());
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
        for (auto k = begin_of(rank); k < row_ends_[rank]; ++k) {
            if (!rows_[k].kept) continue;
            auto& n = named_[rows_[k].name];
            places_.push_back({rows_[k].name, n.chunks});
            chunk_rows_[n.first_chunk + n.chunks++] = static_cast<std::uint32_t>(k);
        }
        kept_ends_.push_back(places_.size());
    }
}
/// Checks that chunks cover their tensors. A tensor that is split like the previous one is not
/// checked again.
CAIRN_DECL void plan_table::check_tensors() const {
    const named* good = nullptr;
    std::vector<box> boxes;
    for (auto const& p : places_) {
        auto const& n = named_[p.name];
        if (p.chunk != 0 || n.is_value) continue;
        auto const chunks = chunks_of(n);
        if (good != nullptr && same_bytes(good->shape, n.shape) && good->chunks == n.chunks &&
            std::equal(chunks.begin(), chunks.end(), chunks_of(*good).begin(),
                       [&](auto a, auto b) { return rows_[a].box == rows_[b].box; }))
            continue;
        boxes.clear();
        for (auto const k : chunks) boxes.push_back(boxes_[rows_[k].box]);
        std::string const fqn(name_of(p.name));
        auto const who = [&](std::size_t i) {
            auto const r = std::upper_bound(row_ends_.begin(), row_ends_.end(), chunks[i]);
            return rank_name(static_cast<std::size_t>(r - row_ends_.begin()));
        };
        check_coverage(fqn, shape_of(n), boxes, who);
        check_offsets(fqn, boxes, who);
        good = &n;
    }
}
CAIRN_DECL index_vector plan_table::shape_of(const named& n) {
    wire_reader r(n.shape);
    return get_numbers(r);
}

CAIRN_DECL plan_selection plan_table::selection_of(std::size_t rank) const {
    plan_selection s;
    auto const begin = begin_of(rank);
    for (auto k = begin; k < row_ends_[rank]; ++k) {
        auto const& x = rows_[k];
        auto const at = static_cast<std::uint32_t>(k - begin);
        if (!x.kept)
            s.dropped.push_back(at);
        else if (x.was_tied && !x.beside)
            s.untied.push_back(at);
    }
    return s;
}
CAIRN_DECL std::vector<std::uint32_t> plan_table::value_names(std::size_t rank) const {
    std::vector<std::uint32_t> all;
    for (auto k = begin_of(rank); k < row_ends_[rank]; ++k)
        if (rows_[k].box == none) all.push_back(rows_[k].name);
    return all;
}
CAIRN_DECL metadata plan_table::make_metadata() const {
    metadata m;
    for (std::uint32_t name = 0; name < named_.size(); ++name) {
        auto const& n = named_[name];
        auto& entry = m.entries[std::string(name_of(name))];
        if (n.is_value) {
            entry = value_metadata{};
            continue;
        }
        auto const chunks = chunks_of(n);
        auto& t = std::get<tensor_metadata>(entry);
        t.type = rows_[chunks.front()].type;
        t.shape = shape_of(n);
        t.requires_grad = rows_[chunks.front()].requires_grad;
        t.chunks = chunk_list(nullptr, t.shape.size());
        t.chunks.reserve(n.chunks);
        for (auto const k : chunks) {
            auto const& region = boxes_[rows_[k].box];
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
