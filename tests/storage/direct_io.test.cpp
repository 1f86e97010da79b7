// SPDX-License-Identifier: Apache-2.0
// What direct I/O asks the system for.
#include "support/direct_io.hpp"
#include "support/scratch.hpp"
#include "support/system_calls.hpp"

#include <cairn/load.hpp>
#include <cairn/object_store/direct_reads.hpp>
#include <cairn/object_store/direct_writes.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/save.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

BOOST_AUTO_TEST_SUITE(direct_io)

/// Whole blocks, each written once and in a row; what is left of the last one as usual.
BOOST_AUTO_TEST_CASE(writes_whole_blocks) {
    constexpr std::uint64_t block = support::written_file::block;
    constexpr std::uint64_t slab = cairn::detail::direct_writes::usual_slab_bytes;
    support::scratch dir;
    if (support::lacks_direct_io(dir.dir)) return;
    auto const bytes = support::some_bytes(2 * slab + 3 * block + 10);
    support::watching const w(dir.dir.string());
    cairn::file_store store(dir.dir / "place", {.direct_writes = true});
    auto const file = (dir.dir / "place" / "a").string();
    auto const write = [&] {
        auto h = store.create("a", bytes.size());
        constexpr std::size_t most = 1'000'003;
        for (std::size_t at = 0; at < bytes.size(); at += most)
            h.write(at, std::span(bytes).subspan(at, std::min(most, bytes.size() - at)));
        h.finish(true);
        auto const there = cairn::detail::read_whole(store, "a");
        store.remove("a");
        return std::equal(there.begin(), there.end(), bytes.begin(), bytes.end());
    };
    support::written_file f;
    w.s.after = [&](const support::system_call& c) {
        if (c.what == "write" && c.path == file) f.note(c.at, c.bytes.size(), c.direct);
    };
    BOOST_TEST(write());
    w.s.after = nullptr;
    BOOST_TEST((f.writes == 4u && f.direct.size() == 2 * slab / block + 3));
    BOOST_TEST(!f.is_written_both_ways());
    auto const seen = w.s.seen();
    auto const from_end = [&](std::string_view what) {
        return std::find_if(seen.rbegin(), seen.rend(),
                            [&](auto const& c) { return c.what == what && c.path == file; });
    };
    BOOST_TEST((from_end("sync") < from_end("write")));

    auto const once = [&](int e) {
        w.s.before = [e, done = false](std::string_view what, const std::string&,
                                       std::uint64_t) mutable {
            if (done || what != "write") return 0;
            done = true;
            return e;
        };
    };
    // A device with larger blocks; a call cut short, and interrupted.
    for (int const e : {EINVAL, support::system_calls::half, EINTR}) {
        once(e);
        BOOST_TEST(write(), "errno " << e);
    }
    for (int const e : {ENOSPC, EIO}) {
        once(e);
        BOOST_CHECK_EXCEPTION((void)write(), cairn::error, [](const cairn::error& failure) {
            return failure.code() == make_error_code(cairn::errc::io);
        });
        BOOST_TEST(std::filesystem::is_empty(dir.dir / "place"));
    }
}

/// As the mark of a save, which shows whose an unfinished file is.
BOOST_AUTO_TEST_CASE(leaves_out_the_blocks_that_were_written_ahead) {
    constexpr std::uint64_t slab = cairn::detail::direct_writes::usual_slab_bytes;
    support::scratch dir;
    if (support::lacks_direct_io(dir.dir)) return;
    auto const bytes = support::some_bytes(2 * slab);
    support::watching const w(dir.dir.string());
    cairn::file_store store(dir.dir, {.direct_writes = true});
    support::written_file f;
    w.s.after = [&](const support::system_call& c) {
        if (c.what == "write") f.note(c.at, c.bytes.size(), c.direct);
    };
    auto h = store.create("a", bytes.size());
    h.write(2 * slab - 100, std::span(bytes).last(100));
    h.write(0, bytes);
    h.finish(true);
    BOOST_TEST(f.direct.size() == 2 * slab / support::written_file::block - 1);
    BOOST_TEST(!f.is_written_both_ways());
    auto const there = cairn::detail::read_whole(store, "a");
    BOOST_TEST(std::equal(there.begin(), there.end(), bytes.begin(), bytes.end()));
}

