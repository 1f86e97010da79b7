// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_IMPL_RUN_LOAD_IPP
#define CAIRN_LOAD_IMPL_RUN_LOAD_IPP

#include <cairn/comm/omitted.hpp>
#include <cairn/comm/solo.hpp>
#include <cairn/load/load_job.hpp>
#include <cairn/load/run_load.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/planner/default_planner.hpp>
#include <cairn/storage/torch_reader.hpp>

#include <optional>
#include <utility>

namespace cairn::detail {

CAIRN_DECL load_report run_load(flattened_or_error& flat, const checkpoint_id& id,
                                const load_options& options, load_parts parts) {
    std::optional<solo> own_ranks;
    std::optional<communicator_ref<solo>> own_ranks_ref;
    if (parts.ranks == nullptr)
        parts.ranks = &own_ranks_ref.emplace(own_ranks.emplace(omitted_communicator()));

    std::optional<default_planner> own_planner;
    std::optional<load_planner_ref<default_planner>> own_planner_ref;
    if (parts.planner == nullptr)
        parts.planner = &own_planner_ref.emplace(own_planner.emplace(options.planner));

    std::optional<torch_reader> own_reader;
    std::optional<storage_reader_ref<torch_reader>> own_reader_ref;
    if (parts.reader == nullptr) {
        if (!parts.store) parts.store.emplace(file_store());
        own_reader.emplace(std::move(*parts.store), options.storage);
        parts.reader = &own_reader_ref.emplace(*own_reader);
    }

    auto report = load_job(flat.leaves(), flat.refused, id, options, *parts.ranks, *parts.planner,
                           *parts.reader, parts.plane)
                      .run();
    if (auto w = warning_if_alone(parts.ranks->size(), parts.alone))
        report.warnings.push_back(std::move(*w));
    return report;
}

}  // namespace cairn::detail

#endif
