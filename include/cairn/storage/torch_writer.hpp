// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_TORCH_WRITER_HPP
#define CAIRN_STORAGE_TORCH_WRITER_HPP

#include <cairn/planner/check_plan.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/claim.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/file_names.hpp>
#include <cairn/storage/torch_options.hpp>
#include <cairn/storage/write_file.hpp>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

/// Writes PyTorch's DCP format into any ObjectStore: DCP's `FileSystemWriter`, with checksums and
/// a commit that a crash cannot spoil.
///
/// Each rank has its own. One save at a time. Files are written on a pool of
/// `options.thread_count` threads; contiguous tensors go from the caller's memory to the store
/// without a copy. See docs/format.md for the bytes and docs/decisions/0004-commit.md for the
/// commit.
template <ObjectStore Store>
class torch_writer {
public:
    explicit torch_writer(Store store, torch_writer_options options = {})
        : s_(std::make_unique<state>(std::move(store), std::move(options))) {}

    /// Points the store at a checkpoint, if the store knows how; an empty id keeps the place.
    /// @throws error errc::invalid_argument if the options make no sense.
    void reset(const checkpoint_id& id) {
        auto const a = s_->options.payload_alignment;
        if (a < 64 || a > 32768 || (a & (a - 1)) != 0) {
            throw error(errc::invalid_argument,
                        {.expected = "payload_alignment: a power of two from 64 to 32768",
                         .found = std::to_string(a)});
        }
        if constexpr (RelocatableStore<Store>) {
            if (!id.empty()) s_->placed.emplace(s_->base.at(id));
        }
        s_->created.clear();
        s_->in_doubt.clear();
        s_->published.clear();
        s_->hold = {};
        s_->running.reset();
    }

    void set_up_writer(const storage_setup& setup) {
        s_->setup = setup;
        s_->running.reset();
        s_->running.emplace(setup.save_id);
    }

    save_plan prepare_local_save_plan(save_plan plan) { return plan; }

    /// Looks at the place, claims it and gives each rank the names of its files.
    std::vector<save_plan> prepare_global_save_plan(std::vector<save_plan> plans) {
        std::vector<std::string> names;
        std::vector<std::size_t> counts;
        for (std::size_t rank = 0; rank < plans.size(); ++rank) {
            counts.push_back(detail::file_count(plans[rank], s_->options));
            for (std::size_t n = 0; n < counts.back(); ++n)
                names.push_back(file_name(static_cast<int>(rank), static_cast<int>(n)));
        }
        detail::check_file_names(names);
        names =
            s_->hold.take(s_->store(), s_->setup.save_id, std::move(names), s_->options.overwrite);
        std::size_t at = 0;
        for (std::size_t rank = 0; rank < plans.size(); ++rank) {
            plans[rank].storage_data =
                detail::encode_file_names(std::span(names).subspan(at, counts[rank]));
            at += counts[rank];
        }
        return plans;
    }

    void write_data(const save_plan& plan, std::span<const item_data> data,
                    completion<write_results> done) {
        auto job = std::make_shared<write_job>(std::move(done));
        try {
            check_item_data(plan, data);
            auto const names = detail::decode_file_names(plan.storage_data);
            auto const split = detail::split_into_files(plan, s_->options);
            job->stored_as = detail::stored_as(plan);
            check_tied(plan, job->stored_as, data);
            if (names.size() != split.size()) {
                throw error(errc::invalid_plan,
                            {.expected = std::to_string(split.size()) + " file names",
                             .found = std::to_string(names.size()),
                             .remedy = "give all ranks equal writer options"});
            }
            for (std::size_t n = 0; n < split.size(); ++n)
                job->files.push_back(detail::place_items(names[n], split[n], data, s_->options));
        } catch (...) {
            job->done.fail(std::current_exception());
            return;
        }
        job->left = job->files.size();
        if (job->left == 0) return job->done(write_results{});
        for (auto const& f : job->files) {
            boost::asio::post(pool(), [this, job, data, &f] {
                try {
                    write_one(*job, f, data);
                } catch (...) {
                    std::lock_guard const lock(job->m);
                    if (!job->failure) job->failure = std::current_exception();
                }
                end_of_file(*job);
            });
        }
    }

