// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_TARGET_WRITER_HPP
#define CAIRN_STORAGE_DETAIL_TARGET_WRITER_HPP

#include <cairn/completion.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/error.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/format/target_file.hpp>
#include <cairn/format/torch/value_item.hpp>
#include <cairn/metadata/value.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/detail/heeded_stop.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/planner/check_plan.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/box_runs.hpp>
#include <cairn/storage/detail/items_by_file.hpp>
#include <cairn/storage/detail/job_pool.hpp>
#include <cairn/storage/detail/layout_writer.hpp>
#include <cairn/storage/detail/prefix_place.hpp>
#include <cairn/storage/detail/running_saves.hpp>
#include <cairn/storage/detail/signs_of_life.hpp>
#include <cairn/storage/detail/target_assembly.hpp>
#include <cairn/storage/detail/target_files.hpp>
#include <cairn/storage/detail/target_place.hpp>
#include <cairn/storage/detail/target_shares.hpp>
#include <cairn/storage/detail/target_write_job.hpp>
#include <cairn/storage/detail/working_place.hpp>
#include <cairn/storage/detail/write_file.hpp>
#include <cairn/storage/file_adder.hpp>
#include <cairn/storage/job_executor.hpp>
#include <cairn/storage/threads_per_rank.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The values of a save, by name.
using target_values = std::map<std::string, value>;

/// One rank's saves, one after the other, in a format whose files have their layout before an
/// element is written: everything in a StorageWriter that does not depend on the format.
///
/// A `Format f` is asked, on the coordinator unless something else is said:
///
/// | Expression                    | Meaning                                                      |
/// |-------------------------------|--------------------------------------------------------------|
/// | `f.check(id, store)`          | on all ranks: throws for an id that it does not take; returns whether it names a file |
/// | `f.values()`                  | a `value_policy`: what becomes of values                      |
/// | `f.prefers()`                 | which of tied names is stored: see `planned_tensors`          |
/// | `f.type_of(type)`             | the dtype of the file, for elements of this one               |
/// | `Format::keeps_values`        | whether that is `kept`                                       |
/// | `f.lay_out(name, tensors, plans, values)` | `name`: the file's, if the target is one        |
/// | `f.files()`                   | `std::vector<const format::target_file*>`                    |
/// | `f.fixed(file)`               | bytes of a file that do not depend on elements: `std::vector<format::placed_bytes>` |
/// | `f.rest(file, crcs)`          | all others that are no elements                              |
/// | `f.add(put, save_id, crcs)`   | more files of the target; `put` is a @ref file_adder         |
/// | `f.keeps(name)`               | whether a file of the target that is replaced stays          |
/// | `f.warnings()`                | sentences about what is not stored as it is                  |
/// | `f.recorded_save(store)`      | on any rank: the save id that a target has, or nothing       |
/// | `f.make_names_unique(save_id)` | the files of a directory get names that have it; not if it keeps values |
/// | `Format::description()`       | a `target_format`                                             |
///
/// Where the layout needs values, it is made when the coordinator writes its data, and the other
/// ranks put their elements aside; so does the coordinator where others hold some of the values,
/// and lays the files out when it completes them.
///
/// Never moved, because its pool's tasks refer to it.
template <class Format>
class target_writer final : public layout_writer::implementation {
public:
    /// @param options  Has `overwrite`, `sync_files`, `thread_count`.
    template <class Options>
    target_writer(any_store at, Format f, const Options& options, const job_executor& jobs)
        : base_(options.sync_files ? std::move(at) : at.without_sync()), format_(std::move(f)),
          overwrite_(options.overwrite), sync_files_(options.sync_files),
          thread_count_(options.thread_count), jobs_(options.thread_count, jobs.get()) {}

    void reset(const checkpoint_id& checkpoint) override {
        id_ = checkpoint;
        is_file_ = format_.check(id_, base_);
        files_.reset();
        place_.reset();
        running_.reset();
        tensors_.reset();
        plans_.clear();
        shares_.clear();
        values_.clear();
        elsewhere_.clear();
        laid_out_ = false;
        made_.clear();
    }

