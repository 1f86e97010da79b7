// SPDX-License-Identifier: Apache-2.0
// The record of a commit: where it is stored, and the order that it gives.
#include "saved.hpp"
#include "support/forwarding_store.hpp"

#include <cairn/catalog/detail/committed.hpp>
#include <cairn/catalog/detail/record_list.hpp>
#include <cairn/catalog/detail/recording_writer.hpp>
#include <cairn/catalog/listing.hpp>
#include <cairn/format/native/index.hpp>
#include <cairn/object_store/read_whole.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(catalog_committed)

using namespace catalog;
namespace native = cairn::format::native;

namespace {

cairn::commit_record some_record() {
    cairn::commit_record r;
    r.sequence = 77;
    r.committed = 1'700'000'000'123;
    r.step = -3;
    r.metrics = {{"loss", 0.25}, {"accuracy", -HUGE_VAL}};
    r.save_id = std::string(32, 'b');
    return r;
}

/// Cannot be listed so many times.
class unlisted_at_first : public support::forwarding_store<cairn::memory_store> {
public:
    unlisted_at_first(cairn::memory_store s, std::shared_ptr<int> failures)
        : forwarding_store(std::move(s)), failures_(std::move(failures)) {}
    unlisted_at_first at(const std::string& id) const { return {store_.at(id), failures_}; }
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    auto places() {
        if (*failures_ > 0 && (*failures_)-- > 0) throw cairn::error(cairn::errc::io, {});
        return store_.places();
    }

private:
    std::shared_ptr<int> failures_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_record_survives_in_the_metadata_with_and_without_a_pickle) {
    cairn::metadata m;
    m.save_id = std::string(32, 'b');
    for (bool torch : {true, false}) {
        auto const record = some_record();
        auto const without = native::make_metadata_file(m, torch);
        auto const with = native::make_metadata_file(m, torch, &record);
        auto const f = native::parse_metadata_file(with);
        BOOST_TEST((f.record == record));
        BOOST_TEST((f.meta == m));
        BOOST_TEST(f.torch_metadata == torch);
        BOOST_TEST(f.pickle_bytes == native::parse_metadata_file(without).pickle_bytes);
        BOOST_TEST(!native::parse_metadata_file(without).record.has_value());
        // Read alone.
        cairn::any_store place{cairn::memory_store()};
        place.publish(".metadata", with, std::nullopt);
        BOOST_TEST((cairn::detail::read_commit_record(place) == record));
        place.publish(".metadata", without, std::nullopt);
        BOOST_TEST(!cairn::detail::read_commit_record(place).has_value());
    }
}

BOOST_AUTO_TEST_CASE(any_changed_byte_is_noticed) {
    cairn::metadata m;
    m.save_id = std::string(32, 'b');
    auto const record = some_record();
    auto const bytes = native::make_metadata_file(m, true, &record);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        auto bad = bytes;
        bad[i] ^= std::byte{0x10};
        BOOST_CHECK_THROW((void)native::parse_metadata_file(bad), cairn::error);
        cairn::any_store place{cairn::memory_store()};
        place.publish(".metadata", bad, std::nullopt);
        // Reading the record alone sees a part of the file: what it returns is right, or nothing.
        try {
            auto const r = cairn::detail::read_commit_record(place);
            BOOST_TEST((!r || *r == record), "byte " << i);
        } catch (const cairn::error&) {
        }
    }
    for (std::size_t n = 0; n < bytes.size(); ++n) {
        cairn::any_store place{cairn::memory_store()};
        place.publish(".metadata", std::span(bytes).first(n), std::nullopt);
        try {
            auto const r = cairn::detail::read_commit_record(place);
            BOOST_TEST(!r.has_value(), n << " bytes");
        } catch (const cairn::error&) {
        }
    }
}

/// It would be the newest for ever.
BOOST_AUTO_TEST_CASE(a_number_that_no_run_reaches_is_not_believed) {
    cairn::metadata m;
    m.save_id = std::string(32, 'b');
    auto record = some_record();
    for (auto const sequence : {std::uint64_t{1} << 62, (std::uint64_t{1} << 62) + 1,
                                std::numeric_limits<std::uint64_t>::max()}) {
        record.sequence = sequence;
        cairn::any_store place{cairn::memory_store()};
        place.publish(".metadata", native::make_metadata_file(m, true, &record), std::nullopt);
        BOOST_TEST(cairn::detail::read_commit_record(place).has_value() ==
                   (sequence == std::uint64_t{1} << 62));
    }
}

