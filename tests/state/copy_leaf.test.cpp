// SPDX-License-Identifier: Apache-2.0
#include <cairn/state/detail/copy_leaf.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <numeric>
#include <vector>

BOOST_AUTO_TEST_SUITE(copy_leaf)

using namespace cairn;

namespace {

tensor_leaf leaf_of(const index_vector& global, const std::vector<box>& boxes,
                    std::int32_t* memory) {
    tensor_leaf out;
    out.type = dtype::int32;
    out.global_shape = global;
    out.sharded = true;
    for (auto const& b : boxes) {
        out.shards.emplace_back(b, tensor_view(dtype::int32, b.shape, memory));
        memory += b.volume();
    }
    return out;
}
std::vector<std::int32_t> numbered(std::size_t n) {
    std::vector<std::int32_t> v(n);
    std::iota(v.begin(), v.end(), 0);
    return v;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_leaf_is_copied_from_one_layout_to_another) {
    auto whole = numbered(12);
    std::vector<std::int32_t> columns(12, -1);
    auto const from = leaf_of({3, 4}, {box({0, 0}, {1, 4}), box({1, 0}, {2, 4})}, whole.data());
    auto const to = leaf_of({3, 4}, {box({0, 0}, {3, 1}), box({0, 1}, {3, 3})}, columns.data());
    detail::copy_leaf("w", from, to);
    BOOST_TEST((columns == std::vector<std::int32_t>{0, 4, 8, 1, 2, 3, 5, 6, 7, 9, 10, 11}));
    BOOST_TEST(detail::same_content(from, to));
    columns[5] = 0;
    BOOST_TEST(!detail::same_content(from, to));
}

// Pair by pair, this takes minutes.
BOOST_AUTO_TEST_CASE(many_boxes_on_both_sides_are_not_compared_pair_by_pair) {
    std::vector<box> singles, pairs;
    for (std::int64_t i = 0; i < 40000; ++i) singles.push_back(box({i}, {1}));
    for (std::int64_t i = 0; i < 20000; ++i) pairs.push_back(box({2 * i}, {2}));
    auto a = numbered(40000);
    std::vector<std::int32_t> b(40000, -1);
    auto const from = leaf_of({40000}, singles, a.data()), to = leaf_of({40000}, pairs, b.data());
    detail::copy_leaf("w", from, to);
    BOOST_TEST((a == b));
    BOOST_TEST(detail::same_content(from, to));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_copied_is_refused_before_anything_is) {
    auto memory = numbered(4);
    std::vector<std::int32_t> target(4, -1);
    auto const refuses = [&](const tensor_leaf& from, const tensor_leaf& to, errc code) {
        BOOST_CHECK_EXCEPTION(detail::copy_leaf("w", from, to), error, [&](const error& e) {
            return e.code() == make_error_code(code) && e.context().fqn == "w";
        });
        BOOST_TEST((target == std::vector<std::int32_t>(4, -1)));
    };
    auto const all = leaf_of({4}, {box({0}, {4})}, target.data());
    refuses(leaf_of({4}, {box({0}, {3})}, memory.data()), all, errc::invalid_state);  // a hole
    refuses(leaf_of({5}, {box({0}, {4})}, memory.data()), all, errc::shape_mismatch);
    refuses(leaf_of({4}, {box({1}, {4})}, memory.data()), all, errc::invalid_state);
    refuses(leaf_of({4}, {box({0, 0}, {4, 1})}, memory.data()), all, errc::invalid_state);
    auto device = leaf_of({4}, {box({0}, {4})}, memory.data());
    device.shards[0].view.device.kind = memory_kind::cuda;
    refuses(device, all, errc::invalid_argument);
    auto read_only = all;
    read_only.writable = false;
    refuses(leaf_of({4}, {box({0}, {4})}, memory.data()), read_only, errc::invalid_state);
}

BOOST_AUTO_TEST_SUITE_END()
