// SPDX-License-Identifier: Apache-2.0
// The newest checkpoint of a directory, for one process.
#include "saved.hpp"
#include "support/forwarding_store.hpp"
#include "support/meddling_store.hpp"

#include <cairn/catalog/garbage.hpp>
#include <cairn/catalog/latest.hpp>
#include <cairn/storage/detail/save_intent.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <fstream>
#include <memory>
#include <thread>

BOOST_AUTO_TEST_SUITE(catalog_latest)

using namespace catalog;

namespace {

struct asked {
    std::vector<std::string> said{};
    cairn::latest_options with(cairn::verify_level level, bool quarantine = false) {
        return {level, quarantine, [this](const std::string& s) { said.push_back(s); }};
    }
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_latest_is_the_one_committed_last) {
    place p;
    BOOST_TEST(!cairn::latest(p.dir.string()).has_value());
    save_steps(cairn::file_store(p.dir), {100, 300});
    BOOST_TEST(cairn::latest(p.dir.string()).value() == p.at(300).string());
    save_steps(cairn::file_store(p.dir), {200});
    BOOST_TEST(cairn::latest(p.dir.string()).value() == p.at(200).string());
    cairn::memory_store store;
    save_steps(store, {5});
    BOOST_TEST(cairn::latest(store).value() == "step_5");
}

BOOST_AUTO_TEST_CASE(what_is_damaged_is_skipped_as_far_as_it_is_looked_at) {
    using cairn::verify_level;
    struct kind {
        const char* file;
        bool removed;
        verify_level found_by;
    };
    for (auto const& k :
         {kind{".metadata", false, verify_level::metadata}, kind{"", true, verify_level::metadata},
          kind{"", false, verify_level::sampled}}) {
        place p;
        save_steps(cairn::file_store(p.dir), {1, 2});
        auto const file = *k.file == '\0' ? p.data(2) : std::string(k.file);
        if (k.removed)
            fs::remove(p.at(2) / file);
        else
            p.damage(2, file);
        for (auto const level :
             {verify_level::metadata, verify_level::sampled, verify_level::full}) {
            bool const found = level >= k.found_by;
            asked a;
            BOOST_TEST(cairn::latest(p.dir.string(), a.with(level)).value() ==
                       p.at(found ? 1 : 2).string());
            BOOST_REQUIRE(a.said.size() == (found ? 1u : 0u));
            if (found) {
                BOOST_TEST(a.said[0].find("step_2") != std::string::npos, a.said[0]);
                BOOST_TEST(a.said[0].find(k.file) != std::string::npos, a.said[0]);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_damaged_checkpoint_is_put_aside_on_request) {
    place p;
    save_steps(cairn::file_store(p.dir), {1, 2});
    fs::remove(p.at(2) / p.data(2));
    asked a;
    auto const options = a.with(cairn::verify_level::metadata, true);
    BOOST_TEST(cairn::latest(p.dir.string(), options).value() == p.at(1).string());
    BOOST_TEST(!fs::exists(p.at(2) / ".metadata"));
    BOOST_TEST(fs::exists(p.at(2) / ".metadata.quarantined"));
    BOOST_TEST(cairn::latest(p.dir.string(), options).value() == p.at(1).string());
    BOOST_TEST(a.said.size() == 1u);
    save_steps(cairn::file_store(p.dir), {2});
    BOOST_TEST(p.stands(2));
}

/// As after files of two checkpoints were copied into one directory.
BOOST_AUTO_TEST_CASE(a_checkpoint_with_a_file_of_another_save_is_put_aside) {
    for (bool const loads : {false, true}) {
        place p;
        save_steps(cairn::file_store(p.dir), {1, 2});
        fs::copy_file(p.at(1) / p.data(1), p.at(2) / p.data(2),
                      fs::copy_options::overwrite_existing);
        asked a;
        if (loads) {
            cairn::checkpointer ckpt(cairn::solo(), p.dir);
            std::vector<float> w(8);
            cairn::state_dict state{{"w", w}};
            auto const found = ckpt.load_latest(state, a.with(cairn::verify_level::metadata, true));
            BOOST_TEST((found && found->id == "step_1"));
            BOOST_TEST(w[0] == 1.0f);
        } else {
            auto const options = a.with(cairn::verify_level::sampled, true);
            BOOST_TEST(cairn::latest(p.dir.string(), options).value() == p.at(1).string());
        }
        BOOST_TEST(fs::exists(p.at(2) / ".metadata.quarantined"));
        BOOST_REQUIRE(a.said.size() == 1u);
        BOOST_TEST(a.said[0].find(p.data(2)) != std::string::npos, a.said[0]);
    }
}

/// A save that was killed in its place lists its files: whoever collects them knows nothing of it.
BOOST_AUTO_TEST_CASE(a_damaged_checkpoint_beside_what_may_run_stays) {
    for (bool const ended : {false, true}) {
        place p;
        save_steps(cairn::file_store(p.dir), {1, 2});
        cairn::file_store there(p.at(2));
        cairn::detail::save_intent intent;
        intent.save_id = std::string(32, 'a');
        intent.owner = cairn::detail::record_owner::this_one();
        if (!ended) intent.owner.process.boot = intent.owner.process.run = "another host";
        intent.names = {p.data(2)};
        there.publish(".saving." + intent.save_id, intent.encode(), std::nullopt);
        p.damage(2, p.data(2));
        asked a;
        BOOST_TEST(cairn::latest(p.dir.string(), a.with(cairn::verify_level::full, true)).value() ==
                   p.at(1).string());
        BOOST_TEST(fs::exists(p.at(2) / ".metadata.quarantined") == ended);
        BOOST_TEST(fs::exists(p.at(2) / ".metadata") != ended);
        BOOST_REQUIRE(a.said.size() == 1u);
        BOOST_TEST((a.said[0].find("not quarantined") == std::string::npos) == ended, a.said[0]);
        (void)cairn::collect_garbage(p.dir.string());
        BOOST_TEST(fs::exists(p.at(2) / p.data(2)));
    }
}

/// A store that cannot remove an intent.
struct keeps_intents : support::forwarding_store<cairn::file_store> {
    using forwarding_store::forwarding_store;
    keeps_intents at(const std::string& id) const { return keeps_intents(store_.at(id)); }
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    void remove(std::string_view n) {
        if (n.starts_with(".saving."))
            throw cairn::error(cairn::errc::io, {.file = std::string(n), .found = "no permission"});
        store_.remove(n);
    }
};
BOOST_AUTO_TEST_CASE(why_a_checkpoint_is_not_put_aside_is_said) {
    place p;
    save_steps(cairn::file_store(p.dir), {1, 2});
    cairn::detail::save_intent intent;
    intent.save_id = std::string(32, 'a');
    intent.owner = cairn::detail::record_owner::this_one();
    cairn::file_store(p.at(2)).publish(".saving." + intent.save_id, intent.encode(), std::nullopt);
    p.damage(2, p.data(2));
    keeps_intents store{cairn::file_store(p.dir)};
    asked a;
    (void)cairn::latest(store, a.with(cairn::verify_level::full, true));
    BOOST_REQUIRE(a.said.size() == 1u);
    BOOST_TEST(a.said[0].find("not quarantined") != std::string::npos, a.said[0]);
    BOOST_TEST(a.said[0].find("no permission") != std::string::npos, a.said[0]);
}

BOOST_AUTO_TEST_CASE(what_was_saved_again_meanwhile_is_not_put_aside) {
    place p;
    save_steps(cairn::file_store(p.dir), {1});
    auto there = p.store().at("step_1");
    auto const examined = there.tag(".metadata");
    save_steps(cairn::file_store(p.dir), {1});
    BOOST_CHECK_EXCEPTION(
        cairn::detail::quarantine(there, examined), cairn::error,
        [](const auto& e) { return e.code() == make_error_code(cairn::errc::concurrent_save); });
    BOOST_TEST(p.stands(1));
    // Just as its metadata was put aside: beside it, nobody would collect strays.
    support::meddling_store store(
        cairn::file_store(p.at(1)),
        {.before_publish = support::at_most(1, ".quarantined", [&](const std::string&) {
             save_steps(cairn::file_store(p.dir), {1});
         })});
    cairn::any_store changing(store);
    BOOST_CHECK_EXCEPTION(
        cairn::detail::quarantine(changing, changing.tag(".metadata")), cairn::error,
        [](const auto& e) { return e.code() == make_error_code(cairn::errc::concurrent_save); });
    BOOST_TEST(p.stands(1));
    BOOST_TEST(!fs::exists(p.at(1) / ".metadata.quarantined"));
}

/// Beside its copy, a checkpoint that stays would keep strays; and one that may still go, needs it.
BOOST_AUTO_TEST_CASE(metadata_that_cannot_be_put_aside_leaves_a_copy_only_in_doubt) {
    for (auto const code : {cairn::errc::io, cairn::errc::outcome_unknown}) {
        place p;
        save_steps(cairn::file_store(p.dir), {1});
        support::meddling_store store(cairn::file_store(p.at(1)),
                                      {.before_remove = support::failing(1, "/.metadata", code)});
        cairn::any_store there(store);
        BOOST_CHECK_EXCEPTION(cairn::detail::quarantine(there, there.tag(".metadata")),
                              cairn::error,
                              [&](const auto& e) { return e.code() == make_error_code(code); });
        BOOST_TEST(p.stands(1));
        BOOST_TEST(fs::exists(p.at(1) / ".metadata.quarantined") ==
                   (code == cairn::errc::outcome_unknown));
    }
}

/// Nobody relies on the copy yet: its own publish may be tried again.
BOOST_AUTO_TEST_CASE(a_copy_whose_publish_is_in_doubt_does_not_stay_beside_its_checkpoint) {
    place p;
    save_steps(cairn::file_store(p.dir), {1});
    auto const publish_and_fail = [](const std::string& path) {
        std::ofstream(path) << "a copy";
        throw cairn::error(cairn::errc::outcome_unknown, {.file = path});
    };
    support::meddling_store store(
        cairn::file_store(p.at(1)),
        {.before_publish = support::at_most(1, ".quarantined", publish_and_fail)});
    cairn::any_store there(store);
    BOOST_CHECK_EXCEPTION(cairn::detail::quarantine(there, there.tag(".metadata")), cairn::error,
                          [](const auto& e) {
                              return e.code() == make_error_code(cairn::errc::io) &&
                                     e.context().remedy == "try again";
                          });
    BOOST_TEST(p.stands(1));
    BOOST_TEST(!fs::exists(p.at(1) / ".metadata.quarantined"));
}

/// A file that was missing for a moment, as behind a cache.
BOOST_AUTO_TEST_CASE(what_is_whole_when_looked_at_again_is_not_put_aside) {
    place p;
    save_steps(cairn::file_store(p.dir), {1, 2});
    struct missing_once : support::forwarding_store<cairn::file_store> {
        explicit missing_once(cairn::file_store s) : forwarding_store(std::move(s)) {}
        missing_once at(const std::string& id) const {
            missing_once s(store_.at(id));
            s.times = times;
            return s;
        }
        auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
        auto open(std::string_view n) {
            if (n.ends_with(".distcp") && (*times)-- > 0)
                throw cairn::error(cairn::errc::not_found, {.file = std::string(n)});
            return store_.open(n);
        }
        std::shared_ptr<int> times = std::make_shared<int>(1);
    };
    missing_once store{cairn::file_store(p.dir)};
    asked a;
    BOOST_TEST(cairn::latest(store, a.with(cairn::verify_level::metadata, true)).value() ==
               "step_1");
    BOOST_TEST(p.stands(2));
    BOOST_REQUIRE(a.said.size() == 1u);
    BOOST_TEST(a.said[0].find("not quarantined") != std::string::npos, a.said[0]);
}

/// What this version cannot read, or storage failed to, may be whole: nobody goes back behind it.
BOOST_AUTO_TEST_CASE(only_what_is_damaged_is_skipped_or_put_aside) {
    using cairn::errc;
    for (auto const code : {errc::unsupported, errc::io, errc::permission_denied, errc::corrupt}) {
        for (bool const data : {false, true}) {
            place p;
            save_steps(cairn::file_store(p.dir), {1, 2});
            auto const file = "step_2/" + (data ? p.data(2) : ".metadata");
            support::meddling_store store(cairn::file_store(p.dir),
                                          {.before_open = support::failing(1000, file, code)});
            asked a;
            auto const options = a.with(cairn::verify_level::sampled, true);
            bool const metadata = std::string(file).ends_with("ata");
            if (code == errc::corrupt)
                BOOST_TEST(cairn::latest(store, options).value() == "step_1");
            else
                BOOST_CHECK_EXCEPTION(
                    (void)cairn::latest(store, options), cairn::error, [&](const cairn::error& e) {
                        return e.code() == make_error_code(code) &&
                               std::string(e.what()).find("step_2") != std::string::npos;
                    });
            // The metadata has to be read once more for that.
            bool const aside = code == cairn::errc::corrupt && !metadata;
            BOOST_TEST(p.stands(2) == !aside);
        }
    }
    place p;
    save_steps(cairn::file_store(p.dir), {1, 2});
    std::ofstream(p.at(2) / ".metadata") << "damaged";
    asked a;
    BOOST_TEST(cairn::latest(p.dir.string(), a.with(cairn::verify_level::metadata, true)).value() ==
               p.at(1).string());
    BOOST_TEST(fs::exists(p.at(2) / ".metadata.quarantined"));
}

/// It would be taken for the newest, whatever its age.
BOOST_AUTO_TEST_CASE(a_record_that_could_not_be_read_is_read_again) {
    for (int const times : {1, 1000}) {
        place p;
        save_steps(cairn::file_store(p.dir), {1, 2});
        support::meddling_store store(
            cairn::file_store(p.dir),
            {.before_open = support::failing(times, "step_1/.metadata", cairn::errc::io)});
        asked a;
        auto const options = a.with(cairn::verify_level::metadata);
        if (times == 1)
            BOOST_TEST(cairn::latest(store, options).value() == "step_2");
        else  // it may be the newest
            BOOST_CHECK_EXCEPTION(
                (void)cairn::latest(store, options), cairn::error,
                [](const auto& e) { return e.code() == make_error_code(cairn::errc::io); });
        BOOST_TEST(a.said.empty());
    }
}

/// On a network file system, for a moment.
BOOST_AUTO_TEST_CASE(a_checkpoint_that_seemed_absent_is_looked_for_again) {
    // The first time as it is listed, then as it is read.
    for (int const before : {0, 1}) {
        place p;
        save_steps(cairn::file_store(p.dir), {1, 2});
        int opened = 0;
        support::meddling_store store(
            cairn::file_store(p.dir), {.before_open = [&](const std::string& path) {
                if (path.ends_with("step_2/.metadata") && opened++ == before)
                    throw cairn::error(cairn::errc::not_found, {.file = path});
            }});
        asked a;
        BOOST_TEST(cairn::latest(store, a.with(cairn::verify_level::metadata)).value() == "step_2");
    }
}

/// Meanwhile the other ranks wait for this one.
BOOST_AUTO_TEST_CASE(a_second_look_shows_progress) {
    place p;
    save_steps(cairn::file_store(p.dir), {1, 2});
    p.damage(2, p.data(2));
    asked a;
    auto const shown = std::make_shared<cairn::activity>();
    shown->enter("test");
    cairn::detail::candidates all(p.store(), a.with(cairn::verify_level::full, true), shown);
    BOOST_TEST(all.next()->id == "step_2");
    auto const before = cairn::activity::clock::now();
    constexpr auto pause = std::chrono::milliseconds(50);
    std::this_thread::sleep_for(pause);
    all.skip({"damaged", true, true}, true, cairn::verify_level::full);
    auto const idle = shown->read().idle;
    BOOST_TEST((cairn::activity::clock::now() - before >= idle + pause));
    BOOST_TEST(!p.stands(2));
}

/// Otherwise a training would begin anew, and nobody would notice.
BOOST_AUTO_TEST_CASE(a_search_that_finds_none_whole_is_an_error) {
    for (bool const quarantine : {false, true}) {
        place p;
        save_steps(cairn::file_store(p.dir), {1, 2});
        for (int const step : {1, 2}) fs::remove(p.at(step) / p.data(step));
        asked a;
        auto const options = a.with(cairn::verify_level::metadata, quarantine);
        BOOST_CHECK_EXCEPTION((void)cairn::latest(p.dir.string(), options), cairn::error,
                              [](const cairn::error& e) {
                                  std::string const text = e.what();
                                  return e.code() == make_error_code(cairn::errc::corrupt) &&
                                         text.find("none of 2") != std::string::npos &&
                                         text.find("step_2") != std::string::npos;
                              });
        if (quarantine)  // not even when they were put aside earlier
            BOOST_CHECK_EXCEPTION((void)cairn::latest(p.dir.string(), options), cairn::error,
                                  [](const cairn::error& e) {
                                      return std::string(e.what()).find("quarantined") !=
                                             std::string::npos;
                                  });
    }
    // A storage that fails.
    place p;
    save_steps(cairn::file_store(p.dir), {1});
    struct failing : support::forwarding_store<cairn::file_store> {
        using support::forwarding_store<cairn::file_store>::forwarding_store;
        failing at(const std::string& id) const { return failing(store_.at(id)); }
        auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
        cairn::file_store::reader open(std::string_view n) {
            throw cairn::error(cairn::errc::io, {.file = std::string(n), .found = "EIO"});
        }
    };
    failing store{cairn::file_store(p.dir)};
    asked a;
    BOOST_CHECK_EXCEPTION(
        (void)cairn::latest(store, a.with(cairn::verify_level::metadata, true)), cairn::error,
        [](const auto& e) { return e.code() == make_error_code(cairn::errc::io); });
    BOOST_TEST(p.stands(1));
}

BOOST_AUTO_TEST_SUITE_END()