BOOST_AUTO_TEST_CASE(writes_what_is_saved) {
    constexpr std::uint64_t slab = cairn::detail::direct_writes::usual_slab_bytes;
    support::scratch dir;
    if (support::lacks_direct_io(dir.dir)) return;
    support::watching const w(dir.dir.string());
    std::vector<float> memory(5 * slab / 2 / sizeof(float));
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
    auto const saved = memory;
    cairn::state_dict sd{{"w", memory}};
    support::written_file f;
    w.s.after = [&](const support::system_call& c) {
        if (c.what == "write" && c.path.ends_with("__0_0.distcp"))
            f.note(c.at, c.bytes.size(), c.direct);
    };
    cairn::file_store store(dir.dir, {.direct_writes = true});
    (void)cairn::save(sd, "c", store);
    w.s.after = nullptr;
    BOOST_TEST(f.largest == slab);
    BOOST_TEST(f.direct.size() >= 2 * slab / support::written_file::block);
    BOOST_TEST(!f.is_written_both_ways());
    memory.assign(memory.size(), 0.0f);
    (void)cairn::load(sd, "c", store);
    BOOST_TEST((memory == saved));
}

BOOST_AUTO_TEST_CASE(reads_whole_blocks_and_leaves_the_rest_to_the_usual_reads) {
    constexpr std::size_t slab = cairn::detail::read_slabs::piece_bytes;
    support::scratch dir;
    if (support::lacks_direct_reads(dir.dir)) return;
    auto const bytes = support::some_bytes(slab + 3000);
    auto const file = dir.dir / "a";
    {
        cairn::file_store store(dir.dir);
        auto h = store.create("a", bytes.size());
        h.write(0, bytes);
        h.finish(true);
    }
    support::watching const w(dir.dir.string());
    cairn::file_store store(dir.dir, {.direct_reads = true});
    std::vector<std::uint64_t> asked;
    int fails_with = 0;
    w.s.before = [&](std::string_view what, const std::string&, std::uint64_t n) {
        if (what != "read") return 0;
        asked.push_back(n);
        return asked.size() == 1 ? fails_with : 0;
    };
    auto const reads = [&](int e = 0) {
        fails_with = e;
        asked.clear();
        auto h = store.open("a");
        cairn::byte_vector into(slab);
        h.read(1000, into);
        return std::equal(into.begin(), into.end(), bytes.begin() + 1000);
    };
    using sizes = std::vector<std::uint64_t>;
    support::forget_cached(file);
    BOOST_TEST(reads());
    BOOST_TEST((asked == sizes{slab + 4096}));
    // A device with larger blocks, and one that fails: what the usual reads say is true.
    for (int const e : {EINVAL, EIO}) {
        support::forget_cached(file);
        BOOST_TEST(reads(e), "errno " << e);
        BOOST_TEST((asked == sizes{slab + 4096, slab}));
    }
    // It is not asked a second time.
    support::forget_cached(file);
    auto h = store.open("a");
    cairn::byte_vector into(slab);
    fails_with = EINVAL;
    asked.clear();
    h.read(1000, into);
    support::forget_cached(file);
    h.read(1000, into);
    BOOST_TEST((asked == sizes{slab + 4096, slab, slab}));
    support::forget_cached(file);
    BOOST_TEST(reads(support::system_calls::half));
    BOOST_TEST((asked == sizes{slab + 4096, slab / 2 + 1000 - 2048}));
    support::forget_cached(file);
    BOOST_TEST(reads(EINTR));
    BOOST_TEST((asked == sizes{slab + 4096, slab + 4096}));
}

/// Where the kernel says what the page cache has, that is not read from the disk.
BOOST_AUTO_TEST_CASE(reads_from_the_page_cache_what_it_has) {
    constexpr std::size_t slab = cairn::detail::read_slabs::piece_bytes;
    support::scratch dir;
    if (support::lacks_direct_reads(dir.dir)) return;
    cairn::file_store store(dir.dir, {.direct_reads = true});
    auto const bytes = support::some_bytes(slab);
    auto h = store.create("a", bytes.size());
    h.write(0, bytes);
    h.finish(true);
    if (support::lacks_cachestat(dir.dir / "a")) return;
    support::watching const w(dir.dir.string());
    bool direct = false;
    w.s.before = [&](std::string_view what, const std::string&, std::uint64_t n) {
        direct = direct || (what == "read" && n % 4096 == 0);
        return 0;
    };
    cairn::byte_vector into(slab - 100);
    store.open("a").read(100, into);
    BOOST_TEST(std::equal(into.begin(), into.end(), bytes.begin() + 100));
    BOOST_TEST(!direct);
}

BOOST_AUTO_TEST_SUITE_END()
