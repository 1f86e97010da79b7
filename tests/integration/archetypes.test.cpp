// SPDX-License-Identifier: Apache-2.0
// Every combination of a user's parts through the verbs, with parts that can do no more than the
// concepts say: our templates ask for nothing else.
#include "archetype/communicator.hpp"
#include "archetype/data_plane.hpp"
#include "archetype/load_planner.hpp"
#include "archetype/object_store.hpp"
#include "archetype/save_planner.hpp"
#include "archetype/stateful.hpp"
#include "archetype/storage_reader.hpp"
#include "archetype/storage_writer.hpp"
#include "archetype/telling_planner.hpp"
#include "archetype/tensor.hpp"

#include <cairn/async_load.hpp>
#include <cairn/async_save.hpp>
#include <cairn/load.hpp>
#include <cairn/save.hpp>

#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <memory>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(archetypes)

namespace arch = cairn::archetype;

namespace {

constexpr int ranks = 2;

/// What one rank holds: its half of a tensor, a whole one in a Stateful.
struct holding {
    arch::sharded half;
    arch::stateful app;
    holding(int rank, float v)
        : half(4, rank * 2, arch::tensor({v + static_cast<float>(rank), v})), app({v, v, v}) {
        app.step = static_cast<std::int64_t>(v);
    }
    cairn::state_dict dict() {
        cairn::state_dict d;
        d["half"] = half;
        d["app"] = app;
        return d;
    }
    bool is(int rank, float v) {
        return half.part().elements()[0] == v + static_cast<float>(rank) &&
               half.part().elements()[1] == v && app.weight().elements()[2] == v &&
               app.step == static_cast<std::int64_t>(v);
    }
};

/// The parts of one rank, made when a call needs them.
struct parts {
    cairn::thread_group::member me;
    std::shared_ptr<arch::shelf> shelf;
    cairn::memory_store memory;
};

/// Calls `save` or `load` with the given parts in every order.
template <class Call, class... Done>
void in_every_order(Call&& call, std::tuple<Done...> done) {
    call(std::move(done));
}
template <class Call, class... Done, class First, class... Rest>
void in_every_order(Call&& call, std::tuple<Done...> done, First first, Rest... rest);

template <class Call, class... Done, class... Before, class Next, class... After>
void pick(Call& call, const std::tuple<Done...>& done, std::tuple<Before...> before, Next next,
          After... after) {
    std::apply(
        [&](auto... b) {
            in_every_order(call, std::tuple_cat(done, std::tuple(next)), b..., after...);
        },
        before);
    if constexpr (sizeof...(After) > 0)
        pick(call, done, std::tuple_cat(before, std::tuple(next)), after...);
}
template <class Call, class... Done, class First, class... Rest>
void in_every_order(Call&& call, std::tuple<Done...> done, First first, Rest... rest) {
    pick(call, done, std::tuple<>(), first, rest...);
}

}  // namespace

BOOST_AUTO_TEST_CASE(parts_compose_in_every_combination_and_order) {
    auto const shelf = std::make_shared<arch::shelf>();
    cairn::memory_store memory;
    int combinations = 0;
    float v = 1;
    // Each set of makers is one combination; they make move-only parts that are given as rvalues.
    auto const try_parts = [&](auto... makers) {
        auto const once = [&](auto ordered) {
            ++combinations;
            v += 1;
            cairn::thread_group group(ranks);
            std::vector<cairn::thread_group::member> members;
            for (int r = 0; r < ranks; ++r) members.push_back(group.rank(r));
            std::vector<std::thread> threads;
            std::vector<int> good(ranks, 0);
            for (int r = 0; r < ranks; ++r) {
                threads.emplace_back([&, r] {
                    auto const i = static_cast<std::size_t>(r);
                    arch::communicator comm(std::move(members[i]));
                    holding from(r, v);
                    auto saved = from.dict();
                    std::apply([&](auto... m) { cairn::save(saved, "c", m.to_save(comm)...); },
                               ordered);
                    holding to(r, 0);
                    auto loaded = to.dict();
                    std::apply([&](auto... m) { cairn::load(loaded, "c", m.to_load(comm)...); },
                               ordered);
                    good[i] = to.is(r, v) && to.app.told == 1 && from.app.asked == 1;
                });
            }
            for (auto& t : threads) t.join();
            for (auto g : good) BOOST_TEST(g == 1);
        };
        in_every_order(once, std::tuple<>(), makers...);
    };

    struct comm_maker {
        arch::communicator& to_save(arch::communicator& c) const { return c; }
        arch::communicator& to_load(arch::communicator& c) const { return c; }
    };
    struct planner_maker {
        arch::save_planner to_save(arch::communicator&) const { return {}; }
        arch::load_planner to_load(arch::communicator&) const { return {}; }
    };
    struct storage_maker {
        std::shared_ptr<arch::shelf> at;
        auto to_save(arch::communicator&) const { return arch::storage_writer(at); }
        auto to_load(arch::communicator&) const { return arch::storage_reader(at); }
    };
    struct store_maker {
        cairn::memory_store at;
        auto to_save(arch::communicator&) const { return arch::object_store(at); }
        auto to_load(arch::communicator&) const { return arch::object_store(at); }
    };
    struct place_maker {
        cairn::memory_store at;
        auto to_save(arch::communicator&) const { return arch::relocatable_store(at); }
        auto to_load(arch::communicator&) const { return arch::relocatable_store(at); }
    };
    try_parts(comm_maker{}, planner_maker{}, storage_maker{shelf});
    try_parts(comm_maker{}, planner_maker{}, store_maker{memory});
    try_parts(comm_maker{}, planner_maker{}, place_maker{memory.at("elsewhere")});
    try_parts(comm_maker{}, storage_maker{shelf});
    try_parts(comm_maker{}, store_maker{memory});
    BOOST_TEST(combinations == 3 * 6 + 2 * 2);
}

