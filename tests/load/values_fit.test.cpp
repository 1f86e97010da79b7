// SPDX-License-Identifier: Apache-2.0
// A stored value that does not fit is known, and named, before anything of any rank's changes.
#include <cairn/cairn.hpp>
#include <cairn/format/native/index.hpp>
#include <cairn/format/torch/value_item.hpp>
#include <cairn/tensor/convert.hpp>

#include <boost/test/unit_test.hpp>

#include "archetype/load_planner.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/// Copies of it would not be it.
struct one_and_only {
    int n = 0;
    one_and_only() = default;
    one_and_only(one_and_only&&) = delete;
};
/// A conversion of the user's, which says no in its own way.
struct even {
    int n = 0;
};

template <>
struct cairn::value_traits<one_and_only> {
    static value to_value(const one_and_only& x) { return x.n; }
    static void from_value(one_and_only& x, const value& v) { x.n = v.as<std::int8_t>(); }
};
template <>
struct cairn::value_traits<even> {
    static value to_value(const even& x) { return x.n; }
    static void from_value(even& x, const value& v) {
        x.n = v.as<int>();
        if (x.n % 2 != 0) throw std::runtime_error(std::to_string(x.n) + " is odd");
    }
};

BOOST_AUTO_TEST_SUITE(values_fit)

namespace {

using cairn::errc;
using cairn::value;
using member = cairn::thread_group::member;

/// What `as` says of a value that it cannot take.
template <class T>
std::string misfit(const value& v, errc code = errc::value_mismatch) {
    try {
        (void)v.as<T>();
    } catch (const cairn::error& e) {
        BOOST_TEST((e.code() == cairn::make_error_code(code)));
        return e.what();
    }
    return "it fits";
}
bool has(const std::string& s, const std::string& part) {
    return s.find(part) != s.npos;
}

/// Two ranks load a tensor, a value "a" before and a value "z" after the one in question, which
/// rank 1 alone wants.
struct outcome {
    std::string what{};
    errc code{};
    bool state_modified = false;
    bool tensors_changed = false;
    bool values_changed = false;
};

template <class Target, class... Planner>
outcome load_into(cairn::memory_store& store, Target& target, Planner&&... planner) {
    std::vector<outcome> out(2);
    cairn::run_ranks(2, [&](member& me) {
        auto& o = out[static_cast<std::size_t>(me.rank())];
        std::vector<float> w(4, -1);
        int a = -1, z = -1;
        cairn::state_dict sd{{"w", w}, {"a", std::ref(a)}};
        if (me.rank() == 1) sd["it"] = cairn::node(std::ref(target));
        sd["z"] = std::ref(z);
        try {
            if constexpr (sizeof...(Planner) == 0)
                cairn::load(sd, "c", me, store);
            else
                cairn::load(sd, "c", me, store, planner()...);
        } catch (const cairn::error& e) {
            o.what = e.what();
            o.code = static_cast<errc>(e.code().value());
            o.state_modified = e.state_modified();
        }
        o.tensors_changed = w != std::vector<float>(4, -1);
        o.values_changed = a != -1 || z != -1;
    });
    BOOST_TEST(out[0].what == out[1].what);
    // What the rank did that wanted it.
    out[1].state_modified = out[0].state_modified || out[1].state_modified;
    if (out[0].tensors_changed || out[0].values_changed) BOOST_TEST(out[1].state_modified);
    return out[1];
}

cairn::memory_store saved(value v) {
    cairn::memory_store store;
    std::vector<float> w{1, 2, 3, 4};
    cairn::state_dict sd{{"w", w}, {"a", 1}, {"it", cairn::node(std::move(v))}, {"z", 2}};
    cairn::save(sd, "c", store);
    return store;
}

/// @param says  Of the value and of what was wanted.
template <class Target>
void refused(value v, Target before, std::vector<std::string> says,
             errc code = errc::value_mismatch) {
    auto store = saved(std::move(v));
    auto target = before;
    auto const o = load_into(store, target);
    says.push_back("'it': ");
    says.push_back("rank 1");
    for (auto const& s : says) BOOST_TEST(has(o.what, s), o.what << " does not say " << s);
    BOOST_TEST((o.code == code));
    BOOST_TEST((target == before));
    BOOST_TEST(!o.state_modified);
    BOOST_TEST(!o.tensors_changed);
    BOOST_TEST(!o.values_changed);
}

}  // namespace

