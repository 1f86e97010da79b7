// SPDX-License-Identifier: Apache-2.0
// The trace, read by a strict JSON parser after every event, and after its process was killed.
#include "made_events.hpp"
#include "support/dying_store.hpp"
#include "support/scratch.hpp"

#include <cairn/error.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/observe/trace_file.hpp>
#include <cairn/save.hpp>
#include <cairn/state/state_dict.hpp>
#include <cairn/tensor/containers.hpp>

#include <boost/json/src.hpp>
#include <boost/test/unit_test.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(trace_file)

namespace json = boost::json;

json::array events_in(const std::filesystem::path& file) {
    std::ifstream in(file);
    std::string const text(std::istreambuf_iterator<char>(in), {});
    return json::parse(text).as_array();
}
std::string text(const json::object& e, const char* key) {
    return std::string(e.at(key).as_string());
}
using track = std::pair<std::int64_t, std::int64_t>;
track track_of(const json::object& e) {
    return {e.at("pid").as_int64(), e.at("tid").as_int64()};
}
/// What has begun on each track and not ended. @throws for an end of something else, or for time
/// that goes back
std::map<track, std::vector<std::string>> open_slices(const json::array& events) {
    std::map<track, std::vector<std::string>> open;
    std::map<track, double> time;
    for (auto const& value : events) {
        auto const& e = value.as_object();
        auto const type = text(e, "ph");
        if (type == "M") continue;
        auto const on = track_of(e);
        auto const at = e.at("ts").to_number<double>();
        if (at < time[on]) throw std::runtime_error("time goes back");
        time[on] = at;
        auto& stack = open[on];
        if (type == "B") stack.push_back(text(e, "name"));
        if (type != "E") continue;
        if (stack.empty() || stack.back() != text(e, "name"))
            throw std::runtime_error("the end of another slice: " + text(e, "name"));
        stack.pop_back();
        if (stack.empty()) open.erase(on);
    }
    return open;
}

/// Parses the file after every event.
struct checked_trace {
    cairn::trace_file trace;
    std::filesystem::path file;
    void notify(const cairn::verb_event& e) {
        trace.notify(e);
        (void)open_slices(events_in(file));
    }
};

