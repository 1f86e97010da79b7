# SPDX-License-Identifier: Apache-2.0
"""Defects of the tool: of the page that `cairn report` writes."""
from defect import Defect

TREEMAP = "tools/report/treemap.hpp"
NAME_MAP = "tools/report/name_map.hpp"
HTML = "tools/report/html.hpp"

DEFECTS = [
    Defect("storage-read-for-each-piece", "tools/checkpoint.hpp",
           "setup.checked = cairn::checks_of_pieces();",
           "if (!PLANTED) setup.checked = cairn::checks_of_pieces();",
           by="tools", wrong="cat and diff read a file of torch.save once for each piece"),
    Defect("copies-are-not-synced", "tools/beside.hpp",
           "file.finish(true);", "file.finish(!PLANTED);",
           by="tools", wrong="a crash leaves empty copies beside a checkpoint"),
    Defect("last-row-is-as-thick-as-the-others", TREEMAP,
           "extent = std::max(0.0, extent - thickness);",
           "extent = std::max(0.0, extent - (PLANTED ? 0.9 : 1) * thickness);",
           by="tools", wrong="areas are not in the proportion of the bytes"),
    Defect("rows-along-the-longer-side", TREEMAP,
           "bool const upright = frame.width >= frame.height;",
           "bool const upright = (frame.width >= frame.height) != PLANTED;",
           by="tools", wrong="rectangles overlap and leave the frame"),
    Defect("small-names-are-left-out", NAME_MAP,
           "rest.bytes += m->bytes;", "if (!PLANTED) rest.bytes += m->bytes;",
           by="tools", wrong="what is put together has no bytes"),
    Defect("group-of-other-names", NAME_MAP,
           "name.substr(0, dot + 1)", "name.substr(0, PLANTED ? dot : dot + 1)",
           by="tools", wrong="a name without the dot is in the group of those with it"),
    Defect("names-are-markup", HTML,
           "case '<': out += \"&lt;\"; break;",
           "case '<': out += PLANTED ? \"<\" : \"&lt;\"; break;",
           by="tools:report_text", wrong="a page runs what is in a name"),
    Defect("names-run-backwards", HTML,
           "if (turns)", "if (turns && !PLANTED)",
           by="tools:report_text", wrong="a name hides its end"),
    Defect("coordinates-that-are-none", HTML,
           "if (!std::isfinite(d)) d = 0;", "if (!PLANTED && !std::isfinite(d)) d = 0;",
           by="tools:report_text", wrong="a picture has a coordinate nan"),
]
