// SPDX-License-Identifier: Apache-2.0
// The second stored copy of a tied weight, which is only compared, is read a few MiB at a time.
#include "replicas.hpp"

#include <cairn/cairn.hpp>
#include <cairn/load/plan_pieces.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(bounded)

namespace {

using namespace replicas;

constexpr std::int64_t rows = 5000, columns = 1001;  // 20 MB
constexpr std::uint64_t bytes = rows * columns * sizeof(float);

/// Element `i`: a number that bfloat16 holds.
std::vector<float> content() {
    std::vector<float> v(static_cast<std::size_t>(rows * columns));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i % 251);
    return v;
}
cairn::tensor_view whole(std::vector<float>& v) {
    return {cairn::dtype::float32, {rows, columns}, v.data()};
}

/// For each call of read_data, the bytes of windows that are not in the user's memory.
struct beside {
    std::byte const *begin, *end;  ///< The user's.
    std::mutex m{};
    std::vector<std::uint64_t> calls{};

    template <class T>
    explicit beside(std::vector<T>& v)
        : begin(reinterpret_cast<std::byte*>(v.data())), end(begin + v.size() * sizeof(T)) {}
    void note(const cairn::tensor_view& w) {
        std::lock_guard const lock(m);
        if (w.data < begin || w.data >= end) calls.back() += w.bytes();
    }
    std::uint64_t all() const {
        return std::accumulate(calls.begin(), calls.end(), std::uint64_t{0});
    }
    std::uint64_t most() const { return *std::max_element(calls.begin(), calls.end()); }
};
struct noting_reader : cairn::torch_reader {
    template <class Store>
    noting_reader(Store store, beside& b) : torch_reader(std::move(store)), beside_(&b) {}
    void read_data(const cairn::load_plan& plan, const cairn::read_target& target,
                   cairn::completion<cairn::read_result> done) {
        beside_->calls.push_back(0);
        noted_ = target;
        noted_.resolve_converted = [this, &target](const cairn::read_item& i) {
            auto const w = target.resolve_converted(i);
            beside_->note(w);
            return w;
        };
        cairn::torch_reader::read_data(plan, noted_, std::move(done));
    }

private:
    beside* beside_;
    cairn::read_target noted_{};
};

}  // namespace

namespace {

using cairn::index_vector;

/// A tensor of one chunk, and a plan that reads all but a frame of it.
struct one_tensor {
    cairn::metadata meta{};
    cairn::load_plan plan{};

    explicit one_tensor(bool with_layout, bool row_major = true) {
        cairn::tensor_metadata t;
        t.shape = {4000, 3, 1001};
        cairn::chunk c{cairn::box::whole(t.shape), {}};
        auto const n = static_cast<std::uint64_t>(t.shape.product()) * 4;
        c.at = {"f", 0, n + 100, {}, {}};
        if (with_layout)
            c.at.layout = cairn::item_layout{
                100, n, 1, 2,
                row_major ? cairn::row_major_strides(t.shape) : index_vector{3, 1, 12000}};
        t.chunks.push_back(c);
        meta.entries["w"] = t;
        plan.storage_data = "s";
        plan.items.push_back(
            {"w", cairn::item_kind::shard, 3, 1, 0, {5, 0, 1}, {7, 0, 0}, {3990, 2, 1000}});
    }
    std::vector<cairn::load_plan> parts() const {
        cairn::detail::plan_pieces pieces;
        pieces.reset(plan, meta);
        std::vector<cairn::load_plan> all;
        for (;;) {
            all.push_back(pieces.next());
            if (!all.back().items.empty()) continue;
            all.pop_back();
            return all;
        }
    }
};

}  // namespace

BOOST_AUTO_TEST_CASE(pieces_are_the_whole) {
    one_tensor of(true);
    of.plan.items.push_back(of.plan.items[0]);
    of.plan.items.back().shape = {1, 1, 1};
    of.plan.items.back().leaf = 5;
    cairn::detail::plan_pieces pieces;
    for (int again = 0; again < 2; ++again) {
        pieces.reset(of.plan, of.meta);
        BOOST_TEST(pieces.content().first == 3990u * 2 * 1000 * 4 + 4);
        BOOST_TEST(pieces.content().second == 2u);
    }
    auto const all = of.parts();
    BOOST_TEST(all.size() == 4u);
    std::int64_t row = 0;
    for (auto const& some : all) {
        BOOST_TEST(some.storage_data == "s");
        std::int64_t elements = 0;
        for (auto const& i : some.items) {
            elements += i.shape.product();
            if (i.leaf == 5) continue;
            BOOST_TEST((i.fqn == "w" && i.leaf == 3 && i.shard_index == 1 && i.chunk == 0));
            BOOST_TEST((i.source_offsets == index_vector{5 + row, 0, 1}));
            BOOST_TEST((i.target_offsets == index_vector{7 + row, 0, 0}));
            BOOST_TEST((i.shape[1] == 2 && i.shape[2] == 1000));
            row += i.shape[0];
        }
        BOOST_TEST(elements * 4 <= 8 << 20);
    }
    BOOST_TEST(row == 3990);
    BOOST_TEST((all.back().items.back() == of.plan.items.back()));
}

/// Of such chunks each piece would read everything.
BOOST_AUTO_TEST_CASE(chunks_without_checksums_of_parts_are_read_whole) {
    for (auto const& of : {one_tensor(false), one_tensor(true, false)}) {
        auto const all = of.parts();
        BOOST_TEST_REQUIRE(all.size() == 1u);
        BOOST_TEST((all[0].items == of.plan.items));
    }
}

/// What a planner has made up reaches the reader as it is, which refuses it.
BOOST_AUTO_TEST_CASE(items_that_are_not_in_the_metadata_are_not_touched) {
    for (int what = 0; what < 6; ++what) {
        one_tensor of(true);
        auto& i = of.plan.items[0];
        if (what == 0) i.fqn = "other";
        if (what == 1) i.chunk = 1;
        if (what == 2) i.shape = {-1};
        if (what == 3) i.shape = {std::int64_t{1} << 58, 1, 1};
        if (what == 4) i.source_offsets = {};
        if (what == 5) i.target_offsets = {};
        auto const all = of.parts();
        BOOST_TEST_REQUIRE(all.size() == 1u);
        BOOST_TEST((all[0].items == of.plan.items));
    }
}

BOOST_AUTO_TEST_CASE(second_copies_are_compared_in_parts) {
    for (bool const alike : {true, false}) {
        auto one = content(), two = content();
        if (!alike) two.back() += 1;  // in the last part
        cairn::memory_store store;
        cairn::save(cairn::state_dict{{"weight", whole(one)}, {"zcopy", whole(two)}}, "c", store);

        std::vector<float> to(one.size());
        beside seen(to);
        cairn::state_dict sd{{"weight", whole(to)}, {"zcopy", whole(to)}};
        auto const load = [&] { return cairn::load(sd, "c", noting_reader(store, seen)); };
        if (alike) {
            load();
            BOOST_TEST(seen.calls.size() == 4u);
        } else {
            BOOST_CHECK_EXCEPTION(load(), cairn::error, [](const cairn::error& e) {
                return e.code() == cairn::make_error_code(cairn::errc::invalid_state) &&
                       e.context().fqn == "zcopy" &&
                       std::string(e.what()).find("'weight'") != std::string::npos;
            });
        }
        BOOST_TEST((to == one));
        BOOST_TEST(seen.all() == bytes);
        BOOST_TEST(seen.most() <= std::uint64_t{8} << 20);
    }
}

BOOST_AUTO_TEST_SUITE_END()
