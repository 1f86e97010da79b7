// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_IMPL_TORCH_READER_IPP
#define CAIRN_STORAGE_IMPL_TORCH_READER_IPP

#include <cairn/format/native/index.hpp>
#include <cairn/metadata/check.hpp>
#include <cairn/metadata/detail/entry_cursor.hpp>
#include <cairn/object_store/detail/read_whole.hpp>
#include <cairn/planner/detail/item_bytes.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/claim.hpp>
#include <cairn/storage/detail/data_file.hpp>
#include <cairn/storage/detail/file_sizes.hpp>
#include <cairn/storage/detail/job_pool.hpp>
#include <cairn/storage/detail/other_formats.hpp>
#include <cairn/storage/detail/read_payload.hpp>
#include <cairn/storage/detail/running_reads.hpp>
#include <cairn/storage/detail/shared_windows.hpp>
#include <cairn/storage/detail/threads_per_rank.hpp>
#include <cairn/storage/detail/unverified.hpp>
#include <cairn/storage/detail/wanted_by_others.hpp>
#include <cairn/storage/torch_reader.hpp>

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
struct torch_reader::state {
    state(detail::erased_store at, torch_reader_options o, boost::asio::any_io_executor on)
        : base(std::move(at)), placed(base), options(o), jobs(options.thread_count, std::move(on)) {
    }

    /// The bytes of a stored item: of a chunk, or of a value.
    struct stored_item {
        const std::string* file;
        std::uint64_t offset, length;
        const tensor_metadata* tensor;  ///< Null: a value.
        std::size_t chunk;
        const storage_location* value;
    };
    /// Finds where the items of a plan are stored.
    class stored_items {
    public:
        /// @param m  Null: the reader was not set up.
        explicit stored_items(const metadata* m) {
            if (m != nullptr) entries_.emplace(*m);
        }
        /// @throws error errc::missing_key for an item that is not in the metadata
        stored_item of(const read_item& item) {
            if (!entries_) {  // not set up
            } else if (item.kind == item_kind::value) {
                if (auto const* o = entries_->value(item.fqn))
                    return {&o->at.file, o->at.offset, o->at.length, nullptr, 0, &o->at};
            } else if (auto const* t = entries_->tensor(item.fqn)) {
                if (auto const k = item.chunk; k < t->chunks.size()) {
                    auto const& at = t->chunks.row_of(k);
                    return {&t->chunks.file(k), at.offset, at.length, t, k, nullptr};
                }
            }
            throw error(errc::missing_key,
                        {.fqn = item.fqn, .expected = "an item that the metadata names"});
        }

