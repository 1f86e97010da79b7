// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SRC_HPP
#define CAIRN_SRC_HPP

// What `CAIRN_SEPARATE_COMPILATION` leaves out of every other file. Included by one file of the
// program, which thereby takes as long to compile as all of cairn.
#include <cairn/detail/config.hpp>

#ifndef CAIRN_SEPARATE_COMPILATION
#error cairn/src.hpp is for programs that are compiled with -DCAIRN_SEPARATE_COMPILATION
#endif

#include <cairn/checkpointer/impl/core.ipp>
#include <cairn/checkpointer/impl/plan.ipp>
#include <cairn/checkpointer/impl/rendezvous.ipp>
#include <cairn/checkpointer/impl/schedule.ipp>
#include <cairn/checkpointer/impl/signal_watch.ipp>
#include <cairn/comm/impl/communicator_data_plane.ipp>
#include <cairn/comm/impl/launch_environment.ipp>
#include <cairn/comm/impl/omitted.ipp>
#include <cairn/comm/impl/split.ipp>
#include <cairn/comm/impl/tcp_group.ipp>
#include <cairn/comm/impl/thread_group.ipp>
#include <cairn/comm/tcp/impl/unique_id.ipp>
#include <cairn/comm/tree/impl/group.ipp>
#include <cairn/detail/impl/context_gate.ipp>
#include <cairn/detail/impl/error.ipp>
#include <cairn/detail/impl/operation_thread.ipp>
#include <cairn/detail/impl/state_devices.ipp>
#include <cairn/load/impl/background_load.ipp>
#include <cairn/load/impl/device_windows.ipp>
#include <cairn/load/impl/load_op.ipp>
#include <cairn/load/impl/run_load.ipp>
#include <cairn/memory/impl/arena.ipp>
#include <cairn/memory/impl/copy_to_host.ipp>
#include <cairn/memory/impl/memory_spaces.ipp>
#include <cairn/memory/impl/parallel.ipp>
#include <cairn/memory/impl/piecewise_copy.ipp>
#include <cairn/metadata/impl/big_int.ipp>
#include <cairn/metadata/impl/check.ipp>
#include <cairn/metadata/impl/codec.ipp>
#include <cairn/metadata/impl/coverage.ipp>
#include <cairn/metadata/impl/metadata.ipp>
#include <cairn/metadata/impl/stored_bytes.ipp>
#include <cairn/metadata/impl/tiling.ipp>
#include <cairn/metadata/impl/value.ipp>
#include <cairn/models/impl/broadcast_state.ipp>
#include <cairn/models/impl/full_params.ipp>
#include <cairn/models/impl/gather.ipp>
#include <cairn/models/impl/gather_schedule.ipp>
#include <cairn/models/impl/get_state_dict.ipp>
#include <cairn/models/impl/given_state.ipp>
#include <cairn/models/impl/match_groups.ipp>
#include <cairn/models/impl/model.ipp>
#include <cairn/models/impl/model_tensors.ipp>
#include <cairn/models/impl/optimizer.ipp>
#include <cairn/models/impl/set_state_dict.ipp>
#include <cairn/models/impl/state_change.ipp>
#include <cairn/models/impl/visited_state.ipp>
#include <cairn/object_store/impl/file.ipp>
#include <cairn/object_store/impl/memory.ipp>
#include <cairn/object_store/impl/names.ipp>
#include <cairn/object_store/impl/posix_file.ipp>
#include <cairn/object_store/impl/replace_file.ipp>
#include <cairn/object_store/impl/write_back.ipp>
#include <cairn/observe/impl/observation.ipp>
#include <cairn/observe/impl/progress_line.ipp>
#include <cairn/observe/impl/progress_text.ipp>
#include <cairn/observe/impl/prometheus_metrics.ipp>
#include <cairn/observe/impl/text_file.ipp>
#include <cairn/observe/impl/trace_file.ipp>
#include <cairn/planner/impl/default_planner.ipp>
#include <cairn/planner/impl/empty_state_planner.ipp>
#include <cairn/save/impl/background_save.ipp>
#include <cairn/save/impl/change_check.ipp>
#include <cairn/save/impl/replica_hashes.ipp>
#include <cairn/save/impl/run_save.ipp>
#include <cairn/save/impl/save_op.ipp>
#include <cairn/save/impl/snapshot.ipp>
#include <cairn/state/impl/bytes_value.ipp>
#include <cairn/state/impl/converted.ipp>
#include <cairn/state/impl/copy_leaf.ipp>
#include <cairn/state/impl/flatten.ipp>
#include <cairn/state/impl/fqn.ipp>
#include <cairn/state/impl/key_index.ipp>
#include <cairn/state/impl/make_leaf.ipp>
#include <cairn/state/impl/node.ipp>
#include <cairn/state/impl/older_keys.ipp>
#include <cairn/state/impl/state_dict.ipp>
#include <cairn/state/impl/unflatten.ipp>
#include <cairn/state/impl/value_traits.ipp>
#include <cairn/storage/impl/politeness.ipp>
#include <cairn/storage/impl/torch_reader.ipp>
#include <cairn/storage/impl/torch_writer.ipp>
#include <cairn/tensor/impl/block_cyclic.ipp>
#include <cairn/tensor/impl/box.ipp>
#include <cairn/tensor/impl/convert.ipp>
#include <cairn/tensor/impl/flat_range.ipp>
#include <cairn/tensor/impl/index_vector.ipp>
#include <cairn/tensor/impl/layout.ipp>
#include <cairn/tensor/impl/local_layout.ipp>
#include <cairn/tensor/impl/mesh.ipp>
#include <cairn/tensor/impl/padding.ipp>
#include <cairn/tensor/impl/paired_nest.ipp>
#include <cairn/tensor/impl/runs.ipp>
#include <cairn/tensor/impl/sharded_tensor.ipp>

#endif
