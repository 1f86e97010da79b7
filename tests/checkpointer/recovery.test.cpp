// SPDX-License-Identifier: Apache-2.0
// All ranks agree on the newest checkpoint that is whole for each of them.
#include "checkpointed_ranks.hpp"
#include "support/data_files.hpp"
#include "support/meddling_store.hpp"

#include <cairn/activity.hpp>
#include <cairn/checkpointer/detail/recovery.hpp>
#include <cairn/comm/detail/blocking_exchange.hpp>
#include <cairn/comm/detail/erased_communicator.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/read_whole.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(checkpointer_recovery)

using namespace checkpointed_ranks;

namespace {

/// A rank for which a file does not exist, as on a node whose directory is its own.
class blind_store : public support::forwarding_store<cairn::memory_store> {
public:
    blind_store(cairn::memory_store s, std::string hidden, std::string place = {})
        : forwarding_store(std::move(s)), hidden_(std::move(hidden)), place_(std::move(place)) {}
    blind_store at(const std::string& id) const { return {store_.at(id), hidden_, id}; }
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    auto open(std::string_view n) {
        if (!hidden_.empty() && support::is_data_file(place_ + "/" + std::string(n), hidden_))
            throw cairn::error(cairn::errc::not_found, {.file = std::string(n)});
        return store_.open(n);
    }

private:
    std::string hidden_, place_;
};

cairn::latest_options into(notes& n, int rank) {
    return {cairn::verify_level::metadata, false,
            [&n, rank](const std::string& s) { n.add(rank, s); }};
}
/// A state that fails with an error that would be damage if a checkpoint had it.
struct throwing_on_load {
    rank& me;
    cairn::state_dict state_dict() {
        throw cairn::error(cairn::errc::corrupt, {.found = "another file of mine"});
    }
    void load_state_dict(const cairn::state_dict&) {}
};
void save_steps(rank& me, cairn::checkpointer& ckpt, const std::vector<int>& steps) {
    for (int const s : steps) {
        me.train(s);
        (void)ckpt.save_now(s, me);
        (void)ckpt.wait();
    }
}
/// Changes a number of a checkpoint that is all `v`. @return whether the file has one
bool damage(run& r, const std::string& id, const std::string& file, float v) {
    auto place = r.base.at(id);
    auto bytes = cairn::read_whole(place, file);
    auto const number = std::as_bytes(std::span(std::addressof(v), 1));
    auto const at = std::search(bytes.begin(), bytes.end(), number.begin(), number.end());
    if (at == bytes.end()) return false;
    *at ^= std::byte{1};
    place.publish(file, bytes, std::nullopt);
    return true;
}

/// Changes each byte.
void spoil(run& r, const std::string& id, const std::string& file) {
    auto place = r.base.at(id);
    auto bytes = cairn::read_whole(place, file);
    for (auto& b : bytes) b ^= std::byte{1};
    place.publish(file, bytes, std::nullopt);
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_latest_was_committed_last_though_steps_go_back) {
    for (int const n : {1, 3}) {
        run r(n);
        notes saw;
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer({});
            saw.add(me.number, ckpt.latest().value_or("none"));
            BOOST_TEST(!ckpt.load_latest(me).has_value());
            save_steps(me, ckpt, {100, 300, 200});
            saw.add(me.number, ckpt.latest().value_or("none"));
        });
        BOOST_TEST((saw.agreed() == std::vector<std::string>{"none", "step_200"}));
    }
}

BOOST_AUTO_TEST_CASE(a_run_loads_the_latest_and_goes_on) {
    run r(2);
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({.every = cairn::steps(10)});
        save_steps(me, ckpt, {100, 300});
    });
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({.every = cairn::steps(10)});
        auto const loaded = ckpt.load_latest(me);
        BOOST_REQUIRE(loaded.has_value());
        BOOST_TEST(loaded->id == "step_300");
        BOOST_TEST(me.row[0] == 300.0f);
        me.train(40);
        BOOST_TEST(ckpt.maybe_save(40, me).saved);
        (void)ckpt.wait();
        BOOST_TEST(ckpt.latest().value() == "step_40");
    });
}

