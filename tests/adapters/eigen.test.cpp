// SPDX-License-Identifier: Apache-2.0
#include <cairn/adapters/eigen.hpp>

#include <cairn/load.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>
#include <cairn/tensor/layout.hpp>

#include <boost/test/unit_test.hpp>

#include <complex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(eigen)

using namespace cairn;
using row_major = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

namespace {

template <class T>
auto view_of(T& t) {
    return tensor_traits<std::remove_cv_t<T>>::view(t);
}
template <class T>
constexpr bool loadable = std::is_same_v<decltype(view_of(std::declval<T&>())), tensor_view>;

static_assert(Tensor<Eigen::MatrixXf> && Tensor<const Eigen::MatrixXf&> && Tensor<row_major>);
static_assert(Tensor<Eigen::ArrayXXd> && Tensor<Eigen::VectorXi> && Tensor<Eigen::Matrix3d>);
static_assert(Tensor<Eigen::Map<Eigen::MatrixXf>> && Tensor<Eigen::Ref<Eigen::VectorXd>>);
static_assert(Tensor<Eigen::Matrix<Eigen::half, 2, 2>> && Tensor<Eigen::VectorXcf>);
static_assert(!Tensor<Eigen::Matrix<char, 2, 2>> && !Tensor<Eigen::Matrix<long double, 2, 2>>);
static_assert(!Tensor<decltype(Eigen::MatrixXf() + Eigen::MatrixXf())>);
static_assert(!Tensor<Eigen::DiagonalMatrix<float, 3>>);

static_assert(loadable<Eigen::MatrixXf> && !loadable<const Eigen::MatrixXf>);
static_assert(loadable<Eigen::Map<Eigen::MatrixXf>> && loadable<Eigen::Ref<Eigen::MatrixXf>>);
static_assert(!loadable<Eigen::Map<const Eigen::MatrixXf>>);
static_assert(!loadable<Eigen::Ref<const Eigen::MatrixXf>>);

struct incomplete;
static_assert(!EigenDense<int> && !EigenDense<std::vector<float>>);

/// The view's elements in the order of PyTorch's `flatten()`.
template <class T, class M>
std::vector<T> elements(M& m) {
    const const_tensor_view v = view_of(m);
    std::vector<T> out(static_cast<std::size_t>(v.elements()));
    copy_elements(v, tensor_view(v.type, v.shape, out.data()));
    return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(strides_tell_the_storage_order) {
    Eigen::MatrixXf columns(2, 3);
    columns << 0, 1, 2, 3, 4, 5;
    const tensor_view c = view_of(columns);
    BOOST_TEST((c.shape == index_vector{2, 3}));
    BOOST_TEST((c.strides == index_vector{1, 2}));
    BOOST_TEST((c.type == dtype::float32));
    row_major rows = columns;
    BOOST_TEST((view_of(rows).strides == index_vector{3, 1}));
    const std::vector<float> expected{0, 1, 2, 3, 4, 5};
    BOOST_TEST(elements<float>(columns) == expected);
    BOOST_TEST(elements<float>(rows) == expected);
    BOOST_TEST(static_cast<const void*>(view_of(std::as_const(columns)).data) == columns.data());
}

BOOST_AUTO_TEST_CASE(vectors_have_one_dimension) {
    Eigen::VectorXd v(4);
    BOOST_TEST((view_of(v).shape == index_vector{4}));
    Eigen::RowVector3d r;
    BOOST_TEST((view_of(r).shape == index_vector{3}));
    BOOST_TEST((view_of(r).strides == index_vector{1}));
    Eigen::MatrixXd one_column(4, 1);  // a matrix that happens to have one column stays one
    BOOST_TEST((view_of(one_column).shape == index_vector{4, 1}));
    row_major m(2, 3);
    m << 0, 1, 2, 3, 4, 5;
    auto column = m.col(1);
    BOOST_TEST((view_of(column).shape == index_vector{2}));
    BOOST_TEST((view_of(column).strides == index_vector{3}));
    BOOST_TEST(elements<float>(column) == (std::vector<float>{1, 4}));
}

BOOST_AUTO_TEST_CASE(blocks_transposes_and_strided_maps_have_views) {
    Eigen::MatrixXf m(3, 4);
    m << 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11;
    auto block = m.block(1, 1, 2, 2);
    BOOST_TEST((view_of(block).strides == index_vector{1, 3}));
    BOOST_TEST(elements<float>(block) == (std::vector<float>{5, 6, 9, 10}));
    auto turned = m.transpose();
    BOOST_TEST((view_of(turned).shape == index_vector{4, 3}));
    BOOST_TEST((view_of(turned).strides == index_vector{3, 1}));
    std::vector<float> memory{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    using strides = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
    Eigen::Map<Eigen::MatrixXf, 0, strides> map(memory.data(), 2, 2, strides(6, 2));
    BOOST_TEST((view_of(map).strides == index_vector{2, 6}));
    BOOST_TEST(elements<float>(map) == (std::vector<float>{0, 6, 2, 8}));
    Eigen::Ref<Eigen::MatrixXf, 0, Eigen::OuterStride<>> ref = m.leftCols(2);
    BOOST_TEST((view_of(ref).shape == index_vector{3, 2}));
    BOOST_TEST(static_cast<void*>(view_of(ref).data) == m.data());
}

BOOST_AUTO_TEST_CASE(element_types_are_told_and_empty_matrices_have_views) {
    Eigen::Matrix<Eigen::bfloat16, 2, 2> b;
    BOOST_TEST((view_of(b).type == dtype::bfloat16));
    Eigen::Array<Eigen::half, Eigen::Dynamic, 1> h(3);
    BOOST_TEST((view_of(h).type == dtype::float16));
    Eigen::VectorXcd z(2);
    BOOST_TEST((view_of(z).type == dtype::complex128));
    Eigen::MatrixXf none(0, 5);
    BOOST_TEST((view_of(none).shape == index_vector{0, 5}));
    BOOST_TEST(view_of(none).empty());
}

BOOST_AUTO_TEST_CASE(what_is_saved_column_major_is_loaded_row_major) {
    memory_store store;
    Eigen::MatrixXf columns(2, 3);
    columns << 0, 1, 2, 3, 4, 5;
    const Eigen::VectorXd v = Eigen::VectorXd::LinSpaced(5, 0, 1);
    save(state_dict{{"m", columns}, {"v", v}}, "ckpt", store);
    row_major rows = row_major::Zero(2, 3);
    Eigen::VectorXd w = Eigen::VectorXd::Zero(5);
    state_dict target{{"m", rows}, {"v", w}};
    load(target, "ckpt", store);
    BOOST_TEST((rows == columns));
    BOOST_TEST((w == v));
    Eigen::MatrixXf turned(3, 2);
    state_dict wrong{{"m", turned}, {"v", w}};
    BOOST_CHECK_EXCEPTION(load(wrong, "ckpt", store), error, [](const error& e) {
        return e.code() == errc::shape_mismatch && e.context().fqn == "m";
    });
    state_dict read_only{{"m", std::as_const(rows)}, {"v", w}};
    BOOST_CHECK_EXCEPTION(load(read_only, "ckpt", store), error, [](const error& e) {
        return e.code() == errc::invalid_state && e.context().fqn == "m";
    });
}

BOOST_AUTO_TEST_SUITE_END()
