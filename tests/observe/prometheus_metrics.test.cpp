// SPDX-License-Identifier: Apache-2.0
// The metrics, read by a parser of the text format that refuses what Prometheus would.
#include "made_events.hpp"
#include "support/scratch.hpp"

#include <cairn/error.hpp>
#include <cairn/observe/prometheus_metrics.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>

BOOST_AUTO_TEST_SUITE(prometheus_metrics)

/// Name with labels -> value. @throws for a line that is not of the format, a sample whose family
/// was not described before it, one that stands twice, or a family in two places.
std::map<std::string, double> parse(const std::string& text) {
    static std::regex const head(R"(# (HELP|TYPE) ([a-z_]+) (.+))"),
        sample(R"(([a-z_]+)\{([a-z]+="[^"\\]*"(,[a-z]+="[^"\\]*")*)\} ([0-9.]+))");
    std::map<std::string, double> samples;
    std::map<std::string, std::string> types;
    std::string family;
    if (text.empty() || text.back() != '\n') throw std::runtime_error("no end of the last line");
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
        std::smatch m;
        if (std::regex_match(line, m, head)) {
            family = m[2];
            if (m[1] == "TYPE" && !types.emplace(family, m[3]).second)
                throw std::runtime_error("twice: " + line);
        } else if (std::regex_match(line, m, sample)) {
            std::string const name = m[1];
            bool const parts = types.at(family) == "summary" &&
                               (name == family + "_sum" || name == family + "_count");
            if (name != family && !parts) throw std::runtime_error("another family: " + line);
            if (types.at(family) == "counter" && !name.ends_with("_total"))
                throw std::runtime_error("a counter's name: " + line);
            if (!samples.emplace(name + '{' + m[2].str() + '}', std::stod(m[4])).second)
                throw std::runtime_error("twice: " + line);
        } else {
            throw std::runtime_error("no line of the format: " + line);
        }
    }
    return samples;
}
std::string content(const std::filesystem::path& p) {
    std::ifstream in(p);
    return {std::istreambuf_iterator<char>(in), {}};
}

BOOST_AUTO_TEST_CASE(metrics_count_verbs_phases_and_bytes) {
    cairn::prometheus_metrics const m;
    BOOST_TEST(parse(m.text()).empty());
    for (std::uint64_t n = 0; n < 2; ++n) {
        made_events e(m, n, 3, 8, "an \"id\"\n");
        e.begin(0);
        BOOST_TEST(parse(m.text()).at(R"(cairn_operations_running{verb="save",rank="3"})") == 1);
        e.phase("write", 100);
        e.progress(500, 1000, 150);
        e.progress(1000, 1000, 200);
        e.phase_end(1600);
        e.end(2000);
    }
    made_events failed(m, 3, 3, 8);
    failed.begin(0);
    failed.phase("plan for all", 0);
    failed.phase_end(1);
    failed.end(500, std::make_exception_ptr(1));
    auto const s = parse(m.text());
    BOOST_TEST(s.at(R"(cairn_operations_running{verb="save",rank="3"})") == 0);
    BOOST_TEST(s.at(R"(cairn_operations_failed_total{verb="save",rank="3"})") == 1);
    BOOST_TEST(s.at(R"(cairn_operation_seconds_count{verb="save",rank="3"})") == 3);
    BOOST_TEST(s.at(R"(cairn_operation_seconds_sum{verb="save",rank="3"})") == 4.5);
    BOOST_TEST(s.at(R"(cairn_last_success_timestamp_seconds{verb="save",rank="3"})") > 1.7e9);
    BOOST_TEST(s.at(R"(cairn_phase_seconds_sum{verb="save",rank="3",phase="write"})") == 3);
    BOOST_TEST(s.at(R"(cairn_phase_seconds_count{verb="save",rank="3",phase="write"})") == 2);
    BOOST_TEST(s.at(R"(cairn_phase_bytes_total{verb="save",rank="3",phase="write"})") == 2000);
    BOOST_TEST(s.at(R"(cairn_phase_bytes_total{verb="save",rank="3",phase="plan for all"})") == 0);
    BOOST_TEST(s.size() == 11u);
}

/// A collector sees a whole file, at any time, and nothing beside it.
BOOST_AUTO_TEST_CASE(the_file_is_replaced_whole) {
    support::scratch const at;
    auto const file = at.dir / "cairn.prom";
    cairn::prometheus_metrics const m(file.string());
    BOOST_TEST(parse(content(file)).empty());
    std::atomic<bool> over{false};
    std::string problem;
    std::thread collector([&] {
        try {
            while (!over) (void)parse(content(file));
        } catch (const std::exception& e) {
            problem = e.what();
        }
    });
    for (std::uint64_t n = 0; n < 100; ++n) {
        made_events e(m, n, static_cast<int>(n % 50));
        e.begin(0);
        e.phase("write", 0);
        e.phase_end(10);
        e.end(20);
    }
    over = true;
    collector.join();
    BOOST_TEST(problem == "");
    BOOST_TEST(content(file) == m.text());
    BOOST_TEST(std::distance(std::filesystem::directory_iterator(at.dir), {}) == 1);
}

BOOST_AUTO_TEST_CASE(a_place_that_cannot_be_written_is_an_error_at_once) {
    support::scratch const at;
    auto const file = (at.dir / "missing" / "cairn.prom").string();
    BOOST_CHECK_EXCEPTION(cairn::prometheus_metrics{file}, cairn::error, [&](auto const& e) {
        return e.code() == make_error_code(cairn::errc::io) && e.context().file.find(file) == 0 &&
               !e.context().remedy.empty();
    });
    // Later it is an exception for the operation to survive, and nothing is left beside the file.
    auto const there = at.dir / "there";
    std::filesystem::create_directory(there);
    cairn::prometheus_metrics const m((there / "cairn.prom").string());
    std::filesystem::remove(there / "cairn.prom");
    std::filesystem::create_directory(there / "cairn.prom");
    made_events e(m, 1);
    BOOST_CHECK_THROW(e.begin(0), cairn::error);
    BOOST_TEST(std::distance(std::filesystem::directory_iterator(there), {}) == 1);
}

BOOST_AUTO_TEST_SUITE_END()