/// Every other rank sees it whole.
BOOST_AUTO_TEST_CASE(the_latest_is_whole_for_every_rank) {
    for (int const blind : {0, 1, 2}) {
        run r(3);
        notes saw, warned;
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer({});
            save_steps(me, ckpt, {1, 2, 3});
        });
        r.on_ranks([&](rank& me) {
            blind_store store(r.base, me.number == blind ? "step_3/__1_0" : "");
            cairn::checkpointer ckpt(me.member, store);
            saw.add(me.number, ckpt.latest(into(warned, 0)).value_or("none"));
        });
        BOOST_TEST((saw.agreed() == std::vector<std::string>{"step_2"}));
        auto const said = warned.agreed();
        BOOST_REQUIRE(said.size() == 1u);
        BOOST_TEST(has(said[0], "step_3"), said[0]);
        BOOST_TEST(has(said[0], "on rank " + std::to_string(blind)), said[0]);
        BOOST_TEST(has(said[0], "__1_0."), said[0]);
    }
}

/// A rank that sees less than the others shows nothing about the checkpoints.
BOOST_AUTO_TEST_CASE(the_view_of_one_rank_puts_nothing_aside) {
    for (int const blind : {0, 1}) {
        run r(2);
        notes saw;
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer({});
            save_steps(me, ckpt, {1});
        });
        r.on_ranks([&](rank& me) {
            blind_store store(r.base, me.number == blind ? "step_1/__1_0" : "");
            cairn::checkpointer ckpt(me.member, store);
            notes ignored;
            auto options = into(ignored, 0);
            options.quarantine = true;
            try {
                saw.add(me.number, ckpt.latest(options).value_or("none"));
            } catch (const cairn::error& e) {
                saw.add(me.number, e.what());
            }
        });
        BOOST_REQUIRE(saw.agreed().size() == 1u);
        BOOST_TEST(has(saw.agreed()[0], "none of 1"), saw.agreed()[0]);
        auto place = r.base.at("step_1");
        BOOST_TEST(!place.tag(".metadata").text.empty());
    }
}

/// A load tells as one failure what several ranks miss.
BOOST_AUTO_TEST_CASE(what_all_ranks_miss_in_a_load_is_put_aside) {
    for (bool const by_all : {false, true}) {
        run r(2);
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer({});
            save_steps(me, ckpt, {1});
        });
        notes ignored;
        r.on_ranks([&](rank& me) {
            auto options = into(ignored, 0);
            options.quarantine = true;
            cairn::detail::communicator_ref<cairn::thread_group::member> group(me.member);
            cairn::detail::blocking_exchange ranks(group, 0, std::chrono::minutes(1));
            cairn::detail::recovery search(ranks, {cairn::any_store(r.base)}, options,
                                           std::make_shared<cairn::activity>());
            auto const found = search.next();
            BOOST_REQUIRE(found.has_value());
            auto place = r.base.at("step_1");
            if (me.number == 0) place.remove(support::data_file(place, "__0_0"));
            me.meet();
            auto why =
                cairn::error(cairn::errc::not_found, {.rank = 1, .file = "__0_0"}).as_failure(1);
            why.ranks = {{by_all ? 0 : 1, 1}};
            std::vector<cairn::rank_failure> all{why};
            BOOST_TEST(!search.loaded(
                *found, std::make_exception_ptr(cairn::error(std::move(all), false))));
        });
        auto place = r.base.at("step_1");
        BOOST_TEST(place.tag(".metadata").text.empty() == by_all);
        BOOST_TEST(place.tag(".metadata.quarantined").text.empty() == !by_all);
    }
}

/// Each has a mount of its own to repair.
BOOST_AUTO_TEST_CASE(every_rank_that_cannot_read_the_latest_is_named) {
    run r(3);
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({});
        save_steps(me, ckpt, {1});
    });
    r.on_ranks([&](rank& me) {
        support::meddlers m;
        m.before_open = [&](const std::string& path) {
            if (me.number == 0 || path.find("__0_0") == path.npos) return;
            throw cairn::error(cairn::errc::io,
                               {.found = "no answer on host " + std::to_string(me.number)});
        };
        cairn::checkpointer ckpt(me.member, support::meddling_store(r.base, m));
        BOOST_CHECK_EXCEPTION((void)ckpt.load_latest(me), cairn::error, [](const cairn::error& e) {
            auto const& all = e.failures();
            return all.size() == 2 && has(all[0].text, "on host 1") &&
                   has(all[1].text, "on host 2");
        });
    });
}

