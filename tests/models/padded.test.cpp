// SPDX-License-Identifier: Apache-2.0
// A padded vocabulary with its moments, on one number of ranks and then on another.
#include <cairn/comm/thread_group.hpp>
#include <cairn/mapping/mapping.hpp>
#include <cairn/models.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>
#include <cairn/tensor/mesh.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace padded {

constexpr std::int64_t words = 5, width = 3;

/// This rank's rows of a table that is padded so that each rank has as many.
struct table {
    int rank, ranks;
    std::int64_t rows;
    std::vector<float> memory;

    table(int r, int n, float fill)
        : rank(r), ranks(n), rows((words + n - 1) / n),
          memory(static_cast<std::size_t>(rows * width), fill) {}
    cairn::sharded_view view() {
        return shard_by_mesh(
            cairn::tensor_view(cairn::dtype::float32, {rows, width}, memory.data()),
            {rows * ranks, width}, cairn::device_mesh::line(ranks), {cairn::shard_along{0}}, rank);
    }
    float& at(std::int64_t row, std::int64_t column) {
        return memory[static_cast<std::size_t>((row - rank * rows) * width + column)];
    }
};
/// The stored tables have no padding.
cairn::mapping names(int ranks) {
    auto const rows = (words + ranks - 1) / ranks * ranks;
    cairn::mapping m;
    for (auto const* name : {"model.embed", "optim.state.embed.exp_avg"})
        m.set(name, cairn::map::pad(cairn::map::stored(name, {.shape = {words, -1}}), {rows, -1}));
    return m;
}
struct model {
    table embedding;
};
struct optimizer {
    table* embedding;
    table moment;
};

}  // namespace padded

template <>
struct cairn::model_traits<padded::model> {
    static void visit(padded::model& m, auto& v) { v.parameter("embed", m.embedding.view()); }
};
template <>
struct cairn::optimizer_traits<padded::optimizer> {
    static void visit(padded::optimizer& o, auto& v) {
        v.parameter(o.embedding->view(), {{"exp_avg", o.moment.view()}});
    }
};

BOOST_AUTO_TEST_SUITE(padded_vocabularies)

BOOST_AUTO_TEST_CASE(other_ranks_may_pad_otherwise) {
    cairn::memory_store store;
    auto const run = [&](int ranks, auto body) {
        cairn::run_ranks(ranks, [&](auto& me) {
            padded::model m{{me.rank(), ranks, -1}};
            padded::optimizer o{&m.embedding, {me.rank(), ranks, -2}};
            body(me, m, o);
        });
    };
    auto const number = [](std::int64_t row, std::int64_t column, int which) {
        return static_cast<float>(100 * which + 10 * row + column);
    };
    auto const for_each = [](padded::table& t, auto f) {
        for (auto row = t.rank * t.rows; row < (t.rank + 1) * t.rows; ++row)
            for (std::int64_t c = 0; c < padded::width; ++c) f(row, c, t.at(row, c));
    };
    run(4, [&](auto& me, auto& m, auto& o) {
        for_each(m.embedding, [&](auto r, auto c, float& x) { x = number(r, c, 1); });
        for_each(o.moment, [&](auto r, auto c, float& x) { x = number(r, c, 2); });
        auto [ms, os] = cairn::get_state_dict(m, o);
        cairn::save(cairn::state_dict{{"model", ms}, {"optim", os}}, "c", store, me,
                    padded::names(4));
    });
    std::atomic<int> wrong{0}, looked{0};
    for (int const ranks : {1, 3, 4}) {
        run(ranks, [&](auto& me, auto& m, auto& o) {
            auto [ms, os] = cairn::get_state_dict(m, o);
            cairn::load(cairn::state_dict{{"model", ms}, {"optim", os}}, "c", store, me,
                        padded::names(ranks));
            cairn::set_state_dict(m, o, ms, os);
            auto const check = [&](int which) {
                return [&, which](auto r, auto c, float x) {
                    ++looked;
                    wrong += x != (r < padded::words ? number(r, c, which) : 0);
                };
            };
            for_each(m.embedding, check(1));
            for_each(o.moment, check(2));
        });
    }
    BOOST_TEST(wrong == 0);
    BOOST_TEST(looked == 2 * 3 * (5 + 6 + 8));
    // What everybody else sees has no padding.
    auto const tree = cairn::load_tree("c", {}, store);
    BOOST_TEST(to_string(tree.at("model").as_dict().at("embed").as_tensor().global_shape) ==
               "[5, 3]");
}

BOOST_AUTO_TEST_SUITE_END()
