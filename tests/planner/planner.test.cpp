// SPDX-License-Identifier: Apache-2.0
#include "support/error_codes.hpp"
#include "support/write_results.hpp"

#include <cairn/format/native/index.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/planner/default_planner.hpp>
#include <cairn/planner/detail/tied_leaves.hpp>
#include <cairn/planner/global_plan.hpp>
#include <cairn/planner/plan_codec.hpp>
#include <cairn/storage/detail/data_names.hpp>

#include <cairn/cairn.hpp>
#include <cairn/planner/reshard.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

BOOST_AUTO_TEST_SUITE(planner)

namespace {

using cairn::box;
using cairn::errc;

cairn::chunk_list chunks_1d(const std::vector<std::int64_t>& lengths) {
    cairn::chunk_list out;
    std::int64_t at = 0;
    for (auto n : lengths) {
        out.push_back({box({at}, {n}), {}});
        at += n;
    }
    return out;
}

cairn::write_item item(const std::string& fqn, box region, cairn::index_vector global) {
    cairn::write_item w;
    w.fqn = fqn;
    w.kind = cairn::item_kind::shard;
    w.region = std::move(region);
    w.global_shape = std::move(global);
    return w;
}
cairn::write_item object(const std::string& fqn, std::uint64_t hash) {
    cairn::write_item w;
    w.fqn = fqn;
    w.value_bytes = 10;
    w.value_hash = hash;
    return w;
}
cairn::save_plan plan(std::vector<cairn::write_item> items) {
    cairn::save_plan p;
    p.items = std::move(items);
    return p;
}
using support::is;

}  // namespace

// DCP's test_planner: 16 elements in chunks of 8 and 8, wanted [4, 15).
BOOST_AUTO_TEST_CASE(a_box_across_two_chunks_has_two_read_items) {
    auto const stored = chunks_1d({8, 8});
    std::vector<box> const wanted{box({4}, {7})};
    auto const items = cairn::create_read_items("w", 0, stored, wanted);
    BOOST_REQUIRE(items.size() == 2u);
    BOOST_TEST((items[0].source_offsets == cairn::index_vector{4}));
    BOOST_TEST((items[0].target_offsets == cairn::index_vector{0}));
    BOOST_TEST((items[0].shape == cairn::index_vector{4}));
    BOOST_TEST((items[1].source_offsets == cairn::index_vector{0}));
    BOOST_TEST((items[1].target_offsets == cairn::index_vector{4}));
    BOOST_TEST((items[1].shape == cairn::index_vector{3}));
}

BOOST_AUTO_TEST_CASE(read_items_cover_each_wanted_element_once) {
    for (auto const& [from, to] :
         std::vector<std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>>{
             {{2, 2, 2, 2, 2, 2, 2, 2}, {4, 4, 4, 4}},
             {{4, 4, 4, 4}, {6, 5, 5}},
             {{16}, {1, 0, 15}}}) {
        auto const stored = chunks_1d(from);
        std::vector<box> wanted;
        for (auto const& c : chunks_1d(to)) wanted.push_back(c.region);
        std::vector<int> seen(16, 0);
        for (auto const& i : cairn::create_read_items("w", 0, stored, wanted)) {
            BOOST_TEST(stored[i.chunk].region.offsets[0] + i.source_offsets[0] ==
                       wanted[i.shard_index].offsets[0] + i.target_offsets[0]);
            for (std::int64_t k = 0; k < i.shape[0]; ++k)
                ++seen[static_cast<std::size_t>(wanted[i.shard_index].offsets[0] +
                                                i.target_offsets[0] + k)];
        }
        BOOST_TEST(seen == std::vector<int>(16, 1), boost::test_tools::per_element());
    }
}

BOOST_AUTO_TEST_CASE(a_scalar_is_one_item) {
    cairn::chunk_list const stored{{box(), {}}};
    std::vector<box> const wanted{box()};
    BOOST_TEST(cairn::create_read_items("s", 0, stored, wanted).size() == 1u);
}

