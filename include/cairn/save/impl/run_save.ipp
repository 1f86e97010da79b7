// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_IMPL_RUN_SAVE_IPP
#define CAIRN_SAVE_IMPL_RUN_SAVE_IPP

#include <cairn/comm/omitted.hpp>
#include <cairn/comm/solo.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/planner/default_planner.hpp>
#include <cairn/save/run_save.hpp>
#include <cairn/save/save_job.hpp>
#include <cairn/storage/torch_writer.hpp>

#include <optional>
#include <utility>

namespace cairn::detail {

CAIRN_DECL save_report run_save(const flattened_or_error& flat, const checkpoint_id& id,
                                const save_options& options, save_parts parts) {
    std::optional<solo> own_ranks;
    std::optional<communicator_ref<solo>> own_ranks_ref;
    if (parts.ranks == nullptr)
        parts.ranks = &own_ranks_ref.emplace(own_ranks.emplace(omitted_communicator()));

    std::optional<default_planner> own_planner;
    std::optional<save_planner_ref<default_planner>> own_planner_ref;
    if (parts.planner == nullptr)
        parts.planner = &own_planner_ref.emplace(own_planner.emplace(options.planner));

    std::optional<torch_writer> own_writer;
    std::optional<storage_writer_ref<torch_writer>> own_writer_ref;
    if (parts.writer == nullptr) {
        if (!parts.store) parts.store.emplace(file_store());
        own_writer.emplace(std::move(*parts.store), options.storage);
        parts.writer = &own_writer_ref.emplace(*own_writer);
    }

    auto report = save_job(flat.leaves(), flat.refused, id, options, *parts.ranks, *parts.planner,
                           *parts.writer)
                      .run();
    if (auto w = warning_if_alone(parts.ranks->size(), parts.alone))
        report.warnings.push_back(std::move(*w));
    return report;
}

}  // namespace cairn::detail

#endif
