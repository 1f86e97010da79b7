// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_IMPL_GATHER_IPP
#define CAIRN_MODELS_IMPL_GATHER_IPP

#include <cairn/models/gather.hpp>

#include <cairn/comm/detail/blocking_exchange.hpp>
#include <cairn/models/detail/gather_schedule.hpp>
#include <cairn/state/detail/copy_leaf.hpp>
#include <cairn/tensor/layout.hpp>

#include <cstddef>
#include <map>
#include <optional>
#include <string_view>

namespace cairn::detail {

CAIRN_DECL std::vector<std::pair<std::string, host_tensor>> gather_whole(
    erased_communicator& comm, const std::function<std::vector<named_leaf>()>& look,
    const gather_options& options) {
    bool const all = options.root < 0;
    blocking_exchange ex(comm, all ? 0 : options.root, options.exchange_timeout);
    std::vector<named_leaf> mine;
    auto const everybody = ex.all_gather(ex.attempt([&] {
        mine = look();
        for (auto const& m : mine) check_shards(m.fqn, *m.leaf);
        return gather_schedule::describe(mine);
    }));
    throw_failures(everybody);

    std::optional<gather_schedule> made;
    std::vector<std::pair<std::string, host_tensor>> out;
    outcome const ready = ex.attempt([&] {
        made.emplace(everybody, options.piece_bytes);
        if (all || ex.coordinator())
            for (auto const& t : made->tensors())
                out.emplace_back(t.fqn, host_tensor(t.type, t.global_shape));
        return std::vector<std::byte>();
    });
    throw_failures(ex.all_gather(ready));  // e.g. one rank has not enough memory
    auto const& schedule = *made;

    std::map<std::string_view, const tensor_leaf*> leaves;
    ex.alone([&] {
        for (auto const& m : mine) leaves.emplace(m.fqn, m.leaf);
    });
    for (std::size_t round = 0; round < schedule.rounds(); ++round) {
        auto const o = ex.attempt([&] {
            return pack(schedule.of(static_cast<std::size_t>(ex.rank()), round),
                        [&](const shard_range& r) {
                            auto const& leaf = *leaves.at(schedule.tensors()[r.tensor].fqn);
                            return leaf.shards[r.shard_index].view;
                        });
        });
        auto const got = all ? ex.all_gather(o) : ex.gather(o);
        if (all) throw_failures(got);  // as on all ranks
        if (!o.failures.empty() && !ex.coordinator()) throw error(o.failures, false);
        ex.alone([&] {
            throw_failures(got);
            for (std::size_t rank = 0; rank < got.size(); ++rank) {
                schedule.check_size(got[rank].payload, rank, round);
                auto const* from = got[rank].payload.data();
                for (auto const& r : schedule.of(rank, round)) {
                    auto const target = subview(out[r.tensor].second.view(), r.region);
                    auto const element = size_of(target.type);
                    for_each_box(r, element, [&](const box& b, std::size_t at) {
                        copy_elements(const_tensor_view(target.type, b.shape, from + at),
                                      subview(target, b));
                    });
                    from += static_cast<std::size_t>(r.end - r.begin) * element;
                }
            }
        });
    }
    return out;
}

}  // namespace cairn::detail

#endif
