// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_IMPL_MAPPED_READER_IPP
#define CAIRN_STORAGE_IMPL_MAPPED_READER_IPP

#include <cairn/storage/detail/mapped_reader.hpp>
#include <cairn/storage/detail/mapped_reads.hpp>

#include <exception>
#include <memory>
#include <utility>

namespace cairn::detail {

CAIRN_DECL void mapped_reader::show(metadata& m) {
    mapped_ = std::make_shared<const mapped_metadata>(std::move(m), how_);
    m = mapped_->shown();
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
    if (!mapped_->is_stored(fqn)) return {};
    return of_.checksum(mapped_->stored_name(fqn), chunk);
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
