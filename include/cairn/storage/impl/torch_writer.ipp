// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_IMPL_TORCH_WRITER_IPP
#define CAIRN_STORAGE_IMPL_TORCH_WRITER_IPP

#include <cairn/detail/host_name.hpp>
#include <cairn/format/native/footer.hpp>
#include <cairn/format/native/index.hpp>
#include <cairn/format/zstd.hpp>
#include <cairn/object_store/detail/exists.hpp>
#include <cairn/object_store/detail/heeded_stop.hpp>
#include <cairn/object_store/detail/time_limit.hpp>
#include <cairn/planner/check_plan.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/checkpoint_files.hpp>
#include <cairn/storage/detail/claim.hpp>
#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/file_names.hpp>
#include <cairn/storage/detail/job_pool.hpp>
#include <cairn/storage/detail/running_saves.hpp>
#include <cairn/storage/detail/signs_of_life.hpp>
#include <cairn/storage/detail/write_file.hpp>
#include <cairn/storage/job_executor.hpp>
#include <cairn/storage/threads_per_rank.hpp>
#include <cairn/storage/torch_writer.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

static_assert(ReleasingWriter<torch_writer> && NamingWriter<torch_writer>);

/// One rank's saves, one after the other. Never moved, because its pool's tasks refer to it.
struct torch_writer::state {
    state(any_store at, torch_writer_options o, boost::asio::any_io_executor on)
        : base(o.sync_files ? std::move(at) : at.without_sync()), placed(base),
          options(std::move(o)), own_threads(!on), speed(options.polite.bytes_per_second),
          jobs(options.thread_count, std::move(on)) {}

    struct write_job {
        explicit write_job(completion<write_results> d) : done(std::move(d)) {}
        std::vector<detail::placed_file> files;
        write_results results;
        completion<write_results> done;
        const item_released* released = nullptr;
        std::vector<std::pair<std::uint32_t, std::uint32_t>> stored_with{};  ///< Sorted.
    };

    void reset(const checkpoint_id& id) {
        auto const a = options.payload_alignment;
        if (a < 64 || a > 32768 || (a & (a - 1)) != 0) {
            throw error(errc::invalid_argument,
                        {.expected = "payload_alignment: a power of two from 64 to 32768",
                         .found = std::to_string(a)});
        }
        if (auto const level = options.zstd_level; level && !format::zstd::is_level(*level)) {
            throw error(errc::invalid_argument,
                        {.expected = "zstd_level: a level of libzstd, -131072 to 22",
                         .found = std::to_string(*level)});
        }
        detail::check(options.polite);
        if (!own_threads && options.polite != politeness()) {
            throw error(errc::invalid_argument,
                        {.expected = "no politeness, because the writer runs on an executor of "
                                     "the program's",
                         .found = "politeness for threads of the writer's own",
                         .remedy = "pass no executor"});
        }
        if (!id.empty()) placed = base.at(id);
        made.clear();
        published.clear();
        hold = {};
        running.reset();
    }

    void set_up_writer(const storage_setup& setup) {
        me = setup;
        running.reset();
        running.emplace(me.save_id);
        signs.emplace(detail::signs_of_life::clock::now());
        shown = false;
    }

    /// Returns how many files a rank can write at once, if the options do not say.
    int threads_for(std::size_t ranks) const {
        // The coordinator compares the size of every file before it commits.
        constexpr std::size_t most_files = 1024;
        auto most = static_cast<int>(most_files / std::max<std::size_t>(1, ranks));
        if (!options.polite.cpus.empty())
            most = std::min(most, static_cast<int>(options.polite.cpus.size()));
        // The program may share its executor.
        return own_threads ? std::clamp(threads_per_rank(me.world_size), 1, std::max(1, most)) : 1;
    }