BOOST_AUTO_TEST_CASE(a_data_plane_goes_with_every_part_of_a_load) {
    auto const shelf = std::make_shared<arch::shelf>();
    cairn::run_ranks(ranks, [&](cairn::thread_group::member& me) {
        arch::communicator comm(std::move(me));
        holding from(comm.rank(), 3);
        auto saved = from.dict();
        cairn::save(saved, "c", comm, arch::storage_writer(shelf), arch::save_planner());
    });
    int combinations = 0;
    struct comm_maker {
        arch::communicator operator()(cairn::thread_group& g, cairn::thread_group&, int r) const {
            return arch::communicator(g.rank(r));
        }
    };
    struct plane_maker {
        arch::data_plane operator()(cairn::thread_group&, cairn::thread_group& g, int r) const {
            return arch::data_plane(g.rank(r));
        }
    };
    struct planner_maker {
        arch::load_planner operator()(cairn::thread_group&, cairn::thread_group&, int) const {
            return {};
        }
    };
    struct reader_maker {
        std::shared_ptr<arch::shelf> at;
        auto operator()(cairn::thread_group&, cairn::thread_group&, int) const {
            return arch::storage_reader(at);
        }
    };
    auto const once = [&](auto ordered) {
        ++combinations;
        cairn::thread_group group(ranks), data(ranks);
        std::vector<std::thread> threads;
        std::vector<int> good(ranks, 0);
        for (int r = 0; r < ranks; ++r) {
            auto parts =
                std::apply([&](auto... m) { return std::tuple(m(group, data, r)...); }, ordered);
            threads.emplace_back([&, r, parts = std::move(parts)]() mutable {
                holding to(r, 0);
                auto loaded = to.dict();
                auto const report = std::apply(
                    [&](auto&... p) {
                        return cairn::load(loaded, "c", {.read_once_from = 0}, std::move(p)...);
                    },
                    parts);
                good[static_cast<std::size_t>(r)] =
                    to.is(r, 3) && to.app.told == 1 && report.read_once.once_bytes == 12;
            });
        }
        for (auto& t : threads) t.join();
        for (auto g : good) BOOST_TEST(g == 1);
    };
    in_every_order(once, std::tuple<>(), comm_maker{}, plane_maker{}, planner_maker{},
                   reader_maker{shelf});
    BOOST_TEST(combinations == 24);
}

BOOST_AUTO_TEST_CASE(a_stateful_alone_is_saved_and_loaded_by_parts_without_a_communicator) {
    auto const shelf = std::make_shared<arch::shelf>();
    arch::stateful app({1, 2, 3});
    app.step = 7;
    arch::storage_writer writer(shelf);
    arch::save_planner planner;
    cairn::save(app, "c", writer, planner);
    cairn::save(app, "c", planner, writer);  // lvalues are used where they are, again and again
    arch::stateful other({0, 0, 0});
    cairn::load(other, "c", arch::load_planner(), arch::storage_reader(shelf));
    BOOST_TEST(other.weight().elements()[2] == 3.0f);
    BOOST_TEST(other.step == 7);
    BOOST_TEST(other.asked == 1);
    BOOST_TEST(other.told == 1);
}

BOOST_AUTO_TEST_CASE(asynchronous_verbs_ask_for_no_more) {
    namespace asio = boost::asio;
    auto const shelf = std::make_shared<arch::shelf>();
    cairn::memory_store memory;
    arch::stateful app({1, 2, 3});
    (void)cairn::async_save(app, "c", arch::save_planner(), arch::storage_writer(shelf),
                            asio::use_future)
        .get()
        .wait();
    (void)cairn::async_save(app, "c", arch::object_store(memory), asio::use_future).get().wait();
    for (bool in_store : {false, true}) {
        arch::stateful other({0, 0, 0});
        if (in_store)
            (void)cairn::async_load(other, "c", arch::object_store(memory), asio::use_future).get();
        else
            (void)cairn::async_load(other, "c", arch::storage_reader(shelf), arch::load_planner(),
                                    asio::use_future)
                .get();
        BOOST_TEST(other.weight().elements()[1] == 2.0f);
        BOOST_TEST(other.told == 1);
    }
}

BOOST_AUTO_TEST_SUITE_END()
