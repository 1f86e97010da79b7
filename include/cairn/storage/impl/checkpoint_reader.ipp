// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_IMPL_CHECKPOINT_READER_IPP
#define CAIRN_STORAGE_IMPL_CHECKPOINT_READER_IPP

#include <cairn/error.hpp>
#include <cairn/object_store/detail/exists.hpp>
#include <cairn/storage/checkpoint_reader.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/erased_storage.hpp>
#include <cairn/storage/detail/other_formats.hpp>
#include <cairn/storage/safetensors_reader.hpp>
#include <cairn/storage/torch_reader.hpp>
#include <cairn/storage/torch_save_reader.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

static_assert(StorageReader<checkpoint_reader> && ChecksumReader<checkpoint_reader> &&
              LocalReader<checkpoint_reader> && IndexReader<checkpoint_reader> &&
              VersionedReader<checkpoint_reader>);

/// A reader of each format. Never moved, because `now` refers to one of them.
struct checkpoint_reader::state {
    state(const any_store& at, const torch_reader_options& options)
        : store(at), torch_dcp(at, options), safetensors(at, options.thread_count),
          torch_save(at, options.thread_count) {}

    void reset(const checkpoint_id& to) {
        if (!to.empty()) id = to;
        found = false;
        choose(checkpoint_format::torch_dcp);
    }
    void choose(checkpoint_format f) {
        switch (f) {
            case checkpoint_format::torch_dcp: now = &torch_dcp_ref; break;
            case checkpoint_format::safetensors: now = &safetensors_ref; break;
            case checkpoint_format::torch_save: now = &torch_save_ref; break;
        }
        now->reset(id);
    }
    stored_index read_as(checkpoint_format f) {
        choose(f);
        return now->read_index();
    }
    /// A checkpoint that is read again, e.g. after it was replaced, keeps its format.
    stored_index read_index() {
        if (found) return now->read_index();
        auto index = read_first();
        found = true;
        return index;
    }
    stored_index read_first() {
        if (auto const format = detail::format_by_name(id); format && exists(detail::split_id(id)))
            return read_as(*format);
        try {
            return read_as(checkpoint_format::torch_dcp);
        } catch (const error& e) {
            bool const absent = e.code() == make_error_code(errc::not_found) ||
                                (e.code() == make_error_code(errc::unsupported) &&
                                 !exists(detail::metadata_of(id)));
            if (!absent || !may_have_files()) throw;
            for (auto const format :
                 {checkpoint_format::safetensors, checkpoint_format::torch_save}) {
                try {
                    return read_as(format);
                } catch (const error& other) {
                    if (other.code() != make_error_code(errc::not_found)) throw;
                }
            }
            choose(checkpoint_format::torch_dcp);
            if (detail::format_by_name(id) && e.code() == make_error_code(errc::not_found))
                throw error(errc::not_found,
                            {.file = store.describe(id),
                             .expected = "a file, or the directory of a checkpoint",
                             .found = "neither"});
            throw;
        }
    }
    bool may_have_files() {
        try {
            (void)(id.empty() ? store : store.at(id)).list_finished();
            return true;
        } catch (const error& e) {  // there is no such place, or the store cannot list any
            return e.code() == make_error_code(errc::unsupported);
        }
    }
    bool exists(const detail::file_in_place& f) const {
        auto place = f.place.empty() ? store : store.at(f.place);
        return detail::exists(place, f.name);
    }

    any_store store;
    checkpoint_id id{};
    bool found = false;  ///< `now` is the reader of what is there.
    torch_reader torch_dcp;
    safetensors_reader safetensors;
    torch_save_reader torch_save;
    detail::storage_reader_ref<torch_reader> torch_dcp_ref{torch_dcp};
    detail::storage_reader_ref<safetensors_reader> safetensors_ref{safetensors};
    detail::storage_reader_ref<torch_save_reader> torch_save_ref{torch_save};
    detail::erased_storage_reader* now = &torch_dcp_ref;
};

CAIRN_DECL checkpoint_reader::checkpoint_reader(const any_store& store,
                                                const torch_reader_options& options)
    : s_(std::make_unique<state>(store, options)) {}
CAIRN_DECL checkpoint_reader::checkpoint_reader(checkpoint_reader&&) noexcept = default;
CAIRN_DECL checkpoint_reader& checkpoint_reader::operator=(checkpoint_reader&&) noexcept = default;
CAIRN_DECL checkpoint_reader::~checkpoint_reader() = default;

CAIRN_DECL void checkpoint_reader::reset(const checkpoint_id& id) {
    s_->reset(id);
}
CAIRN_DECL metadata checkpoint_reader::read_metadata() {
    return s_->read_index().meta;
}
CAIRN_DECL stored_index checkpoint_reader::read_index() {
    return s_->read_index();
}
CAIRN_DECL void checkpoint_reader::set_up_reader(const metadata& m, const storage_setup& me) {
    if (!s_->found) s_->choose(m.format);  // others have read the metadata
    s_->now->set_up_reader(m, me);
}
CAIRN_DECL load_plan checkpoint_reader::prepare_local_load_plan(load_plan plan) {
    return s_->now->prepare_local_load_plan(std::move(plan));
}
CAIRN_DECL std::vector<load_plan> checkpoint_reader::prepare_global_load_plan(
    std::vector<load_plan> plans) {
    return plans;
}
CAIRN_DECL std::optional<chunk_checksum> checkpoint_reader::checksum(const std::string& fqn,
                                                                     std::size_t chunk) {
    return s_->now->checksum(fqn, chunk);
}
CAIRN_DECL void checkpoint_reader::read_data(const load_plan& plan, const read_target& target,
                                             completion<read_result> done) {
    s_->now->read_data(plan, target, std::move(done));
}
CAIRN_DECL void checkpoint_reader::check_unchanged() {
    s_->now->check_unchanged();
}

}  // namespace cairn

#endif
