// SPDX-License-Identifier: Apache-2.0
// What is saved with `zstd_level`: the items of any other save, each as one frame.
#include "support/allocations.hpp"
#include "support/counting_store.hpp"
#include "support/crafted.hpp"
#include "support/scratch.hpp"
#include "support/whole.hpp"

#include <cairn/cairn.hpp>
#include <cairn/catalog/verify.hpp>
#include <cairn/convert.hpp>
#include <cairn/format/zstd.hpp>
#include <cairn/storage/detail/write_file.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

BOOST_AUTO_TEST_SUITE(zstd_writing)

namespace {

using cairn::errc;
using support::crafted;

cairn::torch_writer_options at_level(int level) {
    cairn::torch_writer_options o;
    o.payload_alignment = 64;
    o.zstd_level = level;
    return o;
}
/// Everything a state may have.
struct some_state {
    std::vector<float> w = std::vector<float>(200'000), one = {7};
    std::vector<double> strided = std::vector<double>(60);
    std::vector<std::int32_t> none{};
    cairn::state_dict dict;

    some_state() {
        for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 1000);
        for (std::size_t i = 0; i < strided.size(); ++i) strided[i] = static_cast<double>(i);
        dict["w"] = cairn::tensor_view(cairn::dtype::f32, {400, 500}, w.data());
        dict["columns"] = cairn::tensor_view(cairn::dtype::f64, {5, 6}, {1, 5}, strided.data());
        dict["gaps"] = cairn::tensor_view(cairn::dtype::f64, {5, 3}, {12, 2}, strided.data());
        dict["one"] = cairn::tensor_view(cairn::dtype::f32, {}, one.data());
        dict["none"] = none;
        dict["tied"] = dict["w"];
        dict["step"] = 7;
        dict["text"] = std::string(100'000, 'x');
    }
};
crafted saved(cairn::torch_writer_options o) {
    some_state s;
    cairn::memory_store store;
    (void)cairn::save(s.dict, "c", cairn::torch_writer(store, o));
    return {store, "c"};
}
void for_each_location(const cairn::metadata& m, auto&& f) {
    for (auto const& [fqn, entry] : m.entries) {
        if (auto const* t = std::get_if<cairn::tensor_metadata>(&entry))
            for (auto const& c : t->chunks) f(fqn, c.at);
        else
            f(fqn, std::get<cairn::value_metadata>(entry).at);
    }
}
std::span<const std::byte> item_at(const crafted& c, const cairn::storage_location& at) {
    return std::span(c.files.at(at.file))
        .subspan(static_cast<std::size_t>(at.offset), static_cast<std::size_t>(at.length));
}

}  // namespace

BOOST_AUTO_TEST_CASE(items_are_those_of_another_save_as_frames) {
    auto const plain = saved([] {
        cairn::torch_writer_options o;
        o.payload_alignment = 64;
        return o;
    }());
    std::map<std::string, std::vector<std::byte>> items;
    for_each_location(plain.metadata(), [&](auto const& fqn, auto const& at) {
        auto const b = item_at(plain, at);
        items[fqn].assign(b.begin(), b.end());
    });
    for (int const level : {-7, 1, 3, 19}) {
        auto const c = saved(at_level(level));
        BOOST_TEST(c.size() < plain.size() / 4);
        std::size_t seen = 0;
        for_each_location(c.metadata(), [&](auto const& fqn, auto const& at) {
            BOOST_TEST_CONTEXT(fqn) {
                ++seen;
                BOOST_TEST((at.transforms == std::vector<std::string>{"stream.zstd/1"}));
                auto const& item = items.at(fqn);
                cairn::format::zstd::decoder d(item.size());
                auto frame = item_at(c, at);
                std::vector<std::byte> decoded(item.size() + 1);
                decoded.resize(d.decode(frame, decoded));
                d.check_end();
                BOOST_TEST((decoded == item));
                BOOST_TEST(at.layout.value().item_crc == cairn::format::crc32(item_at(c, at)));
            }
        });
        BOOST_TEST(seen == items.size());
        BOOST_TEST(
            (support::load_whole(c.store("c"), "c") == support::load_whole(plain.store("c"), "c")));
        auto const v = cairn::verify(c.store("c").at("c"));
        BOOST_TEST(v.whole());
        BOOST_TEST(v.unverified.empty());
    }
}

BOOST_AUTO_TEST_CASE(ranks_load_any_part_whatever_the_files) {
    auto const want = support::load_whole(saved({}).store("c"), "c");
    for (bool const single : {true, false}) {
        auto o = at_level(3);
        o.single_file_per_rank = single;
        o.thread_count = single ? 3 : 0;
        auto const c = saved(o);
        auto const store = c.store("c");
        auto const m = c.metadata();
        cairn::run_ranks(3, [&](cairn::thread_group::member& me) {
            support::rows r(m, me.rank(), 3);
            cairn::load(r, "c", me, cairn::memory_store(store));
            if (!r.equals(want)) throw std::runtime_error("rows differ");
        });
        BOOST_TEST(cairn::verify(c.store("c").at("c")).whole());
    }
}

BOOST_AUTO_TEST_CASE(what_has_two_names_is_decoded_once) {
    auto const c = saved(at_level(3));
    auto const m = c.metadata();
    auto const at = m.tensor("w")->chunks.location(0);
    BOOST_TEST((m.tensor("tied")->chunks.location(0) == at));
    support::counting_store store(c.store("c"));
    std::vector<float> w(200'000), tied(200'000);
    cairn::state_dict sd{{"w", cairn::tensor_view(cairn::dtype::f32, {400, 500}, w.data())},
                         {"tied", cairn::tensor_view(cairn::dtype::f32, {400, 500}, tied.data())}};
    (void)cairn::load(sd, "c", store);
    BOOST_TEST((w == some_state().w));
    BOOST_TEST((w == tied));
    BOOST_TEST((store.reads(at.file, at.offset, at.length) == std::pair(1, 1)));
}

namespace {

/// 36 MB in one item of the checkpoint `c`, which an index describes, or a pickle alone.
struct large_state {
    std::vector<float> w = std::vector<float>(9'000'000);
    crafted by_cairn{}, by_torch{};
    cairn::storage_location at{};  ///< Of the item.

