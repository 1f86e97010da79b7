// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_IMPL_MAPPED_STATE_IPP
#define CAIRN_SAVE_IMPL_MAPPED_STATE_IPP

#include <cairn/comm/detail/patient_deadline.hpp>
#include <cairn/error.hpp>
#include <cairn/mapping/detail/mapped.hpp>
#include <cairn/mapping/detail/piece.hpp>
#include <cairn/mapping/detail/piece_boxes.hpp>
#include <cairn/mapping/mapping.hpp>
#include <cairn/metadata/detail/path_like.hpp>
#include <cairn/planner/detail/save_side.hpp>
#include <cairn/save/detail/host_copy_of.hpp>
#include <cairn/save/detail/item_sources.hpp>
#include <cairn/save/detail/mapped_state.hpp>
#include <cairn/state/detail/copy_leaf.hpp>
#include <cairn/tensor/box.hpp>
#include <cairn/tensor/convert.hpp>
#include <cairn/tensor/detail/meeting_boxes.hpp>
#include <cairn/tensor/detail/single_number.hpp>
#include <cairn/tensor/layout.hpp>
#include <cairn/tensor/view.hpp>
#include <cairn/verb/detail/state_devices.hpp>

#include <boost/container/small_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cairn::detail {

/// A state, and the tensors that a save makes of it.
class state_mapper {
public:
    state_mapper(const flat_state& state, const mapping& how, const erased_communicator* ranks,
                 device_numbers numbers)
        : rank_(ranks == nullptr ? 0 : ranks->rank()),
          several_ranks_(ranks != nullptr && ranks->size() > 1), numbers_(std::move(numbers)),
          until_(numbers_.until) {
        leaves_.reserve(state.size());
        for (auto const& leaf : state) {
            auto const one = types_.emplace_hint(types_.end(), name_of_leaf(leaf), std::nullopt);
            if (!leaves_.emplace(one->first, &leaf).second)
                throw error(errc::invalid_state,
                            {.fqn = one->first,
                             .expected = "one entry of the state with this name",
                             .found = "that of a rank, and another one",
                             .remedy = "rename one: what is per rank has the rank in its name"});
            auto const* const t = leaf.tensor();
            if (t == nullptr) continue;
            check_shards(leaf.fqn, *t);  // what is made of it has consistent views of any memory
            one->second = map::detail::tensor_type{t->type, t->global_shape};
        }
        // Other ranks may have other names, and the plan for all shows what none has.
        made_ = to_stored(how, types_, ranks == nullptr || ranks->size() == 1);
    }

    /// Whether a leaf is stored under its own name, as it is.
    bool passes(const flat_leaf& leaf) const { return made_.passes(name_of_leaf(leaf)); }
    void add_to(flat_state& all) {
        all.reserve(all.size() + made_.tensors.size() + made_.values.size());
        for (auto const& leaf : all) {  // what passes
            auto const* const t = leaf.tensor();
            item_source const own{source_hash(name_of_leaf(leaf))};
            sources_.emplace_back(t == nullptr ? 0 : t->shards.size(), own);
        }
        for (auto const& [fqn, t] : made_.tensors) add_tensor(all, fqn, t);
        for (auto const& [fqn, v] : made_.values)
            add(all, fqn, leaves_.at(v.from), value_of(fqn, v));
        sources_.resize(all.size());
    }
    shard_sources take_sources() { return std::move(sources_); }

private:
    /// Of a tensor: more are put together.
    static constexpr std::size_t most_shards = 64;

    /// What the memory of a tensor's shards needs to live.
    using owners = boost::container::small_vector<std::shared_ptr<const void>, 2>;

    /// What each rank has of its own is stored under names that have the rank.
    std::string name_of_leaf(const flat_leaf& leaf) const {
        return leaf.per_rank() ? per_rank_name(leaf.fqn, rank_) : leaf.fqn;
    }
    /// @param from  What it is made of; null: nothing.
    void add(flat_state& all, const std::string& fqn, const flat_leaf* from,
             std::variant<tensor_leaf, value_leaf>&& what) const {
        auto& f = all.emplace_back();
        f.fqn = fqn;
        key_path path;
        if (from != nullptr) path = from->path;
        if (from != nullptr && from->per_rank()) path.emplace_back(std::to_string(rank_));
        f.path = path_like(fqn, path);
        f.what = std::move(what);
    }

