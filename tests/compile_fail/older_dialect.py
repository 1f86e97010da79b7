# SPDX-License-Identifier: Apache-2.0
"""Compiled as C++17, every public header says once that cairn needs C++20, and how to ask for it.

Usage: older_dialect.py PROJECT_ROOT [HEADER...] -- COMPILER...
Without a HEADER: all.
"""
import pathlib
import re
import subprocess
import sys

FIRST = "cairn needs C++20: compile with -std=c++20"


def problem(header: str, command: list[str]) -> str:
    # A user's -std, or none where C++17 is the compiler's own choice; the last one counts.
    run = subprocess.run([*command, "-std=c++17", "-fsyntax-only", "-x", "c++", "-"],
                         input=f"#include <{header}>\nint main() {{}}\n", capture_output=True,
                         text=True)
    errors = [line for line in run.stderr.splitlines() if re.search(r"\berror:", line)]
    if run.returncode == 0 or not errors or FIRST not in errors[0] or len(errors) > 2:
        return f"{header}: {len(errors)} errors, first: {errors[:1]}"
    return ""


def main() -> int:
    dashes = sys.argv.index("--")
    headers, command = sys.argv[2:dashes], sys.argv[dashes + 1 :]
    include = pathlib.Path(sys.argv[1]) / "include"
    headers = headers or [str(h.relative_to(include)) for h in sorted(include.rglob("*.hpp"))]
    found = list(filter(None, (problem(header, command) for header in headers)))
    print("\n".join(found) or f"{len(headers)} headers")
    return 1 if found else 0


sys.exit(main())
