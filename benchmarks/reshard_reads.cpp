// SPDX-License-Identifier: Apache-2.0
// Counts how many bytes a load reads, and how many it needs, if the number of ranks or the layout
// differs from the save's. Counted at the store, in one process; no times are measured.
//
//     reshard_reads
//
// The state is saved by rows. One line of JSON for each layout: `needed` are the bytes of the
// shards that all ranks load, `read` those that the stores of all ranks were asked for in data
// files, and `ratio` is read / needed. `most_by_a_rank` is what one rank reads at most, as a share
// of all that is stored: more than 1 would mean that it reads something twice.
#include "support/forwarding_store.hpp"

#include <cairn/cairn.hpp>
#include <cairn/comm/thread_group.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

/// Counts the bytes that are read from data files.
class counted_store : public support::forwarding_store<cairn::memory_store> {
    using base = support::forwarding_store<cairn::memory_store>;
    using handle = decltype(std::declval<cairn::memory_store&>().open(""));

public:
    explicit counted_store(cairn::memory_store s) : base(std::move(s)) {}
    counted_store at(std::string id) const {
        auto copy = *this;
        copy.store_ = copy.store_.at(std::move(id));
        return copy;
    }
    auto create(std::string_view name, std::uint64_t size) { return store_.create(name, size); }
    struct reader {
        handle h;
        std::shared_ptr<std::atomic<std::uint64_t>> count;  ///< Null: not a data file.
        void read(std::uint64_t at, std::span<std::byte> into) {
            h.read(at, into);
            if (count) *count += into.size();
        }
        std::uint64_t size() { return h.size(); }
    };
    reader open(std::string_view name) {
        return {store_.open(name), name.ends_with(".distcp") ? count_ : nullptr};
    }
    std::uint64_t count() const { return *count_; }

private:
    std::shared_ptr<std::atomic<std::uint64_t>> count_ =
        std::make_shared<std::atomic<std::uint64_t>>(0);
};

struct layout {
    int tensors;
    std::int64_t rows, columns;
    cairn::index_vector shape() const { return {rows, columns}; }
    float element(std::int64_t position) const { return static_cast<float>(position % 8191); }
};

/// What one rank holds.
class part {
public:
    part(const layout& l, int rank, int ranks, std::size_t dim, bool filled) : layout_(l) {
        auto const from = l.shape()[dim] * rank / ranks, to = l.shape()[dim] * (rank + 1) / ranks;
        region_ = cairn::box::whole(l.shape());
        region_.offsets[dim] = from;
        region_.shape[dim] = to - from;
        for (int t = 0; t < l.tensors; ++t) {
            auto& m = memory_.emplace_back(static_cast<std::size_t>(region_.volume()));
            if (filled)
                for (std::size_t i = 0; i < m.size(); ++i) m[i] = l.element(position_of(i));
            cairn::tensor_view const v(cairn::dtype::float32, region_.shape, m.data());
            state["t" + std::to_string(t)] =
                cairn::sharded_view{l.shape(), cairn::dtype::float32, {cairn::shard(region_, v)}};
        }
    }
    std::uint64_t bytes() const {
        return static_cast<std::uint64_t>(region_.volume()) * sizeof(float) * memory_.size();
    }
    void check() const {
        for (auto const& m : memory_)
            for (std::size_t i = 0; i < m.size(); ++i)
                if (m[i] != layout_.element(position_of(i)))
                    throw std::runtime_error("a load gave other elements than were saved");
    }
    cairn::state_dict state{};

private:
    std::int64_t position_of(std::size_t i) const {
        auto const k = static_cast<std::int64_t>(i), n = region_.shape[1];
        return (region_.offsets[0] + k / n) * layout_.columns + region_.offsets[1] + k % n;
    }
    layout layout_;
    cairn::box region_;
    std::vector<std::vector<float>> memory_{};
};

void measure(const layout& l, int saved_by, int loaded_by, std::size_t dim) {
    cairn::memory_store store;
    cairn::run_ranks(saved_by, [&](cairn::thread_group::member& me) {
        part p(l, me.rank(), saved_by, 0, true);
        (void)cairn::save(p.state, "c", me, store);
    });
    std::vector<std::uint64_t> read(static_cast<std::size_t>(loaded_by)), needed(read.size());
    cairn::run_ranks(loaded_by, [&](cairn::thread_group::member& me) {
        auto const at = static_cast<std::size_t>(me.rank());
        part p(l, me.rank(), loaded_by, dim, false);
        counted_store mine(store);
        (void)cairn::load(p.state, "c", me, mine);
        p.check();
        read[at] = mine.count();
        needed[at] = p.bytes();
    });
    std::uint64_t all_read = 0, all_needed = 0;
    for (auto n : read) all_read += n;
    for (auto n : needed) all_needed += n;
    auto const tensor = static_cast<std::uint64_t>(l.rows * l.columns) * sizeof(float);
    auto const stored = static_cast<double>(tensor * static_cast<std::uint64_t>(l.tensors));
    std::printf(
        "{\"saved_by\": %d, \"loaded_by\": %d, \"by\": \"%s\", \"tensor_bytes\": %llu, "
        "\"needed\": %llu, \"read\": %llu, \"ratio\": %.4f, \"most_by_a_rank\": %.4f}\n",
        saved_by, loaded_by, dim == 0 ? "rows" : "columns", static_cast<unsigned long long>(tensor),
        static_cast<unsigned long long>(all_needed), static_cast<unsigned long long>(all_read),
        static_cast<double>(all_read) / static_cast<double>(all_needed),
        static_cast<double>(*std::max_element(read.begin(), read.end())) / stored);
}

}  // namespace

int main() {
    try {
        // 24 MiB each, and 66 kB.
        for (auto const& l : {layout{4, 24576, 256}, layout{256, 48, 344}}) {
            for (auto const& [from, to] : {std::pair(4, 2), {4, 8}, {8, 3}, {4, 1}})
                measure(l, from, to, 0);
            measure(l, 4, 8, 1);
        }
    } catch (const std::exception& e) {
        std::fprintf(stderr, "reshard_reads: %s\n", e.what());
        return 1;
    }
}
