// SPDX-License-Identifier: Apache-2.0
// Items that hold a part of a shard, and planners whose data is not what their items say.
#include <cairn/planner/check_plan.hpp>

#include <cairn/cairn.hpp>

#include <boost/test/unit_test.hpp>

#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(split_items)

namespace {

using cairn::box;
using cairn::errc;
using items = std::vector<cairn::write_item>;

std::vector<float> counted(std::size_t n) {
    std::vector<float> v(n);
    std::iota(v.begin(), v.end(), 1.0f);
    return v;
}

/// Each usual item as two: below and from the middle of dimension `dim` on.
items halves(items usual, std::size_t dim) {
    items out;
    for (auto const& i : usual) {
        auto low = i, high = i;
        low.region.shape[dim] /= 2;
        high.region.offsets[dim] += low.region.shape[dim];
        high.region.shape[dim] -= low.region.shape[dim];
        out.push_back(low);
        out.push_back(high);
    }
    return out;
}

cairn::save_options splitting(std::size_t dim) {
    cairn::save_options o;
    o.planner.create_items = [dim](const cairn::flat_leaf& leaf, items usual) {
        return leaf.tensor() != nullptr ? halves(std::move(usual), dim) : usual;
    };
    return o;
}

cairn::sharded_view rows(std::vector<float>& memory, int rank, int ranks) {
    return cairn::shard_by_mesh(cairn::tensor_view(cairn::dtype::float32, {8 / ranks, 6},
                                                   memory.data() + rank * 48 / ranks),
                                {8, 6}, cairn::device_mesh::line(ranks), {cairn::shard_along{0}},
                                rank);
}

/// A planner whose last answers are changed by a function.
struct wrong_data {
    cairn::default_planner inner{};
    std::function<cairn::item_data(const cairn::write_item&, cairn::item_data)> change{};

    void set_up_save(const cairn::flat_state& s, int rank, bool c) {
        inner.set_up_save(s, rank, c);
    }
    cairn::save_plan create_local_save_plan() { return inner.create_local_save_plan(); }
    std::pair<std::vector<cairn::save_plan>, cairn::metadata> create_global_save_plan(
        std::vector<cairn::save_plan> all) {
        return inner.create_global_save_plan(std::move(all));
    }
    cairn::save_plan finish_save_plan(cairn::save_plan p) { return p; }
    cairn::item_data resolve_data(const cairn::write_item& i) {
        return change(i, inner.resolve_data(i));
    }
};

/// @return What the save of two ranks says, whose rank 1 resolves to `change`'s data.
void refused(decltype(wrong_data::change) change, const std::string& expected,
             const std::string& found) {
    cairn::memory_store store;
    auto memory = counted(48);
    try {
        cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
            wrong_data planner;
            planner.change = [&](auto const& i, auto d) {
                return me.rank() == 1 ? change(i, d) : d;
            };
            cairn::state_dict sd{{"w", rows(memory, me.rank(), 2)},
                                 {"step", cairn::per_rank(cairn::value(7))}};
            cairn::save(sd, "c", planner, me, store);
        });
        BOOST_ERROR("it was saved");
    } catch (const cairn::error& e) {
        std::string const what = e.what();
        BOOST_TEST_INFO(what);
        BOOST_TEST((e.code() == cairn::make_error_code(errc::invalid_plan)));
        BOOST_TEST(e.context().rank == 1);
        for (auto const& s : {expected, found}) BOOST_TEST(what.find(s) != what.npos);
    }
    BOOST_TEST(store.list().empty());
}

}  // namespace

BOOST_AUTO_TEST_CASE(split_items_hold_their_own_part_of_the_shard) {
    for (std::size_t dim : {0u, 1u}) {
        for (int ranks : {1, 2}) {
            cairn::memory_store store;
            auto saved = counted(48);
            cairn::run_ranks(ranks, [&](cairn::thread_group::member& me) {
                cairn::state_dict sd{{"w", rows(saved, me.rank(), ranks)}, {"step", 7}};
                cairn::save(sd, "c", splitting(dim), me, store);
            });
            std::vector<float> loaded(48);
            cairn::state_dict sd{{"w", rows(loaded, 0, 1)}};
            cairn::load(sd, "c", store);
            BOOST_TEST(loaded == saved, boost::test_tools::per_element());
        }
    }
}

