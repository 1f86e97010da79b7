// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_TRAINING_PARAMETERS_HPP
#define CAIRN_TEST_TRAINING_PARAMETERS_HPP

#include "adamw.hpp"
#include "executor.hpp"

#include <cairn/state/state_dict.hpp>
#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/index_vector.hpp>
#include <cairn/tensor/view.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace training {

/// A parameter, its gradient, and what AdamW keeps for it.
template <class Executor, class Real>
struct parameter {
    parameter(Executor& on, std::string n, cairn::index_vector s)
        : name(std::move(n)), shape(std::move(s)), weights(on, shape.product()),
          gradients(on, shape.product()), average(on, shape.product()),
          average_of_squares(on, shape.product()) {}

    std::string name;
    cairn::index_vector shape;
    buffer<Executor, Real> weights, gradients, average, average_of_squares;
};

/// All parameters of a model, in a fixed order.
template <class Executor, class Real>
class parameters {
public:
    using one = parameter<Executor, Real>;

    explicit parameters(Executor& on) : on_(on) {}

    /// Adds a parameter whose elements are between `-most` and `most`.
    one& random(const std::string& name, const cairn::index_vector& shape, double most) {
        auto& p = all_.emplace_back(on_, name, shape);
        on_.for_each(p.weights.size(),
                     initialise<Real>{p.weights.data(), all_.size(), static_cast<Real>(most)});
        return p;
    }
    one& constant(const std::string& name, std::int64_t n, double value) {
        auto& p = all_.emplace_back(on_, name, cairn::index_vector{n});
        on_.for_each(n, fill<Real>{p.weights.data(), static_cast<Real>(value)});
        return p;
    }

    /// AdamW's step `step`, from 1 on; only matrices decay.
    void update(std::int64_t step, double rate) {
        for (auto& p : all_)
            on_.for_each(
                p.weights.size(),
                adamw<Real>(p.weights.data(), p.average.data(), p.average_of_squares.data(),
                            p.gradients.data(), rate, p.shape.size() > 1 ? 0.01 : 0, step));
    }

    /// Model and optimizer: views of the executor's memory.
    cairn::state_dict state_dict() {
        cairn::state_dict model, averages, squares;
        for (auto& p : all_) {
            model[p.name] = view(p, p.weights);
            averages[p.name] = view(p, p.average);
            squares[p.name] = view(p, p.average_of_squares);
        }
        return {{"model", std::move(model)},
                {"exp_avg", std::move(averages)},
                {"exp_avg_sq", std::move(squares)}};
    }
    /// Copies all that `state_dict` names to the host.
    std::vector<Real> content() {
        std::vector<Real> all;
        for (auto& p : all_)
            for (auto* const b : {&p.weights, &p.average, &p.average_of_squares}) {
                auto const at = all.size();
                all.resize(at + static_cast<std::size_t>(b->size()));
                on_.copy(all.data() + at, b->data(), b->bytes());
            }
        return all;
    }
    std::deque<one>& all() noexcept { return all_; }
    /// Of model and optimizer.
    std::uint64_t bytes() const {
        std::uint64_t n = 0;
        for (auto& p : all_) n += 3 * p.weights.bytes();
        return n;
    }

private:
    cairn::tensor_view view(const one& p, const buffer<Executor, Real>& b) const {
        constexpr auto type =
            std::is_same_v<Real, float> ? cairn::dtype::float32 : cairn::dtype::float64;
        return {type, p.shape, b.data(), on_.device()};
    }

    Executor& on_;
    std::deque<one> all_{};  // its elements stay where they are
};

}  // namespace training

#endif
