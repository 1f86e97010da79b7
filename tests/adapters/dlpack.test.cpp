// SPDX-License-Identifier: Apache-2.0
// Compiled twice: with the system's header, and with PyTorch's newer one where that is.
#ifdef CAIRN_TEST_DLPACK_HEADER
#include CAIRN_TEST_DLPACK_HEADER
#endif
#include <cairn/adapters/dlpack.hpp>

#include <cairn/load.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>
#include <cairn/tensor/layout.hpp>

#include <boost/test/unit_test.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(dlpack)

using namespace cairn;

static_assert(Tensor<DLTensor> && Tensor<DLTensor*> && Tensor<const DLTensor*>);
static_assert(Tensor<DLManagedTensor> && Tensor<DLManagedTensor*>);
static_assert(Tensor<dlpack_owner<DLManagedTensor>> && !Tensor<DLDevice> && !Tensor<void*>);

namespace {

/// A [2, 3] of float32 that somebody else made, 4 bytes into his memory.
struct foreign {
    std::array<float, 7> memory{-1, 0, 1, 2, 3, 4, 5};
    std::array<std::int64_t, 2> shape{2, 3};
    std::array<std::int64_t, 2> strides{3, 1};
    DLTensor t{};

    foreign() {
        t.data = memory.data();
        t.device = {kDLCPU, 0};
        t.ndim = 2;
        t.dtype = {kDLFloat, 32, 1};
        t.shape = shape.data();
        t.strides = strides.data();
        t.byte_offset = 4;
    }
    foreign(const foreign&) = delete;
};

template <class T>
auto view_of(T&& t) {
    return tensor_traits<std::remove_cvref_t<T>>::view(t);
}

bool refused(const DLTensor& t, errc why) {
    try {
        view_of(t);
    } catch (const error& e) {
        BOOST_TEST_MESSAGE(e.what());
        return e.code() == why;
    }
    return false;
}

#if defined(DLPACK_MAJOR_VERSION)
using newest = DLManagedTensorVersioned;
#else
using newest = DLManagedTensor;
#endif

}  // namespace

BOOST_AUTO_TEST_CASE(a_view_looks_at_foreign_memory) {
    foreign f;
    const tensor_view v = view_of(f.t);
    BOOST_TEST((v.shape == index_vector{2, 3}));
    BOOST_TEST((v.strides == index_vector{3, 1}));
    BOOST_TEST((v.type == dtype::float32));
    BOOST_TEST((v.device == device_id{}));
    BOOST_TEST(static_cast<void*>(v.data) == f.memory.data() + 1);
    f.t.strides = nullptr;
    BOOST_TEST((view_of(f.t).strides == index_vector{3, 1}));
    f.strides = {1, 2};
    f.t.strides = f.strides.data();
    BOOST_TEST((view_of(&f.t).strides == index_vector{1, 2}));
    DLTensor scalar{};
    scalar.data = f.memory.data();
    scalar.device = {kDLCPU, 0};
    scalar.dtype = {kDLFloat, 32, 1};
    BOOST_TEST(view_of(scalar).shape.empty());
    static_assert(
        std::is_same_v<decltype(view_of(std::declval<const DLTensor*>())), const_tensor_view>);
    static_assert(
        std::is_same_v<decltype(view_of(std::declval<const DLTensor&>())), const_tensor_view>);
}

