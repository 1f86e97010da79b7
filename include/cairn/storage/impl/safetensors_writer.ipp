// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_IMPL_SAFETENSORS_WRITER_IPP
#define CAIRN_STORAGE_IMPL_SAFETENSORS_WRITER_IPP

#include <cairn/error.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/format/safetensors/layout.hpp>
#include <cairn/object_store/detail/exists.hpp>
#include <cairn/planner/check_plan.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/job_pool.hpp>
#include <cairn/storage/detail/running_saves.hpp>
#include <cairn/storage/detail/target_assembly.hpp>
#include <cairn/storage/detail/target_files.hpp>
#include <cairn/storage/detail/target_shares.hpp>
#include <cairn/storage/detail/working_place.hpp>
#include <cairn/storage/detail/write_file.hpp>
#include <cairn/storage/safetensors_writer.hpp>
#include <cairn/storage/threads_per_rank.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

static_assert(ReleasingWriter<safetensors_writer>);

/// One rank's saves, one after the other. Never moved, because its pool's tasks refer to it.
struct safetensors_writer::state {
    using target = format::safetensors::target;

    state(detail::erased_store at, safetensors_writer_options o)
        : base(o.sync_files ? std::move(at) : at.without_sync()), options(std::move(o)),
          jobs(options.thread_count) {}

    void reset(const checkpoint_id& checkpoint) {
        id = checkpoint;
        is_file = id.ends_with(".safetensors");
        if (is_file && options.add_files)
            throw error(errc::invalid_argument,
                        {.file = base.describe("."),
                         .expected = "an id that names a directory, because add_files is set",
                         .found = "'" + id + "'"});
        files.reset();
        place.reset();
        running.reset();
        layout.clear();
        plans.clear();
        shares.clear();
        warnings.clear();
        side_name.clear();
    }

    void set_up_writer(const storage_setup& setup) {
        me = setup;
        files.reset();
        place.emplace(base, id, me.save_id, is_file);
        files.emplace(place->fresh(), options.sync_files);
        running.reset();
        running.emplace(me.save_id);
        threads = options.thread_count != 0 ? std::max(1, options.thread_count)
                                            : threads_per_rank(me.world_size);
        jobs.set_size(threads);
    }

    std::vector<save_plan> prepare_global(std::vector<save_plan> all) {
        plans = std::move(all);
        detail::planned_tensors tensors(plans, options.skip_values);
        if (is_file)
            layout.push_back(
                format::safetensors::lay_out_file(place->name(), tensors.stored(), options.text));
        else
            layout =
                format::safetensors::lay_out(tensors.stored(), options.max_file_size, options.text);
        warnings = tensors.warnings();
        using access = detail::rank_share::access;
        shares = tensors.shares(plans, targets(), static_cast<std::size_t>(me.rank),
                                files->are_shared() ? access::pages : access::none);
        place->take(options.overwrite, me.activity.get());
        for (auto const& f : layout) files->create(f.name, f.size);
        auto out = plans;
        for (std::size_t rank = 0; rank < out.size(); ++rank)
            out[rank].storage_data = shares[rank].encode();
        return out;
    }
    std::vector<const format::target_file*> targets() const {
        std::vector<const format::target_file*> out;
        for (auto const& f : layout) out.push_back(&f);
        return out;
    }

    /// What one call of `write_data` writes.
    struct write_job {
        write_job(const save_plan& p, std::span<const item_data> d, const item_released* r)
            : plan(p), data(d), released(r), share(detail::rank_share::decode(p)), side(p, share),
              crcs(side.crcs) {}

        const save_plan& plan;
        std::span<const item_data> data;
        const item_released* released;  ///< May be null.
        detail::rank_share share;
        detail::side_layout side;
        std::vector<std::uint32_t> crcs;
        std::optional<detail::erased_store::writer> aside{};
        std::atomic<std::size_t> next{0};
        write_results results{};
        std::optional<completion<write_results>> done{};
    };

    void write_data(const save_plan& plan, std::span<const item_data> data,
                    const item_released* released, completion<write_results> done) {
        std::shared_ptr<write_job> job;
        try {
            check_item_data(plan, data);
            job = std::make_shared<write_job>(plan, data, released);
            side_name = detail::side_layout::name(static_cast<std::size_t>(me.rank));
            job->aside = place->hidden().create(side_name, job->side.size(), options.sync_files);
        } catch (...) {
            return done.fail(std::current_exception());
        }
        job->done.emplace(std::move(done));
        auto const n = std::min<std::size_t>(static_cast<std::size_t>(threads),
                                             std::max<std::size_t>(1, plan.items.size()));
        jobs.run(
            n, [this, job](std::size_t, auto const& failed) { write_items(*job, failed); },
            [this, job](std::exception_ptr failure) {
                try {
                    if (!failure) end_of_items(*job);
                } catch (...) {
                    failure = std::current_exception();
                }
                if (failure) return job->done->fail(std::move(failure));
                (*job->done)(std::move(job->results));
            });
    }

