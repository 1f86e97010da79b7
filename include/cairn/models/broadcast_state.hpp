// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_BROADCAST_STATE_HPP
#define CAIRN_MODELS_BROADCAST_STATE_HPP

#include <cairn/format/torch/object.hpp>
#include <cairn/models/gather.hpp>
#include <cairn/models/given_state.hpp>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// What rank 0 says of its whole state: tensors by name and shape, values in full.
inline std::vector<std::byte> describe_state(const leaves_by_name& given) {
    std::vector<named_leaf> tensors;
    wire_writer w;
    for (auto const& [name, leaf] : given.by_name) {
        auto const* t = leaf->tensor();
        if (t == nullptr) continue;
        if (t->shards.size() != 1 || !(t->shards[0].where == box::whole(t->global)))
            throw error(errc::invalid_state, {.tensor = name, .expected = "the whole tensor",
                                              .found = std::to_string(t->shards.size()) + " shards",
                                              .remedy = "get it with full_state_dict"});
        tensors.push_back({name, t});
    }
    w.bytes(gather_schedule::describe(tensors));
    w.varint(given.by_name.size() - tensors.size());
    for (auto const& [name, leaf] : given.by_name) {
        if (leaf->tensor() != nullptr) continue;
        w.string(name);
        w.bytes(format::torch::encode_object(leaf->object()->get()));
    }
    return std::move(w.out);
}

/// Gives every rank its shards of the whole tensors that rank 0 holds, in pieces: no rank but 0
/// ever holds more of another's than one piece. DCP's `broadcast_from_rank0`.
///
/// @param given    Rank 0's; not looked at elsewhere.
/// @param wanted   This rank's own tensors, which are filled.
/// @param prepare  Checks a state dict against what is wanted, and returns what is to be done when
///                 all ranks found theirs well. Its tensors are `wanted` ones already.
/// @throws error on all ranks, with every failed rank's own error, before anything is changed.
template <Communicator Comm>
void broadcast_state(Comm& comm, const state_dict& given, const leaves_by_name& wanted,
                     const gather_options& options,
                     const std::function<std::function<void()>(state_dict)>& prepare) {
    exchange<Comm> ex(comm, 0, options.deadline);
    std::unique_ptr<leaves_by_name> whole;
    auto const header = ex.broadcast(ex.attempt([&] {
        if (!ex.coordinator()) return std::vector<std::byte>();
        whole = std::make_unique<leaves_by_name>(given);
        return describe_state(*whole);
    }));
    if (!header.failures.empty()) throw error(header.failures, false);

    std::unique_ptr<gather_schedule> schedule;
    std::function<void()> carry_out;
    auto const mine = ex.attempt([&] {
        wire_reader r(header.payload);
        auto const tensors = r.bytes();
        schedule = std::make_unique<gather_schedule>(
            std::vector<outcome>{{{}, {tensors.begin(), tensors.end()}}}, options.piece_bytes);
        state_dict d;
        for (auto const& t : schedule->tensors()) {
            auto leaf = std::make_shared<tensor_leaf>();
            leaf->type = t.type;
            leaf->global = t.global;
            if (auto const* own = wanted.find(t.fqn); own != nullptr && own->tensor() != nullptr)
                leaf->shards = own->tensor()->shards;
            d[t.fqn] = node(std::move(leaf));
        }
        for (auto n = r.count(2); n-- > 0;) {
            auto const name = r.string();
            d[name] = node(format::torch::decode_object(r.bytes()));
        }
        if (whole) (void)prepare(given);  // rank 0 alone can look at the contents
        carry_out = prepare(std::move(d));
        return std::vector<std::byte>();
    });
    throw_failures(ex.all_gather(mine));

    for (std::size_t round = 0; round < schedule->rounds(); ++round) {
        auto const& ranges = schedule->of(0, round);
        auto const o = ex.broadcast(ex.attempt([&] {
            if (!whole) return std::vector<std::byte>();
            return pack(ranges, [&](const shard_range& r) {
                return whole->find(schedule->tensors()[r.tensor].fqn)->tensor()->shards[0].view;
            });
        }));
        if (!o.failures.empty()) throw error(o.failures, true);
        auto const* from = o.payload.data();
        for (auto const& r : ranges) {
            auto const& t = schedule->tensors()[r.tensor];
            auto const element = size_of(t.type);
            auto const* own = wanted.find(t.fqn);
            for_each_box(r, element, [&](const box& b, std::size_t at) {
                if (own == nullptr) return;
                for (auto const& s : own->tensor()->shards) {
                    auto const both = intersect(b, s.where);
                    if (both.volume() == 0) continue;
                    const_tensor_view const piece(t.type, b.lengths, from + at);
                    copy_elements(subview(piece, relative_to(both, b)),
                                  subview(s.target_view(), relative_to(both, s.where)));
                }
            });
            from += static_cast<std::size_t>(r.end - r.begin) * element;
        }
    }
    carry_out();
}

}  // namespace cairn::detail

#endif
