// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SRC_HPP
#define CAIRN_SRC_HPP

// The definitions that `CAIRN_SEPARATE_COMPILATION` leaves out of every other file. One file of a
// program includes this header, and takes as long to compile as all of cairn. Alternatively, that
// file is compiled `CAIRN_SRC_UNITS` times, with `CAIRN_SRC_UNIT` defined as 1, 2 and so on: each
// unit takes part of the time and memory.
#include <cairn/detail/config.hpp>

#ifndef CAIRN_SEPARATE_COMPILATION
#error cairn/src.hpp is for programs that are compiled with -DCAIRN_SEPARATE_COMPILATION
#endif

#define CAIRN_SRC_UNITS 7
#ifndef CAIRN_SRC_UNIT
#define CAIRN_SRC_UNIT 0  // all
#elif CAIRN_SRC_UNIT < 1 || CAIRN_SRC_UNIT > CAIRN_SRC_UNITS
#error CAIRN_SRC_UNIT must be one of 1 to CAIRN_SRC_UNITS
#endif

#if CAIRN_SRC_UNIT == 1 || CAIRN_SRC_UNIT == 0
#include <cairn/comm/impl/communicator_data_plane.ipp>
#include <cairn/comm/impl/launch_environment.ipp>
#include <cairn/comm/impl/omitted.ipp>
#include <cairn/comm/impl/solo.ipp>
#include <cairn/comm/impl/split.ipp>
#include <cairn/comm/impl/tcp_group.ipp>
#include <cairn/comm/impl/thread_group.ipp>
#include <cairn/comm/impl/tree_group.ipp>
#include <cairn/comm/impl/unique_id.ipp>
#include <cairn/detail/impl/context_gate.ipp>
#include <cairn/detail/impl/error.ipp>
#include <cairn/detail/impl/failures.ipp>
#include <cairn/detail/impl/forks.ipp>
#include <cairn/detail/impl/parallel.ipp>
#include <cairn/detail/impl/usable_cpus.ipp>
#include <cairn/memory/impl/arena.ipp>
#include <cairn/memory/impl/copy_to_host.ipp>
#include <cairn/memory/impl/memory_spaces.ipp>
#include <cairn/memory/impl/piecewise_copy.ipp>
#include <cairn/observe/impl/observation.ipp>
#include <cairn/observe/impl/progress_line.ipp>
#include <cairn/observe/impl/progress_text.ipp>
#include <cairn/observe/impl/prometheus_metrics.ipp>
#include <cairn/observe/impl/text_file.ipp>
#include <cairn/observe/impl/trace_file.ipp>
#endif

#if CAIRN_SRC_UNIT == 2 || CAIRN_SRC_UNIT == 0
#include <cairn/object_store/impl/cached_reads.ipp>
#include <cairn/object_store/impl/direct_reads.ipp>
#include <cairn/object_store/impl/direct_writes.ipp>
#include <cairn/object_store/impl/file.ipp>
#include <cairn/object_store/impl/file_handles.ipp>
#include <cairn/object_store/impl/file_system.ipp>
#include <cairn/object_store/impl/memory.ipp>
#include <cairn/object_store/impl/names.ipp>
#include <cairn/object_store/impl/page_cache.ipp>
#include <cairn/object_store/impl/posix_file.ipp>
#include <cairn/object_store/impl/removed_space.ipp>
#include <cairn/object_store/impl/replace_file.ipp>
#include <cairn/object_store/impl/write_back.ipp>
#include <cairn/storage/impl/checkpoint_reader.ipp>
#include <cairn/storage/impl/chunk_reader.ipp>
#include <cairn/storage/impl/dequantised_reads.ipp>
#include <cairn/storage/impl/dequantising_reader.ipp>
#include <cairn/storage/impl/mapped_metadata.ipp>
#include <cairn/storage/impl/mapped_reader.ipp>
#include <cairn/storage/impl/mapped_reads.ipp>
#include <cairn/storage/impl/open_file.ipp>
#include <cairn/storage/impl/politeness.ipp>
#include <cairn/storage/impl/safetensors_reader.ipp>
#include <cairn/storage/impl/safetensors_writer.ipp>
#include <cairn/storage/impl/source_data.ipp>
#include <cairn/storage/impl/source_pieces.ipp>
#include <cairn/storage/impl/torch_reader.ipp>
#include <cairn/storage/impl/torch_save_reader.ipp>
#include <cairn/storage/impl/torch_save_writer.ipp>
#include <cairn/storage/impl/torch_writer.ipp>
#include <cairn/storage/impl/written_part.ipp>
#endif

#if CAIRN_SRC_UNIT == 3 || CAIRN_SRC_UNIT == 0
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
#include <cairn/planner/impl/default_planner.ipp>
#include <cairn/planner/impl/empty_state_planner.ipp>
#include <cairn/planner/impl/global_plan.ipp>
#include <cairn/planner/impl/plan_table.ipp>
#include <cairn/planner/impl/whole_values.ipp>
#endif

