// SPDX-License-Identifier: Apache-2.0
// The limit that `gpt2 save` and `gpt2 load` are compared with: the same bytes from and to the same
// memory, with checksums and syncs, and nothing else: no names, plans, metadata or guarantees.
#ifndef CAIRN_BENCHMARKS_GPT2_BARE_HPP
#define CAIRN_BENCHMARKS_GPT2_BARE_HPP

#include "arguments.hpp"
#include "groups.hpp"
#include "state.hpp"

#include <cairn/storage/threads_per_rank.hpp>

#include <libdeflate.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <filesystem>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace gpt2::bare {

namespace fs = std::filesystem;

/// The alignment of direct I/O: of offsets, lengths and memory.
inline constexpr std::uint64_t block = 4096;

/// Uses the checksums, so that no compiler omits them.
inline std::atomic<std::uint32_t> checksums{0};

inline void require(bool ok, const std::string& path) {
    if (!ok) throw std::system_error(errno, std::generic_category(), path);
}

class file {
public:
    file(const std::string& path, int flags) : path_(path), fd_(::open(path.c_str(), flags, 0644)) {
        require(fd_ >= 0, path);
        struct ::stat s;
        auto const ok = ::fstat(fd_, &s) == 0;
        if (!ok) ::close(fd_);
        require(ok, path);
        size_ = static_cast<std::uint64_t>(s.st_size);
    }
    file(file&&) = delete;
    ~file() { ::close(fd_); }

    void write(std::uint64_t at, std::span<const std::byte> from) {
        while (!from.empty()) {
            auto const n = ::pwrite(fd_, from.data(), from.size(), static_cast<::off_t>(at));
            require(n > 0, path_);
            at += static_cast<std::uint64_t>(n);
            from = from.subspan(static_cast<std::size_t>(n));
        }
    }
    /// Reads until `to` is full or the file ends. The rest of a block is not requested: direct I/O
    /// refuses it.
    /// @return How many bytes were read.
    std::size_t read(std::uint64_t at, std::span<std::byte> to) {
        std::size_t done = 0;
        while (done < to.size()) {
            auto const n =
                ::pread(fd_, to.data() + done, to.size() - done, static_cast<::off_t>(at + done));
            require(n >= 0, path_);
            done += static_cast<std::size_t>(n);
            if (n == 0 || at + done == size_) break;
        }
        return done;
    }
    void set_size(std::uint64_t n) {
        require(::ftruncate(fd_, static_cast<::off_t>(n)) == 0, path_);
    }
    void sync() { require(::fsync(fd_) == 0, path_); }

private:
    std::string path_;
    int fd_;
    std::uint64_t size_ = 0;  // as opened
};

struct freed {
    void operator()(std::byte* p) const { std::free(p); }
};
/// Where direct I/O reads and writes: a state's own memory is not aligned.
class bounce {
public:
    explicit bounce(std::size_t n)
        : memory_(static_cast<std::byte*>(std::aligned_alloc(block, n))), size_(n) {
        if (!memory_) throw std::bad_alloc();
    }
    std::span<std::byte> bytes() { return {memory_.get(), size_}; }

private:
    std::unique_ptr<std::byte, freed> memory_;
    std::size_t size_;
};

using pieces = std::vector<std::span<std::byte>>;

inline std::uint64_t size_of(const pieces& all) {
    std::uint64_t n = 0;
    for (auto const& p : all) n += p.size();
    return n;
}
/// The bytes [begin, end) of what `all` holds in a row, at most `most` of them in each piece.
inline pieces cut(const pieces& all, std::uint64_t begin, std::uint64_t end, std::size_t most) {
    pieces r;
    std::uint64_t at = 0;
    for (auto const& p : all) {
        auto from = std::max(begin, at);
        auto const until = std::min<std::uint64_t>(end, at + p.size());
        for (; from < until; from += r.back().size())
            r.push_back(p.subspan(static_cast<std::size_t>(from - at),
                                  std::min(most, static_cast<std::size_t>(until - from))));
        at += p.size();
    }
    return r;
}

/// @param at  Where in the file the first one goes.
inline void write_buffered(const std::string& path, const pieces& from, bool sync,
                           std::uint64_t at = 0, int flags = O_CREAT | O_TRUNC) {
    file f(path, O_WRONLY | O_CLOEXEC | flags);
    for (auto const& p : from) {
        checksums += libdeflate_crc32(0, p.data(), p.size());
        f.write(at, p);
        at += p.size();
    }
    if (sync) f.sync();
}

