# SPDX-License-Identifier: Apache-2.0
"""What a file that uses cairn costs its compiler, beside one that includes Asio's io_context alone.

Checked is memory, which does not depend on what else the machine does; seconds are only printed.

Usage: compile_cost.py BOUND BOUND_HEADER_ONLY -- COMPILER...
    The bounds are multiples of the memory that the file with io_context alone takes.
"""
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
SEPARATE = "-DCAIRN_SEPARATE_COMPILATION"


def cost(compiler: list[str], source: str, *flags: str) -> tuple[float, float]:
    """Seconds of CPU and MB of memory, of a process that ends: its children are counted with it."""
    code = ("import resource, subprocess, sys; r = subprocess.run(sys.argv[1:]); "
            "u = resource.getrusage(resource.RUSAGE_CHILDREN); "
            "print(u.ru_utime + u.ru_stime, u.ru_maxrss); sys.exit(r.returncode)")
    command = [sys.executable, "-c", code, *compiler, *flags, "-O0", "-c", str(HERE / source),
               "-o", "/dev/null"]
    r = subprocess.run(command, capture_output=True, text=True)
    if r.returncode != 0:
        sys.exit(f"{' '.join(command[3:])}: exit {r.returncode}\n{r.stdout}{r.stderr}")
    seconds, kilobytes = map(float, r.stdout.split())
    return seconds, kilobytes / 1000


def main() -> int:
    split = sys.argv.index("--")
    bounds = [float(b) for b in sys.argv[1:split]]
    compiler = [a for a in sys.argv[split + 1:] if a != SEPARATE]
    rows = [("io_context alone", *cost(compiler, "io_context.cpp")),
            ("save and load, compiled separately", *cost(compiler, "smallest.cpp", SEPARATE)),
            ("save and load, header-only", *cost(compiler, "smallest.cpp"))]
    _, base_seconds, base = rows[0]
    for name, seconds, memory in rows:
        print(f"{name:36} {seconds:6.1f} s  x{seconds / base_seconds:4.1f}   {memory:5.0f} MB  "
              f"x{memory / base:4.1f}")
    failed = 0
    for (name, _, memory), bound in zip(rows[1:], bounds):
        if memory > bound * base:
            print(f"{name}: expected at most {bound} times the memory of io_context alone")
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
