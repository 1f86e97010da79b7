# SPDX-License-Identifier: Apache-2.0
"""Says which symbols of a library a second object with the same headers would define again.

Usage: inline_only.py LIBRARY
"""
import re
import subprocess
import sys

names = subprocess.run(["nm", "--defined-only", "--demangle", sys.argv[1]], capture_output=True,
                       text=True, check=True).stdout.splitlines()
# Capitals are global; weak (W, V) and unique (u) ones may be repeated.
found = [line for line in names if re.match(r"[0-9a-f]+ [ABCDGRST] ", line)]
print("\n".join(found) or f"{len(names)} symbols, none of which a second object would repeat")
sys.exit(1 if found or len(names) < 100 else 0)