/// Otherwise what it saves would count as the oldest, and stay.
BOOST_AUTO_TEST_CASE(a_run_that_has_no_higher_number_saves_nothing) {
    for (bool const last : {false, true}) {
        auto record = some_record();
        record.sequence = cairn::detail::most_commits - (last ? 0 : 1);
        cairn::memory_store store;
        store.at("step_7").publish(".metadata", native::make_metadata_file({}, true, &record),
                                   std::nullopt);
        cairn::detail::run_catalog c({});
        std::vector<std::string> warnings;
        auto const next = [&] {
            return c.next_sequence(cairn::any_store(store), warnings, nullptr);
        };
        if (!last) BOOST_TEST(next() == cairn::detail::most_commits);
        BOOST_CHECK_EXCEPTION((void)next(), cairn::error, [&](const cairn::error& e) {
            return e.code() == make_error_code(cairn::errc::corrupt) &&
                   (!last || std::string(e.what()).find("step_7") != std::string::npos) &&
                   std::string(e.what()).find("start the run again") != std::string::npos;
        });
    }
}

/// What cannot be read may have a higher number; what this run has loaded is known.
BOOST_AUTO_TEST_CASE(numbers_exceed_those_that_are_known) {
    cairn::memory_store store;
    save_steps(store, {1});
    auto const saved =
        cairn::detail::find_places(cairn::any_store(store)).committed.at(0).record->sequence;
    auto damaged = store.at("step_2");
    damaged.publish(".metadata", cairn::byte_vector(5), std::nullopt);
    cairn::any_store const root(store);
    for (std::uint64_t const loaded : {std::uint64_t{0}, saved + 40}) {
        cairn::detail::run_catalog c({});
        auto record = some_record();
        record.sequence = loaded;
        if (loaded != 0) c.note_read(record);
        std::vector<std::string> warnings;
        auto const known = std::max(saved, loaded);
        BOOST_TEST(c.next_sequence(root, warnings, nullptr) == known + 1);
        BOOST_TEST(warnings.size() == (loaded == 0 ? 1u : 0u));
        BOOST_TEST(c.next_sequence(root, warnings, nullptr) == known + 2);
        BOOST_TEST(warnings.size() == (loaded == 0 ? 1u : 0u));
    }
}

/// A bucket that is away keeps no save waiting twice: whatever is there, what follows is newer.
BOOST_AUTO_TEST_CASE(numbers_exceed_those_of_a_second_place_that_cannot_be_listed) {
    cairn::memory_store here, there;
    save_steps(there, {1, 2, 3});
    auto const failures = std::make_shared<int>(5);
    cairn::detail::run_catalog c({}, cairn::any_store(unlisted_at_first(there, failures)));
    std::vector<std::string> warnings;
    BOOST_TEST(c.next_sequence(cairn::any_store(here), warnings, nullptr) ==
               cairn::detail::run_catalog::beyond_known + 1);
    BOOST_TEST(warnings.size() == 1u);
    BOOST_TEST(c.next_sequence(cairn::any_store(here), warnings, nullptr) ==
               cairn::detail::run_catalog::beyond_known + 2);
    BOOST_TEST(warnings.size() == 1u);
    BOOST_TEST(*failures == 4);
}

/// However high a number is here already.
BOOST_AUTO_TEST_CASE(numbers_here_do_not_hide_those_of_a_second_place) {
    cairn::memory_store here, there;
    auto record = some_record();
    record.sequence = cairn::detail::run_catalog::beyond_known + 5;
    here.at("step_1").publish(".metadata", native::make_metadata_file({}, true, &record),
                              std::nullopt);
    auto const failures = std::make_shared<int>(1);
    cairn::detail::run_catalog c({}, cairn::any_store(unlisted_at_first(there, failures)));
    std::vector<std::string> warnings;
    BOOST_TEST(c.next_sequence(cairn::any_store(here), warnings, nullptr) ==
               2 * cairn::detail::run_catalog::beyond_known + 6);
}

namespace {
/// As in a bucket, one listing gives the tags of all metadata.
class tagging : public support::forwarding_store<cairn::memory_store> {
public:
    explicit tagging(cairn::memory_store s) : forwarding_store(std::move(s)) {}
    tagging at(const std::string& id) const { return tagging(store_.at(id)); }
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    std::vector<cairn::place_info> places_with(std::string_view name) {
        std::vector<cairn::place_info> out;
        for (auto& id : store_.places()) {
            out.push_back({.id = id});
            out.back().tag = store_.at(id).tag(name);
        }
        return out;
    }
};
}  // namespace

/// Another process has put back an old list: a checkpoint that was replaced since is the newest.
BOOST_AUTO_TEST_CASE(a_stale_list_of_records_changes_no_order) {
    using cairn::detail::record_list_name;
    cairn::memory_store base;
    save_steps(tagging(base), {1, 2, 3});
    auto const stale = cairn::read_whole(base, record_list_name);
    save_steps(tagging(base), {1});
    BOOST_TEST((cairn::read_whole(base, record_list_name) != stale));
    base.publish(record_list_name, stale, std::nullopt);
    cairn::any_store root{tagging(base)};
    BOOST_TEST(cairn::detail::read_record_list(root).count("step_1") == 1u);
    std::string all;
    for (auto const& c : cairn::detail::find_places(root).committed) all += c.id + " ";
    BOOST_TEST(all == "step_2 step_3 step_1 ");
}