BOOST_AUTO_TEST_CASE(replicas_go_to_the_least_loaded_rank_once) {
    std::vector<cairn::save_plan> all;
    for (int r = 0; r < 3; ++r)
        all.push_back(plan({item("a", box({0}, {8}), {8}), item("b", box({0}, {8}), {8}),
                            item("c", box({0}, {8}), {8})}));
    auto const spread = cairn::dedup_save_plans(all);
    for (auto const& p : spread) BOOST_TEST(p.items.size() == 1u);
    auto const lowest = cairn::dedup_save_plans(all, true);
    BOOST_TEST(lowest[0].items.size() == 3u);
    BOOST_TEST(lowest[2].items.empty());
}

BOOST_AUTO_TEST_CASE(contradictions_name_both_ranks) {
    auto const refused = [](std::vector<cairn::save_plan> all) {
        BOOST_CHECK_EXCEPTION(
            cairn::create_global_metadata(cairn::dedup_save_plans(std::move(all))), cairn::error,
            [](const cairn::error& e) {
                std::string const s = e.what();
                return e.code() == cairn::make_error_code(errc::invalid_plan) &&
                       s.find("rank 0") != s.npos && s.find("rank 1") != s.npos;
            });
    };
    auto other_dtype = item("w", box({4}, {4}), {8});
    other_dtype.type = cairn::dtype::int64;
    refused({plan({item("w", box({0}, {4}), {8})}), plan({other_dtype})});
    refused({plan({item("w", box({0}, {4}), {8})}), plan({item("w", box({4}, {4}), {9})})});
    refused({plan({item("w", box({0}, {5}), {8})}), plan({item("w", box({4}, {4}), {8})})});
    refused({plan({object("o", 1)}), plan({object("o", 2)})});
    refused({plan({object("o", 1)}), plan({item("o", box({0}, {4}), {4})})});
}

BOOST_AUTO_TEST_CASE(items_that_cannot_be_sent_are_refused_with_rank_and_name) {
    auto const good = plan({item("w", box({0}, {4}), {4})});
    std::vector<cairn::save_plan> spoiled(6, good);
    spoiled[0].items[0].kind = cairn::item_kind(0);
    spoiled[1].items[0].kind = cairn::item_kind(4);
    spoiled[2].items[0].type = cairn::dtype(cairn::dtype_count);
    spoiled[3].items[0].global_shape = cairn::index_vector(65, 1);
    spoiled[4].items[0].region.shape = cairn::index_vector(65, 1);
    spoiled[5].paths = {{"w", cairn::key_path(257, cairn::path_element("w"))}};
    for (auto const& bad : spoiled) {
        std::vector const all{good, bad};
        auto const refused = [](const cairn::error& e) {
            auto const& c = e.context();
            return e.code() == make_error_code(errc::invalid_plan) && c.rank == 1 && c.fqn == "w" &&
                   !c.expected.empty() && !c.found.empty() && !c.remedy.empty();
        };
        auto to_drop = all;
        BOOST_CHECK_EXCEPTION(cairn::drop_empty_items(to_drop), cairn::error, refused);
        BOOST_CHECK_EXCEPTION((void)cairn::dedup_save_plans(all), cairn::error, refused);
        BOOST_CHECK_EXCEPTION((void)cairn::create_global_metadata(all), cairn::error, refused);
    }
}

BOOST_AUTO_TEST_CASE(a_planner_whose_items_cannot_be_sent_is_named_with_its_rank) {
    struct planner_of_nothing_known : cairn::default_planner {
        cairn::save_plan create_local_save_plan() {
            auto p = default_planner::create_local_save_plan();
            p.items.front().kind = cairn::item_kind(9);
            return p;
        }
    };
    cairn::memory_store store;
    planner_of_nothing_known planner;
    BOOST_CHECK_EXCEPTION(cairn::save(cairn::state_dict{{"a", 1}}, "c", store, planner),
                          cairn::error, [](const cairn::error& e) {
                              auto const& c = e.context();
                              return e.code() == make_error_code(errc::invalid_plan) &&
                                     c.rank == 0 && c.fqn == "a" && c.found == "number 9";
                          });
}

