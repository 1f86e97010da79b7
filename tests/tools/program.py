# SPDX-License-Identifier: Apache-2.0
"""The program cairn as tests run it: PROGRAM.py CAIRN FIXTURES GOLDEN."""
import os
import pathlib
import subprocess
import sys
sys.path.insert(0, f"{os.path.dirname(os.path.abspath(__file__))}/../support")
from checks import check, end

CAIRN, FIXTURES, GOLDEN = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])


def cairn(*args, **kwargs):
    args = [a if isinstance(a, bytes) else str(a) for a in args]
    return subprocess.run([CAIRN, *args], capture_output=True, timeout=300, **kwargs)


def said(r):
    return f"exit {r.returncode}: {r.stdout[:300]!r} {r.stderr[:600]!r}"


def one_sentence(r):
    """One line on stderr that names the program, and nothing else."""
    lines = r.stderr.decode().splitlines()
    return len(lines) == 1 and lines[0].startswith("cairn: ") and len(lines[0]) > 20
