// SPDX-License-Identifier: Apache-2.0
// A training run that is saved beside its steps and resumed ends as one without a break, bit for
// bit; what a checkpoint lacks shows.
#include "runs.hpp"

#include <cairn/object_store/memory.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(training_resumed)

namespace {

using namespace training;

constexpr run_plan plan{
    .shape = {.batch = 4, .time = 8, .width = 16, .heads = 2, .layers = 1, .alphabet = 8},
    .steps = 160,
    .save_every = 20,
    .resumed_after = 80,
    .rate = 1e-2};

std::unique_ptr<trainer> new_trainer() {
    return trainer_on_host(plan.shape, plan.steps, plan.rate);
}
void before(cairn::checkpointer& c, trainer&) {
    c.before_update();
}

/// A trainer some of whose state is not saved.
class forgetful final : public trainer {
public:
    explicit forgetful(const char* key) : forgotten_(key) {}

    void forward_backward() override { of_->forward_backward(); }
    void update() override { of_->update(); }
    void synchronise() override { of_->synchronise(); }
    std::int64_t step() const override { return of_->step(); }
    std::vector<float> losses() override { return of_->losses(); }
    std::vector<float> content() override { return of_->content(); }
    std::uint64_t bytes() override { return of_->bytes(); }
    CUstream_st* stream() const override { return of_->stream(); }
    cairn::state_dict state_dict() override {
        cairn::state_dict some;
        for (auto const& [key, node] : of_->state_dict())
            if (key != forgotten_) some[key] = node;
        return some;
    }

private:
    std::unique_ptr<trainer> of_ = new_trainer();
    std::string forgotten_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_resumed_run_is_equal_in_every_bit) {
    cairn::memory_store store;
    auto const first = new_trainer(), second = new_trainer();
    cairn::checkpointer ckpt(cairn::solo(), store, plan.options());
    auto const whole = train(plan, *first, ckpt, before);
    cairn::checkpointer later(cairn::solo(), store, plan.options());
    auto const resumed = resume(plan, *second, later, before);
    BOOST_TEST(difference(plan, whole, resumed) == "");
    BOOST_TEST(has_learned(whole));
    BOOST_TEST(resumed.losses.front() == 0.0f);  // it did not start again
}

BOOST_AUTO_TEST_CASE(state_that_is_not_saved_shows) {
    cairn::memory_store store;
    auto const first = new_trainer();
    cairn::checkpointer ckpt(cairn::solo(), store, plan.options());
    auto const whole = train(plan, *first, ckpt, before);
    for (auto const* const key : {"model", "exp_avg", "exp_avg_sq"}) {
        forgetful second(key);
        cairn::memory_store elsewhere;
        cairn::checkpointer loads(cairn::solo(), store, plan.options());
        loads.load("step_" + std::to_string(plan.resumed_after), second);
        cairn::checkpointer saves(cairn::solo(), elsewhere, plan.options());
        BOOST_TEST(difference(plan, whole, train(plan, second, saves, before)) != "", key);
    }
}

BOOST_AUTO_TEST_SUITE_END()
