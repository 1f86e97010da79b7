// SPDX-License-Identifier: Apache-2.0
// Checkpoints of PyTorch 2.3 and older, which have one object where there are several leaves today.
#include "support/error_codes.hpp"

#include <cairn/cairn.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(older_keys)

namespace {

std::string const golden = (std::filesystem::path(CAIRN_GOLDEN) / "keys_of_2_3").string();

using cairn::value;

/// The state that tests/golden/make/keys_of_2_3.py saved, other values in it.
struct training {
    std::vector<float> w = std::vector<float>(6), exp_avg = w, zeros{9, 9};
    float optimizer_step = 0;
    double lr = 0;
    value betas = value::tuple({}), params = value::list({});
    double other_lr = 0;
    std::int64_t epoch = 0, position = 0, step = 0, a = 0;
    std::string five, c;
    value list = "not loaded";

    cairn::state_dict state_dict() {
        using cairn::dtype;
        cairn::state_dict first{
            {"lr", std::ref(lr)}, {"betas", std::ref(betas)}, {"params", std::ref(params)}};
        cairn::state_dict second{{"lr", std::ref(other_lr)}};
        cairn::state_dict mixed{{"a", std::ref(a)}, {"b", cairn::state_dict{{"c", std::ref(c)}}}};
        cairn::state_dict data{{"position", std::ref(position)}, {"5", std::ref(five)}};
        cairn::tensor_view const step_view(dtype::float32, {}, &optimizer_step);
        cairn::state_dict moments{
            {"step", step_view},
            {"exp_avg", cairn::tensor_view(dtype::float32, {2, 3}, exp_avg.data())}};
        return {{"model",
                 cairn::state_dict{{"w", cairn::tensor_view(dtype::float32, {2, 3}, w.data())}}},
                {"optim", cairn::state_dict{{"state", cairn::state_dict{{"w", moments}}},
                                            {"param_groups", cairn::state_list{first, second}}}},
                {"run", cairn::state_dict{{"epoch", std::ref(epoch)}, {"data", data}}},
                {"mixed", cairn::state_list{zeros, mixed}},
                {"list", std::ref(list)},
                {"step", std::ref(step)}};
    }
    void load_state_dict(const cairn::state_dict&) {}

    bool filled() const {
        return w == std::vector<float>{0, 1, 2, 3, 4, 5} && exp_avg == std::vector<float>(6, 1) &&
               zeros == std::vector<float>{0, 0} && optimizer_step == 7 && lr == 0.1 &&
               betas == value::tuple({0.9, 0.999}) && params == value::list({"w"}) &&
               other_lr == 0.01 && epoch == 3 && position == 1000 && step == 12345 && a == 1 &&
               five == "five" && c == "x" && list == value::list({1, 2, 3});
    }
};

using support::is;

}  // namespace

BOOST_AUTO_TEST_CASE(older_keys_fill_the_leaves_they_stand_for) {
    training t;
    auto const report = cairn::load(t, golden);
    BOOST_TEST(t.filled());
    BOOST_TEST(report.missing.empty());
    BOOST_TEST(report.unexpected.empty());
}

BOOST_AUTO_TEST_CASE(strict_accepts_older_keys_on_several_ranks) {
    cairn::load_options o;
    o.planner.strict = true;
    std::atomic<int> filled{0};
    cairn::run_ranks(3, [&](cairn::thread_group::member& me) {
        training t;
        cairn::load(t, golden, o, me);
        filled += t.filled();
    });
    BOOST_TEST(filled == 3);
}

BOOST_AUTO_TEST_CASE(a_save_writes_todays_keys) {
    training t;
    cairn::load(t, golden);
    cairn::memory_store store;
    cairn::save(t, "c", store);
    cairn::torch_reader reader{store};
    reader.reset("c");
    auto const m = reader.read_metadata();
    BOOST_TEST((m.value("optim.param_groups.0.lr") != nullptr));
    BOOST_TEST((m.value("run.data.5") != nullptr));
    BOOST_TEST((m.value("run") == nullptr));
    training again;
    cairn::load(again, "c", store);
    BOOST_TEST(again.filled());
}