    /// Commits: every data file is there in full size, then the metadata replaces the old one.
    /// Nothing is removed.
    void finish(const metadata& m, completion<commit_result> done) {
        commit_result result;
        byte_vector bytes;
        std::set<std::string> files;
        detail::claim<Store>::definite([&] {
            metadata meta = m;
            meta.save_id = s_->setup.save_id;
            for (auto const& [name, expected] : meta.file_sizes) {
                check_size(name, expected);
                files.insert(name);
                if (s_->setup.activity) s_->setup.activity->advance();
            }
            bytes = format::native::make_metadata_file(meta, s_->options.torch_metadata);
            if (s_->options.torch_metadata) warn_of_many(meta, result.warnings);
        });
        s_->hold.publish(s_->store(), bytes);
        s_->published = std::move(files);
        s_->created.clear();
        done(std::move(result));
    }

    /// Whether this save's checkpoint stands: what a rank without a verdict asks. False also where
    /// a later save has replaced it meanwhile, or where no checkpoint stands.
    /// @throws error if `.metadata` cannot be read, or its name cannot be made durable.
    bool committed(const std::string& save_id) {
        auto const now = s_->store().tag(detail::metadata_name);
        // What stood there at the beginning need not be readable.
        if (now.text.empty() || s_->hold.found(now, save_id)) return false;
        auto const meta = format::native::parse_metadata_file(
                              detail::read_whole(s_->store(), detail::metadata_name))
                              .meta;
        if (meta.save_id != save_id) return false;
        // Its publisher may have died before this call.
        s_->store().sync();
        if (s_->published.empty())
            for (auto const& [name, size] : meta.file_sizes) s_->published.insert(name);
        return true;
    }

    /// Removes the files that this rank created in the save that failed, and nothing else.
    bool abandon() noexcept {
        bool gone = true;
        auto const attempt = [&](auto&& f) {
            try {
                f();
            } catch (...) {  // a leftover, which the intent tells a later save of
                gone = false;
            }
        };
        for (auto const& name : s_->created) attempt([&] { s_->store().remove(name); });
        for (auto const& name : s_->in_doubt) {
            attempt([&] {
                auto const w = detail::whose(s_->store(), name, s_->setup.save_id, true);
                if (w == detail::ownership::proven) s_->store().remove(name);
                if (w == detail::ownership::unproven) gone = false;
            });
        }
        s_->created.clear();
        s_->in_doubt.clear();
        if (!s_->setup.coordinator) s_->running.reset();
        return gone;
    }

    /// Removes what the save, as it ended, has left or replaced.
    void sweep(save_end end, completion<sweep_result> done) {
        auto* const shown = s_->setup.activity.get();
        sweep_result result;
        switch (end) {
            case save_end::committed:
                result.warnings = s_->hold.sweep(s_->store(), s_->published, shown);
                break;
            case save_end::abandoned: result.warnings = s_->hold.release(s_->store()); break;
            case save_end::uncertain:
                result.warnings = s_->hold.remove_planned(s_->store(), shown);
                break;
        }
        s_->running.reset();
        done(std::move(result));
    }

    Store& store() noexcept { return s_->store(); }

private:
    struct state {
        state(Store st, torch_writer_options o) : base(std::move(st)), options(std::move(o)) {}
        Store& store() noexcept { return placed ? *placed : base; }
        Store base;                     ///< As it was given.
        std::optional<Store> placed{};  ///< Pointed at the checkpoint, where the store can be.
        torch_writer_options options;
        storage_setup setup{};
        detail::claim<Store> hold{};
        std::mutex m{};
        std::vector<std::string> created{};
        std::vector<std::string> in_doubt{};  ///< May have been created, although that failed.
        std::set<std::string> published{};  ///< The files of the checkpoint that now stands.
        std::optional<detail::running_save> running{};
        std::unique_ptr<boost::asio::thread_pool> pool{};  // last: its threads end first
    };
    struct write_job {
        explicit write_job(completion<write_results> d) : done(std::move(d)) {}
        std::mutex m;
        std::vector<detail::placed_file> files;
        std::vector<std::uint32_t> stored_as;
        std::size_t left = 0;
        std::exception_ptr failure;
        write_results results;
        completion<write_results> done;
    };

    boost::asio::thread_pool& pool() {
        if (!s_->pool) {
            s_->pool = std::make_unique<boost::asio::thread_pool>(
                static_cast<std::size_t>(std::max(1, s_->options.thread_count)));
        }
        return *s_->pool;
    }

    std::string file_name(int rank, int n) const {
        return s_->options.file_name ? s_->options.file_name(rank, n)
                                     : detail::default_data_name(rank, n);
    }

    void check_size(const std::string& name, std::uint64_t size) {
        std::string found;
        try {
            auto const there = std::uint64_t{s_->store().open(name).size()};
            if (there == size) return;
            found = std::to_string(there) + " bytes";
        } catch (const error& e) {
            if (e.code() != make_error_code(errc::not_found)) throw;
            found = "no such file";
        }
        throw error(errc::corrupt,
                    {.file = s_->store().describe(name),
                     .expected = std::to_string(size) + " bytes, as its writer reported",
                     .found = std::move(found),
                     .remedy = "all ranks must see the same directory"});
    }

