// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_PLANNED_JOB_HPP
#define CAIRN_TEST_SUPPORT_PLANNED_JOB_HPP

#include <cairn/cairn.hpp>
#include <cairn/planner/plan_codec.hpp>
#include <cairn/storage/file_layout.hpp>
#include <cairn/storage/file_names.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace support {

/// A job of any size whose ranks are only planned: what they send to the coordinator of a save.
/// Every parameter is sharded over all ranks: by rows, or by rows and over `columns` by columns.
struct planned_job {
    int ranks = 256, parameters = 1000;
    bool two_dimensions = false;

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

    /// What a rank sends: the plan of the default planner.
    std::vector<std::byte> plan_of(int rank) const {
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
        return cairn::encode_save_plan(planner.create_local_save_plan());
    }
    /// What a rank that was sent this plan reports: where it has written its items.
    static std::vector<std::byte> result_of(const cairn::save_plan& plan) {
        cairn::torch_writer_options const options;
        std::vector<cairn::item_data> data;
        for (auto const& item : plan.items)
            data.push_back(cairn::const_tensor_view(item.type, item.region.shape, nullptr));
        auto const names = cairn::detail::rank_files::decode(plan.storage_data).names;
        auto const split = cairn::detail::split_into_files(plan, options);
        cairn::write_results results;
        for (std::size_t n = 0; n < split.size(); ++n) {
            auto const file = cairn::detail::place_items(names[n], split[n], data, options);
            for (auto const& p : file.items) {
                cairn::item_layout layout;
                layout.payload_offset = p.payload_offset;
                layout.payload_length = p.payload_length;
                layout.strides = p.tensor->strides;
                results.items.push_back(
                    {p.item, {file.name, p.offset, p.length, {}, std::move(layout)}});
            }
            results.file_sizes[file.name] = file.end_of_items;
        }
        return cairn::encode_write_results(results);
    }
};

}  // namespace support

#endif