    void add_tensor(flat_state& all, const std::string& fqn,
                    const map::detail::mapped_tensor& made) {
        tensor_leaf t;
        t.type = made.type;
        t.global_shape = made.shape;
        t.requires_grad = made.requires_grad;
        t.writable = false;
        owners keep, keep_fills;
        std::vector<shard> fills;  // never put together: all ranks must have the same
        std::vector<item_source> of_shards, of_fills;
        const flat_leaf* first = nullptr;
        const flat_leaf* leaf = nullptr;
        const map::detail::source* from = nullptr;  // what `leaf` is
        for (auto const& p : made.pieces) {
            if (p.is_constant()) {
                add_constant(fills, t.type, p, keep_fills);
                of_fills.resize(fills.size(), {source_hash(map::detail::number_text(p.value))});
                continue;
            }
            if (from != p.from.get()) leaf = leaves_.at((from = p.from.get())->name);
            if (first == nullptr) first = leaf;
            add_piece(t, fqn, p, *leaf->tensor(), keep);
            of_shards.resize(t.shards.size(), source_of(from->name));
        }
        if (is_compared(made)) add_number(t, of_shards, fqn, made, keep);
        if (put_together(t, keep)) of_shards = {joined(of_shards)};
        t.shards.insert(t.shards.end(), fills.begin(), fills.end());
        of_shards.insert(of_shards.end(), of_fills.begin(), of_fills.end());
        keep.insert(keep.end(), keep_fills.begin(), keep_fills.end());
        t.sharded = t.sharded || t.shards.size() != 1 ||
                    t.shards.front().region != box::whole(t.global_shape);
        if (t.global_shape.product() == 0) t.sharded = false;
        if (keep.size() == 1)
            t.keep = std::move(keep.front());
        else if (!keep.empty())
            t.keep = std::make_shared<owners>(std::move(keep));
        add(all, fqn, first, std::move(t));
        sources_.push_back(std::move(of_shards));
    }
    /// What is tied has the elements of another name, which another rank may store.
    item_source source_of(const std::string& name) const {
        return made_.tied.contains(name) ? item_source() : item_source{source_hash(name)};
    }
    /// Of shards that are put together, in whatever pieces they were.
    static item_source joined(std::vector<item_source> all) {
        std::set<std::uint32_t> names;
        for (auto const& one : all) names.insert(one.names);
        if (names.contains(0)) return {};
        auto const sum = std::accumulate(names.begin(), names.end(), std::uint32_t{0});
        return {sum == 0 ? 1 : sum};
    }
    static void add_constant(std::vector<shard>& to, dtype type, const map::detail::piece& p,
                             owners& keep) {
        auto const element = std::make_shared<map::detail::constant_element>(p.value, type);
        keep.push_back(element);
        for_each_box(p, map::detail::side::target, [&](const map::detail::piece_box& b) {
            to.emplace_back(b.region, element->view(b.region.shape));
        });
    }
    void add_piece(tensor_leaf& t, const std::string& fqn, const map::detail::piece& p,
                   const tensor_leaf& from, owners& keep) {
        using map::detail::side;
        t.sharded = t.sharded || from.sharded;
        t.requires_grad = t.requires_grad || from.requires_grad;
        if (from.keep) keep.push_back(from.keep);
        if (from.number) keep.push_back(from.number);
        for (auto const& s : from.shards) {
            if (s.region.empty()) continue;
            parts_.clear();
            cut(p, side::source, s.region, parts_);
            auto memory = s.view;
            memory.shape = memory.strides = {1};
            for (auto& part : parts_)
                for_each_box(in_memory(std::move(part), s), side::target, [&](const auto& b) {
                    auto const view = b.view(memory, {0});
                    t.shards.emplace_back(
                        b.region, view.type == t.type ? view : converted(t, fqn, view, keep));
                });
        }
    }
    /// Returns a piece whose source is the memory of a shard, as one dimension: there axes continue
    /// each other that do not in the tensor.
    static map::detail::piece in_memory(map::detail::piece p, const shard& s) {
        std::int64_t first = 0;
        bool ascends = true;
        for (std::size_t d = 0; d < s.region.rank(); ++d)
            first += (p.source_offsets[d] - s.region.offsets[d]) * s.view.strides[d];
        for (auto& a : p.axes) {
            a.source_step *= s.view.strides[std::exchange(a.source_dim, 0)];
            ascends = ascends && a.source_step > 0;
        }
        p.source_offsets = {first};
        if (ascends) simplify(p);
        return p;
    }
    /// Copies what would be stored as a chunk for each row or two, if it fills a box.
    /// @return whether it did
    static bool put_together(tensor_leaf& t, owners& keep) {
        if (t.shards.size() <= most_shards) return false;
        auto all = t.shards.front().region;
        std::int64_t elements = 0;
        for (auto const& s : t.shards) {
            if (!is_host(s.view.device.kind)) return false;
            elements += s.region.volume();
            for (std::size_t d = 0; d < all.rank(); ++d) {
                auto const end = std::max(all.end(d), s.region.end(d));
                all.offsets[d] = std::min(all.offsets[d], s.region.offsets[d]);
                all.shape[d] = end - all.offsets[d];
            }
        }
        if (elements != all.volume()) return false;
        bool apart = true;
        auto const region = [&](std::size_t i) -> const box& { return t.shards[i].region; };
        for_each_meeting(t.shards.size(), region, t.shards.size(), region,
                         [&](std::size_t i, std::size_t j) { apart = apart && i == j; });
        if (!apart) return false;  // the plan refuses them
        std::shared_ptr<std::byte[]> const memory(
            new std::byte[static_cast<std::size_t>(elements) * size_of(t.type)]);
        tensor_view const to(t.type, all.shape, memory.get());
        for (auto const& s : t.shards)
            copy_elements(s.view, subview(to, relative_to(s.region, all)));
        t.shards.clear();
        t.shards.emplace_back(all, const_tensor_view(to));
        keep.assign(1, memory);
        return true;
    }
    static const_tensor_view converted(const tensor_leaf& t, const std::string& fqn,
                                       const const_tensor_view& from, owners& keep) {
        if (!is_host(from.device.kind))
            throw error(errc::unsupported,
                        {.fqn = fqn,
                         .expected = std::string(name_of(t.type)) + " in the memory of " +
                                     to_string(from.device),
                         .found = std::string(name_of(from.type)),
                         .remedy = "save it as it is, and convert the checkpoint"});
        auto const bytes = static_cast<std::size_t>(from.elements()) * size_of(t.type);
        std::shared_ptr<std::byte[]> const memory(new std::byte[bytes]);
        keep.push_back(memory);
        tensor_view const to(t.type, from.shape, memory.get());
        convert_elements(from, to);
        return to;
    }

