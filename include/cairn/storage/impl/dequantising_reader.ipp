// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_IMPL_DEQUANTISING_READER_IPP
#define CAIRN_STORAGE_IMPL_DEQUANTISING_READER_IPP

#include <cairn/error.hpp>
#include <cairn/format/quantised/elements.hpp>
#include <cairn/format/quantised/tensors.hpp>
#include <cairn/storage/checkpoint_reader.hpp>
#include <cairn/storage/dequantising_reader.hpp>
#include <cairn/storage/detail/checked_payloads.hpp>
#include <cairn/storage/detail/dequantised_reads.hpp>
#include <cairn/storage/detail/quantisation_config.hpp>
#include <cairn/storage/detail/quantised_metadata.hpp>
#include <cairn/tensor/dtype.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

static_assert(StorageReader<dequantising_reader> && LocalReader<dequantising_reader> &&
              ChecksumReader<dequantising_reader> && VersionedReader<dequantising_reader>);

struct dequantising_reader::state {
    state(const any_store& at, dequantise_options how, const torch_reader_options& reading)
        : store(at), options(std::move(how)), reader(at, reading),
          pieces_reader(at, {.thread_count = reading.thread_count}) {}

    any_store store;
    dequantise_options options;
    checkpoint_id id{};
    checkpoint_reader reader;
    checkpoint_reader pieces_reader;  ///< Of quantised tensors; the other one announces the load.
    detail::quantised_metadata meta{};
};

CAIRN_DECL dequantising_reader::dequantising_reader(any_store store, dequantise_options options,
                                                    const torch_reader_options& reading)
    : s_(std::make_unique<state>(store, std::move(options), reading)) {}
CAIRN_DECL dequantising_reader::dequantising_reader(dequantising_reader&&) noexcept = default;
CAIRN_DECL dequantising_reader& dequantising_reader::operator=(dequantising_reader&&) noexcept =
    default;
CAIRN_DECL dequantising_reader::~dequantising_reader() = default;

CAIRN_DECL void dequantising_reader::reset(const checkpoint_id& id) {
    if (!id.empty()) s_->id = id;
    s_->reader.reset(id);
    s_->pieces_reader.reset(id);
}
CAIRN_DECL metadata dequantising_reader::read_metadata() {
    auto const& how = s_->options;
    if (info(how.type).kind != dtype_class::floating)
        throw error(errc::invalid_argument, {.expected = "weights of floating-point numbers",
                                             .found = std::string(name_of(how.type))});
    if (how.block && (how.block->size() != 2 || (*how.block)[0] < 1 || (*how.block)[1] < 1))
        throw error(errc::invalid_argument,
                    {.expected = "blocks of rows and columns", .found = to_string(*how.block)});
    auto m = s_->reader.read_metadata();
    auto said = detail::read_quantisation_config(s_->store, s_->id, m.is_file);
    if (!said.block) said.block = how.block;
    auto const recipes = format::quantised::find(m, said);
    detail::show_dequantised(m, recipes, how.type);
    return m;
}
CAIRN_DECL void dequantising_reader::set_up_reader(const metadata& m, const storage_setup& me) {
    s_->meta = detail::stored_quantised(m);
    s_->reader.set_up_reader(s_->meta.stored, me);
    if (s_->meta.recipes.empty()) return;
    auto setup = me;
    if (!setup.checked) setup.checked = std::make_shared<detail::checked_payloads>();
    s_->pieces_reader.set_up_reader(s_->meta.stored, setup);
}
CAIRN_DECL load_plan dequantising_reader::prepare_local_load_plan(load_plan plan) {
    load_plan stored;
    stored.planner_data = plan.planner_data;
    stored.no_items = plan.no_items;
    stored.items = detail::stored_items_of(s_->meta, plan.items);
    stored.storage_data = std::move(plan.storage_data);
    plan.storage_data = s_->reader.prepare_local_load_plan(std::move(stored)).storage_data;
    return plan;
}
CAIRN_DECL std::vector<load_plan> dequantising_reader::prepare_global_load_plan(
    std::vector<load_plan> plans) {
    return plans;
}
CAIRN_DECL std::optional<chunk_checksum> dequantising_reader::checksum(const std::string& fqn,
                                                                       std::size_t chunk) {
    if (s_->meta.recipes.count(fqn) != 0) return {};
    return s_->reader.checksum(fqn, chunk);
}
CAIRN_DECL void dequantising_reader::read_data(const load_plan& plan, const read_target& target,
                                               completion<read_result> done) {
    auto const reads = std::make_shared<detail::dequantised_reads>(
        s_->meta, s_->reader, s_->pieces_reader, plan, target, std::move(done));
    reads->run(reads);
}
CAIRN_DECL void dequantising_reader::check_unchanged() {
    s_->reader.check_unchanged();
}

}  // namespace cairn

#endif
