// SPDX-License-Identifier: Apache-2.0
// All ranks agree on the newest checkpoint that is whole for each of them.
#include "checkpointed_ranks.hpp"

#include <cairn/object_store/read_whole.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <memory>
#include <span>

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
        if (place_ + "/" + std::string(n) == hidden_)
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
void save_steps(rank& me, cairn::checkpointer& ckpt, const std::vector<int>& steps) {
    for (int const s : steps) {
        me.train(s);
        (void)ckpt.save_now(s, me);
        (void)ckpt.wait();
    }
}
/// Changes a number of a checkpoint that is all `v`.
void damage(run& r, const std::string& id, const std::string& file, float v) {
    auto place = r.base.at(id);
    auto bytes = cairn::detail::read_whole(place, file);
    auto const number = std::as_bytes(std::span(std::addressof(v), 1));
    auto const at = std::search(bytes.begin(), bytes.end(), number.begin(), number.end());
    BOOST_REQUIRE((at != bytes.end()));
    *at ^= std::byte{1};
    place.publish(file, bytes, std::nullopt);
}

}  // namespace

BOOST_AUTO_TEST_CASE(finds_what_was_committed_last_though_steps_go_back) {
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

BOOST_AUTO_TEST_CASE(loads_it_and_goes_on) {
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
BOOST_AUTO_TEST_CASE(is_whole_for_every_rank) {
    for (int const blind : {0, 1, 2}) {
        run r(3);
        notes saw, warned;
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer({});
            save_steps(me, ckpt, {1, 2, 3});
        });
        r.on_ranks([&](rank& me) {
            blind_store store(r.base, me.number == blind ? "step_3/__1_0.distcp" : "");
            cairn::checkpointer ckpt(me.member, store);
            saw.add(me.number, ckpt.latest(into(warned, 0)).value_or("none"));
        });
        BOOST_TEST((saw.agreed() == std::vector<std::string>{"step_2"}));
        auto const said = warned.agreed();
        BOOST_REQUIRE(said.size() == 1u);
        BOOST_TEST(has(said[0], "step_3"), said[0]);
        BOOST_TEST(has(said[0], "on rank " + std::to_string(blind)), said[0]);
        BOOST_TEST(has(said[0], "__1_0.distcp"), said[0]);
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
            blind_store store(r.base, me.number == blind ? "step_1/__1_0.distcp" : "");
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

/// The sizes are right: it is found while it is read.
BOOST_AUTO_TEST_CASE(what_turns_out_to_be_damaged_is_skipped_by_load) {
    for (int const n : {1, 2}) {
        run r(n);
        notes saw, warned;
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer({});
            save_steps(me, ckpt, {1, 2, 3});
        });
        damage(r, "step_3", "__0_0.distcp", 3.0f);
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
