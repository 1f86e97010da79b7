// SPDX-License-Identifier: Apache-2.0
// Boxes without elements: PyTorch tells the chunks of a tensor apart by their offsets alone.
#include "support/error_codes.hpp"

#include <cairn/format/native/index.hpp>

#include <cairn/cairn.hpp>
#include <cairn/planner/global_plan.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(empty_boxes)

namespace {

using cairn::box;
using cairn::dtype;
using cairn::errc;
using cairn::index_vector;

/// The boxes that each rank holds of one tensor.
struct tensor {
    index_vector global_shape;
    std::vector<std::vector<box>> boxes;
    dtype type = dtype::float32;
};
using tensors = std::map<std::string, tensor>;

using support::is;

/// One rank's part of it all, every element a function of its place.
struct holder {
    holder(const tensors& all, std::size_t rank, bool filled) {
        for (auto const& [name, t] : all) {
            cairn::sharded_view v{t.global_shape, t.type, {}};
            for (auto const& b : t.boxes[rank]) {
                auto const n = static_cast<std::size_t>(b.volume());
                auto& m = memory.emplace_back(std::make_unique<std::vector<float>>(n, -1.0f));
                for (std::size_t k = 0; filled && k < n; ++k)
                    (*m)[k] = static_cast<float>(b.offsets[0] * 100 + static_cast<int>(k));
                v.shards.emplace_back(
                    b, cairn::tensor_view(t.type, b.shape, n == 0 ? nullptr : m->data()));
            }
            dict[name] = v;
        }
    }
    std::vector<std::unique_ptr<std::vector<float>>> memory{};
    cairn::state_dict dict{};
};

cairn::save_report save(const tensors& all, int ranks, cairn::memory_store& store,
                        const cairn::save_options& o = {}) {
    cairn::save_report report;
    cairn::run_ranks(ranks, [&](cairn::thread_group::member& me) {
        holder h(all, static_cast<std::size_t>(me.rank()), true);
        auto r = cairn::save(h.dict, "c", o, me, store);
        if (me.rank() == 0) report = std::move(r);
    });
    return report;
}

bool loads(const tensors& all, int ranks, cairn::memory_store& store) {
    std::vector<char> good(static_cast<std::size_t>(ranks));
    cairn::run_ranks(ranks, [&](cairn::thread_group::member& me) {
        auto const r = static_cast<std::size_t>(me.rank());
        holder want(all, r, true), got(all, r, false);
        cairn::load(got.dict, "c", me, store);
        bool same = true;
        for (std::size_t k = 0; k < got.memory.size(); ++k)
            same = same && *got.memory[k] == *want.memory[k];
        good[r] = same;
    });
    return std::find(good.begin(), good.end(), 0) == good.end();
}

/// What `cairn verify` and PyTorch look at: nothing of the metadata is lost in its pickle.
void check_pickle(cairn::memory_store& store) {
    auto r = store.open("c/.metadata");
    std::vector<std::byte> bytes(static_cast<std::size_t>(r.size()));
    r.read(0, bytes);
    BOOST_CHECK_NO_THROW(cairn::format::native::check_pickle_agrees(bytes));
}

std::vector<box> chunks(const cairn::save_report& r, const std::string& fqn) {
    std::vector<box> out;
    for (auto const& c : r.meta.tensor(fqn)->chunks) out.push_back(c.region);
    return out;
}

box at(index_vector offsets, index_vector lengths) {
    return {std::move(offsets), std::move(lengths)};
}

}  // namespace

/// One rank has no rows, and says so where another's begin.
BOOST_AUTO_TEST_CASE(empty_boxes_beside_a_real_one_are_left_out) {
    for (bool other_way : {false, true}) {
        tensor t{{4, 2}, {{at({0, 0}, {4, 2})}, {at({0, 0}, {0, 2})}}};
        if (other_way) std::swap(t.boxes[0], t.boxes[1]);
        tensors const all{{"w", t}, {"x", {{3}, {{at({0}, {3})}, {at({3}, {0})}}}}};
        cairn::memory_store store;
        auto const report = save(all, 2, store);
        BOOST_TEST((chunks(report, "w") == std::vector{at({0, 0}, {4, 2})}));
        BOOST_TEST((chunks(report, "x") == std::vector{at({0}, {3})}));
        check_pickle(store);
        BOOST_TEST(loads(all, 2, store));
    }
}

