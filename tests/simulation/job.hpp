// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_JOB_HPP
#define CAIRN_TEST_SIMULATION_JOB_HPP

#include "content.hpp"
#include "ending.hpp"
#include "garbling_group.hpp"
#include "network.hpp"
#include "world.hpp"

#include <cairn/load.hpp>
#include <cairn/load/detail/load_op.hpp>
#include <cairn/planner/default_planner.hpp>
#include <cairn/planner/erased_planner.hpp>
#include <cairn/save.hpp>
#include <cairn/save/detail/save_op.hpp>
#include <cairn/save/plan_cache.hpp>
#include <cairn/storage/detail/erased_storage.hpp>
#include <cairn/storage/job_executor.hpp>
#include <cairn/storage/torch_reader.hpp>
#include <cairn/storage/torch_writer.hpp>
#include <cairn/verb/detail/flattened_or_error.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

namespace simulation {

/// One rank in a save or a load: its group, its parts, and what it was told.
template <class Store, class Writer = cairn::torch_writer>
class rank {
public:
    rank(world& w, network& n, int r, Store store, const cairn::torch_writer_options& options = {},
         const cairn::torch_reader_options& reading = {})
        : world_(w), rank_(r), group_(n.of(r)),
          writer_(Store(store), options, boost::asio::any_io_executor(w.jobs_of(r))),
          reader_(std::move(store), reading, boost::asio::any_io_executor(w.jobs_of(r))) {}
    rank(rank&&) = delete;

    void save(content& of, const cairn::save_options& options, const std::shared_ptr<ending>& ended,
              const std::shared_ptr<rank>& self, const cairn::checkpoint_id& id = "c") {
        auto flat = std::make_shared<cairn::detail::flattened_or_error>(of.state);
        flat->freeze_values();
        cairn::detail::save_parts parts;
        parts.ranks = &ranks_;
        parts.planner = &save_planner_;
        parts.writer = &writer_ref_;
        parts.plans = plans_.slot();
        parts.owner = self;
        auto const op = std::make_shared<cairn::detail::save_op>(
            surroundings(), std::move(flat), id, options, std::move(parts), [&of] { of.spoil(); },
            [e = ended](std::exception_ptr failure, const cairn::save_report& r) {
                e->end(std::move(failure), r.warnings.size());
            });
        saving_ = op;
        op->start();
    }
    void load(columns& into, const cairn::load_options& options,
              const std::shared_ptr<ending>& ended, const std::shared_ptr<rank>& self,
              const cairn::checkpoint_id& id = "c") {
        cairn::detail::load_parts parts;
        parts.ranks = &ranks_;
        parts.planner = &load_planner_;
        parts.reader = &reader_ref_;
        parts.owner = self;
        auto const op = std::make_shared<cairn::detail::load_op>(
            surroundings(), std::make_shared<cairn::detail::flattened_or_error>(into.state), id,
            options, std::move(parts),
            [e = ended](std::exception_ptr failure, const cairn::load_report&) {
                e->end(std::move(failure), 0);
            });
        loading_ = op;
        op->start();
    }
    garbling_group& group() { return ranks_; }
    network::group& plain_group() { return group_; }
    Writer& writer() { return writer_; }
    cairn::torch_reader& reader() { return reader_; }
    void cancel() {
        if (auto const op = saving_.lock()) op->cancel();
        if (auto const op = loading_.lock()) op->cancel();
    }

private:
    cairn::detail::surroundings surroundings() {
        return {world_.of(rank_), [&w = world_, r = rank_] { return w.now(r); },
                [&w = world_] { return w.new_id(); }};
    }

    world& world_;
    int rank_;
    network::group group_;
    cairn::default_planner planner_{};
    Writer writer_;
    cairn::torch_reader reader_;
    garbling_group ranks_{group_};
    cairn::detail::save_planner_ref<cairn::default_planner> save_planner_{planner_};
    cairn::detail::load_planner_ref<cairn::default_planner> load_planner_{planner_};
    cairn::detail::storage_writer_ref<Writer> writer_ref_{writer_};
    cairn::detail::storage_reader_ref<cairn::torch_reader> reader_ref_{reader_};
    cairn::plan_cache plans_{};  ///< Ends with the process, as this.
    std::weak_ptr<cairn::detail::save_op> saving_{};
    std::weak_ptr<cairn::detail::load_op> loading_{};
};

/// A group of ranks in a world, over one store or a view of it for each rank.
template <class Store, class Writer = cairn::torch_writer>
class job {
public:
    template <class StoreOf>
    job(world& w, int ranks, int fan_in, StoreOf store_of, cairn::liveness_options liveness = {},
        const cairn::torch_writer_options& options = {},
        const cairn::torch_reader_options& reading = {})
        : network_(w, ranks, fan_in, liveness) {
        for (int r = 0; r < ranks; ++r)
            all_.push_back(std::make_shared<rank<Store, Writer>>(w, network_, r, store_of(r),
                                                                 options, reading));
    }

    network& links() { return network_; }
    rank<Store, Writer>& at(int r) { return *all_[static_cast<std::size_t>(r)]; }
    void save(int r, content& of, const cairn::save_options& options,
              const std::shared_ptr<ending>& ended, const cairn::checkpoint_id& id = "c") {
        at(r).save(of, options, ended, all_[static_cast<std::size_t>(r)], id);
    }
    void load(int r, columns& into, const cairn::load_options& options,
              const std::shared_ptr<ending>& ended, const cairn::checkpoint_id& id = "c") {
        at(r).load(into, options, ended, all_[static_cast<std::size_t>(r)], id);
    }

private:
    network network_;
    std::vector<std::shared_ptr<rank<Store, Writer>>> all_{};
};

}  // namespace simulation

#endif
