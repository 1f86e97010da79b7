// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_IMPL_MAPPED_READER_IPP
#define CAIRN_STORAGE_IMPL_MAPPED_READER_IPP

#include <cairn/format/crc.hpp>
#include <cairn/mapping/detail/mapped.hpp>
#include <cairn/storage/detail/mapped_reader.hpp>
#include <cairn/storage/detail/mapped_reads.hpp>
#include <cairn/tensor/box.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

CAIRN_DECL void mapped_reader::show(metadata& m, const flat_state& wanted) {
    mapped_ = std::make_shared<const mapped_metadata>(std::move(m), how_);
    m = mapped_->shown();
    // Without a state, memory is allocated for what is made.
    if (wanted.empty()) mapped_->check_sources();
    std::optional<map::detail::unmade_names> unmade;
    for (auto const& leaf : wanted) {
        if (m.entries.count(leaf.fqn) != 0 || leaf.per_rank()) continue;
        if (!unmade) unmade.emplace(how_, mapped_->stored());
        if (auto why = unmade->find(leaf.fqn)) m.unmade.emplace(leaf.fqn, *std::move(why));
    }
}
CAIRN_DECL void mapped_reader::set_up_reader(const metadata& shown, const storage_setup& me) {
    shown_ = &shown;
    of_.set_up_reader(mapped_->stored(), me);
}
CAIRN_DECL std::unique_ptr<mapped_reads> mapped_reader::divided(load_plan plan) const {
    return std::make_unique<mapped_reads>(*shown_, *mapped_, of_.divides_chunks(), std::move(plan));
}
CAIRN_DECL load_plan mapped_reader::prepare_local_load_plan(load_plan plan) {
    load_plan values, tensors, stored;
    for (auto const& item : plan.items)
        (item.kind == item_kind::value ? values : tensors).items.push_back(item);
    prepared_.clear();
    stored.no_items = plan.no_items;
    stored.storage_data = plan.storage_data;
    stored.planner_data = plan.planner_data;
    for (auto* some : {&values, &tensors}) {
        prepared_.push_back(divided(std::move(*some)));
        auto const& items = prepared_.back()->plan().items;
        stored.items.insert(stored.items.end(), items.begin(), items.end());
    }
    plan.storage_data = of_.prepare_local_load_plan(std::move(stored)).storage_data;
    return plan;
}
CAIRN_DECL std::vector<load_plan> mapped_reader::prepare_global_load_plan(
    std::vector<load_plan> plans) {
    std::vector<load_plan> stored;
    // A reader that looks at no items gets none.
    for (auto const& p : plans) {
        stored.push_back(items_stay_local() ? load_plan() : divided(p)->plan());
        stored.back().storage_data = p.storage_data;
        stored.back().planner_data = p.planner_data;
        if (!items_stay_local()) stored.back().no_items = p.no_items;
    }
    stored = of_.prepare_global_load_plan(std::move(stored));
    for (std::size_t i = 0; i < plans.size() && i < stored.size(); ++i)
        plans[i].storage_data = std::move(stored[i].storage_data);
    return plans;
}
CAIRN_DECL std::optional<chunk_checksum> mapped_reader::checksum(const std::string& fqn,
                                                                 std::size_t chunk) {
    if (mapped_->is_stored(fqn)) return of_.checksum(mapped_->stored_name(fqn), chunk);
    return checksum_of_pieces(*mapped_->tensor(fqn));
}
/// Of tensors that are made alike of stored chunks that are alike, the checksums of these tell
/// whether they have the same elements.
CAIRN_DECL std::optional<chunk_checksum> mapped_reader::checksum_of_pieces(
    const map::detail::mapped_tensor& t) {
    std::string made, content;
    std::map<std::string, std::int64_t> used;  // elements of each stored tensor
    auto const add = [&](std::string text) { made += std::move(text) += ' '; };
    for (auto const& p : t.pieces) {
        add(to_string(p.target_offsets));
        add(to_string(p.source_offsets));
        for (auto const& a : p.axes) {
            add(to_string(index_vector{a.extent, a.source_step, a.target_step}));
            add(to_string(index_vector{a.source_dim, a.target_dim}));
        }
        if (p.is_constant()) {
            add(std::to_string(std::bit_cast<std::uint64_t>(p.value)));
            continue;
        }
        add(std::string(name_of(p.from->type)));
        used[p.from->name] += p.volume();
        auto const& chunks = mapped_->stored().tensor(p.from->name)->chunks;
        for (std::size_t i = 0; i < chunks.size(); ++i) {
            auto const c = of_.checksum(p.from->name, i);
            if (!c) return {};
            add(to_string(chunks.region(i)));
            add(std::to_string(c->bytes) + ' ' + std::to_string(c->first));
            add(to_string(c->strides));
            content += std::to_string(c->crc) + ' ';
        }
    }
    // Checksums of what is not used say nothing.
    for (auto const& [name, elements] : used)
        if (elements != mapped_->stored().tensor(name)->shape.product()) return {};
    auto const crc = [](const std::string& text) {
        return format::crc32(std::as_bytes(std::span(text)));
    };
    // Those of tensors that are made otherwise differ in the place of `bytes`: incomparable.
    return chunk_checksum{crc(content), crc(made), 0, t.shape};
}
CAIRN_DECL void mapped_reader::read_data(const load_plan& plan, const read_target& target,
                                         completion<read_result> done) {
    std::shared_ptr<mapped_reads> reads;
    const read_target* to = nullptr;
    try {
        for (auto& p : prepared_)
            if (p && p->asked().items == plan.items) reads = std::move(p);
        if (!reads) reads = divided(plan);
        to = &reads->begin(plan.storage_data, target);
    } catch (...) {
        return done.fail(std::current_exception());
    }
    auto const& stored = reads->plan();
    of_.read_data(
        stored, *to,
        completion<read_result>([reads, done = std::move(done)](
                                    std::exception_ptr e, std::optional<read_result> r) mutable {
            if (e) return done.fail(std::move(e));
            done(std::move(*r));
        }));
}

}  // namespace cairn::detail

#endif
