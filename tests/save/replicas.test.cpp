// SPDX-License-Identifier: Apache-2.0
// Ranks that hold the same part of a tensor are held to its being the same.
#include <cairn/cairn.hpp>
#include <cairn/comm/thread_group.hpp>
#include <cairn/save/detail/replica_hash.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(replicas)

namespace {

using cairn::box;
using cairn::replica_policy;
using cairn::detail::replica_sample;
using member = cairn::thread_group::member;

bool has(const std::string& s, const std::string& part) {
    return s.find(part) != s.npos;
}

struct outcome {
    std::vector<std::string> warnings{};
    std::optional<cairn::error> failed{};
};
/// Saves what each rank shows; what the coordinator and, of a failure, every rank was told.
outcome save(int ranks, cairn::memory_store& store, const cairn::save_options& o,
             const std::function<cairn::state_dict(int)>& state) {
    outcome out;
    int failures = 0;
    std::mutex m;
    cairn::run_ranks(ranks, [&](member& me) {
        try {
            auto const report = cairn::save(state(me.rank()), "c", o, me, store);
            std::lock_guard const lock(m);
            if (me.rank() == o.coordinator) out.warnings = report.warnings;
        } catch (const cairn::error& e) {
            std::lock_guard const lock(m);
            ++failures;
            out.failed = e;
        }
    });
    BOOST_TEST((failures == 0 || failures == ranks));
    return out;
}
/// A replica of 10 000 numbers on each rank, those of `odd` ranks changed by `change`.
outcome save_replicas(int ranks, cairn::memory_store& store, const cairn::save_options& o,
                      const std::set<int>& odd,
                      const std::function<void(std::vector<float>&)>& change) {
    std::vector<std::vector<float>> w(static_cast<std::size_t>(ranks));
    for (int r = 0; r < ranks; ++r) {
        auto& mine = w[static_cast<std::size_t>(r)];
        mine.resize(10'000);
        for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = static_cast<float>(i);
        if (odd.count(r) != 0) change(mine);
    }
    return save(ranks, store, o, [&](int r) {
        return cairn::state_dict{{"net.w", std::ref(w[static_cast<std::size_t>(r)])}};
    });
}
void everywhere(std::vector<float>& w) {
    for (auto& x : w) x += 1;
}
cairn::save_options with(replica_policy p) {
    cairn::save_options o;
    o.replicas = p;
    return o;
}

}  // namespace

BOOST_AUTO_TEST_CASE(replicas_that_are_alike_are_not_mentioned) {
    for (auto p : {replica_policy::trust, replica_policy::sampled, replica_policy::verify}) {
        cairn::memory_store store;
        auto const out = save_replicas(3, store, with(p), {}, everywhere);
        BOOST_TEST(!out.failed);
        BOOST_TEST(out.warnings.empty());
    }
}

BOOST_AUTO_TEST_CASE(replicas_that_differ_are_a_warning_with_tensor_and_ranks) {
    for (int coordinator : {0, 2}) {
        cairn::memory_store store;
        cairn::save_options o;  // as it comes
        o.coordinator = coordinator;
        auto const out = save_replicas(4, store, o, {1}, everywhere);
        BOOST_TEST(!out.failed);
        BOOST_TEST_REQUIRE(out.warnings.size() == 1u);
        BOOST_TEST(has(out.warnings[0], "'net.w'"), out.warnings[0]);
        BOOST_TEST(has(out.warnings[0], "on rank 1, other content on ranks 0, 2-3"),
                   out.warnings[0]);
    }
    cairn::memory_store store;
    BOOST_TEST(
        save_replicas(4, store, with(replica_policy::trust), {1}, everywhere).warnings.empty());
}

BOOST_AUTO_TEST_CASE(verified_replicas_that_differ_are_refused) {
    for (std::size_t at : {std::size_t{0}, std::size_t{5'000}, std::size_t{9'999}}) {
        cairn::memory_store store;
        auto const before = save_replicas(3, store, with(replica_policy::verify), {}, everywhere);
        BOOST_TEST(!before.failed);
        auto const files = store.list().size();
        auto const out = save_replicas(3, store, with(replica_policy::verify), {0, 2},
                                       [at](std::vector<float>& w) { w[at] = -1; });
        BOOST_TEST_REQUIRE(out.failed.has_value());
        BOOST_TEST((out.failed->code() == cairn::make_error_code(cairn::errc::replicas_differ)));
        std::string const text = out.failed->what();
        BOOST_TEST(has(text, "'net.w'"), text);
        BOOST_TEST(has(text, "on rank 1, other content on ranks 0, 2"), text);
        BOOST_TEST(store.list().size() == files);
        std::vector<float> w(10'000);
        cairn::load(cairn::state_dict{{"net.w", w}}, "c", store);
        BOOST_TEST(w[at] == static_cast<float>(at));
    }
}

BOOST_AUTO_TEST_CASE(replicas_are_treated_as_each_tensor_wants) {
    std::vector<float> same(100, 1.0f);
    auto const state = [&](int rank) {
        cairn::state_dict d{{"same", std::ref(same)}};
        for (auto const* name : {"noise", "weight"})
            d[name] = std::vector<float>(100, static_cast<float>(rank));
        return d;
    };
    cairn::memory_store store;
    cairn::save_options o;
    o.replicas_of = [](std::string_view fqn) {
        return fqn == "noise" ? replica_policy::trust : replica_policy::sampled;
    };
    auto const some = save(2, store, o, state);
    BOOST_TEST_REQUIRE(some.warnings.size() == 1u);
    BOOST_TEST(has(some.warnings[0], "'weight'"), some.warnings[0]);
    o.replicas_of = [](std::string_view fqn) {
        return fqn == "noise" ? replica_policy::trust : replica_policy::verify;
    };
    BOOST_TEST(save(2, store, o, state).failed.has_value());
}

/// Shards that are replicated are compared with their own replicas, whatever the layout in memory.
BOOST_AUTO_TEST_CASE(replicas_of_shards_are_compared_in_any_layout) {
    constexpr std::int64_t n = 64;
    auto const run = [](replica_policy p, int odd) {
        std::vector<std::vector<float>> memory(4, std::vector<float>(n * n / 2));
        cairn::memory_store store;
        return save(4, store, with(p), [&](int rank) {
            // Ranks 0 and 2 hold the upper half, 1 and 3 the lower one; 2 and 3 column by column.
            std::int64_t const first = rank % 2 * n / 2;
            cairn::index_vector const strides =
                rank < 2 ? cairn::index_vector{n, 1} : cairn::index_vector{1, n / 2};
            auto& mine = memory[static_cast<std::size_t>(rank)];
            for (std::int64_t i = 0; i < n / 2; ++i)
                for (std::int64_t k = 0; k < n; ++k)
                    mine[static_cast<std::size_t>(i * strides[0] + k * strides[1])] =
                        static_cast<float>((first + i) * n + k) + (rank == odd ? 1.0f : 0.0f);
            cairn::sharded_view s{{n, n}, cairn::dtype::f32, {}};
            s.shards.emplace_back(box({first, 0}, {n / 2, n}),
                                  cairn::tensor_view(cairn::dtype::f32, {n / 2, n}, strides,
                                                     reinterpret_cast<std::byte*>(mine.data())));
            return cairn::state_dict{{"w", s}};
        });
    };
    for (auto p : {replica_policy::sampled, replica_policy::verify}) {
        auto const good = run(p, -1);
        BOOST_TEST(!good.failed);
        BOOST_TEST(good.warnings.empty());
        auto const bad = run(p, 3);
        BOOST_TEST(bad.failed.has_value() == (p == replica_policy::verify));
        auto const text = bad.failed ? std::string(bad.failed->what()) : bad.warnings.at(0);
        BOOST_TEST(has(text, "on rank 3, other content on rank 1"), text);
    }
}

/// Hybrid sharding: rows over one dimension of a mesh, the same rows along the other.
BOOST_AUTO_TEST_CASE(replicas_of_hybrid_shards_are_compared_along_the_mesh) {
    constexpr std::int64_t columns = 3'000;
    auto const run = [](replica_policy p, int odd) {
        std::vector<std::vector<float>> memory(6);
        cairn::memory_store store;
        return save(6, store, with(p), [&](int rank) {
            auto& mine = memory[static_cast<std::size_t>(rank)];
            mine.assign(2 * columns, static_cast<float>(rank % 3 + (rank == odd ? 100 : 0)));
            return cairn::state_dict{
                {"w", cairn::shard_by_mesh(
                          cairn::tensor_view(cairn::dtype::f32, {2, columns}, mine.data()),
                          {6, columns}, cairn::device_mesh::grid({2, 3}),
                          {cairn::replicate{}, cairn::shard_along{0}}, rank)}};
        });
    };
    for (auto p : {replica_policy::sampled, replica_policy::verify}) {
        auto const good = run(p, -1);
        BOOST_TEST(!good.failed);
        BOOST_TEST(good.warnings.empty());
        for (int odd : {0, 5}) {
            auto const bad = run(p, odd);
            BOOST_TEST(bad.failed.has_value() == (p == replica_policy::verify));
            auto const text = bad.failed ? std::string(bad.failed->what()) : bad.warnings.at(0);
            BOOST_TEST(has(text, odd == 0 ? "on rank 3, other content on rank 0"
                                          : "on rank 5, other content on rank 2"),
                       text);
            BOOST_TEST(has(text, odd == 0 ? "[0:2, 0:3000]" : "[4:6, 0:3000]"), text);
        }
    }
}

/// One element of many blocks, wherever it is.
BOOST_AUTO_TEST_CASE(verified_replicas_are_compared_to_the_last_element) {
    constexpr std::size_t n = 100'000;  // of 4 bytes: six blocks of 64 KiB and a part of one
    for (std::size_t at : {std::size_t{0}, std::size_t{16'383}, std::size_t{50'000}, n - 1}) {
        cairn::memory_store store;
        auto const out = save(2, store, with(replica_policy::verify), [&](int rank) {
            std::vector<float> w(n, 0.0f);
            if (rank == 1) w[at] = -0.0f;  // equal, but not the same content
            return cairn::state_dict{{"w", std::move(w)}};
        });
        BOOST_TEST(out.failed.has_value(), "element " << at);
    }
}

/// A tensor without dimensions, one of a single element, and two names of one weight.
BOOST_AUTO_TEST_CASE(replicas_that_are_small_or_tied_are_compared_too) {
    std::vector<float> numbers(4), tied[4];
    cairn::memory_store store;
    auto const out = save(4, store, {}, [&](int rank) {
        auto const r = static_cast<std::size_t>(rank);
        numbers[r] = rank == 2 ? 2.0f : 1.0f;
        tied[r].assign(5'000, rank < 2 ? 3.0f : 4.0f);
        cairn::tensor_view const none(cairn::dtype::f32, {}, &numbers[r]);
        cairn::tensor_view const one(cairn::dtype::f32, {1}, &numbers[r]);
        return cairn::state_dict{
            {"a", std::ref(tied[r])}, {"b", std::ref(tied[r])}, {"none", none}, {"one", one}};
    });
    BOOST_TEST(!out.failed);
    BOOST_TEST_REQUIRE(out.warnings.size() == 4u);
    for (std::size_t k = 0; k < 4; ++k) {
        auto const* const name = std::array{"'a'", "'b'", "'none'", "'one'"}[k];
        auto const* const who = k < 2 ? "on ranks 2-3, other content on ranks 0-1"
                                      : "on rank 2, other content on ranks 0-1, 3";
        BOOST_TEST(has(out.warnings[k], name), out.warnings[k]);
        BOOST_TEST(has(out.warnings[k], who), out.warnings[k]);
    }
}

BOOST_AUTO_TEST_CASE(a_warning_of_replicas_that_all_differ_names_a_few_sides) {
    cairn::memory_store store;
    auto const out = save(6, store, {}, [](int rank) {
        return cairn::state_dict{{"w", std::vector<float>(10, static_cast<float>(rank))}};
    });
    BOOST_TEST_REQUIRE(out.warnings.size() == 1u);
    BOOST_TEST(has(out.warnings[0],
                   "on rank 5, other content on rank 4, other content on rank 3, "
                   "other content on rank 2, ..."),
               out.warnings[0]);
}

/// What one tensor is to be goes before what all are to be, in both directions; the coordinator's
/// word counts.
BOOST_AUTO_TEST_CASE(replicas_are_treated_as_the_coordinator_wants) {
    auto const run = [](const cairn::save_options& coordinators,
                        const cairn::save_options& others) {
        bool failed = false;
        std::vector<std::string> warnings;
        cairn::memory_store store;
        std::mutex m;
        cairn::run_ranks(3, [&](member& me) {
            cairn::state_dict const d{{"w", std::vector<float>(10, me.rank() == 2 ? 1.0f : 0.0f)}};
            try {
                auto const report =
                    cairn::save(d, "c", me.rank() == 0 ? coordinators : others, me, store);
                std::lock_guard const lock(m);
                if (me.rank() == 0) warnings = report.warnings;
            } catch (const cairn::error&) {
                std::lock_guard const lock(m);
                failed = true;
            }
        });
        return std::pair(failed, warnings.size());
    };
    auto const trust = with(replica_policy::trust), sampled = with(replica_policy::sampled),
               verify = with(replica_policy::verify);
    BOOST_TEST((run(trust, verify) == std::pair(false, std::size_t{0})));
    BOOST_TEST((run(sampled, verify) == std::pair(false, std::size_t{1})));
    BOOST_TEST((run(verify, trust) == std::pair(true, std::size_t{0})));
    for (auto all : {trust, sampled, verify}) {
        all.replicas_of = [](std::string_view) { return replica_policy::trust; };
        BOOST_TEST((run(all, verify) == std::pair(false, std::size_t{0})));
        all.replicas_of = [](std::string_view) { return replica_policy::sampled; };
        BOOST_TEST((run(all, verify) == std::pair(false, std::size_t{1})));
        all.replicas_of = [](std::string_view) { return replica_policy::verify; };
        BOOST_TEST((run(all, trust) == std::pair(true, std::size_t{0})));
    }
}

/// A planner may bring what the host cannot read; its memory is left alone.
BOOST_AUTO_TEST_CASE(replicas_that_a_planner_brings_from_a_device_are_not_read) {
    struct staging_planner {
        void set_up_save(const cairn::flat_state& s, int rank, bool coordinator) {
            staged = s;
            auto& v = staged.at(0).tensor()->shards.at(0).view;
            v = cairn::tensor_view(cairn::dtype::f32, {8}, here.data());
            usual.set_up_save(staged, rank, coordinator);
        }
        cairn::save_plan create_local_save_plan() { return usual.create_local_save_plan(); }
        auto create_global_save_plan(std::vector<cairn::save_plan> all) {
            return usual.create_global_save_plan(std::move(all));
        }
        cairn::save_plan finish_save_plan(cairn::save_plan p) { return p; }
        cairn::item_data resolve_data(const cairn::write_item& i) { return usual.resolve_data(i); }

        std::vector<float> here = std::vector<float>(8, 5.0f);
        cairn::flat_state staged{};
        cairn::default_planner usual{};
    };
    cairn::memory_store store;
    cairn::run_ranks(3, [&](member& me) {
        // Rank 0 has other content where the host can read it: compared with nothing.
        std::vector<float> host(8, 6.0f);
        cairn::tensor_view local(cairn::dtype::f32, {8}, host.data());
        if (me.rank() != 0) {
            local.data = reinterpret_cast<std::byte*>(std::uintptr_t{4096});
            local.device.kind = cairn::memory_kind::cuda;
        }
        cairn::sharded_view w{{8}, cairn::dtype::f32, {}};
        w.shards.emplace_back(box::whole({8}), local);
        auto const report = cairn::save(cairn::state_dict{{"w", w}}, "c",
                                        with(replica_policy::verify), me, store, staging_planner());
        BOOST_TEST(report.warnings.empty());
    });
    std::vector<float> w(8);
    cairn::load(cairn::state_dict{{"w", w}}, "c", store);
    BOOST_TEST(w[7] == 5.0f);
}

/// Another save looks at other blocks: what is always overlooked does not exist.
BOOST_AUTO_TEST_CASE(samples_reach_every_block_in_time_and_few_each_time) {
    auto const where = box::whole({1'000, 300});
    constexpr std::uint64_t bytes = 1'200'000, blocks = (bytes + 1023) / 1024;
    for (std::uint64_t holders : {2u, 8u, 1000u}) {
        std::vector<bool> seen(blocks, false);
        for (int save = 0; save < 40'000; ++save) {
            auto const s =
                replica_sample::some("save " + std::to_string(save), "w", where, bytes, holders);
            std::uint64_t n = 0;
            for (auto b = s.first; b < blocks; b += s.stride, ++n) seen[b] = true;
            BOOST_REQUIRE(n >= 1u);
            BOOST_REQUIRE(n <= blocks / (64 * holders) + 1);
            if (save < 100) {
                auto const again = replica_sample::some("save " + std::to_string(save), "w", where,
                                                        bytes, holders);
                BOOST_REQUIRE(again.first == s.first);
            }
        }
        BOOST_TEST(std::count(seen.begin(), seen.end(), false) == 0);
    }
}

/// One number differs: some save says so.
BOOST_AUTO_TEST_CASE(replicas_of_which_a_little_differs_are_found_in_time) {
    cairn::memory_store store;
    int found = 0;
    for (int save = 0; save < 400 && found == 0; ++save)
        found += !save_replicas(2, store, {}, {1}, [](auto& w) { w[4321] = -1; }).warnings.empty();
    BOOST_TEST(found == 1);
}

BOOST_AUTO_TEST_CASE(a_few_of_very_many_tensors_that_differ_are_named) {
    cairn::memory_store store;
    auto const out = save(2, store, {}, [](int rank) {
        cairn::state_dict d;
        for (int i = 0; i < 100; ++i)
            d["w" + std::to_string(i)] = std::vector<float>(10, static_cast<float>(rank));
        return d;
    });
    BOOST_TEST_REQUIRE(out.warnings.size() == 17u);
    BOOST_TEST(has(out.warnings.back(), "84 more"), out.warnings.back());
}

/// Values, own tensors, tied weights and tensors of nothing have nothing to compare, or the same.
BOOST_AUTO_TEST_CASE(what_has_no_replicas_is_left_alone) {
    cairn::memory_store store;
    std::vector<float> tied(5'000, 2.0f);
    auto const out = save(3, store, with(replica_policy::verify), [&](int rank) {
        cairn::state_dict d{{"a", std::ref(tied)}, {"b", std::ref(tied)}, {"step", 7}};
        d["own"] = cairn::per_rank(cairn::value(rank));
        d["nothing"] = std::vector<float>();
        return d;
    });
    BOOST_TEST(!out.failed, (out.failed ? out.failed->what() : ""));
    BOOST_TEST(out.warnings.empty());
}

BOOST_AUTO_TEST_SUITE_END()
