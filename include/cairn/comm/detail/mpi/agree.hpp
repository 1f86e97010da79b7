// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_MPI_AGREE_HPP
#define CAIRN_COMM_DETAIL_MPI_AGREE_HPP

#include <cairn/comm/detail/liveness_in_words.hpp>
#include <cairn/comm/detail/tree/topology.hpp>
#include <cairn/comm/liveness.hpp>
#include <cairn/error.hpp>

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>

namespace cairn::detail {

static_assert(MPI_VERSION >= 3, "cairn needs MPI 3.0 or newer");

inline std::string mpi_level_name(int level) {
    switch (level) {
        case MPI_THREAD_SINGLE: return "MPI_THREAD_SINGLE";
        case MPI_THREAD_FUNNELED: return "MPI_THREAD_FUNNELED";
        case MPI_THREAD_SERIALIZED: return "MPI_THREAD_SERIALIZED";
        default: return "MPI_THREAD_MULTIPLE";
    }
}
inline std::string mpi_text(int code) {
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return "MPI error";
    return {text, static_cast<std::size_t>(length)};
}
inline void mpi_check(int code, const char* what) {
    if (code != MPI_SUCCESS)
        throw error(errc::io,
                    {.expected = std::string(what) + " to succeed", .found = mpi_text(code)});
}

/// @throws error errc::invalid_argument before MPI_Init_thread and after MPI_Finalize
inline void mpi_must_run(int level) {
    int yes = 0;
    auto const init = "MPI_Init_thread(&argc, &argv, " + mpi_level_name(level) + ", &provided)";
    MPI_Initialized(&yes);
    if (yes == 0)
        throw error(errc::invalid_argument,
                    {.expected = "MPI, started with MPI_Init_thread and " + mpi_level_name(level),
                     .found = "MPI that is not initialised",
                     .remedy = "call " + init + " first"});
    MPI_Finalized(&yes);
    if (yes != 0)
        throw error(errc::invalid_argument, {.expected = "MPI, between MPI_Init_thread and "
                                                         "MPI_Finalize",
                                             .found = "MPI that is finalised",
                                             .remedy = "make the group before MPI_Finalize"});
}
/// @throws error errc::invalid_argument for a communicator without a group that contains this rank
inline void mpi_must_be_usable(MPI_Comm given, int level = MPI_THREAD_SINGLE) {
    mpi_must_run(level);
    if (given == MPI_COMM_NULL)
        throw error(errc::invalid_argument,
                    {.expected = "a communicator of which this rank is a member",
                     .found = "MPI_COMM_NULL",
                     .remedy = "make the group on the ranks that MPI_Comm_split put in it"});
    int inter = 0;
    mpi_check(MPI_Comm_test_inter(given, &inter), "MPI_Comm_test_inter");
    if (inter != 0)
        throw error(errc::invalid_argument, {.expected = "one group of ranks",
                                             .found = "an inter-communicator",
                                             .remedy = "make one of it with MPI_Intercomm_merge"});
}

/// What the ranks of a new group agreed on.
struct mpi_agreement {
    tree_topology where{};
    std::uint64_t epoch = 0;
};

/// Collective over `given`: returns on all ranks or throws on all, if MPI permits communication.
/// @param level  The MPI_THREAD_* level that the group requires.
/// @throws error errc::invalid_argument for a communicator that `mpi_group` does not accept
inline mpi_agreement mpi_agree(MPI_Comm given, int fan_in, const liveness_options& alive,
                               int level) {
    mpi_must_be_usable(given, level);
    int mine = 0, main_thread = 0;
    MPI_Query_thread(&mine);
    MPI_Is_thread_main(&main_thread);
    auto const too_low = [level](int rank, int found) {
        return error(errc::invalid_argument,
                     {.rank = rank,
                      .expected = mpi_level_name(level) + " or more",
                      .found = mpi_level_name(found),
                      .remedy = "MPI_Init_thread(&argc, &argv, " + mpi_level_name(level) +
                                ", &provided) in place of MPI_Init, on all ranks"});
    };
    mpi_agreement a;
    mpi_check(MPI_Comm_rank(given, &a.where.rank), "MPI_Comm_rank");
    mpi_check(MPI_Comm_size(given, &a.where.size), "MPI_Comm_size");
    a.where.fan_in = fan_in;
    // Below SERIALIZED, a thread other than the main one may not communicate at all.
    if (mine < MPI_THREAD_SERIALIZED && main_thread == 0) throw too_low(a.where.rank, mine);

    std::random_device random;
    auto const draw = (std::uint64_t{random()} << 32) | random();
    // max(-x) gives min(x), and so does max(~x) of numbers without a sign.
    auto const wide = [](std::int64_t x) {
        return static_cast<std::uint64_t>(x + (std::int64_t{1} << 32));
    };
    auto const number = [](auto x) { return static_cast<std::uint64_t>(x); };
    std::array<std::uint64_t, 10> said{a.where.rank == 0 ? draw : 0, wide(-mine)}, most{};
    auto at = said.begin() + 2;
    for (auto const option :
         {number(fan_in), number(alive.heartbeat_interval.count()),
          number(alive.peer_timeout.count()), number(alive.probe_timeout.count())})
        for (auto const x : {option, ~option}) *at++ = x;
    mpi_check(MPI_Allreduce(said.data(), most.data(), 10, MPI_UINT64_T, MPI_MAX, given),
              "MPI_Allreduce");
    a.epoch = most[0];
    for (int l : {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED})
        if (l < level && most[1] == wide(-l)) throw too_low(mine == l ? a.where.rank : -1, l);
    auto const check = [&](bool good, const char* expected, std::string found) {
        if (!good)
            throw error(errc::invalid_argument,
                        {.rank = a.where.rank,
                         .expected = expected,
                         .found = std::move(found),
                         .remedy = "pass the same mpi_options on all ranks"});
    };
    auto const same = [&](std::size_t first, std::size_t last) {
        return std::equal(said.begin() + first, said.begin() + last, most.begin() + first);
    };
    check(fan_in >= 1 && same(2, 4), "a fan-in of 1 or more, the same on all ranks",
          "fan-in " + std::to_string(fan_in));
    check(same(4, 10), "liveness_options that are the same on all ranks", in_words(alive));
    check_usable(alive);
    return a;
}

}  // namespace cairn::detail

#endif