#if CAIRN_SRC_UNIT == 4 || CAIRN_SRC_UNIT == 0
#include <cairn/catalog/impl/committed.ipp>
#include <cairn/catalog/impl/garbage.ipp>
#include <cairn/catalog/impl/latest.ipp>
#include <cairn/catalog/impl/listing.ipp>
#include <cairn/catalog/impl/record_list.ipp>
#include <cairn/catalog/impl/recording_writer.ipp>
#include <cairn/catalog/impl/removal.ipp>
#include <cairn/catalog/impl/retention.ipp>
#include <cairn/catalog/impl/verify.ipp>
#include <cairn/catalog/impl/whole.ipp>
#include <cairn/format/impl/json.ipp>
#include <cairn/format/impl/quantised_elements.ipp>
#include <cairn/format/impl/quantised_tensors.ipp>
#include <cairn/format/impl/safetensors.ipp>
#include <cairn/format/impl/safetensors_layout.ipp>
#include <cairn/mapping/impl/check.ipp>
#include <cairn/mapping/impl/complaint.ipp>
#include <cairn/mapping/impl/digest.ipp>
#include <cairn/mapping/impl/evaluation.ipp>
#include <cairn/mapping/impl/expressions.ipp>
#include <cairn/mapping/impl/lines.ipp>
#include <cairn/mapping/impl/mapping.ipp>
#include <cairn/mapping/impl/name_list.ipp>
#include <cairn/mapping/impl/name_pattern.ipp>
#include <cairn/mapping/impl/node.ipp>
#include <cairn/mapping/impl/piece.ipp>
#include <cairn/mapping/impl/pieced_tensor.ipp>
#include <cairn/mapping/impl/ready.ipp>
#include <cairn/mapping/impl/stored_shapes.ipp>
#include <cairn/mapping/impl/text.ipp>
#include <cairn/mapping/impl/to_state.ipp>
#include <cairn/mapping/impl/to_stored.ipp>
#include <cairn/mapping/impl/unmade_names.ipp>
#include <cairn/metadata/impl/big_int.ipp>
#include <cairn/metadata/impl/check.ipp>
#include <cairn/metadata/impl/chunk_list.ipp>
#include <cairn/metadata/impl/codec.ipp>
#include <cairn/metadata/impl/coverage.ipp>
#include <cairn/metadata/impl/metadata.ipp>
#include <cairn/metadata/impl/path_like.ipp>
#include <cairn/metadata/impl/scales.ipp>
#include <cairn/metadata/impl/stored_bytes.ipp>
#include <cairn/metadata/impl/tiling.ipp>
#include <cairn/metadata/impl/value.ipp>
#include <cairn/tensor/impl/block_cyclic.ipp>
#include <cairn/tensor/impl/box.ipp>
#include <cairn/tensor/impl/convert.ipp>
#include <cairn/tensor/impl/flat_range.ipp>
#include <cairn/tensor/impl/index_vector.ipp>
#include <cairn/tensor/impl/layout.ipp>
#include <cairn/tensor/impl/local_layout.ipp>
#include <cairn/tensor/impl/mesh.ipp>
#include <cairn/tensor/impl/paired_nest.ipp>
#include <cairn/tensor/impl/runs.ipp>
#include <cairn/tensor/impl/sharded_tensor.ipp>
#endif

#if CAIRN_SRC_UNIT == 5 || CAIRN_SRC_UNIT == 0
#include <cairn/checkpointer/impl/core.ipp>
#include <cairn/checkpointer/impl/core_loads.ipp>
#include <cairn/checkpointer/impl/core_saves.ipp>
#include <cairn/checkpointer/impl/core_uploads.ipp>
#include <cairn/checkpointer/impl/plan.ipp>
#include <cairn/checkpointer/impl/recovery.ipp>
#include <cairn/checkpointer/impl/rendezvous.ipp>
#include <cairn/checkpointer/impl/schedule.ipp>
#include <cairn/checkpointer/impl/signal_watch.ipp>
#include <cairn/checkpointer/impl/stored_checkpoint.ipp>
#include <cairn/checkpointer/impl/upload_planner.ipp>
#include <cairn/checkpointer/impl/uploads.ipp>
#include <cairn/convert/impl/conversion_planner.ipp>
#include <cairn/state/impl/bytes_value.ipp>
#include <cairn/state/impl/converted.ipp>
#include <cairn/state/impl/copy_leaf.ipp>
#include <cairn/state/impl/flatten.ipp>
#include <cairn/state/impl/fqn.ipp>
#include <cairn/state/impl/key_index.ipp>
#include <cairn/state/impl/make_leaf.ipp>
#include <cairn/state/impl/node.ipp>
#include <cairn/state/impl/numbers.ipp>
#include <cairn/state/impl/older_keys.ipp>
#include <cairn/state/impl/state_dict.ipp>
#include <cairn/state/impl/unflatten.ipp>
#include <cairn/state/impl/value_traits.ipp>
#endif

#if CAIRN_SRC_UNIT == 6 || CAIRN_SRC_UNIT == 0
#include <cairn/save/impl/background_save.ipp>
#include <cairn/save/impl/change_check.ipp>
#include <cairn/save/impl/mapped_state.ipp>
#include <cairn/save/impl/plan_cache.ipp>
#include <cairn/save/impl/replica_hashes.ipp>
#include <cairn/save/impl/run_save.ipp>
#include <cairn/save/impl/save_op.ipp>
#include <cairn/save/impl/save_plans.ipp>
#include <cairn/save/impl/snapshot.ipp>
#endif

#if CAIRN_SRC_UNIT == 7 || CAIRN_SRC_UNIT == 0
#include <cairn/load/impl/background_load.ipp>
#include <cairn/load/impl/device_windows.ipp>
#include <cairn/load/impl/load_op.ipp>
#include <cairn/load/impl/run_load.ipp>
#include <cairn/verb/impl/called_verb.ipp>
#include <cairn/verb/impl/operation_thread.ipp>
#include <cairn/verb/impl/post_to.ipp>
#include <cairn/verb/impl/state_devices.ipp>
#endif

#endif
