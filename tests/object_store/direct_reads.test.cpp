// SPDX-License-Identifier: Apache-2.0
// What is read past the page cache is the same, and only what the page cache does not have.
#include "support/direct_io.hpp"
#include "support/no_failures.hpp"
#include "support/scratch.hpp"

#include <cairn/memory/detail/slab.hpp>
#include <cairn/object_store/detail/page_cache.hpp>
#include <cairn/object_store/detail/read_slabs.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/testing/object_store.hpp>

#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(direct_reads)

namespace {

namespace fs = std::filesystem;
constexpr std::size_t block = cairn::uncached_block_bytes;
constexpr std::size_t mib = std::size_t{1} << 20;

/// A file of these bytes, of which the page cache has nothing.
struct cold_file {
    explicit cold_file(std::size_t size) : bytes(support::some_bytes(size)) {
        auto h = store.create("o", bytes.size());
        h.write(0, bytes);
        h.finish(true);
        support::forget_cached(path());
    }
    fs::path path() const { return dir.dir / "o"; }
    /// Reads past the page cache, and compares what it has read.
    /// @return How much that is.
    template <class Handle>
    std::size_t reads(Handle& h, std::uint64_t at, std::size_t n) {
        cairn::detail::slab const memory(8 * mib, 1);
        auto const got = h.read_uncached(at, memory.memory().first(n));
        auto const first = bytes.begin() + static_cast<std::ptrdiff_t>(at);
        bool const right =
            std::equal(first, first + static_cast<std::ptrdiff_t>(got), memory.memory().begin());
        return right ? got : std::size_t(-1);
    }
    template <class Handle>
    bool reads_usually(Handle& h) {
        cairn::byte_vector into(bytes.size());
        h.read(0, into);
        return into == bytes;
    }
    support::scratch dir;
    cairn::byte_vector bytes;
    cairn::file_store store{dir.dir};
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_store_that_reads_directly_keeps_its_word) {
    support::scratch s;
    int n = 0;
    for (bool const direct : {true, false})
        support::no_failures(cairn::testing::object_store_suite([&] {
            return cairn::file_store(s.dir / std::to_string(n++), {.direct_reads = direct});
        }));
}

BOOST_AUTO_TEST_CASE(any_blocks_are_read_directly) {
    for (auto const size : {block, mib + 1, 3 * mib + block, 3 * mib + 12'345}) {
        cold_file f(size);
        if (support::lacks_direct_reads(f.dir.dir)) return;
        auto h = f.store.open("o");
        BOOST_TEST(f.reads(h, 0, 4 * mib) == size);
        std::mt19937_64 chance(size);
        for (int k = 0; k < 50; ++k) {
            auto const at = chance() % size / block * block;
            auto const n = (1 + chance() % 1000) * block;
            BOOST_TEST(f.reads(h, at, n) == std::min(n, size - at),
                       n << " bytes at " << at << " of " << size);
        }
        BOOST_TEST(support::cached_pages(f.path()) == 0u);
        // What is read as usual is cached.
        BOOST_TEST(f.reads_usually(h));
        BOOST_TEST(support::cached_pages(f.path()) != 0u);
    }
}

BOOST_AUTO_TEST_CASE(what_the_page_cache_has_and_what_is_turned_off_is_left) {
    cold_file f(7 * mib);
    if (support::lacks_direct_reads(f.dir.dir)) return;
    auto off = cairn::file_store(f.dir.dir, {.direct_reads = false}).open("o");
    BOOST_TEST(f.reads(off, 0, mib) == 0u);
    auto h = f.store.open("o");
    cairn::byte_vector into(mib);
    h.read(0, into);
    BOOST_TEST(f.reads(h, 0, mib) == 0u);
    // It may have read ahead, but not all of it.
    BOOST_TEST(f.reads(h, 0, 7 * mib) == 7 * mib);
}

BOOST_AUTO_TEST_CASE(reads_of_several_threads_do_not_mix) {
    cold_file f(8 * mib);
    if (support::lacks_direct_reads(f.dir.dir)) return;
    auto h = f.store.open("o");
    std::vector<std::thread> all;
    std::vector<int> right(4);
    for (std::size_t t = 0; t < right.size(); ++t)
        all.emplace_back([&, t] {
            for (std::size_t k = 0; k < 8; ++k)
                right[t] += f.reads(h, (t + k) % 8 * mib, mib) == mib ? 1 : 0;
        });
    for (auto& t : all) t.join();
    for (auto const n : right) BOOST_TEST(n == 8);
}

BOOST_AUTO_TEST_CASE(direct_reads_go_on_in_a_child) {
    cold_file f(mib);
    if (support::lacks_direct_reads(f.dir.dir)) return;
    auto h = f.store.open("o");
    BOOST_TEST(f.reads(h, 0, mib) == mib);
    auto const child = ::fork();
    if (child == 0) {
        auto again = f.store.open("o");
        // What the parent has opened is closed here: a child would keep its space.
        bool const right = f.reads(again, 0, mib) == mib && f.reads(h, 0, mib) == 0;
        ::_exit(right && support::cached_pages(f.path()) == 0 ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    BOOST_TEST(status == 0);
    BOOST_TEST(f.reads(h, 0, mib) == mib);
}

/// How many of these bytes' pages there are.
std::size_t resident_pages(std::span<std::byte> memory) {
    std::vector<unsigned char> in_core((memory.size() + block - 1) / block);
    BOOST_REQUIRE(::mincore(memory.data(), memory.size(), in_core.data()) == 0);
    return static_cast<std::size_t>(
        std::count_if(in_core.begin(), in_core.end(), [](auto c) { return (c & 1) != 0; }));
}

/// A load of many threads takes no more memory than one of six.
BOOST_AUTO_TEST_CASE(direct_reads_take_a_few_slabs_which_are_given_back) {
    using cairn::detail::lent_slab;
    using cairn::detail::read_slabs;
    std::byte* kept = nullptr;
    auto const is_mapped = [&] {
        unsigned char in_core = 0;
        return ::mincore(kept, block, &in_core) == 0;
    };
    {
        read_slabs slabs;
        std::vector<std::unique_ptr<lent_slab>> lent;
        for (std::size_t k = 0; k < read_slabs::most; ++k) {
            lent.push_back(std::make_unique<lent_slab>(&slabs));
            auto const memory = lent.back()->memory();
            BOOST_TEST(memory.size() == read_slabs::slab_bytes);
            BOOST_TEST(reinterpret_cast<std::uintptr_t>(memory.data()) % block == 0u);
            BOOST_TEST(lent.back()->memory().data() == memory.data());
            BOOST_TEST(resident_pages(memory) == 0u);  // until something is read into it
        }
        BOOST_TEST(lent_slab(&slabs).memory().empty());
        kept = lent[2]->memory().data();
        lent[2].reset();
        BOOST_TEST(is_mapped());
        lent_slab again(&slabs);
        BOOST_TEST(again.memory().data() == kept);
        BOOST_TEST(lent_slab(&slabs).memory().empty());
    }
    BOOST_TEST(!is_mapped());
    BOOST_TEST(lent_slab(nullptr).memory().empty());
}

BOOST_AUTO_TEST_CASE(the_kernel_tells_what_the_page_cache_has) {
    using cairn::detail::count_cached_pages;
    using cairn::detail::count_mapped_pages;
    using cairn::detail::page_cache_may_have;
    auto const page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    cold_file f(1000 * page + 10);
    if (support::lacks_direct_reads(f.dir.dir)) return;
    bool const stat = !support::lacks_cachestat(f.path());
    int const fd = ::open(f.path().c_str(), O_RDONLY | O_CLOEXEC);
    auto const cached = [&](std::size_t at, std::size_t n) {
        std::uint64_t mapped = 0, counted = 0;
        BOOST_TEST_REQUIRE(count_mapped_pages(fd, at, n, mapped));
        if (stat) {
            BOOST_TEST_REQUIRE(count_cached_pages(fd, at, n, counted));
            BOOST_TEST(counted == mapped, n << " bytes at " << at);
        }
        return mapped;
    };
    BOOST_TEST(cached(0, f.bytes.size()) == 0u);
    BOOST_TEST(!page_cache_may_have(fd, 0, f.bytes.size()));
    auto h = f.store.open("o");
    (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);  // no reading ahead, here
    std::byte one{};
    for (std::size_t const k : {3U, 4U, 5U, 900U, 1000U})
        BOOST_TEST_REQUIRE(::pread(fd, &one, 1, static_cast<off_t>(k * page)) == 1);
    BOOST_TEST(cached(0, f.bytes.size()) == support::cached_pages(f.path()));
    BOOST_TEST(page_cache_may_have(fd, 3 * page, 3 * page));
    BOOST_TEST(page_cache_may_have(fd, 3 * page + 1, 2 * page));
    BOOST_TEST(!page_cache_may_have(fd, 2 * page, 4 * page));
    BOOST_TEST(!page_cache_may_have(fd, 3 * page, 800 * page));
    for (std::size_t const n : {std::size_t{1}, page - 1, page, page + 1, 3 * page})
        (void)cached(2 * page + 17, n);
    BOOST_TEST(f.reads_usually(h));
    BOOST_TEST(cached(0, f.bytes.size()) == 1001u);
    BOOST_TEST(page_cache_may_have(fd, 0, f.bytes.size()));
    // Where the kernel does not say.
    std::uint64_t pages = 0;
    BOOST_TEST(!count_mapped_pages(fd, UINT64_MAX - page, page, pages));
    BOOST_TEST(!count_cached_pages(-1, 0, page, pages));
    BOOST_TEST(!count_mapped_pages(-1, 0, page, pages));
    BOOST_TEST(page_cache_may_have(-1, 0, page));
    ::close(fd);
}

/// A name may lead to another file by the time it is opened a second time.
BOOST_AUTO_TEST_CASE(direct_reads_are_of_the_file_that_was_opened) {
    cold_file f(2 * mib);
    if (support::lacks_direct_reads(f.dir.dir)) return;
    for (auto const* another : {"", "another one"}) {
        auto h = f.store.open("o");
        fs::rename(f.path(), f.dir.dir / "before");
        auto other = f.bytes;
        std::reverse(other.begin(), other.end());
        if (*another != 0) {
            auto w = f.store.create("o", other.size());
            w.write(0, other);
            w.finish(true);
            support::forget_cached(f.path());
        }
        BOOST_TEST(f.reads(h, 0, 2 * mib) == 0u, another);
        BOOST_TEST(f.reads_usually(h));
        fs::rename(f.dir.dir / "before", f.path());
        support::forget_cached(f.path());
    }
}

BOOST_AUTO_TEST_SUITE_END()
