# SPDX-License-Identifier: Apache-2.0
"""Prints what the tests of some suites run, as targets of ninja: the rest need not be built.

Usage: targets.py BUILD_DIR SUITE...
"""
import json
import os
import subprocess
import sys


def asked(build: str, what: str) -> list[dict]:
    return json.loads(subprocess.run(["meson", "introspect", build, what], capture_output=True,
                                     check=True, text=True).stdout)


def main() -> None:
    build, suites = os.path.abspath(sys.argv[1]), set(sys.argv[2:])
    needed = {target for test in asked(build, "--tests") for target in test["depends"]
              if suites & {s.split(":")[-1] for s in test["suite"]}}
    files = {f for t in asked(build, "--targets") if t["id"] in needed for f in t["filename"]}
    if not files: sys.exit(f"{sys.argv[0]}: no test of {', '.join(sorted(suites))} needs a target")
    print(*sorted(os.path.relpath(f, build) for f in files))


main()