BOOST_AUTO_TEST_CASE(older_keys_fill_values_that_are_trees) {
    value groups = value::list({value::dict({{"lr", 0.0}}), value::dict({{"lr", 0.0}})});
    value run = value::dict({{"epoch", 0}, {"data", value::dict({{"position", 0}})}});
    cairn::state_dict sd{{"optim", cairn::state_dict{{"param_groups", std::ref(groups)}}},
                         {"run", std::ref(run)}};
    auto const report = cairn::load(sd, golden);
    BOOST_TEST(
        (groups.get_if<value::list_t>()->at(1) ==
         value::dict(
             {{"lr", 0.01}, {"betas", value::tuple({0.9, 0.99})}, {"params", value::list({})}})));
    auto const* data = run.get_if<value::dict_t>()->find("data")->get_if<value::dict_t>();
    BOOST_REQUIRE((data != nullptr && data->items.size() == 2u));
    BOOST_TEST(data->find("position")->as<int>() == 1000);
    BOOST_TEST((data->items[1].first == value("5")));  // dcp.save makes keys str
    BOOST_TEST((data->items[1].second == value("five")));
    BOOST_TEST((std::find(report.unexpected.begin(), report.unexpected.end(), "run") ==
                report.unexpected.end()));
    BOOST_TEST((std::find(report.unexpected.begin(), report.unexpected.end(), "step") !=
                report.unexpected.end()));
}

BOOST_AUTO_TEST_CASE(older_keys_with_another_shape_are_refused) {
    double lr = 0;
    cairn::state_dict one{{"lr", std::ref(lr)}};
    cairn::state_dict sd{{"optim", cairn::state_dict{{"param_groups", cairn::state_list{one}}}}};
    BOOST_CHECK_EXCEPTION(cairn::load(sd, golden), cairn::error, [](const auto& e) {
        return is(e, cairn::errc::kind_mismatch) && e.context().fqn == "optim.param_groups" &&
               e.context().expected == "a list of 1" && e.context().found == "a list of 2";
    });
    cairn::state_dict other{{"run", cairn::state_dict{{"epochs", std::ref(lr)}}}};
    BOOST_CHECK_EXCEPTION(cairn::load(other, golden), cairn::error, [](const auto& e) {
        return is(e, cairn::errc::missing_key) && e.context().fqn == "run";
    });
    std::vector<float> w(6);
    cairn::state_dict tensor{{"run", cairn::state_dict{{"w", w}}}};
    BOOST_CHECK_EXCEPTION(cairn::load(tensor, golden), cairn::error,
                          [](const auto& e) { return is(e, cairn::errc::missing_key); });
}

BOOST_AUTO_TEST_CASE(older_keys_may_lack_what_is_optional) {
    std::int64_t epoch = 0, other = 7;
    cairn::node optional(std::ref(other));
    optional.set_optional();
    cairn::state_dict sd{
        {"run", cairn::state_dict{{"epoch", std::ref(epoch)}, {"other", optional}}}};
    (void)cairn::load(sd, golden);
    BOOST_TEST(epoch == 3);
    BOOST_TEST(other == 7);
}

