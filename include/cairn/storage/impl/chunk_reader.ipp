// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_IMPL_CHUNK_READER_IPP
#define CAIRN_STORAGE_IMPL_CHUNK_READER_IPP

#include <cairn/detail/parallel.hpp>
#include <cairn/object_store/detail/heeded_stop.hpp>
#include <cairn/planner/detail/item_bytes.hpp>
#include <cairn/storage/chunk_reader.hpp>
#include <cairn/storage/detail/checked_payloads.hpp>
#include <cairn/storage/detail/data_file.hpp>
#include <cairn/storage/detail/file_versions.hpp>
#include <cairn/storage/detail/item_groups.hpp>
#include <cairn/storage/detail/job_pool.hpp>
#include <cairn/storage/detail/read_ahead.hpp>
#include <cairn/storage/detail/read_payload.hpp>
#include <cairn/storage/detail/recent_files.hpp>
#include <cairn/storage/detail/row_major_payload.hpp>
#include <cairn/storage/detail/shared_windows.hpp>
#include <cairn/storage/detail/stored_items.hpp>
#include <cairn/storage/detail/wanted_by_others.hpp>
#include <cairn/storage/job_executor.hpp>
#include <cairn/storage/threads_per_rank.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

/// One rank's loads, one after the other. Never moved, because its pool's tasks refer to it.
struct chunk_reader::state {
    state(any_store at, item_finder f, int threads, boost::asio::any_io_executor on)
        : base(std::move(at)), placed(base), finder(std::move(f)), thread_count(threads),
          jobs(threads, std::move(on)) {
        by_location = !finder.find_chunk;
        if (by_location) finder.find_chunk = detail::row_major_payload;
    }

    using item_group = detail::item_group;
    /// One file, which several jobs may read: it is open while one of them is left.
    struct file_reads {
        std::vector<item_group> items{};  ///< In the order of their offsets.
        std::size_t left = 0;             ///< Jobs.
        std::mutex m{};                   ///< Protects the members above and below.
        std::shared_ptr<open_file> file{};
    };
    using file_groups = std::map<std::string, file_reads>;
    /// Items of one file in a row, which one job reads.
    struct file_part {
        const std::string* name;
        file_reads* reads;
        std::size_t begin, end;
    };
    struct read_job {
        read_job(const load_plan& p, const read_target& t, completion<read_result> d)
            : plan(p), target(t), done(std::move(d)) {}
        const load_plan& plan;
        const read_target& target;
        file_groups files;
        std::vector<file_part> parts;
        /// Memory of a thread that reads, for a slab and for what is read ahead.
        struct thread_memory {
            std::vector<std::byte> scratch{};
            std::shared_ptr<open_file::read_bytes> ahead{};
        };
        thread_memory take_memory() {
            std::lock_guard const lock(m);
            if (memory.empty()) return {};
            auto one = std::move(memory.back());
            memory.pop_back();
            return one;
        }
        void give_back(thread_memory one) {
            std::lock_guard const lock(m);
            memory.push_back(std::move(one));
        }
        std::mutex m;
        std::mutex values;
        std::vector<thread_memory> memory;
        detail::read_slabs slabs{};
        completion<read_result> done;
    };

    void reset(const checkpoint_id& id) {
        placed = id.empty() ? base : base.at(id);
        meta = nullptr;
        me = {};
        planned.clear();
        own_notes.reset();
    }
    unverified& notes() { return me.checked ? me.checked->notes : own_notes; }
    void set_up_reader(const metadata& m, const storage_setup& rank) {
        meta = &m;
        me = rank;
        others_want = {};
        recent.clear();
        planned.clear();
        if (thread_count != 0) return;
        auto const cores = threads_per_rank(me.world_size);
        jobs.set_size(std::max(cores, static_cast<int>(placed.requests_in_flight())));
    }
    load_plan prepare_local_load_plan(load_plan plan) {
        struct wanted {
            const std::string* fqn;
            std::uint64_t end = 0;  ///< End of the last read in it.
        };
        std::map<std::string_view, wanted> files;
        detail::stored_items stored(meta);
        for (auto const& item : plan.items) {
            auto const at = stored.of(item);
            auto& end = files.try_emplace(*at.file, wanted{&item.fqn}).first->second.end;
            end = std::max(end,
                           at.length > UINT64_MAX - at.offset ? UINT64_MAX : at.offset + at.length);
        }
        std::vector<std::pair<std::string, wanted>> const all(files.begin(), files.end());
        auto const threads = std::min(placed.requests_in_flight(), jobs.jobs_per_file());
        detail::for_each_in_parallel(threads, all.size(), [&](std::size_t i) {
            detail::heeded_stop const heeded(me.stop);
            auto const& file = all[i].first;
            auto const& w = all[i].second;
            detail::naming(placed, *w.fqn, file, [&] {
                auto opened = open(file);
                detail::check_size(placed, file, *meta, opened->size(), w.end, finder.index_name);
                if (placed.requests_in_flight() > 1) planned.keep(file, std::move(opened));
            });
            if (me.activity) me.activity->advance();
        });
        if (meta != nullptr) others_want = detail::wanted_by_others(plan, *meta, me.world_size);
        return plan;
    }