BOOST_AUTO_TEST_CASE(a_box_that_a_rank_has_twice_is_refused) {
    auto const once = item("w", box({0}, {4}), {4});
    BOOST_CHECK_EXCEPTION((void)cairn::dedup_save_plans({plan({once, once})}), cairn::error,
                          [](const cairn::error& e) {
                              return e.code() == cairn::make_error_code(errc::invalid_plan) &&
                                     e.context().found.ends_with("twice");
                          });
}

BOOST_AUTO_TEST_CASE(holes_and_bounds_are_refused) {
    BOOST_CHECK_EXCEPTION(
        cairn::create_global_metadata(std::vector{plan({item("w", box({0}, {4}), {8})})}),
        cairn::error, [](const cairn::error& e) {
            return e.code() == cairn::make_error_code(errc::invalid_plan) &&
                   e.context().found == "4 elements in 1 chunk";
        });
    BOOST_CHECK_EXCEPTION(
        cairn::create_global_metadata(std::vector{plan({item("w", box({4}, {8}), {8})})}),
        cairn::error, is(errc::invalid_plan));
}

BOOST_AUTO_TEST_CASE(a_load_reports_what_differs) {
    cairn::memory_store store;
    std::vector<float> w(4, 1), extra(2, 2);
    cairn::state_dict saved{{"w", w}, {"extra", extra}, {"o", 1}};
    cairn::save(saved, "c", store);

    std::vector<float> other(5);
    std::vector<double> wide(4);
    cairn::state_dict shape{{"w", other}}, dtype{{"w", wide}}, missing{{"v", w}}, kind{{"o", w}},
        ok{{"w", w}};
    BOOST_CHECK_EXCEPTION(cairn::load(shape, "c", store), cairn::error, is(errc::shape_mismatch));
    BOOST_CHECK_EXCEPTION(cairn::load(dtype, "c", store), cairn::error, is(errc::dtype_mismatch));
    BOOST_CHECK_EXCEPTION(cairn::load(missing, "c", store), cairn::error, is(errc::missing_key));
    BOOST_CHECK_EXCEPTION(cairn::load(kind, "c", store), cairn::error, is(errc::kind_mismatch));
    BOOST_TEST(cairn::load(ok, "c", store).unexpected.size() == 2u);
    cairn::load_options o;
    o.planner.strict = true;
    BOOST_CHECK_EXCEPTION(cairn::load(ok, "c", o, store), cairn::error, is(errc::unexpected_key));
    o.planner.strict = false;
    o.planner.dtypes = cairn::dtype_policy::convert;
    BOOST_TEST(cairn::load(dtype, "c", o, store).converted.size() == 1u);
    BOOST_TEST(wide[3] == 1.0);
    std::vector<float> const constant(4);
    cairn::state_dict read_only{{"w", constant}};
    BOOST_CHECK_EXCEPTION(cairn::load(read_only, "c", store), cairn::error,
                          is(errc::invalid_state));
}

/// In another order and one by one, which took minutes.
BOOST_AUTO_TEST_CASE(chunks_of_a_weight_that_is_stored_twice_are_found_by_their_boxes) {
    std::uint32_t const n = 100'000;
    std::vector<float> w(n);
    cairn::tensor_metadata first, second;
    first.shape = second.shape = {n};
    std::vector<cairn::read_item> items;
    for (std::uint32_t i = 0; i < n; ++i) {
        first.chunks.push_back({box({i}, {1}), {"a", i, 1, {}, {}}});
        second.chunks.push_back({box({n - 1 - i}, {1}), {"b", i, 1, {}, {}}});
        items.emplace_back().chunk = i;
        if (i % 2 == 0) items.push_back(items.back());
    }
    auto const leaf = cairn::node(cairn::tensor_view(cairn::dtype::f32, {n}, w.data())).as_tensor();
    cairn::detail::tied_leaves tied;
    BOOST_TEST((tied.first_of("a", leaf, first) == nullptr));
    auto const* found = tied.first_of("b", leaf, second);
    BOOST_REQUIRE((found != nullptr));
    BOOST_TEST(!found->is_stored_as(second));
    tied.add(*found, "b", second, items);
    auto const& chunks = tied.ties().at(0).chunks;
    BOOST_TEST(chunks.size() == n);
    for (std::uint32_t i = 0; i < n; i += 999) BOOST_TEST((chunks[i] == std::pair(i, n - 1 - i)));
}

