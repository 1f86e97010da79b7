# SPDX-License-Identifier: Apache-2.0
"""The program cairn and content that is odd: names that a terminal obeys, much in one piece,
metadata of single ranks, other files beside a checkpoint.

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
from program import CAIRN, FIXTURES, GOLDEN, cairn, check, end, one_sentence, said


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
    shutil.copytree(GOLDEN / "unknown_values", tmp / "unknown")
    metadata = tmp / "unknown/.metadata"
    metadata.write_bytes(metadata.read_bytes().replace(b"delta", b"\x1b[2Ja"))
    for args in ("verify", tmp / "unknown"), ("reshard", tmp / "unknown", tmp / "again",
                                              "--ranks", 2):
        r = cairn(*args)
        check(f"{args[0]}: names of what is not checked are escaped", r.returncode == 0 and
              harmless(r) and rb"not checked: 'extra.\u001b[2Ja': class" in r.stdout, said(r))


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


def rank_metadata():
    """PyTorch saved it with use_collectives=False: each rank's part is a checkpoint."""
    place = GOLDEN / "rank_metadata"
    for rank in (0, 1):
        part = place / f"__{rank}.metadata"
        r = cairn("ls", part)
        check(f"ls: the part of rank {rank}", r.returncode == 0 and
              b"w  float32 [4]" in r.stdout and f"__{rank}_0.distcp".encode() in r.stdout, said(r))
        r = cairn("verify", part)
        check(f"verify: the part of rank {rank}", r.returncode == 0 and
              b"2 items" in r.stdout and b"1 file: all fine" in r.stdout, said(r))
        r = cairn("cat", part, "rank")
        check(f"cat: a value of rank {rank}", r.stdout == f"{rank}\n".encode(), said(r))
    for args in ("ls", place), ("verify", place), ("cat", place, "rank"), ("diff", place, place):
        r = cairn(*args)
        check(f"{args[0]}: the place of all ranks is named as such", r.returncode == 2 and
              one_sentence(r) and b"one of 2 ranks" in r.stderr and b"__R.metadata" in r.stderr,
              said(r))
    r = cairn("ls", GOLDEN)
    check("ls: of the directory above, too", b"rank_metadata  unreadable" in r.stdout and
          b"one of 2 ranks" in r.stdout, said(r))


def beside(tmp):
    """What stands beside a checkpoint is copied, or at least not forgotten in silence."""
    d = tmp / "beside"
    shutil.copytree(tmp / "base", d)
    (d / "config.json").write_text("{}")
    (d / "tokenizer").mkdir()
    (d / "tokenizer/vocab").write_text("a b c")
    (d / ".config.json").write_text("{}")
    (d / ".git").mkdir()
    (d / ".git/config").write_text("[core]")
    (d / "__7_0.distcp").write_bytes(b"x")
    left = "0123456789abcdef" * 2
    for name in (f"left.{left}.distcp", f".saving.{left}", ".metadata.quarantined"):
        (d / name).write_bytes(b"")
    before = d.stat().st_mtime_ns
    r = cairn("reshard", d, tmp / "without it", "--ranks", 2, "--announce")
    named = [line for line in r.stdout.decode().splitlines() if "copied: " in line]
    copied = (".config.json", "config.json", "tokenizer/vocab")
    check("reshard: copies what is beside the checkpoint, and names what it does not copy",
          r.returncode == 1 and named == [f"copied: '{name}'" for name in copied] +
          ["not copied: '__7_0.distcp'",
           "not copied: '.git', which is no part of the checkpoint"] and
          all((tmp / "without it" / x).read_bytes() == (d / x).read_bytes() for x in copied) and
          cairn("diff", d, tmp / "without it").returncode == 0 and
          not list(d.glob(".reading.*")) and d.stat().st_mtime_ns != before, said(r))
    to = tmp / "with files of another"
    shutil.copytree(tmp / "base", to)
    (to / "config.json").write_text("another one's")
    r = cairn("convert", d, to, "--map", tmp / "no such map")
    check("convert: one that fails leaves the files of what was there", r.returncode == 2 and
          (to / "config.json").read_text() == "another one's" and
          not (to / "tokenizer").exists(), said(r))
    (to / "tokenizer").write_text("a file")
    (d / "__7_0.distcp").unlink()
    r = cairn("convert", d, to)
    check("convert: files of another checkpoint are replaced, and what cannot be is said",
          r.returncode == 1 and (to / "config.json").read_text() == "{}" and
          b"copied: 'config.json'" in r.stdout and
          b"not copied: 'tokenizer/vocab': what has this name there" in r.stdout and
          cairn("diff", d, to).returncode == 0, said(r))
    before = [(d / x).stat().st_ino for x in copied]
    r = cairn("reshard", d, f"{d}/", "--ranks", 3)
    check("reshard: in its place, files beside a checkpoint stay", r.returncode == 0 and
          b"copied" not in r.stdout and [(d / x).stat().st_ino for x in copied] == before and
          cairn("diff", d, to).returncode == 0, said(r))
    r = cairn("reshard", GOLDEN / "other_forms", tmp / "other forms", "--ranks", 2)
    check("reshard: names members of .metadata that it does not keep", r.returncode == 1 and
          b"not copied: member '_StorageInfo.digest' of .metadata\n" in r.stdout and
          b"Metadata." not in r.stdout, said(r))
    stored = tmp / "with spare"
    shutil.copytree(GOLDEN / "other_forms", stored)
    (stored / "__9_0.distcp").write_bytes(b"x")
    r = cairn("reshard", stored, tmp / "without spare", "--ranks", 2)
    check("reshard: names files of what .metadata has no entry for", r.returncode == 1 and
          b"not copied: '__9_0.distcp'" in r.stdout, said(r))


def main():
    with tempfile.TemporaryDirectory() as d:
        tmp = pathlib.Path(d)
        made = subprocess.run([FIXTURES, d], capture_output=True)
        check("the fixtures are written", made.returncode == 0, made.stderr)
        names(tmp)
        large(tmp)
        rank_metadata()
        beside(tmp)
    sys.exit(end())


main()
