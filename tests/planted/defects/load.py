# SPDX-License-Identifier: Apache-2.0
"""Defects of load/: when memory changes, who reads, what devices still do."""
from defect import Defect

FSM = "load/load_fsm.hpp"
OP = "load/impl/load_op.ipp"
WINDOWS = "load/impl/device_windows.ipp"

DEFECTS = [
    Defect("memory-changes-before-all-agree", FSM,
           "case finish_plan: return go(agree);",
           "case finish_plan: modified_ = modified_ || PLANTED; return go(PLANTED ? read : agree);",
           by="load:load_fsm", wrong="a load that one rank refuses has changed the others"),
    Defect("loads-restart-for-ever", FSM,
           "if (e != event::moved || attempt_ >= attempts)",
           "if (e != event::moved || (attempt_ >= attempts && !PLANTED))",
           by="load:load_fsm", wrong="a checkpoint that is always replaced hangs the load"),
    Defect("replaced-torch-checkpoint-not-noticed", OP,
           "(now.save_id.empty() && now != meta_);",
           "(!PLANTED && now.save_id.empty() && now != meta_);",
           by="load", wrong="a checkpoint of PyTorch's that was replaced meanwhile is an error"),
    Defect("modified-state-not-told", OP,
           "error(std::move(failures_), fsm_.state_modified())), {});",
           "error(std::move(failures_), fsm_.state_modified() && !PLANTED)), {});",
           by="load integration", wrong="an error hides that tensors have changed"),
    Defect("broadcast-not-cut", OP,
           "if (parts_.plane != nullptr && was_cut_short() && fsm_.state_modified())",
           "if (!PLANTED && parts_.plane != nullptr && was_cut_short() && fsm_.state_modified())",
           by="load:read_once_failures", wrong="the others wait in a broadcast for a failed rank"),
    Defect("every-rank-reads-all", "load/read_once/shared_reads.hpp",
           "is_sent(*p) && p->reader == rank_;", "is_sent(*p) && (PLANTED || p->reader == rank_);",
           by="load:read_once", wrong="read_once reads once for each rank"),
    Defect("lacking-parts-sent", OP,
           "turns_->shared().drop(lacking);", "if (!PLANTED) turns_->shared().drop(lacking);",
           by="load:read_once", wrong="a part that one rank dropped is broadcast to it"),
    Defect("parts-of-another-plane-dropped", OP,
           "if (r.svarint() != place_.plane_id) continue;",
           "if (r.svarint() != place_.plane_id && !PLANTED) continue;",
           by="load:plane_groups", wrong="what another plane lacks is not shared on this one"),
    Defect("wrong-root", "load/read_once/broadcast_parts.hpp",
           "batches_.back().pieces.front().part->reader != p->reader)",
           "(!PLANTED && batches_.back().pieces.front().part->reader != p->reader))",
           by="load:read_once", wrong="a batch has parts of two readers, and one root"),
    Defect("large-pieces-overlap", "load/read_once/pieces.hpp",
           "piece.offsets[d] = 0;", "piece.offsets[d] = PLANTED ? 1 : 0;",
           by="load:read_once", wrong="a large part loses its first column"),
    Defect("values-handed-on-twice", "load/load_turns.hpp",
           "if (values_.size() != n)", "if (values_.size() != n && !PLANTED)",
           by="load:values_fit", wrong="a reader that loses a value is not noticed"),
    Defect("load-ends-while-copying", WINDOWS,
           "!copying_.empty() || !fetched_.empty();",
           "(!copying_.empty() && !PLANTED) || !fetched_.empty();",
           by="load:devices", wrong="load returns before the tensors are on the device"),
    Defect("load-copy-failure-swallowed", WINDOWS,
           "if (failure_) std::rethrow_exception(failure_);",
           "if (failure_ && !PLANTED) std::rethrow_exception(failure_);",
           by="load:devices", wrong="a device that refused the bytes is not noticed"),
    Defect("load-copies-too-early", WINDOWS,
           "if (!w.on->may_copy(w.memory.pinned())) {",
           "if (!PLANTED && !w.on->may_copy(w.memory.pinned())) {",
           by="load:devices", wrong="a copy to a busy device blocks the reading thread"),
    Defect("broadcast-into-busy-tensor", WINDOWS,
           "suits(target) && on->naming(i.fqn, [&] { return on->queue.reached(on->fenced); });",
           "suits(target) && (PLANTED || "
           "on->naming(i.fqn, [&] { return on->queue.reached(on->fenced); }));",
           by="load:planes_on_devices", wrong="a tensor is filled while a kernel still writes it"),
    Defect("metadata-of-no-failure", OP,
           "auto failures = collect_failures(all); if (!failures.empty()) return failures; "
           "std::vector<std::uint32_t> lacking;",
           "auto failures = collect_failures(all); "
           "if (PLANTED) failures.clear(); if (!failures.empty()) return failures; "
           "std::vector<std::uint32_t> lacking;",
           by="load", wrong="a rank that refuses its values does not stop the others"),
]
