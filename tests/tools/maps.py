# SPDX-License-Identifier: Apache-2.0
"""The program cairn with mappings: names and shapes in another layout, and back.

Usage: maps.py CAIRN FIXTURES GOLDEN. Prints one line a check and `N passed, N failed`.
"""
import json
import pathlib
import shutil
import sys
import tempfile
from program import GOLDEN, cairn, check, end, one_sentence, said

SAMPLE = GOLDEN / "torch-2.14.1/meshes_4_ranks"
CHECKPOINT = SAMPLE / "checkpoint"
STORED = json.loads((SAMPLE / "expected.json").read_text())["tensors"]
MAP = """# Two matrices are one, another is transposed.
"both" = concat(1, ["rows", "columns"])
"turned" = transpose("grid")
"number" = "step"
"never.{i}" = "nothing.{i}"
"""


def raw(checkpoint, fqn):
    return cairn("cat", checkpoint, fqn, "--raw").stdout


def rows_of(fqn):
    """The bytes of each row of a stored matrix of float32."""
    data, width = bytes.fromhex(STORED[fqn]["hex"]), 4 * STORED[fqn]["shape"][1]
    return [data[at:at + width] for at in range(0, len(data), width)]


def transposed(rows):
    return b"".join(row[at:at + 4] for at in range(0, len(rows[0]), 4) for row in rows)


def layouts(tmp, file):
    r = cairn("ls", CHECKPOINT, "--map", file, "--json")
    check("ls --map is a list", r.returncode == 0, said(r))
    names = {x["fqn"]: x for x in json.loads(r.stdout)}
    check("ls --map has the names that are made",
          {"both", "turned", "number", "plain"} <= names.keys() and
          not {"rows", "columns", "grid", "step"} & names.keys(), sorted(names))
    check("ls --map has their shapes",
          names["both"]["shape"] == [5, 12] and names["turned"]["shape"] == [6, 5], names["both"])
    both = b"".join(a + b for a, b in zip(rows_of("rows"), rows_of("columns")))
    for ranks in ("1", "3"):
        made, back = tmp / f"made{ranks}", tmp / f"back{ranks}"
        r = cairn("convert", CHECKPOINT, made, "--map", file, "--ranks", ranks)
        check(f"convert --map on {ranks}", r.returncode == 0, said(r))
        check(f"a matrix of two on {ranks}", raw(made, "both") == both)
        check(f"a transposed one on {ranks}", raw(made, "turned") == transposed(rows_of("grid")))
        check(f"a value under another name on {ranks}", cairn("cat", made, "number").stdout ==
              cairn("cat", CHECKPOINT, "step").stdout)
        r = cairn("convert", made, back, "--map", file, "--map-back", "--ranks", ranks)
        check(f"convert --map-back on {ranks}", r.returncode == 0, said(r))
        r = cairn("diff", CHECKPOINT, back)
        check(f"there and back on {ranks}", r.returncode == 0, said(r))
    r = cairn("convert", CHECKPOINT, tmp / "none", "--map", file, "--only", "turned", "--dry-run")
    check("--only chooses among the names that are made",
          r.stdout.startswith(b"1 tensors of 120 bytes"), said(r))


def in_place(tmp):
    """Nothing that a mapping would hide is lost where the source is replaced."""
    place, file = tmp / "place", tmp / "hides.map"
    shutil.copytree(CHECKPOINT, place)
    file.write_text('"rows" = "columns"\n')
    for more in ("--dry-run",), ():
        r = cairn("convert", place, place, "--map", file, *more)
        check("convert --map: what it hides is not replaced", r.returncode == 2 and
              one_sentence(r) and b"'rows'" in r.stderr and b"is replaced" in r.stderr and
              cairn("diff", CHECKPOINT, place).returncode == 0, said(r))
    r = cairn("convert", place, place, "--map", file, "--skip", "r*")
    check("convert --map: unless it is left out", r.returncode == 0, said(r))


def checks(tmp, file):
    r = cairn("map", "--check", file, CHECKPOINT)
    text = r.stdout.decode()
    check("map --check finds something", r.returncode == 1, said(r))
    check("what nothing uses", "not used: 'plain'" in text and "'rows'" not in text, text)
    check("what matches nothing", "matches nothing: 'never.{i}'" in text, text)
    wrong = tmp / "wrong.map"
    wrong.write_text('"a" = concat(0, ["rows", "deep"])\n"a" = "plain"\n')
    text = cairn("map", "--check", wrong, CHECKPOINT).stdout.decode()
    check("what does not fit", "error: 'a'" in text, text)
    check("what two could make", "two could make 'a'" in text, text)
    bad = tmp / "bad.map"
    bad.write_text('"a" = "b"\n"c" = turn("b")\n')
    for command in (("ls", CHECKPOINT, "--map", bad), ("map", "--check", bad, CHECKPOINT),
                    ("convert", CHECKPOINT, tmp / "no", "--map", bad)):
        r = cairn(*command)
        check(f"{command[0]}: where a map is wrong",
              r.returncode == 2 and b"bad.map" in r.stderr and b"2" in r.stderr and
              one_sentence(r), said(r))
    r = cairn("ls", CHECKPOINT, "--map", tmp / "nowhere.map")
    check("a map that is not there", r.returncode == 2 and b"nowhere.map" in r.stderr, said(r))


def main():
    with tempfile.TemporaryDirectory() as d:
        tmp = pathlib.Path(d)
        file = tmp / "mine.map"
        file.write_text(MAP)
        layouts(tmp, file)
        in_place(tmp)
        checks(tmp, file)
    sys.exit(end())


main()