/// A tensor without elements has one chunk: all of it, whichever ranks hold shards of it.
BOOST_AUTO_TEST_CASE(a_tensor_without_elements_has_one_empty_box) {
    tensors const all{{"none", {{0, 6}, {{}, {}, {}}}},
                      {"one", {{0, 6}, {{}, {at({0, 0}, {0, 3})}, {}}, dtype::int32}},
                      {"two", {{0, 6}, {{at({0, 0}, {0, 3})}, {}, {at({0, 3}, {0, 3})}}}},
                      {"many", {{0, 6}, {{at({0, 0}, {0, 3}), at({0, 3}, {0, 3})}, {}, {}}}},
                      {"flat", {{0}, {{}, {at({0}, {0})}, {at({0}, {0})}}}}};
    cairn::memory_store store;
    auto const report = save(all, 3, store);
    for (auto const& [name, t] : all)
        BOOST_TEST((chunks(report, name) == std::vector{box::whole(t.global_shape)}));
    // A rank without a shard does not know the dtype, and need not.
    BOOST_TEST((report.meta.tensor("one")->type == dtype::int32));
    check_pickle(store);
    BOOST_TEST(loads(all, 3, store));
}

BOOST_AUTO_TEST_CASE(empty_boxes_alone_do_not_make_a_tensor) {
    for (auto const& boxes : std::vector<std::vector<std::vector<box>>>{
             {{at({0, 0}, {0, 2})}, {at({4, 0}, {0, 2})}}, {{}, {}}, {{at({0, 0}, {0, 2})}, {}}}) {
        cairn::memory_store store;
        BOOST_CHECK_EXCEPTION(save({{"w", {{4, 2}, boxes}}}, 2, store), cairn::error,
                              [](const cairn::error& e) {
                                  return e.code() == cairn::make_error_code(errc::invalid_plan) &&
                                         e.context().fqn == "w";
                              });
        BOOST_TEST(store.list().empty());
    }
    // A 0-d tensor of which nobody holds the element.
    cairn::memory_store store;
    BOOST_CHECK_EXCEPTION(save({{"s", {{}, {{}, {}}}}}, 2, store), cairn::error,
                          is(errc::invalid_plan));
    // One of which somebody does, and one that a planner leaves out.
    std::vector<float> one{1};
    cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
        cairn::sharded_view s{{}, dtype::float32, {}}, gone{{4}, dtype::float32, {}};
        if (me.rank() == 1)
            s.shards.emplace_back(box(), cairn::tensor_view(dtype::float32, {}, one.data()));
        cairn::state_dict sd{{"s", s}, {"gone", gone}};
        cairn::save_options o;
        o.planner.create_items = [](const cairn::flat_leaf& leaf,
                                    std::vector<cairn::write_item> usual) {
            if (leaf.fqn == "gone") usual.clear();
            return usual;
        };
        auto const report = cairn::save(sd, "c", o, me, store);
        if (me.rank() != 0) return;
        BOOST_TEST((chunks(report, "s") == std::vector{box()}));
        BOOST_TEST(report.meta.tensor("gone") == nullptr);
    });
}

BOOST_AUTO_TEST_CASE(empty_boxes_still_contradict_other_ranks) {
    cairn::memory_store store;
    cairn::write_item rows, empty;
    rows.fqn = empty.fqn = "w";
    rows.kind = empty.kind = cairn::item_kind::shard;
    rows.global_shape = {4, 2};
    rows.region = box::whole({4, 2});
    empty.global_shape = {5, 2};
    empty.region = at({5, 0}, {0, 2});
    cairn::save_plan a, b;
    a.items = {rows};
    b.items = {empty};
    BOOST_CHECK_EXCEPTION((void)cairn::dedup_save_plans({a, b}), cairn::error,
                          is(errc::invalid_plan));
}

BOOST_AUTO_TEST_CASE(empty_boxes_are_left_out_whoever_dedups) {
    tensors const all{{"w", {{4, 2}, {{at({0, 0}, {4, 2})}, {at({0, 0}, {0, 2})}}}},
                      {"none", {{0, 6}, {{at({0, 0}, {0, 3})}, {}}}}};
    cairn::save_options o;
    o.planner.dedup = [](std::vector<cairn::save_plan> p) { return p; };
    cairn::memory_store store;
    auto const report = save(all, 2, store, o);
    BOOST_TEST(chunks(report, "w").size() == 1u);
    BOOST_TEST(chunks(report, "none").size() == 1u);
    check_pickle(store);
}

