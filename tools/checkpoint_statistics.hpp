// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_CHECKPOINT_STATISTICS_HPP
#define CAIRN_TOOLS_CHECKPOINT_STATISTICS_HPP

#include "checkpoint.hpp"
#include "statistics.hpp"
#include "table.hpp"

#include <cairn/storage/threads_per_rank.hpp>
#include <cairn/tensor/flat_range.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace tool {

/// A tensor of a checkpoint, and what its stored elements are like.
struct stored_statistics {
    std::string fqn{};
    tensor_statistics found{};
    std::string problem{};  ///< Why not all of it could be read; then `found` says nothing.
    /// Elements that no chunk has, as where a rank's file was left out: `found` is of the others.
    std::int64_t missing = 0;

    bool is_whole() const { return problem.empty() && missing == 0; }
    bool is_finite() const { return problem.empty() && found.finite() == found.elements; }
};

/// Returns which elements are stored, for tensors that are not whole.
inline std::string stored_part(const stored_statistics& s, const cairn::tensor_metadata& t) {
    auto const all = t.shape.product();
    return std::to_string(all - s.missing) + " of " + std::to_string(all) + " elements are stored";
}

/// Returns a number with six digits; integers with all of theirs.
inline std::string table_number(const element_value& v) {
    if (auto const* d = std::get_if<double>(&v)) return short_number(*d);
    return std::visit([](auto x) { return std::to_string(x); }, v);
}

/// Reads all tensors of a checkpoint once, on several threads, each with a reader of its own: while
/// one waits for storage, others compute. Chunks are read as they are stored, in pieces, and many
/// small ones together, in the order of the files; of a piece, each thread reads and computes as
/// much at a time as its caches hold. A piece that cannot be read is read again alone, so that only
/// its tensor is lost. The results do not depend on the number of threads.
///
/// Memory: 1 MiB for each thread. A chunk that can only be read whole, because one checksum covers
/// all of it, takes its size; together these take at most 512 MiB, or the size of one of them.
class statistics_pass {
public:
    /// @param most_bins  Of each histogram; 0: there are none.
    explicit statistics_pass(const opened& from, std::size_t most_bins = 0)
        : from_(from), most_bins_(most_bins) {
        for (auto const& [fqn, entry] : from.meta().entries)
            if (auto const* t = std::get_if<cairn::tensor_metadata>(&entry)) {
                tensors_.push_back(t);
                results_.push_back({.fqn = fqn});
                results_.back().found.bins.most_bins = most_bins;
                results_.back().missing = t->shape.product();
                add_pieces(*t);
            }
        order_.resize(pieces_.size());
        std::iota(order_.begin(), order_.end(), std::size_t{0});
        std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
            return place_of(pieces_[a]) < place_of(pieces_[b]);
        });
        std::uint64_t bytes = 0;
        std::size_t begin = 0;
        auto const end_job = [&](std::size_t end) {
            if (begin != end) jobs_.emplace_back(order_.data() + begin, end - begin);
            begin = end;
            bytes = 0;
        };
        for (std::size_t i = 0; i < order_.size(); ++i) {
            auto const n = pieces_[order_[i]].bytes;
            if (bytes + n > at_once || i - begin == most_together) end_job(i);
            bytes += n;
        }
        end_job(order_.size());
    }
    statistics_pass(statistics_pass&&) = delete;

    /// @return all tensors, by name
    std::vector<stored_statistics> run(int threads = cairn::threads_per_rank(1)) {
        {
            std::vector<std::jthread> others;
            try {
                for (int i = 1; i < threads && others.size() + 1 < jobs_.size(); ++i)
                    others.emplace_back([this] { work(); });
            } catch (const std::system_error&) {  // there are as many as there are
            }
            work();
        }
        if (failure_) std::rethrow_exception(failure_);
        from_.check_unchanged();
        for (auto const& p : pieces_) {
            auto& r = results_[p.tensor];
            r.found.merge(p.found);
            if (r.problem.empty()) r.problem = p.problem;
        }
        return std::move(results_);
    }

