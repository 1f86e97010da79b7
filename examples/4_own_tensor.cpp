// SPDX-License-Identifier: Apache-2.0
// A tensor type of your own, described once, by tensor_traits. All ranks hold the same matrix.
#include <cairn/cairn.hpp>
#include <cairn/comm/launched_ranks.hpp>

#include <atomic>
#include <cstdio>
#include <utility>
#include <vector>

namespace mine {
class matrix {
public:
    matrix(std::int64_t rows, std::int64_t columns)
        : rows_(rows), columns_(columns), data_(static_cast<std::size_t>(rows * columns)) {}
    matrix(matrix&&) = default;
    std::int64_t rows() const { return rows_; }
    std::int64_t columns() const { return columns_; }
    double* data() { return data_.data(); }
    const double* data() const { return data_.data(); }

private:
    std::int64_t rows_, columns_;
    std::vector<double> data_;
};
}  // namespace mine

template <>
struct cairn::tensor_traits<mine::matrix> {
    static tensor_view view(mine::matrix& m) {
        return {dtype::float64, {m.rows(), m.columns()}, m.data()};
    }
    static const_tensor_view view(const mine::matrix& m) {
        return {dtype::float64, {m.rows(), m.columns()}, m.data()};
    }
};

int main() {
    std::atomic<int> wrong{0};
    cairn::run_launched_ranks(2, [&](cairn::any_communicator& ranks) {
        mine::matrix m(2, 3);
        for (int i = 0; i < 6; ++i) m.data()[i] = i;
        cairn::state_dict state{{"m", m}};
        cairn::save(state, "ckpt/own_tensor", ranks);
        for (int i = 0; i < 6; ++i) m.data()[i] = -1;
        cairn::load(state, "ckpt/own_tensor", ranks);
        for (int i = 0; i < 6; ++i) wrong += m.data()[i] != i;
    });
    std::printf("own tensor: %s\n", wrong == 0 ? "as saved" : "something differs");
    return wrong != 0;
}