BOOST_AUTO_TEST_CASE(older_keys_may_lack_what_the_state_has_with_partial) {
    cairn::load_options partial;
    partial.planner.partial = true;
    std::int64_t epoch = 0, other = 7, position = 0, seed = 8;
    double lr = 0, other_lr = 0, third_lr = 9;
    cairn::state_dict data{{"position", std::ref(position)}, {"seed", std::ref(seed)}};
    cairn::state_list groups{cairn::state_dict{{"lr", std::ref(lr)}},
                             cairn::state_dict{{"lr", std::ref(other_lr)}},
                             cairn::state_dict{{"lr", std::ref(third_lr)}}};
    cairn::state_dict sd{
        {"run",
         cairn::state_dict{{"epoch", std::ref(epoch)}, {"other", std::ref(other)}, {"data", data}}},
        {"optim", cairn::state_dict{{"param_groups", groups}}}};
    auto const report = cairn::load(sd, golden, partial);
    BOOST_TEST(epoch == 3);
    BOOST_TEST(position == 1000);
    BOOST_TEST(lr == 0.1);
    BOOST_TEST(other_lr == 0.01);
    BOOST_TEST(other == 7);
    BOOST_TEST(seed == 8);
    BOOST_TEST(third_lr == 9);
    auto missing = report.missing;
    std::sort(missing.begin(), missing.end());
    BOOST_TEST((missing ==
                std::vector<std::string>{"optim.param_groups.2", "run.data.seed", "run.other"}));
    // A list that is shorter in the state.
    cairn::state_dict first{
        {"optim", cairn::state_dict{{"param_groups", cairn::state_list{cairn::state_dict{
                                                         {"lr", std::ref(third_lr)}}}}}}};
    cairn::load(first, golden, partial);
    BOOST_TEST(third_lr == 0.1);
}

/// Keys of both ages for one place: nothing is filled twice, no memory that is gone is written.
BOOST_AUTO_TEST_CASE(older_keys_beside_todays_are_not_taken) {
    cairn::memory_store store;
    cairn::state_dict both{{"run.epoch", 4},
                           {"run", value::tuple({1, 2})},
                           {"tree.a", value::list({value::tuple({})})},
                           {"tree.a.b", 5}};
    cairn::save(both, "c", store);
    value run = value::dict({{"epoch", 0}, {"data", 1}});
    cairn::state_dict sd{{"run", std::ref(run)}};
    BOOST_CHECK_EXCEPTION(cairn::load(sd, "c", store), cairn::error, [](const auto& e) {
        return is(e, cairn::errc::missing_key) && e.context().fqn == "run.data";
    });
    cairn::load_options partial;
    partial.planner.partial = true;
    cairn::load(sd, "c", partial, store);
    BOOST_TEST((run == value::dict({{"epoch", 4}, {"data", 1}})));
    value tree = value::dict({{"a", value::dict({{"b", 0}, {"c", 0}})}});
    cairn::state_dict deep{{"tree", std::ref(tree)}};
    cairn::load(deep, "c", partial, store);
    BOOST_TEST((tree == value::dict({{"a", value::dict({{"b", 5}, {"c", 0}})}})));
}

BOOST_AUTO_TEST_CASE(older_keys_of_the_outermost_container_are_taken_once) {
    cairn::memory_store store;
    cairn::state_dict nested{{"x", value::tuple({})}, {"x.y", value::tuple({})}};
    cairn::save(nested, "c", store);
    value x = value::dict({{"y", value::dict({{"z", 1}, {"t", 2}})}, {"u", 3}});
    cairn::state_dict sd{{"x", std::ref(x)}};
    auto const report = cairn::load(sd, "c", store);
    BOOST_TEST((x == value::tuple({})));
    BOOST_TEST((report.unexpected == std::vector<std::string>{"x.y"}));
}

BOOST_AUTO_TEST_CASE(older_keys_are_not_loaded_into_constants) {
    double const lr = 5;
    double epoch = 4;
    cairn::state_dict sd{
        {"run", cairn::state_dict{{"epoch", std::ref(epoch)}, {"data", std::cref(lr)}}}};
    BOOST_CHECK_EXCEPTION(cairn::load(sd, golden), cairn::error, [](const auto& e) {
        return is(e, cairn::errc::invalid_state) && !e.state_modified();
    });
    BOOST_TEST(epoch == 4.0);
}

BOOST_AUTO_TEST_SUITE_END()
