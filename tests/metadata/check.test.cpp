// SPDX-License-Identifier: Apache-2.0
// Shapes whose products do not fit are refused, whoever they come from, before they are multiplied.
#include <cairn/metadata/check.hpp>

#include <cairn/cairn.hpp>
#include <cairn/format/native/index.hpp>
#include <cairn/metadata/coverage.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(impossible_shapes)

namespace {

using cairn::index_vector;
namespace format = cairn::format;

constexpr std::int64_t huge = std::int64_t{1} << 62;

/// Each wraps to a small or negative product, or would if zero came last.
const std::vector<index_vector> impossible{{huge, 4, 2},
                                           {4, huge, 2},
                                           {huge, 2},
                                           {huge},
                                           {huge, 4, 0},
                                           {0, huge, 4},
                                           {std::int64_t{1} << 32, std::int64_t{1} << 32},
                                           {3037000500, 3037000500},
                                           {cairn::most_elements, 2},
                                           {INT64_MAX, INT64_MAX, INT64_MAX}};

cairn::metadata one_tensor(const index_vector& extents, const cairn::box& where) {
    cairn::metadata m;
    cairn::tensor_metadata t;
    t.shape = extents;
    cairn::chunk c;
    c.region = where;
    c.at = {"__0_0.distcp", 0, 100, {}, {}};
    t.chunks.push_back(c);
    m.entries["w"] = t;
    return m;
}

template <class F>
void refuses(F&& f, cairn::errc wanted, bool names_tensor = true) {
    BOOST_CHECK_EXCEPTION(f(), cairn::error, [&](const cairn::error& e) {
        BOOST_TEST((!names_tensor || e.context().fqn == "w"), e.what());
        return e.code() == cairn::make_error_code(wanted);
    });
}

}  // namespace

BOOST_AUTO_TEST_CASE(impossible_shapes_are_told_from_possible_ones) {
    for (auto const& s : impossible) BOOST_TEST(!cairn::is_possible(s), cairn::to_string(s));
    for (auto const& s : std::vector<index_vector>{
             {}, {0}, {cairn::most_elements}, {0, 7}, {1, 1, 5}, {cairn::most_elements, 0, 1}})
        BOOST_TEST(cairn::is_possible(s), cairn::to_string(s));
    BOOST_TEST(!cairn::is_possible({-1}));
    BOOST_TEST(!cairn::is_possible({0, -1}));
}

BOOST_AUTO_TEST_CASE(impossible_shapes_in_metadata_are_corrupt) {
    for (auto const& s : impossible) {
        BOOST_TEST_CONTEXT(cairn::to_string(s)) {
            auto const m = one_tensor(s, cairn::box::whole(s));
            refuses([&] { cairn::check_metadata(m); }, cairn::errc::corrupt);
        }
    }
}

BOOST_AUTO_TEST_CASE(impossible_shapes_in_a_pickle_or_an_index_are_corrupt) {
    for (auto const& s : impossible) {
        BOOST_TEST_CONTEXT(cairn::to_string(s)) {
            auto const m = one_tensor(s, cairn::box::whole(s));
            auto const pickle = format::torch::write_metadata_pickle(m);
            refuses([&] { (void)format::torch::parse_metadata_pickle(pickle); },
                    cairn::errc::corrupt);
            auto const index = format::native::encode_metadata(m);
            refuses([&] { (void)format::native::decode_metadata(index); }, cairn::errc::corrupt,
                    false);
        }
    }
}

BOOST_AUTO_TEST_CASE(impossible_shapes_of_chunks_are_refused_too) {
    for (auto const& b : std::vector<cairn::box>{{{huge}, {huge}},
                                                 {{1}, {INT64_MAX}},
                                                 {{INT64_MAX}, {1}},
                                                 {{-1}, {2}},
                                                 {{0}, {-8}},
                                                 {{0, 0}, {8}},
                                                 {{0}, {9}}}) {
        BOOST_TEST_CONTEXT(cairn::to_string(b)) {
            refuses([&] { cairn::check_metadata(one_tensor({8}, b)); }, cairn::errc::invalid_plan);
        }
    }
}