    template <class Failed>
    void write_items(write_job& job, const Failed& failed) {
        std::vector<std::byte> scratch;
        auto const heed = [&](std::uint64_t bytes) {
            if (me.stop.stop_requested() || failed())
                throw error(errc::cancelled, {.rank = me.rank});
            if (me.activity) me.activity->advance(bytes);
        };
        for (auto i = job.next++; i < job.data.size(); i = job.next++) {
            auto const how = job.share.items[i].how;
            if (how == detail::item_share::way::box) {
                auto at = job.side.at[i];
                detail::for_each_row_major_piece(job.data[i], scratch, [&](byte_span b) {
                    job.aside->write(at, b);
                    at += b.size();
                    heed(b.size());
                });
            } else if (how == detail::item_share::way::runs) {
                write_runs(job, i, scratch, heed);
            }
            if (job.released != nullptr) (*job.released)(static_cast<std::uint32_t>(i));
        }
    }
    /// Each byte of an item goes into its file if this rank may write it there, otherwise aside.
    template <class Heed>
    void write_runs(write_job& job, std::size_t i, std::vector<std::byte>& scratch,
                    const Heed& heed) {
        auto const& item = job.plan.items[i];
        auto const& share = job.share.items[i];
        detail::box_runs const runs(item.region, item.global_shape, size_of(item.type));
        auto aside = job.side.at[i];
        std::size_t k = 0;
        std::uint64_t in_run = 0;
        auto const write_part = [&](byte_span b) {  // of one run
            auto const begin = share.offset + runs.at(k);
            auto const direct = job.share.direct_part({begin, begin + runs.length()});
            auto& crc = job.crcs[job.side.crc_at[i] + k];
            crc = format::crc32(b, crc);
            for (auto at = begin + in_run; !b.empty();) {
                bool const is_direct = at >= direct.begin && at < direct.end;
                auto const end = is_direct           ? direct.end
                                 : at < direct.begin ? direct.begin
                                                     : begin + runs.length();
                auto const part =
                    b.first(static_cast<std::size_t>(std::min<std::uint64_t>(b.size(), end - at)));
                if (is_direct)
                    files->write(job.share.files[share.file], at, part);
                else
                    job.aside->write(std::exchange(aside, aside + part.size()), part);
                at += part.size();
                in_run += part.size();
                b = b.subspan(part.size());
            }
        };
        detail::for_each_row_major_piece(job.data[i], scratch, [&](byte_span b) {
            heed(b.size());
            while (!b.empty()) {
                auto const n = static_cast<std::size_t>(
                    std::min<std::uint64_t>(b.size(), runs.length() - in_run));
                write_part(b.first(n));
                b = b.subspan(n);
                if (in_run == runs.length()) {
                    ++k;
                    in_run = 0;
                }
            }
        });
    }
    void end_of_items(write_job& job) {
        job.aside->write(job.side.elements, detail::side_layout::encode_crcs(job.crcs));
        job.aside->finish(options.sync_files);
        if (!me.coordinator) files->finish();  // see finish
        if (options.sync_files) place->hidden().sync();
        for (std::uint32_t i = 0; i < job.plan.items.size(); ++i) {
            auto const& item = job.plan.items[i];
            auto const& share = job.share.items[i];
            storage_location at{job.share.files[share.file], share.offset, 0, {}, {}};
            if (item.kind != item_kind::value && !item.region.empty()) {
                detail::box_runs const runs(item.region, item.global_shape, size_of(item.type));
                at.offset += runs.at(0);
                at.length = item.content_bytes();
            }
            job.results.items.push_back({i, std::move(at)});
        }
        if (me.coordinator)
            for (auto const& f : layout) job.results.file_sizes.emplace(f.name, f.size);
    }