    void set_up_writer(const storage_setup& setup) override {
        me_ = setup;
        files_.reset();
        if (!base_.browsable())
            throw error(errc::unsupported,
                        {.file = base_.describe("."),
                         .expected = "a store with places (BrowsableStore), e.g. a file_store",
                         .found = "one without places() and remove_place()",
                         .remedy = "save in PyTorch's format there, and convert it elsewhere"});
        if (base_.renames())
            place_ = std::make_unique<working_place>(base_, id_, me_.save_id, is_file_);
        else
            place_ = std::make_unique<prefix_place>(base_, id_, me_.save_id, is_file_,
                                                    Format::description());
        running_.reset();
        running_.emplace(me_.save_id);
        signs_.emplace(signs_of_life::clock::now());
        threads_ =
            thread_count_ != 0 ? std::max(1, thread_count_) : threads_per_rank(me_.world_size);
        jobs_.set_size(threads_);
        files_.emplace(place_->fresh(), sync_files_, threads_);
    }

    save_plan prepare_local(save_plan plan) override {
        plan.storage_data = rank_share::told_page();
        return plan;
    }
    std::vector<save_plan> prepare_global(std::vector<save_plan> all) override {
        auto out = all;
        plans_ = std::move(all);
        for (auto& plan : plans_)
            for (auto& item : plan.items) item.type = format_.type_of(item.type);
        tensors_.emplace(plans_, format_.values(), format_.prefers());
        if constexpr (Format::keeps_values)
            for (std::size_t rank = 0; rank < plans_.size(); ++rank)
                if (has_values(plans_[rank]) && rank != own()) elsewhere_.push_back(rank);
        // The places of elements follow from values that are kept.
        bool const has_places = !Format::keeps_values || std::ranges::none_of(plans_, has_values);
        if (has_places) lay_out();
        place_->take(overwrite_, me_.activity.get());
        if constexpr (!Format::keeps_values) {
            if (place_->needs_unique_names(format_.files().size()))
                format_.make_names_unique(me_.save_id);
        }
        announce();
        if (has_places) {
            create_files(direct_rank(), files_->are_shared() ? access::pages : access::none);
        } else {
            format::target_file const unknown{place_->name(), 0, tensors_->stored()};
            auto const* one = &unknown;
            shares_ = tensors_->shares(plans_, std::span(&one, 1),
                                       elsewhere_.empty() ? direct_rank() : no_rank, access::none);
        }
        for (std::size_t rank = 0; rank < out.size(); ++rank)
            out[rank].storage_data = shares_[rank].encode();
        return out;
    }

    /// @param released  May be null.
    void write_data(const save_plan& plan, std::span<const item_data> data,
                    const item_released* released, completion<write_results> done) override {
        std::shared_ptr<target_write_job> job;
        try {
            heeded_stop const heeded(me_.stop);
            check_item_data(plan, data);
            auto share = rank_share::decode(plan);
            if constexpr (Format::keeps_values) share = take_values(plan, data, std::move(share));
            job = std::make_shared<target_write_job>(plan, data, released, std::move(share),
                                                     place_->in_order());
            job->aside = create_aside(side_layout::name(own()), job->side.size());
        } catch (...) {
            return done.fail(std::current_exception());
        }
        job->done.emplace(std::move(done));
        auto const n = std::min<std::size_t>(static_cast<std::size_t>(threads_),
                                             std::max<std::size_t>(1, plan.items.size()));
        jobs_.run(
            n,
            [this, job](std::size_t thread, auto const& failed) {
                heeded_stop const heeded(me_.stop);
                this->write_items(*job, thread, failed);
            },
            [this, job](std::exception_ptr failure) {
                try {
                    heeded_stop const heeded(me_.stop);
                    if (!failure) end_of_items(*job);
                } catch (...) {
                    failure = std::current_exception();
                }
                if (failure) return job->done->fail(std::move(failure));
                (*job->done)(std::move(job->results));
            });
    }