BOOST_AUTO_TEST_CASE(each_dtype_has_its_counterpart) {
    const auto is = [](std::uint8_t code, std::uint8_t bits, dtype t) {
        foreign f;
        f.t.dtype = {code, bits, 1};
        return view_of(f.t).type == t;
    };
    BOOST_TEST(is(kDLInt, 8, dtype::int8));
    BOOST_TEST(is(kDLInt, 64, dtype::int64));
    BOOST_TEST(is(kDLUInt, 16, dtype::uint16));
    BOOST_TEST(is(kDLUInt, 8, dtype::uint8));
    BOOST_TEST(is(kDLFloat, 16, dtype::float16));
    BOOST_TEST(is(kDLFloat, 64, dtype::float64));
    BOOST_TEST(is(kDLBfloat, 16, dtype::bfloat16));
    BOOST_TEST(is(kDLComplex, 32, dtype::complex32));
    BOOST_TEST(is(kDLComplex, 128, dtype::complex128));
    BOOST_TEST(is(6, 8, dtype::boolean));
    BOOST_TEST(is(10, 8, dtype::float8_e4m3fn));
    BOOST_TEST(is(11, 8, dtype::float8_e4m3fnuz));
    BOOST_TEST(is(12, 8, dtype::float8_e5m2));
    BOOST_TEST(is(13, 8, dtype::float8_e5m2fnuz));
    BOOST_TEST(is(14, 8, dtype::float8_e8m0fnu));
#if defined(DLPACK_MAJOR_VERSION)
    static_assert(kDLBool == detail::dlpack_bool);
    static_assert(kDLFloat8_e4m3fn == detail::dlpack_float8_e4m3fn);
    static_assert(kDLFloat8_e4m3fnuz == detail::dlpack_float8_e4m3fnuz);
    static_assert(kDLFloat8_e5m2 == detail::dlpack_float8_e5m2);
    static_assert(kDLFloat8_e5m2fnuz == detail::dlpack_float8_e5m2fnuz);
    static_assert(kDLFloat8_e8m0fnu == detail::dlpack_float8_e8m0fnu);
    static_assert(DLPACK_FLAG_BITMASK_READ_ONLY == detail::dlpack_read_only);
#endif
}

BOOST_AUTO_TEST_CASE(what_cannot_be_understood_is_refused) {
    const auto with = [](auto change) {
        auto f = std::make_unique<foreign>();
        change(*f);
        return f;
    };
    const errc unsupported = errc::unsupported;
    const errc invalid = errc::invalid_state;
    BOOST_TEST(refused(with([](foreign& f) { f.t.dtype.lanes = 4; })->t, unsupported));
    BOOST_TEST(refused(with([](foreign& f) { f.t.dtype.bits = 80; })->t, unsupported));
    BOOST_TEST(refused(with([](foreign& f) { f.t.dtype = {17, 4, 1}; })->t, unsupported));
    BOOST_TEST(refused(with([](foreign& f) { f.t.device = {kDLMetal, 0}; })->t, unsupported));
    BOOST_CHECK_EXCEPTION(view_of(with([](foreign& f) {
                                      f.t.device = {kDLMetal, 0};
                                  })->t),
                          error, [](const error& e) {
                              return e.context().expected == "memory of the CPU or of CUDA";
                          });
    BOOST_TEST(refused(with([](foreign& f) { f.t.shape = nullptr; })->t, invalid));
    BOOST_TEST(refused(with([](foreign& f) { f.t.ndim = -1; })->t, invalid));
    BOOST_TEST(refused(with([](foreign& f) { f.shape[1] = -3; })->t, invalid));
    BOOST_TEST(refused(with([](foreign& f) {
                           f.shape = {INT64_MAX / 2, INT64_MAX / 2};
                       })->t,
                       invalid));
    BOOST_CHECK_THROW(view_of(static_cast<DLTensor*>(nullptr)), error);
    // A device's memory is seen as such; the verb says which part it lacks.
    foreign f;
    f.t.device = {kDLCUDA, 1};
    BOOST_TEST((view_of(f.t).device == device_id{memory_kind::cuda, 1}));
    memory_store store;
    BOOST_CHECK_EXCEPTION(save(state_dict{{"t", f.t}}, "ckpt", store), error, [](const error& e) {
        return e.code() == errc::unsupported && e.context().fqn == "t" &&
               e.context().remedy.find("cuda_memory") != std::string::npos;
    });
}

