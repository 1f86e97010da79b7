// SPDX-License-Identifier: Apache-2.0
// What direct I/O asks the system for.
#include "support/data_files.hpp"
#include "support/direct_io.hpp"
#include "support/scratch.hpp"
#include "support/system_calls.hpp"

#include <cairn/load.hpp>
#include <cairn/memory/detail/slab.hpp>
#include <cairn/object_store/detail/direct_writes.hpp>
#include <cairn/object_store/detail/read_slabs.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/save.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

BOOST_AUTO_TEST_SUITE(direct_io)

/// Whole blocks, each written once and in a row; what is left of the last one as usual.
BOOST_AUTO_TEST_CASE(a_store_writes_whole_blocks_directly) {
    constexpr std::uint64_t block = support::written_file::block;
    constexpr std::uint64_t slab = cairn::file_store_options{}.direct_write_bytes;
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
        auto const there = cairn::read_whole(store, "a");
        store.remove("a");
        return std::equal(there.begin(), there.end(), bytes.begin(), bytes.end());
    };
    support::written_file f;
    w.s.after = [&](const support::system_call& c) {
        if (c.what == "write" && c.path == file) f.note(c.at, c.bytes.size(), c.direct);
    };
    BOOST_TEST(write());
    cairn::detail::removed_space::of_process().wait();  // its thread closes what was removed
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
    // A device with larger blocks; a call cut short, and interrupted; space that was on its way.
    for (int const e : {EINVAL, support::system_calls::half, EINTR, ENOSPC}) {
        once(e);
        BOOST_TEST(write(), "errno " << e);
    }
    once(EIO);
    BOOST_CHECK_EXCEPTION((void)write(), cairn::error, [](const cairn::error& failure) {
        return failure.code() == make_error_code(cairn::errc::io);
    });
    BOOST_TEST(std::filesystem::is_empty(dir.dir / "place"));
}

/// As the mark of a save, which shows whose an unfinished file is.
BOOST_AUTO_TEST_CASE(blocks_that_were_written_ahead_are_left_out) {
    constexpr std::uint64_t slab = cairn::file_store_options{}.direct_write_bytes;
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
    auto const there = cairn::read_whole(store, "a");
    BOOST_TEST(std::equal(there.begin(), there.end(), bytes.begin(), bytes.end()));
}

/// On a disk of this host, and what will be synced.
BOOST_AUTO_TEST_CASE(a_store_writes_directly_unless_told_otherwise) {
    support::scratch dir;
    if (support::lacks_direct_io(dir.dir)) return;
    auto const bytes = support::some_bytes(cairn::file_store_options{}.direct_write_bytes);
    support::watching const w(dir.dir.string());
    auto const is_direct = [&](std::optional<bool> told, auto on, bool durable = true) {
        w.s.all_is = on;
        bool direct = false;
        w.s.after = [&](const support::system_call& c) { direct = direct || c.direct; };
        cairn::file_store store(dir.dir, {.direct_writes = told});
        auto h = store.create("a", bytes.size(), durable);
        h.write(0, bytes);
        h.finish(durable);
        w.s.after = nullptr;
        store.remove("a");
        cairn::detail::removed_space::of_process().wait();  // it calls `after`
        return direct;
    };
    BOOST_TEST(is_direct({}, EXT4_SUPER_MAGIC));
    BOOST_TEST(!is_direct({}, EXT4_SUPER_MAGIC, false));
    BOOST_TEST(!is_direct({}, NFS_SUPER_MAGIC));
    BOOST_TEST(!is_direct({}, TMPFS_MAGIC));
    BOOST_TEST(!is_direct(false, EXT4_SUPER_MAGIC));
    BOOST_TEST(is_direct(true, NFS_SUPER_MAGIC));
    BOOST_TEST(is_direct(true, EXT4_SUPER_MAGIC, false));
}

