# SPDX-License-Identifier: Apache-2.0
"""Defects of the readers of other formats than PyTorch's DCP."""
from defect import Defect

JSON = "format/impl/json.ipp"
HEADER = "format/impl/safetensors.ipp"
FILES = "storage/detail/safetensors_files.hpp"
READER = "storage/impl/safetensors_reader.ipp"
ANY = "storage/impl/checkpoint_reader.ipp"

DEFECTS = [
    Defect("json-of-any-depth", JSON,
           "if (depth_ == max_depth)", "if (depth_ == max_depth && !PLANTED)",
           by="format:safetensors", wrong="a few bytes take any amount of stack"),
    Defect("json-ends-anywhere", JSON,
           "if (next_after_space() != end) refuse(\"more than one value\");",
           "if (!PLANTED && next_after_space() != end) refuse(\"more than one value\");",
           by="format:safetensors", wrong="what follows a header is not looked at"),
    Defect("text-of-a-number-before", JSON,
           "text_.clear(); std::uint64_t n = 0;",
           "if (!PLANTED) text_.clear(); std::uint64_t n = 0;",
           by="format:json", wrong="a number is told with what stands before it"),
    Defect("surrogates-alone", JSON,
           "} else if (code >= 0xdc00 && code < 0xe000) {",
           "} else if (code >= 0xdc00 && code < 0xe000 && !PLANTED) {",
           by="format:safetensors", wrong="a name that is no text"),
    Defect("holes-between-tensors", HEADER,
           "if (one.offset != at)", "if (one.offset != at && !PLANTED)",
           by="format:safetensors", wrong="two tensors may claim the same bytes"),
    Defect("shape-not-of-its-bytes", HEADER,
           "if (!fits || elements", "if (PLANTED) {} else if (!fits || elements",
           by="format:safetensors", wrong="elements are read beyond those of the tensor"),
    Defect("tensor-twice-in-a-header", HEADER,
           "if (same != names.end())", "if (same != names.end() && !PLANTED)",
           by="format:safetensors", wrong="the last of two tensors wins in silence"),
    Defect("header-beyond-its-file", HEADER,
           "n > file_size - length_bytes)", "(n > file_size - length_bytes && !PLANTED))",
           by="format:safetensors", wrong="a length asks for any amount of memory"),
    Defect("files-beside-the-index", FILES,
           "at != map.end() && at->second == names[i])",
           "at != map.end() && (PLANTED || at->second == names[i]))",
           by="storage:safetensors_directories",
           wrong="a tensor is taken from a file that the index does not name for it"),
    Defect("index-names-what-is-missing", FILES,
           "if (!meta_.entries.contains(fqn))", "if (!PLANTED && !meta_.entries.contains(fqn))",
           by="storage:safetensors_directories",
           wrong="a tensor of the index is missing in silence"),
    Defect("name-in-two-files", FILES,
           "} else if (offsets == nullptr ||", "} else if (PLANTED ? false : offsets == nullptr ||",
           by="storage:safetensors_directories", wrong="one of two tensors wins in silence"),
    Defect("place-of-a-file", READER,
           "chunk_reader::reset(m.is_file ?", "chunk_reader::reset(m.is_file && !PLANTED ?",
           by="storage:safetensors_directories", wrong="an id that names a file finds no data"),
    Defect("file-before-directory", ANY,
           "if (other.code() != make_error_code(errc::not_found)) throw;",
           "if (PLANTED || other.code() != make_error_code(errc::not_found)) throw;",
           by="storage:safetensors_directories",
           wrong="where there is no checkpoint, the error speaks of a format that nobody uses"),
]
