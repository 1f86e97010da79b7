// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_IMPL_TORCH_READER_IPP
#define CAIRN_STORAGE_IMPL_TORCH_READER_IPP

#include <cairn/format/crc.hpp>
#include <cairn/format/native/index.hpp>
#include <cairn/format/torch/item.hpp>
#include <cairn/metadata/check.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/chunk_reader.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/claim.hpp>
#include <cairn/storage/detail/file_sizes.hpp>
#include <cairn/storage/detail/file_versions.hpp>
#include <cairn/storage/detail/other_formats.hpp>
#include <cairn/storage/detail/running_reads.hpp>
#include <cairn/storage/detail/stored_chunk.hpp>
#include <cairn/storage/job_executor.hpp>
#include <cairn/storage/torch_reader.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

static_assert(StorageReader<torch_reader> && ChecksumReader<torch_reader> &&
              LocalReader<torch_reader> && IndexReader<torch_reader> &&
              VersionedReader<torch_reader>);

/// One rank's loads, one after the other. Never moved, because the finder's functions refer to it.
struct torch_reader::state {
    state(any_store store, torch_reader_options o, const job_executor& on)
        : options(o), chunks(std::move(store), finder(), o.thread_count, on) {}

    item_finder finder() {
        return {std::string(detail::metadata_name),
                [this](open_file& file, const std::string& fqn, const tensor_metadata& t,
                       std::size_t chunk) {
                    return detail::find_payload(file, fqn, t, t.chunks[chunk], meta->save_id);
                },
                [](const tensor_metadata& t, std::size_t chunk) {
                    return t.chunks.row_of(chunk).is_divisible();
                },
                [this](open_file& file, const std::string& fqn, const storage_location& at) {
                    return read_value(file, fqn, at);
                }};
    }

    void reset(const checkpoint_id& id) {
        auto const at = detail::metadata_of(id);
        metadata_file = at.name;
        if (!id.empty()) place_id = at.place;
        chunks.reset(place_id);
        meta = nullptr;
        newer.clear();
        running.reset();
    }

    /// A removal that sees this leaves the checkpoint in place; one that began before leads to an
    /// error of the load.
    void note_reading(const std::string& save_id, bool coordinator) {
        if (running || save_id.empty()) return;
        if (options.announce && coordinator)
            running.emplace(save_id, chunks.place());
        else
            running.emplace(save_id);
    }
    stored_index read_index() {
        auto& placed = chunks.place();
        auto const name = placed.describe(metadata_file);
        try {
            auto bytes = metadata_bytes();
            for (int again = 3;; --again) {
                auto file = format::native::parse_metadata_file(bytes);
                check_metadata(file.meta);
                auto const recorded = file.meta.file_sizes.size();
                detail::note_file_versions(placed, file.meta);
                bool const whole = detail::note_file_sizes(placed, file.meta, metadata_file, newer);
                if (whole && file.has_index && file.meta.file_sizes.size() == recorded)
                    return {std::move(file.meta),
                            format::native::encode_stored(file.index, file.content_length)};
                // A concurrent save may have replaced it, and removed the old data files, or given
                // their names to others.
                byte_vector now;
                auto const replaced = [&] { return (now = metadata_bytes()) != bytes; };
                bool const changed = whole ? !file.meta.file_versions.empty() && replaced()
                                           : detail::changes_within_lag(placed, replaced);
                if (!changed || again == 0) return {std::move(file.meta), {}};
                bytes = std::move(now);
            }
        } catch (const error& e) {
            auto where = e.context();
            if (where.file.empty()) where.file = name;
            if (e.code() == make_error_code(errc::not_found)) {
                detail::refuse_other_format(chunks.place());
                where.remedy =
                    "a save that did not finish leaves none: is this the directory of a "
                    "complete checkpoint?";
            }
            throw error(e.code(), std::move(where));
        }
    }

    void set_up_reader(const metadata& m, const storage_setup& rank) {
        meta = &m;
        note_reading(m.save_id, rank.coordinator);
        chunks.set_up_reader(m, rank);
        detail::note_metadata(chunks.notes(), m);
        if (m.save_id.empty() && !newer.empty())
            chunks.notes().note("'" + terminal_text(newer) +
                                "' was changed after .metadata, which PyTorch writes last: a save "
                                "over this checkpoint was interrupted, or files were copied");
    }
    std::optional<chunk_checksum> checksum(const std::string& fqn, std::size_t chunk) {
        auto const* t = meta == nullptr ? nullptr : meta->tensor(fqn);
        if (t == nullptr || chunk >= t->chunks.size()) return {};
        auto const at = t->chunks.location(chunk);
        if (auto const& l = at.layout)
            return chunk_checksum{l->payload_crc, l->payload_length, 0, l->strides};
        if (!at.transforms.empty()) return {};  // it is found only by decoding all of it
        return chunks.checksum(fqn, chunk);
    }
    value read_value(open_file& file, const std::string& fqn, const storage_location& at) {
        auto const bytes = detail::whole_value_item(file, fqn, at, meta->save_id);
        bool checked = false;
        auto v = format::torch::decode_value(bytes, &checked);
        if (!checked) chunks.notes().note_item(file.described());
        detail::note_value(chunks.notes(), fqn, v);
        return v;
    }

    byte_vector metadata_bytes() { return read_whole(chunks.place(), metadata_file); }

    torch_reader_options options;
    std::string place_id{};  ///< Of the checkpoint; empty: the store's own place.
    std::string metadata_file{detail::metadata_name};
    std::string newer{};             ///< A data file that is, on the coordinator.
    const metadata* meta = nullptr;  ///< The caller's, of the load that was set up.
    std::optional<detail::running_read> running{};
    chunk_reader chunks;  // last member: its threads end first
};

CAIRN_DECL torch_reader::torch_reader(any_store store, torch_reader_options options)
    : s_(std::make_unique<state>(std::move(store), options, job_executor())) {}
CAIRN_DECL torch_reader::torch_reader(any_store store, torch_reader_options options,
                                      const job_executor& jobs)
    : s_(std::make_unique<state>(std::move(store), options, jobs)) {}
CAIRN_DECL torch_reader::torch_reader(torch_reader&&) noexcept = default;
CAIRN_DECL torch_reader& torch_reader::operator=(torch_reader&&) noexcept = default;
CAIRN_DECL torch_reader::~torch_reader() = default;

CAIRN_DECL void torch_reader::reset(const checkpoint_id& id) {
    s_->reset(id);
}
CAIRN_DECL metadata torch_reader::read_metadata() {
    return s_->read_index().meta;
}
CAIRN_DECL stored_index torch_reader::read_index() {
    return s_->read_index();
}
CAIRN_DECL void torch_reader::set_up_reader(const metadata& m, const storage_setup& me) {
    s_->set_up_reader(m, me);
}
CAIRN_DECL load_plan torch_reader::prepare_local_load_plan(load_plan plan) {
    return s_->chunks.prepare_local_load_plan(std::move(plan));
}
CAIRN_DECL std::vector<load_plan> torch_reader::prepare_global_load_plan(
    std::vector<load_plan> plans) {
    return plans;
}
CAIRN_DECL std::optional<chunk_checksum> torch_reader::checksum(const std::string& fqn,
                                                                std::size_t chunk) {
    return s_->checksum(fqn, chunk);
}
CAIRN_DECL void torch_reader::read_data(const load_plan& plan, const read_target& target,
                                        completion<read_result> done) {
    s_->chunks.read_data(plan, target, std::move(done));
}
CAIRN_DECL void torch_reader::check_unchanged() {
    s_->chunks.check_unchanged();
}

}  // namespace cairn

#endif
