# SPDX-License-Identifier: Apache-2.0
"""Prints those headers that declare anything outside of cairn::detail, or only include others.

Usage: for_users.py INCLUDE_DIR HEADER...
"""
import pathlib
import re
import sys

for header in sys.argv[2:]:
    text = (pathlib.Path(sys.argv[1]) / header).read_text()
    for_users = re.search(r"^namespace cairn(?!::detail\b)", text, re.MULTILINE)
    if for_users or "\nnamespace " not in text:
        print(header)
