# SPDX-License-Identifier: Apache-2.0
"""Defects of catalog/, and of what a checkpointer does with it."""
from defect import Defect

RECOVERY = "checkpointer/impl/recovery.ipp"
REMOVAL = "catalog/impl/removal.ipp"
RETENTION = "catalog/impl/retention.ipp"
WRITER = "catalog/impl/recording_writer.ipp"

DEFECTS = [
    Defect("metadata-removed-last", REMOVAL,
           "place.remove(metadata_name);", "if (!PLANTED) place.remove(metadata_name);",
           more=(("root.remove_place(id);\n    });",
                  "if (PLANTED) place.remove(metadata_name); root.remove_place(id);\n    });"),),
           by="catalog", wrong="what was being removed at a crash stands without its files"),
    Defect("readers-ignored", REMOVAL,
           "is_being_read(place, save_id)", "(is_being_read(place, save_id) && !PLANTED)",
           by="catalog", wrong="a checkpoint is removed while it is loaded"),
    Defect("removed-beside-a-save", REMOVAL,
           "is_being_saved(place, name)", "(is_being_saved(place, name) && !PLANTED)",
           by="catalog", wrong="a save commits while its place is removed"),
    Defect("replaced-meanwhile-removed", REMOVAL,
           "if (place.tag(metadata_name) != tag) return",
           "if (place.tag(metadata_name) != tag && !PLANTED) return",
           by="catalog", wrong="a checkpoint that was saved just now is removed"),
    Defect("other-checkpoint-removed", REMOVAL,
           "if (meta.save_id != save_id) return", "if (meta.save_id != save_id && !PLANTED) return",
           by="catalog", wrong="a newer checkpoint under the same name is removed"),
    Defect("intent-of-a-removal-stays", REMOVAL,
           "if (rest.remove_replaced(intent.replaced, save_id)) rest.forget(name);",
           "if (rest.remove_replaced(intent.replaced, save_id) && !PLANTED) rest.forget(name);",
           by="catalog", wrong="the place of a removed checkpoint is never empty"),
    Defect("steps-order-checkpoints", RETENTION,
           "return std::tie(a.sequence, a.committed, a.save_id) <",
           "if (PLANTED) return a.step < b.step; "
           "return std::tie(a.sequence, a.committed, a.save_id) <",
           by="catalog checkpointer", wrong="after a run has gone back the wrong ones are kept"),
    Defect("newest-not-kept", RETENTION,
           "kept.back() = true;", "kept.back() = kept.back() || !PLANTED;",
           by="catalog", wrong="a rule may remove the checkpoint that was saved just now"),
    Defect("read-checkpoint-not-kept", RETENTION,
           "if (all[i].read) {", "if (all[i].read && !PLANTED) {",
           by="catalog checkpointer", wrong="none that was seen to be readable may be left"),
    Defect("best-is-worst", RETENTION,
           "r.which == better::lower", "(r.which == better::lower) != PLANTED",
           by="catalog", wrong="best keeps the worst"),
    Defect("numbers-start-again", WRITER,
           "if (c.record && c.record->sequence <= most_commits)",
           "if (c.record && c.record->sequence <= most_commits && !PLANTED)",
           by="catalog checkpointer", wrong="the checkpoints of a resumed run count as older"),
    Defect("one-rank-decides-what-is-whole", RECOVERY,
           "if (!p) continue;", "if (!p || (PLANTED && rank != 0)) continue;",
           by="checkpointer catalog", wrong="a checkpoint that one rank cannot read is chosen"),
    Defect("every-failure-is-damage", RECOVERY,
           "return std::any_of(damage.begin()", "return PLANTED || std::any_of(damage.begin()",
           by="checkpointer catalog", wrong="a state that does not fit loads an older checkpoint"),
]