BOOST_AUTO_TEST_CASE(slices_nest_and_carry_what_is_known) {
    support::scratch const at;
    auto const file = at.dir / "trace.json";
    checked_trace const trace{cairn::trace_file(file.string()), file};
    BOOST_TEST(events_in(file).empty());
    made_events e(trace, 1, 3, 8, "a \"b\"\\\n\t\x01\xff\u00e4");
    e.begin(0);
    e.phase("write", 10);
    e.progress(0, 100, 10);
    e.progress(40, 100, 20);
    e.progress(50, 100, 30);  // too soon for another count
    e.progress(100, 100, 200);
    e.phase_end(300);
    e.end(400, std::make_exception_ptr(std::runtime_error("no \"space\"")));
    auto const events = events_in(file);
    BOOST_TEST(open_slices(events).empty());
    BOOST_REQUIRE(events.size() == 7u);
    auto const at_index = [&](std::size_t i) { return events[i].as_object(); };
    BOOST_TEST(text(at_index(0).at("args").as_object(), "name") == "rank 3 of 8");
    BOOST_TEST(text(at_index(1).at("args").as_object(), "checkpoint") ==
               "a \"b\"\\\n\t\x01\\xff\u00e4");
    BOOST_TEST(at_index(3).at("args").at("bytes").as_int64() == 40);
    BOOST_TEST(at_index(4).at("args").at("bytes").as_int64() == 100);
    BOOST_TEST(at_index(5).at("args").at("bytes").as_int64() == 100);
    BOOST_TEST(text(at_index(6).at("args").as_object(), "result") == "no \"space\"");
    auto const ts = [&](std::size_t i) { return at_index(i).at("ts").to_number<double>(); };
    BOOST_TEST(ts(6) - ts(1) == 400'000.0, boost::test_tools::tolerance(1e-6));
}

/// Slices of one track must nest: verbs that overlap are on tracks of their own, reused later.
BOOST_AUTO_TEST_CASE(verbs_that_overlap_have_tracks_of_their_own) {
    support::scratch const at;
    auto const file = at.dir / "trace.json";
    checked_trace const trace{cairn::trace_file(file.string()), file};
    for (std::uint64_t n = 0; n < 3; ++n) {
        made_events a(trace, 10 * n + 1), b(trace, 10 * n + 2), other(trace, 10 * n + 3, 1, 2);
        int const t = static_cast<int>(n) * 100;
        a.begin(t);
        b.begin(t + 1);
        other.begin(t + 1);
        a.phase("write", t + 2);
        b.phase("write", t + 3);
        a.phase_end(t + 4);
        a.end(t + 5);
        b.phase_end(t + 6);
        b.end(t + 7);
        other.end(t + 8);
    }
    std::map<track, int> tracks;
    for (auto const& e : events_in(file))
        if (text(e.as_object(), "ph") != "M") ++tracks[track_of(e.as_object())];
    BOOST_TEST(tracks.size() == 3u);
    BOOST_TEST(open_slices(events_in(file)).empty());
}

/// What was running is what lacks an end.
BOOST_AUTO_TEST_CASE(the_trace_of_a_process_that_is_killed_is_valid) {
    int killed = 0;
    for (int die_at = 0; die_at < 40; ++die_at) {
        support::scratch const at;
        auto const file = at.dir / "trace.json";
        auto const how = support::in_process([&] {
            std::vector<float> w(1000, 1.0f);
            cairn::state_dict sd{{"w", w}, {"step", 3}};
            (void)cairn::save(sd, "c", cairn::trace_file(file.string()),
                              support::dying_store(cairn::memory_store(), die_at));
        });
        if (how == support::ended::well) break;
        BOOST_REQUIRE((how == support::ended::killed));
        ++killed;
        auto const open = open_slices(events_in(file));
        BOOST_REQUIRE(open.size() == 1u);
        BOOST_TEST(open.begin()->second.front() == "save");
        BOOST_TEST(open.begin()->second.size() == 2u);  // and a phase
    }
    BOOST_TEST(killed > 5);
}

/// A disk that is full loses events, and nothing else; with space again, more follow.
BOOST_AUTO_TEST_CASE(a_full_disk_leaves_what_was_written) {
    support::scratch const at;
    auto const file = at.dir / "trace.json";
    auto const how = support::in_process([&] {
        ::signal(SIGXFSZ, SIG_IGN);
        cairn::trace_file trace(file.string());
        auto const limit = [](::rlim_t bytes) {
            ::rlimit now{};
            (void)::getrlimit(RLIMIT_FSIZE, &now);
            now.rlim_cur = std::min(bytes, now.rlim_max);
            if (::setrlimit(RLIMIT_FSIZE, &now) != 0) throw std::runtime_error("no limit");
        };
        made_events e(trace, 1);
        e.begin(0);
        limit(1000);  // in the middle of an event
        int failed = 0;
        for (int t = 1; t < 20; ++t) {
            try {
                e.phase("write", 10 * t);
                e.phase_end(10 * t + 1);
            } catch (const cairn::error& x) {
                if (x.code() != make_error_code(cairn::errc::io)) throw;
                ++failed;
            }
            (void)events_in(file);
        }
        if (failed < 5) throw std::runtime_error("it did not fail");
        auto const before = events_in(file).size();
        limit(RLIM_INFINITY);
        e.end(1000);
        if (events_in(file).size() != before + 1) throw std::runtime_error("not the last event");
    });
    BOOST_TEST((how == support::ended::well));
}

BOOST_AUTO_TEST_CASE(a_place_that_cannot_be_written_is_an_error_at_once) {
    support::scratch const at;
    auto const file = (at.dir / "missing" / "trace.json").string();
    BOOST_CHECK_EXCEPTION(cairn::trace_file{file}, cairn::error, [&](auto const& e) {
        return e.code() == make_error_code(cairn::errc::io) && e.context().file == file &&
               !e.context().remedy.empty();
    });
    if (std::filesystem::exists("/dev/full"))
        BOOST_CHECK_THROW(cairn::trace_file("/dev/full"), cairn::error);
}

BOOST_AUTO_TEST_SUITE_END()
