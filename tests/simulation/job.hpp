// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_JOB_HPP
#define CAIRN_TEST_SIMULATION_JOB_HPP

#include "network.hpp"
#include "world.hpp"

#include <cairn/comm/erased_communicator.hpp>
#include <cairn/detail/flattened_or_error.hpp>
#include <cairn/load.hpp>
#include <cairn/load/load_op.hpp>
#include <cairn/planner/default_planner.hpp>
#include <cairn/planner/erased_planner.hpp>
#include <cairn/save.hpp>
#include <cairn/save/save_op.hpp>
#include <cairn/storage/erased_storage.hpp>
#include <cairn/storage/torch_reader.hpp>
#include <cairn/storage/torch_writer.hpp>
#include <cairn/tensor/mesh.hpp>
#include <cairn/tensor/sharded_tensor.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace simulation {

/// What one rank holds: a row of a sharded tensor, a replica, and a value, all of one version.
struct content {
    content(int rank, int ranks, int version)
        : row(4), replica(16, static_cast<float>(version)), step(version) {
        for (std::size_t i = 0; i < row.size(); ++i)
            row[i] = static_cast<float>(version * 1000 + rank * 4 + static_cast<int>(i));
        state["rows"] = cairn::shard_by_mesh(
            cairn::tensor_view(cairn::dtype::f32, {1, 4}, row.data()), {ranks, 4},
            cairn::device_mesh::line(ranks), {cairn::shard_along{0}}, rank);
        state["replica"] = replica;
        state["step"] = std::ref(step);
    }
    content(content&&) = delete;

    std::vector<float> row;
    std::vector<float> replica;
    int step;
    cairn::state_dict state{};
};

/// How one rank's verb has ended.
struct ending {
    bool over = false;
    bool staged = false;
    std::exception_ptr failure{};

    cairn::error_code code() const {
        if (!failure) return {};
        try {
            std::rethrow_exception(failure);
        } catch (const boost::system::system_error& e) {
            return e.code();
        } catch (...) {
            return make_error_code(cairn::errc::rank_failed);
        }
    }
    std::string text() const {
        if (!failure) return "well";
        return cairn::detail::text_of(failure);
    }
};

/// One rank in a save or a load: its group, its parts, and what it was told.
template <class Store>
class rank {
public:
    rank(world& w, network& n, int r, Store store)
        : world_(w), rank_(r), group_(n.of(r)),
          writer_(Store(store), {}, boost::asio::any_io_executor(w.of(r))),
          reader_(std::move(store), {}, boost::asio::any_io_executor(w.of(r))) {}
    rank(rank&&) = delete;

    void save(content& of, const std::string& id, const cairn::save_options& options,
              const std::shared_ptr<rank>& self) {
        auto flat = std::make_shared<cairn::detail::flattened_or_error>(of.state);
        flat->freeze_objects();
        cairn::detail::save_parts parts;
        parts.ranks = &ranks_;
        parts.planner = &save_planner_;
        parts.writer = &writer_ref_;
        parts.owner = self;
        auto const op = std::make_shared<cairn::detail::save_op>(
            surroundings(), std::move(flat), id, options, std::move(parts),
            [e = ended] { e->staged = true; },
            [e = ended](std::exception_ptr failure, const cairn::save_report&) {
                e->over = true;
                e->failure = std::move(failure);
            });
        saving_ = op;
        op->start();
    }
    void load(content& into, const std::string& id, const cairn::load_options& options,
              const std::shared_ptr<rank>& self) {
        cairn::detail::load_parts parts;
        parts.ranks = &ranks_;
        parts.planner = &load_planner_;
        parts.reader = &reader_ref_;
        parts.owner = self;
        std::make_shared<cairn::detail::load_op>(
            surroundings(), std::make_shared<cairn::detail::flattened_or_error>(into.state), id,
            options, std::move(parts),
            [e = ended](std::exception_ptr failure, const cairn::load_report&) {
                e->over = true;
                e->failure = std::move(failure);
            })
            ->start();
    }
    void cancel() {
        if (auto const op = saving_.lock()) op->cancel();
    }

    std::shared_ptr<ending> ended = std::make_shared<ending>();

private:
    cairn::detail::surroundings surroundings() {
        return {world_.of(rank_), [&w = world_] { return w.now(); },
                [&w = world_] {
                    std::string id;
                    for (int i = 0; i < 32; ++i) id += "0123456789abcdef"[w.below(16)];
                    return id;
                }};
    }

    world& world_;
    int rank_;
    network::group group_;
    cairn::default_planner planner_{};
    cairn::torch_writer writer_;
    cairn::torch_reader reader_;
    cairn::detail::communicator_ref<network::group> ranks_{group_};
    cairn::detail::save_planner_ref<cairn::default_planner> save_planner_{planner_};
    cairn::detail::load_planner_ref<cairn::default_planner> load_planner_{planner_};
    cairn::detail::storage_writer_ref<cairn::torch_writer> writer_ref_{writer_};
    cairn::detail::storage_reader_ref<cairn::torch_reader> reader_ref_{reader_};
    std::weak_ptr<cairn::detail::save_op> saving_{};
};

}  // namespace simulation

#endif