    std::optional<chunk_checksum> checksum(const std::string& fqn, std::size_t chunk) {
        auto const* t = meta == nullptr || by_location ? nullptr : meta->tensor(fqn);
        if (t == nullptr || chunk >= t->chunks.size()) return {};
        auto const& name = t->chunks.file(chunk);
        std::optional<chunk_checksum> found;
        try {
            detail::naming(placed, fqn, name, [&] {
                auto const file = open(name);
                auto const p = finder.find_chunk(*file, fqn, *t, chunk);
                check_found(p, *file, fqn, *t, chunk);
                if (p.crc && !p.is_changed())
                    found = chunk_checksum{*p.crc, p.length, p.first, p.strides};
            });
        } catch (const error& e) {
            if (e.code() != make_error_code(errc::unsupported)) throw;
        }
        return found;
    }

    /// Divides what a plan reads into parts, each of which a job reads.
    void divide(read_job& job) {
        double all = 0;
        for (auto& [name, groups] : detail::group_by_file(job.plan, meta)) {
            all += detail::stored_bytes(groups);
            job.files[name].items = std::move(groups);
        }
        for (auto& [name, reads] : job.files) {
            // Where one file has most of what is read, most jobs read that.
            auto const n = 0.999 * static_cast<double>(jobs.jobs_per_file());
            auto const most =
                1 + static_cast<std::size_t>(n * detail::stored_bytes(reads.items) / all);
            slice_large(job.plan, most, reads.items);
            if (costs() && jobs.jobs_per_file() > 1)
                split_by_requests(job.plan, name, reads, all / n, job.parts);
            else
                split(name, reads, most, job.parts);
        }
    }

    void read_data(const load_plan& plan, const read_target& target, completion<read_result> done) {
        auto job = std::make_shared<read_job>(plan, target, std::move(done));
        try {
            divide(*job);
        } catch (...) {
            return job->done.fail(std::current_exception());
        }
        if (job->files.empty()) return job->done(result());
        jobs.run(
            job->parts.size(),
            [this, job](std::size_t i, auto const& failed) {
                detail::heeded_stop const heeded(me.stop);
                auto const& part = job->parts[i];
                auto memory = job->take_memory();
                std::optional<open_file::lookahead> ahead;
                auto known = part.begin;  // groups before this one were looked at for the lookahead
                for (auto k = part.begin; k < part.end && !failed(); ++k) {
                    auto const& g = part.reads->items[k];
                    auto const& fqn = job->plan.items[g.items.front()].fqn;
                    detail::naming(placed, fqn, *part.name, [&] {
                        auto const file = open(*part.name, *part.reads);
                        auto const at = [&](auto n) {
                            return stretch(job->plan, part.reads->items[n]);
                        };
                        if (k == known)
                            known = detail::read_ahead(*file, k, part.end, ahead, memory.ahead,
                                                       !meta->save_id.empty(), at);
                        if (g.from.tensor != nullptr)
                            read_chunks(*job, *file, g, memory.scratch);
                        else
                            read_value(*job, *file, fqn, g);
                    });
                }
                if (ahead) memory.ahead = ahead->take();
                ahead.reset();  // it refers to the file
                job->give_back(std::move(memory));
                std::lock_guard const lock(part.reads->m);
                if (--part.reads->left != 0) return;
                auto const file = std::exchange(part.reads->file, {});
                // A file that is written in place, as torch.save does, stays open.
                if (file && !failed()) {
                    detail::check_version(placed, *part.name, meta, *file);
                    if (keeps(*part.reads)) planned.keep(*part.name, file);
                }
            },
            [this, job](std::exception_ptr failure) {
                try {
                    if (!failure) return job->done(result());
                } catch (...) {  // out of memory
                    failure = std::current_exception();
                }
                job->done.fail(std::move(failure));
            },
            me.in_pieces);
    }
    /// Lines that grow with what was read would make many small reads quadratic.
    read_result result() {
        if (me.in_pieces && me.checked) return {};
        return {notes().lines()};
    }

