// SPDX-License-Identifier: Apache-2.0
// Payloads are read in pieces of the size that the store prefers, within bounds.
#include <cairn/cairn.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(read_size)

namespace {

constexpr std::size_t kib = 1024, mib = 1024 * kib;

/// A store in memory that prefers reads of one size, several at once.
class preferring_store {
public:
    preferring_store(cairn::memory_store s, std::size_t size, std::size_t in_flight = 1)
        : base_(std::move(s)), size_(size), in_flight_(in_flight) {}

    struct reader {
        cairn::memory_store::reader h;
        std::size_t size_of_reads;
        std::shared_ptr<std::atomic<std::size_t>> largest, reads;

        void read(std::uint64_t at, std::span<std::byte> into) {
            if (into.size() > *largest) *largest = into.size();
            ++*reads;
            h.read(at, into);
        }
        std::uint64_t size() { return h.size(); }
        std::size_t read_size() { return size_of_reads; }
    };
    preferring_store at(const std::string& id) const {
        auto s = *this;
        s.base_ = base_.at(id);
        return s;
    }
    auto create(std::string_view n, std::uint64_t size) { return base_.create(n, size); }
    void publish(std::string_view n, cairn::byte_span b, std::optional<cairn::object_tag> m) {
        base_.publish(n, b, std::move(m));
    }
    reader open(std::string_view n) {
        ++*opens_;
        return {base_.open(n), size_, largest_, reads_};
    }
    std::size_t requests_in_flight() const { return in_flight_; }
    cairn::object_tag tag(std::string_view n) { return base_.tag(n); }
    std::vector<cairn::object_info> list() { return base_.list(); }
    void remove(std::string_view n) { base_.remove(n); }
    void sync() { base_.sync(); }
    std::string describe(std::string_view n) { return base_.describe(n); }

    std::size_t largest() const { return *largest_; }
    /// How many reads there were since the last call.
    std::size_t reads() { return reads_->exchange(0); }
    /// How often something was opened since the last call.
    std::size_t opens() { return opens_->exchange(0); }

private:
    cairn::memory_store base_;
    std::size_t size_, in_flight_;
    std::shared_ptr<std::atomic<std::size_t>> largest_ =
        std::make_shared<std::atomic<std::size_t>>(0);
    std::shared_ptr<std::atomic<std::size_t>> reads_ =
        std::make_shared<std::atomic<std::size_t>>(0);
    std::shared_ptr<std::atomic<std::size_t>> opens_ =
        std::make_shared<std::atomic<std::size_t>>(0);
};
static_assert(cairn::ReadSizeStore<preferring_store> && cairn::ManyRequestsStore<preferring_store>);

}  // namespace

BOOST_AUTO_TEST_CASE(reads_are_of_the_size_that_the_store_prefers) {
    std::vector<float> w(20 * mib / sizeof(float));
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 1'000'003);
    cairn::memory_store memory;
    cairn::save(cairn::state_dict{{"w", w}}, "c", memory);
    for (auto const& [prefers, gets] : {std::pair{std::size_t{0}, 256 * kib},
                                        {300 * kib, 256 * kib},
                                        {mib, mib},
                                        {mib + 5, mib},
                                        {std::size_t{1} << 40, 16 * mib}}) {
        preferring_store store(memory, prefers);
        std::vector<float> same(w.size());
        cairn::state_dict sd{{"w", same}};
        cairn::load_options o;
        o.storage.thread_count = 1;  // otherwise each reads a slice
        cairn::load(sd, "c", o, store);
        BOOST_TEST(store.largest() == gets, "prefers " << prefers);
        BOOST_TEST((same == w));
        // Not into place.
        std::vector<double> wide(w.size());
        cairn::state_dict converted{{"w", wide}};
        o.planner.dtypes = cairn::dtype_policy::convert;
        cairn::load(converted, "c", o, store);
        BOOST_TEST(store.largest() == gets);
        BOOST_TEST(std::equal(wide.begin(), wide.end(), w.begin()));
    }
}

