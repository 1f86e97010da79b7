// SPDX-License-Identifier: Apache-2.0
// The table joins plans as they are joined item by item, and refuses what is refused then: random
// jobs, and unusual ones.
#include "joined_by_maps.hpp"

#include <cairn/planner/detail/plan_table.hpp>
#include <cairn/planner/global_plan.hpp>
#include <cairn/planner/plan_codec.hpp>
#include <cairn/storage/detail/file_layout.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(plan_table)

namespace {

using cairn::box;
using cairn::item_kind;
using cairn::save_plan;
using cairn::write_item;
namespace impl = cairn::detail;

struct joined {
    std::vector<save_plan> plans{};
    cairn::metadata meta{};
};
joined by_items(const std::vector<save_plan>& local, bool lowest) {
    joined j;
    j.plans = by_maps::dedup_save_plans(local, lowest);
    j.meta = by_maps::create_global_metadata(j.plans);
    return j;
}

/// The same by the table, and what it says of the plans besides.
struct tabled : joined {
    std::vector<cairn::stored_amount> stored{};
    std::vector<std::vector<std::pair<std::string, std::uint32_t>>> places{};
    /// Item, rank, index, name.
    std::vector<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::string>> items{};
};
tabled by_table(std::vector<save_plan> local, bool lowest) {
    std::vector<std::vector<std::byte>> encoded;
    std::vector<std::vector<impl::value_numbers>> values;
    for (auto& p : local) {
        values.push_back(impl::take_value_numbers(p));
        encoded.push_back(cairn::encode_save_plan(p));
    }
    // What is said of the bytes of all plans changes nothing, even if it is wrong.
    static std::size_t calls = 0;
    std::size_t bytes = 0;
    for (auto const& e : encoded) bytes += e.size();
    impl::plan_table t(std::array{std::size_t{0}, bytes / 2, bytes, 100 * bytes}[calls++ % 4]);
    for (std::size_t r = 0; r < local.size(); ++r) t.add(encoded[r], values[r]);
    t.number_items();
    tabled j;
    j.stored =
        t.assign(lowest ? cairn::replica_writer::lowest_rank : cairn::replica_writer::least_loaded);
    t.check();
    j.meta = t.make_metadata();
    for (std::size_t r = 0; r < local.size(); ++r) {
        impl::give_value_numbers(local[r], values[r]);
        // As the rank receives it.
        impl::wire_writer w;
        impl::put(w, t.selection_of(r));
        impl::wire_reader sent(w.written());
        j.plans.push_back(
            impl::selected(local[r], impl::get_selection(sent, local[r].items.size())));
        BOOST_TEST(sent.left() == 0u);
        auto& places = j.places.emplace_back();
        for (auto const& p : t.places(r)) places.emplace_back(t.name_of(p.name), p.chunk);
    }
    t.each_shared_item([&](auto item, auto rank, auto index, auto fqn, const box& region) {
        BOOST_TEST((local[rank].items[index].region == region));
        j.items.emplace_back(item, rank, index, std::string(fqn));
    });
    return j;
}

/// What a join says that fails; empty if it does not.
template <class F>
std::string refusal(F&& f) {
    try {
        f();
        return {};
    } catch (const cairn::error& e) {
        return e.what();
    }
}
/// The table gives what is made item by item, or an error; so do the functions for planners.
/// @return The error.
std::string compare(const std::vector<save_plan>& local, bool lowest = false) {
    std::optional<tabled> found;
    joined expected;
    bool const plans = refusal([&] { expected = by_items(local, lowest); }).empty();
    auto const refused = refusal([&] { found = by_table(local, lowest); });
    BOOST_TEST(refused.empty() == plans);
    joined functions;
    auto const same = [&] {
        functions.plans = cairn::dedup_save_plans(local, lowest);
        functions.meta = cairn::create_global_metadata(functions.plans);
    };
    BOOST_TEST(refusal(same) == refused);
    auto all = local, all_expected = local;
    cairn::drop_empty_items(all);
    by_maps::drop_empty_items(all_expected);
    BOOST_TEST((all == all_expected));
    BOOST_TEST(refusal([&] { (void)cairn::create_global_metadata(local); }).empty() ==
               refusal([&] { (void)by_maps::create_global_metadata(local); }).empty());
    if (!refused.empty()) return refused;
    BOOST_TEST_REQUIRE(found.has_value());
    BOOST_TEST((functions.plans == expected.plans));
    BOOST_TEST((functions.meta == expected.meta));
    BOOST_TEST((found->plans == expected.plans));
    BOOST_TEST((found->meta == expected.meta));
    for (std::size_t r = 0; r < local.size(); ++r) {
        auto const& items = found->plans[r].items;
        BOOST_TEST((found->stored[r] == impl::stored_amount_of(found->plans[r])));
        BOOST_TEST_REQUIRE(found->places[r].size() == items.size());
        for (std::size_t k = 0; k < items.size(); ++k) {
            auto const& [fqn, chunk] = found->places[r][k];
            BOOST_TEST(fqn == items[k].fqn);
            if (items[k].kind == item_kind::value) continue;
            auto const* t = found->meta.tensor(fqn);
            BOOST_TEST_REQUIRE(t != nullptr);
            BOOST_TEST((t->chunks[chunk].region == items[k].region));
        }
    }
    // Replicas, all of them, and only these, share a number.
    std::map<std::string, std::size_t> holders, numbered;
    for (auto const& p : local)
        for (auto const& i : p.items)
            if (i.kind != item_kind::value && !i.region.empty())
                ++holders[i.fqn + to_string(i.region)];
    for (auto const& [item, rank, index, fqn] : found->items)
        ++numbered[fqn + to_string(local[rank].items[index].region)];
    for (auto const& [what, n] : holders)
        if (n > 1) BOOST_TEST(numbered[what] == n);
    for (auto const& [a, rank_a, at_a, fqn_a] : found->items)
        for (auto const& [b, rank_b, at_b, fqn_b] : found->items)
            BOOST_TEST((a == b) == (fqn_a == fqn_b && local[rank_a].items[at_a].region ==
                                                          local[rank_b].items[at_b].region));
    return {};
}

write_item tensor(std::string fqn, cairn::index_vector shape, box region) {
    write_item i;
    i.fqn = std::move(fqn);
    i.kind = item_kind::shard;
    i.global_shape = std::move(shape);
    i.region = std::move(region);
    return i;
}
write_item number(std::string fqn, std::uint64_t bytes, std::uint64_t hash) {
    write_item i;
    i.fqn = std::move(fqn);
    i.value_bytes = bytes;
    i.value_hash = hash;
    return i;
}
void add(save_plan& p, write_item i) {
    i.leaf = static_cast<std::uint32_t>(p.items.size());
    p.paths.emplace_back(i.fqn, cairn::key_path{cairn::path_element(i.fqn)});
    p.items.push_back(std::move(i));
}

/// A job of random layout: tensors by rows, on a grid, replicated or on some ranks only, ties of
/// whatever a rank has listed before, values; ranks that list them in other orders.
std::vector<save_plan> random_job(std::mt19937& random) {
    auto const below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
    auto const ranks = 1 + below(6);
    auto const tensors = 1 + below(8);
    std::vector<save_plan> all(static_cast<std::size_t>(ranks));
    for (int t = 0; t < tensors; ++t) {
        auto const fqn =
            "t" + std::string(static_cast<std::size_t>(below(3)), 'x') + std::to_string(t);
        auto const kind = below(5);
        auto const type = below(2) == 0 ? cairn::dtype::float32 : cairn::dtype::bfloat16;
        auto const rows = kind == 3 ? ranks - 1 : ranks * (1 + below(3));
        cairn::index_vector const shape{rows, 4};
        bool const tied = below(3) == 0;
        for (int r = 0; r < ranks; ++r) {
            std::vector<box> mine;
            if (kind == 0 || kind == 3) {  // by rows; the last rank may have none
                auto const from = std::int64_t{rows} * r / ranks;
                mine.push_back({{from, 0}, {std::int64_t{rows} * (r + 1) / ranks - from, 4}});
            } else if (kind == 1) {  // on a grid: pieces of columns
                auto const from = std::int64_t{rows} * r / ranks;
                auto const n = std::int64_t{rows} * (r + 1) / ranks - from;
                mine = {{{from, 0}, {n, 1}}, {{from, 1}, {n, 3}}};
            } else if (kind == 2 || r == t % ranks) {
                mine.push_back(box::whole(shape));
            }
            std::uint32_t n = 0;
            for (auto const& b : mine) {
                auto i = tensor(fqn, shape, b);
                i.type = type;
                i.shard_index = n++;
                auto& p = all[static_cast<std::size_t>(r)];
                if (tied)
                    for (auto const& other : p.items)
                        if (other.region == b && other.type == type && other.tied_to.empty() &&
                            other.fqn != fqn && !b.empty())
                            i.tied_to = other.fqn;
                add(p, std::move(i));
            }
            if (mine.empty() && below(2) == 0) {  // it knows of the tensor, and holds nothing
                auto i = tensor(fqn, shape, {{0, 0}, {0, 0}});
                i.shard_index = write_item::no_shard;
                add(all[static_cast<std::size_t>(r)], std::move(i));
            }
        }
    }
    for (int v = below(3); v > 0; --v) {
        auto const hash = random();
        for (auto& p : all)
            if (below(3) != 0) add(p, number("v" + std::to_string(v), hash % 50, hash));
    }
    if (below(3) == 0) {
        auto& p = all[static_cast<std::size_t>(below(ranks))];
        if (std::all_of(p.items.begin(), p.items.end(),
                        [](auto const& i) { return i.tied_to.empty(); }))
            std::shuffle(p.items.begin(), p.items.end(), random);
    }
    return all;
}

/// Makes something unusual of a plan, so that ranks may contradict each other.
void spoil(std::vector<save_plan>& job, std::mt19937& random) {
    auto const below = [&](std::size_t n) {
        return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
    };
    auto& p = job[below(job.size())];
    if (p.items.empty()) return;
    auto& i = p.items[below(p.items.size())];
    auto const& other = p.items[below(p.items.size())];
    switch (below(10)) {
        case 0: i.value_hash ^= i.kind == item_kind::value ? 1 : 0; break;
        case 1: i.global_shape = other.global_shape; break;
        case 2: i.type = cairn::dtype::int16; break;
        case 3: i.shard_index = write_item::no_shard; break;
        case 4: i.region = other.region; break;
        case 5: i.fqn = other.fqn; break;
        case 6: p.items.push_back(write_item(i)); break;
        case 7:
            if (i.kind != item_kind::value) i.tied_to = other.fqn;
            break;
        case 8: i.requires_grad = i.kind != item_kind::value; break;
        default: p.items.erase(p.items.begin() + (&i - p.items.data()));
    }
    // What no encoder makes of a value.
    for (auto& x : p.items)
        if (x.kind == item_kind::value) x.region = box(), x.global_shape = {};
}

/// Two ranks with two rows of a tensor, a value, and something else.
std::vector<save_plan> usual(const std::function<void(int, save_plan&)>& more) {
    std::vector<save_plan> all(2);
    for (int r = 0; r < 2; ++r) {
        auto& p = all[static_cast<std::size_t>(r)];
        add(p, tensor("w", {4, 2}, {{2 * r, 0}, {2, 2}}));
        add(p, number("step", 8, 77));
        more(r, p);
    }
    return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_table_joins_random_jobs_as_item_by_item) {
    std::mt19937 random(11);
    int planned = 0;
    constexpr int jobs = 3000;
    for (int i = 0; i < jobs; ++i) {
        auto job = random_job(random);
        if (i % 3 == 0) spoil(job, random);
        BOOST_TEST_CONTEXT("job " << i) {
            planned += compare(job, i % 4 == 0).empty();
        }
    }
    BOOST_TEST(planned > jobs / 2);
    BOOST_TEST(planned < jobs);
}

BOOST_AUTO_TEST_CASE(the_table_joins_and_refuses_the_unusual_as_item_by_item) {
    BOOST_TEST(compare(usual([](int, save_plan&) {})).empty());
    using change = std::function<void(int, save_plan&)>;
    std::vector<std::pair<std::string, change>> const refused{
        // holes and overlaps, also of a tensor that is split as one before it that is whole
        {"of [6, 2], found 8 elements in 2 chunks",
         [](int r, save_plan& p) {
             add(p, tensor("holes", {6, 2}, {{3 * r, 0}, {2, 2}}));
         }},
        {"found [0:3, 0:2] of rank 0 and [1:4, 0:2] of rank 1",
         [](int r, save_plan& p) {
             add(p, tensor("overlap", {4, 2}, {{r, 0}, {3, 2}}));
         }},
        {"within [4, 2], found [0:2, 0:3] of rank 0",
         [](int r, save_plan& p) {
             add(p, tensor("beyond", {4, 2}, {{2 * r, 0}, {2, 3}}));
         }},
        {"all 10 elements of [5, 2], found 8 elements",
         [](int r, save_plan& p) {
             add(p, tensor("x", {4, 2}, {{2 * r, 0}, {2, 2}}));
             add(p, tensor("y", {5, 2}, {{2 * r, 0}, {2, 2}}));
         }},
        // values and tensors that contradict each other
        {"the value as on rank 0, found another value on rank 1",
         [](int r, save_plan& p) { add(p, number("seed", 8, static_cast<std::uint64_t>(r))); }},
        {"a value as on rank 0, found a tensor on rank 1",
         [](int r, save_plan& p) {
             add(p, r == 0 ? number("z", 8, 1) : tensor("z", {2, 2}, {{0, 0}, {2, 2}}));
         }},
        {"shape [4, 2] as on rank 0, found shape [4, 3] on rank 1",
         [](int r, save_plan& p) {
             add(p, tensor("z", {4, 2 + r}, {{2 * r, 0}, {2, 2}}));
         }},
        {"dtype float32 as on rank 0, found dtype float64 on rank 1",
         [](int r, save_plan& p) {
             auto i = tensor("z", {4, 2}, {{2 * r, 0}, {2, 2}});
             i.type = r == 0 ? cairn::dtype::float32 : cairn::dtype::float64;
             add(p, std::move(i));
         }},
        {"dtype float32 as on rank 1, found dtype float64 on rank 1",
         [](int r, save_plan& p) {  // the first rank does not know the dtype
             for (int row = 0; row < 2 * r; ++row) {
                 auto i = tensor("z", {2, 2}, {{row, 0}, {1, 2}});
                 i.type = row == 0 ? cairn::dtype::float32 : cairn::dtype::float64;
                 add(p, std::move(i));
             }
             auto none = tensor("z", {2, 2}, {{0, 0}, {0, 0}});
             none.shard_index = write_item::no_shard;
             if (r == 0) add(p, std::move(none));
         }},
        // what a rank lists twice
        {"each box once, found [0:2, 0:2] twice",
         [](int, save_plan& p) { p.items.push_back(p.items.front()); }},
        {"each box once, found [] twice",
         [](int, save_plan& p) { p.items.push_back(p.items.back()); }},
        // a tensor of which nobody has elements
        {"found 0 elements in 1 chunk",
         [](int, save_plan& p) {
             add(p, tensor("z", {4, 2}, {{0, 0}, {0, 2}}));
         }},
    };
    std::vector<change> const planned{
        // a tensor without elements
        [](int, save_plan& p) {
            add(p, tensor("z", {0, 2}, {{0, 0}, {0, 2}}));
        },
        // elements of a rank that says that it has none
        [](int r, save_plan& p) {
            auto i = tensor("z", {4, 2}, {{2 * r, 0}, {2, 2}});
            if (r == 1) i.shard_index = write_item::no_shard;
            add(p, std::move(i));
        },
        // ties to what is unknown, to a value, to another dtype, to what follows, and chains
        [](int r, save_plan& p) {
            auto i = tensor("z", {4, 2}, {{2 * r, 0}, {2, 2}});
            i.tied_to = "step";
            add(p, std::move(i));
        },
        [](int r, save_plan& p) {
            auto i = tensor("z", {4, 2}, {{2 * r, 0}, {2, 2}});
            i.type = cairn::dtype::int32;
            i.tied_to = "w";
            add(p, std::move(i));
        },
        [](int r, save_plan& p) {
            auto i = tensor("z", {2, 2}, {{0, 0}, {2, 2}});
            auto tied = tensor("y", {2, 2}, {{0, 0}, {2, 2}});
            tied.tied_to = "z";
            if (r == 1) add(p, tied);
            add(p, std::move(i));
        },
        [](int r, save_plan& p) {
            auto i = tensor("z", {4, 2}, {{2 * r, 0}, {2, 2}});
            i.tied_to = "nobody";
            add(p, std::move(i));
        },
        [](int r, save_plan& p) {
            for (auto const* to : {"w", "a"}) {
                auto i = tensor(to == std::string("w") ? "a" : "b", {4, 2}, {{2 * r, 0}, {2, 2}});
                i.tied_to = to;
                add(p, std::move(i));
            }
        },
    };
    for (std::size_t n = 0; n < refused.size(); ++n) BOOST_TEST_CONTEXT(n) {
            auto const& [words, make] = refused[n];
            auto const found = compare(usual(make));
            BOOST_TEST(found.find(words) != found.npos, found);
        }
    for (std::size_t n = 0; n < planned.size(); ++n) BOOST_TEST_CONTEXT(n) {
            BOOST_TEST(compare(usual(planned[n])) == "");
        }
}

BOOST_AUTO_TEST_CASE(a_value_without_its_size_is_refused) {
    auto local = usual([](int, save_plan&) {});
    auto const values = impl::take_value_numbers(local[0]);
    auto const encoded = cairn::encode_save_plan(local[0]);
    for (std::size_t const n : {0u, 2u}) {
        impl::plan_table t;
        std::vector<impl::value_numbers> const other(n);
        BOOST_CHECK_THROW(t.add(encoded, other), cairn::error);
    }
    for (std::size_t n = 0; n < encoded.size(); ++n) {
        impl::plan_table t;
        BOOST_CHECK_THROW(t.add(std::span(encoded).first(n), values), cairn::error);
    }
}

BOOST_AUTO_TEST_SUITE_END()