BOOST_AUTO_TEST_CASE(as_says_why_a_value_does_not_fit) {
    auto const huge = cairn::big_int(std::vector<std::uint8_t>{0, 0, 0, 0, 0, 0, 0, 0, 1});
    BOOST_TEST(misfit<std::int8_t>(300) ==
               "the stored value does not fit; expected an integer from -128 to 127 (int8), found "
               "300");
    BOOST_TEST(has(misfit<std::uint8_t>(-1), "from 0 to 255 (uint8), found -1"));
    BOOST_TEST(has(misfit<std::int32_t>(1LL << 31), "(int32), found 2147483648"));
    BOOST_TEST(has(misfit<std::uint64_t>(huge),
                   "18446744073709551615 (uint64), found 18446744073709551616"));
    BOOST_TEST(has(misfit<std::int64_t>(~std::uint64_t{0}), "found 18446744073709551615"));
    BOOST_TEST(has(misfit<int>(1.5), "(int32), found 1.5 (float)"));
    BOOST_TEST(has(misfit<int>(3.0), "found 3 (float)"));
    BOOST_TEST(has(misfit<double>(huge), "expected a float, found 18446744073709551616"));
    BOOST_TEST(has(misfit<float>(1e300), "a float of 32 bits, found 1e+300 (float)"));
    BOOST_TEST(value(1e300).as<double>() == 1e300);
    BOOST_TEST(value(-1.0 / 0.0).as<float>() < 0.0f);
    std::vector<std::uint8_t> many(1000, 1);
    BOOST_TEST(has(misfit<int>(cairn::big_int(many)), "found an int of 8000 bits"));
    auto const kind = errc::kind_mismatch;
    BOOST_TEST(misfit<int>("abc", kind).substr(0, 14) == "kinds differ; ");
    BOOST_TEST(has(misfit<int>("abc", kind), "(int32), found 'abc' (str)"));
    BOOST_TEST(misfit<int>(std::string(500, 'x'), kind).size() < 200u);
    BOOST_TEST(has(misfit<float>(nullptr, kind), "expected a float, found None"));
    BOOST_TEST(has(misfit<bool>(1, kind), "expected a bool, found 1"));
    BOOST_TEST(has(misfit<std::string>(true, kind), "expected a value of kind str, found True"));
    BOOST_TEST(has(misfit<value::dict_t>(value::list({1, 2}), kind),
                   "expected a value of kind dict, found a list of 2"));
    BOOST_TEST(has(misfit<value::bytes_t>(value::tuple({1}), kind), "found a tuple of 1"));
    BOOST_TEST(has(misfit<value::none_t>(value::bytes_t(7), kind), "kind None, found bytes of 7"));
    BOOST_TEST(value(127).as<std::int8_t>() == 127);
    BOOST_TEST(value(true).as<int>() == 1);
    BOOST_TEST(value(7).as<double>() == 7.0);
}

BOOST_AUTO_TEST_CASE(a_value_that_does_not_fit_changes_nothing_on_any_rank) {
    refused<std::int8_t>(300, 5, {"from -128 to 127 (int8)", "found 300", "a type that holds it"});
    refused<unsigned>(-1, 5, {"(uint32)", "found -1"});
    refused<int>(2.5, 5, {"(int32)", "found 2.5 (float)"});
    refused<int>("seven", 5, {"(int32)", "found 'seven' (str)"}, errc::kind_mismatch);
    refused<std::optional<int>>(2.5, {}, {"found 2.5 (float)"});
    refused<std::pair<int, std::int8_t>>(value::tuple({1, 300}), {5, 6}, {"found 300"});
    refused<std::pair<int, int>>(value::tuple({1, 2, 3}), {5, 6}, {"a tuple of 2", "a tuple of 3"},
                                 errc::kind_mismatch);
    refused<std::tuple<int, int>>(value::list({1}), {5, 6}, {"a tuple of 2", "found a list of 1"},
                                  errc::kind_mismatch);
    refused<std::string>(7, "x", {"str", "found 7"}, errc::kind_mismatch);
}

