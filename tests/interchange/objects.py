#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Items of values that are no tensors: cairn's bytes against torch.save's.

    objects.py BUILD

Both sides make the same values from the same seeds; the bytes must be equal. Where a program
shares objects that are only equal, CPython's memo makes the bytes differ: then what cairn writes
must load equal. Prints one line a check and `N passed, N failed`.
"""
import io, math, os, struct, subprocess, sys, tempfile

import torch
sys.path.insert(0, f"{os.path.dirname(os.path.abspath(__file__))}/../support")
from checks import check, end

BUILD = os.path.abspath(sys.argv[1])
OBJECTS = f"{BUILD}/tests/interchange/objects"
SEED, COUNT = 20240229, 2000



# The generator of objects.cpp, rule by rule. Values are made fresh, so that nothing is shared
# that is only equal, but for the keys of dicts.
class Draws:
    def __init__(self, x): self.x = x % 2**64

    def __call__(self, n):
        self.x = (self.x * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.x >> 33) % n


EDGES = [0, 1, 2, 127, 128, 255, 256, 32767, 65535, 65536, 2147483647, 2147483648, 2**40, 2**63 - 1]
SPECIAL = [0.0, -0.0, 0.1, 1e300, 5e-324, math.inf]
LETTERS = ["a", "Z", "_", "\n", "é", "ÿ", "Ā", "✓", "😀", " "]
LENGTHS = [0, 1, 2, 3, 4, 999, 1000, 1001, 2000, 2001]


def fresh(s): return s.encode().decode()


def text(draw, n): return fresh("".join([LETTERS[draw(len(LETTERS))] for _ in range(n)]))


def number(draw):
    i, form = EDGES[draw(len(EDGES))], draw(3)
    return (i, -i, -i - 1)[form]


def dictionary(draw, depth):
    d = {}
    for i in range(draw(5)):
        name = draw(4)
        key = i if draw(6) == 0 else sys.intern(f"key {name * 8 + i}")
        d[key] = make(draw, depth + 1)
    return d


def long_one(draw):
    n, kind = LENGTHS[draw(len(LENGTHS))], draw(4)
    if kind == 0: return list(range(n))
    if kind == 1: return tuple(range(n))
    if kind == 2: return [f"name {i}" for i in range(n)]
    return {sys.intern(f"key {i}"): i for i in range(n)}


def make(draw, depth):
    kind = draw(14 if depth < 4 else 9)
    if kind == 0: return None
    if kind == 1: return draw(2) != 0
    if kind == 2: return number(draw)
    if kind == 3:
        n = 1 + draw(300)
        return int.from_bytes(bytes([draw(256) for _ in range(n)]), "little", signed=True)
    if kind == 4:
        if draw(2) == 0: return SPECIAL[draw(len(SPECIAL))]
        return (draw(2001) - 1000) / 8
    if kind == 5: return text(draw, draw(4))
    if kind == 6: return text(draw, draw(300))
    if kind in (7, 8):
        n = draw(4 if kind == 7 else 300)
        return bytes([draw(256) for _ in range(n)])
    if kind == 9: return long_one(draw)
    if kind in (10, 11):
        n = draw(5)
        return [make(draw, depth + 1) for _ in range(n)]
    if kind == 12:
        n = draw(6)
        return tuple([make(draw, depth + 1) for _ in range(n)])
    return dictionary(draw, depth)


def saved(v):
    f = io.BytesIO()
    torch.save(v, f)
    return f.getvalue()


def records(path):
    with open(path, "rb") as f:
        while head := f.read(8):
            yield f.read(struct.unpack("<Q", head)[0])


def recoded(items, tmp):
    with open(f"{tmp}/in", "wb") as f:
        for item in items: f.write(struct.pack("<Q", len(item)) + item)
    r = subprocess.run([OBJECTS, "recode", f"{tmp}/in", f"{tmp}/out"], capture_output=True)
    check(f"cairn reads {len(items)} items of PyTorch's", r.returncode == 0, r.stderr)
    return list(records(f"{tmp}/out"))


def same(a, b):
    """Equal to the type, the sign of zero and the order of keys."""
    if type(a) is not type(b): return False
    if isinstance(a, float): return struct.pack("<d", a) == struct.pack("<d", b)
    if isinstance(a, (list, tuple)): return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict): return same(list(a.items()), list(b.items()))
    return a == b


def first_difference(mine, theirs, values):
    for i, v in enumerate(values):
        if mine[i] != theirs[i]:
            at = next((k for k, (x, y) in enumerate(zip(mine[i], theirs[i])) if x != y), -1)
            return (f"value {i}, byte {at}: {mine[i][at - 8:at + 8]!r} instead of "
                    f"{theirs[i][at - 8:at + 8]!r} in {repr(v)[:200]}")
    return None


def shared():
    """Programs that share, by identity, what a value can only repeat."""
    word, blob, pair, inner = fresh("two words"), bytes(range(9)), (1.5, fresh("x y")), [1, 2]
    return [[word, word, word], {word: word}, [blob, blob], (pair, pair), [inner, inner],
            {"a": pair, "b": [pair, {"c": pair}]}]


def main():
    values = [make(Draws(SEED * 1000003 + i), 0) for i in range(COUNT)]
    edges = [f(n) for n in (0, 1, 2, 3, 4, 255, 256, 257, 999, 1000, 1001, 1999, 2000, 2001, 3000)
             for f in (lambda n: list(range(n)), lambda n: tuple(range(n)),
                       lambda n: [f"s {i}" for i in range(n)],
                       lambda n: [bytes([i % 256, i // 256]) for i in range(n)],
                       lambda n: [[i] for i in range(n)], lambda n: [(i,) for i in range(n)],
                       lambda n: {i: i for i in range(n)},
                       lambda n: {f"k {i}": {"lr": 0.1, "name": f"n {i}"} for i in range(n)})]
    edges += [b"", b"\0", b"\xff", [b"", b""], [b"\x80", b"\x80", "\x80"], ["é", "é", "", ""],
              [b"ab", b"cd", b"ab"[:1]], 2**31, -2**31, -2**31 - 1, 2**2000, -2**2039, -2**2047,
              "x" * 70000, b"\xf0" * 70000, [None, True, False, 1, 1.0, -0.0], [[], {}, ()]]
    with tempfile.TemporaryDirectory() as tmp:
        r = subprocess.run([OBJECTS, "make", str(SEED), str(COUNT), f"{tmp}/made"],
                           capture_output=True)
        check(f"cairn makes {COUNT} values of seed {SEED}", r.returncode == 0, r.stderr)
        made, theirs = list(records(f"{tmp}/made")), [saved(v) for v in values]
        check("as many as PyTorch", len(made) == COUNT)
        loaded = sum(same(torch.load(io.BytesIO(m), weights_only=False), v)
                     for m, v in zip(made, values))
        check("PyTorch loads them equal to its own", loaded == COUNT, f"{loaded} of {COUNT}")
        why = first_difference(made, theirs, values)
        check(f"{COUNT} items are torch.save's, byte for byte", why is None, why)
        for name, some in (("random", values), ("at the edges of batches and sizes", edges)):
            theirs = [saved(v) for v in some]
            why = first_difference(recoded(theirs, tmp), theirs, some)
            check(f"{len(some)} values {name}, read and written again, keep their bytes",
                  why is None, why)
        some = shared()
        again = recoded([saved(v) for v in some], tmp)
        check("shared objects load equal", all(
            same(torch.load(io.BytesIO(m), weights_only=False), v) for m, v in zip(again, some)))
    sys.exit(end())


if __name__ == "__main__":
    main()