    void finish(completion<commit_result> done) override {
        if (!laid_out_) {
            for (auto const rank : elsewhere_) read_values(rank);
            lay_out();
            create_files(no_rank, access::none);
        }
        commit_result result;
        auto const targets = format_.files();
        target_assembly assembly(place_->hidden(), targets, plans_, shares_, me_,
                                 static_cast<std::size_t>(threads_), place_->in_order());
        auto const crcs =
            assembly.complete([this](const std::string& name, std::uint64_t at, byte_span b) {
                files_->write(name, at, b);
                show_life();
            });
        for (std::size_t f = 0; f < targets.size(); ++f) {
            for (auto const& part : format_.rest(f, crcs))
                files_->write(targets[f]->name, part.offset, part.bytes);
            files_->write_last_now(targets[f]->name);
        }
        // Before the files are complete: one alone may then be the target.
        file_adder const put([this](std::string_view name, std::uint64_t size, auto const& read) {
            auto const with_activity = [&](std::uint64_t at, std::span<std::byte> into) {
                read(at, into);
                if (me_.activity) me_.activity->advance();
                show_life();
            };
            place_->put(name, size, with_activity, sync_files_);
        });
        format_.add(put, me_.save_id, crcs);
        place_->complete(targets.front()->name, targets.front()->size,
                         [this] { files_->finish(); });
        place_->keep([this](std::string_view name) { return format_.keeps(name); },
                     me_.activity.get());
        place_->fresh().sync();
        place_->commit(targets.front()->name);
        result.warnings = tensors_->warnings();
        for (auto& w : format_.warnings()) result.warnings.push_back(std::move(w));
        if (auto const n = assembly.boxed_bytes(); n != 0)
            result.warnings.push_back(
                std::to_string(n) + " bytes were written twice, because shards like those of '" +
                assembly.a_boxed_tensor() + "' are many short stretches of a file");
        for (auto& w : place_->take_warnings()) result.warnings.push_back(std::move(w));
        done(std::move(result));
    }

    bool committed(const std::string& save_id) override {
        if (me_.coordinator) return place_->committed();
        if (is_file_) return false;
        auto there = place_->target();
        if (format_.recorded_save(there) != save_id) return false;
        place_->sync();
        return true;
    }

    bool abandon() noexcept override {
        // What stays, a later save to the same id removes.
        bool gone = !files_ || files_->remove();
        for (auto const& name : made_)
            gone = succeeds([&] { place_->hidden().remove(name); }) && gone;
        made_.clear();
        if (!me_.coordinator) running_.reset();
        return gone;
    }

    void sweep(save_end end, completion<sweep_result> done) override {
        sweep_result result;
        result.warnings = end == save_end::uncertain ? place_->clear() : place_->remove();
        running_.reset();
        done(std::move(result));
    }

private:
    using access = rank_share::access;
    static constexpr std::size_t no_rank = SIZE_MAX;

    void announce() {
        std::vector<std::string> names;
        for (auto const* f : format_.files()) names.push_back(f->name);
        if (names.empty()) names.push_back(place_->name());
        place_->announce(names, me_.activity.get());
    }
    /// The rank that writes all of what it holds itself. Several ranks put all of it aside, where
    /// each file should be written in order.
    std::size_t direct_rank() const noexcept {
        return place_->in_order() && me_.world_size > 1 ? no_rank : own();
    }
    std::size_t own() const noexcept { return static_cast<std::size_t>(me_.rank); }
    static std::string values_name(std::size_t rank) { return "values." + std::to_string(rank); }
    static bool has_values(const save_plan& plan) {
        return std::ranges::any_of(plan.items, [](auto& i) { return i.kind == item_kind::value; });
    }

    void show_life() {
        if (place_->shows_life() || !signs_->is_due(signs_of_life::clock::now())) return;
        auto const name = "alive." + std::to_string(own());
        if (made_.back() != name) made_.push_back(name);  // what is put aside is there already
        settled([&] { place_->hidden().publish(name, {}, std::nullopt); });
    }

