// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_IMPL_RUN_LOAD_IPP
#define CAIRN_LOAD_IMPL_RUN_LOAD_IPP

#include <cairn/load/detail/run_load.hpp>

#include <cairn/comm/detail/omitted.hpp>
#include <cairn/comm/solo.hpp>
#include <cairn/load/detail/load_op.hpp>
#include <cairn/mapping/mapping.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/planner/default_planner.hpp>
#include <cairn/storage/checkpoint_reader.hpp>
#include <cairn/storage/dequantising_reader.hpp>
#include <cairn/storage/detail/mapped_reader.hpp>
#include <cairn/verb/detail/run_here.hpp>

#include <memory>
#include <utility>

namespace cairn::detail {

CAIRN_DECL void add_default_store(load_parts& parts) {
    if (parts.reader == nullptr && !parts.store) parts.store.emplace(file_store());
}

CAIRN_DECL void add_default_parts(load_parts& parts, const load_options& options) {
    if (parts.ranks == nullptr)
        parts.ranks = own_part<communicator_ref<solo>>(parts.owner, omitted_communicator());
    if (parts.planner == nullptr)
        parts.planner = own_part<load_planner_ref<default_planner>>(
            parts.owner, default_planner(options.planner));
    if (parts.reader == nullptr) {
        add_default_store(parts);
        if (parts.names && parts.names->dequantises())
            parts.reader = own_part<storage_reader_ref<dequantising_reader>>(
                parts.owner, dequantising_reader(std::move(*parts.store), {}, options.storage));
        else
            parts.reader = own_part<storage_reader_ref<checkpoint_reader>>(
                parts.owner, checkpoint_reader(std::move(*parts.store), options.storage));
    }
    if (parts.names)  // the load sees the checkpoint as its mapping shows it
        parts.reader = own<mapped_reader>(parts.owner, *parts.reader, *parts.names);
}

CAIRN_DECL load_report run_load(flattened_or_error& flat, const checkpoint_id& id,
                                const load_options& options, load_parts parts) {
    auto* const ranks = parts.ranks;
    return run_here<load_report>(ranks, [&](surroundings in, load_op::ended then) {
        add_default_parts(parts, options);
        return std::make_shared<load_op>(
            std::move(in), std::shared_ptr<flattened_or_error>(std::shared_ptr<void>(), &flat), id,
            options, std::move(parts), std::move(then));
    });
}

}  // namespace cairn::detail

#include <cairn/load/impl/load_op.ipp>

#endif
