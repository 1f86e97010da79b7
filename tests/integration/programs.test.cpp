// SPDX-License-Identifier: Apache-2.0
// Ranks that run different programs: stages of a pipeline, ranks with nothing, submeshes, claims
// that contradict each other. Over TCP, where nothing is shared by accident.
#include "support/tcp_ranks.hpp"

#include <cairn/async_save.hpp>
#include <cairn/comm/thread_group.hpp>
#include <cairn/load.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>
#include <cairn/tensor/mesh.hpp>
#include <cairn/tensor/sharded_tensor.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>

#include <functional>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(programs)

using cairn::errc;
using cairn::tcp_group;
using support::run_tcp_ranks;
using support::try_tcp_ranks;

namespace {

cairn::tcp_options const options{};

std::vector<float> filled(std::size_t n, float v) {
    return std::vector<float>(n, v);
}

/// What each rank was told; "" where all went well.
std::vector<std::string> told(int n, const std::function<void(tcp_group&)>& f) {
    std::vector<std::string> out;
    for (auto const& e : try_tcp_ranks(n, options, f)) {
        out.emplace_back();
        if (!e) continue;
        try {
            std::rethrow_exception(e);
        } catch (const std::exception& x) {
            out.back() = x.what();
        }
    }
    return out;
}
bool contains(const std::string& all, const std::string& part) {
    return all.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(stages_of_a_pipeline_have_keys_of_their_own) {
    cairn::memory_store store;
    auto const name = [](int stage) { return "stage." + std::to_string(stage) + ".weight"; };
    run_tcp_ranks(4, options, [&](tcp_group& g) {
        auto w = filled(100, static_cast<float>(g.rank()));
        cairn::state_dict sd{{"epoch", 3}};
        if (g.rank() != 2) sd[name(g.rank())] = cairn::node(w);  // rank 2 has nothing of its own
        auto s = store;
        cairn::save(sd, "c", g, s);
    });
    // One process has all stages; three have them another way round.
    auto s = store;
    std::vector<std::vector<float>> all(4, filled(100, -1));
    int epoch = 0;
    cairn::state_dict one{{"epoch", std::ref(epoch)}};
    for (int stage : {0, 1, 3})
        one[name(stage)] = cairn::node(all[static_cast<std::size_t>(stage)]);
    cairn::load(one, "c", s);
    for (std::size_t stage : {0u, 1u, 3u})
        BOOST_TEST((all[stage] == filled(100, static_cast<float>(stage))));
    BOOST_TEST(epoch == 3);
    run_tcp_ranks(3, options, [&](tcp_group& g) {
        std::vector<float> w = filled(100, -1);
        int const stage = g.rank() == 0 ? 3 : g.rank() - 1;
        cairn::state_dict sd{{name(stage), w}};
        auto mine = store;
        cairn::load(sd, "c", g, mine);
        if (w != filled(100, static_cast<float>(stage)))
            throw std::runtime_error("wrong on rank " + std::to_string(g.rank()));
    });
}

BOOST_AUTO_TEST_CASE(ranks_without_anything_take_part) {
    cairn::memory_store store;
    run_tcp_ranks(3, options, [&](tcp_group& g) {
        std::vector<float> w = filled(10, 7);
        cairn::state_dict sd;
        if (g.rank() == 1) sd["w"] = cairn::node(w);
        auto s = store;
        cairn::save(sd, "c", g, s);
    });
    run_tcp_ranks(3, options, [&](tcp_group& g) {
        std::vector<float> w = filled(10, 0);
        cairn::state_dict sd;
        if (g.rank() == 2) sd["w"] = cairn::node(w);
        auto s = store;
        cairn::load(sd, "c", g, s);
        if (g.rank() == 2 && w != filled(10, 7)) throw std::runtime_error("wrong");
    });
}

BOOST_AUTO_TEST_CASE(submeshes_hold_what_is_theirs) {
    // Ranks 0 and 1 shard one tensor, 2 and 3 another, each on a mesh of its own.
    cairn::memory_store store;
    auto const part = [](tcp_group& g, std::vector<float>& memory) {
        bool const low = g.rank() < 2;
        cairn::device_mesh const mesh({2}, low ? std::vector<int>{0, 1} : std::vector<int>{2, 3});
        return cairn::shard_by_mesh(
            cairn::tensor_view(cairn::dtype::float32, {3, 4}, memory.data()), {6, 4}, mesh,
            {cairn::shard_along{0}}, g.rank());
    };
    run_tcp_ranks(4, options, [&](tcp_group& g) {
        auto w = filled(12, static_cast<float>(g.rank()));
        cairn::state_dict sd{{g.rank() < 2 ? "low" : "high", part(g, w)}};
        auto s = store;
        cairn::save(sd, "c", g, s);
    });
    auto low = filled(24, -1), high = filled(24, -1);
    cairn::state_dict sd{{"low", cairn::tensor_view(cairn::dtype::float32, {6, 4}, low.data())},
                         {"high", cairn::tensor_view(cairn::dtype::float32, {6, 4}, high.data())}};
    auto s = store;
    cairn::load(sd, "c", s);
    BOOST_TEST((low[0] == 0.0f && low[12] == 1.0f && high[0] == 2.0f && high[12] == 3.0f));
}

BOOST_AUTO_TEST_CASE(claims_that_contradict_name_both_ranks) {
    cairn::memory_store store;
    struct conflict {
        const char* what;
        std::function<cairn::node(int rank, std::vector<float>& memory)> make;
    };
    auto const view = [](std::vector<float>& m, cairn::index_vector shape) {
        return cairn::tensor_view(cairn::dtype::float32, std::move(shape), m.data());
    };
    std::vector<conflict> const conflicts{
        {"shapes",
         [&](int rank, std::vector<float>& m) {
             return cairn::node(
                 view(m, rank == 2 ? cairn::index_vector{12} : cairn::index_vector{3, 4}));
         }},
        {"dtypes",
         [&](int rank, std::vector<float>& m) {
             auto const t = rank == 2 ? cairn::dtype::int32 : cairn::dtype::float32;
             return cairn::node(cairn::tensor_view(t, {12}, m.data()));
         }},
        {"kinds",
         [&](int rank, std::vector<float>& m) {
             return rank == 2 ? cairn::node(5) : cairn::node(view(m, {12}));
         }},
        {"values that differ",
         [&](int rank, std::vector<float>&) { return cairn::node(rank / 2); }},
        {"boxes that overlap",
         [&](int rank, std::vector<float>& m) {
             // Ranks 1 and 2 both claim row 4.
             static constexpr std::int64_t begin[] = {0, 2, 4}, end[] = {2, 5, 6};
             cairn::box const where({begin[rank], 0}, {end[rank] - begin[rank], 2});
             return cairn::node(cairn::sharded_view{
                 {6, 2}, cairn::dtype::float32, {cairn::shard(where, view(m, where.shape))}});
         }},
    };
    for (auto const& c : conflicts) {
        auto const said = told(3, [&](tcp_group& g) {
            auto memory = filled(12, 1);
            cairn::state_dict sd{{"fine", 1}};
            sd["x"] = c.make(g.rank(), memory);
            auto s = store;
            cairn::save(sd, "conflict", g, s);
        });
        for (auto const& s : said) {
            BOOST_TEST(contains(s, "'x'"), c.what << ": " << s);
            BOOST_TEST(contains(s, "rank 2"), c.what << ": " << s);
            BOOST_TEST((contains(s, "rank 0") || contains(s, "rank 1")), c.what << ": " << s);
        }
        BOOST_TEST(store.at("conflict").list().empty());
    }
}

BOOST_AUTO_TEST_CASE(a_save_in_the_background_can_be_cancelled) {
    cairn::memory_store store;
    boost::asio::io_context io;
    cairn::thread_group group(2);
    auto mine = group.rank(0);
    auto other = group.rank(1);  // never comes
    int step = 1;
    cairn::state_dict sd{{"step", std::ref(step)}};
    boost::asio::cancellation_signal signal;
    std::exception_ptr failure;
    cairn::async_save(
        sd, "c", mine, store,
        boost::asio::bind_cancellation_slot(
            signal.slot(),
            boost::asio::bind_executor(io, [&](std::exception_ptr e, const cairn::pending_save&) {
                failure = std::move(e);
            })));
    boost::asio::post(io, [&] { signal.emit(boost::asio::cancellation_type::terminal); });
    io.run();
    BOOST_REQUIRE(failure);
    BOOST_CHECK_EXCEPTION(std::rethrow_exception(failure), cairn::error, [](const auto& e) {
        return e.code() == cairn::make_error_code(errc::cancelled);
    });
    BOOST_TEST(store.at("c").list().empty());
}

BOOST_AUTO_TEST_SUITE_END()