BOOST_AUTO_TEST_CASE(split_items_of_a_tied_weight_are_stored_once) {
    auto const bytes = [](bool tied) {
        cairn::memory_store store;
        auto w = counted(6000), other = counted(6000);
        cairn::tensor_view const a(cairn::dtype::float32, {60, 100}, w.data());
        cairn::tensor_view const b(cairn::dtype::float32, {60, 100}, (tied ? w : other).data());
        cairn::state_dict sd{{"a", a}, {"b", b}};
        auto const n = cairn::save(sd, "c", splitting(0), store).bytes_written;
        std::vector<float> x(6000), y(6000);
        cairn::state_dict back{{"a", x}, {"b", y}};
        cairn::tensor_view const to_a(cairn::dtype::float32, {60, 100}, x.data());
        cairn::tensor_view const to_b(cairn::dtype::float32, {60, 100}, y.data());
        back["a"] = to_a;
        back["b"] = to_b;
        cairn::load(back, "c", store);
        BOOST_TEST((x == w && y == w));
        return n;
    };
    BOOST_TEST(bytes(true) + 24000 <= bytes(false));
}

BOOST_AUTO_TEST_CASE(items_must_be_parts_of_their_leaf) {
    auto const refuse = [](std::function<void(cairn::write_item&)> change, const char* says) {
        cairn::memory_store store;
        auto memory = counted(48);
        cairn::save_options o;
        o.planner.create_items = [&](const cairn::flat_leaf& leaf, items usual) {
            if (leaf.fqn == "w") change(usual.front());
            return usual;
        };
        auto const shown = [&](const cairn::error& e) {
            std::string const what = e.what();
            BOOST_TEST_INFO(what);
            BOOST_TEST(what.find(says) != what.npos);
            return e.code() == cairn::make_error_code(errc::invalid_plan) && e.context().fqn == "w";
        };
        cairn::state_dict sd{{"w", rows(memory, 0, 1)}, {"step", 7}};
        BOOST_CHECK_EXCEPTION(cairn::save(sd, "c", o, store), cairn::error, shown);
        BOOST_TEST(store.list().empty());
    };
    refuse([](auto& i) { i.region.shape[0] = 9; }, "[0:9, 0:6]");
    refuse([](auto& i) { i.region = box({0}, {8}); }, "[0:8]");
    refuse([](auto& i) { i.region.offsets[1] = -1; }, "-1");
    refuse([](auto& i) { i.shard_index = 1; }, "shard 1");
    refuse([](auto& i) { i.type = cairn::dtype::int32; }, "int32");
    refuse([](auto& i) { i.global_shape = {48}; }, "[48]");
    refuse([](auto& i) { i.kind = cairn::item_kind::value; }, "tensor 'w'");
}

/// What the user leaves out of an item of his own is the leaf's.
BOOST_AUTO_TEST_CASE(items_are_of_their_leaf_whatever_numbers_they_bear) {
    cairn::memory_store store;
    auto other = counted(48), saved = counted(48);
    for (auto& x : saved) x += 100;
    cairn::save_options o;
    o.planner.create_items = [](const cairn::flat_leaf&, items usual) {
        for (auto& i : usual) i.leaf = 0;
        if (usual.front().kind == cairn::item_kind::value) usual.front().shard_index = 0;
        return usual;
    };
    cairn::state_dict sd{{"other", other}, {"one", 1}, {"two", 2}, {"w", saved}};
    cairn::save(sd, "c", o, store);
    std::vector<float> loaded(48);
    int two = 0;
    cairn::state_dict back{{"w", loaded}, {"two", std::ref(two)}};
    cairn::load(back, "c", store);
    BOOST_TEST(loaded == saved, boost::test_tools::per_element());
    BOOST_TEST(two == 2);
}