BOOST_AUTO_TEST_CASE(halves_of_a_storage_are_not_one_weight) {
    std::vector<float> w(4);
    cairn::tensor_metadata first, second;
    first.shape = second.shape = {4};
    cairn::item_layout layout{0, 16, 0, 0, {1}};
    first.chunks.push_back({box({0}, {4}), {"m.pt", 64, 32, {}, layout}});
    layout.payload_offset = 16;
    second.chunks.push_back({box({0}, {4}), {"m.pt", 64, 32, {}, layout}});
    auto const leaf = cairn::node(cairn::tensor_view(cairn::dtype::f32, {4}, w.data())).as_tensor();
    cairn::detail::tied_leaves tied;
    BOOST_TEST((tied.first_of("a", leaf, first) == nullptr));
    auto const* found = tied.first_of("b", leaf, second);
    BOOST_REQUIRE((found != nullptr));
    BOOST_TEST(found->is_stored_as(first));
    BOOST_TEST(!found->is_stored_as(second));
}

/// Those of a target too, beside the others.
BOOST_AUTO_TEST_CASE(problems_of_a_load_are_told_together) {
    cairn::memory_store store;
    std::vector<float> w(4, 1);
    cairn::save(cairn::state_dict{{"w", w}}, "c", store);
    cairn::state_dict sd{
        {"w", cairn::tensor_view(cairn::dtype::f32, {4}, cairn::index_vector{0}, w.data())},
        {"x", w}};
    BOOST_CHECK_EXCEPTION(cairn::load(sd, "c", store), cairn::error, [](const cairn::error& e) {
        return is(errc::invalid_state)(e) && e.context().fqn == "w" &&
               std::string(e.what()).find("'x'") != std::string::npos;
    });
}

/// Items may come from another planner, or from a reader that mixes them up.
BOOST_AUTO_TEST_CASE(only_items_of_writable_shards_have_windows) {
    cairn::memory_store store;
    std::vector<float> w(4, 1);
    std::vector<float> const constant(4);
    cairn::save(cairn::state_dict{{"c", constant}, {"o", 1}, {"w", w}}, "c", store);
    auto placed = store.at("c");
    auto const m = cairn::format::native::parse_metadata_file(
                       cairn::read_whole(placed, cairn::detail::metadata_name))
                       .meta;
    int o = 0;
    cairn::state_dict const dict{{"c", constant}, {"o", std::ref(o)}, {"w", w}};
    auto state = cairn::flatten(dict);
    cairn::default_planner planner(cairn::planner_options{.partial = true});
    planner.set_up_load(state.leaves, m, 0, true);
    cairn::read_item item{.fqn = "w", .kind = cairn::item_kind::shard, .leaf = 2};
    item.source_offsets = item.target_offsets = {1};
    item.shape = {2};
    BOOST_TEST((planner.resolve_tensor(item).data == reinterpret_cast<std::byte*>(&w[1])));
    auto const refuse = [&](auto change) {
        auto other = item;
        change(other);
        BOOST_CHECK_EXCEPTION((void)planner.resolve_tensor(other), cairn::error,
                              is(errc::invalid_plan));
    };
    auto const refuse_all = [&] {
        refuse([](auto& i) { i.kind = cairn::item_kind::value; });
        refuse([](auto& i) { i.fqn = "x"; });
        refuse([](auto& i) { i.fqn = "o"; });  // a value
        refuse([](auto& i) { i.leaf = 0; });   // const
        refuse([](auto& i) { i.leaf = 1; });   // a value
        refuse([](auto& i) { i.leaf = 3; });
        refuse([](auto& i) { i.shard_index = 1; });
    };
    refuse_all();
    // It then knows what belongs to each leaf.
    BOOST_CHECK_EXCEPTION((void)planner.create_local_load_plan(), cairn::error,
                          is(errc::invalid_state));  // of the const one
    BOOST_TEST((planner.resolve_tensor(item).data == reinterpret_cast<std::byte*>(&w[1])));
    refuse_all();
}

