# SPDX-License-Identifier: Apache-2.0
"""Checks that the build files use nothing that the oldest Meson cairn promises does not have.

Usage: meson_log.py BUILD_ROOT
"""
import pathlib
import sys

log = (pathlib.Path(sys.argv[1]) / "meson-logs/meson-log.txt").read_text(errors="replace")
found = [line for line in log.splitlines() if "but uses feature introduced in" in line]
print("\n".join(found) or "the oldest Meson will do")
sys.exit(1 if found else 0)
