// SPDX-License-Identifier: Apache-2.0
// What a run knows of checkpoints from save to save, and what it says of them.
#include "saved.hpp"
#include "support/meddling_store.hpp"

#include <cairn/catalog/detail/committed.hpp>
#include <cairn/catalog/detail/recording_writer.hpp>
#include <cairn/catalog/detail/removal.hpp>
#include <cairn/catalog/latest.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(catalog_run_memory)

using namespace catalog;
using cairn::detail::retain;
using cairn::detail::run_memory;

BOOST_AUTO_TEST_CASE(what_cannot_be_removed_is_told_once_and_keeps_nobody_from_the_rest) {
    cairn::memory_store base;
    std::vector<std::int64_t> steps(40);
    std::iota(steps.begin(), steps.end(), 1);
    save_steps(base, steps);
    support::meddling_store const store(
        base, {.before_remove = [](const std::string& path) {
            // Of another user: the first 35.
            for (int s = 1; s <= 35; ++s)
                if (path.ends_with("step_" + std::to_string(s) + "/.metadata"))
                    throw cairn::error(cairn::errc::permission_denied, {.file = path});
        }});
    cairn::any_store const root(store);
    run_memory run;
    BOOST_TEST(retain(root, cairn::last(1), run, {}).size() == 32u);
    BOOST_TEST(retain(root, cairn::last(1), run, {}).size() == 3u);
    std::string left;
    for (auto const& c : cairn::detail::find_places(root).committed)
        if (c.record->step > 35) left += c.id + " ";
    BOOST_TEST(left == "step_40 ");
    for (int i = 0; i < 3; ++i) BOOST_TEST(retain(root, cairn::last(1), run, {}).empty());
}

namespace {
/// Removes the first metadata of all, and says that it could not.
class removing_in_doubt : public support::forwarding_store<cairn::file_store> {
public:
    removing_in_doubt(cairn::file_store s, std::shared_ptr<int> failures)
        : forwarding_store(std::move(s)), failures_(std::move(failures)) {}
    removing_in_doubt at(const std::string& id) const { return {store_.at(id), failures_}; }
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    void remove(std::string_view n) {
        store_.remove(n);
        if (n == ".metadata" && (*failures_)-- > 0) throw std::runtime_error("no answer");
    }

private:
    std::shared_ptr<int> failures_;
};
}  // namespace

BOOST_AUTO_TEST_CASE(a_removal_that_fails_in_the_middle_is_finished_by_the_next_save) {
    place p;
    save_steps(cairn::file_store(p.dir), {1, 2, 3});
    cairn::any_store const root(
        removing_in_doubt(cairn::file_store(p.dir), std::make_shared<int>(1)));
    run_memory run;
    auto const told = retain(root, cairn::last(3), run, {});
    BOOST_TEST(told.empty());
    BOOST_TEST(retain(root, cairn::last(1), run, {}).size() == 1u);
    BOOST_TEST(run.removed.size() == 2u);
    // The first time, what may still appear is waited for.
    for (int k = 0; k < 2; ++k) (void)retain(root, cairn::last(1), run, {});
    BOOST_TEST((p.names() == p.names_of({3})));
}

/// An id is a place, however it is written.
BOOST_AUTO_TEST_CASE(what_is_protected_may_be_named_in_any_way) {
    place p;
    save_steps(cairn::file_store(p.dir), {1, 2, 3, 4, 5, 6, 7});
    fs::create_directory_symlink("step_4", p.dir / "best");
    fs::create_directory_symlink(p.dir, p.scratch.dir / "other_way");
    auto const ids = cairn::protect({"./step_1", "step_2/", p.at(3).string(), "best",
                                     (p.scratch.dir / "other_way" / "step_5").string() + "/."});
    run_memory run;
    BOOST_TEST(retain(p.store(), ids, run, {}).empty());
    for (std::int64_t const s : {1, 2, 3, 4, 5, 7}) BOOST_TEST(p.stands(s));
    BOOST_TEST(!fs::exists(p.at(6)));
    // What `latest` of a relative directory returns.
    struct in_directory {
        explicit in_directory(const fs::path& d) { fs::current_path(d); }
        ~in_directory() { fs::current_path(before); }
        fs::path before = fs::current_path();
    };
    {
        in_directory const here(p.scratch.dir);
        auto const found = cairn::latest("ckpt").value();
        cairn::checkpointer ckpt(cairn::solo(), "ckpt",
                                 {.keep = cairn::last(1) | cairn::protect({found})});
        std::vector<float> w(8);
        cairn::state_dict state{{"w", w}};
        (void)ckpt.load(found, state);
        BOOST_TEST(w[0] == 7.0f);
        for (int const s : {8, 9}) {
            w.assign(8, static_cast<float>(s));
            (void)ckpt.save_now(s, state);
            auto const report = ckpt.wait();
            for (auto const& warning : report->warnings) BOOST_TEST(warning == "");
        }
    }
    for (std::int64_t const s : {7, 9}) BOOST_TEST(p.stands(s));
    for (std::int64_t const s : {1, 5, 8}) BOOST_TEST(!fs::exists(p.at(s)));
}

BOOST_AUTO_TEST_CASE(a_protected_id_that_names_nothing_is_told_once) {
    place p;
    save_steps(cairn::file_store(p.dir), {1, 2});
    run_memory run;
    auto const keep = cairn::last(1) | cairn::protect({"step_3"});
    auto const said = retain(p.store(), keep, run, {});
    BOOST_REQUIRE(said.size() == 1u);
    BOOST_TEST(said[0].find("step_3") != std::string::npos, said[0]);
    BOOST_TEST(retain(p.store(), keep, run, {}).empty());
    save_steps(cairn::file_store(p.dir), {3, 4});
    BOOST_TEST(retain(p.store(), keep, run, {}).empty());
    BOOST_TEST(p.stands(3));
    BOOST_TEST(p.stands(4));
}

