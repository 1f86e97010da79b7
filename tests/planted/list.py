# SPDX-License-Identifier: Apache-2.0
"""Prints the planted defects, or what ninja must build to try them.

Usage: list.py [--targets] [NAME | PATTERN]...
"""
import sys

from defect import PROGRAMS, chosen


def main() -> int:
    patterns = sys.argv[1:]
    targets = patterns[:1] == ["--targets"]
    defects = chosen(patterns[1:] if targets else patterns)
    if targets:
        print("\n".join(sorted({target for d in defects for p, _ in d.programs()
                                for target in PROGRAMS[p][0]})))
        return 0
    for d in defects:
        print(f"{d.name} ({d.file}; {d.by}): {d.wrong}")
    print(f"{len(defects)} defects")
    return 0


sys.exit(main())
