// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_PLANNED_JOB_HPP
#define CAIRN_TEST_SUPPORT_PLANNED_JOB_HPP

#include <cairn/cairn.hpp>
#include <cairn/planner/plan_codec.hpp>
#include <cairn/planner/results_codec.hpp>
#include <cairn/save/detail/place_results.hpp>
#include <cairn/save/detail/save_plans.hpp>
#include <cairn/storage/detail/file_layout.hpp>
#include <cairn/storage/detail/file_names.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace support {

/// A job of any size whose ranks are only planned: what they send to the coordinator of a save.
/// Every parameter is sharded over all ranks: by rows, or by rows and over `columns` by columns.
struct planned_job {
    int ranks = 256, parameters = 1000;
    bool two_dimensions = false;
    mutable std::shared_ptr<const cairn::save_plan> first{};

    static constexpr int columns = 8;
    std::string name(int p) const {
        return "model.layers." + std::to_string(p / 10) + ".block." + std::to_string(p % 10) +
               ".weight";
    }
    cairn::index_vector shape() const {
        auto const rows = two_dimensions ? ranks / columns : ranks;
        return {std::int64_t{4} * rows, 64};
    }
    cairn::box region(int rank) const {
        if (!two_dimensions) return cairn::box({std::int64_t{4} * rank, 0}, {4, 64});
        return cairn::box({std::int64_t{4} * (rank / columns), std::int64_t{8} * (rank % columns)},
                          {4, 8});
    }

    /// The local plan of the default planner: that of rank 0 with another box, which is made in a
    /// hundredth of the time. For the last rank both are compared.
    cairn::save_plan plan_of(int rank) const {
        if (!first) first = std::make_shared<const cairn::save_plan>(planned(0));
        auto plan = *first;
        for (auto& item : plan.items) item.region = region(rank);
        if (rank == ranks - 1 && !(plan == planned(rank)))
            throw std::logic_error("ranks' plans differ in more than their boxes");
        return plan;
    }
    cairn::save_plan planned(int rank) const {
        auto const where = region(rank);
        auto const each = static_cast<std::size_t>(where.volume());
        // Of each parameter its own: what shares memory is tied.
        std::vector<float> memory(each * static_cast<std::size_t>(parameters));
        cairn::state_dict sd;
        for (int p = 0; p < parameters; ++p) {
            cairn::tensor_view const v(cairn::dtype::float32, where.shape,
                                       memory.data() + each * static_cast<std::size_t>(p));
            sd[name(p)] =
                cairn::sharded_view{shape(), cairn::dtype::float32, {cairn::shard(where, v)}};
        }
        auto flat = cairn::flatten(sd);
        cairn::default_planner planner;
        planner.set_up_save(flat.leaves, rank, rank == 0);
        return planner.create_local_save_plan();
    }
    /// What a rank sends that has kept no plan.
    std::vector<std::byte> message_of(int rank) const {
        return cairn::detail::save_plans(nullptr).send_local(plan_of(rank), {});
    }
    /// What a rank that was sent this plan reports: where it has written its items.
    static std::vector<std::byte> result_of(const cairn::save_plan& plan,
                                            const std::string& file_names) {
        cairn::torch_writer_options const options;
        std::vector<cairn::item_data> data;
        for (auto const& item : plan.items)
            data.push_back(cairn::const_tensor_view(item.type, item.region.shape, nullptr));
        auto const names = cairn::detail::decode_file_names(file_names);
        auto const split = cairn::detail::split_into_files(plan, cairn::detail::stored_as(plan),
                                                           options, names.size());
        cairn::write_results results;
        for (std::size_t n = 0; n < split.size(); ++n) {
            auto const file = cairn::detail::place_items(names[n], split[n], data, options, "id");
            for (std::size_t k = 0; k < file.items.size(); ++k) {
                auto const& p = file.items[k];
                auto const& at = file.footer.items[k];
                cairn::item_layout layout;
                layout.payload_offset = at.payload_offset;
                layout.payload_length = at.payload_length;
                layout.strides = p.tensor->strides;
                results.items.push_back(
                    {p.item, {file.name, at.offset, at.length, {}, std::move(layout)}});
            }
            results.file_sizes[file.name] = file.size;
        }
        return cairn::encode_write_results(results);
    }
};

/// What keeps plans from save to save.
using plan_slot = cairn::detail::plan_slot;

/// The coordinator of a save of such a job: rank 0.
class job_coordinator {
public:
    using message = std::vector<std::byte>;

    /// @param slot  Of plans kept from save to save; may be null.
    job_coordinator(const planned_job& j, std::shared_ptr<plan_slot> slot)
        : job_(j), plans_(std::move(slot)) {
        writer_.reset("");
        writer_.set_up_writer({0, j.ranks, true, id(), {}, {}});
        plans_.offered(plans_.offer());
    }

    /// Returns what rank 0 sends, and every other rank of which nothing has changed.
    message send_local(cairn::save_plan plan) {
        cairn::detail::save_planner_ref planner(planner_);
        return plans_.send_local(std::move(plan), plan_key(planner, options_, 0, job_.ranks));
    }
    void join(std::vector<message> received) {
        cairn::detail::save_planner_ref planner(planner_);
        cairn::detail::storage_writer_ref writer(writer_);
        std::vector<cairn::detail::outcome> told;
        for (auto& m : received) told.push_back({{}, std::move(m)});
        plans_.join(told, planner, writer, options_);
    }
    message answer(int rank) const { return plans_.answer(static_cast<std::size_t>(rank)); }
    void receive(std::span<const std::byte> answer) { plans_.receive(answer); }
    /// What a rank reports that has received its answer.
    message result_of(int rank) const {
        return planned_job::result_of(job_.plan_of(rank),  // all of it is kept
                                      plans_.file_names(static_cast<std::size_t>(rank)));
    }
    void begin_results() {
        meta_ = plans_.take_metadata();
        placer_.emplace(meta_);
    }
    void place(int rank, std::span<const std::byte> result) {
        plans_.place(*placer_, result, static_cast<std::size_t>(rank));
    }
    void end_results() {
        placer_->check_all_placed();
        placer_.reset();
        meta_.save_id = id();
        plans_.keep(id());
    }
    cairn::metadata take_metadata() { return std::move(meta_); }
    bool reused() const { return plans_.reused(); }

private:
    static std::string id() { return std::string(32, 'a'); }

    planned_job job_;
    cairn::save_options options_{};
    cairn::default_planner planner_{};
    cairn::torch_writer writer_{cairn::memory_store()};
    cairn::detail::save_plans plans_;
    cairn::metadata meta_{};
    std::optional<cairn::detail::result_placer> placer_{};
};

}  // namespace support

#endif