BOOST_AUTO_TEST_CASE(what_lies_together_is_read_together_where_requests_cost) {
    constexpr std::size_t tensors = 200, each = 10 * kib;
    std::vector<std::vector<float>> w(tensors);
    cairn::state_dict saved;
    for (std::size_t i = 0; i < tensors; ++i) {
        w[i].assign(each / sizeof(float), static_cast<float>(i));
        saved[std::to_string(i)] = w[i];
    }
    cairn::memory_store memory;
    cairn::save_options one_file;
    one_file.storage.thread_count = 1;
    cairn::save(saved, "c", one_file, memory);
    for (bool const few : {false, true}) {
        preferring_store store(memory, few ? 8 * mib : 0);
        auto same = w;
        for (auto& t : same) t.assign(t.size(), -1.0f);
        cairn::state_dict sd;
        for (std::size_t i = 0; i < tensors; ++i) sd[std::to_string(i)] = same[i];
        cairn::load_options o;
        o.storage.thread_count = 1;
        cairn::load(sd, "c", o, store);
        BOOST_TEST((same == w));
        auto const reads = store.reads();
        BOOST_TEST(few == (reads < 20), reads << " reads");
        // A gap that takes longer than a request is not read.
        preferring_store apart(memory, few ? 8 * mib : 0);
        std::vector<float> first(w[0].size()), last(w[0].size());
        cairn::load(cairn::state_dict{{"0", first}, {"99", last}}, "c", o, apart);
        BOOST_TEST((first == w[0]));
        BOOST_TEST((last == w[99]));
        BOOST_TEST(apart.largest() < mib);
    }
}

/// As of an optimizer: each parameter has a counter, in one rank's file, which all ranks want.
BOOST_AUTO_TEST_CASE(small_tensors_of_all_files_take_a_request_for_each_file) {
    constexpr int ranks = 4, parameters = 12;
    constexpr std::int64_t rows = 3, columns = mib / 2 / sizeof(float);
    struct state_of {
        std::vector<std::vector<float>> weights;
        std::vector<std::vector<float>> counters;
        state_of(int rank, float v) {
            for (int p = 0; p < parameters; ++p) {
                weights.emplace_back(rows * columns, v + static_cast<float>(rank * 100 + p));
                counters.emplace_back(1, v + static_cast<float>(p));
            }
        }
        cairn::state_dict dict(int rank) {
            cairn::state_dict sd;
            for (std::size_t p = 0; p < parameters; ++p) {
                cairn::tensor_view const v(cairn::dtype::f32, {rows, columns}, weights[p].data());
                sd["exp_avg." + std::to_string(p)] = cairn::sharded_view{
                    {rows * ranks, columns},
                    cairn::dtype::f32,
                    {cairn::shard(cairn::box({rows * rank, 0}, {rows, columns}), v)}};
                sd["step." + std::to_string(p)] = counters[p];
            }
            return sd;
        }
        bool operator==(const state_of&) const = default;
    };
    cairn::memory_store memory;
    cairn::run_ranks(ranks, [&](cairn::thread_group::member& me) {
        state_of s(me.rank(), 1);
        (void)cairn::save(s.dict(me.rank()), "c", me, memory);
    });
    preferring_store store(memory, 8 * mib, 16);
    cairn::run_ranks(ranks, [&](cairn::thread_group::member& me) {
        state_of s(me.rank(), -1), want(me.rank(), 1);
        cairn::load(s.dict(me.rank()), "c", me, store);
        BOOST_TEST((s == want));
    });
    // Its own weights, and of each file a footer and the counters.
    BOOST_TEST(store.reads() <= std::size_t{ranks} * (parameters + 2 * ranks));
    BOOST_TEST(store.opens() <= std::size_t{ranks} * ranks);
}

