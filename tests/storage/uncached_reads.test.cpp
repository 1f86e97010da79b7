// SPDX-License-Identifier: Apache-2.0
// A load reads past the caches of the host what no other rank is likely to read.
#include "support/data_files.hpp"
#include "support/forwarding_store.hpp"

#include <cairn/cairn.hpp>
#include <cairn/object_store/detail/read_slabs.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(uncached_reads)

namespace {

constexpr std::size_t kib = 1024, mib = 1024 * kib;
constexpr std::size_t block = cairn::uncached_block_bytes;
constexpr std::size_t piece = cairn::detail::read_slabs::piece_bytes;

/// What loads have asked of all copies of a store.
struct asked {
    std::mutex m{};
    std::uint64_t uncached = 0, usual = 0;  ///< Bytes that were read; usual ones, of large reads.
    std::vector<std::size_t> sizes{};       ///< Of uncached reads.
    std::set<const std::byte*> memory{};
    bool aligned = true;
    /// Returns how much of it an uncached read reads.
    std::function<std::size_t(std::size_t n)> answer = [](std::size_t n) { return n; };
};

/// A store in memory that has a cache, as if it were on a disk.
class cached_store : public support::forwarding_store<cairn::memory_store> {
public:
    cached_store(cairn::memory_store s, std::shared_ptr<asked> a)
        : forwarding_store(std::move(s)), asked_(std::move(a)) {}

    struct reader {
        cairn::memory_store::reader h;
        std::shared_ptr<asked> a;

        void read(std::uint64_t at, std::span<std::byte> into) {
            {
                std::lock_guard const lock(a->m);
                if (into.size() >= 32 * kib) a->usual += into.size();
            }
            h.read(at, into);
        }
        std::uint64_t size() { return h.size(); }
        std::size_t read_uncached(std::uint64_t at, std::span<std::byte> into) {
            std::lock_guard const lock(a->m);
            a->aligned = a->aligned && at % block == 0 && into.size() % block == 0 &&
                         reinterpret_cast<std::uintptr_t>(into.data()) % block == 0;
            a->sizes.push_back(into.size());
            a->memory.insert(into.data());
            if (at >= h.size()) return 0;
            auto const there =
                static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), h.size() - at));
            auto const n = std::min(there, a->answer(there));
            h.read(at, into.first(n));
            a->uncached += n;
            return n;
        }
    };
    cached_store at(const std::string& id) const { return {store_.at(id), asked_}; }
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    reader open(std::string_view n) { return {store_.open(n), asked_}; }

private:
    std::shared_ptr<asked> asked_;
};
static_assert(cairn::UncachedReadStore<cached_store>);

std::vector<float> some_numbers(std::size_t bytes) {
    std::vector<float> w(bytes / sizeof(float));
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 1'000'003);
    return w;
}
cairn::load_options one_thread() {
    cairn::load_options o;
    o.storage.thread_count = 1;
    return o;
}

/// A tensor that one rank has saved.
struct saved {
    explicit saved(std::size_t bytes) : w(some_numbers(bytes)) {
        cairn::save(cairn::state_dict{{"w", w}}, "c", memory);
    }
    /// Loads it into elements of type `T`.
    template <class T>
    bool loads(const std::shared_ptr<asked>& a, const cairn::load_options& o = one_thread()) {
        std::vector<T> same(w.size());
        cairn::load(cairn::state_dict{{"w", same}}, "c", o, cached_store(memory, a));
        return std::equal(same.begin(), same.end(), w.begin(), [](T x, float y) { return x == y; });
    }
    cairn::memory_store memory{};
    std::vector<float> w;
};

}  // namespace

BOOST_AUTO_TEST_CASE(uncached_reads_are_large_and_aligned_whatever_they_are_for) {
    saved s(9 * mib + 300 * kib);
    for (bool const converted : {false, true}) {
        auto const a = std::make_shared<asked>();
        auto o = one_thread();
        o.planner.dtypes = cairn::dtype_policy::convert;
        BOOST_TEST((converted ? s.loads<double>(a, o) : s.loads<float>(a, o)));
        BOOST_TEST(a->aligned);
        BOOST_TEST((a->sizes == std::vector<std::size_t>{piece, piece, mib + 300 * kib}));
        BOOST_TEST(a->memory.size() == 1u);  // the same for each
        BOOST_TEST(a->usual < 256 * kib);    // no elements
    }
    // A tensor that does not begin with a block.
    cairn::save_options o;
    o.storage.payload_alignment = 64;
    auto const first = some_numbers(70 * kib);
    cairn::save(cairn::state_dict{{"v", first}, {"w", s.w}}, "c", o, s.memory);
    auto const a = std::make_shared<asked>();
    std::vector<float> v(first.size()), w(s.w.size());
    cairn::load(cairn::state_dict{{"v", v}, {"w", w}}, "c", one_thread(),
                cached_store(s.memory, a));
    BOOST_TEST((v == first && w == s.w));
    BOOST_TEST(a->aligned);
    BOOST_TEST((a->sizes ==
                std::vector<std::size_t>{piece + block, piece + block, mib + 300 * kib + block}));
}

