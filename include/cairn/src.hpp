// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SRC_HPP
#define CAIRN_SRC_HPP

// What `CAIRN_SEPARATE_COMPILATION` leaves out of every other file. Included by one file of the
// program, which thereby takes as long to compile as all of cairn.
#include <cairn/detail/config.hpp>

#ifndef CAIRN_SEPARATE_COMPILATION
#error cairn/src.hpp is for programs that are compiled with -DCAIRN_SEPARATE_COMPILATION
#endif

#include <cairn/comm/impl/communicator_data_plane.ipp>
#include <cairn/comm/impl/launch_environment.ipp>
#include <cairn/comm/impl/omitted.ipp>
#include <cairn/comm/impl/split.ipp>
#include <cairn/comm/impl/tcp_group.ipp>
#include <cairn/comm/impl/thread_group.ipp>
#include <cairn/comm/tcp/impl/unique_id.ipp>
#include <cairn/comm/tree/impl/group.ipp>
#include <cairn/load/impl/run_load.ipp>
#include <cairn/planner/impl/default_planner.ipp>
#include <cairn/planner/impl/empty_state_planner.ipp>
#include <cairn/save/impl/run_save.ipp>
#include <cairn/storage/impl/torch_reader.ipp>
#include <cairn/storage/impl/torch_writer.ipp>

#endif