/// 0 where every factor wraps: chunks that "cover" nothing of a tensor that "has" nothing.
BOOST_AUTO_TEST_CASE(coverage_is_not_fooled_by_a_product_that_wraps_to_zero) {
    index_vector const s{huge, 4, 2};
    refuses([&] { cairn::check_coverage("w", s, {}); }, cairn::errc::invalid_plan);
    refuses(
        [&] {
            cairn::check_metadata(one_tensor(s, {{0, 0, 0}, {0, 0, 0}}));
        },
        cairn::errc::corrupt);
}

BOOST_AUTO_TEST_CASE(impossible_shapes_of_a_user_are_refused_before_any_write_or_read) {
    float one = 1;
    cairn::memory_store store;
    for (auto const& s : impossible) {
        BOOST_TEST_CONTEXT(cairn::to_string(s)) {
            cairn::tensor_view v(cairn::dtype::float32, {}, &one);
            v.shape = s;
            v.strides = index_vector(s.size(), 0);
            cairn::state_dict whole{{"w", v}};
            refuses([&] { cairn::save(whole, "c", store); }, cairn::errc::invalid_state);
            cairn::sharded_view sharded{s, cairn::dtype::float32, {}};
            cairn::state_dict none_here{{"w", sharded}};
            refuses([&] { cairn::save(none_here, "c", store); }, cairn::errc::invalid_state);
        }
    }
    BOOST_TEST(store.at("c").list().empty());
}

/// The second of two tensors: one that is split as the first is not looked at twice.
BOOST_AUTO_TEST_CASE(the_chunks_of_a_second_tensor_are_looked_at_too) {
    using boxes = std::vector<cairn::box>;
    // Of cairn's; in PyTorch's there may be gaps.
    std::string save_id(32, 'a');
    auto const check = [&](const index_vector& extents, const boxes& of_w) {
        cairn::metadata m;
        m.save_id = save_id;
        auto const add = [&](const char* fqn, const index_vector& shape, const boxes& all) {
            cairn::tensor_metadata t;
            t.shape = shape;
            for (auto const& b : all)
                t.chunks.push_back({b, {fqn, 100 * t.chunks.size(), 100, {}, {}}});
            m.entries[fqn] = t;
        };
        add("a", {4}, {{{0}, {2}}, {{2}, {2}}});
        add("w", extents, of_w);
        cairn::check_metadata(m);
    };
    BOOST_CHECK_NO_THROW(check({4}, {{{0}, {2}}, {{2}, {2}}}));
    BOOST_CHECK_NO_THROW(check({4}, {{{0}, {1}}, {{1}, {3}}}));
    for (auto const& wrong : std::vector<boxes>{{{{0}, {2}}, {{1}, {2}}},
                                                {{{0}, {2}}, {{2}, {1}}},
                                                {{{0}, {2}}, {{3}, {2}}},
                                                {{{0}, {2}}, {{2}, {2}}, {{2}, {2}}},
                                                {{{0}, {2}}},
                                                {{{0, 0}, {2, 1}}, {{2, 0}, {2, 1}}}})
        refuses([&] { check({4}, wrong); }, cairn::errc::invalid_plan);
    refuses([&] { check({5}, {{{0}, {2}}, {{2}, {2}}}); }, cairn::errc::invalid_plan);
    refuses([&] { check({4, 1}, {{{0}, {2}}, {{2}, {2}}}); }, cairn::errc::invalid_plan);
    save_id.clear();
    BOOST_CHECK_NO_THROW(check({5}, {{{0}, {2}}, {{2}, {2}}}));
    refuses([&] { check({5}, {{{0}, {2}}, {{1}, {2}}}); }, cairn::errc::invalid_plan);
}

BOOST_AUTO_TEST_SUITE_END()
