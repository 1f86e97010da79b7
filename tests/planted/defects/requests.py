# SPDX-License-Identifier: Apache-2.0
"""Defects of loads from stores whose requests cost much."""
from defect import Defect

CHUNKS = "storage/impl/chunk_reader.ipp"
AHEAD = "storage/detail/read_ahead.hpp"
BY = "storage:read_size"

DEFECTS = [
    Defect("files-of-values-opened-again", CHUNKS,
           "if (keeps(*part.reads)) planned.keep",
           "if (keeps(*part.reads) && !PLANTED) planned.keep",
           by=BY, wrong="each file with a value takes two more requests"),
    Defect("footers-read-alone", AHEAD,
           "if (footers && all.last", "if (footers && !PLANTED && all.last",
           by=BY, wrong="a value takes a request of its own"),
    Defect("slices-end-within-requests", CHUNKS,
           "if (costs()) g.slice.unit = request;",
           "if (costs() && !PLANTED) g.slice.unit = request;",
           by=BY, wrong="each slice of a large tensor takes one more request"),
    Defect("requests-end-at-their-multiples", "storage/detail/read_payload.hpp",
           "bool const aligned = file_", "bool const aligned = PLANTED || file_",
           by=BY, wrong="each slice of a part of a tensor takes one more request"),
    Defect("requests-end-at-shares", CHUNKS,
           "if (costs() && jobs.jobs_per_file() > 1)",
           "if (costs() && jobs.jobs_per_file() > 1 && !PLANTED)",
           by=BY, wrong="each thread has one request more than its bytes need"),
    Defect("little-in-one-request", AHEAD,
           "i.length / 2 > enough) break;", "i.length / 2 > enough && !PLANTED) break;",
           by=BY, wrong="one thread reads what all could read together"),
    Defect("loads-list-uploads", "object_store/impl/s3/store.ipp",
           "return impl::list(*this, false);", "return impl::list(*this, PLANTED);",
           by="s3:s3_requests,s3_store", wrong="a load takes one more request, and one more right"),
]
