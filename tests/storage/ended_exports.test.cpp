// SPDX-License-Identifier: Apache-2.0
// What exports into stores that cannot rename leave when they are killed, or fail.
#include "flat_exports.hpp"
#include "support/forwarding_store.hpp"
#include "support/meddling_store.hpp"

#include <cairn/detail/identity.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/detail/record_owner.hpp>
#include <cairn/storage/detail/save_intent.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(ended_exports)

using namespace flat_exports;

namespace {

/// What a process that was killed says about itself.
cairn::detail::record_owner an_ended_process() {
    auto owner = cairn::detail::record_owner::this_one();
    owner.process.pid = 0x7ffffff0;
    owner.process.run += "x";
    owner.job = {};
    return owner;
}

}  // namespace

/// What a killed export leaves is removed by the next one, and nothing else.
BOOST_AUTO_TEST_CASE(the_next_export_removes_what_a_killed_one_has_left) {
    for (bool const committed : {false, true}) {
        cairn::memory_store base;
        save_on(store(base), two_parts, 1, "m", two_files(), 1);
        auto const old = weights_of(base.at("m"));
        cairn::detail::save_intent intent;
        intent.save_id = cairn::detail::new_save_id();
        intent.owner = an_ended_process();
        auto const orphan = "model-00001-of-00002." + intent.save_id + ".safetensors";
        intent.names = {orphan};
        // What one that runs may be writing, too, is left to a later export.
        if (!committed)
            intent.names.insert(intent.names.end(), {"config.json", *old.begin(), "../other"});
        auto place = base.at("m");
        place.publish(orphan, {}, std::nullopt);
        place.publish("config.json", {}, std::nullopt);
        auto beside = base.at(".m.saving");
        beside.publish(".saving." + intent.save_id, intent.encode(), std::nullopt);
        base.at(".m.saving/" + intent.save_id).publish("side.0", {}, std::nullopt);
        std::string running = cairn::detail::new_save_id();
        if (committed) {  // another one that still runs
            intent.save_id = running;
            intent.owner = cairn::detail::record_owner::this_one();
            intent.owner.process.boot = "another machine";
            intent.owner.process.run = "another run";
            beside.publish(".saving." + running, intent.encode(), std::nullopt);
        }
        save_on(store(base), two_parts, 1, "m", two_files(), 2);
        auto const names = names_of(place);
        BOOST_TEST(names.count(orphan) == 0u);
        BOOST_TEST(names.count("config.json") == 1u);
        BOOST_TEST(names.size() == 4u);
        BOOST_TEST(base.at(".m.saving/" + intent.save_id).list().empty());
        BOOST_TEST(beside.list().size() == (committed ? 1u : 0u));
    }
}

/// One that has committed is stuck before it removes what it has replaced.
BOOST_AUTO_TEST_CASE(an_export_removes_what_the_one_that_it_replaces_was_to_remove) {
    cairn::memory_store base;
    auto place = base.at("m");
    save_on(store(base), two_parts, 1, "m", two_files(), 1);
    auto const first = weights_of(place);
    save_on(store(base), two_parts, 1, "m", two_files(), 2);
    auto const second = weights_of(place);
    for (auto const& name : first) place.publish(name, {}, std::nullopt);
    cairn::detail::save_intent intent;
    intent.save_id = second.begin()->substr(second.begin()->find('.') + 1, 32);
    intent.owner = cairn::detail::record_owner::this_one();
    intent.owner.process.boot = "another machine";
    intent.owner.process.run = "another run";
    intent.names.assign(second.begin(), second.end());
    intent.replaced.assign(first.begin(), first.end());
    base.at(".m.saving").publish(".saving." + intent.save_id, intent.encode(), std::nullopt);
    save_on(store(base), two_parts, 1, "m", two_files(), 3);
    BOOST_TEST(names_of(place).size() == 3u);
    for (auto const& name : first) BOOST_TEST(names_of(place).count(name) == 0u, name);
}

