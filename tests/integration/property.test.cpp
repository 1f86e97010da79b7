// SPDX-License-Identifier: Apache-2.0
// Random source and target layouts through a whole save and load, against a dense oracle; in half
// of the saves shards are cut into several items.
#include <cairn/cairn.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <random>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(property)

namespace {

using cairn::box;
using cairn::index_vector;
using engine = std::mt19937_64;

int below(engine& e, int n) {
    return static_cast<int>(e() % static_cast<unsigned>(n));
}

/// Boxes of each rank in one random layout; together they cover the tensor.
std::vector<std::vector<box>> layout(engine& e, const index_vector& extents, int ranks) {
    std::vector<std::vector<box>> out(static_cast<std::size_t>(ranks));
    auto const rank = static_cast<int>(extents.size());
    int const kind = rank == 0 ? 0 : below(e, 6);
    for (int r = 0; r < ranks; ++r) {
        auto& mine = out[static_cast<std::size_t>(r)];
        if (kind == 0) {
            mine = {box::whole(extents)};
        } else if (kind == 1 || kind == 2) {
            mine = boxes_of(extents, cairn::device_mesh::line(ranks),
                            {cairn::shard_along{kind == 1 ? 0 : rank - 1}}, r);
        } else if (kind == 3) {
            auto const n = extents.product();
            mine = cairn::boxes_of_flat_range(extents, n * r / ranks, n * (r + 1) / ranks);
        } else if (kind == 4 && ranks % 2 == 0) {
            mine = boxes_of(extents, cairn::device_mesh::grid({2, ranks / 2}),
                            {cairn::shard_along{0}, cairn::shard_along{rank - 1}}, r);
        } else if (kind == 4) {
            if (r == 0) mine = {box::whole(extents)};
        } else if (ranks % 2 == 0) {
            mine = boxes_of(extents, cairn::device_mesh::grid({2, ranks / 2}),
                            {cairn::replicate{}, cairn::shard_along{0}}, r);
        } else {
            mine = boxes_of(extents, cairn::device_mesh::line(ranks), {cairn::shard_along{0}}, r);
        }
    }
    return out;
}

struct tensor {
    std::string name;
    cairn::dtype type;
    index_vector shape;
    std::vector<std::byte> dense;
    std::vector<std::vector<box>> from, to;
};

/// One rank's memory of some boxes, each with strides of its own.
struct holder {
    std::vector<std::vector<std::byte>> memory;
    cairn::sharded_view view;

