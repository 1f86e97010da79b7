# SPDX-License-Identifier: Apache-2.0
"""Runs a compiler, but not for what has been compiled already: cairn's own units.

    compiler.py OBJECTS COMPILER ARGUMENT...

A command that compiles <cairn/src.hpp>, or one unit of it, is preprocessed, which takes a second
instead of a minute, and must have the macros that it needs. Its object comes from OBJECTS, a folder
that has cairn-1.cpp.o, cairn-2.cpp.o and so on under Meson's names. Where CMake has fetched cairn,
the first unit is compiled all the same: its flags are not Meson's.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys


def includes_src(command: list[str]) -> bool:
    return "-c" in command and any(
        a.endswith(".cpp") and "<cairn/src.hpp>" in pathlib.Path(a).read_text() for a in command)


def object_of(unit: int, objects: pathlib.Path) -> str:
    found = list(objects.glob(f"*cairn-{unit}.cpp.o"))
    if len(found) != 1:
        sys.exit(f"compiler.py: expected the object of unit {unit} in {objects}, found {found}")
    return str(found[0])


def main() -> int:
    objects, command = pathlib.Path(sys.argv[1]), sys.argv[2:]
    if sys.argv[1] == "none" or not includes_src(command):
        os.execvp(command[0], command)
    out = command.index("-o")
    preprocessed = [*command[:out], *command[out + 2:], "-E", "-dM"]
    preprocessed.remove("-c")
    r = subprocess.run(preprocessed, capture_output=True, text=True)
    macros = dict(re.findall(r"^#define (CAIRN_SRC_UNITS?) (\d+)", r.stdout, re.MULTILINE))
    if r.returncode != 0 or len(macros) != 2:
        sys.exit(f"compiler.py: exit {r.returncode}, {macros}\n{r.stderr}")
    unit = int(macros["CAIRN_SRC_UNIT"])
    if unit == 1 and "FetchContent" in command[out + 1] + os.getcwd():
        os.execvp(command[0], command)
    if unit != 0:
        shutil.copy(object_of(unit, objects), command[out + 1])
        return 0
    all_units = [object_of(i + 1, objects) for i in range(int(macros["CAIRN_SRC_UNITS"]))]
    # Linkers go by what is in a file, not by its name.
    pathlib.Path(command[out + 1]).unlink(missing_ok=True)
    return subprocess.run(["ar", "rcs", command[out + 1], *all_units]).returncode


sys.exit(main())