/// Another process has adopted its intent meanwhile, and may have removed its files.
BOOST_AUTO_TEST_CASE(an_export_that_was_presumed_dead_does_not_commit) {
    for (bool const many : {false, true})
        for (bool const has_old : {false, true}) {
            cairn::memory_store base;
            if (has_old) save_on(store(base), two_parts, 1, "m", two_files(), 1);
            auto const before = contents_of(base.at("m"));
            auto beside = base.at(".m.saving");
            auto o = many ? two_files() : cairn::safetensors_writer_options();
            o.add_files = [&](auto const& add) {
                add("config.json", std::as_bytes(std::span("new", 3)));
                for (auto const& info : beside.list())
                    beside.publish(info.name, cairn::read_whole(beside, info.name), std::nullopt);
            };
            BOOST_TEST(says(failure_of([&] { save_on(store(base), two_parts, 1, "m", o, 2); }),
                            "presumed this one dead"));
            BOOST_TEST((contents_of(base.at("m")) == before));
            BOOST_TEST(beside.list().size() == 1u);  // the other one's
        }
}

namespace {
/// What an export of another process has left: a file, and its intent.
struct left_over {
    left_over(cairn::memory_store base, cairn::detail::record_owner owner) {
        intent.save_id = cairn::detail::new_save_id();
        intent.owner = std::move(owner);
        file = "model-00001-of-00002." + intent.save_id + ".safetensors";
        name = ".saving." + intent.save_id;
        intent.names = {file};
        base.at("m").publish(file, {}, std::nullopt);
        base.at(".m.saving").publish(name, intent.encode(), std::nullopt);
    }
    cairn::detail::save_intent intent{};
    std::string file{}, name{};
};
/// Some objects seem a day older than all others.
class aged_in_memory : public store {
public:
    aged_in_memory(cairn::memory_store s, std::set<std::string> old)
        : store(std::move(s)), old_(std::move(old)) {}
    aged_in_memory at(const std::string& id) const { return {store_.at(id), old_}; }
    std::vector<cairn::object_info> list() {
        auto all = store_.list();
        for (auto& o : all)
            if (old_.count(o.name) == 0)
                o.modified += std::chrono::nanoseconds(std::chrono::hours(25)).count();
        return all;
    }

private:
    std::set<std::string> old_;
};
}  // namespace

BOOST_AUTO_TEST_CASE(an_intent_is_adopted_before_its_files_are_removed) {
    cairn::memory_store base;
    left_over const rest(base, an_ended_process());
    auto beside = base.at(".m.saving");
    auto const tag = beside.tag(rest.name);
    int removed = 0;
    support::meddling_store<store> const watched(store(base),
                                                 {.before_remove = [&](const std::string& path) {
                                                     if (!path.ends_with(rest.file)) return;
                                                     ++removed;
                                                     BOOST_TEST((beside.tag(rest.name) != tag));
                                                 }});
    save_on(watched, two_parts, 1, "m", two_files(), 2);
    BOOST_TEST(removed == 1);
    check_clean(base, "m");
}

BOOST_AUTO_TEST_CASE(files_are_signs_of_life) {
    for (bool const writes : {false, true}) {
        cairn::memory_store base;
        auto owner = cairn::detail::record_owner::this_one();
        owner.process.boot = "another machine";
        owner.process.run = "another run";
        left_over const rest(base, owner);
        std::set<std::string> old{rest.name};
        if (!writes) old.insert(rest.file);
        save_on(aged_in_memory(base, old), two_parts, 1, "m", two_files(), 2);
        BOOST_TEST(names_of(base.at("m")).count(rest.file) == (writes ? 1u : 0u));
    }
}

BOOST_AUTO_TEST_CASE(what_a_killed_export_has_left_does_not_count_as_existing) {
    cairn::memory_store base;
    left_over const rest(base, an_ended_process());
    auto o = two_files();
    o.overwrite = false;
    auto const why = [&] {
        return failure_of([&] { save_on(store(base), two_parts, 1, "m", o, 2); });
    };
    BOOST_TEST(why() == "no failure");
    check_clean(base, "m");
    BOOST_TEST(says(why(), "overwrite is off"));
    check_clean(base, "m");
}

