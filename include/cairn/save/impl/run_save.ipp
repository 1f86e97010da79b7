// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_IMPL_RUN_SAVE_IPP
#define CAIRN_SAVE_IMPL_RUN_SAVE_IPP

#include <cairn/save/run_save.hpp>

#include <cairn/comm/omitted.hpp>
#include <cairn/comm/solo.hpp>
#include <cairn/detail/owning_executor.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/planner/default_planner.hpp>
#include <cairn/save/save_op.hpp>
#include <cairn/storage/torch_writer.hpp>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <exception>
#include <memory>
#include <utility>

namespace cairn::detail {

CAIRN_DECL void add_default_parts(save_parts& parts, const save_options& options) {
    if (parts.ranks == nullptr)
        parts.ranks = own_part<communicator_ref<solo>>(parts.owner, omitted_communicator());
    if (parts.planner == nullptr)
        parts.planner = own_part<save_planner_ref<default_planner>>(
            parts.owner, default_planner(options.planner));
    if (parts.writer == nullptr) {
        if (!parts.store) parts.store.emplace(file_store());
        parts.writer = own_part<storage_writer_ref<torch_writer>>(
            parts.owner, torch_writer(std::move(*parts.store), options.storage));
    }
}

CAIRN_DECL save_report run_save(const flattened_or_error& flat, const checkpoint_id& id,
                                const save_options& options, save_parts parts) {
    add_default_parts(parts, options);
    auto const here = std::make_shared<boost::asio::io_context>(1);
    auto work = boost::asio::make_work_guard(*here);
    std::exception_ptr failure;
    save_report report;
    // Parts are called on this thread: they may block, and may belong to it.
    std::make_shared<save_op>(
        surroundings{owning_executor(here)},
        std::shared_ptr<const flattened_or_error>(std::shared_ptr<void>(), &flat), id, options,
        std::move(parts), nullptr,
        [&](std::exception_ptr e, save_report r) {
            failure = std::move(e);
            report = std::move(r);
            work.reset();
        })
        ->start();
    here->run();
    if (failure) std::rethrow_exception(failure);
    return report;
}

}  // namespace cairn::detail

#include <cairn/save/impl/save_op.ipp>

#endif
