// SPDX-License-Identifier: Apache-2.0
#include <cairn/tensor/traits.hpp>

#include "archetype/tensor.hpp"

#include <cairn/tensor/layout.hpp>

#include <boost/test/unit_test.hpp>

#include <utility>
#include <vector>

using namespace cairn;

static_assert(Tensor<tensor_view> && Tensor<const_tensor_view> && !Sharded<tensor_view>);

namespace {
/// Read-only when it says so: a mapped file, say.
struct mapped {
    float x = 1;
    bool locked = false;
};
}  // namespace

template <>
struct cairn::tensor_traits<mapped> {
    static tensor_view view(mapped& m) { return {dtype::float32, {}, &m.x}; }
    static const_tensor_view view(const mapped& m) { return {dtype::float32, {}, &m.x}; }
    static bool writable(const mapped& m) { return !m.locked; }
};

namespace {
/// Uses a sharded tensor by the concept's table alone.
template <Sharded T>
std::vector<float> elements_of_shards(T& s) {
    std::vector<float> out;
    const index_vector global = shard_traits<T>::global_shape(s);
    auto&& shards = shard_traits<T>::shards(s);
    for (auto it = shards.begin(); it != shards.end(); ++it) {
        const shard one = *it;
        BOOST_TEST_REQUIRE(contains(box::whole(global), one.region));
        const auto at = out.size();
        out.resize(at + static_cast<std::size_t>(one.region.volume()));
        copy_elements(one.view, {one.view.type, one.view.shape, out.data() + at});
    }
    return out;
}
}  // namespace

BOOST_AUTO_TEST_SUITE(concepts)

BOOST_AUTO_TEST_CASE(views_outlive_the_sizes_they_were_made_from) {
    archetype::tensor t({1, 2, 3});
    const tensor_view first = tensor_traits<archetype::tensor>::view(t);
    const tensor_view second = tensor_traits<archetype::tensor>::view(t);
    BOOST_TEST((first.shape == index_vector{3}));
    BOOST_TEST((first.strides == index_vector{1}));
    BOOST_TEST(first.data == second.data);
    const const_tensor_view read_only = tensor_traits<archetype::tensor>::view(std::as_const(t));
    BOOST_TEST(read_only.data == first.data);
}

BOOST_AUTO_TEST_CASE(extents_beyond_the_inline_room_are_copied_too) {
    float x = 0;
    tensor_view v;
    {
        const std::vector<int> extents(9, 1);
        v = tensor_view(dtype::f32, index_vector(extents), &x);
    }
    BOOST_TEST((v.shape == index_vector(9, 1)));
    BOOST_TEST((v.strides == index_vector(9, 1)));
}

BOOST_AUTO_TEST_CASE(a_shard_of_a_const_tensor_is_read_only) {
    archetype::tensor t({1, 2, 3});
    const shard writable(box::whole({3}), t);
    const shard read_only(box::whole({3}), std::as_const(t));
    BOOST_TEST(writable.writable);
    BOOST_TEST(writable.target_view().data == writable.view.data);
    BOOST_TEST(!read_only.writable);
    BOOST_TEST(read_only.target == nullptr);
    BOOST_TEST(read_only.view.data == writable.view.data);
}

BOOST_AUTO_TEST_CASE(a_tensor_may_be_read_only_at_run_time) {
    mapped m;
    BOOST_TEST(shard(box::whole({}), m).writable);
    m.locked = true;
    const shard s(box::whole({}), m);
    BOOST_TEST(!s.writable);
    BOOST_TEST(s.target == nullptr);
    BOOST_TEST(static_cast<const void*>(s.view.data) == &m.x);
}

BOOST_AUTO_TEST_CASE(the_least_sharded_tensor_can_be_read) {
    archetype::sharded s(10, 4, archetype::tensor({5, 6, 7}));
    BOOST_TEST((elements_of_shards(s) == std::vector<float>{5, 6, 7}));
}

BOOST_AUTO_TEST_CASE(a_target_keeps_what_the_view_says) {
    float x[2] = {};
    tensor_view v(dtype::f32, index_vector{2}, index_vector{-1}, x + 1,
                  device_id{memory_kind::pinned, 1});
    v.requires_grad = true;
    const tensor_view target = shard(box::whole({2}), v).target_view();
    BOOST_TEST((target.strides == index_vector{-1}));
    BOOST_TEST((target.device == v.device));
    BOOST_TEST(target.requires_grad);
}

BOOST_AUTO_TEST_SUITE_END()
