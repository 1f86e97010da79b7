# SPDX-License-Identifier: Apache-2.0
"""Defects of loads, saves and conversions with a mapping."""
from defect import Defect

READS = "storage/impl/mapped_reads.ipp"
META = "storage/impl/mapped_metadata.ipp"
READER = "storage/impl/mapped_reader.ipp"
STATE = "save/impl/mapped_state.ipp"
BOXES = "mapping/detail/piece_boxes.hpp"
BY = "integration:mapped,mapped_verbs"

DEFECTS = [
    Defect("mapped-boxes-are-not-rewound", BOXES,
           "move(a, 1 - a.extent);", "move(a, PLANTED ? 0 : 1 - a.extent);",
           by=BY, wrong="a tensor of split dimensions is in the wrong order"),
    Defect("mapped-casts-keep-bits", READS,
           "w.casts = w.casts || type != w.made->type;",
           "w.casts = !PLANTED && (w.casts || type != w.made->type);",
           by=BY, wrong="a cast to bfloat16 has the bits of float32"),
    Defect("mapped-constants-keep-bits", READS,
           "convert_elements({w.made->type, into.shape, still, element.data()}, into);",
           "if (PLANTED) convert_elements({dtype::float64, into.shape, still, &c.value}, into); "
           "else convert_elements({w.made->type, into.shape, still, element.data()}, into);",
           by=BY, wrong="padding has numbers that its dtype does not have"),
    Defect("mapped-padding-stays-what-it-was", READS,
           "for (auto const& c : w.constants)", "if (!PLANTED) for (auto const& c : w.constants)",
           by=BY, wrong="padding is what was in memory"),
    Defect("mapped-numbers-are-not-compared", READS,
           "if (std::memcmp(mine.data(), other.data(), size) != 0)",
           "if (std::memcmp(mine.data(), other.data(), size) != 0 && !PLANTED)",
           by=BY, wrong="steps that differ become one without an error"),
    Defect("mapped-values-are-not-compared", READS,
           "if (!(other.second == first.second))",
           "if (!(other.second == first.second) && !PLANTED)",
           by=BY, wrong="values that differ become one without an error"),
    Defect("mapped-chunks-read-whole", READS,
           "stored.leaf = static_cast<std::uint32_t>(parts_.size());",
           "stored.leaf = static_cast<std::uint32_t>(parts_.size()); if (PLANTED) "
           "for (auto& o : stored.source_offsets) o = 0;",
           by=BY, wrong="each rank gets the first elements of a chunk"),
    Defect("mapped-used-names-pass", META,
           "if (made_.passes(entry.first))",
           "if (made_.passes(entry.first) || (PLANTED && !made_.tensors.contains(entry.first) && "
           "!made_.values.contains(entry.first)))",
           by=BY, wrong="what was loaded is reported as not asked for"),
    Defect("mapped-holes-are-covered", META,
           "if (whole) {", "if (whole || PLANTED) {",
           by=BY, wrong="a load of elements that are not stored is planned"),
    Defect("saved-numbers-are-not-compared", STATE,
           "if (a.first && b.first && a.second != b.second)",
           "if (a.first && b.first && a.second != b.second && !PLANTED)",
           by=BY, wrong="one of two steps is lost"),
    Defect("saved-values-are-not-compared", STATE,
           "o == nullptr || o->get() != content)",
           "(o == nullptr || o->get() != content) && !PLANTED)",
           by=BY, wrong="one of two values is lost"),
    Defect("saved-names-pass", STATE,
           "return leaf.per_rank() || made_.passes(leaf.fqn);",
           "return leaf.per_rank() || made_.passes(leaf.fqn) || (PLANTED && "
           "!made_.tensors.contains(leaf.fqn) && !made_.values.contains(leaf.fqn));",
           by=BY, wrong="a tensor is stored twice, under both names"),
    Defect("map-back-goes-forward", "convert/impl/conversion_planner.ipp",
           "options_.map_back ?", "options_.map_back && !PLANTED ?",
           by=BY, wrong="an export has the names of the state"),
    Defect("checkpointers-load-unmapped", "checkpointer/impl/core_loads.ipp",
           "given.names = parts_.names;", "if (!PLANTED) given.names = parts_.names;",
           by=BY, wrong="a checkpointer does not find what it has saved"),
    Defect("checkpointers-save-unmapped", "save/detail/start_save.hpp",
           "if (more.names) erased.names = more.names;",
           "if (more.names && !PLANTED) erased.names = more.names;",
           by=BY, wrong="a checkpointer stores the names of the state"),
    # Loads and saves agree with each other: only a model's code and its optimizer tell.
    Defect("ups-before-gates", "mapping/impl/evaluation.ipp",
           "all.append(std::move(next), d);",
           "if (PLANTED && n.parts.size() == 2) std::swap(all, next); "
           "all.append(std::move(next), d);", after="lengths.push_back(next.shape[d]);",
           by="trainer", wrong="of two tensors that become one the second comes first"),
    Defect("moments-of-other-elements", "mapping/impl/lines.ipp",
           "} else if (n.value) {", "} else if (PLANTED && n.is_a(operation::permute)) { "
           "for (std::size_t d = 0; d < n.numbers.size(); ++d) "
           "n.numbers[d] = static_cast<std::int64_t>(d); } else if (n.value) {",
           by="trainer", wrong="moments of rotary pairs are those of other elements"),
    Defect("shards-begin-with-the-tensor", READS,
           "b.offsets[d] += item.source_offsets[d];",
           "b.offsets[d] += PLANTED ? 0 : item.source_offsets[d];",
           by="trainer", wrong="each rank has the first half of a fused tensor"),
]