cairn::commit_record record_of(const place& p, std::int64_t step) {
    for (auto const& c : cairn::detail::find_places(p.store()).committed)
        if (c.record->step == step) return *c.record;
    return {};
}
/// As if the run had read step 1.
void note_read(const place& p, run_memory& run) {
    auto const r = record_of(p, 1);
    run.read[{r.sequence, r.committed}] = {++run.reads, run.saves.size()};
}
/// A save of the run, which keeps the last two.
void save_and_retain(const place& p, run_memory& run, std::int64_t step,
                     const cairn::retention& keep = cairn::last(2)) {
    save_steps(cairn::file_store(p.dir), {step});
    auto const id = record_of(p, step).save_id;
    run.saves.push_back({"step_" + std::to_string(step), id});
    (void)retain(p.store(), keep, run, id);
}

/// A run that was thought dead and goes on would otherwise remove the newest of the one that has
/// taken its place, to keep what it has once read.
BOOST_AUTO_TEST_CASE(a_save_that_another_run_has_removed_counts) {
    place p;
    run_memory run;
    // What it has read stands for another reason.
    auto const keep = cairn::last(2) | cairn::protect({"step_1"});
    save_steps(cairn::file_store(p.dir), {1});
    note_read(p, run);
    save_and_retain(p, run, 2, keep);
    save_and_retain(p, run, 3, keep);
    for (auto const s : {2, 3}) fs::remove_all(p.at(s));
    save_steps(cairn::file_store(p.dir), {8, 9});
    save_and_retain(p, run, 4, keep);
    BOOST_TEST(p.stands(1));
    BOOST_TEST(p.stands(9));
    BOOST_TEST(p.stands(4));
}

BOOST_AUTO_TEST_CASE(two_saves_of_one_step_make_up_for_one_checkpoint) {
    place p;
    run_memory run;
    save_steps(cairn::file_store(p.dir), {1, 8, 9});
    note_read(p, run);
    for (int k = 0; k < 2; ++k) {
        save_and_retain(p, run, 2);
        BOOST_TEST(p.stands(1));
    }
}

/// By the time of its directory; otherwise what another job has saved, or put aside, would count as
/// what stood there before.
BOOST_AUTO_TEST_CASE(a_place_that_others_have_changed_is_read_again) {
    place p;
    save_steps(cairn::file_store(p.dir), {1, 2, 3});
    cairn::detail::known_records known;
    auto const number_of = [&](const std::string& id) {
        for (auto const& c : cairn::detail::find_places(p.store(), nullptr, &known).committed)
            if (c.id == id) return c.record->sequence;
        return std::uint64_t{0};
    };
    auto const first = number_of("step_1");
    BOOST_TEST(first != 0u);
    save_steps(cairn::file_store(p.dir), {1});
    BOOST_TEST(number_of("step_1") > first + 2);
    fs::rename(p.at(1) / ".metadata", p.at(1) / ".metadata.quarantined");
    BOOST_TEST(number_of("step_1") == 0u);
    fs::remove_all(p.at(2));
    BOOST_TEST(number_of("step_2") == 0u);
    BOOST_TEST(known.size() == 1u);
}

/// A store that does not tell when a place has changed.
BOOST_AUTO_TEST_CASE(a_place_that_may_have_changed_is_read_again) {
    cairn::memory_store store;
    save_steps(store, {1, 2});
    cairn::detail::known_records known;
    auto const number_of = [&](const std::string& id) {
        for (auto const& c :
             cairn::detail::find_places(cairn::any_store(store), nullptr, &known).committed)
            if (c.id == id) return c.record->sequence;
        return std::uint64_t{0};
    };
    auto const first = number_of("step_1");
    save_steps(store, {1});
    BOOST_TEST(number_of("step_1") > first + 1);
}

/// In a bucket the removal of many may take minutes, and other ranks wait for the load.
BOOST_AUTO_TEST_CASE(what_is_read_during_a_removal_is_noted_at_once) {
    cairn::memory_store base;
    save_steps(base, {1, 2, 3});
    cairn::any_store place(base.at("step_3"));
    auto const record = cairn::detail::read_commit_record(place).value();
    std::promise<void> begins, may_end;
    std::atomic<bool> has_begun{false};
    auto const end = may_end.get_future().share();
    support::meddling_store const store(base, {.before_remove = [&](const std::string&) {
                                            if (!has_begun.exchange(true)) begins.set_value();
                                            end.wait();
                                        }});
    cairn::any_store const root(store);
    cairn::detail::run_catalog catalog(cairn::last(1));
    auto removing =
        std::async(std::launch::async, [&] { return catalog.retain(root, {}, nullptr); });
    BOOST_TEST(
        (begins.get_future().wait_for(std::chrono::minutes(1)) == std::future_status::ready));
    auto reading = std::async(std::launch::async, [&] { catalog.note_read(record, 1000); });
    auto const noted = reading.wait_for(std::chrono::seconds(20));
    may_end.set_value();
    BOOST_TEST(removing.get().empty());
    BOOST_TEST((noted == std::future_status::ready));
    std::vector<std::string> warnings;
    BOOST_TEST(catalog.next_sequence(root, warnings, nullptr) == record.sequence + 1001);
}

BOOST_AUTO_TEST_SUITE_END()
