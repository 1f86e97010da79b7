// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_IMPL_SOURCE_PIECES_IPP
#define CAIRN_STORAGE_IMPL_SOURCE_PIECES_IPP

#include <cairn/completion.hpp>
#include <cairn/storage/detail/read_flat_range.hpp>
#include <cairn/storage/detail/source_pieces.hpp>

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

CAIRN_DECL source_pieces::source_pieces(const erased_store& store, checkpoint_id id)
    : store_(store), id_(std::move(id)) {
    auto first =
        std::make_unique<checkpoint_reader>(store_, torch_reader_options{.thread_count = 1});
    first->reset(id_);
    meta_ = first->read_metadata();
    setup_.checked = std::make_shared<checked_payloads>();
    first->set_up_reader(meta_, setup_);
    idle_.push_back(std::move(first));
}

CAIRN_DECL void source_pieces::read(const std::string& fqn, const box& region, dtype type,
                                    std::uint64_t at, std::span<std::byte> into) {
    read_flat_range(
        fqn, meta_.tensor(fqn)->chunks, region, type, at, into,
        [this](const load_plan& plan, const read_target& target) { read(plan, target); });
}

CAIRN_DECL value source_pieces::read_value(const std::string& fqn) {
    load_plan plan;
    plan.items.emplace_back().fqn = fqn;
    value v;
    read_target target;
    target.load_value = [&](const read_item&, value found) { v = std::move(found); };
    read(plan, target);
    return v;
}

CAIRN_DECL void source_pieces::read(const load_plan& plan, const read_target& target) {
    std::unique_ptr<checkpoint_reader> reader;
    {
        std::lock_guard const lock(m_);
        if (!idle_.empty()) {
            reader = std::move(idle_.back());
            idle_.pop_back();
        }
    }
    if (!reader) {
        reader =
            std::make_unique<checkpoint_reader>(store_, torch_reader_options{.thread_count = 1});
        reader->reset(id_);
        reader->set_up_reader(meta_, setup_);
    }
    auto const result = await_completion<read_result>(
        [&](auto done) { reader->read_data(plan, target, std::move(done)); });
    std::lock_guard const lock(m_);
    unverified_.insert(result.unverified.begin(), result.unverified.end());
    idle_.push_back(std::move(reader));
}

CAIRN_DECL std::vector<std::string> source_pieces::unverified() const {
    std::lock_guard const lock(m_);
    return {unverified_.begin(), unverified_.end()};
}

}  // namespace cairn::detail

#endif