/// The sizes are right: it is found while it is read.
BOOST_AUTO_TEST_CASE(what_turns_out_to_be_damaged_is_skipped_by_load) {
    for (int const n : {1, 2}) {
        run r(n);
        notes saw, warned;
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer({});
            save_steps(me, ckpt, {1, 2, 3});
        });
        BOOST_REQUIRE(damage(r, "step_3", support::data_file(r.base.at("step_3"), "__0_0"), 3.0f));
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer({});
            me.train(77);
            auto const loaded = ckpt.load_latest(me, into(warned, 0));
            BOOST_REQUIRE(loaded.has_value());
            saw.add(me.number, loaded->id);
            BOOST_TEST(me.row[0] == 2.0f);
        });
        BOOST_TEST((saw.agreed() == std::vector<std::string>{"step_2"}));
        BOOST_REQUIRE(warned.agreed().size() == 1u);
        BOOST_TEST(has(warned.agreed()[0], "step_3"));
    }
}

BOOST_AUTO_TEST_CASE(a_state_that_does_not_fit_is_no_damage) {
    run r(2);
    notes saw;
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({});
        save_steps(me, ckpt, {1, 2});
        me.more = {1.0f};
        try {
            (void)ckpt.load_latest(me);
            saw.add(me.number, "loaded");
        } catch (const cairn::error& e) {
            saw.add(me.number, e.code().message());
        }
        me.more.clear();
        BOOST_TEST(ckpt.load_latest(me)->id == "step_2");
    });
    BOOST_REQUIRE(saw.agreed().size() == 1u);
    BOOST_TEST(saw.agreed()[0] == cairn::make_error_code(cairn::errc::missing_key).message());
}

namespace {

/// A network whose number of layers is stored with it.
struct network {
    rank& me;
    std::int64_t layers = 0;
    std::vector<std::vector<float>> w{};

    void resize(std::int64_t n) {
        layers = n;
        w.assign(static_cast<std::size_t>(n), std::vector<float>(3, 0.0f));
    }
    cairn::state_dict state() {
        auto d = me.state_dict();
        d["layers"] = std::ref(layers);
        for (std::size_t i = 0; i < w.size(); ++i) d["w" + std::to_string(i)] = w[i];
        return d;
    }
};
/// Saves step 1 with one layer, step 2 with two, ….
void save_networks(run& r, int n) {
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({});
        for (int step = 1; step <= n; ++step) {
            network net{me};
            net.resize(step);
            for (auto& layer : net.w) layer.assign(3, static_cast<float>(step));
            auto state = net.state();
            (void)ckpt.save_now(step, state);
            (void)ckpt.wait();
        }
    });
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_function_makes_the_state_from_what_is_stored) {
    for (int const n : {1, 3}) {
        run r(n);
        save_networks(r, 2);
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer({});
            network net{me};
            auto const loaded = ckpt.load_latest([&](const cairn::stored_checkpoint& c) {
                BOOST_TEST(c.id() == "step_2");
                BOOST_REQUIRE(c.content().tensor("w1") != nullptr);
                BOOST_TEST((c.content().tensor("w1")->shape == cairn::index_vector{3}));
                BOOST_TEST(c.content().tensor("w2") == nullptr);
                net.resize(c.value<std::int64_t>("layers"));
                return net.state();
            });
            BOOST_REQUIRE(loaded.has_value());
            BOOST_TEST(loaded->id == "step_2");
            BOOST_TEST(net.layers == 2);
            BOOST_TEST(net.w[1][2] == 2.0f);
            // A Stateful of the caller's, by reference.
            BOOST_TEST(ckpt.load_latest([&](auto const&) -> rank& { return me; })->id == "step_2");
            BOOST_TEST(!cairn::checkpointer(me.member, cairn::memory_store())
                            .load_latest([&](const cairn::stored_checkpoint&) {
                                BOOST_TEST(false);
                                return net.state();
                            })
                            .has_value());
        });
    }
}

