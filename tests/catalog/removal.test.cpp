// SPDX-License-Identifier: Apache-2.0
// A process that is killed at any step of a removal leaves the checkpoint whole or absent, all
// others whole, and nothing that the next removal, or cairn gc, does not finish.
#include "saved.hpp"
#include "support/meddling_store.hpp"
#include "support/paused_process.hpp"
#include "support/sanitized.hpp"

#include <cairn/catalog/detail/committed.hpp>
#include <cairn/catalog/detail/removal.hpp>
#include <cairn/catalog/garbage.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/record_owner.hpp>
#include <cairn/storage/detail/save_intent.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <utility>

BOOST_AUTO_TEST_SUITE(catalog_removal)

using namespace catalog;

namespace {

/// As the first save of a run does.
std::vector<std::string> retain(cairn::any_store root, const cairn::retention& keep,
                                const std::string& own = {}) {
    cairn::detail::run_memory run;
    return cairn::detail::retain(std::move(root), keep, run, own);
}
std::string joined(const std::vector<std::string>& lines) {
    std::string all;
    for (auto const& l : lines) all += l + "\n";
    return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_removal_is_finished_after_a_kill_at_any_step) {
    support::failure_points steps(3);
    int killed = 0;
    for (bool by_gc : {false, true}) {
        for (int at = steps.first();; at += steps.stride()) {
            BOOST_TEST_CONTEXT("killed at step " << at << (by_gc ? ", gc" : ", next removal")) {
                place p;
                save_steps(cairn::file_store(p.dir), {1, 2, 3});
                auto const how = support::in_process([&] {
                    support::dying_store<cairn::file_store> mortal(cairn::file_store(p.dir), at);
                    (void)retain(cairn::any_store(mortal), cairn::last(1));
                });
                BOOST_REQUIRE((how != support::ended::badly));
                BOOST_TEST(p.stands(3));
                for (std::int64_t const step : {1, 2})
                    if (fs::exists(p.at(step) / ".metadata")) BOOST_TEST(p.stands(step));
                if (by_gc) {
                    auto const r = cairn::collect_garbage(p.dir.string());
                    BOOST_TEST(r.problems == 0u, joined(r.lines));
                    auto expected = p.names_of({3});
                    for (std::int64_t const step : {1, 2})
                        if (p.stands(step)) expected.merge(p.names_of({step}));
                    BOOST_TEST((p.names() == expected));
                } else {
                    BOOST_TEST(joined(retain(p.store(), cairn::last(1))) == "");
                    BOOST_TEST((p.names() == p.names_of({3})));
                }
                BOOST_TEST(p.stands(3));
                if (how == support::ended::well) break;
                ++killed;
            }
        }
    }
    std::cout << "removals: " << killed << " processes killed\n";
    BOOST_TEST(killed > 20 / steps.stride());
}

/// Under a scheduler that kills and requeues a job, which saves other steps then.
BOOST_AUTO_TEST_CASE(a_run_that_keeps_all_removes_what_a_killed_one_has_left) {
    for (int at = 1;; ++at) {
        BOOST_TEST_CONTEXT("killed at step " << at) {
            place p;
            auto const how = support::in_process([&] {
                save_steps(support::dying_store<cairn::file_store>(cairn::file_store(p.dir), at),
                           {1});
            });
            BOOST_REQUIRE((how != support::ended::badly));
            // What is left beside a checkpoint is the next save's to its place.
            bool const stood = p.stands(1);
            save_steps(cairn::file_store(p.dir), {2});
            BOOST_TEST((stood || p.names() == p.names_of({2})));
            if (how == support::ended::well) break;
        }
    }
}

BOOST_AUTO_TEST_CASE(a_removal_waits_while_this_process_reads) {
    place p;
    save_steps(cairn::file_store(p.dir), {1, 2});
    {
        cairn::torch_reader reader{cairn::file_store()};
        reader.reset(p.at(1).string());
        auto const meta = reader.read_metadata();
        reader.set_up_reader(meta, {});
        BOOST_TEST(joined(retain(p.store(), cairn::last(1))) == "");
        BOOST_TEST(p.stands(1));
        BOOST_TEST((p.names() == p.names_of({1, 2})));
    }
    (void)retain(p.store(), cairn::last(1));
    BOOST_TEST((p.names() == p.names_of({2})));
}

BOOST_AUTO_TEST_CASE(a_removal_waits_for_another_process_that_has_announced_to_read) {
    place p;
    save_steps(cairn::file_store(p.dir), {1, 2});
    auto const id = p.at(1).string();
    {
        support::paused_process const other([&](auto park) {
            cairn::torch_reader reader(cairn::file_store(),
                                       cairn::torch_reader_options{.announce = true});
            reader.reset(id);
            auto const meta = reader.read_metadata();
            reader.set_up_reader(meta, {});
            park({std::byte{1}});
        });
        (void)retain(p.store(), cairn::last(1));
        BOOST_TEST(p.stands(1));
    }
    // Killed while it reads, it leaves its notice.
    BOOST_TEST(p.stands(1));
    BOOST_TEST(p.names().size() == p.names_of({1, 2}).size() + 1);
    (void)retain(p.store(), cairn::last(1));
    BOOST_TEST((p.names() == p.names_of({2})));
}

BOOST_AUTO_TEST_CASE(a_removal_waits_for_readers_of_other_hosts_and_of_newer_versions) {
    for (int const version : {1, 2, 3}) {  // version 1: of nobody, now
        place p;
        save_steps(cairn::file_store(p.dir), {1, 2});
        cairn::detail::wire_writer w;
        w.u8(static_cast<std::uint8_t>(version));
        w.svarint(1);  // began long ago, by its own clock
        cairn::detail::process_identity reader;
        reader.boot = "another host";
        put(w, reader);
        for (int i = 0; i < 3; ++i) w.u8(0);
        w.u32(cairn::format::crc32(w.written()));
        auto const name = ".reading." + std::string(32, 'b');
        cairn::file_store(p.at(1)).publish(name, w.written(), std::nullopt);
        (void)retain(p.store(), cairn::last(1));
        BOOST_TEST(p.stands(1) == (version != 1));
        if (version == 1) continue;
        fs::last_write_time(p.at(1) / name,
                            fs::last_write_time(p.at(1) / name) - std::chrono::hours(25));
        (void)retain(p.store(), cairn::last(1));
        BOOST_TEST(p.stands(1) == (version == 3));
    }
}

/// A job on another host, which may commit a checkpoint that replaces it.
BOOST_AUTO_TEST_CASE(a_removal_waits_while_another_job_saves_in_its_place) {
    place p;
    save_steps(cairn::file_store(p.dir), {1, 2});
    cairn::detail::save_intent intent;
    intent.save_id = std::string(32, 'a');
    intent.owner = cairn::detail::record_owner::this_one();
    intent.owner.process.boot = intent.owner.process.run = "another host";
    intent.names = {"a_0.distcp"};
    auto const name = ".saving." + intent.save_id;
    cairn::file_store(p.at(1)).publish(name, intent.encode(), std::nullopt);
    auto const before = p.names();
    BOOST_TEST(joined(retain(p.store(), cairn::last(1))) == "");
    BOOST_TEST(p.stands(1));
    BOOST_TEST((p.names() == before));
    fs::last_write_time(p.at(1) / name,
                        fs::last_write_time(p.at(1) / name) - std::chrono::hours(25));
    BOOST_TEST(joined(retain(p.store(), cairn::last(1))) == "");
    BOOST_TEST((p.names() == p.names_of({2})));
}

BOOST_AUTO_TEST_CASE(the_checkpoint_of_the_save_that_asks_stays) {
    place p;
    save_steps(cairn::file_store(p.dir), {1, 2});
    auto first = p.store().at("step_1");
    auto const own = cairn::detail::read_commit_record(first).value().save_id;
    (void)retain(p.store(), cairn::last(1), own);
    BOOST_TEST((p.stands(1) && p.stands(2)));
}

BOOST_AUTO_TEST_CASE(copies_and_what_was_renamed_stay) {
    place p;
    save_steps(cairn::file_store(p.dir), {1, 2, 3});
    fs::copy(p.at(3), p.dir / "best_so_far", fs::copy_options::recursive);
    fs::rename(p.at(1), p.dir / "kept_by_hand");
    (void)retain(p.store(), cairn::last(1));
    BOOST_TEST(fs::exists(p.dir / "best_so_far" / ".metadata"));
    BOOST_TEST(fs::exists(p.dir / "kept_by_hand" / ".metadata"));
    BOOST_TEST((!p.stands(2) && p.stands(3)));
}

BOOST_AUTO_TEST_CASE(what_no_checkpointer_has_saved_stays) {
    place p;
    std::vector<float> w(8, 7.0f);
    cairn::state_dict state{{"w", w}};
    cairn::save(state, p.at(7).string());
    fs::create_directories(p.dir / "logs");
    save_steps(cairn::file_store(p.dir), {1, 2});
    std::ofstream(p.at(1) / "notes.txt") << "mine";
    (void)retain(p.store(), cairn::last(1));
    BOOST_TEST(p.stands(7));
    BOOST_TEST(fs::exists(p.dir / "logs"));
    BOOST_TEST(fs::exists(p.at(1) / "notes.txt"));
    BOOST_TEST(!fs::exists(p.at(1) / ".metadata"));
}

/// It may be alive on a host that was cut off, and publish just before the metadata is removed.
BOOST_AUTO_TEST_CASE(a_removal_adopts_the_intent_of_a_save_that_is_presumed_dead) {
    place p;
    save_steps(cairn::file_store(p.dir), {1, 2});
    cairn::detail::save_intent i;
    i.save_id = std::string(32, 'a');
    i.owner = cairn::detail::record_owner::this_one();
    i.owner.process.boot = "another host";
    i.owner.process.run = i.save_id;
    i.names = {"__0_0." + i.save_id + ".distcp"};
    auto const name = ".saving." + i.save_id;
    cairn::file_store there(p.at(1));
    there.publish(name, i.encode(), std::nullopt);
    (void)retain(p.store(), cairn::last(1));
    BOOST_TEST(p.stands(1));
    fs::last_write_time(p.at(1) / name,
                        fs::last_write_time(p.at(1) / name) - std::chrono::hours(25));
    int removed = 0;
    support::meddling_store store(
        cairn::file_store(p.dir),
        {.before_remove = support::at_most(1, "step_1/.metadata", [&](const std::string&) {
             ++removed;
             auto const now = cairn::detail::save_intent::decode(cairn::read_whole(there, name));
             BOOST_TEST(cairn::detail::is_this_process(now.owner.process));
         })});
    BOOST_TEST(joined(retain(cairn::any_store(store), cairn::last(1))) == "");
    BOOST_TEST(removed == 1);
    BOOST_TEST((p.names() == p.names_of({2})));
}

/// A bucket may carry out a request whose answer was lost.
BOOST_AUTO_TEST_CASE(the_intent_of_a_removal_stays_while_its_outcome_is_unknown) {
    for (auto const code : {cairn::errc::outcome_unknown, cairn::errc::io}) {
        place p;
        save_steps(cairn::file_store(p.dir), {1, 2});
        support::meddling_store const store(
            cairn::file_store(p.dir),
            {.before_remove = support::failing(1, "step_1/.metadata", code)});
        (void)retain(cairn::any_store(store), cairn::last(1));
        BOOST_TEST(p.stands(1));
        bool stays = false;
        for (auto const& info : cairn::file_store(p.at(1)).list())
            stays = stays || cairn::detail::is_intent_name(info.name);
        BOOST_TEST(stays == (code == cairn::errc::outcome_unknown));
    }
}

/// As when its process stands still for a day, before or after it has looked at the place.
BOOST_AUTO_TEST_CASE(a_process_that_another_presumed_dead_removes_nothing) {
    for (bool const at_once : {true, false})
        for (bool const forgotten : {true, false}) {
            place p;
            save_steps(cairn::file_store(p.dir), {1, 2});
            cairn::file_store there(p.at(1));
            cairn::detail::save_intent ended;
            ended.save_id = std::string(32, 'a');
            ended.owner = cairn::detail::record_owner::this_one();
            if (!at_once)  // it is read as the place is looked at
                there.publish(".saving." + ended.save_id, ended.encode(), std::nullopt);
            std::string its_name;
            auto const adopt = [&](const std::string&) {
                for (auto const& info : there.list()) {
                    if (!cairn::detail::is_intent_name(info.name) ||
                        info.name.ends_with(ended.save_id))
                        continue;
                    its_name = info.name;
                    auto its =
                        cairn::detail::save_intent::decode(cairn::read_whole(there, its_name));
                    its.owner.process.boot = "another host";
                    its.owner.process.run = std::string(32, 'b');
                    there.publish(its_name, its.encode(), std::nullopt);
                    if (forgotten) there.remove(its_name);
                }
            };
            auto const the_other = ".saving." + ended.save_id;
            bool adopted = false;
            support::meddling_store const store(
                cairn::file_store(p.dir), {.before_open = [&](const std::string& path) {
                    bool const now =
                        at_once ? path.find(".saving.") != path.npos : path.ends_with(the_other);
                    if (now && !std::exchange(adopted, true)) adopt(path);
                }});
            (void)retain(cairn::any_store(store), cairn::last(1));
            BOOST_TEST(adopted);
            BOOST_TEST(!its_name.empty());
            BOOST_TEST(p.stands(1));
            BOOST_TEST(fs::exists(p.at(1) / its_name) == !forgotten, "it is another process's");
        }
}

BOOST_AUTO_TEST_CASE(a_removal_says_what_it_cannot_judge) {
    place p;
    save_steps(cairn::file_store(p.dir), {1, 2});
    std::ofstream(p.at(1) / ".metadata") << "damaged";
    auto const said = joined(retain(p.store(), cairn::last(1)));
    BOOST_TEST(said.find("'step_1' stays") != std::string::npos, said);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_that_has_replaced_the_expected_one_stays) {
    place p;
    save_steps(cairn::file_store(p.dir), {1, 2});
    std::vector<std::string> warnings;
    auto const how =
        cairn::detail::remove_checkpoint(p.store(), "step_1", std::string(32, 'a'), warnings);
    BOOST_TEST((how == cairn::detail::removal::replaced));
    BOOST_TEST(p.stands(1));
}

/// What the decision rests on may have been removed by another run meanwhile.
BOOST_AUTO_TEST_CASE(a_removal_that_was_decided_long_ago_removes_nothing) {
    place p;
    save_steps(cairn::file_store(p.dir), {1, 2});
    auto first = p.store().at("step_1");
    auto const id = cairn::detail::read_commit_record(first).value().save_id;
    auto const files = first.list().size();
    std::vector<std::string> warnings;
    auto const how = cairn::detail::remove_checkpoint(p.store(), "step_1", id, warnings, nullptr,
                                                      cairn::activity::clock::now());
    BOOST_TEST((how == cairn::detail::removal::too_late));
    BOOST_TEST(joined(warnings) == "");
    BOOST_TEST(p.stands(1));
    BOOST_TEST(first.list().size() == files, "the intent of the removal is left");
}

/// It was examined, and was replaced before its removal was announced.
BOOST_AUTO_TEST_CASE(a_checkpoint_that_replaces_the_expected_one_meanwhile_stays) {
    place p;
    save_steps(cairn::file_store(p.dir), {1, 2});
    auto first = p.store().at("step_1");
    auto const old = cairn::detail::read_commit_record(first).value().save_id;
    auto const save_again = [&] { save_steps(cairn::file_store(p.dir), {1}); };
    support::meddling_store const store(cairn::file_store(p.dir),
                                        {.before_publish = support::before_the_intent(save_again)});
    std::vector<std::string> warnings;
    auto const how =
        cairn::detail::remove_checkpoint(cairn::any_store(store), "step_1", old, warnings);
    BOOST_TEST((how == cairn::detail::removal::replaced));
    BOOST_TEST(joined(warnings) == "");
    BOOST_TEST(p.stands(1));
    BOOST_TEST(cairn::detail::read_commit_record(first).value().save_id != old);
    BOOST_TEST(p.store().at("step_1").list().size() == 2u);
}

BOOST_AUTO_TEST_SUITE_END()
