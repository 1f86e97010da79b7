// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CAIRN_HPP
#define CAIRN_CAIRN_HPP

// What most programs need; everything else has a header of its own, listed in docs/building.md.
#include <cairn/comm/communicator_data_plane.hpp>
#include <cairn/comm/solo.hpp>
#include <cairn/comm/thread_group.hpp>
#include <cairn/error.hpp>
#include <cairn/load.hpp>
#include <cairn/load_tree.hpp>
#include <cairn/models.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/object_store/prefixed.hpp>
#include <cairn/planner/default_planner.hpp>
#include <cairn/save.hpp>
#include <cairn/state/state_dict.hpp>
#include <cairn/state/stateful.hpp>
#include <cairn/storage/torch_reader.hpp>
#include <cairn/storage/torch_writer.hpp>
#include <cairn/tensor/block_cyclic.hpp>
#include <cairn/tensor/containers.hpp>
#include <cairn/tensor/local_layout.hpp>
#include <cairn/tensor/mesh.hpp>
#include <cairn/tensor/sharded_tensor.hpp>

#endif
