# SPDX-License-Identifier: Apache-2.0
"""Defects of what is made of what stands beside checkpoints, and of the names of places."""
from defect import Defect

FOUND = "catalog/impl/committed.ipp"
LATEST = "catalog/impl/latest.ipp"
REMOVAL = "catalog/impl/removal.ipp"
FILE = "object_store/impl/file.ipp"

DEFECTS = [
    Defect("private-directory-is-newest", FOUND,
           "if (why.denied) {", "if (why.denied && !PLANTED) {",
           by="catalog:catalog_neighbours",
           wrong="beside lost+found no run starts and no garbage goes"),
    Defect("private-step-is-skipped", LATEST,
           "if (is_step_name(c.id)) throw", "if (is_step_name(c.id) && !PLANTED) throw",
           by="catalog:catalog_neighbours", wrong="an older step is resumed without a word"),
    Defect("links-are-unseen", FILE,
           "if (S_ISLNK(s.st_mode)) links.emplace_back(name);",
           "if (S_ISLNK(s.st_mode) && !PLANTED) links.emplace_back(name);",
           by="catalog:catalog_neighbours",
           wrong="a checkpoint that was moved and linked does not exist"),
    Defect("link-is-a-second-checkpoint", FILE,
           "known.insert(detail::real_path(path)).second)",
           "(known.insert(detail::real_path(path)).second || PLANTED))",
           by="catalog:catalog_neighbours", wrong="a checkpoint and a link to it are two"),
    Defect("linked-checkpoints-are-removed", REMOVAL,
           "if (c.linked || !c.record", "if ((c.linked && !PLANTED) || !c.record",
           by="catalog:catalog_neighbours", wrong="what stands elsewhere is removed by a rule"),
    Defect("protect-compares-text", REMOVAL,
           "auto const rules = with_place_ids(root, keep);",
           "auto const rules = PLANTED ? keep : with_place_ids(root, keep);",
           by="catalog:catalog_run_memory", wrong="what latest returns protects nothing"),
    Defect("protected-nothing-unsaid", REMOVAL,
           "[&](auto const& id) { return there.count(id) == 0; }",
           "[&](auto const& id) { return there.count(id) == 0 && !PLANTED; }",
           by="catalog:catalog_run_memory", wrong="an id that is mistyped protects nothing"),
    Defect("records-read-at-each-save", FOUND,
           "        if (is_known(at)) {", "        if (!PLANTED && is_known(at)) {",
           by="checkpointer:checkpointer_keep",
           wrong="each save opens the metadata of all checkpoints"),
    Defect("same-removals-tried-for-ever", REMOVAL,
           "++run.tried[c.record.save_id];", "run.tried[c.record.save_id] += PLANTED ? 0 : 1;",
           by="catalog:catalog_run_memory",
           wrong="behind 32 that cannot be removed nothing is removed"),
    Defect("what-stays-told-at-each-save", REMOVAL,
           "&& run.told.insert(what).second)", "&& (run.told.insert(what).second || PLANTED))",
           by="catalog:catalog_run_memory", wrong="each save warns of the same"),
    Defect("empty-trees-stay", FILE,
           "if (name.find('/') == name.npos) return; impl::sync_names(*this, parent);",
           "if (name.find('/') == name.npos) return; impl::sync_names(*this, parent); "
           "if (PLANTED) return;",
           by="object_store:file,object_store", wrong="directories of file_name stay"),
    Defect("loaded-one-is-a-further-one", "catalog/impl/retention.ipp",
           "auto left = loaded_ < all_.size() ?", "auto left = loaded_ < all_.size() && !PLANTED ?",
           by="catalog:catalog_retention checkpointer:checkpointer_keep",
           wrong="last(2) keeps three for a whole run"),
    Defect("failed-saves-leave-directories", "catalog/impl/recording_writer.ipp",
           "if (end == save_end::abandoned && is_step_name(id_)) {",
           "if (end == save_end::abandoned && is_step_name(id_) && !PLANTED) {",
           by="catalog:catalog_neighbours", wrong="each failed save leaves an empty directory"),
]
