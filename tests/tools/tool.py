# SPDX-License-Identifier: Apache-2.0
"""The program cairn against what PyTorch wrote, what cairn wrote, and what is no checkpoint.

Usage: tool.py CAIRN FIXTURES GOLDEN. Prints one line a check and `N passed, N failed`.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from program import CAIRN, FIXTURES, GOLDEN, cairn, check, end, one_sentence, said

# struct's letters of the dtypes that it knows.
LETTERS = {"float64": "d", "float32": "f", "float16": "e", "int64": "q", "int32": "i", "int16": "h",
           "int8": "b", "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q", "bool": "?"}


def flat(data):
    return [x for part in data for x in flat(part)] if isinstance(data, list) else [data]


def same_value(a, b):
    """Equal, and of one type: 1, 1.0 and True are three values."""
    if type(a) is not type(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same_value, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same_value(a[k], b[k]) for k in a)
    return a == b


def golden_cases():
    cases = sorted(p.parent for p in GOLDEN.glob("torch-*/*/expected.json"))
    check("the golden samples are there", len(cases) >= 12, f"{len(cases)} in {GOLDEN}")
    return cases


def golden_content(case, name, checkpoint):
    want = json.loads((case / "expected.json").read_text())
    wrong = []
    for fqn, spec in want["tensors"].items():
        r = cairn("cat", checkpoint, fqn, "--raw")
        if r.returncode != 0 or r.stdout != bytes.fromhex(spec["hex"]):
            wrong.append(f"{fqn}: {said(r)}")
    count = len(want["tensors"])
    check(f"{name}: cat --raw gives the bytes of {count} tensors", not wrong and count, wrong)

    wrong, count = [], 0
    for fqn, spec in want["tensors"].items():
        if spec["dtype"] not in LETTERS:
            continue
        count += 1
        data = bytes.fromhex(spec["hex"])
        numbers = struct.unpack(f"<{len(data) // struct.calcsize(LETTERS[spec['dtype']])}"
                                f"{LETTERS[spec['dtype']]}", data)
        r = cairn("cat", checkpoint, fqn, "--json")
        shown = json.loads(r.stdout) if r.returncode == 0 else {"data": None}
        if (shown.get("dtype") != spec["dtype"] or shown.get("shape") != spec["shape"] or
                not same_value(flat(shown["data"]), list(numbers))):
            wrong.append(f"{fqn}: {said(r)}")
    check(f"{name}: cat --json gives the numbers of {count} tensors", not wrong and count, wrong)

    wrong = []
    for fqn, value in want["objects"].items():
        r = cairn("cat", checkpoint, fqn, "--json")
        if r.returncode != 0 or not same_value(json.loads(r.stdout), value):
            wrong.append(f"{fqn}: {said(r)}, not {value!r}")
    count = len(want["objects"])
    check(f"{name}: cat --json gives {count} objects", not wrong and count, wrong)

    r = cairn("ls", checkpoint, "--json")
    listed = {x["fqn"]: x for x in json.loads(r.stdout)} if r.returncode == 0 else {}
    check(f"{name}: ls --json names every key and no other",
          set(listed) == set(want["tensors"]) | set(want["objects"]), said(r))
    wrong = [fqn for fqn, spec in want["tensors"].items() if fqn not in listed or
             (listed[fqn]["kind"], listed[fqn].get("dtype"), listed[fqn].get("shape"),
              listed[fqn]["bytes"]) !=
             ("tensor", spec["dtype"], spec["shape"], len(spec["hex"]) // 2)]
    wrong += [fqn for fqn in want["objects"] if listed.get(fqn, {}).get("kind") != "value"]
    wrong += [fqn for fqn, x in listed.items()
              if not x["files"] or not all((pathlib.Path(checkpoint) / f).exists()
                                           for f in x["files"])]
    check(f"{name}: ls --json tells kinds, dtypes, shapes, bytes and files", not wrong, wrong)
    r = cairn("ls", checkpoint)
    check(f"{name}: ls prints a line for each key",
          r.returncode == 0 and len(r.stdout.decode().splitlines()) == len(listed), said(r))


def golden(tmp):
    for case in golden_cases():
        name, checkpoint = f"{case.parent.name}/{case.name}", case / "checkpoint"
        golden_content(case, name, checkpoint)
        r = cairn("verify", checkpoint)
        check(f"{name}: verify finds nothing and says what it cannot check",
              r.returncode == 0 and b"all fine" in r.stdout and b"not checked" in r.stdout, said(r))
        r = cairn("diff", checkpoint, checkpoint)
        check(f"{name}: diff with itself", r.returncode == 0 and b"equal" in r.stdout, said(r))
        for ranks, dim in ((1, 0), (3, 0), (5, 0), (3, 1)):
            out = tmp / f"{case.parent.name}-{case.name}-{ranks}-{dim}"
            extra = ["--dim", 1] if dim else []
            r = cairn("reshard", checkpoint, out, "--ranks", ranks, *extra)
            if r.returncode == 0:
                r = cairn("diff", checkpoint, out)
            check(f"{name}: re-sharded onto {ranks} along {dim}, diff finds nothing",
                  r.returncode == 0, said(r))
            r = cairn("verify", out)
            check(f"{name}: verify of that", r.returncode == 0 and b"all fine" in r.stdout, said(r))


def crafted():
    fqn = "w"
    whole = cairn("cat", GOLDEN / "crafted/A_min", fqn, "--raw").stdout
    check("crafted/A_min holds a tensor of 24 bytes", len(whole) == 24)
    for d in sorted((GOLDEN / "crafted").iterdir()):
        r, shown = cairn("verify", d), cairn("cat", d, fqn, "--raw")
        if d.name[0] in "BCD":
            check(f"crafted/{d.name}: verify finds it, naming tensor and file",
                  r.returncode == 1 and f"'{fqn}' in '{d}/__0_0.distcp': ".encode() in r.stdout,
                  said(r))
            check(f"crafted/{d.name}: cat refuses in one sentence",
                  shown.returncode == 2 and one_sentence(shown), said(shown))
        else:
            check(f"crafted/{d.name}: verify accepts", r.returncode == 0, said(r))
            check(f"crafted/{d.name}: verify says what has no checksum",
                  (b"2 items were written without a checksum" in r.stdout) == (d.name[0] == "L"),
                  said(r))
            check(f"crafted/{d.name}: cat gives the tensor",
                  shown.returncode == 0 and shown.stdout == whole, said(shown))


def unknown(tmp):
    """What PyTorch saved and cairn does not know: it is said, and kept."""
    values, dtypes = GOLDEN / "unknown_values", GOLDEN / "unknown_dtypes"
    what = {"delta": "class datetime.timedelta", "set": "class __builtin__.set",
            "nested": "nesting deeper than 200"}
    def named(r): return all(re.search(f"not checked: .*'extra.{key}'.*: {why}", r.stdout.decode())
                             for key, why in what.items())
    r, out = cairn("verify", values), tmp / "unknown values"
    check("verify: values of unknown classes are no findings, and are named", r.returncode == 0 and
          named(r), said(r))
    for key, s in what.items():
        r = cairn("cat", values, f"extra.{key}", "--json")
        check(f"cat says what extra.{key} is", r.returncode == 0 and
              json.loads(r.stdout)["opaque"] == s, said(r))
    r = cairn("reshard", values, out, "--ranks", 2)
    check("reshard names what it cannot check", r.returncode == 0 and
          named(r), said(r))
    r = cairn("diff", values, out)
    check("reshard keeps it, diff compares its bytes", r.returncode == 0, said(r))

    r, out = cairn("ls", dtypes, "--json"), tmp / "unknown dtypes"
    listed = {x["fqn"]: x for x in json.loads(r.stdout)} if r.returncode == 0 else {}
    check("ls lists tensors of any dtype", listed.get("float4", {}).get("dtype") ==
          "float4_e2m1fn_x2" and listed.get("quantised", {}).get("dtype") == "torch.qint8" and
          listed["quantised"]["shape"] == [8], said(r))
    check("ls: a line for each", len(cairn("ls", dtypes).stdout.splitlines()) == 4)
    r = cairn("cat", dtypes, "float4", "--raw")
    check("cat: a dtype that is known to the byte", r.stdout == bytes(range(48)), said(r))
    r = cairn("cat", dtypes, "quantised")
    check("cat: a dtype that is not known", r.returncode == 2 and one_sentence(r) and
          b"torch.qint8" in r.stderr, said(r))
    r = cairn("verify", dtypes)
    check("verify: a dtype that is not known is no finding", r.returncode == 0 and
          b"not checked: 'quantised': dtype torch.qint8" in r.stdout, said(r))
    r = cairn("reshard", dtypes, out, "--ranks", 3)
    check("reshard says what it left out, and exits with 1",
          r.returncode == 1 and b"'quantised'" in r.stderr, said(r))
    check("reshard: the rest is there", cairn("cat", out, "float4", "--raw").stdout ==
          bytes(range(48)) and cairn("verify", out).returncode == 0)


def differences(tmp):
    def diff(other):
        r = cairn("diff", tmp / "base", tmp / other)
        return r, r.stdout.decode()

    r, out = diff("base")
    check("diff: equal", r.returncode == 0 and "equal: 3" in out, said(r))
    r, out = diff("bytes")
    line = next((x for x in out.splitlines() if x.startswith("w:")), "")
    check("diff: FQN, dtype, shape, bytes and the largest difference",
          r.returncode == 1 and "float32" in line and "[2, 3]" in line and "2 of 24 bytes" in line
          and "largest difference 2.0" in line, said(r))
    check("diff: only the tensor that differs is named",
          "whole:" not in out and "step:" not in out and "1 of 3 entries" in out, said(r))
    r, out = diff("shape")
    check("diff: shape", r.returncode == 1 and "w: shape [2, 3] and [3, 2]" in out, said(r))
    r, out = diff("dtype")
    check("diff: dtype", r.returncode == 1 and "w: dtype float32 and float64" in out, said(r))
    r, out = diff("missing")
    check("diff: a key that one lacks",
          r.returncode == 1 and f"whole: only in {tmp}/base" in out, said(r))
    r = cairn("diff", tmp / "missing", tmp / "base")
    check("diff: and the other way round",
          r.returncode == 1 and f"whole: only in {tmp}/base".encode() in r.stdout, said(r))
    r, out = diff("object")
    check("diff: values",
          r.returncode == 1 and "step: 7 and " in out and '"tuple"' in out, said(r))
    r = cairn("diff", tmp / "long_a", tmp / "long_b")
    check("diff: of long values, what stands around the difference", r.returncode == 1 and
          len(r.stdout) < 1000 and b"...a..." in r.stdout and b"...b..." in r.stdout, said(r))
    r, out = diff("kind")
    check("diff: a tensor against a value", r.returncode == 1 and "w: a tensor" in out, said(r))


def corruption(tmp):
    good = tmp / "base"
    r = cairn("verify", good)
    check("verify: cairn's own, every byte covered",
          r.returncode == 0 and b"all fine" in r.stdout and b"not checked" not in r.stdout, said(r))
    whole = cairn("cat", good, "w", "--raw").stdout
    data = next(good.glob("*.distcp"))

    def damaged(name, change, file=data.name):
        d = tmp / f"damaged-{name}"
        shutil.copytree(good, d)
        content = bytearray((d / file).read_bytes())
        (d / file).write_bytes(change(content))
        return d

    def flip(content, at):
        content[at] ^= 1
        return content

    at = data.read_bytes().index(whole)
    d = damaged("payload", lambda c: flip(c, at + 5))
    r = cairn("verify", d)
    check("verify: a flipped bit of a tensor, naming tensor and file",
          r.returncode == 1 and f"'w' in '{d}/{data.name}': ".encode() in r.stdout, said(r))
    r = cairn("cat", d, "w", "--raw")
    check("cat: a flipped bit is refused", r.returncode == 2 and one_sentence(r), said(r))
    r = cairn("cat", d, "whole", "--raw")
    check("cat: the tensor beside it is read", r.returncode == 0 and len(r.stdout) == 24, said(r))
    r = cairn("verify", damaged("short", lambda c: c[:-7]))
    check("verify: a truncated data file is named",
          r.returncode == 1 and data.name.encode() in r.stdout, said(r))
    d = damaged("gone", lambda c: c)
    (d / data.name).unlink()
    r = cairn("verify", d)
    check("verify: a missing data file is named",
          r.returncode == 1 and data.name.encode() in r.stdout
          and b"a data file of the checkpoint is missing" in r.stdout, said(r))
    r = cairn("cat", d, "w")
    check("cat: a missing data file is named in one sentence",
          r.returncode == 2 and one_sentence(r) and data.name.encode() in r.stderr
          and b"a data file of the checkpoint is missing" in r.stderr, said(r))
    for name, change in (("half", lambda c: c[: len(c) // 2]), ("cut", lambda c: c[:-1]),
                         ("empty", lambda c: b""), ("flipped", lambda c: flip(c, len(c) - 40))):
        d = damaged(f"metadata-{name}", change, ".metadata")
        r = cairn("verify", d)
        check(f"verify: a {name} .metadata is a finding",
              r.returncode == 1 and b".metadata" in r.stdout, said(r))
        for args in (("ls", d), ("cat", d, "w"), ("diff", good, d),
                     ("reshard", d, tmp / "never", "--ranks", 2)):
            r = cairn(*args)
            check(f"{args[0]}: a {name} .metadata, in one sentence that names it",
                  r.returncode == 2 and one_sentence(r) and b".metadata" in r.stderr, said(r))
    check("reshard: nothing was written", not (tmp / "never" / ".metadata").exists())
    # Another save's data file, whole and sound in itself.
    d = damaged("foreign", lambda c: next((tmp / "bytes").glob("*.distcp")).read_bytes())
    r = cairn("verify", d)
    check("verify: another save's data file", r.returncode == 1 and b"save" in r.stdout, said(r))


def odd(tmp):
    """Little on disk that is much to print, or to read again and again."""
    d = tmp / "odd"
    r = cairn("cat", d, "few")
    check("cat: rows of no elements", b'"data": [[], []]' in r.stdout, said(r))
    r = cairn("cat", d, "rows")
    check("cat: more of them than anybody reads", r.returncode == 2 and one_sentence(r), said(r))
    r = cairn("cat", d, "rows", "--raw")
    check("cat --raw: nothing of them", r.returncode == 0 and r.stdout == b"", said(r))
    r = cairn("cat", d, "number")
    check("cat: a huge number in hexadecimal", r.stdout == b'{"int": "0x' + b"5a" * 2**20 + b'"}\n',
          said(r))
    r = cairn("diff", d, d)
    check("diff: all of that", r.returncode == 0, said(r))
    r = cairn("verify", d)
    words = r.stdout.decode().split()
    check("verify: a weight of twenty names is read once", r.returncode == 0 and
          words[:2] == ["23", "items,"] and 2**20 < int(words[2]) < 3 * 2**20, said(r))
    r = cairn("diff", tmp / "small", tmp / "small")
    check("diff: thousands of tensors, their metadata read once",
          r.returncode == 0 and b"equal: 5000" in r.stdout, said(r))


def without_pickle(tmp):
    """torch_metadata off: cairn reads it, and says that PyTorch cannot."""
    d, note = tmp / "no_pickle", b"for cairn only"
    for args in (("ls", d), ("verify", d)):
        r = cairn(*args)
        check(f"{args[0]}: without PyTorch's pickle", r.returncode == 0 and note in r.stdout,
              said(r))
        r = cairn(args[0], tmp / "base")
        check(f"{args[0]}: with it, no such note", r.returncode == 0 and note not in r.stdout,
              said(r))
    r = cairn("cat", d, "step")
    check("cat: without PyTorch's pickle", r.returncode == 0 and r.stdout == b"7\n", said(r))
    r = cairn("ls", d, "--json")
    check("ls --json: without PyTorch's pickle", len(json.loads(r.stdout)) == 1, said(r))
    r = cairn("reshard", d, tmp / "with_pickle", "--ranks", 2)
    check("reshard gives it a pickle", r.returncode == 0 and
          note not in cairn("verify", tmp / "with_pickle").stdout, said(r))


def directory(tmp):
    """Several checkpoints, and what an interrupted save has left beside them."""
    d = tmp / "series"
    r = cairn("ls", d)
    lines = r.stdout.decode().splitlines()
    check("ls: a directory, in the order of commits", r.returncode == 0 and
          [x.split()[0] for x in lines] ==
          ["step_100", "step_300", "step_200", "step_400"], said(r))
    check("ls: a checkpoint of it", re.fullmatch(
        r"step_300  complete  \d+ bytes  step 300  \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ  loss=0.5",
        lines[1]), said(r))
    check("ls: an interrupted save",
          "broken" in lines[3] and "was interrupted" in lines[3], said(r))
    r = cairn("ls", d, "--json")
    listed = json.loads(r.stdout) if r.returncode == 0 else [{}]
    first = listed[0].get("sequence", 0)
    check("ls --json: a directory", [(x["id"], x["state"], x.get("sequence")) for x in listed] ==
          [("step_100", "complete", first), ("step_300", "complete", first + 1),
           ("step_200", "complete", first + 2), ("step_400", "broken", None)] and
          listed[1]["metrics"] == {"loss": 0.5}, said(r))
    check("ls --json: a loss that is NaN is null", listed[0]["metrics"] == {"loss": None}, said(r))
    broken = tmp / "damaged series"
    shutil.copytree(d, broken)
    next((broken / "step_300").glob("*.distcp")).unlink()
    r = cairn("ls", broken)
    check("ls: a checkpoint without its file", r.returncode == 0 and
          re.search(rb"^step_300  broken .*distcp", r.stdout, re.M), said(r))

    before = sorted(d.rglob("*"))
    r = cairn("gc", d, "--dry-run")
    check("gc --dry-run: says what and why, and removes nothing", r.returncode == 0 and
          b"would remove step_400/" in r.stdout and b"which has ended" in r.stdout and
          sorted(d.rglob("*")) == before, said(r))
    r = cairn("gc", d)
    check("gc: removes it, and says how much", r.returncode == 0 and
          b"removed step_400/" in r.stdout and
          re.search(rb"^2 files, \d+ bytes and 1 empty directory removed$", r.stdout, re.M) and
          not (d / "step_400").exists() and
          all((d / f"step_{n}" / ".metadata").exists() for n in (100, 200, 300)), said(r))
    r = cairn("gc", d)
    check("gc: nothing is left", r.stdout == b"0 files, 0 bytes removed\n", said(r))
    copies = d / ".cairn-copies.abcdef"
    copies.mkdir()
    (copies / "config.json").write_text("{}")
    r = cairn("gc", d, "--dry-run")
    check("gc --dry-run: copies of an interrupted conversion stay", copies.exists() and
          b"1 file, 2 bytes would be removed" in r.stdout, said(r))
    r = cairn("gc", d)
    check("gc: copies of an interrupted conversion are removed", not copies.exists() and
          b"1 file, 2 bytes removed" in r.stdout and b"copies of an interrupted" in r.stdout,
          said(r))


def refusals(tmp):
    (tmp / "no metadata").mkdir()
    (tmp / "file").write_text("not a directory")
    base = tmp / "base"
    for what, args, needle in (
            ("ls: a directory that is not there", ("ls", tmp / "nowhere"), "nowhere"),
            ("verify: a directory that is not there", ("verify", tmp / "nowhere"), "nowhere"),
            ("ls: no .metadata", ("ls", tmp / "no metadata"), ".metadata"),
            ("verify: no .metadata", ("verify", tmp / "no metadata"), ".metadata"),
            ("ls: a file", ("ls", tmp / "file"), "file"),
            ("ls: a variable that is not set", ("ls", ""), "PLACE"),
            ("report: a variable that is not set", ("report", "", "-o", tmp / "never"), "CKPT"),
            ("ls: a mapping that is not named", ("ls", base, "--map", ""), "--map"),
            ("gc: a directory that is not there", ("gc", tmp / "nowhere"), "nowhere"),
            ("gc: no directory", ("gc",), "PLACE"),
            ("cat: no .metadata", ("cat", tmp / "no metadata", "w"), ".metadata"),
            ("diff: one is not there", ("diff", base, tmp / "nowhere"), "nowhere"),
            ("reshard: the source is not there",
             ("reshard", tmp / "nowhere", tmp / "never", "--ranks", 2), "nowhere"),
            ("reshard: the target is a file",
             ("reshard", base, tmp / "file", "--ranks", 2), "file"),
            ("cat: an unknown key", ("cat", base, "v"), "'v'"),
            ("cat --raw: a value", ("cat", base, "step", "--raw"), "step"),
            ("no subcommand", (), "subcommand"),
            ("an unknown subcommand", ("frobnicate",), "frobnicate"),
            ("an unknown option", ("ls", base, "--yaml"), "--yaml"),
            ("ls: no checkpoint", ("ls",), "PLACE"),
            ("cat: no key", ("cat", base), "FQN"),
            ("cat: --raw with --json", ("cat", base, "w", "--raw", "--json"), "--raw"),
            ("convert: checksums in DCP", ("convert", base, tmp / "never", "--checksums"),
             "--checksums"),
            ("convert: values left out of a file that has them",
             ("convert", base, tmp / "never.pt", "--skip-values"), "--skip-values"),
            ("convert: one file of at most so many bytes",
             ("convert", base, tmp / "never.safetensors", "--max-file-size", 1), "directory"),
            ("convert: a file of torch.save by another name",
             ("convert", base, tmp / "never", "--to", "torch"), ".ckpt"),
            ("reshard: no --ranks", ("reshard", base, tmp / "never"), "--ranks"),
            ("reshard: --ranks 0", ("reshard", base, tmp / "never", "--ranks", 0), "--ranks"),
            ("reshard: --ranks two", ("reshard", base, tmp / "never", "--ranks", "two"), "two"),
            ("reshard: --dim -1", ("reshard", base, tmp / "never", "--ranks", 2, "--dim", -1),
             "--dim"),
    ):
        r = cairn(*args)
        check(f"{what}: exit 2 and one clear sentence",
              r.returncode == 2 and one_sentence(r) and needle in r.stderr.decode(), said(r))
        check(f"{what}: nothing on stdout", r.stdout == b"", said(r))
    check("no refused command wrote anything", not list(tmp.glob("never*")))
    for args in (("--help",), ("cat", "--help")):
        r = cairn(*args)
        check(f"{' '.join(args)}: exit 0", r.returncode == 0 and b"CKPT" in r.stdout or
              b"cat" in r.stdout, said(r))


def closed_output(tmp):
    for args in (("cat", tmp / "big", "big", "--raw"), ("ls", tmp / "base", "--json")):
        p = subprocess.Popen([CAIRN, *map(str, args)], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(
                                 signal.SIGPIPE, signal.SIG_DFL))
        head = p.stdout.read(10)
        p.stdout.close()
        err = p.stderr.read()
        code = p.wait(timeout=60)
        check(f"{args[0]}: a reader that leaves early", len(head) == 10 and
              code in (0, 2, -signal.SIGPIPE) and len(err.splitlines()) <= 1, f"{code} {err!r}")
        # With SIGPIPE ignored, as under some supervisors, the failed write is an error.
        nobody, out = os.pipe()
        os.close(nobody)
        p = subprocess.Popen([CAIRN, *map(str, args)], stdout=out, stderr=subprocess.PIPE,
                             restore_signals=False)
        os.close(out)
        err = p.stderr.read()
        code = p.wait(timeout=60)
        check(f"{args[0]}: a reader that was never there", code == 2 and err.startswith(b"cairn: ")
              and len(err.splitlines()) == 1, f"{code} {err!r}")
    if os.path.exists("/dev/full"):
        for args in (("ls", tmp / "base"), ("cat", tmp / "base", "w", "--raw"),
                     ("cat", tmp / "base", "step"), ("verify", tmp / "base"),
                     ("diff", tmp / "base", tmp / "base"), ("--help",)):
            with open("/dev/full", "wb") as full:
                r = subprocess.run([CAIRN, *map(str, args)], stdout=full, stderr=subprocess.PIPE)
            check(f"{args[0]}: a full disk behind stdout is told",
                  r.returncode == 2 and r.stderr.startswith(b"cairn: "),
                  f"{r.returncode} {r.stderr!r}")


def closed_streams(tmp):
    """No file is taken for a standard stream that was closed when the program started."""
    p = subprocess.Popen([CAIRN, "cat", tmp / "big", "big", "--raw"], stdout=subprocess.PIPE,
                         preexec_fn=lambda: os.close(2))
    p.stdout.read(10)  # more than a pipe holds is to come
    errors = os.readlink(f"/proc/{p.pid}/fd/2")
    p.stdout.close()
    p.wait(timeout=60)
    check("standard error that is closed leads nowhere", errors == "/dev/null", errors)
    r = subprocess.run([CAIRN, "ls", tmp / "base"], stderr=subprocess.PIPE,
                       preexec_fn=lambda: os.close(1))
    check("standard output that is closed is told", r.returncode == 2 and
          r.stderr.startswith(b"cairn: standard output"), f"{r.returncode} {r.stderr!r}")


def page(tmp):
    """What docs/tool.md shows of the tool is what it prints."""
    root = pathlib.Path(__file__).parents[2]
    shown = re.findall(r"^```console\n(.*?)^```$", (root / "docs/tool.md").read_text(), re.M | re.S)
    check("the page shows the tool once", len(shown) == 1, len(shown))
    here = tmp / "page"
    shutil.copytree(GOLDEN / "torch-2.14.1/meshes_4_ranks/checkpoint", here / "ckpt/step_100")
    for command, output in re.findall(r"^\$ cairn (.*)\n((?:[^$].*\n)*)", shown[0], re.M):
        r = cairn(*command.split(), cwd=here)
        check(f"docs/tool.md: cairn {command}",
              r.returncode == 0 and r.stdout.decode() == output, said(r))


def main():
    with tempfile.TemporaryDirectory() as d:
        tmp = pathlib.Path(d)
        made = subprocess.run([FIXTURES, d], capture_output=True)
        check("the fixtures are written", made.returncode == 0, made.stderr)
        golden(tmp)
        page(tmp)
        crafted()
        unknown(tmp)
        differences(tmp)
        corruption(tmp)
        odd(tmp)
        without_pickle(tmp)
        directory(tmp)
        refusals(tmp)
        closed_output(tmp)
        closed_streams(tmp)
    sys.exit(end())


main()