    void finish(completion<commit_result> done) {
        commit_result result;
        auto const all = targets();
        detail::target_assembly assembly(place->hidden(), all, plans, shares, me,
                                         static_cast<std::size_t>(threads));
        auto const crcs = assembly.complete([this](const std::string& name, std::uint64_t at,
                                                   byte_span b) { files->write(name, at, b); });
        for (auto const& f : layout) files->write(f.name, 0, f.head);
        files->finish();
        if (options.add_files)
            options.add_files([&](std::string_view name, byte_span b) { put(name, b); });
        place->keep(
            [](std::string_view name) { return !format::safetensors::is_target_name(name); },
            me.activity.get());
        if (layout.size() > 1) {
            auto const index = format::safetensors::encode_index(layout, {me.save_id, crcs});
            put(format::safetensors::index_name, std::as_bytes(std::span(index)));
        }
        place->fresh().sync();
        place->commit(layout.front().name);
        result.warnings = std::move(warnings);
        if (auto const n = assembly.boxed_bytes(); n != 0)
            result.warnings.push_back(
                std::to_string(n) + " bytes were written twice, because shards like those of '" +
                assembly.a_boxed_tensor() + "' are many short stretches of a file");
        for (auto& w : place->take_warnings()) result.warnings.push_back(std::move(w));
        done(std::move(result));
    }
    void put(std::string_view name, byte_span b) {
        auto file = place->fresh().create(name, b.size(), options.sync_files);
        file.write(0, b);
        file.finish(options.sync_files);
    }

    bool committed(const std::string& save_id) {
        if (me.coordinator) return place->committed();
        if (is_file) return false;
        auto there = place->target();
        auto const index = detail::read_existing(there, format::safetensors::index_name, max_index);
        if (!index || format::safetensors::decode_notes(*index).save_id != save_id) return false;
        place->sync();
        return true;
    }

    bool abandon() noexcept {
        bool gone = true;
        try {
            if (files) files->remove();
            if (!side_name.empty()) place->hidden().remove(side_name);
        } catch (...) {  // a later save to the same id removes it
            gone = false;
        }
        side_name.clear();
        if (!me.coordinator) running.reset();
        return gone;
    }

    void sweep(save_end end, completion<sweep_result> done) {
        sweep_result result;
        result.warnings = end == save_end::uncertain ? place->clear() : place->remove();
        running.reset();
        done(std::move(result));
    }

    static constexpr std::uint64_t max_index = 100'000'000;

    detail::erased_store base;
    safetensors_writer_options options;
    checkpoint_id id{};
    bool is_file = false;
    storage_setup me{};
    int threads = 1;
    std::optional<detail::working_place> place{};
    std::optional<detail::target_files> files{};
    std::optional<detail::running_save> running{};
    std::string side_name{};  ///< Once it may exist.
    // The coordinator's:
    std::vector<target> layout{};
    std::vector<save_plan> plans{};
    std::vector<detail::rank_share> shares{};
    std::vector<std::string> warnings{};
    detail::job_pool jobs;  // last member: its threads end first
};

CAIRN_DECL safetensors_writer::safetensors_writer(detail::erased_store store,
                                                  safetensors_writer_options options)
    : s_(std::make_unique<state>(std::move(store), std::move(options))) {}
CAIRN_DECL safetensors_writer::safetensors_writer(safetensors_writer&&) noexcept = default;
CAIRN_DECL safetensors_writer& safetensors_writer::operator=(safetensors_writer&&) noexcept =
    default;
CAIRN_DECL safetensors_writer::~safetensors_writer() = default;

CAIRN_DECL void safetensors_writer::reset(const checkpoint_id& id) {
    s_->reset(id);
}
CAIRN_DECL void safetensors_writer::set_up_writer(const storage_setup& setup) {
    s_->set_up_writer(setup);
}
CAIRN_DECL save_plan safetensors_writer::prepare_local_save_plan(save_plan plan) {
    return plan;
}
CAIRN_DECL std::vector<save_plan> safetensors_writer::prepare_global_save_plan(
    std::vector<save_plan> plans) {
    return s_->prepare_global(std::move(plans));
}
CAIRN_DECL void safetensors_writer::write_data(const save_plan& plan,
                                               std::span<const item_data> data,
                                               completion<write_results> done) {
    s_->write_data(plan, data, nullptr, std::move(done));
}
CAIRN_DECL void safetensors_writer::write_data(const save_plan& plan,
                                               std::span<const item_data> data,
                                               const item_released& released,
                                               completion<write_results> done) {
    s_->write_data(plan, data, &released, std::move(done));
}
CAIRN_DECL void safetensors_writer::finish(const metadata&, completion<commit_result> done) {
    s_->finish(std::move(done));
}
CAIRN_DECL bool safetensors_writer::committed(const std::string& save_id) {
    return s_->committed(save_id);
}
CAIRN_DECL bool safetensors_writer::abandon() noexcept {
    return s_->abandon();
}
CAIRN_DECL void safetensors_writer::sweep(save_end end, completion<sweep_result> done) {
    s_->sweep(end, std::move(done));
}

}  // namespace cairn

#endif