    /// A smaller share of a tensor is not worth a thread's while.
    static constexpr std::uint64_t least_slice = std::uint64_t{8} << 20;

    /// Divides large chunks among at most `most` threads, where a part of a chunk can be checked
    /// alone; where requests cost, between two of them.
    void slice_large(const load_plan& plan, std::size_t most,
                     std::vector<item_group>& groups) const {
        if (most < 2) return;
        std::uint64_t const request = planned.read_size();
        std::vector<item_group> sliced;
        detail::stored_items stored(meta);
        for (auto& g : groups) {
            std::uint64_t wanted = 0;
            if (std::all_of(g.items.begin(), g.items.end(),
                            [&](auto i) { return is_divisible(stored.of(plan.items[i])); }))
                for (auto i : g.items)
                    wanted += detail::read_bytes_of(plan.items[i], stored.of(plan.items[i]).tensor);
            auto const shares =
                costs() ? wanted / request + (wanted % request != 0 ? 1 : 0) : wanted / least_slice;
            auto const n = static_cast<std::uint32_t>(std::min<std::uint64_t>(most, shares));
            if (n < 2) {
                sliced.push_back(std::move(g));
                continue;
            }
            g.windows = std::make_shared<detail::shared_windows>(n);
            if (costs()) g.slice.unit = request;
            for (std::uint32_t k = 0; k < n; ++k) {
                g.slice.index = k;
                g.slice.count = n;
                sliced.push_back(g);
            }
        }
        groups = std::move(sliced);
    }

    /// Adds at most `most` parts of a file, of about as many stored bytes each.
    static void split(const std::string& name, file_reads& reads, std::size_t most,
                      std::vector<file_part>& parts) {
        double const all = detail::stored_bytes(reads.items);
        double so_far = 0;
        std::size_t begin = 0;
        for (std::size_t i = 0; i < reads.items.size(); ++i) {
            so_far += detail::stored_bytes(reads.items[i]);
            // As close as possible to the end of equal parts.
            auto const left = all * static_cast<double>(reads.left + 1) - so_far * double(most);
            if (i + 1 != reads.items.size() && left > 0 &&
                detail::stored_bytes(reads.items[i + 1]) * double(most) - left <= left)
                continue;
            parts.push_back({&name, &reads, begin, i + 1});
            ++reads.left;
            begin = i + 1;
        }
    }

    /// Whether requests cost, so that the store prefers few.
    bool costs() const { return planned.read_size() > detail::usual_read_size; }

    /// Adds parts of a file that take a request each, or several for little: threads take one part
    /// after the other, and no request ends where another thread's share begins.
    /// @param share  The stored bytes for each thread: where there are few, requests are smaller.
    void split_by_requests(const load_plan& plan, const std::string& name, file_reads& reads,
                           double share, std::vector<file_part>& parts) const {
        std::uint64_t const request = planned.read_size();
        auto const enough = static_cast<std::uint64_t>(
            std::min(static_cast<double>(request),
                     std::max(static_cast<double>(detail::cost_of_request), share)));
        auto const at = [&](std::size_t n) { return stretch(plan, reads.items[n]); };
        std::size_t begin = 0;
        double read = 0;
        for (std::size_t i = 0; i < reads.items.size();) {
            auto const end = std::max(
                i + 1,
                detail::join_items(i, reads.items.size(), request, enough, UINT64_MAX, at).end);
            for (; i < end; ++i) read += detail::stored_bytes(reads.items[i]);
            if (i != reads.items.size() && 2 * read < static_cast<double>(enough)) continue;
            parts.push_back({&name, &reads, begin, i});
            ++reads.left;
            begin = i;
            read = 0;
        }
    }