BOOST_AUTO_TEST_CASE(a_conversion_of_the_users_may_say_no) {
    auto store = saved(7);
    even target{4};
    auto const o = load_into(store, target);
    BOOST_TEST(has(o.what, "'it': "), o.what);
    BOOST_TEST(has(o.what, "7 is odd"), o.what);
    BOOST_TEST(target.n == 4);
    BOOST_TEST((!o.state_modified && !o.tensors_changed && !o.values_changed));
}

BOOST_AUTO_TEST_CASE(a_value_in_a_list_fits_or_nothing_changes) {
    auto store = saved(value::list({1, 300}));
    int first = -1;
    std::int8_t second = -1;
    std::vector<float> w(4, -1);
    cairn::state_dict sd{{"w", w}, {"it", cairn::state_list{std::ref(first), std::ref(second)}}};
    BOOST_CHECK_EXCEPTION(cairn::load(sd, "c", store), cairn::error, [](const cairn::error& e) {
        return e.code() == cairn::make_error_code(errc::value_mismatch) && !e.state_modified() &&
               e.context().fqn == "it" && e.context().found == "300";
    });
    BOOST_TEST((first == -1 && second == -1 && w[0] == -1));
}

/// Also in a list, and of a rank's own.
BOOST_AUTO_TEST_CASE(bytes_of_another_object_change_nothing) {
    struct larger {
        std::int64_t a = -1, b = -1;
    };
    cairn::memory_store store;
    std::int64_t small = 7;
    std::vector<float> ones(4, 1);
    (void)cairn::save(cairn::state_dict{{"w", ones},
                                        {"it", cairn::as_bytes(small)},
                                        {"list", cairn::state_list{cairn::as_bytes(small)}},
                                        {"own", cairn::per_rank(cairn::as_bytes(small))}},
                      "c", store);
    std::vector<float> w(4, -1);
    larger other;
    for (auto const& sd : std::vector<cairn::state_dict>{
             {{"w", w}, {"it", cairn::as_bytes(other)}},
             {{"w", w}, {"list", cairn::state_list{cairn::as_bytes(other)}}},
             {{"w", w}, {"own", cairn::per_rank(cairn::as_bytes(other))}}}) {
        BOOST_CHECK_EXCEPTION(cairn::load(sd, "c", store), cairn::error, [](const auto& e) {
            return e.code() == cairn::make_error_code(errc::shape_mismatch) && !e.state_modified();
        });
        BOOST_TEST((other.a == -1 && w[0] == -1));
    }
}

/// One object of PyTorch 2.3 for several values: all or none of them.
BOOST_AUTO_TEST_CASE(a_value_of_an_older_checkpoint_fits_or_nothing_changes) {
    cairn::memory_store store;
    {
        // As PyTorch 2.3 named it: the dict is one object.
        cairn::state_dict sd{{"run", value::tuple({0})}};
        cairn::save_options o;
        auto meta = cairn::save(sd, "c", o, store).meta;
        auto const whole = value::dict({{"epoch", 3}, {"seed", 300}});
        auto const bytes = cairn::format::torch::encode_value(whole);
        auto at = std::get<cairn::value_metadata>(meta.entries.at("run")).at;
        auto file = store.create("c/other.distcp", bytes.size());
        file.write(0, bytes);
        file.finish(true);
        at.file = "other.distcp";
        at.offset = 0;
        at.length = bytes.size();
        at.layout.reset();
        meta.entries["run"] = cairn::value_metadata{at};
        meta.file_sizes["other.distcp"] = bytes.size();
        store.publish("c/.metadata", cairn::format::native::make_metadata_file(meta), std::nullopt);
    }
    int epoch = -1;
    std::int8_t seed = -1;
    cairn::state_dict run{{"epoch", std::ref(epoch)}, {"seed", std::ref(seed)}};
    cairn::state_dict sd{{"run", run}};
    BOOST_CHECK_EXCEPTION(cairn::load(sd, "c", store), cairn::error, [](const cairn::error& e) {
        return e.code() == cairn::make_error_code(errc::value_mismatch) && !e.state_modified() &&
               e.context().fqn == "run" && e.context().found == "300";
    });
    BOOST_TEST((epoch == -1 && seed == -1));
}