/// Values are read before memory changes, tensors afterwards.
BOOST_AUTO_TEST_CASE(a_file_with_a_value_is_opened_once_where_requests_cost) {
    constexpr std::size_t n = 100 * kib / sizeof(float);
    std::vector<float> w(n, 1);
    std::int64_t step = 7;
    cairn::memory_store memory;
    cairn::save(cairn::state_dict{{"step", std::ref(step)}, {"w", w}}, "c", memory);
    preferring_store store(memory, 8 * mib, 16);
    std::vector<float> same(n);
    std::int64_t other = 0;
    cairn::state_dict sd{{"step", std::ref(other)}, {"w", same}};
    cairn::load(sd, "c", store);
    BOOST_TEST((same == w && other == step));
    BOOST_TEST(store.opens() == 2u);  // the metadata, and the file
    BOOST_TEST(store.reads() == 3u);  // the metadata, the value with the footer, the tensor
}

/// Slices end where requests do, wherever in the tensor what is wanted begins.
BOOST_AUTO_TEST_CASE(a_large_tensor_takes_no_request_more_for_being_read_by_several_threads) {
    constexpr std::int64_t rows = 320, columns = 16384;  // of 64 KiB each
    std::vector<float> w(rows * columns);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 1'000'003);
    cairn::memory_store memory;
    cairn::save(
        cairn::state_dict{{"w", cairn::tensor_view(cairn::dtype::f32, {rows, columns}, w.data())}},
        "c", memory);
    for (auto const& [first, requests] : {std::pair{std::int64_t{0}, std::size_t{3}}, {64, 2}}) {
        preferring_store store(memory, 8 * mib, 16);
        std::vector<float> part(static_cast<std::size_t>((rows - first) * columns));
        cairn::tensor_view const v(cairn::dtype::f32, {rows - first, columns}, part.data());
        cairn::load_options o;
        o.storage.thread_count = 16;
        cairn::load(
            cairn::state_dict{
                {"w", cairn::sharded_view{{rows, columns},
                                          cairn::dtype::f32,
                                          {cairn::shard(cairn::box({first, 0}, v.shape), v)}}}},
            "c", o, store);
        BOOST_TEST(std::equal(part.begin(), part.end(), w.end() - std::ssize(part)));
        BOOST_TEST(store.reads() == 2 + requests);  // the metadata, and the footer
        BOOST_TEST(store.largest() == 8 * mib);
    }
}

/// Each takes the next request, instead of a share of the file.
BOOST_AUTO_TEST_CASE(no_request_is_shorter_because_several_threads_read_a_file) {
    constexpr std::size_t tensors = 64, each = 300 * kib;  // three to a request
    std::vector<std::vector<float>> w(tensors), same(tensors);
    cairn::state_dict saved, loaded;
    for (std::size_t i = 0; i < tensors; ++i) {
        w[i].assign(each / sizeof(float), static_cast<float>(i));
        same[i].assign(w[i].size(), -1.0f);
        saved[std::to_string(i)] = w[i];
        loaded[std::to_string(i)] = same[i];
    }
    cairn::memory_store memory;
    cairn::save_options one_file;
    one_file.storage.thread_count = 1;
    cairn::save(saved, "c", one_file, memory);
    preferring_store store(memory, mib, 16);
    cairn::load_options o;
    o.storage.thread_count = 16;
    cairn::load(loaded, "c", o, store);
    BOOST_TEST((same == w));
    BOOST_TEST(store.largest() <= mib);
    BOOST_TEST(store.reads() <= 2 + (tensors + 2) / 3);  // the metadata, and the footer
    // Of little, each thread gets some.
    preferring_store wide(memory, 16 * mib, 16);
    cairn::load(loaded, "c", o, wide);
    BOOST_TEST((same == w));
    BOOST_TEST(wide.largest() < 2 * mib);
}

BOOST_AUTO_TEST_SUITE_END()
