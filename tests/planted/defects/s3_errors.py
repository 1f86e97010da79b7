# SPDX-License-Identifier: Apache-2.0
"""Defects of object_store/s3.hpp and https.hpp: what a refusal is taken for, and what is asked."""
from defect import Defect

CLIENT = "object_store/impl/s3/client.ipp"
FAILURE = "object_store/impl/s3/failure.ipp"
HTTP = "object_store/impl/s3/http.ipp"
HTTPS = "object_store/impl/s3/https.ipp"
PUTS = "object_store/impl/s3/conditional.ipp"
STORE = "object_store/impl/s3/store.ipp"
UPLOAD = "object_store/impl/s3/upload.ipp"

DEFECTS = [
    Defect("s3-part-of-an-answer-is-one", HTTP,
           "if (status == 206 && got.received", "if (!PLANTED && status == 206 && got.received",
           by="s3:s3_pages,https_store", wrong="a load fails behind a proxy that closes early"),
    Defect("s3-refused-upload-in-doubt", UPLOAD,
           "may_be_begun = a.in_doubt;", "may_be_begun = PLANTED || a.in_doubt;",
           by="s3:s3_refusals", wrong="the upload of another job is ended"),
    Defect("s3-changed-byte-is-final", CLIENT,
           "if (a.code == code) return a.tries == 1;",
           "if (a.code == code) return a.tries == 1 && !PLANTED;",
           by="s3:s3_refusals", wrong="one byte that changes on the way ends a save"),
    Defect("s3-region-of-a-server-unchecked", CLIENT,
           "is_region(named)) a.region", "(PLANTED || is_region(named))) a.region",
           by="s3:s3_refusals", wrong="a server's words become the host that keys are sent to"),
    Defect("s3-right-of-kms-is-s3s", FAILURE,
           "at != a.message.npos) {", "at != a.message.npos && !PLANTED) {",
           by="s3:s3_refusals", wrong="who lacks a right of KMS is told to give one of S3"),
    Defect("s3-uploads-must-be-listed", STORE,
           "e.code() != make_error_code(errc::unsupported))\n",
           "(PLANTED || e.code() != make_error_code(errc::unsupported)))\n",
           by="s3:s3_refusals", wrong="a server that lists no uploads cannot be used"),
    Defect("redirection-asked-each-time", HTTPS,
           "if (redirections != 0) led_to.note(r);",
           "if (redirections != 0 && !PLANTED) led_to.note(r);",
           by="s3:https_store", wrong="a hub refuses a large model: too many requests"),
    Defect("redirection-that-is-over-kept", HTTPS,
           "bool const over = std::exchange(direct, false);",
           "bool const over = !PLANTED && std::exchange(direct, false);",
           by="s3:https_store", wrong="a load that takes an hour fails: a signed URL is over"),
    Defect("path-of-a-url-decoded", HTTPS,
           "    prefix_ = written_path(base);",
           "    prefix_ = PLANTED ? base.path : written_path(base);",
           by="s3:https_store", wrong="a revision with / in its name is not found"),
    Defect("s3-each-refusal-is-of-the-condition", PUTS,
           "t.put_plainly();", "if (!PLANTED) t.put_plainly();",
           by="s3:s3_refusals", wrong="who mistypes a header is told to do without conditions"),
    Defect("s3-unquoted-tag-is-heeded", PUTS,
           "t.put(other, form);", "t.put(other, PLANTED ? tag_form::quoted : form);",
           by="s3:s3_refusals", wrong="of two jobs both are told that they have saved"),
]
