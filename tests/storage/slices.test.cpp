// SPDX-License-Identifier: Apache-2.0
// A large tensor is read by several threads, a slice each: every byte once, whatever is wanted.
#include "support/forwarding_store.hpp"

#include <cairn/cairn.hpp>
#include <cairn/storage/detail/read_payload.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(slices)

namespace {

constexpr std::uint64_t block = cairn::payload::block_bytes;
constexpr std::chrono::seconds hang{60};  // no test waits for it, if all is well

/// Reads slice after slice of a row-major payload.
/// @return How often each byte of the file was read.
std::vector<int> read_in_slices(const cairn::byte_vector& stored, const cairn::payload& p,
                                const cairn::box& part, cairn::tensor_view to, std::uint32_t count,
                                std::uint64_t& delivered) {
    struct handle {
        const cairn::byte_vector& bytes;
        std::vector<int>& counts;
        void read(std::uint64_t at, std::span<std::byte> into) {
            auto const first = static_cast<std::ptrdiff_t>(at);
            std::copy_n(bytes.begin() + first, into.size(), into.begin());
            for (std::size_t i = 0; i < into.size(); ++i)
                ++counts[static_cast<std::size_t>(at) + i];
        }
        std::uint64_t size() { return bytes.size(); }
    };
    std::vector<int> counts(stored.size());
    delivered = 0;
    cairn::storage_setup me;
    me.activity = std::make_shared<cairn::activity>([&](std::uint64_t n) { delivered += n; });
    cairn::open_file file(handle{stored, counts}, "file", me);
    std::vector<std::byte> scratch;
    for (std::uint32_t k = count; k-- > 0;)
        cairn::detail::payload_reader(file, {{"w", p, {{part, to}}}}, scratch).run({k, count});
    return counts;
}

/// Holds up each thread that reads much of a data file, until as many threads do so.
class meeting_store : public support::forwarding_store<cairn::memory_store> {
    using base = support::forwarding_store<cairn::memory_store>;
    struct meeting {
        std::mutex m{};
        std::condition_variable came{};
        std::set<std::thread::id> here{};
        std::size_t expected = 0;
    };

public:
    meeting_store(cairn::memory_store s, std::size_t threads)
        : base(std::move(s)), meeting_(std::make_shared<meeting>()) {
        meeting_->expected = threads;
    }
    meeting_store at(const std::string& id) const {
        auto copy = *this;
        copy.store_ = copy.store_.at(id);
        return copy;
    }
    auto create(std::string_view name, std::uint64_t size) { return store_.create(name, size); }
    struct reader {
        cairn::memory_store::reader h;
        std::shared_ptr<meeting> all;
        void read(std::uint64_t at, std::span<std::byte> into) {
            if (into.size() > block) {
                std::unique_lock lock(all->m);
                all->here.insert(std::this_thread::get_id());
                all->came.notify_all();
                all->came.wait_for(lock, hang, [&] { return all->here.size() >= all->expected; });
            }
            h.read(at, into);
        }
        std::uint64_t size() { return h.size(); }
    };
    reader open(std::string_view name) { return {store_.open(name), meeting_}; }
    std::size_t threads() const { return meeting_->here.size(); }

private:
    std::shared_ptr<meeting> meeting_;
};

/// Counts how often each window is asked for, and committed.
struct counting_planner : cairn::default_planner {
    struct counts {
        std::mutex m{};
        std::map<std::string, std::pair<int, int>> of{};
    };
    using default_planner::default_planner;
    cairn::tensor_view resolve_tensor(const cairn::read_item& i) {
        {
            std::lock_guard const lock(seen->m);
            ++seen->of[i.fqn].first;
        }
        return default_planner::resolve_tensor(i);
    }
    void commit_tensor(const cairn::read_item& i, const cairn::tensor_view& v) {
        {
            std::lock_guard const lock(seen->m);
            ++seen->of[i.fqn].second;
        }
        default_planner::commit_tensor(i, v);
    }
    std::shared_ptr<counts> seen = std::make_shared<counts>();
};

}  // namespace

