# SPDX-License-Identifier: Apache-2.0
"""Defects of saves as safetensors files, and of the steps in which they appear."""
from defect import Defect

LAYOUT = "format/impl/safetensors_layout.ipp"
PLACE = "storage/detail/working_place.hpp"
ENDED = "storage/detail/ended_places.hpp"
SHARES = "storage/detail/target_shares.hpp"
ASSEMBLY = "storage/detail/target_assembly.hpp"
FILES = "storage/detail/target_files.hpp"
WRITER = "storage/detail/target_writer.hpp"
BY = "storage:safetensors_writing"
COMMIT = "storage:safetensors_commit"
OPTIONS = "storage:safetensors_options"

DEFECTS = [
    Defect("dtypes-in-order-of-names", LAYOUT,
           "return std::tie(b.entry, a.tensor->fqn) < std::tie(a.entry, b.tensor->fqn);",
           "return PLANTED ? a.tensor->fqn < b.tensor->fqn : "
           "std::tie(b.entry, a.tensor->fqn) < std::tie(a.entry, b.tensor->fqn);",
           by="format:safetensors_layout", wrong="elements are not aligned"),
    Defect("header-of-any-length", LAYOUT,
           "json.append((8 - json.size() % 8) % 8, ' ');",
           "if (!PLANTED) json.append((8 - json.size() % 8) % 8, ' ');",
           by="format:safetensors_layout", wrong="elements are not aligned"),
    Defect("large-tensor-beside-others", LAYOUT,
           "if (n > max_size) {", "if (n > max_size && !PLANTED) {",
           by="format:safetensors_layout", wrong="files are filled as nobody else fills them"),
    Defect("halves-of-bytes-uncounted", LAYOUT,
           "if (d + 1 == t.shape.size() && entries[i]->bits < 8) n *= 8 / entries[i]->bits;",
           "if (d + 1 == t.shape.size() && entries[i]->bits < 8 && !PLANTED) "
           "n *= 8 / entries[i]->bits;",
           by="format:safetensors_layout", wrong="packed tensors have half their elements"),
    Defect("run-of-the-first-row", "storage/detail/box_runs.hpp",
           "index += static_cast<std::int64_t>(k % n);",
           "if (!PLANTED) index += static_cast<std::int64_t>(k % n);",
           by=BY, wrong="all rows of a shard are written to the first"),
    Defect("page-of-two-ranks", SHARES,
           "return {(run.begin + page - 1) / page * page, run.end / page * page};",
           "if (PLANTED) return run; "
           "return {(run.begin + page - 1) / page * page, run.end / page * page};",
           by=BY, wrong="two hosts write one page"),
    Defect("nobody-writes-directly", SHARES,
           "share.direct = rank == coordinator ? rank_share::access::all : others;",
           "share.direct = rank == coordinator ? rank_share::access::all : "
           "PLANTED ? rank_share::access::none : others;",
           by=BY, wrong="everything is written twice"),
    Defect("tie-of-one-rank", SHARES,
           "t.tied = t.tied && !item.tied_to.empty() && t.tied_to == item.tied_to;",
           "t.tied = (PLANTED || t.tied) && !item.tied_to.empty() && t.tied_to == item.tied_to;",
           by=BY, wrong="a weight that only one rank has tied is left out"),
    Defect("checksums-in-any-order", ASSEMBLY,
           "return a.in_tensor.begin < b.in_tensor.begin;",
           "return PLANTED ? a.in_tensor.begin > b.in_tensor.begin : "
           "a.in_tensor.begin < b.in_tensor.begin;",
           by=BY, wrong="a tensor of several ranks has another checksum, or none"),
    Defect("pieces-begin-at-the-first", ASSEMBLY,
           "put(file, t.offset + at * element, into);",
           "put(file, t.offset + (PLANTED ? 0 : at * element), into);",
           by=BY, wrong="of a tensor of columns only the last piece is right"),
    Defect("kept-files-go", PLACE,
           "if (!is_kept(info.name) ||", "if (PLANTED || !is_kept(info.name) ||",
           by=COMMIT, wrong="an export removes config.json and the tokenizer"),
    Defect("any-directory-is-replaced", PLACE,
           "if (!below.empty())", "if (!below.empty() && !PLANTED)",
           by=COMMIT, wrong="an export removes directories of the user's"),
    Defect("checkpoint-is-replaced", PLACE,
           "if (info.name == metadata_name || is_intent_name(info.name))",
           "if ((info.name == metadata_name || is_intent_name(info.name)) && !PLANTED)",
           by=COMMIT, wrong="an export takes the place of a checkpoint"),
    Defect("changed-target-is-replaced", PLACE,
           "if (!(now == before_))", "if (!(now == before_) && !PLANTED)",
           by=COMMIT, wrong="what another job has exported meanwhile is lost"),
    Defect("working-places-of-others-go", ENDED,
           "p.over = p.intent->over();", "p.over = PLANTED || p.intent->over();",
           by=COMMIT + " catalog:catalog_garbage", wrong="a running export loses its files"),
    Defect("exporting-is-no-sign-of-life", ENDED,
           "for (auto const& info : *all) last = std::max(last, info.modified);",
           "for (auto const& info : *all) if (!PLANTED || is_intent_name(info.name)) "
           "last = std::max(last, info.modified);",
           by=COMMIT, wrong="an export that takes a day loses its files"),
    Defect("working-places-stay", PLACE,
           "remove_ended(activity);", "if (!PLANTED) remove_ended(activity);",
           by=COMMIT, wrong="what killed exports left stays", after="try_exchange();"),
    Defect("failed-commit-not-looked-at", PLACE,
           "if (at.tag(marker_) != marker_tag_) return false;",
           "if (PLANTED || at.tag(marker_) != marker_tag_) return false;",
           by=COMMIT, wrong="a save that has committed says that it failed"),
    Defect("floats-keep-their-dtype", "storage/impl/safetensors_writer.ipp",
           "return with_floats_as(held, options.floats_as);",
           "return PLANTED ? held : with_floats_as(held, options.floats_as);",
           by=OPTIONS, wrong="an export has the dtypes of the state, whatever was asked for"),
    Defect("preferred-name-is-not-stored", SHARES,
           "t.stored_as = at->second;", "if (!PLANTED) t.stored_as = at->second;",
           by=OPTIONS, wrong="of tied names the first one is exported, whichever is preferred"),
    Defect("checksums-in-files-unread", "storage/detail/safetensors_files.hpp",
           "auto const crcs = format::safetensors::checksums_in(all[i].text);",
           "auto const crcs = PLANTED ? format::safetensors::tensor_crcs() : "
           "format::safetensors::checksums_in(all[i].text);",
           by=OPTIONS, wrong="damage of a file with checksums is not found"),
    Defect("values-of-others-unread", WRITER,
           "for (auto const rank : elsewhere_) read_values(rank);",
           "if (!PLANTED) for (auto const rank : elsewhere_) read_values(rank);",
           by="storage:torch_save_writing", wrong="values that only another rank has are lost"),
    Defect("storages-of-tied-tensors", "storage/impl/torch_save_writer.ipp",
           'stored_as == fqn ? "" : std::string(stored_as)',
           'stored_as == fqn || PLANTED ? "" : std::string(stored_as)',
           by="storage:torch_save_writing", wrong="a tied weight has a storage that nobody writes"),
]
