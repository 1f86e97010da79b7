# SPDX-License-Identifier: Apache-2.0
"""cairn stats against numbers that this file computes of the same bytes.

Usage: stats.py CAIRN FIXTURES GOLDEN. Prints one line a check and `N passed, N failed`.
"""
import json
import math
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from program import CAIRN, FIXTURES, GOLDEN, cairn, check, end, one_sentence, said

# struct's letters of the dtypes that it knows.
LETTERS = {"float64": "d", "float32": "f", "float16": "e", "int64": "q", "int32": "i", "int16": "h",
           "int8": "b", "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q", "bool": "?",
           "complex128": "d", "complex64": "f", "complex32": "e"}
# Others of one byte: bits of exponent and mantissa, bias, and whether there are infinities, or one
# NaN instead of -0.
SMALL = {"float8_e4m3fn": (4, 3, 7, ""), "float8_e5m2": (5, 2, 15, "infinity"),
         "float8_e4m3fnuz": (4, 3, 8, "fnuz"), "float8_e5m2fnuz": (5, 2, 16, "fnuz")}
SAFETENSORS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
               "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
               "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz",
               "F8_E8M0": "float8_e8m0fnu", "F4": "float4_e2m1fn_x2", "I64": "int64",
               "I32": "int32", "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32",
               "U16": "uint16", "U8": "uint8", "BOOL": "bool", "C64": "complex64"}
SIZES = {"F64": 8, "I64": 8, "U64": 8, "C64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2,
         "I16": 2, "U16": 2}


def small_float(code, exponent, mantissa, bias, kind):
    sign = -1 if code >> 7 else 1
    e, m = code >> mantissa & (1 << exponent) - 1, code & (1 << mantissa) - 1
    if kind == "fnuz" and code == 0x80:
        return math.nan
    if kind == "infinity" and e == (1 << exponent) - 1:
        return math.nan if m else sign * math.inf
    if kind == "" and code & 0x7f == 0x7f:
        return math.nan
    if e == 0:
        return sign * math.ldexp(m, 1 - bias - mantissa)
    return sign * math.ldexp(m + (1 << mantissa), e - bias - mantissa)


def numbers(dtype, data):
    if dtype in LETTERS:
        n = len(data) // struct.calcsize(LETTERS[dtype])
        found = struct.unpack(f"<{n}{LETTERS[dtype]}", data)
        if dtype.startswith("complex"):
            return [math.hypot(*pair) for pair in zip(found[::2], found[1::2])]
        return [int(x) for x in found] if dtype == "bool" else list(found)
    if dtype == "bfloat16":
        return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
    if dtype == "float8_e8m0fnu":
        return [math.nan if x == 255 else math.ldexp(1, x - 127) for x in data]
    if dtype == "float4_e2m1fn_x2":
        return [(-1 if x & 8 else 1) * (0., .5, 1., 1.5, 2., 3., 4., 6.)[x & 7]
                for byte in data for x in (byte & 15, byte >> 4)]
    return [small_float(x, *SMALL[dtype]) for x in data]


def expected(dtype, data):
    x = numbers(dtype, data)
    finite = [v for v in x if math.isfinite(v)]
    want = {"elements": len(x), "zeros": x.count(0), "nan": sum(map(math.isnan, x)),
            "inf": sum(map(math.isinf, x)), "min": None, "max": None, "mean": None,
            "deviation": None}
    if finite:
        mean = math.fsum(finite) / len(finite)
        want.update(min=min(finite), max=max(finite), mean=mean, deviation=math.sqrt(
            math.fsum((v - mean) ** 2 for v in finite) / len(finite)))
    return want


def differs(got, want):
    """What of the statistics is not as expected: integers and extremes exactly."""
    for key, value in want.items():
        if key in ("mean", "deviation") and value is not None and got.get(key) is not None:
            scale = max(abs(want["mean"]), want["deviation"])
            if abs(got[key] - value) > 1e-12 * scale:
                return f"{key} {got[key]!r}, not {value!r}"
        elif key not in got or got[key] != value or type(got[key]) is not type(value):
            return f"{key} {got.get(key)!r}, not {value!r}"
    return ""


