# SPDX-License-Identifier: Apache-2.0
"""Writes a translation unit that includes every header of cairn among hostile macros.

What cairn itself includes comes first, so that only names in cairn's own text are caught.

Usage: poisoned.py INCLUDE_DIR OUTPUT HEADER...
"""
import pathlib
import re
import sys

# Names that headers of systems define (complex.h, termios.h, sys/sysmacros.h, Windows, X11) or
# that users do.
NAMES = """I B0 B50 B110 _L _N _U _X major minor unix linux small near far interface IN OUT OPTIONAL
CONST VOID ERROR DELETE STRICT None Bool Status Success Always True False""".split()


def main() -> None:
    include_dir, output, headers = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    external = set()
    for header in headers:
        text = (include_dir / header).read_text()
        external.update(re.findall(r"^\s*#\s*include\s*<((?!cairn/)[^>]+)>", text, re.MULTILINE))
    lines = [f"#include <{name}>" for name in sorted(external)]
    lines += [f"#undef {name}\n#define {name} *poison*" for name in NAMES]
    lines += [f"#include <{header}>" for header in headers if header.endswith(".hpp")]
    pathlib.Path(output).write_text("\n".join(lines) + "\n")


main()