    /// Whether other names must have the same number, here or on another rank.
    bool is_compared(const map::detail::mapped_tensor& made) const {
        return !made.equals.empty() || (made.is_common && several_ranks_);
    }
    /// A number of the state is stored once for several names: those that are here must have the
    /// same. If the first is elsewhere, another one is stored.
    void add_number(tensor_leaf& t, std::vector<item_source>& of, const std::string& fqn,
                    const map::detail::mapped_tensor& made, owners& keep) {
        std::optional<std::pair<std::string, single_number>> first;
        auto const compare = [&](const std::string& name) {
            auto n = number_of(name);
            if (n && first && !are_same(first->second, *n)) refuse(fqn, first->first, name);
            if (n && !first) first.emplace(name, *n);
        };
        compare(made.source_name());
        for (auto const& other : made.equals) compare(other);
        if (!first) return of.assign(of.size(), item_source());  // not known
        if (t.shards.empty()) {
            auto const& from = *leaves_.at(first->first)->tensor();
            t.type = from.type;  // and shape: the plan compares those of ranks
            t.global_shape = from.global_shape;
            add_piece(t, fqn,
                      map::detail::whole_piece(std::make_shared<const map::detail::source>(
                          map::detail::source{first->first, from.type, from.global_shape})),
                      from, keep);
        }
        auto const& bytes = first->second.bytes;
        item_source const source{
            source_hash(first->first),
            source_hash({reinterpret_cast<const char*>(bytes.data()), bytes.size()})};
        of.assign(t.shards.size(), source);
    }
    /// @return Nothing if this rank does not have it.
    std::optional<single_number> number_of(const std::string& name) {
        auto const* t = leaves_.at(name)->tensor();
        if (t == nullptr || t->shards.empty()) return std::nullopt;
        const_tensor_view const v = t->shards.front().view;
        if (v.elements() != 1) return std::nullopt;
        auto const copied = [](const const_tensor_view& here) {
            single_number n{here.type};
            convert_elements({here.type, {}, here.data}, n.view());
            return n;
        };
        if (is_host(v.device.kind)) return copied(v);
        if (!devices_) devices_ = devices_of_numbers();
        auto* const d = devices_->of(v, name);
        return d->naming(name, [&] { return with_host_copy_of(v, *d, until_, copied); });
    }
    /// The devices of all numbers that are compared.
    std::shared_ptr<state_devices> devices_of_numbers() const {
        flat_state compared;
        for (auto const& [fqn, t] : made_.tensors) {
            if (!is_compared(t)) continue;
            compared.push_back(*leaves_.at(t.pieces.front().from->name));
            for (auto const& other : t.equals) compared.push_back(*leaves_.at(other));
        }
        auto devices = numbers_.devices ? numbers_.devices(compared) : no_memory_spaces(compared);
        devices->check(false);
        return devices;
    }
    value_leaf value_of(const std::string& fqn, const map::detail::mapped_value& made) const {
        value_leaf v;
        auto const content = leaves_.at(made.from)->value()->get();
        for (auto const& other : made.equals)
            if (auto const* o = leaves_.at(other)->value(); o == nullptr || o->get() != content)
                refuse(fqn, made.from, other);
        v.get = [content] { return content; };
        return v;
    }
    [[noreturn]] static void refuse(const std::string& fqn, const std::string& first,
                                    const std::string& other) {
        throw error(errc::value_mismatch,
                    {.fqn = fqn,
                     .expected = "one number: '" + first + "' and '" + other + "' become one",
                     .found = "different numbers",
                     .remedy = "give each an expression of its own"});
    }

