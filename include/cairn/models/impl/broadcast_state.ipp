// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_IMPL_BROADCAST_STATE_IPP
#define CAIRN_MODELS_IMPL_BROADCAST_STATE_IPP

#include <cairn/models/detail/broadcast_state.hpp>

#include <cairn/comm/detail/blocking_exchange.hpp>
#include <cairn/detail/counted.hpp>
#include <cairn/error.hpp>
#include <cairn/format/torch/value_item.hpp>
#include <cairn/metadata/detail/codec.hpp>
#include <cairn/models/detail/gather_schedule.hpp>
#include <cairn/models/detail/state_change.hpp>
#include <cairn/tensor/host_tensor.hpp>
#include <cairn/tensor/layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::detail {

/// Encodes rank 0's whole state: tensors by name and shape; numbers and values in full. A number of
/// a group may be a tensor of any shape with one element.
CAIRN_DECL std::vector<std::byte> describe_state(const leaves_by_name& given) {
    std::vector<named_leaf> tensors;
    std::vector<const flat_leaf*> numbers, values;
    for (auto const& [name, leaf] : given.by_name) {
        auto const* t = leaf->tensor();
        if (t == nullptr) {
            values.push_back(leaf);
            continue;
        }
        if (t->shards.size() != 1 || !(t->shards[0].region == box::whole(t->global_shape)))
            throw error(errc::invalid_state, {.fqn = name,
                                              .expected = "the whole tensor",
                                              .found = counted(t->shards.size(), "shard"),
                                              .remedy = "get it with full_state_dict"});
        if (t->global_shape.empty() ||
            (name.starts_with("param_groups.") && t->global_shape.product() == 1))
            numbers.push_back(leaf);
        else
            tensors.push_back({name, t});
    }
    wire_writer w;
    w.bytes(gather_schedule::describe(tensors));
    w.varint(numbers.size());
    for (auto const* leaf : numbers) {
        auto const& t = *leaf->tensor();
        host_tensor copy(t.type, t.global_shape);
        copy_elements(t.shards[0].view, copy.view());
        w.string(leaf->fqn);
        put(w, t.type);
        w.bytes(copy.bytes());
    }
    w.varint(values.size());
    for (auto const* leaf : values) {
        w.string(leaf->fqn);
        w.bytes(format::torch::encode_value(leaf->value()->get()));
    }
    return w.take();
}

/// Maps each of rank 0's tensors to the tensors of this rank that it fills.
using targets_of_given = std::map<std::size_t, std::vector<const flat_leaf*>>;

CAIRN_DECL targets_of_given find_targets(const gather_schedule& schedule,
                                         const leaves_by_name& wanted) {
    std::map<std::string_view, std::size_t> given;
    for (std::size_t i = 0; i < schedule.tensors().size(); ++i)
        given.emplace(schedule.tensors()[i].fqn, i);
    targets_of_given out;
    for (auto const& [name, leaf] : wanted.by_name) {
        if (leaf->tensor() == nullptr) continue;
        auto it = given.find(name);
        for (auto const& other : leaf->other_names)
            if (it == given.end()) it = given.find(other);
        if (it != given.end()) out[it->second].push_back(leaf);
    }
    return out;
}

/// Decodes what @ref describe_state returns. Tensors are this rank's own, not yet filled.
CAIRN_DECL state_dict described_state(const gather_schedule& schedule, wire_reader& r,
                                      const targets_of_given& targets) {
    state_dict d;
    auto const add = [&](const gather_schedule::tensor& t, const flat_leaf* own) {
        auto leaf = std::make_shared<tensor_leaf>();
        leaf->type = t.type;
        leaf->global_shape = t.global_shape;
        if (own != nullptr) leaf->shards = own->tensor()->shards;
        d[own != nullptr ? own->fqn : t.fqn] = node(std::move(leaf));
    };
    for (auto const& t : schedule.tensors()) add(t, nullptr);
    for (auto const& [given, own] : targets)
        for (auto const* leaf : own) add(schedule.tensors()[given], leaf);
    for (auto n = r.count(2); n-- > 0;) {
        auto const name = r.string();
        host_tensor number(get_dtype(r), {});
        auto const bytes = r.bytes();
        if (bytes.size() != number.bytes().size()) wire_reader::fail("a number cut short");
        std::copy(bytes.begin(), bytes.end(), number.bytes().begin());
        d[name] = node(std::move(number));
    }
    for (auto n = r.count(2); n-- > 0;) {
        auto const name = r.string();
        d[name] = node(format::torch::decode_value(r.bytes()));
    }
    return d;
}