def compare(name, checkpoint, count=1):
    """Every tensor against the bytes that cairn cat prints."""
    r = cairn("stats", checkpoint, "--json")
    listed = {x["fqn"]: x for x in json.loads(r.stdout)} if r.stdout else {}
    r_ls = cairn("ls", checkpoint, "--json")
    tensors = {x["fqn"]: x for x in json.loads(r_ls.stdout) if x["kind"] != "value"}
    check(f"{name}: names every tensor and no value", set(listed) == set(tensors) and
          len(listed) >= count, said(r))
    wrong, finite, whole = [], True, True
    for fqn, one in listed.items():
        for key in ("dtype", "shape", "bytes"):
            if one.get(key) != tensors[fqn].get(key):
                wrong.append(f"{fqn}: {key} {one.get(key)!r}")
        if one.get("kind") == "unsupported":
            whole = False
            continue
        want = expected(one["dtype"], cairn("cat", checkpoint, fqn, "--raw").stdout)
        finite = finite and want["nan"] + want["inf"] == 0
        if what := differs(one, want):
            wrong.append(f"{fqn}: {what}")
    check(f"{name}: {len(listed)} tensors", not wrong, wrong[:5])
    code = 2 if not whole else 0 if finite else 1
    check(f"{name}: exit {code}", r.returncode == code, said(r))
    return listed


def golden():
    for case in sorted(p.parent for p in GOLDEN.glob("torch-*/*/expected.json")):
        compare(f"{case.parent.name}/{case.name}", case / "checkpoint")
    for path in ("zip_kinds/state.pt", "legacy_kinds/state.pt", "shared_storage/state.pt",
                 "training_state/last.pt", "lightning/epoch.ckpt"):
        compare(f"pt/{path}", GOLDEN / "formats/pt" / path)
    for path in ("safetensors/torch_kinds", "safetensors/numpy", "safetensors/mlx",
                 "hf/transformers_sharded", "hf/dcp_sharded_3_ranks", "hf/quantised_blocks"):
        compare(path, GOLDEN / "formats" / path)
    compare("zstd", next(GOLDEN.glob("zstd/**/.metadata")).parent)
    found = compare("unknown dtypes", GOLDEN / "unknown_dtypes", 3)
    check("a tensor that cairn cannot read is named", found["quantised"]["kind"] == "unsupported")


