// SPDX-License-Identifier: Apache-2.0
// A weight that is tied on some layouts only: the embedding and the head are one memory in one
// process, and copies on the first and the last of two pipeline stages.
#include <cairn/comm/data_plane.hpp>
#include <cairn/comm/thread_group.hpp>
#include <cairn/models.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace apart {

using tensor = std::vector<float>;

/// What one rank has of a model whose layers are embed, body and head.
struct model {
    tensor embed{}, body{}, head{};
    enum class where { together, first_stage, last_stage, one_process_untied } layout;
    bool says_tied = true;

    model(where l, float fill) : layout(l) {
        if (l != where::last_stage) embed = {fill, fill}, body = {fill, fill, fill};
        if (l == where::last_stage || l == where::one_process_untied) head = {fill, fill};
    }
};
struct adam {
    struct slot {
        tensor* parameter;
        tensor m{};
        std::int64_t step = 0;
    };
    std::vector<slot> slots{};
    double lr = 0.1;

    explicit adam(model& m) {
        for (auto* t : {&m.embed, &m.body, &m.head})
            if (!t->empty()) slots.push_back({t, tensor(t->size())});
    }
};

}  // namespace apart

template <>
struct cairn::model_traits<apart::model> {
    static void visit(apart::model& m, auto& v) {
        using enum apart::model::where;
        if (m.layout != last_stage) {
            v.parameter("embed.weight", m.embed);
            v.parameter("body.weight", m.body);
        }
        if (m.layout == together)
            v.parameter("head.weight", m.embed);
        else if (m.layout != first_stage)
            v.parameter("head.weight", m.head);
        if (m.layout == first_stage) v.elsewhere("head");
        if (m.layout == last_stage)
            for (auto const* name : {"embed", "body"}) v.elsewhere(name);
        if (m.layout != together && m.says_tied) v.tied("head.weight", "embed.weight");
    }
};
template <>
struct cairn::optimizer_traits<apart::adam> {
    static void visit(apart::adam& o, auto& v) {
        v.group();
        v.hyperparameter("lr", o.lr);
        for (auto& s : o.slots)
            v.parameter(*s.parameter, {{"step", converted<float>(s.step)}, {"exp_avg", s.m}});
    }
};

BOOST_AUTO_TEST_SUITE(tied_apart)

using apart::adam;
using apart::model;
using apart::tensor;
using cairn::errc;
using cairn::state_dict;
using where = apart::model::where;

