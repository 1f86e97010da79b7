# SPDX-License-Identifier: Apache-2.0
"""The program cairn and content that is odd: names that a terminal obeys, much in one piece.

Usage: odd_content.py CAIRN FIXTURES GOLDEN. Prints one line a check and `N passed, N failed`.
"""
import json
import os
import pathlib
import pickletools
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from program import CAIRN, FIXTURES, cairn, check, end, said


def names(tmp):
    """What is printed of a checkpoint never moves the cursor."""
    d, t, s = tmp / "names", "a\x1b[2J\x9b", "s\udc80"

    def utf8(name):
        return name.encode("utf-8", "surrogatepass")

    def harmless(r):
        printed = r.stdout + r.stderr
        return not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]", printed)

    r = cairn("ls", d)
    check("ls: control characters and a lone surrogate are escaped", r.returncode == 0 and
          harmless(r) and rb"a\u001b[2J\u009b  float32" in r.stdout and
          rb"s\udc80" in r.stdout, said(r))
    r = cairn("ls", d, "--json")
    check("ls --json: the same names", harmless(r) and
          [x["fqn"] for x in json.loads(r.stdout)] == [t, s], said(r))
    r = cairn("cat", d, utf8(s))
    check("cat: a str with a lone surrogate", harmless(r) and
          json.loads(r.stdout) == "\ud800\x7f", said(r))
    r = cairn("cat", d, utf8("no\x1b[2J"))
    check("cat: an unknown name is told in harmless characters", r.returncode == 2 and
          harmless(r) and rb"no\u001b[2J" in r.stderr, said(r))
    r = cairn("diff", d, tmp / "base")
    check("diff: names are escaped", r.returncode == 1 and harmless(r) and
          rb"a\u001b[2J\u009b: only in" in r.stdout, said(r))
    r = cairn("reshard", d, tmp / "names again", "--ranks", 2)
    check("reshard: such names are kept", r.returncode == 0 and
          cairn("diff", d, tmp / "names again").returncode == 0, said(r))


def without_index(source, target):
    """As PyTorch would have written it: .metadata without cairn's index."""
    shutil.copytree(source, target)
    content = (source / ".metadata").read_bytes()
    (target / ".metadata").write_bytes(content[:next(
        at + 1 for op, _, at in pickletools.genops(content) if op.name == "STOP")])


def bytes_read(*args):
    """How much a command has read, and its output."""
    with tempfile.TemporaryFile() as out:
        p = subprocess.Popen([CAIRN, *map(str, args)], stdout=out)
        os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT)
        read = int(re.search(rb"rchar: (\d+)",
                             pathlib.Path(f"/proc/{p.pid}/io").read_bytes())[1])
        p.wait()
        out.seek(0)
        return read, out.read()


def large(tmp):
    """A tensor of several pieces is read once, also where it has only one checksum."""
    without_index(tmp / "large", tmp / "large of PyTorch")
    size = 160 << 20
    for name in ("large", "large of PyTorch"):
        read, out = bytes_read("cat", tmp / name, "w", "--raw")
        check(f"cat --raw: {name} is read once",
              out == struct.pack("<f", 1) * (size // 4) and read < 1.2 * size, read)
        read, out = bytes_read("diff", tmp / name, tmp / "large")
        check(f"diff: {name} is read once", b"equal" in out and read < 2.4 * size, read)


def main():
    with tempfile.TemporaryDirectory() as d:
        tmp = pathlib.Path(d)
        made = subprocess.run([FIXTURES, d], capture_output=True)
        check("the fixtures are written", made.returncode == 0, made.stderr)
        names(tmp)
        large(tmp)
    sys.exit(end())


main()