/// What replaces the deduplication may leave ranks that contradict each other.
BOOST_AUTO_TEST_CASE(boxes_may_not_contradict_each_other_whoever_dedups) {
    cairn::save_options o;
    o.planner.dedup = [](std::vector<cairn::save_plan> p) { return p; };
    for (bool kind : {false, true}) {
        cairn::memory_store store;
        std::vector<float> f(2);
        std::vector<int> i(2);
        auto const save = [&] {
            cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
                cairn::state_dict sd;
                bool const first = me.rank() == 0;
                cairn::sharded_view v{{4}, first ? dtype::float32 : dtype::int32, {}};
                void* const data = first ? static_cast<void*>(f.data()) : i.data();
                v.shards.emplace_back(at({me.rank() * 2}, {2}),
                                      cairn::tensor_view(v.type, {2}, data));
                sd["w"] = v;
                if (kind && !first) sd["w"] = 7;
                cairn::save(sd, "c", o, me, store);
            });
        };
        BOOST_CHECK_EXCEPTION(save(), cairn::error, [](const cairn::error& e) {
            std::string const s = e.what();
            return e.code() == cairn::make_error_code(errc::invalid_plan) &&
                   s.find("on rank 0") != s.npos && s.find("on rank 1") != s.npos;
        });
        BOOST_TEST(store.list().empty());
    }
}

namespace {

/// Promises chunks of its own making.
struct own_global {
    cairn::default_planner inner{};
    std::vector<box> boxes{};

    void set_up_save(const cairn::flat_state& s, int rank, bool c) {
        inner.set_up_save(s, rank, c);
    }
    cairn::save_plan create_local_save_plan() { return inner.create_local_save_plan(); }
    std::pair<std::vector<cairn::save_plan>, cairn::metadata> create_global_save_plan(
        std::vector<cairn::save_plan> all) {
        cairn::metadata m;
        auto const first = all[0].items[0];
        all[0].items.clear();
        cairn::tensor_metadata t;
        t.shape = first.global_shape;
        for (auto const& b : boxes) {
            auto i = first;
            i.region = b;
            all[0].items.push_back(i);
            t.chunks.push_back({b, {}});
        }
        m.entries[first.fqn] = t;
        return {std::move(all), std::move(m)};
    }
    cairn::save_plan finish_save_plan(cairn::save_plan p) { return p; }
    cairn::item_data resolve_data(const cairn::write_item& i) { return inner.resolve_data(i); }
};

}  // namespace

/// What no reader could take is refused before it is written, whoever planned it.
BOOST_AUTO_TEST_CASE(boxes_that_clash_are_refused_whoever_planned) {
    std::vector<float> w(8);
    cairn::state_dict sd{{"w", cairn::tensor_view(dtype::float32, {4, 2}, w.data())}};
    auto const save = [&](std::vector<box> boxes) {
        cairn::memory_store store;
        own_global planner;
        planner.boxes = std::move(boxes);
        try {
            cairn::save(sd, "c", planner, store);
        } catch (const cairn::error& e) {
            BOOST_TEST((e.code() == cairn::make_error_code(errc::invalid_plan)));
            BOOST_TEST(store.list().empty());
            return std::string(e.what());
        }
        check_pickle(store);
        return std::string();
    };
    auto const whole = box::whole({4, 2});
    BOOST_TEST(save({whole}) == "");
    BOOST_TEST(save({whole, at({4, 0}, {0, 2})}) == "");
    BOOST_TEST(save({whole, at({0, 0}, {0, 2})}).find("[0:0, 0:2]") != std::string::npos);
    BOOST_TEST(save({at({2, 0}, {0, 2}), whole, at({2, 0}, {2, 0})}) != "");
    BOOST_TEST(save({whole, at({2, 0}, {2, 2})}) != "");  // they overlap
    BOOST_TEST(save({at({0, 0}, {2, 2})}) != "");         // there is a hole
}

/// As cairn saved before it left them out: it can be read, though not by PyTorch.
BOOST_AUTO_TEST_CASE(empty_boxes_of_older_checkpoints_can_be_read) {
    cairn::file_store store;
    std::string const id = std::string(CAIRN_GOLDEN) + "/cairn_empty_chunks";
    cairn::torch_reader reader(store);
    reader.reset(id);
    auto const meta = reader.read_metadata();
    BOOST_TEST(meta.tensor("clash")->chunks.size() == 2u);
    BOOST_TEST(meta.tensor("nothing")->chunks.size() == 2u);
    std::vector<float> w(8);
    int step = 0;
    cairn::sharded_view nothing{{0, 6}, dtype::float32, {}};
    nothing.shards.emplace_back(at({0, 3}, {0, 3}),
                                cairn::tensor_view(dtype::float32, {0, 3}, nullptr));
    cairn::state_dict sd{{"clash", cairn::tensor_view(dtype::float32, {4, 2}, w.data())},
                         {"nothing", nothing},
                         {"step", std::ref(step)}};
    cairn::load(sd, id, store);
    BOOST_TEST((w == std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
    BOOST_TEST(step == 7);
    auto const tree = cairn::load_tree(id, {}, store);
    BOOST_TEST((tree.at("nothing").as_tensor().global_shape == index_vector{0, 6}));
}

BOOST_AUTO_TEST_SUITE_END()
