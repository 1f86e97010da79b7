// SPDX-License-Identifier: Apache-2.0
// Optimizers and modules that keep numbers in another type than PyTorch does.
#include <cairn/comm/thread_group.hpp>
#include <cairn/load_tree.hpp>
#include <cairn/models.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>
#include <cairn/storage/torch_reader.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

namespace counting {

/// Two parameters, and a norm that counts its batches in a number of its own type.
struct net {
    std::vector<float> a{1, 2}, b{3, 4, 5};
    int batches = 0;
};

/// How the optimizer shows its integer steps.
enum class shown { converted, shared, made_anew, member_overwritten, by_function };

struct adam {
    struct slot {
        std::vector<float>* parameter;
        std::vector<float> m{};
        std::int64_t step = 0;
        float step_as_float = 0;
    };
    std::vector<slot> slots;
    double lr = 0.1;
    counting::shown how = shown::converted;
    std::int64_t step = 0;  ///< The only counter where it is shared.
    std::function<void(float)> on_set{};

    explicit adam(net& n, counting::shown h = shown::converted) : slots{{&n.a}, {&n.b}}, how(h) {}
};

}  // namespace counting

template <>
struct cairn::model_traits<counting::net> {
    static void visit(counting::net& n, auto& v) {
        v.parameter("a", n.a);
        v.parameter("b", n.b);
        v.buffer("norm.num_batches_tracked", converted<std::int64_t>(n.batches));
    }
};
template <>
struct cairn::optimizer_traits<counting::adam> {
    static void init_state(counting::adam& o) {
        for (auto& s : o.slots) s.m.resize(s.parameter->size());
    }
    static void visit(counting::adam& o, auto& v) {
        for (auto& s : o.slots) {
            v.group();
            v.hyperparameter("lr", o.lr);
            v.parameter(*s.parameter, {{"step", step_of(o, s)}, {"exp_avg", s.m}});
        }
    }

private:
    static node step_of(counting::adam& o, counting::adam::slot& s) {
        using counting::shown;
        switch (o.how) {
            case shown::shared: return converted<float>(o.step);
            case shown::made_anew: return std::array<float, 1>{static_cast<float>(s.step)};
            case shown::member_overwritten:
                s.step_as_float = static_cast<float>(s.step);
                return scalar_tensor(s.step_as_float);
            case shown::by_function:
                return converted<float>([&s] { return static_cast<float>(s.step); },
                                        [&](float x) {
                                            if (o.on_set) o.on_set(x);
                                            s.step = static_cast<std::int64_t>(x);
                                        });
            default: return converted<float>(s.step);
        }
    }
};

BOOST_AUTO_TEST_SUITE(converted_numbers)

using cairn::errc;
using cairn::state_dict;
using cairn::value;
using counting::adam;
using counting::net;
using counting::shown;

namespace {

struct trained {
    net model{{10, 20}, {30, 40, 50}, 77};
    adam optimizer{model};