inline void write_direct(const std::string& path, const pieces& from, std::size_t piece,
                         bool sync) {
    file f(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_DIRECT);
    bounce b(piece);
    std::uint64_t at = 0;
    std::size_t filled = 0;
    for (auto p : from)
        while (!p.empty()) {
            auto const n = std::min(p.size(), piece - filled);
            checksums += libdeflate_crc32(0, p.data(), n);
            std::copy_n(p.data(), n, b.bytes().data() + filled);
            p = p.subspan(n);
            filled += n;
            if (filled < piece) continue;
            f.write(at, b.bytes());
            at += piece;
            filled = 0;
        }
    if (filled != 0) f.write(at, b.bytes().first((filled + block - 1) / block * block));
    f.set_size(at + filled);
    if (sync) f.sync();
}

/// The files of a folder, one after the other in the order of their names, or one file.
struct stored {
    struct one {
        std::string path;
        std::uint64_t begin, size;
    };
    std::vector<one> files;
    std::uint64_t size = 0;

    explicit stored(const std::string& place) {
        if (!fs::is_directory(place)) {
            files.push_back({place, 0, fs::file_size(place)});
            size = files[0].size;
            return;
        }
        for (auto const& e : fs::directory_iterator(place))
            files.push_back({e.path().string(), 0, e.file_size()});
        std::sort(files.begin(), files.end(),
                  [](const one& a, const one& b) { return a.path < b.path; });
        for (auto& f : files) {
            f.begin = size;
            size += f.size;
        }
    }
};

/// Reads the bytes from `at` on into `to`.
inline void read(const stored& from, std::uint64_t at, pieces to, std::size_t piece, bool direct) {
    bounce b(direct ? piece : block);
    auto next = to.begin();
    std::span<std::byte> rest = next == to.end() ? std::span<std::byte>() : *next++;
    auto const take = [&](std::span<const std::byte> some) {
        checksums += libdeflate_crc32(0, some.data(), some.size());
        while (!some.empty()) {
            if (rest.empty()) rest = *next++;
            auto const n = std::min(rest.size(), some.size());
            std::copy_n(some.data(), n, rest.data());
            rest = rest.subspan(n);
            some = some.subspan(n);
        }
    };
    auto const end = at + size_of(to);
    for (auto const& f : from.files) {
        if (at >= end || at >= f.begin + f.size) continue;
        file in(f.path, O_RDONLY | O_CLOEXEC | (direct ? O_DIRECT : 0));
        auto const until = std::min(end, f.begin + f.size);
        while (at < until) {
            if (direct) {
                auto const first = (at - f.begin) / block * block;
                auto const skipped = static_cast<std::size_t>(at - f.begin - first);
                auto const n = in.read(first, b.bytes());
                require(n > skipped, f.path);
                auto const some = b.bytes().subspan(
                    skipped, std::min(n - skipped, static_cast<std::size_t>(until - at)));
                take(some);
                at += some.size();
                continue;
            }
            if (rest.empty()) rest = *next++;
            auto const some =
                rest.first(std::min({rest.size(), piece, static_cast<std::size_t>(until - at)}));
            require(in.read(at - f.begin, some) == some.size(), f.path);
            checksums += libdeflate_crc32(0, some.data(), some.size());
            rest = rest.subspan(some.size());
            at += some.size();
        }
    }
}

/// Calls f(0) … f(n-1), each on a thread of its own.
template <class F>
void on_threads(int n, F f) {
    std::vector<std::exception_ptr> failures(static_cast<std::size_t>(n));
    auto const guarded = [&](int i) {
        try {
            f(i);
        } catch (...) {
            failures[static_cast<std::size_t>(i)] = std::current_exception();
        }
    };
    std::vector<std::thread> threads;
    for (int i = 1; i < n; ++i) threads.emplace_back(guarded, i);
    guarded(0);
    for (auto& t : threads) t.join();
    for (auto const& e : failures)
        if (e) std::rethrow_exception(e);
}

/// How a rank of `ranks` on this host does it.
struct way {
    way(const arguments& a, int ranks)
        : direct(a.bare == "direct"), sync(a.sync), one_file(a.one_file),
          threads(cairn::threads_per_rank(ranks)),
          piece(direct ? std::size_t{4} << 20 : std::size_t{256} << 10) {}

    bool direct, sync, one_file;
    int threads;
    std::size_t piece;  ///< Buffered: what fits in the L2 cache. Direct: what suits a disk.
};

