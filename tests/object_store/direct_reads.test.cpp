// SPDX-License-Identifier: Apache-2.0
// What is read past the page cache is the same, wherever it begins and ends.
#include "conformance/object_store.hpp"
#include "support/direct_io.hpp"
#include "support/scratch.hpp"

#include <cairn/object_store/direct_reads.hpp>
#include <cairn/object_store/file.hpp>

#include <boost/test/unit_test.hpp>

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
constexpr std::size_t slab = cairn::detail::read_slabs::piece_bytes;
constexpr std::size_t least = cairn::detail::direct_reads::least_bytes;

/// A file of these bytes, of which the page cache has nothing.
struct cold_file {
    explicit cold_file(std::size_t size) : bytes(support::some_bytes(size)) {
        auto h = store.create("o", bytes.size());
        h.write(0, bytes);
        h.finish(true);
        support::forget_cached(path());
    }
    fs::path path() const { return dir.dir / "o"; }
    template <class Handle>
    bool reads(Handle& h, std::size_t at, std::size_t n) {
        // Not where a slab is aligned.
        cairn::byte_vector into(n + 1);
        h.read(at, std::span(into).subspan(1));
        return std::equal(into.begin() + 1, into.end(),
                          bytes.begin() + static_cast<std::ptrdiff_t>(at));
    }
    support::scratch dir;
    cairn::byte_vector bytes;
    cairn::file_store store{dir.dir, {.direct_reads = true}};
};

bool is_mapped(const std::byte* page) {
    unsigned char in_core = 0;
    return ::mincore(const_cast<std::byte*>(page), 4096, &in_core) == 0;
}

}  // namespace

BOOST_AUTO_TEST_CASE(keep_a_stores_word) {
    support::scratch s;
    int n = 0;
    cairn::conformance::check_object_store(
        [&] { return cairn::file_store(s.dir / std::to_string(n++), {.direct_reads = true}); });
}

BOOST_AUTO_TEST_CASE(begin_and_end_anywhere) {
    for (auto const size : {least, slab + 1, 3 * slab + 4096, 3 * slab + 12'345}) {
        cold_file f(size);
        auto h = f.store.open("o");
        std::mt19937_64 chance(size);
        BOOST_TEST(f.reads(h, 0, size));
        for (int k = 0; k < 50; ++k) {
            if (k % 5 == 0) support::forget_cached(f.path());
            auto const at = chance() % size;
            auto const n = 1 + chance() % (size - at);
            BOOST_TEST(f.reads(h, at, n), n << " bytes at " << at << " of " << size);
        }
    }
}

BOOST_AUTO_TEST_CASE(leave_the_page_cache_as_it_was) {
    cold_file f(4 * slab);
    if (support::lacks_direct_reads(f.dir.dir)) return;
    auto h = f.store.at("").open("o");
    BOOST_TEST(f.reads(h, 100, 3 * slab));
    BOOST_TEST(support::cached_pages(f.path()) == 0u);
    // Something small is read as ever.
    BOOST_TEST(f.reads(h, 0, least - 1));
    BOOST_TEST(support::cached_pages(f.path()) != 0u);
}

BOOST_AUTO_TEST_CASE(of_several_threads_do_not_mix) {
    cold_file f(8 * slab);
    auto h = f.store.open("o");
    std::vector<std::thread> all;
    std::vector<int> right(4);
    for (std::size_t t = 0; t < right.size(); ++t)
        all.emplace_back([&, t] {
            for (std::size_t k = 0; k < 8; ++k)
                right[t] += f.reads(h, (t + k) % 8 * slab, slab) ? 1 : 0;
        });
    for (auto& t : all) t.join();
    for (auto const n : right) BOOST_TEST(n == 8);
}

BOOST_AUTO_TEST_CASE(do_not_go_beyond_the_end) {
    cold_file f(slab + 10);
    auto h = f.store.open("o");
    // Also within the block of the end, behind it.
    for (auto const at : {std::uint64_t{11}, std::uint64_t{slab}, std::uint64_t{slab + 11},
                          std::uint64_t{1} << 40, UINT64_MAX - slab, UINT64_MAX - 4096}) {
        cairn::byte_vector into(slab);
        BOOST_CHECK_EXCEPTION(h.read(at, into), cairn::error, [](const cairn::error& e) {
            return e.code() == make_error_code(cairn::errc::corrupt);
        });
    }
}

/// A child has none of the memory that its parent has kept.
BOOST_AUTO_TEST_CASE(go_on_in_a_child) {
    cold_file f(slab);
    if (support::lacks_direct_reads(f.dir.dir)) return;
    auto h = f.store.open("o");
    BOOST_TEST(f.reads(h, 0, slab));
    auto const child = ::fork();
    if (child == 0) {
        auto again = f.store.open("o");
        bool const right = f.reads(again, 0, slab) && f.reads(h, 0, slab);
        ::_exit(right && support::cached_pages(f.path()) == 0 ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    BOOST_TEST(status == 0);
    BOOST_TEST(f.reads(h, 0, slab));
}

BOOST_AUTO_TEST_CASE(keep_their_memory_while_a_file_is_open) {
    cold_file f(slab);
    if (support::lacks_direct_reads(f.dir.dir)) return;
    auto const slabs = std::make_shared<cairn::detail::read_slabs>();
    int const fd = ::open(f.path().c_str(), O_RDONLY | O_CLOEXEC);
    auto const memory_of_one = [&] {
        auto one = slabs->take();
        auto const* const at = one->memory().data();
        slabs->give_back(std::move(one));
        return at;
    };
    auto first = std::make_unique<cairn::detail::direct_reads>(f.path().string(), slabs);
    auto second = std::make_unique<cairn::detail::direct_reads>(f.path().string(), slabs);
    cairn::byte_vector into(slab);
    BOOST_TEST(first->read(fd, 0, into) == slab);
    auto const* const kept = memory_of_one();
    first.reset();
    BOOST_TEST(memory_of_one() == kept);
    BOOST_TEST(is_mapped(kept));
    second.reset();
    BOOST_TEST(!is_mapped(kept));
    ::close(fd);
}

BOOST_AUTO_TEST_CASE(say_what_one_read_should_ask_for) {
    cold_file f(1);
    BOOST_TEST(cairn::file_store(f.dir.dir).open("o").read_size() ==
               cairn::detail::usual_read_size);
    BOOST_TEST(f.store.at("").open("o").read_size() == slab);
}

/// A name may lead to another file by the time it is opened a second time.
BOOST_AUTO_TEST_CASE(are_of_the_file_that_was_opened) {
    cold_file f(2 * slab);
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
        BOOST_TEST(f.reads(h, 0, 2 * slab), another);
        fs::rename(f.dir.dir / "before", f.path());
    }
}

BOOST_AUTO_TEST_SUITE_END()