BOOST_AUTO_TEST_CASE(memory_that_the_cpu_cannot_read_is_refused) {
    for (auto const kind : {cairn::memory_kind::cuda, cairn::own_memory_kind(1)}) {
        cairn::memory_store store;
        std::vector<float> w(4);
        cairn::state_dict state{
            {"w", cairn::tensor_view(cairn::dtype::f32, {4}, w.data(), cairn::device_id{kind, 2})}};
        BOOST_CHECK_EXCEPTION(
            cairn::save(state, "c", store), cairn::error, [&](const cairn::error& e) {
                return is(errc::unsupported)(e) &&
                       e.context().expected.find(to_string(cairn::device_id{kind, 2})) !=
                           std::string::npos;
            });
    }
}

BOOST_AUTO_TEST_CASE(per_rank_values_come_back_by_rank) {
    cairn::memory_store store;
    auto const run = [&](int n, bool save, const cairn::load_options& o) {
        std::vector<int> got(static_cast<std::size_t>(n), -1);
        cairn::run_ranks(n, [&](cairn::thread_group::member& me) {
            int seed = save ? 100 + me.rank() : -1;
            cairn::state_dict sd{{"rng", cairn::per_rank(std::ref(seed))}};
            if (save)
                cairn::save(sd, "c", me, store);
            else
                cairn::load(sd, "c", o, me, store);
            got[static_cast<std::size_t>(me.rank())] = seed;
        });
        return got;
    };
    run(2, true, {});
    BOOST_TEST((run(2, false, {}) == std::vector<int>{100, 101}));
    BOOST_CHECK_EXCEPTION(run(3, false, {}), cairn::error, is(errc::missing_key));
    cairn::load_options o;
    o.planner.per_rank_source = [](int rank, int saved) { return rank % saved; };
    BOOST_TEST((run(3, false, o) == std::vector<int>{100, 101, 100}));
}

BOOST_AUTO_TEST_CASE(strict_counts_what_any_rank_asked_for) {
    cairn::memory_store store;
    std::vector<float> w{1, 2}, empty;
    {
        cairn::state_dict sd{{"w", w}, {"empty", empty}, {"more", 1}};
        cairn::save(sd, "c", store);
    }
    // Rank 1 alone asks for the tensor without elements, which needs no item.
    auto const load = [&](bool more) {
        cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
            std::vector<float> v(2), none;
            int x = 0;
            cairn::state_dict sd{{"w", v}};
            if (me.rank() == 1) sd["empty"] = cairn::node(none);
            if (me.rank() == 1 && more) sd["more"] = cairn::node(std::ref(x));
            cairn::load_options o;
            o.planner.strict = true;
            cairn::load(sd, "c", o, me, store);
        });
    };
    BOOST_CHECK_NO_THROW(load(true));
    BOOST_CHECK_EXCEPTION(load(false), cairn::error, [](const cairn::error& e) {
        return e.code() == cairn::make_error_code(errc::unexpected_key) &&
               e.context().fqn == "more";
    });
}