    explicit trained(shown how = shown::converted) : optimizer(model, how) {
        optimizer.slots[0].m = {1, 2};
        optimizer.slots[1].m = {3, 4, 5};
        optimizer.slots[0].step = 1000;
        optimizer.slots[1].step = 1001;
        optimizer.step = 1000;
        optimizer.lr = 0.5;
    }
    trained(trained&&) = delete;
};

auto fails_with(errc code, std::vector<std::string> words) {
    return [=](const cairn::error& e) {
        std::string const text = e.what();
        bool all = e.code() == cairn::make_error_code(code);
        for (auto const& w : words) all = all && text.find(w) != std::string::npos;
        if (!all) BOOST_TEST_MESSAGE(text);
        return all;
    };
}

state_dict both(net& m, adam& o, const cairn::state_dict_options& options = {}) {
    auto [ms, os] = cairn::get_state_dict(m, o, options);
    return {{"model", ms}, {"optim", os}};
}
void expect_fresh(const net& m, const adam& o) {
    BOOST_TEST(m.a == (std::vector<float>{1, 2}));
    BOOST_TEST(m.batches == 0);
    BOOST_TEST(o.lr == 0.1);
    for (auto const& s : o.slots) {
        BOOST_TEST(s.step == 0);
        BOOST_TEST(s.m == std::vector<float>(s.parameter->size()));
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(converted_numbers_come_back_from_a_checkpoint) {
    for (bool const flat : {false, true}) {
        cairn::state_dict_options const options{.flatten_optimizer_state_dict = flat};
        cairn::memory_store store;
        trained t;
        cairn::save(both(t.model, t.optimizer, options), "c", store);
        net m;
        adam o(m);
        auto const d = both(m, o, options);
        cairn::load(d, "c", store);
        for (int i = 0; i < 2; ++i) {  // after the load alone, and after the set
            BOOST_TEST(m.batches == 77);
            BOOST_TEST(o.slots[0].step == 1000);
            BOOST_TEST(o.slots[1].step == 1001);
            cairn::set_state_dict(m, o, d.at("model").as_dict(), d.at("optim").as_dict(), options);
        }
        BOOST_TEST(o.lr == 0.5);
        // What others see: 0-d tensors of PyTorch's types.
        auto const tree = cairn::load_tree("c", {}, store);
        auto const& n = tree.at("model").as_dict().at("norm.num_batches_tracked").as_tensor();
        BOOST_TEST((n.type == cairn::dtype::int64));
        BOOST_TEST(n.global_shape.empty());
    }
}

BOOST_AUTO_TEST_CASE(a_dict_is_a_window_on_converted_numbers) {
    cairn::memory_store store;
    net m;
    adam o(m);
    auto const d = both(m, o);
    o.slots[0].step = 5;  // after the dict was made, before it is saved
    m.batches = 6;
    cairn::save(d, "c", store);
    o.slots[0].step = m.batches = 0;
    cairn::load(d, "c", store);
    BOOST_TEST(o.slots[0].step == 5);
    BOOST_TEST(m.batches == 6);
}

BOOST_AUTO_TEST_CASE(copies_hold_numbers_as_they_were) {
    trained t;
    auto const [ms, os] = cairn::get_state_dict(t.model, t.optimizer, {.cpu_offload = true});
    t.optimizer.slots[0].step = 1;
    t.model.batches = 1;
    cairn::set_state_dict(t.model, t.optimizer, ms, os);
    BOOST_TEST(t.optimizer.slots[0].step == 1000);
    BOOST_TEST(t.model.batches == 77);
}

BOOST_AUTO_TEST_CASE(one_counter_serves_all_parameters) {
    cairn::memory_store store;
    trained t(shown::shared);
    cairn::save(both(t.model, t.optimizer), "c", store);
    cairn::torch_reader reader(store);
    reader.reset("c");
    auto const meta = reader.read_metadata();
    auto const at = [&](const char* fqn) {
        return std::get<cairn::tensor_metadata>(meta.entries.at(fqn)).chunks[0].at;
    };
    BOOST_TEST(at("optim.state.a.step").offset == at("optim.state.b.step").offset);  // stored once
    {
        net m;
        adam o(m, shown::shared);
        auto const d = both(m, o);
        cairn::load(d, "c", store);
        BOOST_TEST(o.step == 1000);
        o.step = 0;
        cairn::set_optimizer_state_dict(
            m, o, cairn::get_optimizer_state_dict(t.model, t.optimizer, {.cpu_offload = true}));
        BOOST_TEST(o.step == 1000);
    }
    // Of an optimizer that counts for each, and has counted differently.
    trained each;
    cairn::save(both(each.model, each.optimizer), "c", store);
    net m;
    adam o(m, shown::shared);
    BOOST_CHECK_EXCEPTION(
        cairn::load(both(m, o), "c", store), cairn::error,
        fails_with(errc::invalid_state, {"optim.state.b.step", "optim.state.a.step"}));
    BOOST_CHECK_EXCEPTION(
        cairn::set_optimizer_state_dict(
            m, o, cairn::get_optimizer_state_dict(each.model, each.optimizer)),
        cairn::error, fails_with(errc::invalid_state, {"state.b.step", "state.a.step", "number"}));
    BOOST_TEST(o.step == 0);
}

// The old pattern: a float made on the fly, which nobody reads again.
BOOST_AUTO_TEST_CASE(a_tensor_made_anew_by_each_visit_is_refused) {
    cairn::memory_store store;
    trained t(shown::made_anew);
    cairn::save(both(t.model, t.optimizer), "c", store);
    net m;
    adam o(m, shown::made_anew);
    auto const [ms, os] = cairn::get_state_dict(m, o);
    cairn::load(state_dict{{"model", ms}, {"optim", os}}, "c", store);
    BOOST_CHECK_EXCEPTION(
        cairn::set_optimizer_state_dict(m, o, os), cairn::error,
        fails_with(errc::invalid_state, {"'state.a.step'", "anew", "cairn::converted"}));
    BOOST_TEST(o.lr == 0.1);
    // What says the same loses nothing.
    for (auto& s : o.slots) s.step = s.parameter == &m.a ? 1000 : 1001;
    cairn::set_optimizer_state_dict(m, o, os);
    BOOST_TEST(o.lr == 0.5);
}

// The same with memory of the optimizer's: the visit overwrites what was loaded.
BOOST_AUTO_TEST_CASE(a_number_that_a_visit_overwrites_is_refused) {
    cairn::memory_store store;
    trained t(shown::member_overwritten);
    cairn::save(both(t.model, t.optimizer), "c", store);
    net m;
    adam o(m, shown::member_overwritten);
    auto const [ms, os] = cairn::get_state_dict(m, o);
    cairn::load(state_dict{{"model", ms}, {"optim", os}}, "c", store);
    BOOST_CHECK_EXCEPTION(
        cairn::set_optimizer_state_dict(m, o, os), cairn::error,
        fails_with(errc::invalid_state, {"'state.a.step'", "overwrites", "cairn::converted"}));
    BOOST_TEST(o.lr == 0.1);
}

BOOST_AUTO_TEST_CASE(numbers_are_set_all_or_none) {
    trained t;
    auto const good = cairn::get_optimizer_state_dict(t.model, t.optimizer, {.cpu_offload = true});
    auto const with = [&](const char* parameter, float step) {
        state_dict d;
        state_dict state;
        for (auto const& [fqn, n] : good.at("state").as_dict()) {
            state_dict of;
            for (auto const& [k, x] : n.as_dict()) of[k] = x;
            if (fqn == parameter)
                of["step"] = [&] {
                    cairn::host_tensor number(cairn::dtype::float32, {});
                    std::memcpy(number.bytes().data(), &step, sizeof step);
                    return cairn::node(std::move(number));
                }();
            state[fqn] = of;
        }
        d["state"] = state;
        d["param_groups"] = good.at("param_groups");
        return d;
    };
    net m;
    adam o(m);
    // The last of all numbers does not fit.
    BOOST_CHECK_EXCEPTION(cairn::set_optimizer_state_dict(m, o, with("b", 1.5f)), cairn::error,
                          fails_with(errc::dtype_mismatch, {"'state.b.step'", "int64", "1.5"}));
    expect_fresh(m, o);
    // Whatever the user's own function throws.
    adam own(m, shown::by_function);
    own.on_set = [](float x) {
        if (x == 7) throw std::runtime_error("seven");
        if (x == 42) throw 42;
        if (x == 8) throw std::bad_alloc();
    };
    BOOST_CHECK_THROW(cairn::set_optimizer_state_dict(m, own, with("b", 7)), std::runtime_error);
    expect_fresh(m, own);
    BOOST_CHECK_THROW(cairn::set_optimizer_state_dict(m, own, with("b", 42)), int);
    expect_fresh(m, own);
    BOOST_CHECK_THROW(cairn::set_optimizer_state_dict(m, own, with("b", 8)), std::bad_alloc);
    expect_fresh(m, own);
    cairn::set_optimizer_state_dict(m, own, with("b", 9));
    BOOST_TEST(own.slots[0].step == 1000);
    BOOST_TEST(own.slots[1].step == 9);
}

BOOST_AUTO_TEST_CASE(a_model_and_its_optimizer_are_set_both_or_neither) {
    for (bool const broadcast : {false, true}) {
        trained t;
        auto const whole = cairn::state_dict_options{.cpu_offload = true};
        auto const [ms, os] = cairn::get_state_dict(t.model, t.optimizer, whole);
        auto bad = os;
        bad["state"] = cairn::node(state_dict{{"a", state_dict{{"step", std::vector<float>{1}}}}});
        net m;
        adam o(m);
        auto alone = cairn::solo();
        cairn::state_dict_options const options{.full_state_dict = broadcast,
                                                .broadcast_from_rank0 = broadcast};
        BOOST_CHECK_THROW(cairn::set_state_dict(m, o, ms, bad, options, alone), cairn::error);
        expect_fresh(m, o);
        o.slots[1].m.clear();
        o = adam(m, shown::by_function);
        o.on_set = [](float) { throw 42; };
        try {
            cairn::set_state_dict(m, o, ms, os, options, alone);
            BOOST_TEST(false);
        } catch (...) {
        }
        expect_fresh(m, o);
        o.on_set = {};
        cairn::set_state_dict(m, o, ms, os, options, alone);
        BOOST_TEST(m.batches == 77);
        BOOST_TEST(o.slots[1].step == 1001);
    }
}

BOOST_AUTO_TEST_CASE(one_rank_s_refusal_leaves_all_ranks_as_they_were) {
    for (int const refuses : {-1, 0, 2}) {
        std::atomic<int> told{0}, right{0};
        cairn::run_ranks(3, [&](auto& me) {
            net m;
            adam o(m, shown::by_function);
            if (me.rank() == refuses)
                o.on_set = [](float x) {
                    if (x == 1001) throw 42;
                };
            trained t;
            state_dict os;
            if (me.rank() == 0) os = cairn::get_optimizer_state_dict(t.model, t.optimizer);
            try {
                cairn::set_optimizer_state_dict(
                    m, o, os, {.full_state_dict = true, .broadcast_from_rank0 = true}, me);
                right += o.slots[0].step == 1000 && o.slots[1].step == 1001 && o.lr == 0.5 &&
                         o.slots[1].m[2] == 5;
            } catch (const cairn::error& e) {
                told += e.failures().size() == 1 && e.failures()[0].where.rank == refuses &&
                        !e.state_modified();
                right += o.slots[0].step == 0 && o.slots[1].step == 0 && o.lr == 0.1 &&
                         o.slots[1].m[2] == 0;
            }
        });
        BOOST_TEST(told == (refuses < 0 ? 0 : 3));
        BOOST_TEST(right == 3);
    }
}

BOOST_AUTO_TEST_CASE(a_loaded_number_that_does_not_fit_fails_all_ranks) {
    cairn::memory_store store;
    float const step = 1e30f;
    cairn::save(state_dict{{"step", cairn::scalar_tensor(step)}}, "c", store);
    std::atomic<int> told{0};
    cairn::run_ranks(2, [&](auto& me) {
        std::int32_t narrow = 5;
        float plain = 5;
        auto const mine = me.rank() == 0 ? cairn::node(cairn::converted<float>(narrow))
                                         : cairn::node(cairn::scalar_tensor(plain));
        try {
            cairn::load(state_dict{{"step", mine}}, "c", store, me);
        } catch (const cairn::error& e) {
            told += e.code() == cairn::make_error_code(errc::dtype_mismatch) &&
                    e.failures()[0].where.fqn == "step" && e.failures()[0].where.rank == 0 &&
                    e.state_modified() && narrow == 5;
        }
    });
    BOOST_TEST(told == 2);
}

BOOST_AUTO_TEST_CASE(whole_models_show_converted_numbers_too) {
    std::atomic<int> good{0};
    cairn::run_ranks(2, [&](auto& me) {
        trained t;
        {
            cairn::full_params whole(t.model, me);
            good += whole.at("norm.num_batches_tracked").template as<std::int64_t>()[0] == 77;
        }
        auto const d = cairn::get_model_state_dict(t.model, {.full_state_dict = true}, me);
        net m;
        cairn::set_model_state_dict(m, d);
        good += m.batches == 77 && m.a[1] == 20;
    });
    BOOST_TEST(good == 4);
}

BOOST_AUTO_TEST_SUITE_END()