    // On the coordinator:
    void lay_out() {
        format_.lay_out(is_file_ ? place_->name() : std::string(), *tensors_, plans_,
                        std::move(values_));
        laid_out_ = true;
    }
    /// @param direct  The rank that writes all of what it holds itself.
    /// @param others  What the others write themselves.
    void create_files(std::size_t direct, access others) {
        heeded_stop const heeded(me_.stop);
        auto const targets = format_.files();
        shares_ = tensors_->shares(plans_, targets, direct, others);
        for (std::size_t f = 0; f < targets.size(); ++f) {
            auto const& [name, size, tensors] = *targets[f];
            files_->create(name, size, place_->owns_files());
            files_->write_last(name, size, format_.fixed(f));
        }
    }
    any_store::writer create_aside(std::string name, std::uint64_t size) {
        made_.push_back(std::move(name));
        return place_->hidden().create(made_.back(), size, sync_files_);
    }

    /// Keeps this rank's values for the layout, or puts them aside.
    /// @return What this rank does: the layout may be known now.
    rank_share take_values(const save_plan& plan, std::span<const item_data> data,
                           rank_share share) {
        wire_writer w;
        for (std::size_t i = 0; i < data.size(); ++i) {
            auto const* v = std::get_if<const value*>(&data[i]);
            if (v == nullptr) continue;
            auto const& fqn = plan.items[i].fqn;
            if (me_.coordinator) {
                values_.insert_or_assign(fqn, **v);
            } else {
                w.string(fqn);
                w.bytes(format::torch::encode_value(**v));
            }
        }
        if (me_.coordinator) {
            if (laid_out_ || !elsewhere_.empty()) return share;
            lay_out();
            create_files(direct_rank(), access::none);
            return shares_[own()];
        }
        if (w.written().empty()) return share;
        w.u32(format::crc32(w.written()));
        auto const bytes = w.take();
        auto file = create_aside(values_name(own()), bytes.size());
        file.write(0, bytes);
        file.finish(sync_files_);
        return share;
    }
    /// @throws error errc::corrupt for a file that is not as its rank wrote it
    void read_values(std::size_t rank) {
        auto const name = values_name(rank);
        auto const bytes = read_whole(place_->hidden(), name);
        auto const bad = [&] {
            return error(errc::corrupt, {.rank = static_cast<int>(rank),
                                         .file = place_->hidden().describe(name),
                                         .expected = "the values of this rank",
                                         .found = "other bytes",
                                         .remedy = "all ranks must see the same directory"});
        };
        if (bytes.size() < 4) throw bad();
        auto const content = byte_span(bytes).first(bytes.size() - 4);
        if (wire_reader(byte_span(bytes).last(4)).u32() != format::crc32(content)) throw bad();
        for (wire_reader r(content); r.left() != 0;) {
            auto fqn = r.string();
            values_.insert_or_assign(std::move(fqn), format::torch::decode_value(r.bytes()));
        }
    }
    template <class Failed>
    void write_items(target_write_job& job, std::size_t thread, const Failed& failed) {
        auto const threads = static_cast<std::size_t>(threads_);
        items_by_file::writer const me{own() * threads + thread,
                                       static_cast<std::size_t>(me_.world_size) * threads};
        piece_memory memory;
        auto const heed = [&](std::uint64_t bytes) {
            if (me_.stop.stop_requested() || failed())
                throw error(errc::cancelled, {.rank = me_.rank});
            if (me_.activity) me_.activity->advance(bytes);
            show_life();
        };
        while (auto const item = job.items.next(me)) {
            auto const i = *item;
            auto const how = job.share.items[i].how;
            if (how == item_share::way::box) {
                auto at = job.side.at[i];
                for_each_piece_as(job.plan.items[i].type, job.data[i], memory, [&](byte_span b) {
                    job.put_aside(i, at, b);
                    heed(b.size());
                });
            } else if (how == item_share::way::runs) {
                write_runs(job, i, memory, heed);
            }
            if (job.released != nullptr) (*job.released)(static_cast<std::uint32_t>(i));
        }
    }
    /// Each byte of an item goes into its file if this rank may write it there, otherwise aside.
    template <class Heed>
    void write_runs(target_write_job& job, std::size_t i, piece_memory& memory, const Heed& heed) {
        auto const& item = job.plan.items[i];
        auto const& share = job.share.items[i];
        box_runs const runs(item.region, item.global_shape, size_of(item.type));
        auto aside = job.side.at[i];
        std::size_t k = 0;
        std::uint64_t in_run = 0;
        auto const write_part = [&](byte_span b, auto const& known) {  // of one run
            auto const begin = share.offset + runs.at(k);
            auto const direct = job.share.direct_part({begin, begin + runs.length()});
            auto& crc = job.crcs[job.side.crc_at[i] + 1 + k];
            crc = known ? format::crc32_combine(crc, *known, b.size()) : format::crc32(b, crc);
            for (auto at = begin + in_run; !b.empty();) {
                bool const is_direct = at >= direct.begin && at < direct.end;
                auto const end = is_direct           ? direct.end
                                 : at < direct.begin ? direct.begin
                                                     : begin + runs.length();
                auto const part =
                    b.first(static_cast<std::size_t>(std::min<std::uint64_t>(b.size(), end - at)));
                if (is_direct)
                    files_->write(job.share.files[share.file], at, part);
                else
                    job.put_aside(i, aside, part);
                at += part.size();
                in_run += part.size();
                b = b.subspan(part.size());
            }
        };
        for_each_piece_as(
            item.type, job.data[i], memory,
            [&](byte_span b) {
                heed(b.size());
                std::optional<std::uint32_t> known;  // of a piece within a run
                if (b.size() <= runs.length() - in_run) known = format::crc32(b);
                while (!b.empty()) {
                    auto const n = std::min<std::uint64_t>(b.size(), runs.length() - in_run);
                    write_part(b.first(static_cast<std::size_t>(n)), known);
                    b = b.subspan(static_cast<std::size_t>(n));
                    if (in_run != runs.length()) continue;
                    ++k;
                    in_run = 0;
                }
                return known;
            },
            share.offset + (runs.count() == 0 ? 0 : runs.at(0)));
    }
    void end_of_items(target_write_job& job) {
        job.aside->write(job.side.elements, side_layout::encode_crcs(job.crcs));
        job.aside->finish(sync_files_);
        if (!me_.coordinator) files_->finish();  // see finish
        if (sync_files_) place_->hidden().sync();
        for (std::uint32_t i = 0; i < job.plan.items.size(); ++i) {
            auto const& item = job.plan.items[i];
            auto const& share = job.share.items[i];
            storage_location at{job.share.files[share.file], share.offset, 0, {}, {}};
            if (item.kind != item_kind::value && !item.region.empty()) {
                box_runs const runs(item.region, item.global_shape, size_of(item.type));
                at.offset += runs.at(0);
                at.length = item.content_bytes();
            }
            job.results.items.push_back({i, std::move(at)});
        }
        if (me_.coordinator)
            for (auto const* f : format_.files()) job.results.file_sizes.emplace(f->name, f->size);
    }

    any_store base_;
    Format format_;
    bool overwrite_, sync_files_;
    int thread_count_;
    checkpoint_id id_{};
    bool is_file_ = false;
    storage_setup me_{};
    int threads_ = 1;
    std::unique_ptr<target_place> place_{};
    std::optional<target_files> files_{};
    std::optional<running_save> running_{};
    std::optional<signs_of_life> signs_{};
    std::vector<std::string> made_{};  ///< What may exist beside the target, of this rank's.
    // The coordinator's:
    std::vector<save_plan> plans_{};
    std::optional<planned_tensors> tensors_{};  ///< Refers to them.
    std::vector<rank_share> shares_{};
    target_values values_{};
    std::vector<std::size_t> elsewhere_{};  ///< Other ranks that hold values.
    bool laid_out_ = false;
    job_pool jobs_;  // last member: its threads end first
};

}  // namespace cairn::detail

#endif