    /// Opens a data file, which is missing if it does not exist, now or when it is read.
    std::shared_ptr<open_file> open(const std::string& name) {
        auto again = [this, name] {
            return detail::open_known_version(placed, name, meta, finder.index_name, me.stop);
        };
        return detail::of_data_file(
            placed, name,
            [&] { return std::make_shared<open_file>(again(), placed.describe(name), me, again); },
            finder.index_name);
    }
    std::shared_ptr<open_file> open(const std::string& name, file_reads& reads) {
        std::lock_guard const lock(reads.m);
        auto const make = [&] {
            if (auto file = planned.take(name)) return file;
            auto file = open(name);
            detail::check_size(placed, name, *meta, file->size(), 0, finder.index_name);
            return file;
        };
        if (!reads.file) reads.file = me.in_pieces ? recent.get(name, make) : make();
        return reads.file;
    }

    /// Whether a file that was read stays open, where requests cost: tensors, which are read after
    /// values, are likely to need it and its footer once more.
    bool keeps(const file_reads& reads) const {
        return placed.requests_in_flight() > 1 && !me.in_pieces &&
               reads.items.front().from.tensor == nullptr;
    }

    /// What is read of a group, for `read_ahead`.
    detail::stretch_of_item stretch(const load_plan& plan, const item_group& g) const {
        if (g.slice.count != 1) return {g.from.offset, g.from.length, 0, false};
        std::uint64_t wanted = g.from.tensor == nullptr ? g.from.length : 0;
        detail::stored_items stored(meta);
        if (g.from.tensor != nullptr)
            for (auto i : g.items)
                wanted += detail::read_bytes_of(plan.items[i], stored.of(plan.items[i]).tensor);
        return {g.from.offset, g.from.length, g.from.length - std::min(g.from.length, wanted),
                true};
    }

    /// Whether several threads may read a chunk.
    bool is_divisible(const detail::stored_item& i) const {
        if (i.tensor == nullptr) return false;
        return finder.is_divisible ? finder.is_divisible(*i.tensor, i.chunk) : by_location;
    }
    static void check_found(const payload& p, const open_file& file, const std::string& fqn,
                            const tensor_metadata& t, std::size_t chunk) {
        if (p.type == t.type && p.shape == index_vector(t.chunks.lengths(chunk))) return;
        throw error(errc::corrupt,
                    {.fqn = fqn,
                     .file = file.described(),
                     .expected = std::string(name_of(t.type)) + " of shape " +
                                 to_string(index_vector(t.chunks.lengths(chunk))),
                     .found = std::string(name_of(p.type)) + " of shape " + to_string(p.shape)});
    }
    void read_chunks(read_job& job, open_file& file, const item_group& g,
                     std::vector<std::byte>& scratch) {
        auto const item = [&](std::size_t k) -> const read_item& {
            return job.plan.items[g.items[k]];
        };
        auto const resolve = [&] {
            std::vector<tensor_view> all;
            for (auto i : g.items) all.push_back(job.target.resolve_converted(job.plan.items[i]));
            return all;
        };
        auto const views = g.windows ? g.windows->get(resolve) : resolve();
        detail::chunks_by_bytes found;
        detail::wanted_chunk* chunk = nullptr;
        detail::stored_items stored(meta);
        std::optional<detail::stored_item> before;
        const finer_dims* before_in = nullptr;
        for (std::size_t k = 0; k < g.items.size(); ++k) {
            auto const& i = item(k);
            auto const at = stored.of(i);
            auto const* const in = job.target.finer ? job.target.finer(i) : nullptr;
            bool const is_same = before && detail::is_same_chunk(*before, at);
            if (!is_same || in != before_in) {
                auto p = finder.find_chunk(file, i.fqn, *at.tensor, at.chunk);
                check_found(p, file, i.fqn, *at.tensor, at.chunk);
                if (!p.has_checksum() && !is_same && g.slice.index == 0 &&
                    (!me.checked || me.checked->is_first(file.described(), p.offset)))
                    notes().note_item(file.described());
                chunk = &found.add(i.fqn, std::move(p), in);
            }
            before = at;
            before_in = in;
            chunk->parts.push_back({box(i.source_offsets, i.shape), views[k]});
        }
        for (auto& chunks : found.all) {
            // Checked last, because it is a search.
            bool const usual = chunks.front().stored.length <= detail::usual_read_size ||
                               others_want.has(chunks.front().fqn);
            detail::payload_reader reader(file, std::move(chunks), scratch,
                                          usual ? nullptr : &job.slabs);
            if (reader.leaves_unchecked() && g.slice.index == 0)
                notes().note_part(file.described());
            reader.run(g.slice, found.all.size() == 1 ? g.windows.get() : nullptr);
        }
        if (g.windows && !g.windows->complete_one()) return;
        for (std::size_t k = 0; k < g.items.size(); ++k)
            job.target.commit_tensor(item(k), views[k]);
    }