namespace {

std::vector<std::string> names_in(cairn::memory_store& store) {
    cairn::torch_reader reader(store);
    reader.reset("c");
    std::vector<std::string> out;
    for (auto const& [fqn, entry] : reader.read_metadata().entries) out.push_back(fqn);
    return out;
}
bool has(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

cairn::state_dict_options shape(bool flat) {
    return {.flatten_optimizer_state_dict = flat};
}

state_dict state_of(model& m, adam& o, bool flat) {
    auto [ms, os] = cairn::get_state_dict(m, o, shape(flat));
    return {{"model", ms}, {"optim", os}};
}
template <class... Parts>
void load_into(model& m, adam& o, bool flat, Parts&&... parts) {
    auto const d = state_of(m, o, flat);
    cairn::load(d, "c", parts...);
    cairn::set_state_dict(m, o, d.at("model").as_dict(), d.at("optim").as_dict(), shape(flat));
}

/// As after some training: the first name's moments are 1 and 2, the body's 3 to 5.
void train(model& m, adam& o) {
    for (auto* t : {&m.embed, &m.head})
        if (!t->empty()) *t = {10, 20};
    if (!m.body.empty()) m.body = {30, 40, 50};
    for (auto& s : o.slots) {
        s.m = s.parameter == &m.body ? tensor{3, 4, 5} : tensor{1, 2};
        s.step = 7;
    }
    o.lr = 0.5;
}
bool is_trained(model& m, adam& o) {
    model m2(m.layout, 0);
    adam o2(m2);
    train(m2, o2);
    bool good = m.embed == m2.embed && m.body == m2.body && m.head == m2.head && o.lr == o2.lr;
    for (std::size_t i = 0; i < o.slots.size(); ++i)
        good = good && o.slots[i].m == o2.slots[i].m && o.slots[i].step == 7;
    return good;
}

void save_together(cairn::memory_store& store, bool flat) {
    model m(where::together, 0);
    adam o(m);
    train(m, o);
    cairn::save(state_of(m, o, flat), "c", store);
}
/// `change` makes the last stage's differ.
void save_apart(cairn::memory_store& store, const std::function<void(model&, adam&)>& change = {}) {
    cairn::run_ranks(2, [&](auto& me) {
        model m(me.rank() == 0 ? where::first_stage : where::last_stage, 0);
        adam o(m);
        train(m, o);
        if (me.rank() == 1 && change) change(m, o);
        cairn::save(state_of(m, o, true), "c", store, me);
    });
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_saved_together_has_the_keys_of_pytorch) {
    cairn::memory_store store;
    save_together(store, true);
    auto const names = names_in(store);
    BOOST_TEST(has(names, "model.embed.weight"));
    BOOST_TEST(has(names, "model.head.weight"));
    BOOST_TEST(has(names, "optim.state.embed.weight.exp_avg"));
    BOOST_TEST(!has(names, "optim.state.head.weight.exp_avg"));
    BOOST_TEST(!has(names, "optim.param_groups.head.weight.lr"));
}

BOOST_AUTO_TEST_CASE(what_is_saved_together_loads_apart) {
    for (bool const planes : {false, true}) {
        cairn::memory_store store;
        save_together(store, true);
        std::atomic<int> good{0};
        cairn::run_ranks(2, [&](auto& me) {
            model m(me.rank() == 0 ? where::first_stage : where::last_stage, 0);
            adam o(m);
            if (planes) {
                cairn::communicator_data_plane plane(me);
                cairn::load_options options;
                options.read_once_from = 0;
                load_into(m, o, true, options, store, me, plane);
            } else {
                load_into(m, o, true, store, me);
            }
            good += is_trained(m, o);
        });
        BOOST_TEST(good == 2);
    }
}

BOOST_AUTO_TEST_CASE(one_process_loads_what_was_tied_without_the_tie) {
    for (bool const flat : {false, true}) {
        cairn::memory_store store;
        save_together(store, flat);
        model m(where::one_process_untied, 0);
        adam o(m);
        load_into(m, o, flat, store);
        BOOST_TEST(is_trained(m, o));
        // Back, from two memories into one.
        cairn::save(state_of(m, o, flat), "c", store);
        BOOST_TEST(has(names_in(store), flat ? "optim.param_groups.head.weight.lr"
                                             : "optim.state.head.weight.exp_avg"));
        model to(where::together, 0);
        adam again(to);
        load_into(to, again, flat, store);
        BOOST_TEST(is_trained(to, again));
    }
}

BOOST_AUTO_TEST_CASE(a_key_is_missing_where_nobody_says_that_weights_are_tied) {
    cairn::memory_store store;
    save_together(store, true);
    model m(where::one_process_untied, 0);
    m.says_tied = false;
    adam o(m);
    BOOST_CHECK_EXCEPTION(load_into(m, o, true, store), cairn::error, [](const cairn::error& e) {
        return e.code() == cairn::make_error_code(errc::missing_key) &&
               std::string(e.what()).find("optim.state.head.weight.") != std::string::npos;
    });
}

BOOST_AUTO_TEST_CASE(what_is_saved_apart_loads_together_and_apart) {
    cairn::memory_store store;
    // Each stage has its own moments, and the copies' own are kept.
    save_apart(store, [](model&, adam& o) { o.slots[0].m = {8, 9}; });
    auto const names = names_in(store);
    BOOST_TEST(has(names, "optim.state.head.weight.exp_avg"));
    model m(where::together, 0);
    adam o(m);
    load_into(m, o, true, store);
    BOOST_TEST(is_trained(m, o));  // the first name's
    std::atomic<int> good{0};
    cairn::run_ranks(2, [&](auto& me) {
        model stage(me.rank() == 0 ? where::first_stage : where::last_stage, 0);
        adam of(stage);
        load_into(stage, of, true, store, me);
        good += me.rank() == 0 ? is_trained(stage, of)
                               : stage.head == tensor{10, 20} && of.slots[0].m == tensor{8, 9};
    });
    BOOST_TEST(good == 2);
}

BOOST_AUTO_TEST_CASE(copies_that_differ_do_not_go_into_one_memory) {
    cairn::memory_store store;
    save_apart(store, [](model& m, adam&) { m.head[1] = 21; });
    model m(where::together, 0);
    adam o(m);
    BOOST_CHECK_EXCEPTION(load_into(m, o, true, store), cairn::error, [](const cairn::error& e) {
        std::string const text = e.what();
        return e.code() == cairn::make_error_code(errc::invalid_state) &&
               text.find("model.head.weight") != std::string::npos &&
               text.find("model.embed.weight") != std::string::npos;
    });
}

// Megatron's way: the last stage gives its copy the first one's name, so that it is a replica.
BOOST_AUTO_TEST_CASE(one_name_on_both_stages_is_a_replica) {
    cairn::memory_store store;
    auto const run = [&](int ranks, auto verb) {
        std::atomic<int> good{0};
        cairn::run_ranks(ranks, [&](auto& me) {
            std::map<std::string, tensor> m{{"embed.weight", {0, 0}}};
            good += verb(m, me);
        });
        return good.load();
    };
    run(2, [&](auto& m, auto& me) {
        m["embed.weight"] = {10, 20};
        cairn::save(state_dict{{"model", cairn::get_model_state_dict(m)}}, "c", store, me);
        return 0;
    });
    BOOST_TEST(names_in(store) == std::vector<std::string>{"model.embed.weight"});
    BOOST_TEST(
        run(3, [&](auto& m, auto& me) {
            cairn::load(state_dict{{"model", cairn::get_model_state_dict(m)}}, "c", store, me);
            return m["embed.weight"] == tensor{10, 20};
        }) == 3);
    // The tied process finds its second name's content under the first.
    model m(where::together, 0);
    cairn::load_options options;
    options.planner.partial = true;  // it has no body
    cairn::load(state_dict{{"model", cairn::get_model_state_dict(m)}}, "c", options, store);
    BOOST_TEST(m.embed == (tensor{10, 20}));
}

BOOST_AUTO_TEST_CASE(rank_0_gives_the_whole_to_both_stages) {
    for (auto const from : {where::together, where::one_process_untied}) {
        std::atomic<int> good{0};
        cairn::run_ranks(2, [&](auto& me) {
            model m(me.rank() == 0 ? where::first_stage : where::last_stage, 0);
            adam o(m);
            state_dict ms, os;
            model source(from, 0);
            adam of_source(source);
            train(source, of_source);
            if (me.rank() == 0)
                std::tie(ms, os) = cairn::get_state_dict(source, of_source, {.cpu_offload = true});
            cairn::set_state_dict(m, o, ms, os,
                                  {.full_state_dict = true, .broadcast_from_rank0 = true}, me);
            good += is_trained(m, o);
        });
        BOOST_TEST(good == 2);
    }
}

BOOST_AUTO_TEST_SUITE_END()
