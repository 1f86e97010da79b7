# SPDX-License-Identifier: Apache-2.0
"""What a file that uses cairn costs its compiler, beside one that includes Asio's io_context alone.

Code is not generated: that takes most of the time, and little more memory. Checked is memory, which
does not depend on what else the machine does; seconds are only printed.

Usage: compile_cost.py BOUND BOUND_HEADER_ONLY -- COMPILER... -- HEADER_ONLY_COMPILER...
    The bounds are multiples of the memory that the file with io_context alone takes. The first
    command compiles a file whose library is compiled separately, the second one that needs none.
"""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def cost(compiler: list[str], source: str) -> tuple[float, float]:
    """Seconds of CPU and MB of memory, those of the compiler's own children included."""
    command = [*compiler, "-fsyntax-only", str(HERE / source)]
    # What a cache has compiled before costs nothing.
    child = subprocess.Popen(command, env={**os.environ, "CCACHE_DISABLE": "1"})
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {child.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000


def main() -> int:
    bounds, separate, header_only = parts_of(sys.argv[1:])
    rows = [("io_context alone", *cost(header_only, "io_context.cpp")),
            ("save and load, compiled separately", *cost(separate, "smallest.cpp")),
            ("save and load, header-only", *cost(header_only, "smallest.cpp"))]
    _, base_seconds, base = rows[0]
    for name, seconds, memory in rows:
        print(f"{name:36} {seconds:6.1f} s  x{seconds / base_seconds:4.1f}   {memory:5.0f} MB  "
              f"x{memory / base:4.1f}")
    failed = 0
    for (name, _, memory), bound in zip(rows[1:], map(float, bounds)):
        if memory > bound * base:
            print(f"{name}: expected at most {bound} times the memory of io_context alone")
            failed = 1
    return failed


def parts_of(arguments: list[str]) -> list[list[str]]:
    """What stands between the dashes."""
    parts: list[list[str]] = [[]]
    for a in arguments:
        if a == "--":
            parts.append([])
        else:
            parts[-1].append(a)
    return parts


if __name__ == "__main__":
    sys.exit(main())
