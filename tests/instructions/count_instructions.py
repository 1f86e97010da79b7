#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Planning, metadata and groups do not get slower unnoticed: their instructions are counted and
compared.

    count_instructions.py COUNTED RECORDED [--record]

COUNTED is the program counted.cpp, RECORDED a JSON file of what it took when that was last looked
at. Unlike seconds, instructions are the same in every run and on a busy machine; the margin is for
other versions of the libraries. A count far below what is recorded fails too: --record notes it, so
that it is not lost again."""
import json, os, re, subprocess, sys

MARGIN = 0.03


def count(program, name):
    out = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no",
         "--toggle-collect=measured", program, name], capture_output=True, text=True,
        env={k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")})
    found = re.search(r"Collected : (\d+)", out.stderr)
    if out.returncode != 0 or not found: sys.exit(f"{name}: {out.stdout}{out.stderr}")
    return int(found[1])


def main():
    program, recorded_at = sys.argv[1:3]
    names = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split("\n")
    counts = {name: count(program, name) for name in names if name}
    if "--record" in sys.argv:
        with open(recorded_at, "w") as f: f.write(json.dumps(counts, indent=1) + "\n")
    with open(recorded_at) as f: recorded = json.load(f)
    passed = failed = 0
    for name in sorted(counts.keys() | recorded.keys()):
        now, then = counts.get(name), recorded.get(name)
        ok = now is not None and then is not None and abs(now - then) <= MARGIN * then
        passed, failed = passed + ok, failed + (not ok)
        ratio = f"{now / then:.3f}" if now and then else "?"
        print(f"{'ok    ' if ok else 'FAILED'} {name}: {now} instructions, recorded {then}: "
              f"{ratio}")
    if failed:
        print(f"error: more or fewer than recorded, by more than {MARGIN:.0%}. If that is wanted: "
              f"{os.path.relpath(__file__)} {program} {os.path.relpath(recorded_at)} --record")
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed != 0)


if __name__ == "__main__": main()