BOOST_AUTO_TEST_CASE(what_goes_out_comes_back) {
    for (int i = 0; i < dtype_count; ++i) {
        const auto type = static_cast<dtype>(i);
        auto memory = std::make_shared<std::array<std::byte, 256>>();
        const tensor_view v(type, index_vector{3, 2}, index_vector{1, 4}, memory->data(),
                            device_id{memory_kind::pinned, 0});
        const auto out = to_dlpack<newest>(v, memory);
        const tensor_view back = view_of(out);
        BOOST_TEST((back.type == type), name_of(type));
        BOOST_TEST((back.shape == v.shape && back.strides == v.strides));
        BOOST_TEST((back.data == v.data && back.device == v.device));
    }
}

BOOST_AUTO_TEST_CASE(the_owner_lives_until_the_deleter) {
    auto memory = std::make_shared<std::vector<float>>(6);
    const std::weak_ptr<std::vector<float>> watch = memory;
    const tensor_view v(dtype::float32, index_vector{6}, memory->data());
    newest* const given = to_dlpack<newest>(v, std::move(memory)).release();
    BOOST_TEST(!watch.expired());
    {
        state_dict holds{{"t", dlpack_owner<newest>(given)}};
        BOOST_TEST(!watch.expired());
    }
    BOOST_TEST(watch.expired());
    float x = 0;
    const auto none =
        to_dlpack<newest>(tensor_view(dtype::float32, index_vector{0, 3}, &x), nullptr);
    BOOST_TEST(none->dl_tensor.data == nullptr);
    BOOST_TEST(view_of(none).empty());
}

BOOST_AUTO_TEST_CASE(a_foreign_tensor_is_saved_and_loaded) {
    memory_store store;
    foreign from;
    save(state_dict{{"t", from.t}}, "ckpt", store);
    foreign to;
    to.memory = {};
    to.strides = {1, 2};
    DLTensor* const window = &to.t;
    state_dict target{{"t", window}};
    load(target, "ckpt", store);
    BOOST_TEST((to.memory == std::array<float, 7>{0, 0, 3, 1, 4, 2, 5}));
    const DLTensor* const read_only = &to.t;
    state_dict wrong{{"t", read_only}};
    BOOST_CHECK_EXCEPTION(load(wrong, "ckpt", store), error, [](const error& e) {
        return e.code() == errc::invalid_state && e.context().fqn == "t";
    });
}

BOOST_AUTO_TEST_CASE(memory_of_an_accelerator_of_the_users_is_not_exported) {
    float x = 0;
    tensor_view v(dtype::float32, index_vector{1}, &x);
    v.device = {own_memory_kind(3), 1};
    BOOST_CHECK_EXCEPTION((to_dlpack<newest>(v, nullptr)), error,
                          [](const error& e) { return e.code() == errc::unsupported; });
}

#if defined(DLPACK_MAJOR_VERSION)
BOOST_AUTO_TEST_CASE(the_read_only_flag_is_respected) {
    memory_store store;
    std::array<float, 2> memory{1, 2};
    const const_tensor_view c(dtype::float32, index_vector{2}, memory.data());
    const auto shared = to_dlpack<DLManagedTensorVersioned>(c, nullptr);
    BOOST_TEST(shared->flags == DLPACK_FLAG_BITMASK_READ_ONLY);
    save(state_dict{{"t", shared}}, "ckpt", store);
    state_dict target{{"t", shared}};
    BOOST_CHECK_EXCEPTION(load(target, "ckpt", store), error, [](const error& e) {
        return e.code() == errc::invalid_state && e.context().fqn == "t";
    });
    const shard s(box::whole({2}), shared);
    BOOST_TEST(!s.writable);
    BOOST_TEST(s.target == nullptr);
    shared->flags = 0;
    load(target = state_dict{{"t", shared}}, "ckpt", store);
    static_assert(Tensor<DLManagedTensorVersioned*>);
    shared->version.major = 2;
    BOOST_CHECK_EXCEPTION(view_of(shared.get()), error,
                          [](const error& e) { return e.code() == errc::unsupported; });
}
#endif

BOOST_AUTO_TEST_SUITE_END()