BOOST_AUTO_TEST_CASE(what_is_small_is_read_as_usual) {
    for (auto const& [bytes, reads] : {std::pair{256 * kib, 0u}, {256 * kib + 4, 1u}}) {
        saved s(bytes);
        auto const a = std::make_shared<asked>();
        BOOST_TEST(s.loads<float>(a));
        BOOST_TEST(a->sizes.size() == reads);
    }
}

/// Whatever a store answers, every element arrives, and what it has not read is read as usual.
BOOST_AUTO_TEST_CASE(uncached_reads_may_read_less_or_nothing) {
    saved s(11 * mib + 40 * kib);
    std::uint64_t const all = s.w.size() * sizeof(float);
    std::size_t times = 0;
    for (auto const& answer : std::vector<std::function<std::size_t(std::size_t)>>{
             [](std::size_t) { return std::size_t{0}; }, [](std::size_t) { return std::size_t{1}; },
             [](std::size_t) { return 64 * kib - 1; }, [](std::size_t n) { return n / 2 + 7; },
             [](std::size_t n) { return n - 1; },
             [&](std::size_t n) { return times++ % 2 == 0 ? n : 0; },
             [&](std::size_t n) { return times++ % 3 == 0 ? 0 : n / 3; }}) {
        for (bool const converted : {false, true}) {
            auto const a = std::make_shared<asked>();
            a->answer = answer;
            auto o = one_thread();
            o.planner.dtypes = cairn::dtype_policy::convert;
            BOOST_TEST((converted ? s.loads<double>(a, o) : s.loads<float>(a, o)));
            BOOST_TEST(a->uncached + a->usual >= all);
        }
    }
    // Where it is refused, nobody asks again within four mebibytes.
    auto const a = std::make_shared<asked>();
    a->answer = [](std::size_t) { return std::size_t{0}; };
    BOOST_TEST(s.loads<float>(a));
    BOOST_TEST(a->sizes.size() == 3u);
}

BOOST_AUTO_TEST_CASE(many_threads_take_a_few_slabs) {
    saved s(100 * mib);
    auto const a = std::make_shared<asked>();
    auto o = one_thread();
    o.storage.thread_count = 12;
    BOOST_TEST(s.loads<float>(a, o));
    BOOST_TEST(a->memory.size() <= cairn::detail::read_slabs::most);
    BOOST_TEST(a->uncached + a->usual >= 100 * mib);
    BOOST_TEST(a->uncached > 0u);
}

/// What the ranks of a host read several times should be in its page cache.
BOOST_AUTO_TEST_CASE(what_other_ranks_read_too_is_read_as_usual) {
    constexpr std::int64_t n = 2048;  // 16 MiB
    auto const w = some_numbers(n * n * sizeof(float));
    cairn::memory_store memory;
    auto const whole =
        cairn::const_tensor_view(cairn::dtype::float32, cairn::index_vector{n, n}, w.data());
    cairn::save(cairn::state_dict{{"w", whole}}, "c", memory);
    auto const uncached = [&](auto const& region_of) {
        auto const a = std::make_shared<asked>();
        cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
            cairn::box const region = region_of(me.rank());
            std::vector<float> part(static_cast<std::size_t>(region.volume()));
            cairn::tensor_view const to(cairn::dtype::float32, region.shape, part.data());
            cairn::state_dict const sd{
                {"w",
                 cairn::sharded_view{{n, n}, cairn::dtype::float32, {cairn::shard(region, to)}}}};
            cairn::load(sd, "c", one_thread(), me, cached_store(memory, a));
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < part.size(); ++i) {
                auto const k = static_cast<std::int64_t>(i);
                auto const row = region.offsets[0] + k / region.shape[1];
                auto const column = region.offsets[1] + k % region.shape[1];
                wrong += part[i] == w[static_cast<std::size_t>(row * n + column)] ? 0 : 1;
            }
            if (wrong != 0) throw std::runtime_error("other elements");
        });
        return a->uncached;
    };
    BOOST_TEST(uncached([](int r) { return cairn::box({r * n / 2, 0}, {n / 2, n}); }) == 16 * mib);
    BOOST_TEST(uncached([](int) { return cairn::box({0, 0}, {n, n}); }) == 0u);
    // Each rank needs a part of every block.
    BOOST_TEST(uncached([](int r) { return cairn::box({0, r * n / 8}, {n, n / 8}); }) == 0u);
}

BOOST_AUTO_TEST_CASE(uncached_reads_are_checked) {
    saved s(9 * mib);
    auto const name = support::data_file(s.memory, "c/__0_0");
    cairn::byte_vector bytes;
    {
        auto h = s.memory.open(name);
        bytes.resize(static_cast<std::size_t>(h.size()));
        h.read(0, bytes);
    }
    for (auto const at : {bytes.size() / 4, bytes.size() / 2, 8 * mib}) {
        auto damaged = bytes;
        damaged[at] ^= std::byte{1};
        s.memory.remove(name);
        auto h = s.memory.create(name, damaged.size());
        h.write(0, damaged);
        h.finish(false);
        auto const a = std::make_shared<asked>();
        BOOST_CHECK_EXCEPTION((void)s.loads<float>(a), cairn::error, [](const cairn::error& e) {
            return e.code() == make_error_code(cairn::errc::checksum_mismatch);
        });
        BOOST_TEST(a->uncached > 0u);
    }
}

BOOST_AUTO_TEST_SUITE_END()