/// In a tensor while it is loaded, or in what the function reads: also if the function goes on.
BOOST_AUTO_TEST_CASE(a_function_is_asked_again_for_the_next_older_checkpoint) {
    enum { in_a_tensor, in_a_value, in_a_value_and_caught, kinds };
    for (int kind = 0; kind < kinds; ++kind) {
        run r(2);
        notes saw, warned;
        save_networks(r, 2);
        if (kind == in_a_tensor) {
            int changed = 0;
            for (auto const& o : r.base.at("step_2").list())
                if (o.name.ends_with(".distcp")) changed += damage(r, "step_2", o.name, 2.0f);
            BOOST_REQUIRE(changed > 0);
        }
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer({});
            network net{me};
            auto const loaded = ckpt.load_latest(
                [&](const cairn::stored_checkpoint& c) {
                    saw.add(me.number, c.id());
                    if (kind != in_a_tensor && me.number == 1 && c.id() == "step_2")
                        for (auto const& o : r.base.at("step_2").list())
                            if (o.name.ends_with(".distcp")) spoil(r, "step_2", o.name);
                    try {
                        net.resize(c.value<std::int64_t>("layers"));
                    } catch (const cairn::error&) {
                        if (kind != in_a_value_and_caught) throw;
                        net.resize(1);
                    }
                    return net.state();
                },
                into(warned, 0));
            BOOST_REQUIRE(loaded.has_value());
            BOOST_TEST(loaded->id == "step_1");
            BOOST_TEST(net.layers == 1);
            BOOST_TEST(net.w[0][0] == 1.0f);
        });
        BOOST_TEST((saw.agreed() == std::vector<std::string>{"step_2", "step_1"}));
        BOOST_TEST(warned.agreed().size() == 1u);
    }
}

/// Whatever it is, on whichever rank: the load ends on all, and nothing is skipped or put aside.
BOOST_AUTO_TEST_CASE(what_a_function_throws_is_no_damage) {
    enum { an_error_of_ours, a_number, of_the_state, kinds };
    for (int kind = 0; kind < kinds; ++kind) {
        for (int const bad : {0, 1}) {
            run r(2);
            notes saw, warned;
            save_networks(r, 2);
            r.on_ranks([&](rank& me) {
                auto ckpt = me.checkpointer({});
                auto options = into(warned, 0);
                options.quarantine = true;
                int calls = 0;
                throwing_on_load refuses{me};
                auto const load = [&] {
                    if (kind == of_the_state && me.number == bad)
                        return ckpt.load_latest(refuses, options);
                    if (kind == of_the_state) return ckpt.load_latest(me, options);
                    return ckpt.load_latest(
                        [&](const cairn::stored_checkpoint&) {
                            ++calls;
                            if (me.number == bad && kind == a_number) throw 42;
                            if (me.number == bad)
                                throw cairn::error(cairn::errc::corrupt,
                                                   {.found = "another file of mine"});
                            return me.state_dict();
                        },
                        options);
                };
                try {
                    (void)load();
                    saw.add(me.number, "loaded");
                } catch (const cairn::error& e) {
                    saw.add(me.number, e.what());
                }
                BOOST_TEST(calls == (kind == of_the_state ? 0 : 1));
                BOOST_TEST(ckpt.load_latest(me)->id == "step_2");
            });
            BOOST_REQUIRE(saw.agreed().size() == 1u);
            auto const said = saw.agreed()[0];
            BOOST_TEST(has(said, "rank " + std::to_string(bad)), said);
            BOOST_TEST(has(said, kind == a_number ? "unknown type" : "another file of mine"), said);
            BOOST_TEST(warned.agreed().empty());
        }
    }
}

/// What `latest` has to be agreed on is refused where ranks call different members.
BOOST_AUTO_TEST_CASE(other_calls_of_other_ranks_are_an_error) {
    run r(2);
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({});
        std::string said;
        try {
            if (me.number == 0)
                (void)ckpt.latest();
            else
                (void)ckpt.plan(me);
        } catch (const cairn::error& e) {
            said = e.what();
        }
        BOOST_TEST(has(said, "latest"), said);
        BOOST_TEST(has(said, "plan"), said);
    });
}

BOOST_AUTO_TEST_SUITE_END()