/// What cannot be tried on a copy fails late, and the error says that something has changed.
BOOST_AUTO_TEST_CASE(a_misfit_of_a_type_that_cannot_be_copied_is_known_late) {
    auto store = saved(300);
    one_and_only target;
    auto const o = load_into(store, target);
    BOOST_TEST(has(o.what, "'it': "), o.what);
    BOOST_TEST(has(o.what, "found 300"), o.what);
    BOOST_TEST(target.n == 0);
    BOOST_TEST(o.state_modified);
}

BOOST_AUTO_TEST_CASE(a_misfit_is_known_late_to_planners_that_cannot_tell) {
    auto store = saved(300);
    std::int8_t target = 5;
    auto const o = load_into(store, target, [] { return cairn::archetype::load_planner(); });
    BOOST_TEST(has(o.what, "found 300"), o.what);
    BOOST_TEST(target == 5);
    BOOST_TEST(o.state_modified);
}

namespace {

/// Hands on each value so many times.
struct odd_reader {
    cairn::torch_reader inner;
    int times = 1;
    cairn::read_target to_{};

    void reset(const cairn::checkpoint_id& id) { inner.reset(id); }
    cairn::metadata read_metadata() { return inner.read_metadata(); }
    void set_up_reader(const cairn::metadata& m, const cairn::storage_setup& me) {
        inner.set_up_reader(m, me);
    }
    cairn::load_plan prepare_local_load_plan(cairn::load_plan p) { return p; }
    std::vector<cairn::load_plan> prepare_global_load_plan(std::vector<cairn::load_plan> p) {
        return p;
    }
    void read_data(const cairn::load_plan& plan, const cairn::read_target& to,
                   cairn::completion<cairn::read_result> done) {
        to_ = to;
        to_.load_value = [this, &to](const cairn::read_item& i, const value& v) {
            for (int k = 0; k < times; ++k) to.load_value(i, v);
        };
        inner.read_data(plan, to_, std::move(done));
    }
};

}  // namespace

BOOST_AUTO_TEST_CASE(every_value_is_handed_on_once) {
    auto store = saved(7);
    for (int times : {0, 1, 2}) {
        std::vector<float> w(4, -1);
        int it = -1;
        cairn::state_dict sd{{"w", w}, {"it", std::ref(it)}};
        odd_reader reader{cairn::torch_reader(store), times};
        if (times == 1) {
            cairn::load(sd, "c", reader);
            BOOST_TEST((it == 7 && w[3] == 4));
            continue;
        }
        BOOST_CHECK_EXCEPTION(cairn::load(sd, "c", reader), cairn::error,
                              [](const cairn::error& e) {
                                  return e.code() == cairn::make_error_code(errc::invalid_plan) &&
                                         !e.state_modified();
                              });
        BOOST_TEST((it == -1 && w[0] == -1));
    }
}

/// As a broadcast or expanded tensor.
BOOST_AUTO_TEST_CASE(a_target_whose_elements_share_memory_is_refused_before_anything_changes) {
    cairn::memory_store store;
    std::vector<float> a{1, 2, 3}, m{1, 2, 3, 4, 5, 6};
    cairn::tensor_view const matrix(cairn::dtype::float32, {2, 3}, m.data());
    cairn::save(cairn::state_dict{{"a", a}, {"m", matrix}}, "c", store);
    std::vector<float> to(3), row(4);
    for (auto const& strides : {cairn::index_vector{0, 1}, cairn::index_vector{1, 1}}) {
        cairn::tensor_view const broadcast(cairn::dtype::float32, {2, 3}, strides, row.data());
        cairn::state_dict sd{{"a", to}, {"m", broadcast}};
        BOOST_CHECK_EXCEPTION(cairn::load(sd, "c", store), cairn::error, [](const auto& e) {
            return e.code() == cairn::make_error_code(errc::invalid_state) &&
                   e.context().fqn == "m" && !e.state_modified();
        });
        BOOST_TEST((to == std::vector<float>(3) && row == std::vector<float>(4)));
        // It can be saved.
        cairn::save(sd, "d", store);
    }
}

BOOST_AUTO_TEST_SUITE_END()
