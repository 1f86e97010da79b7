// SPDX-License-Identifier: Apache-2.0
// The items of a plan are exchanged only where the coordinator's parts look at them.
#include "support/meddling_group.hpp"
#include "support/wrapping_planner.hpp"

#include <cairn/cairn.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(exchanged_plans)

namespace {

constexpr int ranks = 3;
constexpr int tensors = 200;

/// Tensors whose rows are sharded.
struct rows {
    explicit rows(int rank, bool filled) : rank_(rank), all(tensors, std::vector<float>(4)) {
        for (std::size_t i = 0; filled && i < all.size(); ++i)
            std::fill(all[i].begin(), all[i].end(), static_cast<float>(1000 * rank) + float(i));
    }
    cairn::state_dict dict() {
        cairn::state_dict sd;
        for (std::size_t i = 0; i < all.size(); ++i) {
            cairn::tensor_view const mine(cairn::dtype::float32, {1, 4}, all[i].data());
            sd["layer." + std::to_string(i)] = cairn::shard_by_mesh(
                mine, {ranks, 4}, cairn::device_mesh::line(ranks), {cairn::shard_along{0}}, rank_);
        }
        return sd;
    }
    int rank_;
    std::vector<std::vector<float>> all;
};

/// Counts the items that it plans for all.
struct looking_planner : cairn::default_planner {
    std::vector<cairn::load_plan> create_global_load_plan(std::vector<cairn::load_plan> all) {
        for (auto const& p : all) *seen += p.items.size();
        return default_planner::create_global_load_plan(std::move(all));
    }
    std::shared_ptr<std::size_t> seen = std::make_shared<std::size_t>();
};

/// These make new plans, in which nothing is left of what cairn's planner has noted.
struct forgetful_planner : cairn::default_planner {
    cairn::load_plan create_local_load_plan() {
        auto p = default_planner::create_local_load_plan();
        return {std::move(p.items), std::move(p.no_items), std::move(p.storage_data), {}};
    }
};
struct forgetful_reader : cairn::torch_reader {
    using torch_reader::torch_reader;
    cairn::load_plan prepare_local_load_plan(cairn::load_plan p) {
        return {std::move(p.items), std::move(p.no_items), std::move(p.storage_data), {}};
    }
};

/// These answer before they are set up, and not afterwards.
struct early_planner : cairn::default_planner {
    void set_up_load(cairn::flat_state& s, const cairn::metadata& m, int rank, bool coordinator) {
        is_set_up = true;
        default_planner::set_up_load(s, m, rank, coordinator);
    }
    bool items_stay_local() const { return early(); }
    bool needs_memory_spaces() const { return early(); }
    bool early() const {
        if (is_set_up) throw std::logic_error("it is asked when it is set up");
        return true;
    }
    bool is_set_up = false;
};
struct early_reader : cairn::torch_reader {
    using torch_reader::torch_reader;
    void reset(const cairn::checkpoint_id& id) {
        is_reset = true;
        torch_reader::reset(id);
    }
    void set_up_reader(const cairn::metadata& m, const cairn::storage_setup& s) {
        is_reset = false;
        torch_reader::set_up_reader(m, s);
    }
    bool items_stay_local() const {
        if (!is_reset) throw std::logic_error("it is not asked between reset and set_up_reader");
        return true;
    }
    bool is_reset = false;
};

/// Turns all plans around, which is what the ranks must read by.
struct turning_reader : cairn::torch_reader {
    using torch_reader::torch_reader;
    std::vector<cairn::load_plan> prepare_global_load_plan(std::vector<cairn::load_plan> all) {
        for (auto& p : all) {
            seen += p.items.size();
            std::reverse(p.items.begin(), p.items.end());
        }
        return all;
    }
    std::size_t seen = 0;
};

std::size_t most_sent(const std::vector<cairn::message>& all, std::size_t before) {
    for (auto const& m : all) before = std::max(before, m.size());
    return before;
}

/// Calls `on_rank(rank, load)` on each rank, whose parts `load(parts...)` loads with.
/// @return The largest message of the exchange of plans, on the coordinator.
template <class F>
std::size_t largest_plan(F&& on_rank) {
    std::size_t largest = 0;
    auto const told = support::on_ranks_that_stay(ranks, [&](auto& me, int r) {
        support::meddling_group group(me, [&, r](int n, std::vector<cairn::message>& all) {
            if (r == 0 && (n == 1 || n == 2)) largest = most_sent(all, largest);
        });
        rows to(r, false);
        auto sd = to.dict();
        on_rank(r, [&](auto&... parts) { (void)cairn::load(sd, "c", group, parts...); });
        if (to.all != rows(r, true).all) throw std::runtime_error("another state");
    });
    for (auto const& t : told) BOOST_TEST(t.ok(), words(told));
    return largest;
}

cairn::memory_store saved() {
    cairn::memory_store memory;
    cairn::run_ranks(ranks, [&](cairn::thread_group::member& me) {
        rows from(me.rank(), true);
        cairn::save(from.dict(), "c", memory, me);
    });
    return memory;
}

constexpr std::size_t few = 100;

}  // namespace

