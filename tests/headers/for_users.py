# SPDX-License-Identifier: Apache-2.0
"""Prints those headers that declare anything outside of cairn::detail, or only include others.

Usage: for_users.py [--are HEADER,HEADER...] INCLUDE_DIR HEADER...
With --are it fails if those are others.
"""
import argparse
import pathlib
import re
import sys

p = argparse.ArgumentParser()
p.add_argument("--are")
p.add_argument("include", type=pathlib.Path)
p.add_argument("headers", nargs="+")
a = p.parse_args()


def for_users(header: str) -> bool:
    text = (a.include / header).read_text()
    declares = re.search(r"^namespace cairn(?!::detail\b)", text, re.MULTILINE)
    return bool(declares) or "\nnamespace " not in text


found = [h for h in a.headers if for_users(h)]
if a.are is None:
    print(*found, sep="\n")
elif changed := set(found) ^ set(a.are.split(",")):
    sys.exit(f"{', '.join(sorted(changed))}: not as when this folder was configured: "
             "meson setup --reconfigure")
