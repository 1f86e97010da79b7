// SPDX-License-Identifier: Apache-2.0
// Verbs that were given no communicator: in a process of a launcher that is an error.
#include "support/dying_store.hpp"
#include "support/set_variable.hpp"

#include <cairn/async_load.hpp>
#include <cairn/async_save.hpp>
#include <cairn/cairn.hpp>
#include <cairn/comm/any_communicator.hpp>
#include <cairn/comm/detail/omitted.hpp>
#include <cairn/comm/tcp_group.hpp>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(omitted)

using cairn::errc;
using support::set_variable;

namespace {

using variables = std::map<std::string, std::string>;

cairn::detail::environment reader(const variables& v) {
    return [v](const char* name) -> std::optional<std::string> {
        auto const it = v.find(name);
        if (it == v.end()) return {};
        return it->second;
    };
}
std::string failure_of(const variables& v) {
    try {
        (void)cairn::detail::omitted_communicator(reader(v));
        return {};
    } catch (const cairn::error& e) {
        BOOST_TEST((e.code() == cairn::make_error_code(errc::invalid_argument)));
        return e.what();
    }
}
bool contains(const std::string& all, const std::string& part) {
    return all.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_omitted_group_is_an_error_where_a_launcher_has_started_several) {
    for (auto const& [launcher, v] : std::vector<std::pair<std::string, variables>>{
             {"Open MPI", {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}}},
             {"cairn launch", {{"CAIRN_RANK", "0"}, {"CAIRN_WORLD_SIZE", "2"}}},
             {"torchrun", {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_PORT", "29500"}}},
             {"Slurm", {{"SLURM_PROCID", "3"}, {"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "8"}}}}) {
        auto const said = failure_of(v);
        BOOST_TEST((contains(said, launcher) && contains(said, "cairn::solo()") &&
                    contains(said, "tcp_group::from_environment()")),
                   said);
        for (auto const& [name, value] : v) {
            if (name == "MASTER_PORT" || name == "SLURM_STEP_ID") continue;
            BOOST_TEST(contains(said, name + "=" + value), said);
        }
    }
    // One rank alone, no launcher, and half of one.
    for (auto const& v : {variables{},
                          {{"CAIRN_RANK", "0"}, {"CAIRN_WORLD_SIZE", "1"}},
                          {{"RANK", "1"}, {"WORLD_SIZE", "4"}},
                          {{"CAIRN_RANK", "1"}},
                          {{"OMPI_COMM_WORLD_RANK", "x"}, {"OMPI_COMM_WORLD_SIZE", "4"}}})
        BOOST_TEST(failure_of(v) == "");
}

BOOST_AUTO_TEST_CASE(variables_that_are_not_enough_for_a_group_are_named) {
    using cairn::detail::launch_environment;
    auto const unused = [](const variables& v) {
        return launch_environment::unused_variables(reader(v));
    };
    BOOST_TEST(unused({{"RANK", "1"}, {"WORLD_SIZE", "4"}}) == "RANK=1, WORLD_SIZE=4");
    BOOST_TEST(unused({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}) == "PMI_RANK=0, PMI_SIZE=2");
    BOOST_TEST(unused({{"CAIRN_RANK", "3"}}) == "CAIRN_RANK=3");
    BOOST_TEST(unused({{"RANK", "0"}, {"WORLD_SIZE", "1"}}) == "");
    BOOST_TEST(unused({{"RANK", "private"}, {"WORLD_SIZE", "first class"}}) == "");
    BOOST_TEST(unused({}) == "");
}

/// The warning is given once in a process, so each verb gets a process of its own; and before any
/// other case has had it.
BOOST_AUTO_TEST_CASE(every_verb_warns_of_an_omitted_group) {
    cairn::memory_store store;
    std::vector<float> w{1, 2, 3};
    cairn::state_dict sd{{"w", w}};
    (void)cairn::save(sd, "c", store, cairn::solo());
    auto const in_background = [&](auto&&... communicator) {
        boost::asio::io_context io;
        cairn::save_report report;
        cairn::async_save(
            sd, "c", store, communicator...,
            boost::asio::bind_executor(io, [&](const std::exception_ptr& e, cairn::pending_save p) {
                if (e) std::rethrow_exception(e);
                report = p.wait();
            }));
        io.run();
        return report.warnings;
    };
    std::vector<std::pair<const char*, std::function<std::vector<std::string>()>>> const verbs{
        {"save", [&] { return cairn::save(sd, "c", store).warnings; }},
        {"save with a group of one",
         [&] {
             auto found = cairn::tcp_group::from_environment();
             return cairn::save(sd, "c", store, found).warnings;
         }},
        {"async_save", [&] { return in_background(); }},
        {"async_save with a group of one",
         [&] {
             auto found = cairn::tcp_group::from_environment();
             return in_background(found);
         }},
        {"load", [&] { return cairn::load(sd, "c", store).warnings; }}};
    for (auto const& [name, verb] : verbs) {
        auto const how = support::in_process([&, ask = verb] {
            set_variable const rank("RANK", "1"), size("WORLD_SIZE", "2");
            auto const warnings = ask();
            if (warnings.size() != 1 || !contains(warnings[0], "RANK=1, WORLD_SIZE=2"))
                throw std::runtime_error(std::to_string(warnings.size()) + " warnings");
        });
        BOOST_TEST((how == support::ended::well), name);
    }
}

BOOST_AUTO_TEST_CASE(every_verb_refuses_an_omitted_group_of_several) {
    cairn::memory_store store;
    std::vector<float> w{1, 2, 3};
    cairn::state_dict sd{{"w", w}};
    cairn::save(sd, "c", store, cairn::solo());
    {
        set_variable const rank("CAIRN_RANK", "1"), size("CAIRN_WORLD_SIZE", "2");
        auto const refused = [](const cairn::error& e) {
            return e.code() == cairn::make_error_code(errc::invalid_argument) &&
                   contains(e.what(), "CAIRN_WORLD_SIZE=2");
        };
        BOOST_CHECK_EXCEPTION(cairn::save(sd, "c", store), cairn::error, refused);
        BOOST_CHECK_EXCEPTION(cairn::load(sd, "c", store), cairn::error, refused);
        BOOST_CHECK_EXCEPTION(cairn::async_save(sd, "c", store, boost::asio::use_future).get(),
                              cairn::error, refused);
        BOOST_CHECK_EXCEPTION(cairn::async_load(sd, "c", store, boost::asio::use_future).get(),
                              cairn::error, refused);
        // One process is meant.
        BOOST_CHECK_NO_THROW(cairn::save(sd, "c", store, cairn::solo()));
        cairn::solo one;
        BOOST_CHECK_NO_THROW(cairn::load(sd, "c", store, one));
    }
    set_variable const rank("RANK", "1"), size("WORLD_SIZE", "2");
    BOOST_TEST(cairn::save(sd, "c", store, cairn::solo()).warnings.empty());
    // A group of one that was made because nothing better was found.
    cairn::any_communicator found(cairn::tcp_group::from_environment());
    BOOST_TEST(found.size() == 1);
    auto const report = cairn::load(sd, "c", store, found);
    BOOST_REQUIRE(report.warnings.size() == 1u);
    BOOST_TEST((contains(report.warnings[0], "RANK=1, WORLD_SIZE=2") &&
                contains(report.warnings[0], "OMPI_COMM_WORLD_RANK") &&
                contains(report.warnings[0], "cairn::solo()")),
               report.warnings[0]);
    BOOST_TEST(cairn::save(sd, "c", store).warnings.empty());  // once
}

BOOST_AUTO_TEST_SUITE_END()
