// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_MAPPED_READER_HPP
#define CAIRN_STORAGE_DETAIL_MAPPED_READER_HPP

#include <cairn/completion.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/mapping/mapping.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/state/flat_state.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/erased_storage.hpp>
#include <cairn/storage/detail/mapped_metadata.hpp>
#include <cairn/storage/detail/mapped_reads.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Reads a checkpoint through another reader, under the names and in the shapes that a mapping
/// makes of it: what a plan asks for becomes items of stored chunks, and their windows are strided
/// views of the windows of the plan. Each rank applies the mapping to the metadata that was read.
///
/// One load at a time.
class mapped_reader final : public erased_storage_reader {
public:
    /// @param of  Outlives this.
    mapped_reader(erased_storage_reader& of, mapping how) : of_(of), how_(std::move(how)) {}
    /// For metadata that others have read, and mapped: `show` is not called.
    mapped_reader(erased_storage_reader& of, std::shared_ptr<const mapped_metadata> m)
        : of_(of), mapped_(std::move(m)) {}

    void reset(const checkpoint_id& id) override {
        prepared_.clear();
        of_.reset(id);
    }
    /// What is stored.
    stored_index read_index() override { return of_.read_index(); }
    CAIRN_DECL void show(metadata& m, const flat_state& wanted) override;
    CAIRN_DECL void set_up_reader(const metadata& shown, const storage_setup& me) override;
    CAIRN_DECL load_plan prepare_local_load_plan(load_plan plan) override;
    CAIRN_DECL std::vector<load_plan> prepare_global_load_plan(
        std::vector<load_plan> plans) override;
    bool items_stay_local() override { return of_.items_stay_local(); }
    CAIRN_DECL std::optional<chunk_checksum> checksum(const std::string& fqn,
                                                      std::size_t chunk) override;
    CAIRN_DECL void read_data(const load_plan& plan, const read_target& target,
                              completion<read_result> done) override;
    void check_unchanged() override { of_.check_unchanged(); }

private:
    std::unique_ptr<mapped_reads> divided(load_plan plan) const;
    std::optional<chunk_checksum> checksum_of_pieces(const map::detail::mapped_tensor& t);

    erased_storage_reader& of_;
    mapping how_{};
    std::shared_ptr<const mapped_metadata> mapped_{};
    const metadata* shown_ = nullptr;  ///< The caller's.
    /// Of the plan that was prepared, the values and the tensors: what is read is often just these.
    std::vector<std::unique_ptr<mapped_reads>> prepared_{};
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/storage/impl/mapped_reader.ipp>
#endif

#endif