BOOST_AUTO_TEST_CASE(a_single_file_of_another_job_is_no_success_and_stays) {
    auto const bytes = std::as_bytes(std::span("another's", 9));
    cairn::memory_store sample;
    save_on(store(sample), two_parts, 1, "m", {}, 1);
    auto const same = contents_of(sample.at("m")).at("model.safetensors");
    for (bool const same_size : {false, true}) {
        cairn::memory_store base;
        auto place = base.at("m");
        auto const theirs = same_size ? same : cairn::byte_vector(bytes.begin(), bytes.end());
        cairn::safetensors_writer_options o;
        o.add_files = [&](auto const&) {
            place.publish("model.safetensors", theirs, std::nullopt);
        };
        auto const why = failure_of([&] { save_on(store(base), two_parts, 1, "m", o, 2); });
        BOOST_TEST(why != "no failure");
        BOOST_TEST((contents_of(place).at("model.safetensors") == theirs));
    }
    cairn::memory_store base;
    cairn::safetensors_writer_options o;
    o.add_files = [](auto const&) { throw std::runtime_error("no tokenizer"); };
    BOOST_TEST(
        says(failure_of([&] { save_on(store(base), two_parts, 1, "m", o, 2); }), "no tokenizer"));
    BOOST_TEST(base.at("m").list().empty());
}

namespace {
/// Counts listings, by place.
class counted_lists : public store {
public:
    using counts = std::map<std::string, int>;
    counted_lists(cairn::memory_store s, std::shared_ptr<counts> n, std::string id = {})
        : store(std::move(s)), n_(std::move(n)), id_(std::move(id)) {}
    counted_lists at(const std::string& id) const { return {store_.at(id), n_, id}; }
    std::vector<cairn::object_info> list() {
        ++(*n_)[id_];
        return store_.list();
    }

private:
    std::shared_ptr<counts> n_;
    std::string id_;
};
}  // namespace

BOOST_AUTO_TEST_CASE(the_target_is_listed_once_for_all_that_have_ended) {
    std::set<int> lists;
    for (int const ended : {1, 5}) {
        cairn::memory_store base;
        for (int i = 0; i < ended; ++i) left_over const rest(base, an_ended_process());
        auto const n = std::make_shared<counted_lists::counts>();
        save_on(counted_lists(base, n), two_parts, 1, "m", two_files(), 2);
        lists.insert((*n)["m"]);
        check_clean(base, "m");
    }
    BOOST_TEST(lists.size() == 1u);
}

/// What it has replaced, or what another export may have written, stays.
BOOST_AUTO_TEST_CASE(small_files_of_an_export_that_fails_last_go_with_it) {
    for (bool const has_old : {false, true})
        for (bool const others : {false, true}) {
            cairn::memory_store base;
            auto place = base.at("m");
            if (has_old) save_on(store(base), two_parts, 1, "m", two_files(), 1);
            place.publish("there.json", std::as_bytes(std::span("old", 3)), std::nullopt);
            auto owner = cairn::detail::record_owner::this_one();
            owner.process.boot = "another machine";
            owner.process.run = "another run";
            std::optional<left_over> rest;
            auto o = two_files();
            o.add_files = [&](auto const& add) {
                add("config.json", std::as_bytes(std::span("new", 3)));
                add("there.json", std::as_bytes(std::span("new", 3)));
                if (others) rest.emplace(base, owner);
            };
            support::meddling_store<store> const bad(
                store(base), {.before_publish = [](const std::string& path) {
                    if (path.ends_with(index_file)) throw cairn::error(cairn::errc::io, {});
                }});
            auto const before = has_old ? weights_of(place) : std::set<std::string>();
            BOOST_TEST(failure_of([&] { save_on(bad, two_parts, 1, "m", o, 2); }) != "no failure");
            auto const names = names_of(place);
            BOOST_TEST(names.count("config.json") == (others ? 1u : 0u));
            BOOST_TEST(names.count("there.json") == 1u);
            BOOST_TEST(names.size() == before.size() + (has_old ? 1 : 0) + 1 + (others ? 2 : 0));
        }
}

BOOST_AUTO_TEST_SUITE_END()