/// One of the states that rank 0 distributes.
struct part_in_broadcast : part_on_its_way {
    std::unique_ptr<gather_schedule> schedule{};
    targets_of_given targets{};

    /// Prepares for rank 0's description: sets values, and finds where each tensor's pieces go.
    void prepare(std::span<const std::byte> said, const gather_options& options, bool strict) {
        wire_reader r(said);
        auto const tensors = r.bytes();
        schedule = std::make_unique<gather_schedule>(
            std::vector<outcome>{{{}, {tensors.begin(), tensors.end()}}}, options.piece_bytes);
        targets = find_targets(*schedule, target->wanted);
        auto described = std::make_shared<leaves_by_name>(described_state(*schedule, r, targets));
        // only rank 0 can check the contents of tensors
        if (whole) (void)state_change(whole, *target, part->visit, strict, part->of_what, false);
        change = std::make_unique<state_change>(std::move(described), *target, part->visit, strict,
                                                part->of_what, true);
        change->set_values();
    }
    /// Returns rank 0's pieces of a round.
    std::vector<std::byte> send(std::size_t round) const {
        return pack(schedule->of(0, round), [&](const shard_range& r) {
            return whole->find(schedule->tensors()[r.tensor].fqn)->tensor()->shards[0].view;
        });
    }
    void receive(std::size_t round, std::span<const std::byte> sent) const {
        schedule->check_size(sent, 0, round);
        auto const* from = sent.data();
        for (auto const& r : schedule->of(0, round)) {
            auto const& t = schedule->tensors()[r.tensor];
            auto const element = size_of(t.type);
            auto const own = targets.find(r.tensor);
            for_each_box(r, element, [&](const box& b, std::size_t at) {
                if (own == targets.end()) return;
                const_tensor_view const piece(t.type, b.shape, from + at);
                for (auto const* leaf : own->second)
                    for (auto const& s : leaf->tensor()->shards) {
                        auto const both = intersect(b, s.region);
                        if (both.volume() == 0) continue;
                        copy_elements(subview(piece, relative_to(both, b)),
                                      subview(s.target_view(), relative_to(both, s.region)));
                    }
            });
            from += static_cast<std::size_t>(r.end - r.begin) * element;
        }
    }
};

CAIRN_DECL void broadcast_state(erased_communicator& comm, const std::vector<given_part>& given,
                                const gather_options& options, bool strict) {
    blocking_exchange ex(comm, 0, options.exchange_timeout);
    auto parts = ex.alone([&] { return std::vector<part_in_broadcast>(given.size()); });
    auto const header = ex.broadcast(ex.attempt([&] {
        wire_writer w;
        for (std::size_t i = 0; i < given.size(); ++i) {
            parts[i].part = &given[i];
            if (!ex.coordinator()) continue;
            parts[i].whole = std::make_shared<leaves_by_name>(*given[i].given);
            w.bytes(describe_state(*parts[i].whole));
        }
        return w.take();
    }));
    if (!header.failures.empty()) throw error(header.failures, false);

    // From here on, any exception restores the values that were set.
    auto const mine = ex.attempt([&] {
        visit_all(parts);
        wire_reader r(header.payload);
        for (auto& p : parts) p.prepare(r.bytes(), options, strict);
        copy_overwritten(parts);
        return std::vector<std::byte>();
    });
    throw_failures(ex.all_gather(mine));
    ex.alone([&] {
        for (auto& p : parts) p.change->keep_values();
    });

    auto const exchange_pieces = [&] {
        for (auto const& p : parts) {
            for (std::size_t round = 0; round < p.schedule->rounds(); ++round) {
                auto const o = ex.broadcast(
                    ex.attempt([&] { return p.whole ? p.send(round) : std::vector<std::byte>(); }));
                if (!o.failures.empty()) throw error(o.failures, true);
                ex.alone([&] { p.receive(round, o.payload); });
            }
        }
    };
    try {
        exchange_pieces();
    } catch (const error& e) {
        if (e.state_modified()) throw;
        throw error({e.as_failure(ex.rank())}, true);  // earlier pieces have been copied
    } catch (...) {
        throw error({failure_from(std::current_exception(), ex.rank())}, true);
    }
    for (auto& p : parts) p.change->copy_tensors();
}

}  // namespace cairn::detail

#endif