    int rank_;
    bool several_ranks_;
    device_numbers numbers_;
    patient_deadline until_;
    std::shared_ptr<state_devices> devices_{};  ///< Of numbers, once there are some to compare.
    map::detail::state_types types_{};
    std::unordered_map<std::string_view, const flat_leaf*> leaves_{};  ///< By names in `types_`.
    map::detail::mapped made_{};
    std::vector<map::detail::piece> parts_{};  // of one shard
    shard_sources sources_{};
};

CAIRN_DECL flat_state mapped_state(const flat_state& state, const mapping& how,
                                   const erased_communicator* ranks, device_numbers numbers,
                                   shard_sources* sources) {
    state_mapper mapper(state, how, ranks, std::move(numbers));
    flat_state all;
    all.whole = state.whole;
    for (auto const& leaf : state)
        if (mapper.passes(leaf)) all.push_back(leaf);
    mapper.add_to(all);
    if (sources != nullptr) *sources = mapper.take_sources();
    return all;
}

CAIRN_DECL void map_names(flattened_or_error& flat, const std::shared_ptr<const mapping>& how,
                          const erased_communicator* ranks, device_numbers numbers) {
    if (!how || flat.refused || flat.leaves().empty()) return;
    try {
        flat.flat->leaves =
            mapped_state(flat.leaves(), *how, ranks, std::move(numbers), &flat.mapped.emplace());
    } catch (...) {
        flat.refused = std::current_exception();
    }
}

}  // namespace cairn::detail

#endif