    /// Measured with PyTorch 2.14: about 2 kB of Python objects for each chunk, on every rank.
    void warn_of_many(const metadata& m, std::vector<std::string>& warnings) const {
        std::uint64_t chunks = 0;
        for (auto const& [fqn, entry] : m.entries)
            if (auto const* t = std::get_if<tensor_metadata>(&entry)) chunks += t->chunks.size();
        if (chunks <= s_->options.many_chunks) return;
        warnings.push_back(std::to_string(chunks) + " chunks: each rank of PyTorch needs about " +
                           std::to_string((chunks * 2000 + 999'999) / 1'000'000) +
                           " MB to read .metadata; torch_metadata = false leaves its pickle out");
    }

    /// What is stored as one must be one.
    static void check_tied(const save_plan& plan, const std::vector<std::uint32_t>& stored_as,
                           std::span<const item_data> data) {
        for (std::size_t i = 0; i < stored_as.size(); ++i) {
            if (stored_as[i] == i) continue;
            auto const* a = std::get_if<const_tensor_view>(&data[i]);
            auto const* b = std::get_if<const_tensor_view>(&data[stored_as[i]]);
            if (a == nullptr || b == nullptr || a->data != b->data || a->strides != b->strides)
                throw error(errc::invalid_plan, {.fqn = plan.items[i].fqn,
                                                 .expected = "the memory of '" +
                                                             plan.items[i].tied_to +
                                                             "', as tied_to says",
                                                 .found = "other memory"});
        }
    }

    void write_one(write_job& job, const detail::placed_file& f, std::span<const item_data> data) {
        // A rank without items leaves an empty file, as DCP does, unless nothing in its name would
        // show whose it is.
        bool const with_footer = !f.items.empty() || !(detail::is_default_data_name(f.name) ||
                                                       detail::has_id(f.name, s_->setup.save_id));
        std::uint64_t size = f.end_of_items;
        if (with_footer)
            size += format::native::encode_footer(
                        detail::empty_footer(f, s_->setup.save_id)).size();
        auto handle = create(f.name, size);
        {
            std::lock_guard const lock(s_->m);
            s_->created.push_back(f.name);
        }
        detail::shown_writes shown(handle, s_->setup.activity.get());
        auto const mark = detail::owners_mark(s_->setup.save_id);
        if (with_footer) shown.write(size - mark.size(), mark);
        std::vector<write_result> results;
        if (!f.items.empty())
            size = detail::write_file(shown, f, data, s_->setup.save_id, results);
        handle.finish(s_->options.sync_files);
        std::lock_guard const lock(job.m);
        job.results.file_sizes.emplace(f.name, size);
        job.results.items.insert(job.results.items.end(), results.begin(), results.end());
    }
    auto create(const std::string& name, std::uint64_t size) {
        try {
            if constexpr (WriteBackStore<Store>)
                return s_->store().create(name, size, s_->options.sync_files);
            else
                return s_->store().create(name, size);
        } catch (const error& e) {
            if (e.code() != make_error_code(errc::already_exists)) doubt(name);
            throw;
        } catch (...) {
            doubt(name);
            throw;
        }
    }
    void doubt(const std::string& name) {
        std::lock_guard const lock(s_->m);
        s_->in_doubt.push_back(name);
    }

    void end_of_file(write_job& job) {
        {
            std::lock_guard const lock(job.m);
            if (--job.left != 0) return;
        }
        try {
            if (!job.failure && s_->options.sync_files) s_->store().sync();
            if (!job.failure) complete_results(job);
        } catch (...) {
            job.failure = std::current_exception();
        }
        if (job.failure) return job.done.fail(job.failure);
        job.done(std::move(job.results));
    }
    /// What is stored as another item lies where that one does.
    static void complete_results(write_job& job) {
        std::map<std::uint32_t, storage_location> places;
        for (auto const& r : job.results.items) places.emplace(r.item, r.at);
        for (std::uint32_t i = 0; i < job.stored_as.size(); ++i)
            if (job.stored_as[i] != i)
                job.results.items.push_back({i, places.at(job.stored_as[i])});
        std::sort(job.results.items.begin(), job.results.items.end(),
                  [](auto const& a, auto const& b) { return a.item < b.item; });
    }

    std::unique_ptr<state> s_;
};

}  // namespace cairn

#endif