    private:
        std::optional<detail::entry_cursor> entries_{};
    };
    /// All reads of one stored item; `items` are indices into the plan.
    struct item_group {
        stored_item from;
        std::vector<std::uint32_t> items{};
        detail::payload_slice slice{};
        /// Of all slices; null if there is one.
        std::shared_ptr<detail::shared_windows> windows{};
    };
    using open_file = detail::open_file<detail::erased_store::reader>;
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
        /// Returns memory for a slab; there are as many as threads that read.
        std::vector<std::byte> take_scratch() {
            std::lock_guard const lock(m);
            if (scratch.empty()) return {};
            auto s = std::move(scratch.back());
            scratch.pop_back();
            return s;
        }
        void give_back(std::vector<std::byte> s) {
            std::lock_guard const lock(m);
            scratch.push_back(std::move(s));
        }
        std::mutex m;
        std::mutex objects;
        std::vector<std::vector<std::byte>> scratch;
        detail::read_slabs slabs{};
        completion<read_result> done;
    };

    void reset(const checkpoint_id& id) {
        auto const at = detail::metadata_of(id);
        metadata_file = at.name;
        if (!id.empty()) placed = at.place.empty() ? base : base.at(at.place);
        meta = nullptr;
        running.reset();
        unverified.reset();
    }

    /// A removal that sees this leaves the checkpoint alone; one that has begun before leads to an
    /// error of the load.
    void note_reading(const std::string& save_id) {
        if (running || save_id.empty()) return;
        if (options.announce && me.coordinator)
            running.emplace(save_id, placed);
        else
            running.emplace(save_id);
    }
    metadata read_metadata() {
        auto const name = placed.describe(metadata_file);
        try {
            auto bytes = metadata_bytes();
            for (int again = 3;; --again) {
                auto file = format::native::parse_metadata_file(bytes);
                check_metadata(file.meta);
                // A concurrent save may have replaced it, and removed the old data files.
                if (detail::note_file_sizes(placed, file.meta) || again == 0)
                    return std::move(file.meta);
                auto now = metadata_bytes();
                if (now == bytes) return std::move(file.meta);
                bytes = std::move(now);
            }
        } catch (const error& e) {
            auto where = e.context();
            if (where.file.empty()) where.file = name;
            if (e.code() == make_error_code(errc::not_found)) {
                refuse_other_format();
                where.remedy =
                    "a save that did not finish leaves none: is this the directory of a "
                    "complete checkpoint?";
            }
            throw error(e.code(), std::move(where));
        }
    }

    void set_up_reader(const metadata& m, const storage_setup& rank) {
        meta = &m;
        me = rank;
        note_reading(m.save_id);
        unverified.note_metadata(m);
        others_want = {};
        if (options.thread_count == 0) jobs.set_size(detail::threads_per_rank(me.world_size));
    }
    load_plan prepare_local_load_plan(load_plan plan) {
        struct wanted {
            const std::string* fqn;
            std::uint64_t end = 0;  ///< End of the last read in it.
        };
        std::map<std::string_view, wanted> files;
        stored_items stored(meta);
        for (auto const& item : plan.items) {
            auto const at = stored.of(item);
            auto& end = files.try_emplace(*at.file, wanted{&item.fqn}).first->second.end;
            end = std::max(end,
                           at.length > UINT64_MAX - at.offset ? UINT64_MAX : at.offset + at.length);
        }
        for (auto const& [name, w] : files) {
            std::string const file(name);
            auto const end = w.end;
            naming(*w.fqn, file, [&] {
                auto r = detail::open_data_file(placed, file);
                detail::check_size(placed, file, *meta, r.size(), end);
            });
            if (me.activity) me.activity->advance();
        }
        if (meta != nullptr) others_want = detail::wanted_by_others(plan, *meta, me.world_size);
        return plan;
    }

    std::optional<chunk_checksum> checksum(const std::string& fqn, std::size_t chunk) {
        auto const* t = meta == nullptr ? nullptr : meta->tensor(fqn);
        if (t == nullptr || chunk >= t->chunks.size()) return {};
        auto const c = t->chunks[chunk];
        if (auto const& l = c.at.layout)
            return chunk_checksum{l->payload_crc, l->payload_length, 0, l->strides};
        std::optional<chunk_checksum> found;
        try {
            naming(fqn, c.at.file, [&] {
                open_file file(detail::open_data_file(placed, c.at.file),
                               placed.describe(c.at.file), me,
                               [&] { return placed.open(c.at.file); });
                auto const p = detail::find_payload(file, fqn, *t, c, meta->save_id);
                if (p.checked && !p.big_endian)
                    found = chunk_checksum{p.crc, p.length, p.storage_offset, p.strides};
            });
        } catch (const error& e) {
            if (e.code() != make_error_code(errc::unsupported)) throw;
        }
        return found;
    }

    void read_data(const load_plan& plan, const read_target& target, completion<read_result> done) {
        auto job = std::make_shared<read_job>(plan, target, std::move(done));
        try {
            job->files = group_by_file(plan);
        } catch (...) {
            return job->done.fail(std::current_exception());
        }
        if (job->files.empty()) return job->done(result());
        auto const per_file = (jobs.jobs_per_file() + job->files.size() - 1) / job->files.size();
        try {
            for (auto& [name, reads] : job->files) {
                slice_large(plan, per_file, reads.items);
                split(name, reads, per_file, job->parts);
            }
        } catch (...) {
            return job->done.fail(std::current_exception());
        }
        jobs.run(
            job->parts.size(),
            [this, job](std::size_t i, auto const& failed) {
                auto const& part = job->parts[i];
                read_part(*job, part, failed);
                std::lock_guard const lock(part.reads->m);
                if (--part.reads->left == 0) part.reads->file.reset();
            },
            [this, job](std::exception_ptr failure) {
                try {
                    if (!failure) return job->done(result());
                } catch (...) {  // out of memory
                    failure = std::current_exception();
                }
                job->done.fail(std::move(failure));
            });
    }

    /// @throws error errc::unsupported if another checkpoint stands here
    void refuse_other_format() {
        std::optional<error_context> other;
        try {
            other = detail::other_format(placed);
        } catch (const error&) {  // there is no such place
        }
        if (!other) return;
        other->file = placed.describe(".");
        throw error(errc::unsupported, std::move(*other));
    }

    byte_vector metadata_bytes() { return detail::read_whole(placed, metadata_file); }

    read_result result() const { return {unverified.lines()}; }

    /// Groups items by file, in order of their offsets; items of one chunk together, so that it is
    /// read once.
    file_groups group_by_file(const load_plan& plan) const {
        file_groups files;
        stored_items stored(meta);
        for (std::uint32_t i = 0; i < plan.items.size(); ++i) {
            auto const from = stored.of(plan.items[i]);
            files[*from.file].items.push_back({from, {i}});
        }
        for (auto& [name, reads] : files) {
            auto& groups = reads.items;
            std::stable_sort(groups.begin(), groups.end(),
                             [](const item_group& a, const item_group& b) {
                                 return a.from.offset < b.from.offset;
                             });
            std::size_t kept = 0;
            for (std::size_t i = 1; i < groups.size(); ++i) {
                if (groups[i].from.offset == groups[kept].from.offset)
                    groups[kept].items.push_back(groups[i].items.front());
                else if (++kept != i)
                    groups[kept] = std::move(groups[i]);
            }
            groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(kept) + 1, groups.end());
        }
        return files;
    }

    /// A smaller share of a tensor is not worth a thread's while.
    static constexpr std::uint64_t least_slice = std::uint64_t{8} << 20;

    /// Divides what is large among at most `most` threads, where a part of it can be checked alone.
    void slice_large(const load_plan& plan, std::size_t most,
                     std::vector<item_group>& groups) const {
        if (most < 2) return;
        std::vector<item_group> sliced;
        for (auto& g : groups) {
            std::uint64_t wanted = 0;
            if (g.from.tensor != nullptr &&
                g.from.tensor->chunks.row_of(g.from.chunk).is_divisible())
                for (auto i : g.items) wanted += detail::bytes_of(plan.items[i], g.from.tensor);
            auto const n =
                static_cast<std::uint32_t>(std::min<std::uint64_t>(most, wanted / least_slice));
            if (n < 2) {
                sliced.push_back(std::move(g));
                continue;
            }
            g.windows = std::make_shared<detail::shared_windows>(n);
            for (std::uint32_t k = 0; k < n; ++k) {
                g.slice = {k, n};
                sliced.push_back(g);
            }
        }
        groups = std::move(sliced);
    }

    /// Adds at most `most` parts of a file, of about as many stored bytes each.
    static void split(const std::string& name, file_reads& reads, std::size_t most,
                      std::vector<file_part>& parts) {
        auto const length = [](const item_group& g) {
            return static_cast<double>(g.from.length) / g.slice.count;
        };
        double all = 0, so_far = 0;  // lengths that are not to be trusted overflow an integer
        for (auto const& g : reads.items) all += length(g);
        std::size_t begin = 0;
        for (std::size_t i = 0; i < reads.items.size(); ++i) {
            so_far += length(reads.items[i]);
            // As near as possible to where equal parts would end.
            auto const left = all * static_cast<double>(reads.left + 1) - so_far * double(most);
            if (i + 1 != reads.items.size() && left > 0 &&
                length(reads.items[i + 1]) * double(most) - left <= left)
                continue;
            parts.push_back({&name, &reads, begin, i + 1});
            ++reads.left;
            begin = i + 1;
        }
    }

    /// Adds the tensor and the file to the errors of `f()`.
    template <class F>
    void naming(const std::string& fqn, const std::string& file, F&& f) {
        try {
            detail::of_data_file(placed, file, std::forward<F>(f));
        } catch (const error& e) {
            auto where = e.context();
            if (where.fqn.empty()) where.fqn = fqn;
            if (where.file.empty()) where.file = placed.describe(file);
            throw error(e.code(), std::move(where));
        }
    }

    std::shared_ptr<open_file> open(const std::string& name, file_reads& reads) {
        std::lock_guard const lock(reads.m);
        if (!reads.file) {
            reads.file = std::make_shared<open_file>(detail::open_data_file(placed, name),
                                                     placed.describe(name), me,
                                                     [this, name] { return placed.open(name); });
            detail::check_size(placed, name, *meta, reads.file->size());
        }
        return reads.file;
    }

    void read_part(read_job& job, const file_part& part, auto const& failed) {
        auto const& name = *part.name;
        auto const file = open(name, *part.reads);
        auto scratch = job.take_scratch();
        for (auto i = part.begin; i < part.end && !failed(); ++i) {
            auto const& g = part.reads->items[i];
            auto const& fqn = job.plan.items[g.items.front()].fqn;
            naming(fqn, name, [&] {
                if (g.from.tensor != nullptr)
                    read_tensor(job, *file, fqn, g, scratch);
                else
                    read_object(job, *file, fqn, g);
            });
        }
        job.give_back(std::move(scratch));
    }

    template <class File>
    void read_tensor(read_job& job, File& file, const std::string& fqn, const item_group& g,
                     std::vector<std::byte>& scratch) {
        auto const& t = *g.from.tensor;
        auto payload = detail::find_payload(file, fqn, t, t.chunks[g.from.chunk], meta->save_id);
        if (!payload.checked) unverified.note_item(file.described());
        std::vector<detail::payload_part> parts;
        auto const resolve = [&] {
            std::vector<tensor_view> all;
            for (auto i : g.items) all.push_back(job.target.resolve_converted(job.plan.items[i]));
            return all;
        };
        auto const views = g.windows ? g.windows->get(resolve) : resolve();
        for (std::size_t k = 0; k < g.items.size(); ++k) {
            auto const& item = job.plan.items[g.items[k]];
            parts.push_back({box(item.source_offsets, item.shape), views[k]});
        }
        // Asked last: it is a search.
        bool const usual = payload.length <= detail::usual_read_size || others_want.has(fqn);
        auto* const slabs = usual ? nullptr : &job.slabs;
        detail::payload_reader(file, fqn, std::move(payload), std::move(parts), scratch, slabs)
            .run(g.slice);
        if (g.windows && !g.windows->complete_one()) return;
        for (std::size_t k = 0; k < g.items.size(); ++k)
            job.target.commit_tensor(job.plan.items[g.items[k]], views[k]);
    }

    template <class File>
    void read_object(read_job& job, File& file, const std::string& fqn, const item_group& g) {
        auto const& at = *g.from.value;
        detail::check_item(file, fqn, at);
        std::vector<std::byte> bytes(static_cast<std::size_t>(at.length));
        file.read(at.offset, bytes);
        if (at.layout) {
            (void)file.footer(meta->save_id);
            if (format::crc32(bytes) != at.layout->item_crc) {
                throw error(errc::checksum_mismatch, {.fqn = fqn,
                                                      .file = file.described(),
                                                      .expected = "the value as it was written",
                                                      .found = "other bytes"});
            }
        }
        bool checked = false;
        auto v = format::torch::decode_value(bytes, &checked);
        if (!checked) unverified.note_item(file.described());
        if (auto const* o = v.get_if<value::opaque_t>()) unverified.note_opaque(fqn, *o);
        file.delivered(at.length * g.items.size());
        std::lock_guard const lock(job.objects);
        for (auto i : g.items) job.target.load_value(job.plan.items[i], v);
    }

    detail::erased_store base;    ///< As passed to the constructor.
    detail::erased_store placed;  ///< Relocated to the checkpoint, if the store supports that.
    std::string metadata_file{detail::metadata_name};
    torch_reader_options options;
    const metadata* meta = nullptr;  ///< The caller's, of the load that was set up.
    detail::wanted_by_others others_want{};
    detail::unverified unverified{};
    std::optional<detail::running_read> running{};
    storage_setup me{};
    detail::job_pool jobs;  // last member: its threads end first
};

CAIRN_DECL torch_reader::torch_reader(detail::erased_store store, torch_reader_options options,
                                      boost::asio::any_io_executor jobs)
    : s_(std::make_unique<state>(std::move(store), options, std::move(jobs))) {}
CAIRN_DECL torch_reader::torch_reader(torch_reader&&) noexcept = default;
CAIRN_DECL torch_reader& torch_reader::operator=(torch_reader&&) noexcept = default;
CAIRN_DECL torch_reader::~torch_reader() = default;

CAIRN_DECL void torch_reader::reset(const checkpoint_id& id) {
    s_->reset(id);
}
CAIRN_DECL metadata torch_reader::read_metadata() {
    return s_->read_metadata();
}
CAIRN_DECL void torch_reader::set_up_reader(const metadata& m, const storage_setup& me) {
    s_->set_up_reader(m, me);
}
CAIRN_DECL load_plan torch_reader::prepare_local_load_plan(load_plan plan) {
    return s_->prepare_local_load_plan(std::move(plan));
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
    s_->read_data(plan, target, std::move(done));
}

}  // namespace cairn

#endif