    std::vector<std::string> name_files(std::span<const stored_amount> stored) {
        auto const threads = threads_for(stored.size());
        std::vector<std::string> names;
        std::vector<std::size_t> counts;
        for (std::size_t rank = 0; rank < stored.size(); ++rank) {
            counts.push_back(detail::file_count(stored[rank], options, threads));
            for (std::size_t n = 0; n < counts.back(); ++n)
                names.push_back(file_name(static_cast<int>(rank), static_cast<int>(n)));
        }
        names = detail::data_names(names, me.save_id);
        auto listed = names;
        if (!placed.renames()) listed.push_back(sign_name());
        hold.take(placed, me.save_id, std::move(listed), options.overwrite, me.activity.get());
        std::vector<std::string> encoded;
        auto next = names.begin();
        for (auto const count : counts) {
            auto const end = next + static_cast<std::ptrdiff_t>(count);
            encoded.push_back(detail::encode_file_names({next, end}));
            next = end;
        }
        return encoded;
    }

    /// @param released  May be null.
    void write_data(const save_plan& plan, std::span<const item_data> data,
                    const item_released* released, completion<write_results> done) {
        auto job = std::make_shared<write_job>(std::move(done));
        job->released = released;
        try {
            check_item_data(plan, data);
            auto const names = detail::decode_file_names(plan.storage_data);
            auto const count = options.thread_count != 0 ? detail::file_count({}, options, 1)
                                                         : std::max<std::size_t>(1, names.size());
            auto const place = detail::stored_as(plan);
            auto const split = detail::split_into_files(plan, place, options, count);
            check_tied(plan, place, data);
            for (std::uint32_t i = 0; i < place.size(); ++i)
                if (place[i] != i) job->stored_with.emplace_back(place[i], i);
            std::sort(job->stored_with.begin(), job->stored_with.end());
            if (names.size() != split.size()) {
                throw error(errc::invalid_plan,
                            {.expected = std::to_string(split.size()) + " file names",
                             .found = std::to_string(names.size()),
                             .remedy = "give all ranks equal writer options"});
            }
            for (std::size_t n = 0; n < split.size(); ++n)
                job->files.push_back(
                    detail::place_items(names[n], split[n], data, options, me.save_id));
            job->results.items.resize(place.size());
        } catch (...) {
            job->done.fail(std::current_exception());
            return;
        }
        if (job->files.empty()) return job->done(write_results{});
        if (options.thread_count == 0)
            jobs.set_size(std::min(static_cast<int>(job->files.size()), threads_for(1)));
        jobs.run(
            job->files.size(),
            [this, job, data](std::size_t i, auto const& failed) {
                if (own_threads) detail::apply_to_this_thread(options.polite);
                detail::heeded_stop const heeded(me.stop);
                auto& f = job->files[i];
                // Asked before each piece.
                auto const ends = [&] {
                    show_life();
                    return failed();
                };
                std::optional<detail::item_compressor> compressor;
                if (options.zstd_level)
                    compressor.emplace(*options.zstd_level).lay_out(f, data, [&] {
                        if (me.activity) me.activity->advance();
                        if (me.stop.stop_requested() || ends())
                            throw error(errc::cancelled, {.rank = me.rank});
                    });
                auto handle = create(f.name, f.size);
                detail::append_stream out(handle, me, speed, ends);
                detail::write_file(
                    out, f, data, job->results.items, [&](auto item) { release(*job, item); },
                    compressor ? &*compressor : nullptr);
                handle.finish(options.sync_files);
            },
            [this, job](std::exception_ptr failure) { end_of_files(*job, std::move(failure)); });
    }

    void finish(const metadata& m, std::optional<commit_record> record,
                completion<commit_result> done) {
        if (record) record->save_id = me.save_id;
        commit_result result;
        byte_vector bytes;
        std::set<std::string> files;
        decltype(hold)::definite([&] {
            std::optional<metadata> own;  // e.g. with 10⁶ chunks a copy takes long
            if (m.save_id != me.save_id) own.emplace(m).save_id = me.save_id;
            auto const& meta = own ? *own : m;
            check_sizes(meta.file_sizes, result.warnings);
            for (auto const& [name, size] : meta.file_sizes) files.insert(name);
            bytes = format::native::make_metadata_file(meta, options.torch_metadata,
                                                       record ? &*record : nullptr);
            if (options.torch_metadata) warn_of_many(meta, result.warnings);
        });
        hold.publish(placed, bytes);
        published = std::move(files);
        made.clear();
        for (auto& w : placed.take_warnings()) result.warnings.push_back(std::move(w));
        done(std::move(result));
    }