BOOST_AUTO_TEST_CASE(data_that_is_not_the_items_is_refused_on_all_ranks) {
    static std::vector<double> const wide(48);
    static cairn::value const seven = 7;
    auto const tensors = [](auto f) {
        return [f](const cairn::write_item& i, cairn::item_data d) {
            return i.kind == cairn::item_kind::value ? d : cairn::item_data(f(i, d));
        };
    };
    refused(tensors([](auto&, auto& d) {
                auto v = std::get<cairn::const_tensor_view>(d);
                v.shape = {2, 6};
                return v;
            }),
            "shape [4, 6]", "shape [2, 6]");
    refused(tensors([](auto& i, auto&) {
                return cairn::const_tensor_view(cairn::dtype::float64, i.region.shape, wide.data());
            }),
            "float32", "float64");
    refused(tensors([](auto& i, auto&) {
                return cairn::const_tensor_view(cairn::dtype::int32, i.region.shape, wide.data());
            }),
            "float32", "int32");
    refused(tensors([](auto& i, auto&) {
                return cairn::const_tensor_view(i.type, i.region.shape, nullptr);
            }),
            "shape [4, 6]", "a null pointer");
    refused(tensors([](auto& i, auto&) {
                return cairn::const_tensor_view(i.type, i.region.shape, {1}, wide.data());
            }),
            "shape [4, 6]", "strides [1]");
    refused(tensors([](auto&, auto&) { return &seven; }), "shape [4, 6]", "a value");
    refused(
        [](auto& i, auto d) {
            return i.kind == cairn::item_kind::value
                       ? cairn::item_data(
                             cairn::const_tensor_view(cairn::dtype::float64, {48}, wide.data()))
                       : d;
        },
        "a value", "shape [48]");
    refused(
        [](auto& i, auto d) {
            return i.kind == cairn::item_kind::value
                       ? cairn::item_data(static_cast<const cairn::value*>(nullptr))
                       : d;
        },
        "a value", "a null pointer");
}

/// The writer itself, whoever calls it.
BOOST_AUTO_TEST_CASE(the_writer_refuses_data_that_is_not_the_items) {
    cairn::memory_store store;
    cairn::torch_writer writer(store);
    writer.reset("c");
    writer.set_up_writer({0, 1, true, std::string(32, 'a'), {}});
    cairn::write_item item;
    item.fqn = "w";
    item.kind = cairn::item_kind::tensor;
    item.global_shape = {4};
    item.region = box::whole({4});
    cairn::save_plan plan;
    plan.items = {item};
    auto const plans = writer.prepare_global_save_plan({plan});
    auto const memory = counted(8);
    std::vector<cairn::item_data> const data{
        cairn::const_tensor_view(cairn::dtype::float32, {8}, memory.data())};
    for (auto const given : {std::span<const cairn::item_data>(data),
                             std::span<const cairn::item_data>(data).first(0)})
        BOOST_CHECK_EXCEPTION((void)cairn::await_completion<cairn::write_results>([&](auto done) {
                                  writer.write_data(plans[0], given, std::move(done));
                              }),
                              cairn::error, [](const cairn::error& e) {
                                  return e.code() == cairn::make_error_code(errc::invalid_plan);
                              });
    writer.abandon();
    BOOST_TEST(store.list().empty());
}

namespace {

/// Changes its plan at the last moment, when the metadata is made already.
struct late_change {
    cairn::default_planner inner{};
    std::function<void(cairn::write_item&)> change{};

    void set_up_save(const cairn::flat_state& s, int rank, bool c) {
        inner.set_up_save(s, rank, c);
    }
    cairn::save_plan create_local_save_plan() { return inner.create_local_save_plan(); }
    std::pair<std::vector<cairn::save_plan>, cairn::metadata> create_global_save_plan(
        std::vector<cairn::save_plan> all) {
        return inner.create_global_save_plan(std::move(all));
    }
    cairn::save_plan finish_save_plan(cairn::save_plan p) {
        for (auto& i : p.items) change(i);
        return p;
    }
    cairn::item_data resolve_data(const cairn::write_item& i) {
        static std::vector<float> const memory(48);
        return cairn::const_tensor_view(i.type, i.region.shape, memory.data());
    }
};

}  // namespace

BOOST_AUTO_TEST_CASE(what_was_written_must_be_what_the_metadata_says) {
    for (auto const& change : std::vector<std::function<void(cairn::write_item&)>>{
             [](auto& i) { i.type = cairn::dtype::int32; },
             [](auto& i) {
                 i.global_shape = {9, 6};
             },
             [](auto& i) {
                 i.region = box({0, 0}, {4, 6});
             }}) {
        cairn::memory_store store;
        auto memory = counted(48);
        late_change planner;
        planner.change = change;
        cairn::state_dict sd{{"w", rows(memory, 0, 1)}};
        BOOST_CHECK_EXCEPTION(cairn::save(sd, "c", planner, store), cairn::error,
                              [](const cairn::error& e) {
                                  return e.code() == cairn::make_error_code(errc::invalid_plan) &&
                                         e.context().fqn == "w";
                              });
        BOOST_TEST(store.list().empty());
    }
}

BOOST_AUTO_TEST_SUITE_END()
