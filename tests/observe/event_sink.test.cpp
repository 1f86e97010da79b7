// SPDX-License-Identifier: Apache-2.0
// What every sink promises: each of the library's, and what a list makes of several.
#include "archetype/event_sink.hpp"
#include "recorder.hpp"
#include "support/no_failures.hpp"
#include "support/scratch.hpp"

#include <cairn/observe/progress_line.hpp>
#include <cairn/observe/prometheus_metrics.hpp>
#include <cairn/observe/sink_list.hpp>
#include <cairn/observe/trace_file.hpp>
#include <cairn/testing/event_sink.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

BOOST_AUTO_TEST_SUITE(event_sink)

template <class S>
void keeps_its_promises(const S& sink) {
    support::no_failures(cairn::testing::event_sink_suite(sink));
}

BOOST_AUTO_TEST_CASE(sinks_of_the_library_keep_their_promises) {
    support::scratch const at;
    for (int columns : {0, 1, 2, 40, 1000})
        keeps_its_promises(cairn::progress_line(
            {.after = std::chrono::milliseconds(0), .plain_interval = std::chrono::milliseconds(1)},
            {[columns] { return columns; }, [](std::string_view) {}}));
    keeps_its_promises(cairn::trace_file((at.dir / "trace.json").string()));
    keeps_its_promises(cairn::prometheus_metrics());
    keeps_its_promises(cairn::prometheus_metrics((at.dir / "cairn.prom").string()));
    keeps_its_promises(cairn::sink_list());
    recorder all;
    cairn::sink_list list;
    list.add(all);
    list.add(cairn::prometheus_metrics());
    keeps_its_promises(list);
    BOOST_TEST(all.problem() == "");
    keeps_its_promises(cairn::archetype::event_sink(std::make_shared<std::atomic<int>>(0)));
}

struct throwing_sink {
    void notify(const cairn::verb_event&) { throw std::runtime_error("a sink's own"); }
};
BOOST_AUTO_TEST_CASE(the_suite_reports_what_throws) {
    auto const failures = cairn::testing::event_sink_suite(throwing_sink());
    BOOST_REQUIRE(failures.size() >= 6u);
    BOOST_TEST(failures.front() == "one rank: a sink's own");
}

/// One that throws keeps nothing from the others, wherever it stands.
BOOST_AUTO_TEST_CASE(a_list_notifies_all) {
    recorder before, after;
    cairn::sink_list list, copy(list);
    list.add(before);
    list.add(throwing_sink());
    list.add(after);
    cairn::verb_event const e{.phase = "x"};
    BOOST_CHECK_THROW(copy.notify(e), std::runtime_error);
    BOOST_TEST(before.all().size() == 1u);
    BOOST_TEST(after.all().size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
