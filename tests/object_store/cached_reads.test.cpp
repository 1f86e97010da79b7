// SPDX-License-Identifier: Apache-2.0
// What is read without waiting for storage is the same, and only what the page cache has.
#include "support/direct_io.hpp"
#include "support/scratch.hpp"

#include <cairn/object_store/detail/file_system.hpp>
#include <cairn/object_store/detail/page_cache.hpp>
#include <cairn/object_store/file.hpp>

#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>

BOOST_AUTO_TEST_SUITE(cached_reads)

namespace {

constexpr std::size_t size = (std::size_t{1} << 20) + 100;

cairn::byte_vector put(cairn::file_store& store) {
    auto const bytes = support::some_bytes(size);
    auto h = store.create("o", bytes.size());
    h.write(0, bytes);
    h.finish(true);
    return bytes;
}
template <class Handle>
bool reads(Handle& h, std::uint64_t at, std::size_t n, const cairn::byte_vector& bytes) {
    cairn::byte_vector into(n);
    if (!h.read_cached(at, into)) return false;
    auto const right = std::span(bytes).subspan(static_cast<std::size_t>(at), n);
    BOOST_TEST((into == cairn::byte_vector(right.begin(), right.end())));
    return true;
}
cairn::detail::file_system kind_of(const std::filesystem::path& p) {
    int const fd = ::open(p.c_str(), O_RDONLY | O_CLOEXEC);
    auto const kind = cairn::detail::file_system_of(fd);
    ::close(fd);
    return kind;
}

}  // namespace

BOOST_AUTO_TEST_CASE(all_of_a_file_in_memory_is_read) {
    std::string name = "/dev/shm/cairn-test-XXXXXX";
    if (kind_of("/dev/shm") != cairn::detail::file_system::memory || !::mkdtemp(name.data())) {
        BOOST_TEST_MESSAGE("skipped: /dev/shm is no tmpfs where files can be made");
        return;
    }
    support::scratch place;
    std::filesystem::remove(place.dir);
    place.dir = name;
    cairn::file_store store(place.dir);
    auto const bytes = put(store);
    auto h = store.open("o");
    for (int twice = 0; twice < 2; ++twice) {
        BOOST_TEST(reads(h, 0, size, bytes));
        BOOST_TEST(reads(h, size - 1, 1, bytes));
        BOOST_TEST(reads(h, 5000, 3000, bytes));
        BOOST_TEST(!reads(h, size - 1, 2, bytes));
    }
}

BOOST_AUTO_TEST_CASE(of_a_file_on_a_disk_only_what_the_page_cache_has_is_read) {
    support::scratch place;
    cairn::file_store store(place.dir);
    auto const bytes = put(store);
    auto const path = place.dir / "o";
    auto h = store.open("o");
    (void)reads(h, 5000, 3000, bytes);
    // What the kernel has begun to read ahead may come in between.
    bool was_cold = false, was_refused = false;
    for (int again = 0; again < 200 && !was_refused; ++again) {
        support::forget_cached(path);
        int const fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
        bool const cold = !cairn::detail::page_cache_may_have(fd, 0, 4096);
        ::close(fd);
        was_cold = was_cold || cold;
        was_refused = cold && !reads(h, 0, 4096, bytes);
    }
    BOOST_TEST(was_refused == was_cold);
    cairn::byte_vector all(size);
    h.read(0, all);
    bool const tells = kind_of(path) == cairn::detail::file_system::disk;
    BOOST_TEST((reads(h, 5000, 3000, bytes) || !tells));
    BOOST_TEST((reads(h, 0, size, bytes) || !tells));
    BOOST_TEST(!reads(h, size - 1, 2, bytes));
}

BOOST_AUTO_TEST_SUITE_END()
