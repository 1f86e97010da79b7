// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_IMPL_RUN_SAVE_IPP
#define CAIRN_SAVE_IMPL_RUN_SAVE_IPP

#include <cairn/save/detail/run_save.hpp>

#include <cairn/comm/deadline.hpp>
#include <cairn/comm/detail/omitted.hpp>
#include <cairn/comm/solo.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/planner/default_planner.hpp>
#include <cairn/save/detail/change_check.hpp>
#include <cairn/save/detail/save_op.hpp>
#include <cairn/storage/torch_writer.hpp>
#include <cairn/verb/detail/run_here.hpp>

#include <memory>
#include <utility>

namespace cairn::detail {

CAIRN_DECL void add_default_store(save_parts& parts) {
    if (parts.writer == nullptr && !parts.store) parts.store.emplace(file_store());
}

CAIRN_DECL void add_default_parts(save_parts& parts, const save_options& options) {
    if (parts.ranks == nullptr)
        parts.ranks = own_part<communicator_ref<solo>>(parts.owner, omitted_communicator());
    if (parts.planner == nullptr)
        parts.planner = own_part<save_planner_ref<default_planner>>(
            parts.owner, default_planner(options.planner));
    if (parts.writer == nullptr) {
        add_default_store(parts);
        parts.writer = own_part<storage_writer_ref<torch_writer>>(
            parts.owner, torch_writer(std::move(*parts.store), options.storage));
    }
}

CAIRN_DECL void note_content(save_parts& parts, const flat_state& state,
                             const save_options& options) {
    if (options.detect_changes)
        parts.changes = std::make_shared<change_check>(state, parts.devices,
                                                       deadline_after(options.exchange_timeout));
}

CAIRN_DECL save_report run_save(const flattened_or_error& flat, const checkpoint_id& id,
                                const save_options& options, save_parts parts) {
    auto* const ranks = parts.ranks;
    return run_here<save_report>(ranks, [&](surroundings in, save_op::ended then) {
        add_default_parts(parts, options);
        return std::make_shared<save_op>(
            std::move(in),
            std::shared_ptr<const flattened_or_error>(std::shared_ptr<void>(), &flat), id, options,
            std::move(parts), nullptr, std::move(then));
    });
}

}  // namespace cairn::detail

#include <cairn/save/impl/save_op.ipp>

#endif
