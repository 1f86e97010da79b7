# SPDX-License-Identifier: Apache-2.0
"""Checks that C++ files are formatted as .clang-format says, by the version it was written for.

Usage: format.py PROJECT_ROOT
"""
import pathlib
import shutil
import subprocess
import sys

FORMATTER = "clang-format-16"
FOLDERS = ("include", "tests", "examples", "benchmarks", "tools")
SUFFIXES = {".hpp", ".ipp", ".cpp", ".cu"}


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    if not shutil.which(FORMATTER):
        print(f"not run: {FORMATTER} was not found (Debian: {FORMATTER})")
        return 77
    files = sorted(str(f) for folder in FOLDERS for f in (root / folder).rglob("*")
                   if f.suffix in SUFFIXES)
    r = subprocess.run([FORMATTER, "--dry-run", "-Werror", *files], capture_output=True, text=True)
    print(r.stderr or f"{len(files)} files, formatted")
    return r.returncode


if __name__ == "__main__":
    sys.exit(main())
