// SPDX-License-Identifier: Apache-2.0
#include <cairn/detail/usable_cpus.hpp>

#include "support/scratch.hpp"

#include <boost/test/unit_test.hpp>

#include <sched.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(usable_cpus)

using cairn::detail::cgroup_cpus;

namespace {

/// A /proc and /sys of a test's own.
std::optional<unsigned> cpus_of(const std::vector<std::pair<std::string, std::string>>& files) {
    support::scratch const root;
    for (auto const& [name, content] : files) {
        auto const at = root.dir / name;
        std::filesystem::create_directories(at.parent_path());
        std::ofstream(at) << content;
    }
    return cgroup_cpus(root.dir.string());
}

std::string const self = "proc/self/cgroup", v2 = "sys/fs/cgroup/", max = "cpu.max";

}  // namespace

BOOST_AUTO_TEST_CASE(the_smallest_quota_up_the_hierarchy_counts) {
    BOOST_TEST(!cpus_of({}).has_value());
    BOOST_TEST(!cpus_of({{self, "0::/a/b\n"}}).has_value());
    BOOST_TEST(!cpus_of({{self, "0::/a/b\n"}, {v2 + "a/b/" + max, "max 100000\n"}}).has_value());
    BOOST_TEST(*cpus_of({{self, "0::/a/b\n"}, {v2 + "a/b/" + max, "400000 100000\n"}}) == 4u);
    BOOST_TEST(*cpus_of({{self, "0::/a/b\n"},
                         {v2 + "a/b/" + max, "400000 100000\n"},
                         {v2 + "a/" + max, "200000 100000\n"}}) == 2u);
    BOOST_TEST(*cpus_of({{self, "0::/a/b\n"},
                         {v2 + "a/b/" + max, "100000 100000\n"},
                         {v2 + "a/" + max, "max 100000\n"}}) == 1u);
    // A container that sees its own group only.
    BOOST_TEST(*cpus_of({{self, "0::/\n"}, {v2 + max, "300000 100000\n"}}) == 3u);
    BOOST_TEST(*cpus_of({{self, "0::/docker/1a2b\n"}, {v2 + max, "300000 100000\n"}}) == 3u);
}

BOOST_AUTO_TEST_CASE(a_part_of_a_cpu_is_one) {
    BOOST_TEST(*cpus_of({{self, "0::/\n"}, {v2 + max, "50000 100000\n"}}) == 1u);
    BOOST_TEST(*cpus_of({{self, "0::/\n"}, {v2 + max, "150000 100000\n"}}) == 2u);
}

BOOST_AUTO_TEST_CASE(a_quota_of_version_1_is_in_two_files) {
    std::string const lines = "5:memory:/x\n4:cpu,cpuacct:/a/b\n0::/\n";
    for (std::string const mount : {"cpu", "cpu,cpuacct"}) {
        auto const at = v2 + mount + "/a/";
        BOOST_TEST(*cpus_of({{self, lines},
                             {at + "b/cpu.cfs_quota_us", "-1\n"},
                             {at + "b/cpu.cfs_period_us", "100000\n"},
                             {at + "cpu.cfs_quota_us", "250000\n"},
                             {at + "cpu.cfs_period_us", "100000\n"}}) == 3u);
    }
}

BOOST_AUTO_TEST_CASE(what_cannot_be_read_is_no_quota) {
    for (auto const* text : {"", "max", "x y", "0 0", "-5 100000", "100000"})
        BOOST_TEST(!cpus_of({{self, "0::/\n"}, {v2 + max, text}}).has_value(), text);
    for (auto const* text : {"", "0", "0::", "::\n", "0:::\n", "x\n"})
        BOOST_TEST(!cpus_of({{self, text}, {v2 + max, "100000 100000"}}).has_value(), text);
}

BOOST_AUTO_TEST_CASE(a_list_of_cpus_is_counted) {
    BOOST_TEST(cairn::detail::count_cpus("0") == 1u);
    BOOST_TEST(cairn::detail::count_cpus("0-3\n") == 4u);
    BOOST_TEST(cairn::detail::count_cpus("0-3,8,10-11") == 7u);
    for (auto const* text : {"", "x", "3-1", "1-", "0,x"})
        BOOST_TEST(cairn::detail::count_cpus(text) == 0u, text);
}

BOOST_AUTO_TEST_CASE(a_mask_of_one_cpu_is_not_the_host) {
    cpu_set_t before, one;
    BOOST_REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &before)) ++cpu;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    BOOST_REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
    auto const found = cairn::detail::usable_cpus::of_process();
    BOOST_TEST(::sched_setaffinity(0, sizeof before, &before) == 0);
    BOOST_TEST(found.count == 1u);
    if (CPU_COUNT(&before) > 1) BOOST_TEST(!found.whole_host);
}

BOOST_AUTO_TEST_SUITE_END()