BOOST_AUTO_TEST_CASE(cairns_own_parts_need_no_plans_of_others) {
    auto memory = saved();
    auto const n = largest_plan([&](int, auto load) { load(memory); });
    BOOST_TEST(n <= few, n << " bytes");
}

BOOST_AUTO_TEST_CASE(a_planner_that_wraps_the_default_one_needs_no_plans_of_others) {
    auto memory = saved();
    auto const n = largest_plan([&](int, auto load) {
        support::wrapping_planner planner;
        load(memory, planner);
        if (planner.items != 0) throw std::runtime_error("items were sent");
    });
    BOOST_TEST(n <= few, n << " bytes");
}

BOOST_AUTO_TEST_CASE(parts_are_asked_whether_items_stay_before_they_are_set_up) {
    auto memory = saved();
    auto const n = largest_plan([&](int, auto load) {
        early_planner planner;
        early_reader reader(memory);
        load(reader, planner);
    });
    BOOST_TEST(n <= few, n << " bytes");
}

BOOST_AUTO_TEST_CASE(a_planner_that_wraps_the_default_one_has_its_tied_weights_compared) {
    cairn::memory_store memory;
    std::vector<float> a(4, 1), b(4, 2);
    auto const view = [](std::vector<float>& v) {
        return cairn::tensor_view(cairn::dtype::float32, {4}, v.data());
    };
    cairn::save(cairn::state_dict{{"a", view(a)}, {"b", view(b)}}, "c", memory);
    cairn::state_dict tied{{"a", view(a)}, {"b", view(a)}};
    support::wrapping_planner planner;
    BOOST_CHECK_EXCEPTION(
        (void)cairn::load(tied, "c", memory, planner), cairn::error, [](auto const& e) {
            return e.failures().front().code == make_error_code(cairn::errc::invalid_state) &&
                   std::string(e.what()).find("the same weight in the state") != std::string::npos;
        });
}

BOOST_AUTO_TEST_CASE(a_planner_on_the_coordinator_gets_all_plans) {
    auto memory = saved();
    std::size_t seen = 0;
    (void)largest_plan([&](int r, auto load) {
        looking_planner planner;
        if (r != 0) return load(memory);
        load(memory, planner);
        seen = *planner.seen;
    });
    BOOST_TEST(seen == std::size_t{ranks} * tensors);
}

BOOST_AUTO_TEST_CASE(a_reader_on_the_coordinator_gets_all_plans) {
    auto memory = saved();
    std::size_t seen = 0;
    (void)largest_plan([&](int r, auto load) {
        if (r != 0) return load(memory);
        turning_reader reader(memory);
        load(reader);
        seen = reader.seen;
    });
    BOOST_TEST(seen == std::size_t{ranks} * tensors);
}

/// What only the plans of all ranks tell.
/// @param load  Called as load(rank, state, options, group): with parts of its own.
template <class F>
void finds_what_nobody_wants(F&& load) {
    auto const told = support::on_ranks_that_stay(ranks, [&](auto& me, int r) {
        rows to(r, false);
        auto sd = to.dict();
        // One key is wanted by one rank only, another one by none.
        cairn::state_dict some;
        for (auto& [key, leaf] : sd)
            if (key != "layer.7" && (key != "layer.9" || r == 1)) some[key] = leaf;
        auto const report = load(r, some, cairn::load_options{}, me);
        if (report.unexpected != std::vector<std::string>{"layer.7"})
            throw std::runtime_error("another report");
        cairn::load_options strict;
        strict.planner.strict = true;
        try {
            (void)load(r, some, strict, me);
        } catch (const cairn::error& e) {
            if (e.code() == make_error_code(cairn::errc::unexpected_key)) return;
        }
        throw std::runtime_error("it is loaded");
    });
    for (auto const& t : told) BOOST_TEST(t.ok(), words(told));
}

BOOST_AUTO_TEST_CASE(keys_that_nobody_wants_are_found_without_items) {
    auto memory = saved();
    finds_what_nobody_wants([&](int, auto& sd, auto const& o, auto& me) {
        return cairn::load(sd, "c", o, me, memory);
    });
}
BOOST_AUTO_TEST_CASE(keys_that_nobody_wants_are_found_by_the_items_of_another_planner) {
    auto memory = saved();
    finds_what_nobody_wants([&](int r, auto& sd, auto const& o, auto& me) {
        forgetful_planner planner;
        return r == 1 ? cairn::load(sd, "c", o, me, memory, planner)
                      : cairn::load(sd, "c", o, me, memory);
    });
}
BOOST_AUTO_TEST_CASE(keys_that_nobody_wants_are_found_by_the_items_of_another_reader) {
    auto memory = saved();
    finds_what_nobody_wants([&](int r, auto& sd, auto const& o, auto& me) {
        forgetful_reader reader(memory);
        return r == 1 ? cairn::load(sd, "c", o, me, reader) : cairn::load(sd, "c", o, me, memory);
    });
}

BOOST_AUTO_TEST_SUITE_END()