/// Writes what this rank holds: a file for each thread, or its part of one file. Once all have
/// synced, they replace others, whose space is given back later, as cairn does: when the next save
/// begins or the process ends.
template <class Comm>
void save(state& s, const std::string& folder, const way& w, Comm& ranks) {
    thread_local std::deque<file> replaced;  // ranks may be threads
    replaced.clear();
    fs::create_directories(folder);
    auto const path = [&](int thread) {
        char name[40];  // sorted as numbers are
        std::snprintf(name, sizeof name, "/%05d.%03d", w.one_file ? 0 : ranks.rank(), thread);
        return folder + name;
    };
    auto const all = s.memory();
    auto const bytes = size_of(all), n = static_cast<std::uint64_t>(w.threads);
    std::uint64_t before = 0;  // bytes of other ranks in the file
    if (w.one_file) {
        auto const sizes = share(ranks, bytes);
        auto const mine = sizes.begin() + ranks.rank();
        before = std::accumulate(sizes.begin(), mine, std::uint64_t{0});
        if (ranks.rank() == 0)
            file(path(0) + ".new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC)
                .set_size(std::accumulate(mine, sizes.end(), std::uint64_t{0}));
        wait_for_all(ranks);
    }
    on_threads(w.threads, [&](int thread) {
        auto const i = static_cast<std::uint64_t>(thread), begin = bytes * i / n;
        auto const mine = cut(all, begin, bytes * (i + 1) / n, w.piece);
        if (w.one_file)
            write_buffered(path(0) + ".new", mine, w.sync, before + begin, 0);
        else if (w.direct)
            write_direct(path(thread) + ".new", mine, w.piece, w.sync);
        else
            write_buffered(path(thread) + ".new", mine, w.sync);
    });
    wait_for_all(ranks);
    auto const files = !w.one_file ? w.threads : ranks.rank() == 0 ? 1 : 0;
    for (int i = 0; i < files; ++i) {
        if (fs::exists(path(i))) replaced.emplace_back(path(i), O_RDONLY | O_CLOEXEC);
        fs::rename(path(i) + ".new", path(i));
    }
    if (w.sync) file(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC).sync();
    wait_for_all(ranks);
}

/// Reads into this rank's memory what it has written, if as many ranks with as many threads have;
/// otherwise an equal part of what they have written.
template <class Comm>
void load(state& s, const std::string& folder, const way& w, Comm& ranks) {
    stored const from(folder);
    auto const rank = static_cast<std::uint64_t>(ranks.rank());
    auto const n = static_cast<std::uint64_t>(w.threads);
    auto const as_saved = from.files.size() == n * static_cast<std::uint64_t>(ranks.size());
    auto const begin = as_saved ? from.files[static_cast<std::size_t>(rank * n)].begin
                                : from.size * rank / static_cast<std::uint64_t>(ranks.size());
    auto const all = s.memory();
    auto const bytes = std::min(size_of(all), from.size - begin);
    on_threads(w.threads, [&](int thread) {
        auto const i = static_cast<std::uint64_t>(thread);
        auto const first = bytes * i / n;
        read(from, begin + first, cut(all, first, bytes * (i + 1) / n, w.piece), w.piece, w.direct);
    });
    wait_for_all(ranks);
}

/// Fills a state's memory from as much other memory: matrices are transposed in blocks that fit in
/// the L1 cache, everything else is copied.
class transposing_loop {
public:
    explicit transposing_loop(const state& s) : to_(s.views()) {
        for (auto const& v : to_) from_.emplace_back(static_cast<std::size_t>(v.elements()), 1.0f);
    }
    template <class Comm>
    void run(Comm& ranks) {
        auto const threads = cairn::threads_per_rank(ranks.size());
        on_threads(threads, [&](int thread) {
            for (std::size_t i = 0; i < to_.size(); ++i) {
                auto const rows = to_[i].shape.empty() ? 1 : to_[i].shape[0];
                fill(i, rows * thread / threads, rows * (thread + 1) / threads);
            }
        });
        wait_for_all(ranks);
    }

private:
    static constexpr std::int64_t edge = 32;

    /// Some rows of a tensor.
    void fill(std::size_t i, std::int64_t first, std::int64_t last) {
        auto const& v = to_[i];
        auto* const to = reinterpret_cast<float*>(v.data);
        auto const* const from = from_[i].data();
        auto const rows = v.shape.empty() ? 1 : v.shape[0], columns = v.elements() / rows;
        if (v.shape.size() != 2) {
            std::copy(from + first * columns, from + last * columns, to + first * columns);
            return;
        }
        for (auto r = first; r < last; r += edge)
            for (std::int64_t c = 0; c < columns; c += edge)
                for (auto y = r; y < std::min(r + edge, last); ++y)
                    for (auto x = c; x < std::min(c + edge, columns); ++x)
                        to[y * columns + x] = from[x * rows + y];
    }

    std::vector<cairn::tensor_view> to_;
    std::vector<std::vector<float>> from_{};
};

}  // namespace gpt2::bare

#endif