BOOST_AUTO_TEST_CASE(slices_have_every_byte_once) {
    std::mt19937_64 chance(1);
    for (int round = 0; round < 200; ++round) {
        auto const n = chance() % (round % 2 == 0 ? 40 * block : 5 * block);
        auto const count = static_cast<std::uint32_t>(1 + chance() % 9);
        std::uint64_t end = 0;
        for (std::uint32_t k = 0; k < count; ++k) {
            auto const [from, to] = cairn::detail::payload_slice{k, count}.of(n);
            BOOST_TEST(from == end);
            BOOST_TEST(from <= to);
            BOOST_TEST((to == n || to % block == 0));
            end = to;
        }
        BOOST_TEST(end == n);
    }
    constexpr std::uint64_t unit = 32 * block;
    for (std::uint32_t k = 0; k < 5; ++k) {
        auto const [from, to] = cairn::detail::payload_slice{k, 5, unit}.of(4 * unit + 100);
        BOOST_TEST(from == k * unit);
        BOOST_TEST(to == std::min((k + 1) * unit, 4 * unit + 100));
    }
    auto const last = cairn::detail::payload_slice{8, 9}.of(UINT64_MAX - block);
    BOOST_TEST((last.second == UINT64_MAX - block && last.first < last.second));
}

BOOST_AUTO_TEST_CASE(slices_fill_what_is_wanted_of_a_payload) {
    constexpr std::int64_t rows = 301, columns = 1000;
    std::vector<float> numbers(rows * columns);
    std::iota(numbers.begin(), numbers.end(), 1.0f);
    auto const raw = std::as_bytes(std::span(numbers));
    cairn::byte_vector const stored(raw.begin(), raw.end());
    cairn::payload p;
    p.type = cairn::dtype::f32;
    p.shape = {rows, columns};
    p.strides = cairn::row_major_strides(p.shape);
    p.length = stored.size();
    for (std::size_t at = 0; at < stored.size(); at += block)
        p.block_crcs.push_back(cairn::format::crc32(std::span(stored).subspan(
            at, std::min(static_cast<std::size_t>(block), stored.size() - at))));

    for (auto const& part :
         {cairn::box({0, 0}, {rows, columns}), cairn::box({17, 0}, {200, columns}),
          cairn::box({0, 500}, {rows, 3}), cairn::box({300, 999}, {1, 1})}) {
        std::vector<int> once;
        for (std::uint32_t const count : {1U, 2U, 3U, 7U, 40U}) {
            std::vector<float> got(static_cast<std::size_t>(part.volume()));
            std::uint64_t delivered = 0;
            auto const counts =
                read_in_slices(stored, p, part, cairn::tensor_view(p.type, part.shape, got.data()),
                               count, delivered);
            if (count == 1) once = counts;
            BOOST_TEST((counts == once), count << " slices of " << to_string(part));
            BOOST_TEST(delivered == got.size() * sizeof(float));
            bool right = true;
            for (std::size_t i = 0; i < got.size(); ++i) {
                auto const row = part.offsets[0] + static_cast<std::int64_t>(i) / part.shape[1];
                auto const column = part.offsets[1] + static_cast<std::int64_t>(i) % part.shape[1];
                right =
                    right && got[i] == numbers[static_cast<std::size_t>(row * columns + column)];
            }
            BOOST_TEST(right, count << " slices of " << to_string(part));
        }
    }

    // What has no checksums of blocks can only be read as a whole.
    p.crc = cairn::format::crc32(stored);
    p.block_crcs.clear();
    std::vector<float> got(numbers.size());
    std::uint64_t delivered = 0;
    auto const counts =
        read_in_slices(stored, p, cairn::box::whole(p.shape),
                       cairn::tensor_view(p.type, p.shape, got.data()), 3, delivered);
    BOOST_TEST((got == numbers && delivered == stored.size()));
    BOOST_TEST((std::count(counts.begin(), counts.end(), 1) == std::ptrdiff_t(stored.size())));
}

BOOST_AUTO_TEST_CASE(slices_are_read_at_once_into_one_window) {
    constexpr std::size_t threads = 3;
    std::vector<float> w(26 * (std::size_t{1} << 20) / sizeof(float)), small(100, 7.0f);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 1'000'003);
    cairn::memory_store memory;
    cairn::save(cairn::state_dict{{"w", w}, {"small", small}}, "c", memory);
    meeting_store store(memory, threads);
    std::vector<float> got(w.size()), other(small.size());
    cairn::state_dict sd{{"w", got}, {"small", other}};
    cairn::load_options o;
    o.storage.thread_count = threads;
    counting_planner planner;
    cairn::load(sd, "c", o, store, planner);
    BOOST_TEST(store.threads() == threads);
    BOOST_TEST((got == w && other == small));
    using both = std::map<std::string, std::pair<int, int>>;
    BOOST_TEST((planner.seen->of == both{{"w", {1, 1}}, {"small", {1, 1}}}));
}

BOOST_AUTO_TEST_SUITE_END()