BOOST_AUTO_TEST_CASE(a_list_of_records_with_an_impossible_number_is_not_believed) {
    for (bool const believed : {true, false}) {
        auto record = some_record();
        record.sequence = cairn::detail::most_commits + (believed ? 0 : 1);
        cairn::detail::known_record known;
        known.tag.text = "t";
        known.record = record;
        cairn::detail::known_records all{{"step_1", known}};
        cairn::any_store root{cairn::memory_store()};
        cairn::detail::write_record_list(root, all);
        BOOST_TEST(cairn::detail::read_record_list(root).size() == (believed ? 1u : 0u));
    }
}

BOOST_AUTO_TEST_CASE(numbers_go_on_from_run_to_run_and_when_steps_go_back) {
    cairn::memory_store store;
    save_steps(store, {100, 200, 300});
    save_steps(store, {110, 120});
    save_steps(store, {200});  // replaced
    std::string all;
    std::uint64_t last = 0;
    for (auto const& c : cairn::detail::find_places(cairn::any_store(store)).committed) {
        all += c.id + " ";
        BOOST_TEST(c.record->sequence > last);
        last = c.record->sequence;
    }
    BOOST_TEST(all == "step_100 step_300 step_110 step_120 step_200 ");
}

BOOST_AUTO_TEST_CASE(checkpoints_of_others_come_first_by_their_numbers) {
    cairn::memory_store store;
    std::vector<float> w(8, 1.0f);
    cairn::state_dict state{{"w", w}};
    for (auto const* id : {"step_100", "step_20", "step_3"}) cairn::save(state, id, store);
    save_steps(store, {1});
    auto damaged = store.at("step_2");
    damaged.publish(".metadata", cairn::byte_vector(5), std::nullopt);
    std::string all;
    for (auto const& c : cairn::detail::find_places(cairn::any_store(store)).committed)
        all += c.id + " ";
    BOOST_TEST(all == "step_3 step_20 step_100 step_1 step_2 ");
    using cairn::detail::is_before_by_number;
    BOOST_TEST(is_before_by_number("a", "a1"));
    BOOST_TEST(is_before_by_number("a2b10", "a10b2"));
    BOOST_TEST(!is_before_by_number("a", "a"));
    BOOST_TEST((is_before_by_number("a01", "a1") != is_before_by_number("a1", "a01")));
}

BOOST_AUTO_TEST_CASE(a_listing_says_what_each_checkpoint_is) {
    place p;
    save_steps(cairn::file_store(p.dir), {1, 2, 3, 4});
    auto const removed = p.data(2);
    fs::remove(p.at(2) / removed);
    p.damage(3, p.data(3));
    fs::create_directories(p.dir / "logs");
    fs::remove(p.at(4) / ".metadata");
    auto const words = [&](cairn::verify_level level) {
        std::string s;
        for (auto const& l : cairn::list_checkpoints(p.dir.string(), level))
            s += l.id + " " + cairn::name_of(l.state) + ", ";
        return s;
    };
    BOOST_TEST(words(cairn::verify_level::metadata) ==
               "step_1 complete, step_2 broken, step_3 complete, step_4 broken, ");
    BOOST_TEST(words(cairn::verify_level::full) ==
               "step_1 complete, step_2 broken, step_3 broken, step_4 broken, ");
    auto const all = cairn::list_checkpoints(p.dir.string());
    BOOST_TEST(all[0].record->step == 1);
    BOOST_TEST(all[0].bytes ==
               fs::file_size(p.at(1) / ".metadata") + fs::file_size(p.at(1) / p.data(1)));
    BOOST_TEST(all[1].problem.find(removed) != std::string::npos, all[1].problem);
}

/// As one that another host is removing.
BOOST_AUTO_TEST_CASE(a_place_that_cannot_be_listed_does_not_end_a_listing) {
    struct failing_place : cairn::memory_store {
        explicit failing_place(cairn::memory_store s, bool bad = false)
            : cairn::memory_store(std::move(s)), fails(bad) {}
        failing_place at(const std::string& id) const {
            return failing_place(cairn::memory_store::at(id), id == "step_1");
        }
        std::vector<cairn::object_info> list() {
            if (fails) throw cairn::error(cairn::errc::io, {.found = "a stale file handle"});
            return cairn::memory_store::list();
        }
        bool fails;
    };
    cairn::memory_store base;
    save_steps(base, {1, 2});
    base.at("step_1").remove(".metadata");
    failing_place store(base);
    auto const all = cairn::list_checkpoints(store);
    BOOST_TEST_REQUIRE(all.size() == 2u);
    BOOST_TEST(all[0].id == "step_2");
    BOOST_TEST((all[1].state == cairn::checkpoint_state::unreadable));
    BOOST_TEST(all[1].problem.find("a stale file handle") != std::string::npos, all[1].problem);
}

BOOST_AUTO_TEST_SUITE_END()