private:
    static constexpr std::uint64_t piece_bytes = std::uint64_t{16} << 20;
    static constexpr std::uint64_t at_once = std::uint64_t{512} << 10;
    static constexpr std::uint64_t most_bytes = std::uint64_t{512} << 20;
    static constexpr std::size_t most_together = 4096;

    /// Some elements of a stored chunk, by their positions in it.
    struct piece {
        std::size_t tensor, chunk;
        std::int64_t begin, end;
        std::uint64_t bytes;
        bool divisible;  ///< Otherwise it is all of the chunk.
        tensor_statistics found{};
        std::string problem{};
    };

    std::tuple<std::string_view, std::uint64_t, std::int64_t> place_of(const piece& p) const {
        auto const& chunks = tensors_[p.tensor]->chunks;
        return {chunks.file(p.chunk), chunks.row_of(p.chunk).offset, p.begin};
    }
    /// @param t  The last of `tensors_`, whose result is the last.
    void add_pieces(const cairn::tensor_metadata& t) {
        auto const size = static_cast<std::int64_t>(cairn::size_of(t.type));
        for (std::size_t c = 0; c < t.chunks.size(); ++c) {
            std::int64_t elements = 1;
            for (auto const n : t.chunks.lengths(c)) elements *= n;
            results_.back().missing -= elements;
            bool const divisible = is_divisible(t, c);
            auto const together = divisible ? static_cast<std::int64_t>(piece_bytes) / size
                                            : std::max(std::int64_t{1}, elements);
            for (std::int64_t at = 0, end = 0; at < elements; at = end) {
                end = at + std::min(together, elements - at);
                pieces_.push_back({.tensor = tensors_.size() - 1,
                                   .chunk = c,
                                   .begin = at,
                                   .end = end,
                                   .bytes = static_cast<std::uint64_t>((end - at) * size),
                                   .divisible = divisible});
                pieces_.back().found.bins.most_bins = most_bins_;
            }
        }
    }
    /// Whether parts of a chunk can be read without all of it.
    bool is_divisible(const cairn::tensor_metadata& t, std::size_t chunk) const {
        auto const& row = t.chunks.row_of(chunk);
        // The checksum that cairn's files have besides is not needed for a part.
        return row.is_divisible() &&
               (row.payload_crc == 0 || from_.meta().format == cairn::checkpoint_format::torch_dcp);
    }

    void work() noexcept {
        try {
            cairn::checkpoint_reader reader{store_of(from_.path()), {.thread_count = 1}};
            reader.reset(from_.path());
            cairn::storage_setup in_pieces;
            in_pieces.in_pieces = true;
            in_pieces.checked = checked_;
            reader.set_up_reader(from_.meta(), in_pieces);
            cairn::byte_vector memory;
            for (auto i = next_++; i < jobs_.size(); i = next_++) {
                auto const job = jobs_[i];
                try {
                    add(reader, job, memory);
                } catch (const cairn::error& e) {
                    // A file that was replaced is waited for: once.
                    if (e.code() == make_error_code(cairn::errc::concurrent_save)) throw;
                    add_alone(reader, job, memory);
                } catch (const std::exception&) {
                    add_alone(reader, job, memory);
                }
                if (most_bins_ != 0) keep_bins(job);
            }
        } catch (...) {
            std::lock_guard const lock(m_);
            if (!failure_) failure_ = std::current_exception();
            next_ = jobs_.size();
        }
    }

    /// Reads each piece alone, and notes why one cannot be read.
    void add_alone(cairn::checkpoint_reader& reader, std::span<const std::size_t> job,
                   cairn::byte_vector& memory) {
        for (auto const& one : job) {
            auto& p = pieces_[one];
            try {
                p.found = {};
                p.found.bins.most_bins = most_bins_;
                add(reader, {&one, 1}, memory);
            } catch (const std::bad_alloc&) {
                p.problem = "out of memory";
            } catch (const std::exception& e) {
                p.problem = e.what();
            }
        }
    }

    /// Many pieces' histograms take more memory than one: they are merged as they are made.
    void keep_bins(std::span<const std::size_t> of) {
        std::lock_guard const lock(m_);
        for (auto const i : of) {
            results_[pieces_[i].tensor].found.bins.merge(pieces_[i].found.bins);
            pieces_[i].found.bins = {};
        }
    }

    /// Some elements of a piece.
    struct stretch {
        std::size_t piece;
        std::int64_t begin, end;
    };

    /// Reads pieces, and computes their statistics.
    void add(cairn::checkpoint_reader& reader, std::span<const std::size_t> job,
             cairn::byte_vector& memory) {
        for (auto const i : job) check_size(pieces_[i]);
        auto const& first = pieces_[job.front()];
        if (job.size() == 1 && first.divisible) {
            auto const size = cairn::size_of(tensors_[first.tensor]->type);
            auto const step = static_cast<std::int64_t>(at_once / size);
            for (auto at = first.begin; at < first.end; at += step) {
                stretch const one{job.front(), at, std::min(first.end, at + step)};
                add(reader, std::span(&one, 1), memory);
            }
            return;
        }
        std::vector<stretch> together;
        for (auto const i : job) together.push_back({i, pieces_[i].begin, pieces_[i].end});
        add(reader, std::span<const stretch>(together), memory);
    }
    /// Reads them together.
    void add(cairn::checkpoint_reader& reader, std::span<const stretch> all,
             cairn::byte_vector& memory) {
        auto const size_of = [&](const stretch& s) {
            return static_cast<std::uint64_t>(s.end - s.begin) *
                   cairn::size_of(tensors_[pieces_[s.piece].tensor]->type);
        };
        std::uint64_t bytes = 0;
        for (auto const& s : all) bytes += size_of(s);
        allowance const mine(*this, bytes);
        // Payloads of cairn's files begin at pages. A copy to just behind the beginning of a page,
        // where malloc's large blocks are, takes a processor several times as long.
        constexpr std::size_t page = 4096;
        if (memory.size() < bytes + page) memory.resize(static_cast<std::size_t>(bytes) + page);
        void* begin = memory.data();
        auto room = memory.size();
        auto* const first =
            static_cast<std::byte*>(std::align(page, static_cast<std::size_t>(bytes), begin, room));
        cairn::load_plan plan;
        std::vector<cairn::tensor_view> views;
        auto* at = first;
        for (auto const& s : all) {
            auto const& p = pieces_[s.piece];
            auto const& t = *tensors_[p.tensor];
            cairn::index_vector const shape(t.chunks.lengths(p.chunk));
            for (auto const& box : cairn::boxes_of_flat_range(shape, s.begin, s.end)) {
                cairn::read_item item;
                item.fqn = results_[p.tensor].fqn;
                item.kind = cairn::item_kind::shard;
                item.leaf = static_cast<std::uint32_t>(views.size());
                item.chunk = static_cast<std::uint32_t>(p.chunk);
                item.source_offsets = box.offsets;
                item.target_offsets = cairn::index_vector(shape.size(), 0);
                item.shape = box.shape;
                plan.items.push_back(std::move(item));
                views.emplace_back(t.type, box.shape, at);
                at += static_cast<std::size_t>(box.volume()) * cairn::size_of(t.type);
            }
        }
        cairn::read_target target;
        target.resolve_tensor = [&](const cairn::read_item& i) { return views[i.leaf]; };
        target.resolve_converted = target.resolve_tensor;
        target.commit_tensor = [](const cairn::read_item&, const cairn::tensor_view&) {};
        (void)cairn::await_completion<cairn::read_result>(
            [&](auto done) { reader.read_data(plan, target, std::move(done)); });
        auto const* from = first;
        for (auto const& s : all) {
            auto& p = pieces_[s.piece];
            element_statistics(p.found).add(tensors_[p.tensor]->type, from,
                                            static_cast<std::size_t>(s.end - s.begin));
            from += size_of(s);
        }
        if (memory.size() > 2 * piece_bytes) cairn::byte_vector().swap(memory);
    }

    /// Checks, before memory is taken, that a chunk is about as large as what is stored for it: a
    /// view of one element may be of any shape.
    void check_size(const piece& p) const {
        auto const& t = *tensors_[p.tensor];
        check_repetition(from_.meta(), results_[p.tensor].fqn, t);
        auto const& row = t.chunks.row_of(p.chunk);
        auto const& sizes = from_.meta().file_sizes;
        auto const file = sizes.find(t.chunks.file(p.chunk));
        auto const size = file == sizes.end() ? UINT64_MAX : file->second;
        auto const stored = row.offset < size ? std::min(row.length, size - row.offset) : 0;
        if (p.bytes <= (std::uint64_t{1} << 20) ||
            (p.bytes - (std::uint64_t{1} << 20)) / 64 <= stored)
            return;
        throw cairn::error(cairn::errc::corrupt,
                           {.fqn = results_[p.tensor].fqn,
                            .file = t.chunks.file(p.chunk),
                            .expected = "a tensor about as large as the " + std::to_string(stored) +
                                        " bytes that are stored for it",
                            .found = std::to_string(p.bytes) + " bytes"});
    }

    /// Waits until so much memory may be taken, which is at once for whoever is alone.
    class allowance {
    public:
        allowance(statistics_pass& of, std::uint64_t bytes) : of_(of), bytes_(bytes) {
            std::unique_lock lock(of_.m_);
            of_.freed_.wait(lock, [&] {
                return of_.taken_ == 0 || of_.taken_ + bytes_ <= most_bytes ||
                       bytes_ <= 2 * piece_bytes;
            });
            of_.taken_ += bytes_;
        }
        allowance(allowance&&) = delete;
        ~allowance() {
            std::lock_guard const lock(of_.m_);
            of_.taken_ -= bytes_;
            of_.freed_.notify_all();
        }

    private:
        statistics_pass& of_;
        std::uint64_t bytes_;
    };

    const opened& from_;
    std::size_t most_bins_;
    std::vector<const cairn::tensor_metadata*> tensors_{};
    std::vector<stored_statistics> results_{};  ///< Of these tensors.
    std::vector<piece> pieces_{};               ///< Of these tensors, in their order.
    std::vector<std::size_t> order_{};          ///< Of the pieces in the files.
    std::vector<std::span<const std::size_t>> jobs_{};
    std::atomic<std::size_t> next_{0};
    decltype(cairn::storage_setup::checked) checked_ = cairn::checks_of_pieces();
    std::mutex m_{};  ///< Protects the members below.
    std::condition_variable freed_{};
    std::uint64_t taken_ = 0;
    std::exception_ptr failure_{};
};

}  // namespace tool

#endif
