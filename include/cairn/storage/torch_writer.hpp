// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_TORCH_WRITER_HPP
#define CAIRN_STORAGE_TORCH_WRITER_HPP

#include <cairn/detail/utf8.hpp>
#include <cairn/planner/check_plan.hpp>
#include <cairn/storage/claim.hpp>
#include <cairn/storage/concepts.hpp>
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
        s_->hold = {};
        s_->warnings.clear();
    }

    void set_up_writer(const storage_setup& setup) { s_->setup = setup; }

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
        check_names(names);
        names =
            s_->hold.take(s_->store(), s_->setup.save_id, std::move(names), s_->options.overwrite);
        std::size_t at = 0;
        for (std::size_t rank = 0; rank < plans.size(); ++rank) {
            detail::wire_writer w;
            w.varint(counts[rank]);
            for (std::size_t n = 0; n < counts[rank]; ++n) w.string(names[at++]);
            plans[rank].storage_data.assign(reinterpret_cast<const char*>(w.out.data()),
                                            w.out.size());
        }
        return plans;
    }

    void write_data(const save_plan& plan, std::span<const item_data> data,
                    completion<write_results> done) {
        auto job = std::make_shared<write_job>(std::move(done));
        try {
            check_item_data(plan, data);
            auto const names = decode_names(plan.storage_data);
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
    void finish(const metadata& m, completion<done_t> done) {
        metadata meta = m;
        meta.save_id = s_->setup.save_id;
        for (auto const& [name, size] : meta.object_sizes) {
            auto const found = s_->store().open(name).size();
            if (found != size) {
                throw error(errc::corrupt,
                            {.object = s_->store().describe(name),
                             .expected = std::to_string(size) + " bytes, as its writer reported",
                             .found = std::to_string(found) + " bytes",
                             .remedy = "all ranks must see the same directory"});
            }
        }
        auto const bytes =
            format::native::make_metadata_file(meta, s_->options.torch_metadata);
        s_->hold.publish(s_->store(), bytes);
        std::set<std::string> kept;
        for (auto const& [name, size] : meta.object_sizes) kept.insert(name);
        s_->warnings = s_->hold.sweep(s_->store(), kept);
        s_->created.clear();
        if (s_->options.torch_metadata) warn_of_many(meta);
        done();
    }

    /// Removes the files that this rank created in the save that failed, and nothing else.
    void abandon() noexcept {
        for (auto const& name : s_->created) {
            try {
                s_->store().remove(name);
            } catch (...) {  // a leftover; the intent, if it stays too, tells a later save of it
            }
        }
        s_->created.clear();
        s_->hold.release(s_->store());
    }

    /// Whether this save's checkpoint stands: what a rank without a verdict asks. False also where
    /// a later save has replaced it meanwhile.
    /// @throws error if `.metadata` is missing or cannot be read.
    bool committed(const std::string& save_id) {
        auto r = s_->store().open(detail::metadata_name);
        std::vector<std::byte> bytes(static_cast<std::size_t>(r.size()));
        if (!bytes.empty()) r.read(0, bytes);
        return format::native::parse_metadata_file(bytes).meta.save_id == save_id;
    }

    Store& store() noexcept { return s_->store(); }
    /// What the last `finish` could not tidy up.
    const std::vector<std::string>& warnings() const noexcept { return s_->warnings; }

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
        std::vector<std::string> warnings{};
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
        if (s_->options.file_name) return s_->options.file_name(rank, n);
        return "__" + std::to_string(rank) + "_" + std::to_string(n) + ".distcp";
    }

    /// Measured with PyTorch 2.14: about 2 kB of Python objects for each chunk, on every rank.
    void warn_of_many(const metadata& m) {
        std::uint64_t chunks = 0;
        for (auto const& [fqn, entry] : m.entries)
            if (auto const* t = std::get_if<tensor_metadata>(&entry)) chunks += t->chunks.size();
        if (chunks <= s_->options.many_chunks) return;
        s_->warnings.push_back(std::to_string(chunks) +
                               " chunks: each rank of PyTorch needs about " +
                               std::to_string((chunks * 2000 + 999'999) / 1'000'000) +
                               " MB to read .metadata; torch_metadata = false leaves its pickle "
                               "out");
    }

    static void check_names(const std::vector<std::string>& names) {
        std::set<std::string_view> seen;
        for (auto const& n : names) {
            if (n.empty() || n.front() == '.' || n.front() == '/' || n.find("..") != n.npos) {
                throw error(errc::invalid_argument,
                            {.object = n, .expected = "a relative file name that is not hidden"});
            }
            if (auto const at = detail::find_not_utf8(n); at != n.npos) {
                throw error(errc::invalid_argument,
                            {.object = detail::printable(n),
                             .expected = "a file name in UTF-8, as PyTorch reads it",
                             .found = "byte " + detail::hex_byte(n[at]) + " at offset " +
                                      std::to_string(at)});
            }
            if (!seen.insert(n).second) {
                throw error(errc::invalid_argument,
                            {.object = n, .expected = "a name of its own for every file",
                             .found = "the same name twice",
                             .remedy = "file_name must use both the rank and the number"});
            }
        }
    }

    /// What is stored as one must be one.
    static void check_tied(const save_plan& plan, const std::vector<std::uint32_t>& stored_as,
                           std::span<const item_data> data) {
        for (std::size_t i = 0; i < stored_as.size(); ++i) {
            if (stored_as[i] == i) continue;
            auto const* a = std::get_if<const_tensor_view>(&data[i]);
            auto const* b = std::get_if<const_tensor_view>(&data[stored_as[i]]);
            if (a == nullptr || b == nullptr || a->data != b->data || a->strides != b->strides)
                throw error(errc::invalid_plan, {.tensor = plan.items[i].fqn,
                                                 .expected = "the memory of '" +
                                                             plan.items[i].tied_to +
                                                             "', as tied_to says",
                                                 .found = "other memory"});
        }
    }

    static std::vector<std::string> decode_names(const std::string& storage_data) {
        detail::wire_reader r(std::as_bytes(std::span(storage_data.data(), storage_data.size())));
        std::vector<std::string> names;
        for (auto n = r.count(); n-- > 0;) names.push_back(r.string());
        return names;
    }

    void write_one(write_job& job, const detail::placed_file& f, std::span<const item_data> data) {
        std::uint64_t expected = f.end_of_items;
        if (!f.items.empty()) {
            expected += format::native::encode_footer(
                            detail::empty_footer(f, s_->setup.save_id)).size();
        }
        auto handle = s_->store().create(f.name, expected);
        {
            std::lock_guard const lock(s_->m);
            s_->created.push_back(f.name);
        }
        std::vector<write_result> results;
        detail::shown_writes shown(handle, s_->setup.at_work.get());
        auto const size = detail::write_file(shown, f, data, s_->setup.save_id, results);
        handle.finish(s_->options.sync_files);
        std::lock_guard const lock(job.m);
        job.results.object_sizes.emplace(f.name, size);
        job.results.items.insert(job.results.items.end(), results.begin(), results.end());
    }

    void end_of_file(write_job& job) {
        {
            std::lock_guard const lock(job.m);
            if (--job.left != 0) return;
        }
        try {
            if (!job.failure && s_->options.sync_files) s_->store().sync();
        } catch (...) {
            job.failure = std::current_exception();
        }
        if (job.failure) return job.done.fail(job.failure);
        std::map<std::uint32_t, storage_location> places;
        for (auto const& r : job.results.items) places.emplace(r.item, r.at);
        for (std::uint32_t i = 0; i < job.stored_as.size(); ++i)
            if (job.stored_as[i] != i)
                job.results.items.push_back({i, places.at(job.stored_as[i])});
        std::sort(job.results.items.begin(), job.results.items.end(),
                  [](auto const& a, auto const& b) { return a.item < b.item; });
        job.done(std::move(job.results));
    }

    std::unique_ptr<state> s_;
};

}  // namespace cairn

#endif