    void read_value(read_job& job, open_file& file, const std::string& fqn, const item_group& g) {
        auto const& at = *g.from.value;
        if (!finder.read_value)
            throw error(errc::unsupported,
                        {.fqn = fqn,
                         .file = file.described(),
                         .expected = "a tensor, because this format has no values",
                         .found = "a value"});
        auto const v = finder.read_value(file, fqn, at);
        file.delivered(at.length * g.items.size());
        std::lock_guard const lock(job.values);
        for (auto i : g.items) job.target.load_value(job.plan.items[i], v);
    }

    any_store base;    ///< As passed to the constructor.
    any_store placed;  ///< Relocated to the checkpoint, if the store supports that.
    item_finder finder;
    bool by_location = false;  ///< The format has no finder.
    int thread_count;
    const metadata* meta = nullptr;  ///< The caller's, of the load that was set up.
    detail::wanted_by_others others_want{};
    unverified own_notes{};
    detail::recent_files recent{};    ///< With `in_pieces`.
    detail::planned_files planned{};  ///< Where requests cost.
    storage_setup me{};
    detail::job_pool jobs;  // last member: its threads end first
};

CAIRN_DECL chunk_reader::chunk_reader(any_store store, item_finder finder, int thread_count)
    : chunk_reader(std::move(store), std::move(finder), thread_count, job_executor()) {}
CAIRN_DECL chunk_reader::chunk_reader(any_store store, item_finder finder, int thread_count,
                                      const job_executor& jobs)
    : s_(std::make_unique<state>(std::move(store), std::move(finder), thread_count, jobs.get())) {}
CAIRN_DECL chunk_reader::chunk_reader(chunk_reader&&) noexcept = default;
CAIRN_DECL chunk_reader& chunk_reader::operator=(chunk_reader&&) noexcept = default;
CAIRN_DECL chunk_reader::~chunk_reader() = default;

CAIRN_DECL void chunk_reader::reset(const checkpoint_id& id) {
    s_->reset(id);
}
CAIRN_DECL any_store& chunk_reader::place() noexcept {
    return s_->placed;
}
CAIRN_DECL unverified& chunk_reader::notes() noexcept {
    return s_->notes();
}
CAIRN_DECL void chunk_reader::set_up_reader(const metadata& m, const storage_setup& me) {
    s_->set_up_reader(m, me);
}
CAIRN_DECL load_plan chunk_reader::prepare_local_load_plan(load_plan plan) {
    return s_->prepare_local_load_plan(std::move(plan));
}
CAIRN_DECL std::vector<load_plan> chunk_reader::prepare_global_load_plan(
    std::vector<load_plan> plans) {
    return plans;
}
CAIRN_DECL std::optional<chunk_checksum> chunk_reader::checksum(const std::string& fqn,
                                                                std::size_t chunk) {
    return s_->checksum(fqn, chunk);
}
CAIRN_DECL void chunk_reader::read_data(const load_plan& plan, const read_target& target,
                                        completion<read_result> done) {
    s_->read_data(plan, target, std::move(done));
}
CAIRN_DECL void chunk_reader::check_unchanged() {
    if (s_->meta != nullptr) detail::check_file_versions(s_->placed, *s_->meta, s_->me);
}

}  // namespace cairn

#endif