def write_safetensors(path, tensors):
    """By name: the name of a dtype, a shape and the bytes."""
    header, data = {}, b""
    for fqn, (name, shape, part) in tensors.items():
        header[fqn] = {"dtype": name, "shape": shape,
                       "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def every_dtype(tmp):
    """All bit patterns of safetensors' dtypes as they come, NaN and infinities among them."""
    chance, tensors = random.Random(3), {}
    for name in SAFETENSORS:
        for what, n in (("many", 6000), ("one", 1), ("none", 0)):
            size = SIZES.get(name, 1)
            part = chance.randbytes(n * size)
            if name == "F64":  # squares of others overflow
                part = b"".join(struct.pack("<d", chance.choice(
                    (0., -0., math.nan, math.inf, 1e-310, chance.gauss(1e5, 2)))) for _ in range(n))
            if name == "BOOL":
                part = bytes(x & 1 for x in part)
            tensors[f"{name}.{what}"] = (name, [n * 2 if name == "F4" else n], part)
    write_safetensors(tmp / "all.safetensors", tensors)
    listed = compare("every dtype", tmp / "all.safetensors", len(SAFETENSORS) * 3)
    check("every dtype: none is left out",
          {x["dtype"] for x in listed.values()} == set(SAFETENSORS.values()))


def histograms(tmp):
    r = cairn("stats", GOLDEN / "formats/safetensors/torch_kinds", "--json", "--histogram", 12)
    wrong = []
    for x in json.loads(r.stdout):
        raw = cairn("cat", GOLDEN / "formats/safetensors/torch_kinds", x["fqn"], "--raw").stdout
        finite = [v for v in numbers(x["dtype"], raw) if math.isfinite(v)]
        h = x["histogram"]
        if not finite:
            wrong += [x["fqn"]] if (h["counts"], h["from"]) != ([], None) else []
            continue
        want = [0] * len(h["counts"])
        for v in finite:
            want[math.floor((v - h["from"]) / h["width"])] += 1
        if h["counts"] != want or len(want) > 12 or not want[0] or not want[-1]:
            wrong.append((x["fqn"], h, want))
    check("--histogram counts every finite element in its bin", not wrong, wrong)
    for args in (("--histogram", 12), ("--json", "--histogram", 3), ("--json", "--histogram", "x")):
        r = cairn("stats", tmp / "base", *args)
        check(f"{' '.join(map(str, args))}: refused", r.returncode == 2 and one_sentence(r) and
              b"--histogram" in r.stderr, said(r))


def shown(tmp):
    r = cairn("stats", tmp / "base")
    check("a table for people", r.returncode == 0 and r.stdout.decode().splitlines() == [
        "tensor  dtype    shape   min  max  mean  deviation  zeros  NaN  Inf",
        "w       float32  [2, 3]    0    5   2.5    1.70783      1    0    0",
        "whole   int64    [3]       1    3     2   0.816497      0    0    0",
        "2 tensors, 9 elements; all finite"], said(r))
    r = cairn("stats", GOLDEN / "formats/safetensors/torch_kinds")
    check("NaN and Inf: exit 1", r.returncode == 1 and
          b"; NaN or Inf in 1 tensor\n" in r.stdout, said(r))
    r = cairn("stats", tmp / "names")
    check("names are escaped", r.returncode == 0 and b"\x1b" not in r.stdout and
          b"\xc2\x9b" not in r.stdout, said(r))
    r = cairn("stats", tmp / "small")
    check("many small tensors", r.returncode == 0 and
          r.stdout.count(b" 1.5 ") == 5000 and b"5000 tensors, 10000 elements" in r.stdout,
          r.returncode)
    r = cairn("stats", tmp / "odd", "--json")
    rows = [x for x in json.loads(r.stdout) if x["fqn"] == "rows"]
    check("rows of no elements", r.returncode == 0 and rows[0]["elements"] == 0 and
          rows[0]["min"] is None, said(r))
    r = cairn("stats", tmp / "nowhere")
    check("what is not there: one sentence", r.returncode == 2 and one_sentence(r) and
          r.stdout == b"", said(r))


def files_opened(args):
    """How often a data file was opened; None without strace."""
    if shutil.which("strace") is None:
        return None
    r = subprocess.run(["strace", "-f", "-e", "trace=openat", CAIRN, *map(str, args)],
                       capture_output=True, timeout=300)
    lines = [x for x in r.stderr.decode(errors="replace").splitlines() if ".distcp" in x]
    return len(lines) if r.returncode == 0 else None


def damaged(tmp):
    d = tmp / "damaged"
    shutil.copytree(tmp / "base", d)
    data = next(d.glob("*.distcp"))
    content = bytearray(data.read_bytes())
    content[content.index(struct.pack("<6f", *range(6))) + 5] ^= 1
    data.write_bytes(content)
    r = cairn("stats", d)
    lines = r.stdout.decode().splitlines()
    check("a damaged tensor: its error, and the others", r.returncode == 2 and len(lines) == 4 and
          lines[1].startswith("w ") and "as they were written" in lines[1] and data.name in lines[1]
          and lines[2].split()[-3:] == ["0", "0", "0"] and
          lines[3] == "2 tensors, 3 elements; could not read 1 tensor", said(r))
    r = cairn("stats", d, "--json")
    found = {x["fqn"]: x for x in json.loads(r.stdout)}
    check("a damaged tensor: JSON", r.returncode == 2 and "'w'" in found["w"]["error"] and
          "min" not in found["w"] and found["whole"]["max"] == 3, said(r))
    data.unlink()
    r = cairn("stats", d)
    check("a data file that is missing", r.returncode == 2 and
          b"could not read 2 tensors" in r.stdout and data.name.encode() in r.stdout, said(r))


def not_whole():
    r = cairn("stats", GOLDEN / "unknown_dtypes")
    check("unsupported tensors were not read", r.returncode == 2 and
          b"; could not read " in r.stdout and b"all finite" not in r.stdout, said(r))
    r = cairn("stats", GOLDEN / "one_rank")
    check("not all elements are stored", r.returncode == 2 and
          b"  6 of 12 elements are stored\n" in r.stdout and
          r.stdout.endswith(b"; not all elements are stored of 1 tensor\n"), said(r))


def changes(tmp):
    floats = [1.0, -2.0, 0.0, 8.0]
    a = {"w": ("F32", [4], struct.pack("<4f", *floats)),
         "equal": ("F32", [4], struct.pack("<4f", *floats)),
         "narrow": ("F32", [2, 2], struct.pack("<4f", *floats)),
         "large": ("I64", [2], struct.pack("<2q", 1 << 60, 5)),
         "complex": ("C64", [1], struct.pack("<2f", 3, 4)),
         "nan": ("F64", [2], struct.pack("<2d", math.nan, 1)),
         "new_nan": ("F64", [2], struct.pack("<2d", 2, 1)),
         "was_zero": ("F16", [2], struct.pack("<2e", 0, 0)),
         "packed": ("F4", [4], b"\x12\x34"),
         "other_packed": ("F4", [4], b"\x12\x34"),
         "shape": ("F32", [4], struct.pack("<4f", *floats))}
    b = dict(a)
    b["w"] = ("F32", [4], struct.pack("<4f", 1, -2, -0.0, 9.5))
    b["narrow"] = ("BF16", [2, 2], b"".join(struct.pack("<f", x)[2:] for x in (1, -2, 0, 10)))
    b["large"] = ("I64", [2], struct.pack("<2q", (1 << 60) + 1, 5))
    b["complex"] = ("C64", [1], struct.pack("<2f", 3, 7))
    b["nan"] = ("F64", [2], struct.pack("<2d", math.nan, 1.5))
    b["new_nan"] = ("F64", [2], struct.pack("<2d", math.nan, 1))
    b["was_zero"] = ("F16", [2], struct.pack("<2e", 0, 0.5))
    b["packed"] = ("F4", [4], b"\x12\x36")
    b["other_packed"] = ("U8", [2], b"\x12\x34")
    b["shape"] = ("F32", [2, 2], struct.pack("<4f", *floats))
    write_safetensors(tmp / "a.safetensors", a)
    write_safetensors(tmp / "b.safetensors", b)
    r = cairn("diff", tmp / "a.safetensors", tmp / "b.safetensors", "--stats")
    plain = cairn("diff", tmp / "a.safetensors", tmp / "b.safetensors")
    lines, without = r.stdout.decode().splitlines(), plain.stdout.decode().splitlines()
    check("diff --stats: what diff prints stays", plain.returncode == r.returncode == 1 and
          lines[:len(without) - 1] == without[:-1] and lines[-1] == without[-1], said(r))
    shown = [line.split() for line in lines[len(without) - 1:-1]]
    norm = math.sqrt(1 + 4 + 64)
    want = [["new_nan", "float64", "[2]", "inf", "inf", "1"],
            ["complex", "complex64", "[1]", "3", f"{3 / 5:g}", "1"],
            ["narrow", "float32", "bfloat16", "[2,", "2]", "2", f"{2 / norm:.6g}", "1"],
            ["packed", "float4_e2m1fn_x2", "[2]", "2", f"{2 / math.hypot(0x12, 0x34):.6g}", "1"],
            ["w", "float32", "[4]", "1.5", f"{1.5 / norm:.6g}", "2"],
            ["large", "int64", "[2]", "1", f"{2 ** -60:.6g}", "1"],
            ["nan", "float64", "[2]", "0.5", "0.5", "1"],
            ["was_zero", "float16", "[2]", "0.5", "inf", "1"]]
    check("diff --stats: the largest change first, whatever the dtypes",
          [x[:-2] for x in shown[1:]] == want, f"{shown}")
    r = cairn("diff", tmp / "a.safetensors", tmp / "a.safetensors", "--stats")
    check("diff --stats: nothing", r.returncode == 0 and
          r.stdout == b"equal: 11 entries\n", said(r))
    r = cairn("diff", tmp / "large", tmp / "large", "--stats")
    check("diff --stats: in pieces", r.returncode == 0, said(r))


def main():
    with tempfile.TemporaryDirectory() as d:
        tmp = pathlib.Path(d)
        made = subprocess.run([FIXTURES, d], capture_output=True)
        check("the fixtures are written", made.returncode == 0, made.stderr)
        golden()
        every_dtype(tmp)
        histograms(tmp)
        shown(tmp)
        damaged(tmp)
        not_whole()
        changes(tmp)
        opened = files_opened(("stats", tmp / "small"))
        check("5000 tensors: not a file opened for each", opened is None or opened < 20, opened)
    sys.exit(end())


main()