    holder(const tensor& t, const std::vector<box>& boxes, std::uint64_t seed, bool fill) {
        view = {t.shape, t.type, {}};
        engine e(seed);
        cairn::tensor_view const dense(t.type, t.shape, const_cast<std::byte*>(t.dense.data()));
        for (auto const& b : boxes) {
            // A random order of dimensions in memory, now and then with gaps.
            std::vector<std::size_t> order(b.rank());
            std::iota(order.begin(), order.end(), std::size_t{0});
            if (below(e, 3) == 0) std::shuffle(order.begin(), order.end(), e);
            std::int64_t step = below(e, 4) == 0 ? 2 : 1;
            index_vector strides(b.rank(), 0);
            for (std::size_t k = order.size(); k-- > 0;) {
                strides[order[k]] = step;
                step *= std::max<std::int64_t>(1, b.shape[order[k]]);
            }
            memory.emplace_back(static_cast<std::size_t>(step) * cairn::size_of(t.type) + 1,
                                std::byte{0xee});
            cairn::tensor_view v(t.type, b.shape, strides, memory.back().data());
            if (fill && !b.empty()) copy_elements(cairn::const_tensor_view(subview(dense, b)), v);
            view.shards.emplace_back(b, v);
        }
    }
    bool equals(const tensor& t) const {
        cairn::const_tensor_view const dense(t.type, t.shape, t.dense.data());
        for (auto const& s : view.shards) {
            std::vector<std::byte> got(static_cast<std::size_t>(s.view.bytes())), want(got.size());
            if (s.region.empty()) continue;
            copy_elements(s.view, cairn::tensor_view(t.type, s.region.shape, got.data()));
            copy_elements(subview(dense, s.region),
                          cairn::tensor_view(t.type, s.region.shape, want.data()));
            if (got != want) return false;
        }
        return true;
    }
};

tensor random_tensor(engine& e, std::size_t index, int from, int to) {
    tensor t;
    t.name = "t" + std::to_string(index);
    t.type = static_cast<cairn::dtype>(below(e, cairn::dtype_count));
    for (int d = below(e, 5); d > 0; --d) t.shape.push_back(below(e, 9) == 0 ? 0 : 1 + below(e, 8));
    t.dense.resize(static_cast<std::size_t>(t.shape.product()) * cairn::size_of(t.type));
    for (auto& b : t.dense) b = static_cast<std::byte>(e());
    t.from = layout(e, t.shape, from);
    t.to = layout(e, t.shape, to);
    return t;
}

/// Some items as up to three, cut along any dimension, some of them empty; replicas are cut alike.
std::vector<cairn::write_item> cut(std::vector<cairn::write_item> usual, std::uint64_t seed) {
    std::vector<cairn::write_item> out;
    for (auto& i : usual) {
        for (auto n : i.region.offsets) seed = seed * 31 + static_cast<std::uint64_t>(n);
        for (auto n : i.region.shape) seed = seed * 37 + static_cast<std::uint64_t>(n);
        engine e(seed);
        if (i.kind == cairn::item_kind::value || i.region.rank() == 0 || below(e, 3) == 0) {
            out.push_back(std::move(i));
            continue;
        }
        auto const d = static_cast<std::size_t>(below(e, static_cast<int>(i.region.rank())));
        auto const end = i.region.end(d);
        for (int pieces = 1 + below(e, 3); pieces > 0; --pieces) {
            auto piece = i;
            auto const left = end - i.region.offsets[d];
            piece.region.shape[d] = pieces == 1 ? left : below(e, static_cast<int>(left) + 1);
            i.region.offsets[d] += piece.region.shape[d];
            out.push_back(std::move(piece));
        }
    }
    return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(any_layout_loads_into_any_other) {
    auto const* given = std::getenv("CAIRN_PROPERTY_SEED");
    std::uint64_t const seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20261121;
    std::size_t const wanted = CAIRN_PROPERTY_PAIRS, per_save = 500;
    engine e(seed);
    std::size_t pairs = 0, wrong = 0;
    for (std::size_t round = 0; pairs < wanted; ++round) {
        int const from = 1 + below(e, 6), to = 1 + below(e, 6);
        std::vector<tensor> tensors;
        for (std::size_t i = 0; i < per_save; ++i) tensors.push_back(random_tensor(e, i, from, to));
        cairn::memory_store store;
        cairn::save_options options;
        options.storage.payload_alignment = round % 2 == 0 ? 64 : 4096;
        options.storage.thread_count = 1 + static_cast<int>(round % 2);
        if (round % 4 > 1)
            options.planner.create_items = [&](const cairn::flat_leaf&,
                                               std::vector<cairn::write_item> usual) {
                return cut(std::move(usual), seed + round);
            };
        cairn::run_ranks(from, [&](cairn::thread_group::member& me) {
            std::vector<holder> held;
            cairn::state_dict sd;
            held.reserve(tensors.size());
            for (auto const& t : tensors) {
                held.emplace_back(t, t.from[static_cast<std::size_t>(me.rank())], seed + pairs,
                                  true);
                sd[t.name] = held.back().view;
            }
            cairn::save(sd, "p", options, me, store);
        });
        std::vector<std::size_t> bad(static_cast<std::size_t>(to), 0);
        cairn::run_ranks(to, [&](cairn::thread_group::member& me) {
            std::vector<holder> held;
            cairn::state_dict sd;
            held.reserve(tensors.size());
            auto const r = static_cast<std::size_t>(me.rank());
            for (auto const& t : tensors) {
                held.emplace_back(t, t.to[r], seed + pairs + 1, false);
                sd[t.name] = held.back().view;
            }
            cairn::load(sd, "p", me, store);
            for (std::size_t i = 0; i < tensors.size(); ++i) bad[r] += !held[i].equals(tensors[i]);
        });
        for (auto n : bad) wrong += n;
        pairs += per_save;
    }
    std::cout << "property: " << pairs << " pairs of layouts, seed " << seed << ", " << wrong
              << " wrong\n";
    BOOST_TEST(wrong == 0u);
    BOOST_TEST(pairs >= wanted);
}

BOOST_AUTO_TEST_SUITE_END()