    bool committed(const std::string& save_id) {
        auto const now = placed.tag(detail::metadata_name);
        // The metadata found at the beginning need not be readable.
        if (now.text.empty() || hold.found(now, save_id)) return false;
        auto found = detail::read_checkpoint_files(placed);
        if (found.save_id != save_id) return false;
        // The publisher may have died before it called this.
        placed.sync();
        if (published.empty()) published = std::move(found.names);
        return true;
    }

    bool abandon() noexcept {
        bool gone = true;
        std::optional<detail::time_limit> limit;
        try {
            limit.emplace(std::chrono::minutes(1));
        } catch (...) {  // while the storage is away, each file takes that long
        }
        for (auto const& name : std::exchange(made, {})) try {
                if (me.activity) me.activity->advance();
                placed.remove(name);
            } catch (...) {  // a leftover, listed in the intent for a later save
                gone = false;
            }
        if (!me.coordinator) running.reset();
        return gone;
    }

    void sweep(save_end end, completion<sweep_result> done) {
        auto* const activity = me.activity.get();
        sweep_result result;
        switch (end) {
            case save_end::committed:
                try {
                    // Durably before the intent, which lists it.
                    if (shown) placed.remove(sign_name());
                    if (shown) placed.sync();
                    result.warnings = hold.sweep(placed, published, activity);
                } catch (...) {  // a later save, or `cairn gc`, does the rest
                    result.warnings.push_back(detail::text_of(std::current_exception()));
                }
                break;
            case save_end::abandoned: result.warnings = hold.release(placed); break;
            case save_end::uncertain:
                result.warnings = hold.remove_planned(placed, activity);
                break;
        }
        for (auto& w : placed.take_warnings()) result.warnings.push_back(std::move(w));
        running.reset();
        done(std::move(result));
    }

    /// A file that is being written shows that its writer lives, but not what is being uploaded:
    /// any rank that does that for long makes an empty object, again and again. The intent lists
    /// it.
    void show_life() {
        if (placed.renames() || !signs->is_due(detail::signs_of_life::clock::now())) return;
        auto const name = sign_name();
        note_made(name);
        placed.publish(name, {}, std::nullopt);
    }
    std::string sign_name() const { return detail::data_name("__alive", me.save_id); }

    std::string file_name(int rank, int n) const {
        return options.file_name ? options.file_name(rank, n) : detail::default_data_name(rank, n);
    }

    /// A file that the storage lists with the size reported by its writer is not opened: there may
    /// be one for each of thousands of ranks.
    void check_sizes(const detail::file_size_map& expected, std::vector<std::string>& warnings) {
        auto const advance = [&] {
            if (me.activity) me.activity->advance();
        };
        detail::file_size_map listed;
        advance();
        try {
            for (auto& info : placed.list()) listed.emplace(std::move(info.name), info.size);
            shown = listed.count(sign_name()) != 0;
        } catch (...) {  // something else in the place, perhaps
            listed.clear();
            shown = !placed.renames();
            warnings.push_back(
                "the files of this save could not be listed, so each was opened to "
                "check its size: " +
                detail::text_of(std::current_exception()));
        }
        for (auto const& [name, size] : expected) {
            advance();
            auto const there = listed.find(name);
            if (there == listed.end() || there->second != size) check_size(name, size);
        }
    }
    void check_size(const std::string& name, std::uint64_t size) {
        auto const there = size_of(name);
        if (there == size) return;
        if (!there && own_disks && may_be_apart(name)) return;
        throw error(errc::corrupt,
                    {.file = placed.describe(name),
                     .expected = std::to_string(size) + " bytes, as its writer reported",
                     .found = there ? std::to_string(*there) + " bytes" : "no such file",
                     .remedy = "all ranks must see the same directory"});
    }
    std::optional<std::uint64_t> size_of(const std::string& name) {
        return detail::if_there([&] { return std::uint64_t{placed.open(name).size()}; });
    }