    large_state() {
        std::minstd_rand random;
        for (auto& x : w) x = static_cast<float>(random() % 1000);
        cairn::memory_store store;
        (void)cairn::save(cairn::state_dict{{"w", view_of(w)}}, "c",
                          cairn::torch_writer(store, at_level(1)));
        by_torch = by_cairn = crafted(store, "c");
        at = by_cairn.metadata().tensor("w")->chunks.location(0);
        by_torch.set_pickle(by_cairn.metadata());
    }
    static cairn::tensor_view view_of(std::vector<float>& v) {
        return {cairn::dtype::f32, {3000, 3000}, v.data()};
    }
    /// What a checkpoint has.
    template <class... Reader>
    static std::vector<float> loaded(const cairn::checkpoint_id& id, Reader... from) {
        std::vector<float> found(9'000'000);
        (void)cairn::load(cairn::state_dict{{"w", view_of(found)}}, id, std::move(from)...);
        return found;
    }
};

}  // namespace

BOOST_AUTO_TEST_CASE(large_ones_are_decoded_as_they_are_read) {
    large_state const all;
    for (auto const* const c : {&all.by_cairn, &all.by_torch}) {
        // Where no index says where the elements are, it is decoded once more.
        int const passes = c == &all.by_cairn ? 1 : 2;
        auto memory = c->store("c");
        std::vector<float> found(all.w.size());
        {
            support::allocations const count;
            (void)cairn::load(cairn::state_dict{{"w", all.view_of(found)}}, "c", memory);
            BOOST_TEST(count.peak() < std::size_t{8} << 20);
        }
        BOOST_TEST((found == all.w));
        support::counting_store store(memory);
        (void)cairn::load(cairn::state_dict{{"w", all.view_of(found)}}, "c", store);
        BOOST_TEST(
            (store.reads(all.at.file, all.at.offset, all.at.length) == std::pair(passes, passes)));
        {
            auto const place = c->store("c").at("c");
            support::allocations const count;
            auto const v = cairn::verify(place);
            BOOST_TEST(v.whole());
            BOOST_TEST(v.findings.empty());
            BOOST_TEST(count.peak() < std::size_t{8} << 20);
        }
        // Some columns of some rows.
        std::vector<float> some(200 * 7);
        cairn::sharded_view part{{3000, 3000}, cairn::dtype::f32, {}};
        part.shards.push_back(cairn::shard(
            {{2500, 11}, {200, 7}}, cairn::tensor_view(cairn::dtype::f32, {200, 7}, some.data())));
        (void)cairn::load(cairn::state_dict{{"w", part}}, "c", c->store("c"));
        for (std::size_t i = 0; i < some.size(); ++i)
            BOOST_TEST_REQUIRE(some[i] == all.w[(2500 + i / 7) * 3000 + 11 + i % 7]);
    }
}

BOOST_AUTO_TEST_CASE(conversions_decode_large_ones_once_for_all_pieces) {
    large_state const all;
    support::scratch s;
    for (auto const* const c : {&all.by_cairn, &all.by_torch}) {
        int const passes = c == &all.by_cairn ? 1 : 2;
        auto memory = c->store("c");
        auto const to = (s.dir / "to").string();
        {
            support::allocations const count;
            (void)cairn::convert(cairn::convert_source(memory, "c"), to);
            BOOST_TEST(count.peak() < std::size_t{24} << 20);
        }
        support::counting_store store(memory);
        (void)cairn::convert(cairn::convert_source(store, "c"), to);
        BOOST_TEST(
            (store.reads(all.at.file, all.at.offset, all.at.length) == std::pair(passes, passes)));
        BOOST_TEST((large_state::loaded(to) == all.w));
        // Ranks that have parts of it.
        auto const parts = (s.dir / "parts").string();
        cairn::run_ranks(3, [&](cairn::thread_group::member& me) {
            (void)cairn::convert(cairn::convert_source(c->store("c"), "c"), parts, me);
        });
        BOOST_TEST((large_state::loaded(parts) == all.w));
    }
}

BOOST_AUTO_TEST_CASE(large_ones_that_are_damaged_are_refused) {
    large_state const all;
    auto const& at = all.at;
    // Though the elements are delivered before that is known.
    auto const is_refused = [&](const crafted& bad, auto const& what) {
        BOOST_TEST_CONTEXT(what) {
            BOOST_CHECK_EXCEPTION((void)large_state::loaded("c", bad.store("c")), cairn::error,
                                  [&](const cairn::error& e) { return e.context().fqn == "w"; });
            BOOST_TEST(cairn::verify(bad.store("c").at("c")).damaged);
            support::scratch s;
            BOOST_CHECK_THROW((void)cairn::convert(cairn::convert_source(bad.store("c"), "c"),
                                                   (s.dir / "to").string()),
                              cairn::error);
        }
    };
    for (auto const* const whole : {&all.by_cairn, &all.by_torch})
        for (auto const byte : {at.offset, at.offset + at.length / 2, at.offset + at.length - 1}) {
            auto bad = *whole;
            bad.files[at.file][static_cast<std::size_t>(byte)] ^= std::byte{1};
            is_refused(bad, byte);
        }
    // Items that are shorter or longer than the frame.
    for (auto const change : {-1, -1000, 1}) {
        auto bad = all.by_cairn;
        auto now = bad.metadata();
        std::get<cairn::tensor_metadata>(now.entries.find("w")->second)
            .chunks.edit(0, [&](cairn::chunk& x) {
                x.at.length += static_cast<std::uint64_t>(static_cast<std::int64_t>(change));
            });
        bad.set_pickle(now);
        is_refused(bad, change);
    }
}

BOOST_AUTO_TEST_CASE(damage_is_found_by_loads_and_by_verify) {
    auto const c = saved(at_level(3));
    for_each_location(c.metadata(), [&](auto const& fqn, auto const& at) {
        for (auto const byte : {at.offset, at.offset + at.length / 2, at.offset + at.length - 1}) {
            auto bad = c;
            bad.files[at.file][static_cast<std::size_t>(byte)] ^= std::byte{1};
            if (fqn != "none")  // without elements there is nothing to read
                BOOST_CHECK_EXCEPTION((void)support::load_whole(bad.store("c"), "c"), cairn::error,
                                      [&](const cairn::error& e) {
                                          auto const& found = e.context().fqn;
                                          return found == fqn || (fqn == "w" && found == "tied") ||
                                                 (fqn == "tied" && found == "w");
                                      });
            BOOST_TEST(cairn::verify(bad.store("c").at("c")).damaged);
        }
    });
}

BOOST_AUTO_TEST_CASE(a_value_that_no_load_would_decode_is_stored_uncompressed) {
    // zstd makes less than a kilobyte of it.
    cairn::value const seen(cairn::value::bytes_t(std::size_t{20} << 20));
    cairn::memory_store memory;
    (void)cairn::save(cairn::state_dict{{"a", 1}, {"seen", seen}, {"z", 2}}, "c",
                      cairn::torch_writer(memory, at_level(3)));
    for_each_location(crafted(memory, "c").metadata(), [&](auto const& fqn, auto const& at) {
        BOOST_TEST(at.transforms.empty() == (fqn == "seen"), fqn);
    });
    BOOST_TEST(cairn::verify(memory.at("c")).whole());
    cairn::value a, found, z;
    (void)cairn::load(
        cairn::state_dict{{"a", std::ref(a)}, {"seen", std::ref(found)}, {"z", std::ref(z)}}, "c",
        memory);
    BOOST_TEST((found == seen));
    BOOST_TEST((a == cairn::value(1) && z == cairn::value(2)));
}

/// As the state of an optimizer before its first step.
BOOST_AUTO_TEST_CASE(a_tree_may_have_zeros_of_which_little_is_stored) {
    std::vector<float> zeros(std::size_t{2} << 20);
    cairn::memory_store memory;
    (void)cairn::save(cairn::state_dict{{"w", zeros}}, "c",
                      cairn::torch_writer(memory, at_level(3)));
    auto const tree = cairn::load_tree("c", {}, memory);
    BOOST_TEST((tree.at("w").as_tensor().global_shape == cairn::index_vector{2 << 20}));
    auto by_torch = crafted(memory, "c");
    by_torch.set_pickle(by_torch.metadata());
    BOOST_CHECK_EXCEPTION((void)cairn::load_tree("c", {}, by_torch.store("c")), cairn::error,
                          [](const cairn::error& e) {
                              return e.code() == cairn::make_error_code(errc::unsupported);
                          });
}

BOOST_AUTO_TEST_CASE(levels_that_libzstd_lacks_are_refused) {
    for (int const level : {23, -200'000})
        BOOST_CHECK_EXCEPTION((void)saved(at_level(level)), cairn::error,
                              [](const cairn::error& e) {
                                  return e.code() == cairn::make_error_code(errc::invalid_argument);
                              });
}

BOOST_AUTO_TEST_CASE(a_tensor_that_changes_between_the_passes_is_an_error) {
    std::vector<float> w(10'000);
    std::vector<cairn::item_data> const data{
        cairn::const_tensor_view(cairn::dtype::f32, {10'000}, w.data())};
    auto f = cairn::detail::place_items("f", {0}, data, at_level(3), "id");
    cairn::detail::item_compressor compressor(3);
    compressor.lay_out(f, data, [] {});
    struct {
        std::uint64_t size = 0;
        void pad_to(std::uint64_t) {}
        void append(cairn::byte_span b) { size += b.size(); }
        void flush() {}
    } out;
    std::vector<cairn::write_result> results(1);
    auto const write = [&] {
        cairn::detail::write_file(
            out, f, data, results, [](auto) {}, &compressor);
    };
    write();
    BOOST_TEST(out.size == f.size);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i);
    BOOST_CHECK_EXCEPTION(write(), cairn::error, [](const cairn::error& e) {
        return e.code() == cairn::make_error_code(errc::state_changed);
    });
}

BOOST_AUTO_TEST_SUITE_END()
