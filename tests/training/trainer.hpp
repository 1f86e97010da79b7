// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_TRAINING_TRAINER_HPP
#define CAIRN_TEST_TRAINING_TRAINER_HPP

#include "transformer.hpp"

#include <cairn/state/state_dict.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace training {

/// A model that is trained, wherever it is.
class trainer {
public:
    virtual ~trainer() = default;
    /// Enqueues the loss and the gradients of step `step() + 1`; changes nothing that is saved.
    virtual void forward_backward() = 0;
    /// Enqueues the optimizer's part of that step, and counts it.
    virtual void update() = 0;
    /// Waits for all that was enqueued.
    virtual void synchronise() = 0;

    virtual std::int64_t step() const = 0;
    /// The loss of every step that this object has computed; of all others, 0.
    virtual std::vector<float> losses() = 0;
    /// Weights and optimizer state, one after the other.
    virtual std::vector<float> content() = 0;
    virtual std::uint64_t bytes() = 0;  ///< Of the tensors that are saved.
    /// The stream that everything is enqueued on; null: it is done when a call returns.
    virtual CUstream_st* stream() const = 0;

    virtual cairn::state_dict state_dict() = 0;
    void load_state_dict(const cairn::state_dict&) {}
};

template <class Executor>
class trainer_on final : public trainer {
public:
    trainer_on(const model_shape& s, std::int64_t steps, double rate)
        : rate_(rate), losses_(on_, steps), model_(on_, s) {}

    void forward_backward() override {
        model_.forward_backward(step_ + 1, losses_.data() + step_ % losses_.size());
    }
    void update() override { model_.params().update(++step_, rate_); }
    void synchronise() override {
        float some = 0;
        on_.copy(&some, losses_.data(), sizeof some);
    }
    std::int64_t step() const override { return step_; }
    std::vector<float> losses() override {
        std::vector<float> v(static_cast<std::size_t>(losses_.size()));
        on_.copy(v.data(), losses_.data(), losses_.bytes());
        return v;
    }
    std::vector<float> content() override { return model_.params().content(); }
    std::uint64_t bytes() override { return model_.params().bytes(); }
    CUstream_st* stream() const override { return on_.stream(); }

    cairn::state_dict state_dict() override {
        auto all = model_.params().state_dict();
        all["step"] = std::ref(step_);
        return all;
    }

private:
    Executor on_{};  // first: it outlives all memory
    double rate_;
    std::int64_t step_ = 0;
    buffer<Executor, float> losses_;
    transformer<Executor, float> model_;
};

/// @param steps  The most that are trained; also of the losses that are kept.
/// @param rate   AdamW's.
inline std::unique_ptr<trainer> trainer_on_host(const model_shape& s, std::int64_t steps,
                                                double rate) {
    return std::make_unique<trainer_on<host_executor>>(s, steps, rate);
}
/// Likewise, on the current GPU: in gpu/trainer.cu, which nvcc compiles.
std::unique_ptr<trainer> trainer_on_gpu(const model_shape& s, std::int64_t steps, double rate);
/// Returns why there is none; null if there is one.
const char* why_no_gpu();

}  // namespace training

#endif
