# SPDX-License-Identifier: Apache-2.0
"""Prints what the tests of some suites run, as targets of ninja: the rest need not be built.

Usage: targets.py BUILD_DIR SUITE... [--but SUITE]...
"""
import argparse
import json
import os
import subprocess
import sys

p = argparse.ArgumentParser()
p.add_argument("build", type=os.path.abspath)
p.add_argument("suites", nargs="+")
p.add_argument("--but", action="append", default=[])
a = p.parse_args()


def asked(what: str) -> list[dict]:
    return json.loads(subprocess.run(["meson", "introspect", a.build, what], capture_output=True,
                                     check=True, text=True).stdout)


def suites_of(test: dict) -> set[str]: return {s.split(":")[-1] for s in test["suite"]}


needed = {target for test in asked("--tests") for target in test["depends"]
          if suites_of(test) & set(a.suites) and not suites_of(test) & set(a.but)}
files = {f for t in asked("--targets") if t["id"] in needed for f in t["filename"]}
if not files: sys.exit(f"{sys.argv[0]}: no test of {', '.join(a.suites)} needs a target")
print(*sorted(os.path.relpath(f, a.build) for f in files))