    /// Whether a file may be on a disk that this rank does not see.
    bool may_be_apart(const std::string& name) const {
        auto const is_its = [&](int rank) { return detail::is_data_of(rank, name); };
        if (!apart || options.file_name) return !apart || !apart->empty();
        return std::any_of(apart->begin(), apart->end(), is_its);
    }

    /// Measured with PyTorch 2.14: about 2 kB of Python objects for each chunk, on every rank.
    void warn_of_many(const metadata& m, std::vector<std::string>& warnings) const {
        std::uint64_t chunks = 0;
        for (auto const& [fqn, entry] : m.entries)
            if (auto const* t = std::get_if<tensor_metadata>(&entry)) chunks += t->chunks.size();
        if (chunks <= options.many_chunks) return;
        warnings.push_back(std::to_string(chunks) + " chunks: each rank of PyTorch needs about " +
                           std::to_string((chunks * 2000 + 999'999) / 1'000'000) +
                           " MB to read .metadata; torch_metadata = false leaves its pickle out");
    }

    /// Checks that items stored as one share their memory.
    static void check_tied(const save_plan& plan, const std::vector<std::uint32_t>& stored_as,
                           std::span<const item_data> data) {
        for (std::size_t i = 0; i < stored_as.size(); ++i) {
            if (stored_as[i] == i) continue;
            auto const* from = std::get_if<const tensor_source*>(&data[i]);
            auto const* other = std::get_if<const tensor_source*>(&data[stored_as[i]]);
            if (from != nullptr && other != nullptr && *from == *other) continue;
            auto const* a = std::get_if<const_tensor_view>(&data[i]);
            auto const* b = std::get_if<const_tensor_view>(&data[stored_as[i]]);
            if (a == nullptr || b == nullptr || a->data != b->data || a->strides != b->strides)
                throw error(
                    errc::invalid_plan,
                    {.fqn = plan.items[i].fqn,
                     .expected = "the memory of '" + plan.items[i].tied_to + "', as tied_to says",
                     .found = "other memory"});
        }
    }

    static void release(const write_job& job, std::uint32_t item) {
        if (job.released == nullptr) return;
        (*job.released)(item);
        auto const& with = job.stored_with;
        for (auto w = std::lower_bound(with.begin(), with.end(), std::pair(item, 0u));
             w != with.end() && w->first == item; ++w)
            (*job.released)(w->second);
    }
    /// Notes the file before it exists, so that it is removed whatever happens.
    any_store::writer create(const std::string& name, std::uint64_t size) {
        note_made(name);
        return placed.create(name, size, options.sync_files);
    }
    void note_made(const std::string& name) {
        std::lock_guard const lock(files_mutex);
        made.insert(name);
    }

    void end_of_files(write_job& job, std::exception_ptr failure) {
        try {
            if (!failure && options.sync_files) placed.sync();
            if (!failure && own_disks) check_own(job);
            if (!failure) complete_results(job);
            if (!me.coordinator) job.results.warnings = placed.take_warnings();  // see finish
        } catch (...) {
            failure = std::current_exception();
        }
        if (failure) return job.done.fail(std::move(failure));
        job.done(std::move(job.results));
    }
    /// The coordinator may not see them.
    void check_own(const write_job& job) {
        for (auto const& f : job.files) {
            if (size_of(f.name) == f.size) continue;
            throw error(
                errc::corrupt,
                {.rank = me.rank,
                 .file = placed.describe(f.name),
                 .expected = std::to_string(f.size) + " bytes, as this rank wrote them",
                 .found = "no such file, or another size, on host '" + detail::host_name() + "'",
                 .remedy = "see whether something clears the disk of this host"});
        }
    }
    /// Items stored as another item get that item's location.
    static void complete_results(write_job& job) {
        auto& r = job.results;
        for (auto const& [first, item] : job.stored_with) r.items[item] = {item, r.items[first].at};
        for (auto const& f : job.files) r.file_sizes.emplace(f.name, f.size);
    }

    any_store base;    ///< As passed to the constructor.
    any_store placed;  ///< Relocated to the checkpoint, if the store supports that.
    torch_writer_options options;
    storage_setup me{};
    detail::claim<any_store> hold{};
    std::mutex files_mutex{};           ///< Protects the next member.
    std::set<std::string> made{};       ///< The files of this save, which may exist.
    std::set<std::string> published{};  ///< The files of the current checkpoint.
    std::optional<detail::running_save> running{};
    std::optional<detail::signs_of_life> signs{};
    bool shown = false;  ///< On the coordinator: a rank has made the object that shows life.
    bool own_threads;
    bool own_disks = false;
    std::optional<std::vector<int>> apart{};  ///< Ranks whose disks are others, if it is known.
    detail::pace speed;
    detail::job_pool jobs;  // last member: its threads end first
};

CAIRN_DECL torch_writer::torch_writer(any_store store, torch_writer_options options)
    : s_(std::make_unique<state>(std::move(store), std::move(options),
                                 boost::asio::any_io_executor())) {}
CAIRN_DECL torch_writer::torch_writer(any_store store, torch_writer_options options,
                                      const job_executor& jobs)
    : s_(std::make_unique<state>(std::move(store), std::move(options), jobs.get())) {}
CAIRN_DECL torch_writer::torch_writer(torch_writer&&) noexcept = default;
CAIRN_DECL torch_writer& torch_writer::operator=(torch_writer&&) noexcept = default;
CAIRN_DECL torch_writer::~torch_writer() = default;

CAIRN_DECL void torch_writer::on_own_disks(std::optional<std::vector<int>> apart) {
    s_->own_disks = true;
    s_->apart = std::move(apart);
}
CAIRN_DECL void torch_writer::reset(const checkpoint_id& id) {
    s_->reset(id);
}
CAIRN_DECL void torch_writer::set_up_writer(const storage_setup& setup) {
    s_->set_up_writer(setup);
}
CAIRN_DECL save_plan torch_writer::prepare_local_save_plan(save_plan plan) {
    return plan;
}
CAIRN_DECL std::vector<save_plan> torch_writer::prepare_global_save_plan(
    std::vector<save_plan> plans) {
    std::vector<stored_amount> stored;
    for (auto const& p : plans) stored.push_back(detail::stored_amount_of(p));
    auto names = s_->name_files(stored);
    for (std::size_t rank = 0; rank < plans.size(); ++rank)
        plans[rank].storage_data = std::move(names[rank]);
    return plans;
}
CAIRN_DECL std::vector<std::string> torch_writer::name_files(
    std::span<const stored_amount> stored) {
    return s_->name_files(stored);
}
CAIRN_DECL void torch_writer::write_data(const save_plan& plan, std::span<const item_data> data,
                                         completion<write_results> done) {
    s_->write_data(plan, data, nullptr, std::move(done));
}
CAIRN_DECL void torch_writer::write_data(const save_plan& plan, std::span<const item_data> data,
                                         const item_released& released,
                                         completion<write_results> done) {
    s_->write_data(plan, data, &released, std::move(done));
}
CAIRN_DECL void torch_writer::finish(const metadata& m, completion<commit_result> done) {
    s_->finish(m, std::nullopt, std::move(done));
}
CAIRN_DECL void torch_writer::finish(const metadata& m, commit_record record,
                                     completion<commit_result> done) {
    s_->finish(m, std::move(record), std::move(done));
}
CAIRN_DECL bool torch_writer::committed(const std::string& save_id) {
    return s_->committed(save_id);
}
CAIRN_DECL bool torch_writer::abandon() noexcept {
    return s_->abandon();
}
CAIRN_DECL void torch_writer::sweep(save_end end, completion<sweep_result> done) {
    s_->sweep(end, std::move(done));
}
}  // namespace cairn

#endif