BOOST_AUTO_TEST_CASE(plans_survive_the_wire_and_damage_never_crashes) {
    auto p = plan({item("w", box({0, 2}, {4, 1}), {8, 3}), object("o", 77)});
    p.paths = {{"w", {std::string("w")}}, {"o", {std::string("o"), std::int64_t{3}}}};
    p.storage_data = "x";
    auto const bytes = cairn::encode_save_plan(p);
    BOOST_TEST((cairn::decode_save_plan(bytes) == p));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        auto b = bytes;
        b[i] ^= std::byte{0x55};
        try {
            (void)cairn::decode_save_plan(b);
        } catch (const cairn::error& e) {
            // A number that no dtype has yet is one of a later version.
            BOOST_TEST((e.code() == cairn::make_error_code(errc::corrupt) ||
                        e.code() == cairn::make_error_code(errc::unsupported)));
        }
        BOOST_CHECK_EXCEPTION(cairn::decode_save_plan(std::span(bytes).first(i)), cairn::error,
                              is(errc::corrupt));
    }
}

/// The check that names its item has to see it as its planner made it.
BOOST_AUTO_TEST_CASE(impossible_boxes_survive_the_wire) {
    auto const p = plan({item("w", box({-1, 0}, {4}), {8}), item("v", box({0}, {-2}), {-8})});
    BOOST_TEST((cairn::decode_save_plan(cairn::encode_save_plan(p)) == p));
}

BOOST_AUTO_TEST_CASE(results_survive_the_wire_and_damage_never_crashes) {
    cairn::write_results w;
    w.items = {{0, {"__0_0.distcp", 0, 700, {}, cairn::item_layout{64, 12, 1, 2, {3, 1}}}},
               {7, {"__0_1.distcp", 700, 90, {"zstd"}, {}}}};
    w.file_sizes = {{"__0_0.distcp", 700}, {"__0_1.distcp", 790}};
    w.warnings = {"a slow disk"};
    auto const bytes = cairn::encode_write_results(w);
    BOOST_TEST((support::decode_write_results(bytes) == w));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        auto b = bytes;
        b[i] ^= std::byte{0x55};
        try {
            (void)support::decode_write_results(b);
        } catch (const cairn::error& e) {
            BOOST_TEST((e.code() == cairn::make_error_code(errc::corrupt)));
        }
        BOOST_CHECK_EXCEPTION(support::decode_write_results(std::span(bytes).first(i)),
                              cairn::error, is(errc::corrupt));
    }
}

/// The names of files are sent once, whatever the number of items.
BOOST_AUTO_TEST_CASE(results_name_each_file_once) {
    std::string const name(1000, 'f');
    cairn::write_results w;
    auto const size = [&](std::uint32_t items) {
        w.items.clear();
        for (std::uint32_t k = 0; k < items; ++k) w.items.push_back({k, {name, k, 1, {}, {}}});
        auto const b = cairn::encode_write_results(w);
        BOOST_TEST((support::decode_write_results(b) == w));
        return b.size();
    };
    BOOST_TEST(size(100) - size(1) < 1000u);
}

BOOST_AUTO_TEST_CASE(results_for_no_item_or_in_no_file_are_refused) {
    for (auto const& [item, file, fine] : {std::tuple{std::uint64_t{UINT32_MAX}, 1U, true},
                                           {std::uint64_t{UINT32_MAX} + 1, 1U, false},
                                           {UINT64_MAX, 0U, false},
                                           {0, 2U, false}}) {
        cairn::detail::wire_writer out;
        cairn::detail::begin(out);
        cairn::detail::put(out, std::vector<std::string>{"a", "b"});
        out.varint(1);
        out.varint(item);
        out.varint(file);
        cairn::detail::put_within_file(out, cairn::storage_location{});
        cairn::detail::put(out, cairn::detail::file_size_map{});
        cairn::detail::put(out, std::vector<std::string>{});
        auto const b = out.take();
        if (fine) {
            BOOST_TEST(support::decode_write_results(b).items.at(0).at.file == "b");
            continue;
        }
        BOOST_CHECK_EXCEPTION((void)support::decode_write_results(b), cairn::error,
                              is(errc::corrupt));
    }
}

BOOST_AUTO_TEST_SUITE_END()
