# SPDX-License-Identifier: Apache-2.0
"""Compiles each header alone: it includes what it needs.

What cairn includes of others is compiled once for all, or each would take seconds more; what a
header forgets of that is for tests/includes.py to see.

Those in FOLDER/detail, and those that need a library of somebody else's, are left out.

Usage: alone.py PROJECT_ROOT -- CLANG...
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import layering


def main() -> int:
    include_dir, command = pathlib.Path(sys.argv[1]) / "include", sys.argv[3:]
    house = layering.house(include_dir)
    files = house.with_libraries([])
    headers = [h for h in files if h.endswith(".hpp") and "/detail/" not in h]
    there = "#if __has_include(<{0}>)\n#include <{0}>\n#endif\n"
    with tempfile.TemporaryDirectory() as tmp:
        first = pathlib.Path(tmp) / "others.hpp"
        first.write_text("".join(there.format(name) for name in house.others(files)))
        command += ["-x", "c++-header"]
        subprocess.run([*command, first, "-o", f"{first}.pch"], check=True)
        command += ["-include-pch", f"{first}.pch", "-fsyntax-only"]

        def problem(header: str) -> str:
            text = f"#include <{header}>\n#include <{header}>\n"
            run = subprocess.run([*command, "-"], input=text, capture_output=True, text=True)
            return "" if run.returncode == 0 else f"{header}:\n{run.stderr[:2000]}"

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            found = list(filter(None, pool.map(problem, headers)))
    print("\n".join(found) or f"{len(headers)} headers")
    return 1 if found or not headers else 0


sys.exit(main())