BOOST_AUTO_TEST_CASE(a_save_writes_directly) {
    constexpr std::uint64_t slab = cairn::file_store_options{}.direct_write_bytes;
    support::scratch dir;
    if (support::lacks_direct_io(dir.dir)) return;
    support::watching const w(dir.dir.string());
    std::vector<float> memory(5 * slab / 2 / sizeof(float));
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
    auto const saved = memory;
    cairn::state_dict sd{{"w", memory}};
    support::written_file f;
    w.s.after = [&](const support::system_call& c) {
        if (c.what == "write" && c.path.ends_with(".distcp"))
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

/// In memory the page cache has everything: nothing is opened a second time, or asked.
BOOST_AUTO_TEST_CASE(a_store_reads_directly_where_the_page_cache_may_lack_something) {
    support::scratch dir;
    if (support::lacks_direct_reads(dir.dir)) return;
    auto const bytes = support::some_bytes(4096);
    support::watching const w(dir.dir.string());
    cairn::file_store store(dir.dir);
    auto h = store.create("a", bytes.size());
    h.write(0, bytes);
    h.finish(true);
    auto const opened_on = [&](auto file_system) {
        support::forget_cached(dir.dir / "a");
        w.s.all_is = file_system;
        int opened = 0;
        w.s.before = [&](std::string_view what, const std::string&, std::uint64_t) {
            opened += what == "open";
            return 0;
        };
        auto const r = store.open("a");
        std::vector<std::byte> into(4096);
        (void)r.read_uncached(0, into);
        w.s.before = nullptr;
        return opened;
    };
    BOOST_TEST(opened_on(EXT4_SUPER_MAGIC) == 2);
    BOOST_TEST(opened_on(NFS_SUPER_MAGIC) == 2);
    BOOST_TEST(opened_on(TMPFS_MAGIC) == 1);
}

BOOST_AUTO_TEST_CASE(a_load_reads_directly) {
    constexpr std::uint64_t piece = cairn::detail::read_slabs::piece_bytes;
    constexpr std::uint64_t usual = cairn::detail::usual_read_size;
    support::scratch dir;
    if (support::lacks_direct_reads(dir.dir)) return;
    std::vector<float> memory(5 * piece / 2 / sizeof(float));
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
    auto const saved = memory;
    cairn::state_dict sd{{"w", memory}};
    (void)cairn::save(sd, "c", cairn::file_store(dir.dir));
    auto const file = support::data_file_in(dir.dir / "c", "__0_0").string();
    support::watching const w(dir.dir.string());
    std::vector<std::uint64_t> direct, pieces;
    int fails_with = 0;
    w.s.before = [&](std::string_view what, const std::string& path, std::uint64_t n) {
        if (what != "read" || path != file) return 0;
        if (n > usual) {
            direct.push_back(n);
            return direct.size() == 1 ? fails_with : 0;
        }
        if (n > usual / 2) pieces.push_back(n);
        return 0;
    };
    auto const loads = [&](int e, bool cold, bool direct_reads = true) {
        fails_with = e;
        direct.clear();
        pieces.clear();
        if (cold) support::forget_cached(file);
        memory.assign(memory.size(), 0.0f);
        cairn::load_options o;
        o.storage.thread_count = 1;
        (void)cairn::load(sd, "c", o, cairn::file_store(dir.dir, {.direct_reads = direct_reads}));
        return memory == saved;
    };
    using sizes = std::vector<std::uint64_t>;
    // Payloads begin at multiples of 4096.
    sizes const all{piece, piece, piece / 2};
    BOOST_TEST(loads(0, true));
    BOOST_TEST((direct == all));
    BOOST_TEST(pieces.empty());
    BOOST_TEST(loads(EINTR, true));
    BOOST_TEST((direct == sizes{piece, piece, piece, piece / 2}));
    // What is in the page cache, and what is turned off.
    BOOST_TEST(loads(0, true, false));
    BOOST_TEST(direct.empty());
    BOOST_TEST(pieces.size() == memory.size() * sizeof(float) / usual);
    BOOST_TEST(loads(0, false));
    BOOST_TEST(direct.empty());
    BOOST_TEST(pieces.size() == memory.size() * sizeof(float) / usual);
    // A piece cut short: what it lacks is read past the page cache, too.
    BOOST_TEST(loads(support::system_calls::half, true));
    BOOST_TEST((direct == sizes{piece, piece, piece}));
    // One that fails is read as usual, and the kernel reads ahead.
    BOOST_TEST(loads(EIO, true));
    BOOST_TEST(direct.front() == piece);
    BOOST_TEST(pieces.size() >= piece / usual);
    // A device with larger blocks is not asked a second time.
    BOOST_TEST(loads(EINVAL, true));
    BOOST_TEST((direct == sizes{piece}));
    BOOST_TEST(pieces.size() == memory.size() * sizeof(float) / usual);
    auto h = cairn::file_store(dir.dir / "c").open(std::filesystem::path(file).filename().string());
    cairn::detail::slab const into(piece, 1);
    direct.clear();
    for (int k = 0; k < 2; ++k) {
        support::forget_cached(file);
        BOOST_TEST(h.read_uncached(piece, into.memory()) == 0u);
    }
    BOOST_TEST((direct == sizes{piece}));
}

BOOST_AUTO_TEST_SUITE_END()
