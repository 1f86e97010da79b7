// SPDX-License-Identifier: Apache-2.0
// What is written past the page cache is the same, in whatever pieces and order it comes.
#include "support/direct_io.hpp"
#include "support/no_failures.hpp"
#include "support/scratch.hpp"

#include <cairn/object_store/detail/direct_writes.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/testing/object_store.hpp>

#include <boost/test/unit_test.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <random>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(direct_writes)

namespace {

constexpr std::size_t slab = cairn::file_store_options{}.direct_write_bytes;

using piece = std::pair<std::size_t, std::size_t>;  // begin and end

/// Pieces of 1 to `most` bytes, one after the other.
std::vector<piece> cut(std::size_t size, std::size_t most) {
    std::mt19937_64 chance(size + most);
    std::vector<piece> out;
    for (std::size_t at = 0; at < size;) {
        auto const n = std::min<std::size_t>(size - at, 1 + chance() % most);
        out.emplace_back(at, at + n);
        at += n;
    }
    return out;
}
/// Whether a file that is written in these pieces holds the bytes.
bool holds(cairn::file_store& store, const cairn::byte_vector& bytes,
           const std::vector<piece>& pieces) {
    auto h = store.create("o", bytes.size());
    for (auto const& [begin, end] : pieces)
        h.write(begin, cairn::byte_span(bytes).subspan(begin, end - begin));
    auto moved = std::move(h);
    moved.finish(true);
    auto const there = cairn::read_whole(store, "o");
    store.remove("o");
    return there == bytes;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_store_that_writes_directly_keeps_its_word) {
    support::scratch s;
    int n = 0;
    support::no_failures(cairn::testing::object_store_suite(
        [&] { return cairn::file_store(s.dir / std::to_string(n++), {.direct_writes = true}); }));
}

BOOST_AUTO_TEST_CASE(what_comes_in_a_row_is_written) {
    support::scratch s;
    (void)support::lacks_direct_io(s.dir);  // then all is written as usual
    auto store = cairn::file_store(s.dir, {.direct_writes = true}).at("c");
    for (auto const size : {std::size_t{0}, std::size_t{1}, slab - 1, slab, slab + 1, 2 * slab,
                            2 * slab + 4096, 2 * slab + 12'345}) {
        auto const bytes = support::some_bytes(size);
        for (auto const most : {std::size_t{100'000}, slab / 2, 3 * slab})
            BOOST_TEST(holds(store, bytes, cut(size, most)), size << " bytes in " << most);
    }
}

BOOST_AUTO_TEST_CASE(what_comes_in_any_order_is_written) {
    support::scratch s;
    cairn::file_store store(s.dir, {.direct_writes = true});
    auto const bytes = support::some_bytes(2 * slab + 12'345);
    for (unsigned seed = 0; seed < 6; ++seed) {
        auto pieces = cut(bytes.size(), 700'000);
        std::mt19937 chance(seed);
        // What comes in a row at first is written directly.
        auto const first = pieces.begin() + static_cast<std::ptrdiff_t>(seed * pieces.size() / 6);
        std::shuffle(first, pieces.end(), chance);
        BOOST_TEST(holds(store, bytes, pieces), "seed " << seed);
    }
}

BOOST_AUTO_TEST_CASE(writes_of_several_threads_do_not_mix) {
    support::scratch s;
    cairn::file_store store(s.dir, {.direct_writes = true});
    auto const bytes = support::some_bytes(3 * slab + 77);
    auto h = store.create("o", bytes.size());
    auto const write = [&](std::size_t begin, std::size_t end) {
        for (auto const& [from, to] : cut(end - begin, 300'000))
            h.write(begin + from, cairn::byte_span(bytes).subspan(begin + from, to - from));
    };
    std::thread other([&] { write(bytes.size() / 2, bytes.size()); });
    write(0, bytes.size() / 2);
    other.join();
    h.finish(true);
    BOOST_TEST((cairn::read_whole(store, "o") == bytes));
}

/// The rest of a file that is not written whole is zeros, as it was reserved.
BOOST_AUTO_TEST_CASE(a_file_keeps_the_size_that_was_asked_for) {
    support::scratch s;
    cairn::file_store store(s.dir, {.direct_writes = true});
    auto bytes = support::some_bytes(slab + 5);
    auto h = store.create("o", 2 * slab);
    h.write(0, bytes);
    h.finish(false);
    bytes.resize(2 * slab);
    BOOST_TEST((cairn::read_whole(store, "o") == bytes));
}

/// A trainer may fork while it saves: the child has none of what the parent writes.
BOOST_AUTO_TEST_CASE(direct_writes_are_the_parents_alone) {
    support::scratch s;
    (void)support::lacks_direct_io(s.dir);  // then all is written as usual
    cairn::file_store store(s.dir, {.direct_writes = true});
    auto const bytes = support::some_bytes(2 * slab + 12'345);
    auto h = store.create("o", bytes.size());
    h.write(0, cairn::byte_span(bytes).first(slab / 2));  // gathered
    auto const child = ::fork();
    if (child == 0) {
        try {
            auto own = store.create("other", bytes.size());
            own.write(0, cairn::byte_span(bytes).first(slab / 2));
            { auto const gone = std::move(h); }  // whose memory is not where that of `own` is
            own.write(slab / 2, cairn::byte_span(bytes).subspan(slab / 2));
            own.finish(true);
            ::_exit(cairn::read_whole(store, "other") == bytes ? 0 : 1);
        } catch (const std::exception&) {
            ::_exit(2);
        }
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    BOOST_TEST(status == 0);
    h.write(slab / 2, cairn::byte_span(bytes).subspan(slab / 2));
    h.finish(true);
    BOOST_TEST((cairn::read_whole(store, "o") == bytes));
}

BOOST_AUTO_TEST_SUITE_END()
